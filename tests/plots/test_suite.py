"""Pictures of a suite: what is drawn is what was measured."""

from __future__ import annotations

import numpy as np

from tsimpute import plots


def test_versus_draws_lines_levels_and_the_band_over_runs():
    points = {"crps": {"A": [(10.0, 0.5), (100.0, 0.3)], "B": [(20.0, 0.6)]}}
    bands = {"crps": {"A": [(10.0, 0.4, 0.7), (100.0, 0.2, 0.35)]}}
    figure = plots.versus(points, {"crps": {"mean": 0.9}}, "seconds", "a task", bands=bands)
    axis = figure.axes[0]
    drawn = {str(line.get_label()): np.asarray(line.get_xydata()).tolist() for line in axis.lines}
    assert drawn["A"] == [[10, 0.5], [100, 0.3]]
    assert drawn["B"] == [[20, 0.6]]
    assert any(set(np.ravel(line.get_ydata())) == {0.9} for line in axis.lines)
    (band,) = axis.collections
    assert {tuple(corner) for corner in band.get_paths()[0].vertices.tolist()} == {
        (10, 0.4), (10, 0.7), (100, 0.2), (100, 0.35)
    }  # fmt: skip
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["A", "B", "median over runs, 2.5th to 97.5th percentile"]


def test_without_several_runs_no_band_is_named():
    figure = plots.versus({"crps": {"A": [(1.0, 0.5)]}}, {}, "seconds", "a task", bands={"crps": {"A": []}})
    assert not figure.axes[0].collections
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["A"]
