"""Data sets by name."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tsimpute.config.registry import available, make
from tsimpute.errors import ConfigError


def test_options_reach_the_adapter() -> None:
    assert make("datasets", "pm25", valid_month=2).valid_month == 2  # type: ignore[attr-defined]


def test_unknown_name_lists_those_that_exist() -> None:
    for name in ("physionet", "base", "fetching", "__init__", "../pm25", ""):
        with pytest.raises(
            ConfigError, match=r"expected one of densities, physionet2012, pm25, synthetic, uci.*; came"
        ):
            make("datasets", name)


def test_unknown_option_lists_those_that_exist() -> None:
    with pytest.raises(ConfigError, match=r"pm25: unknown option month, window; it has valid_month, window_steps"):
        make("datasets", "pm25", window=3, month=1)


def test_looking_at_the_list_imports_no_data_set_and_making_one_no_heavy_package() -> None:
    code = (
        "import sys; from tsimpute.config.registry import available, make; names = available('datasets');"
        "assert not any(f'tsimpute.datasets.{name}' in sys.modules for name in names);"
        "[make('datasets', name) for name in names]; import tsimpute.datasets.fetching, tsimpute.datasets.describing;"
        "print([m for m in ('pandas', 'tsdb', 'pygrinder', 'matplotlib', 'requests') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert available("datasets") == ["densities", "physionet2012", "pm25", "synthetic", "uci"]
