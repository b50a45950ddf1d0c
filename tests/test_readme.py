"""The README's map of the package is true: every file, with the first sentence of its own docstring."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def package_map() -> str:
    """One line per module that says something: its path and the first line of its docstring."""
    lines = []
    for path in sorted((ROOT / "tsimpute").rglob("*.py"), key=lambda p: (len(p.parts), str(p))):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        if text:
            lines.append(f"{path.relative_to(ROOT / 'tsimpute').as_posix():34} {text.splitlines()[0]}")
    return "\n".join(lines)


def test_map_of_the_package_is_true() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert package_map() in readme, f"put this into README.md:\n{package_map()}"


def test_every_module_says_what_it_is() -> None:
    for path in (ROOT / "tsimpute").rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        assert not source.strip() or ast.get_docstring(ast.parse(source)), f"{path} has no docstring"


def test_api_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ten lines of Python in the README, on fewer epochs."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code = readme.split("```python\n")[1].split("```")[0]
    assert "epochs=40" in code
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(code.replace("epochs=40", "epochs=1"), names)
    assert names["samples"].n_samples == 100
    assert names["frame"].provenance.isin(["observed", "imputed"]).all()
    assert (tmp_path / "model.safetensors").is_file()
