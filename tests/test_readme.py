"""The README's example runs, and every module says what it is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


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
