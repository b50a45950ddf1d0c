"""Imports point down, importing the package is cheap, and functions and files stay short."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

import tsimpute

ROOT = Path(tsimpute.__file__).parent

LAYERS = """
errors
system core
config scaling tables/text
backbones processes solvers datasets tasks batches tables/columns
generative models gaussian tables/time
training imputers/shared tables/clock
imputers/network peers tables/roles
imputers tables/frames
evaluation tables/arrays screening
plots tables/sources
reports experiments filling/panels
suites filling/measuring filling/learning
filling/methods
filling/blending
filling/preparing
filling/imputer
filling/files
accessors testing
cli
__main__
"""
"""From the bottom up: a folder imports folders of the lines above its own, and none of its own line."""

LAYER_OF = {folder: at for at, line in enumerate(LAYERS.split("\n")) for folder in line.split()}
LOOSE = {"__init__", "__main__", "errors", "accessors"}
PLUG_INS = ["datasets", "backbones", "processes", "solvers", "imputers", "peers"]


def files() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def module_of(path: Path) -> str:
    parts = ("tsimpute", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def folder_of(module: str) -> str:
    """``tables/text`` of ``tsimpute.tables.text.numbers``; a loose module stands for itself."""
    path = ROOT.joinpath(*module.split(".")[1:])
    folder = path if path.is_dir() else path.parent
    return path.name if folder == ROOT else folder.relative_to(ROOT).as_posix()


@cache
def imports() -> dict[str, set[str]]:
    """Module -> modules of the package that it imports, wherever in it and be it for types alone."""
    names = {module_of(path) for path in files()}
    imported: dict[str, set[str]] = {}
    for path in files():
        below = imported.setdefault(module_of(path), set())
        if path == ROOT / "__init__.py":  # the table of public names
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                below |= {alias.name for alias in node.names} & names
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{path}: relative import"
                whole = {f"{node.module}.{alias.name}" for alias in node.names}
                below |= whole & names or {str(node.module)} & names
    return imported


def test_nothing_lies_loose_beside_the_folders():
    assert {path.stem for path in ROOT.glob("*.py")} == LOOSE
    for folder in ("tables", "filling"):  # they have folders of their own
        assert [path.name for path in (ROOT / folder).glob("*.py")] == ["__init__.py"]


def test_every_folder_has_a_layer():
    assert {folder_of(module) for module in imports()} - {"tsimpute", "tables", "filling"} <= set(LAYER_OF)


def test_the_map_for_contributors_shows_the_layers():
    text = (ROOT.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    shown = text.split("```text\n")[1].split("```")[0].split("\n")
    assert [set(line.split()) for line in shown if line][::-1] == [
        set(line.split()) for line in LAYERS.split("\n") if line
    ]


def test_imports_point_down():
    arrows = [(m, other) for m, below in imports().items() for other in below if other != "tsimpute"]
    across = [(m, other) for m, other in arrows if folder_of(m) != folder_of(other)]
    wrong = [f"{m} imports {other}" for m, other in across if LAYER_OF[folder_of(other)] >= LAYER_OF[folder_of(m)]]
    assert not wrong, "\n".join(wrong)


def test_modules_form_no_circle():
    assert TopologicalSorter(imports()).prepare() is None  # raises CycleError, which names the circle


def test_the_walk_sees_the_imports():
    arrows = {(folder_of(m), folder_of(other)) for m, below in imports().items() for other in below}
    assert {("training", "generative"), ("imputers", "training"), ("cli", "experiments")} <= arrows


@pytest.mark.parametrize("folder", PLUG_INS)
def test_plug_ins_do_not_import_each_other(folder: str):
    from tsimpute.config import registry

    plug_ins = {registry.plugin(folder, name).__module__ for name in registry.available(folder)}
    assert len(plug_ins) >= 2
    for plug_in in plug_ins:
        assert not imports()[plug_in] & plug_ins, plug_in


def python_of_scripts() -> Iterator[tuple[str, ast.Module]]:
    """The Python that stands in the scripts of the shell: after ``<<'PY'``, or as ``-c '...'``."""
    for path in sorted((ROOT.parent / "scripts").iterdir()):
        if path.is_file():
            for heredoc, quoted in re.findall(
                r"<<'PY'\n(.*?)\nPY|-c '\n(.*?)\n'", path.read_text(encoding="utf-8"), re.S
            ):
                yield path.name, ast.parse(heredoc or quoted)


def test_scripts_import_what_there_is():
    checked = set()
    for script, tree in python_of_scripts():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("tsimpute"):
                module = import_module(str(node.module))
                for alias in node.names:
                    assert hasattr(module, alias.name) or module_exists(f"{node.module}.{alias.name}"), (
                        script,
                        alias.name,
                    )
                    checked.add(script)
    assert checked == {"few_steps", "intervals"}


def test_test_files_have_names_of_their_own():
    """Two of one name are one module to pytest, which then collects none of all tests."""
    names = [path.name for path in (ROOT.parent / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


def module_exists(name: str) -> bool:
    return name in {module_of(path) for path in files()}


def test_importing_the_package_is_silent_and_loads_nothing_heavy():
    heavy = ["torch", "matplotlib", "tsdb", "pygrinder", "torchcfm", "pandas", "xarray", "scoringrules", "numpy"]
    code = f"import sys, tsimpute; sys.exit(' '.join(m for m in {heavy!r} if m in sys.modules) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


PUBLIC = """
Batch Condition EvaluationConfig EvaluationContext Feature GenerativeImputer Imputation ImputationWarning Limits
LinearImputer LocfImputer MeanImputer MedianImputer NetworkConfig ProcessConfig ProtocolConfig Report RunConfig Samples
SamplingConfig TableImputer TrainingConfig Windows clean csdi describe draw_lazily evaluate fill_file impute
impute_lazily load_windows pool to_dataset to_frame transductive
"""
"""What users import; a name that comes or goes changes this list and the changelog."""


def test_every_public_name_is_there():
    assert sorted(tsimpute.__all__) == sorted(tsimpute._MODULE_OF) == sorted(PUBLIC.split())
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
    exempt = {"system/terminal.py", "__main__.py", "tasks/missingness.py", "suites/checkpoints.py"}
    for path in files():
        if path.parent.name == "cli" or path.relative_to(ROOT).as_posix() in exempt:
            continue
        calls = {ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)}
        assert not calls & forbidden, path


NOT_OF_DRAWS = {
    "datasets/describing.py": "of observed values",
    "suites/densities.py": "of points of a density",
    "suites/paired.py": "of 2,000 resamples of records",
    "filling/measuring/calibration.py": "the conformal rank among scores of cells",
    "filling/preparing/prepare.py": "of observed values",
    "batches/loading.py": "of counts of cells",
}
"""Modules that may take other quantiles than those of ``tsimpute.core.quantiles``, and of what."""


def test_quantiles_of_draws_have_one_definition():
    names = ("quantile", "nanquantile", "percentile", "nanpercentile")
    others = {f"{module}.{name}" for module in ("np", "numpy", "torch", "pd") for name in names}
    users = set()
    for path in files():
        calls = {ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)}
        if calls & others:
            users.add(path.relative_to(ROOT).as_posix())
    assert not users - set(NOT_OF_DRAWS), "use tsimpute.core.quantiles, or name here what the quantiles are of"
