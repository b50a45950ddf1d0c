"""The wheel, installed into a new environment elsewhere: everything is in it, and the quick start runs from there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("hatchling", reason="NO HATCHLING: install the extra dev to build a wheel")

ROOT = Path(__file__).parent.parent
HAS_COMPILER = sys.platform != "win32" and any(map(shutil.which, ("cc", "gcc", "clang")))
QUICKSTART = json.loads((ROOT / "notebooks" / "01_quickstart.ipynb").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--wheel-dir", folder]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, ROOT], check=True, env=without_checkout())
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an environment `env` that holds the wheel; what the wheel needs comes from this environment."""
    folder = tmp_path_factory.mktemp("elsewhere")
    env = folder / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", env], check=True)
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
    subprocess.run([sys.executable, "-m", "pip", "--python", env, "install", *options, wheel], check=True)
    # Only now: pip would take this environment's own installation for the wheel's.
    paths = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    packages = sysconfig.get_path("purelib", vars={"base": str(env), "platbase": str(env)})
    Path(packages, "of_the_other_environment.pth").write_text("\n".join(paths))
    return folder


def without_checkout(**variables: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables


def run(folder: Path, *words: str, **variables: str) -> str:
    """What a program of the new environment prints, run outside the checkout."""
    command = [folder / "env" / ("Scripts" if os.name == "nt" else "bin") / words[0], *words[1:]]
    done = subprocess.run(
        command, cwd=folder, env=without_checkout(**variables), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


ONLY = """
import sys
import tempfile
from pathlib import Path

class Only:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {*sys.stdlib_module_names, "tsimpute", *sys.argv[1:]}:
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Only())
from tsimpute.system import native
assert not native.is_switched_off()
with tempfile.TemporaryDirectory() as folder:
    print(len(native.compile_for_wheel(Path("tsimpute/backbones/row_attention.c"), Path(folder), HEAD=8)))
"""


@pytest.mark.skipif(not HAS_COMPILER, reason="NO C COMPILER: the wheel has no compiled library")
def test_the_build_needs_no_more_than_it_requires() -> None:
    """As pip builds it, with what the build requires alone; the other tests build in this whole environment."""
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    names = [re.split(r"[<>=~! ]", one)[0] for one in requires]
    command = [sys.executable, "-c", ONLY, *names]
    done = subprocess.run(command, cwd=ROOT, env=without_checkout(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 1


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if name.startswith("tsimpute/")}
    package = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tsimpute").rglob("*") if path.is_file()}
    assert {path for path in package if "__pycache__" not in path} == {
        path for path in files if "/compiled/" not in path
    }
    assert any("/compiled/" in path for path in files) == HAS_COMPILER


def test_a_wheel_with_compiled_libraries_is_for_its_platform(wheel: Path) -> None:
    assert wheel.stem.endswith("-any") != HAS_COMPILER
    assert "-py3-none-" in wheel.stem


@pytest.mark.skipif(not HAS_COMPILER, reason="NO C COMPILER: the wheel has no compiled library")
def test_the_wheels_library_is_used_without_a_compiler(elsewhere: Path) -> None:
    text = run(elsewhere, "tsimpute", "doctor", CC="no-such-compiler", XDG_CACHE_HOME=str(elsewhere / "cache"))
    (line,) = [line for line in text.splitlines() if line.startswith("compiled attention:")]
    assert f"in use, from the wheel: {elsewhere}" in line
    assert not (elsewhere / "cache").exists()


def test_the_quick_start_runs_from_the_wheel(elsewhere: Path) -> None:
    cells = ["".join(cell["source"]) for cell in QUICKSTART["cells"] if cell["cell_type"] == "code"]
    code = "\n".join(cells).replace("%matplotlib inline\n", "")
    for whole, small in (("epochs=40", "epochs=1"), ("n_records=160", "n_records=60"), ("n_samples=20", "n_samples=5")):
        assert whole in code
        code = code.replace(whole, small)
    (elsewhere / "quickstart.py").write_text(f"{code}\nprint(ti.__file__)\nprint(reports[0].value('crps'))\n")
    *_, file, crps = run(elsewhere, "python", "quickstart.py", MPLBACKEND="agg").splitlines()
    assert elsewhere in Path(file).parents
    assert 0 < float(crps) < 1


def test_the_command_fills_a_file_with_the_bundled_model(elsewhere: Path) -> None:
    (elsewhere / "stay.csv").write_text("Hour,HR,Temp,Na\n0,80,36.5,140\n1,,36.6,\n2,84,,\n3,85,36.8,141\n")
    options = ["--model", "physionet2012", "--units", "HR=bpm,Temp=degC,Na=mEq/L", "--n_samples", "5"]
    run(elsewhere, "tsimpute", "impute", "stay.csv", "-o", "filled.csv", *options)
    rows = [line.split(",") for line in (elsewhere / "filled.csv").read_text().splitlines()]
    assert [row[0] for row in rows] == ["Hour", "0", "1", "2", "3"]
    assert all(float(cell) for row in rows[1:] for cell in row[1:])
