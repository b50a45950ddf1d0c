"""Fixtures shared by all tests; tests on real data are skipped, and counted at the end, where it is absent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings

from tsimpute.core.windows import Feature, Windows

# The suite tries the same cases every time, so that a change is to blame when it fails; scripts/fuzz tries new ones.
settings.register_profile("suite", derandomize=True, deadline=None)
settings.register_profile(
    "fuzz", deadline=None, print_blob=True, max_examples=100 * int(os.environ.get("FUZZ_TIMES", "1"))
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


def _root() -> Path | None:
    given = os.environ.get("TSIMPUTE_DATA")
    return Path(given) if given else None


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real data sets, from TSIMPUTE_DATA."""
    root = _root()
    if root is None or not root.is_dir():
        pytest.skip("REAL DATA ABSENT: set TSIMPUTE_DATA to the folder that holds physionet2012/ and pm25/")
    return root


@pytest.fixture(scope="session")
def reference_root(data_root: Path) -> Path:
    """The folder of frozen reference numbers, beside the data."""
    root = data_root.parent / "reference"
    if not root.is_dir():
        pytest.skip("REFERENCE NUMBERS ABSENT: expected a folder `reference` beside TSIMPUTE_DATA")
    return root


@pytest.fixture
def small_windows() -> Windows:
    """Six records of 3 features and 8 steps in different units, a third missing; one record never saw feature 2."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(6, 3, 8)) * np.array([1.0, 20.0, 300.0])[:, None] + np.array([0.0, 80.0, -5.0])[:, None]
    values[rng.random(values.shape) < 0.33] = np.nan
    values[4, 2] = np.nan
    return Windows(
        values=values,
        times=np.tile(np.arange(8.0), (6, 1)),
        features=(Feature("HR", "bpm"), Feature("Temp", "degC"), Feature("Urine", "mL")),
        record_ids=tuple(f"r{i}" for i in range(6)),
    )


SLOW = """
backbones/test_row_attention cases cli contracts/test_imputers datasets experiments
filling/blending filling/files filling/imputer filling/learning filling/measuring filling/methods
filling/panels/test_calendar filling/stores
gaussian generative imputers models peers plots reports suites system/test_threads
tables/frames/test_filled_frames tables/text/test_delimited tasks training
test_accessors test_alone test_benchmarks test_evidence test_examples test_gpu_scripts test_notebooks test_readme
test_testing test_wheel test_zip
"""
"""Folders and files whose tests train networks, start programs, fill whole files or search many cases.
``scripts/test --quick`` leaves them out, and CI runs them. A slow test elsewhere is marked ``slow`` where it stands."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    slow = [here / name for name in SLOW.split()]
    for item in items:
        if any(path in (item.path.with_suffix(""), *item.path.parents) for path in slow):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def same_random_numbers(request: pytest.FixtureRequest) -> None:
    """The generator ``RNG`` of a test's module begins anew in each test: none depends on which tests ran before."""
    generator = getattr(request.module, "RNG", None)
    if generator is not None:
        state = _AFTER_IMPORT.setdefault(request.module.__name__, generator.bit_generator.state)
        generator.bit_generator.state = state


_AFTER_IMPORT: dict[str, Any] = {}
"""By test module, the state of its ``RNG`` before its first test."""


@pytest.fixture(autouse=True)
def torch_threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """As many of torch's threads as the mark ``threads`` says; what a test sets does not reach the next one."""
    before = torch.get_num_threads()
    mark = request.node.get_closest_marker("threads")
    if mark is not None:
        torch.set_num_threads(*mark.args)
    yield
    torch.set_num_threads(before)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    absent = [r for r in terminalreporter.stats.get("skipped", []) if "ABSENT" in str(r.longrepr)]
    if absent:
        text = f"WARNING: {len(absent)} tests on real data were SKIPPED; set TSIMPUTE_DATA."
        terminalreporter.write_line(text, red=True)
