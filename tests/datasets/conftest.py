"""Real data, read once for all tests of data sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tsimpute.core.windows import Windows
from tsimpute.datasets.physionet2012 import PhysioNet2012
from tsimpute.datasets.pm25 import PM25


@pytest.fixture(scope="session")
def real_stays(data_root: Path) -> Windows:
    """PhysioNet 2012 with default options; not to be written to."""
    return PhysioNet2012().load(data_root)


@pytest.fixture(scope="session")
def real_pm25(data_root: Path) -> Windows:
    """PM2.5 with default options; not to be written to."""
    return PM25().load(data_root)
