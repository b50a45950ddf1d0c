"""A folder is worked in by one process at a time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tsimpute.errors import BusyError
from tsimpute.system.files import exclusive_lock

HOLD = """
import sys
from pathlib import Path
from tsimpute.system.files import exclusive_lock
with exclusive_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_by_another(folder: Path) -> Iterator[subprocess.Popen]:
    """Another process is at work in the folder until the end of the block."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        try:
            yield other
        finally:
            other.kill()


def test_a_second_process_is_refused_and_a_killed_one_leaves_the_folder_free(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with held_by_another(folder) as other:
        with pytest.raises(BusyError, match="expected to be alone here, another process"), exclusive_lock(folder):
            pass
        other.kill()
        other.wait()
        with exclusive_lock(folder):
            pass
    with exclusive_lock(folder):
        pass


def test_no_folder_is_always_free() -> None:
    with exclusive_lock(None), exclusive_lock(None):
        pass


def test_a_training_in_a_folder_in_use_is_refused_with_nothing_changed(tmp_path: Path) -> None:
    import tsimpute as ti

    task = ti.clean(ti.load_windows("synthetic", n_records=20), rate=0.2, seed=1)
    small = ti.NetworkConfig(options={"width": 8, "n_heads": 1, "n_blocks": 1})
    imputer = ti.GenerativeImputer(network=small, training=ti.TrainingConfig(epochs=1))
    with held_by_another(tmp_path), pytest.raises(BusyError):
        next(imputer.fit_steps(task.train, folder=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    for step in imputer.fit_steps(task.train, folder=tmp_path):
        assert step.step > 0
    assert (tmp_path / "last.safetensors").exists()
