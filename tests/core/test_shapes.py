"""What holds arrays shows their shapes, not their numbers."""

from __future__ import annotations

import numpy as np

import tsimpute as ti
from tsimpute.core.windows import Feature


def test_windows_of_a_million_values_are_shown_in_a_line():
    windows = ti.Windows(
        np.zeros((1000, 10, 100)), np.tile(np.arange(100.0), (1000, 1)), tuple(Feature(f"f{k}") for k in range(10)),
        tuple(map(str, range(1000))),
    )  # fmt: skip
    shown = repr(windows)
    assert shown.startswith("Windows(values=<float64 (1000, 10, 100)>, times=<float64 (1000, 100)>, features=(Feature(")
    assert "record_ids=('0', ..., '999'; 1,000)" in shown
    assert "held_out=None" in shown
    assert len(shown) < 400
    assert str(windows) == shown


def test_short_tuples_and_parts_are_shown_whole():
    windows = ti.Windows(np.zeros((1, 1, 2)), np.arange(2.0)[None], (Feature("a"),), ("x",))
    assert "record_ids=('x',)" in repr(windows)
    assert "features=(Feature(name='a', unit='', given=False),)" in repr(windows)


def test_an_imputation_says_what_its_cells_are():
    import pandas as pd

    frame = pd.DataFrame({"a": np.where(np.arange(40) % 5, np.arange(40.0) % 7.3 - 3, np.nan)})
    filled = ti.TableImputer(effort="trial", n_samples=3, calibrate=False).fit(frame).draw(frame)
    assert repr(filled) == "Imputation(DataFrame: 32 observed, 8 imputed)"
