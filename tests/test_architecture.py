"""Imports point down, importing the package is cheap, and functions and files stay short."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import tsimpute

ROOT = Path(tsimpute.__file__).parent

LAYERS = (
    {
        "errors",
        "files",
        "seeding",
        "config",
        "config_files",
        "registry",
        "places",
        "native",
        "threads",
        "blas",
        "terminal",
    },
    {"shapes", "limits", "quantiles", "windows", "panel", "containers"},
    {"backbones", "processes", "solvers", "metrics", "pipeline", "datasets"},
    {"gaussian", "objective", "gradients", "sampling", "joining", "checkpoints", "devices", "progress"},
    {"training"},
    {"imputers"},
    {"peers"},
    {"evaluation", "reporting", "plots", "pages", "tables", "pretrained", "runs", "few_steps"},
    {"filling", "suites", "demo", "testing"},
    {"cli", "cli_parsing", "cli_doctor", "cli_suites", "cli_tables", "cli_words", "accessors", "__main__"},
)
"""From the bottom up: a part may import any part of a layer below."""

PART_OF = {"ensembles": "metrics", "kept_samples": "evaluation"}
"""Modules that are details of another part."""

SIBLINGS = LAYERS[2]
"""Parts of this layer never import each other; within the other layers arrows may not form a circle."""


def files() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def part(module: str) -> str:
    """The part that a module ``tsimpute.x.y`` belongs to."""
    name = module.removeprefix("tsimpute").lstrip(".").split(".")[0]
    return PART_OF.get(name, name)


def part_of_file(path: Path) -> str:
    return part("tsimpute." + path.relative_to(ROOT).with_suffix("").parts[0])


@cache
def imports() -> list[tuple[str, str, str]]:
    """(file and line, its part, the part that it imports) for every import of the package, wherever it stands."""
    found = []
    for path in files():
        if path == ROOT / "__init__.py":  # the table of public names; it imports none of them itself
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{path}: relative import"
                names = [node.module or ""]
                if node.module == "tsimpute":
                    names = [f"tsimpute.{alias.name}" for alias in node.names]
            for name in names:
                if name.split(".")[0] == "tsimpute" and part(name) != part_of_file(path):
                    found.append((f"{path.relative_to(ROOT)}:{node.lineno}", part_of_file(path), part(name)))
    return found


def layer(name: str) -> int:
    at = [i for i, names in enumerate(LAYERS) if name in names]
    assert at, f"{name}: a new part; give it a place in LAYERS"
    return at[0]


def test_every_part_has_a_layer():
    parts = {part_of_file(path) for path in files()} - {"__init__"}
    assert not parts - set().union(*LAYERS)


def test_no_import_points_up_or_to_a_sibling():
    wrong = [
        f"{where}: {importer} imports {imported}"
        for where, importer, imported in imports()
        if imported not in ("", "__version__")
        and (layer(imported) > layer(importer) or (importer in SIBLINGS and imported in SIBLINGS))
    ]
    assert not wrong, "\n".join(wrong)


def test_parts_form_no_circle():
    below: dict[str, set[str]] = {}
    for _, importer, imported in imports():
        below.setdefault(importer, set()).add(imported)
    assert TopologicalSorter(below).prepare() is None  # raises CycleError


def test_the_walk_sees_the_imports():
    arrows = {(importer, imported) for _, importer, imported in imports()}
    assert {("training", "objective"), ("imputers", "training"), ("cli", "runs"), ("sampling", "solvers")} <= arrows


@pytest.mark.parametrize("folder", ["backbones", "processes", "solvers"])
def test_plug_ins_do_not_import_each_other(folder: str):
    from tsimpute import registry

    plugins = registry.available(folder)
    for name in plugins:
        text = (ROOT / folder / f"{name}.py").read_text()
        others = [other for other in plugins if other != name and f"tsimpute.{folder}.{other}" in text]
        assert not others, f"{folder}/{name}.py imports {others}"


def test_importing_the_package_is_silent_and_loads_nothing_heavy():
    heavy = ["torch", "matplotlib", "tsdb", "pygrinder", "torchcfm", "pandas", "xarray", "scoringrules", "numpy"]
    code = f"import sys, tsimpute; sys.exit(' '.join(m for m in {heavy!r} if m in sys.modules) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_public_name_is_there():
    assert len(tsimpute.__all__) >= 10
    for name in tsimpute.__all__:
        assert getattr(tsimpute, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tsimpute.nothing


def length(function: ast.FunctionDef) -> int:
    """Lines of a function without its docstring."""
    lines = (function.end_lineno or 0) - function.lineno + 1
    return lines - (ast.get_docstring(function, clean=False) or "").count("\n") - 1


def test_functions_have_at_most_60_lines_and_files_400():
    long = []
    for path in files():
        text = path.read_text()
        if text.count("\n") > 400:
            long.append(f"{path.relative_to(ROOT)}: {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and (lines := length(node)) > 60:
                long.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {lines} lines")
    assert not long, "\n".join(long)


def test_no_print_no_argument_parsing_and_no_global_seeds_in_the_library():
    forbidden = {"print", "ArgumentParser", "np.random.seed", "torch.manual_seed", "seed_everything"}
    # These two set and restore the global generators around pygrinder and users' own code, which take no seed.
    exempt = {"cli.py", "terminal.py", "__main__.py", "pipeline/missingness.py", "suites/own.py"}
    for path in files():
        if path.relative_to(ROOT).as_posix() in exempt:
            continue
        calls = {ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)}
        assert not calls & forbidden, path


NOT_OF_DRAWS = {
    "datasets/describing.py": "of observed values",
    "suites/paired.py": "of 2,000 resamples of records",
    "filling/calibration.py": "the conformal rank among scores of cells",
    "filling/preparing.py": "of observed values",
    "pipeline/loading.py": "of counts of cells",
}
"""Modules that may take other quantiles than those of ``tsimpute.quantiles``, and of what."""


def test_quantiles_of_draws_have_one_definition():
    names = ("quantile", "nanquantile", "percentile", "nanpercentile")
    others = {f"{module}.{name}" for module in ("np", "numpy", "torch", "pd") for name in names}
    found = set()
    for path in files():
        calls = {ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)}
        if calls & others:
            found.add(path.relative_to(ROOT).as_posix())
    assert not found - set(NOT_OF_DRAWS), "use tsimpute.quantiles, or name here what the quantiles are of"
