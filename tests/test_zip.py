"""The package imported from a zip, and from a zip without sources, as zipapp and frozen programs have it."""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import tsimpute

SCRIPT = """
import sys, tempfile
from pathlib import Path
import tsimpute as ti
from tsimpute.config import yaml_files as config_files, registry
from tsimpute.models import pretrained
from tsimpute.cli.commands import main
from tsimpute.system.native import compiled
from tsimpute.system.files import packaged
from tsimpute.reports.pages import render
from tsimpute.suites.settings import load_suite, shipped_suites

assert ".zip" in ti.__file__, ti.__file__
assert "torch" not in sys.modules
for kind in ("backbones", "processes", "solvers", "imputers", "datasets", "peers"):
    print(kind, *registry.available(kind))
assert "torch" not in sys.modules
if "--listing-only" in sys.argv:
    raise SystemExit
assert registry.make("solvers", "heun").order == 2
assert registry.make("datasets", "synthetic", n_records=3).load(None).values.shape[0] == 3
for name in config_files.shipped_configs():
    assert config_files.load_config(config_files.config_path(name)).data.name in name
for name in shipped_suites():
    assert load_suite(name).tasks
assert "Physio" in pretrained.card("physionet2012")
model = ti.GenerativeImputer.load(pretrained.model_path("physionet2012_cfmi"))
assert model.network.name in registry.available("backbones")
assert packaged("backbones", "row_attention.c").name == "row_attention.c"
assert "<h1>a &amp; b</h1>" in render("suite.html", title="a & b", summary="", overview=[], tasks=[], notes=[])
try:
    main(["--help"])
except SystemExit as end:
    assert not end.code
print("temporary", len(list(Path(tempfile.gettempdir()).glob("tsimpute-*"))))
"""


def zipped(folder: Path, with_sources: bool) -> Path:
    package = folder / "tsimpute"
    shutil.copytree(Path(tsimpute.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    if not with_sources:
        compileall.compile_dir(package, quiet=2, legacy=True, workers=1)
        for path in package.rglob("*.py"):
            path.unlink()
    archive = folder / "package.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(package.rglob("*")):
            file.write(path, path.relative_to(folder))
    shutil.rmtree(package)
    return archive


@pytest.mark.parametrize("with_sources", [True, False], ids=["sources", "compiled only"])
def test_the_package_works_from_a_zip(tmp_path: Path, with_sources: bool) -> None:
    archive, temporary = zipped(tmp_path, with_sources), tmp_path / "temporary"
    temporary.mkdir()
    variables = os.environ | {"PYTHONPATH": str(archive), "TMPDIR": str(temporary)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *(["--listing-only"] * (not with_sources))],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    from tsimpute.config import registry

    for kind in ("backbones", "processes", "solvers", "imputers", "datasets", "peers"):
        assert f"{kind} {' '.join(registry.available(kind))}\n" in done.stdout
    assert not list(temporary.glob("tsimpute-*"))
