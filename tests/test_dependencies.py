"""What the package imports is declared in pyproject.toml: always needed, or in an extra and imported on demand."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import tsimpute

PACKAGE = Path(tsimpute.__file__).parent
PROJECT = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OWN_ENVIRONMENT = {"peers/_pypots_worker.py", "backbones/grid_attention.py"}
"""Runs under another interpreter, which has what it imports; or on a GPU alone, with the Triton that torch brings."""


def name_of(requirement: str) -> str:
    """``jsonargparse[signatures]>=4.49`` -> ``jsonargparse``."""
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    return normal(name[0])


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


EXTRAS = PROJECT["optional-dependencies"]
NEEDED = {name_of(one) for one in PROJECT["dependencies"]}
OPTIONAL = {name_of(one) for extra, of_one in EXTRAS.items() if extra not in ("dev", "docs") for one in of_one}


@cache
def imports() -> dict[str, set[tuple[str, bool]]]:
    """By distribution: the files that import it, and whether they do so as soon as they are loaded."""
    owners, declared, by_distribution = packages_distributions(), NEEDED | OPTIONAL, {}
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        if file in OWN_ENVIRONMENT:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        at_once = {id(node) for node in tree.body}
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else names
            for top in {name.partition(".")[0] for name in names} - {"tsimpute"} - sys.stdlib_module_names:
                assert top in owners, f"{file}: {top} is not installed"
                of_one = {normal(owner) for owner in owners[top]}
                distribution = min(of_one & declared or of_one)
                by_distribution.setdefault(distribution, set()).add((file, id(node) in at_once))
    return by_distribution


def test_everything_that_is_imported_is_declared() -> None:
    for distribution, places in imports().items():
        assert distribution in NEEDED | OPTIONAL, f"{distribution}: imported by {sorted(places)}, declared nowhere"
        if distribution not in NEEDED:
            eager = {file for file, at_once in places if at_once}
            assert not eager, f"{distribution}: optional, and {sorted(eager)} import it as soon as they are loaded"


def test_everything_that_is_declared_is_used() -> None:
    """By an import, in a program that is run, or by name: pandas and others import what they need themselves."""
    texts = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    for distribution in (NEEDED | OPTIONAL) - set(imports()):
        assert re.search(rf'"{distribution}"|^import {distribution}$', texts, re.MULTILINE), distribution


def test_pillow_is_seen() -> None:
    assert ("reports/pages.py", False) in imports()["pillow"]


def test_the_package_says_that_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()
