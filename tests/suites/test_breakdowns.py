"""Lengths of gaps against a naive count, and parts of a breakdown against the scores of the same cells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tsimpute.core.windows import Feature, Windows
from tsimpute.evaluation.evaluate import evaluate
from tsimpute.imputers.simple import LinearImputer
from tsimpute.suites.scoring import BINS, LEVELS, breakdown, gap_lengths


@given(arrays(bool, st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(1, 40))))
def test_the_length_of_a_gap_is_what_counting_gives(shown: np.ndarray) -> None:
    lengths = gap_lengths(shown)
    for row, found in zip(shown.reshape(-1, shown.shape[-1]), lengths.reshape(-1, shown.shape[-1]), strict=True):
        runs = "".join("x" if s else "." for s in row)
        for step, length in enumerate(found):
            if row[step]:
                assert length == 0
            elif not row.any():
                assert length == -1
            else:
                left = len(runs[:step]) - len(runs[:step].rstrip("."))
                right = len(runs[step:]) - len(runs[step:].lstrip("."))
                assert length == left + right


def test_a_breakdown_splits_the_cells_by_gap_and_its_intervals_hold_what_was_counted(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3, 2, 30))
    held_out = np.zeros(values.shape, bool)
    held_out[:, 0, 5] = held_out[0, 1, 10:18] = True
    held_out[2, 1] = True  # no value is left of this feature
    windows = Windows(values, np.tile(np.arange(30.0), (3, 1)), (Feature("a"), Feature("b")), ("x", "y", "z"), held_out)
    evaluate(LinearImputer().fit(windows), windows, n_samples=3, keep_samples=tmp_path / "s.npz")
    parts = breakdown(windows, tmp_path / "s.npz")
    counts = {p.key: p.n_cells for p in parts if (p.kind, p.metric) == ("gap", "crps")}
    assert counts == dict.fromkeys(BINS, 0) | {"1": 3, "7-12": 8, "no value in the record": 30}
    assert {p.key for p in parts if p.value is None and p.metric == "crps"} == {"2-3", "4-6", "13-24", "25+"}
    mae = {p.key: p.value for p in parts if p.metric == "mae_median" and p.value is not None}
    expected = np.abs((values[:, 0, 4] + values[:, 0, 6]) / 2 - values[:, 0, 5]).mean()
    np.testing.assert_allclose(mae["1"], expected)
    intervals = [p for p in parts if p.kind == "interval"]
    assert [int(p.key) for p in intervals] == list(LEVELS)[:5], "three draws hold half of the truths at most"
    assert all(p.value == 0.0 and p.n_cells == 41 for p in intervals)  # one answer repeated holds nothing
