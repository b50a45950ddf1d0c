"""Pictures: what is drawn is what was measured. How they look is for eyes; the numbers in them are for these tests."""

from __future__ import annotations

import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes

from tsimpute import plots
from tsimpute.core.windows import Feature, Samples, Windows
from tsimpute.errors import DataError
from tsimpute.evaluation.reporting import Report, Row

RUNS, EPOCHS = ("1", "2", "3", "4"), (1, 2, 5, 20)


def row(**changes: object) -> Row:
    made = Row(
        dataset="physionet2012", split="test", protocol="csdi", fold=0, mechanism="random", rate=0.1,
        imputer="generative", process="flow_matching", solver="heun", n_steps=8, n_samples=100, fill="scored",
        epoch=None, run="", metric="crps", feature="all", units="standardised", value=0.5, n_cells=13_824,
        n_records=799, seed=0, seconds=1.0,
    )  # fmt: skip
    return replace(made, **changes)


@pytest.fixture
def report() -> Report:
    rng = np.random.default_rng(0)
    rows = [
        row(metric=m, process=p, run=r, epoch=e, value=float(rng.random()))
        for m in ("crps", "rmse_mean", "coverage_90")
        for p in ("flow_matching", "diffusion")
        for r in RUNS
        for e in EPOCHS
    ]
    rows += [row(metric=m, imputer=n, process="", solver="", n_steps=None, value=v)
             for m in ("crps", "rmse_mean") for n, v in (("mean", 0.9), ("locf", 0.6))]  # fmt: skip
    return Report(tuple(rows))


@pytest.fixture
def windows() -> Windows:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(3, 4, 12))
    values[rng.random(values.shape) < 0.3] = np.nan
    held_out = ~np.isnan(values) & (rng.random(values.shape) < 0.3)
    features = (Feature("HR", "bpm"), Feature("pH", "1"), Feature("Na", "mmol/L"), Feature("K"))
    return Windows(values, np.tile(np.arange(12.0) * 2, (3, 1)), features, ("a", "b", "c"), held_out)


def samples_of(windows: Windows, fill: np.ndarray | None = None, n: int = 50) -> Samples:
    drawn = np.random.default_rng(2).normal(size=(n, *windows.values.shape))
    asked = ~windows.shown if fill is None else fill
    values = np.where(windows.shown, windows.values, np.where(asked, drawn, np.nan))
    return Samples(values, windows.shown, windows.features, windows.record_ids)


def png_size(path: Path) -> tuple[int, int]:
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", head[16:24])


def test_the_module_loads_no_matplotlib_and_drawing_no_pyplot() -> None:
    code = (
        "import sys, tsimpute.plots as p; assert 'matplotlib' not in sys.modules;"
        "import numpy as np; from tsimpute.core.windows import Windows, Feature;"
        "p.gaps(Windows(np.ones((1, 1, 2)), np.arange(2.0)[None], (Feature('x'),), ('a',)));"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -- curves --------------------------------------------------------------------------------------------------------


def test_curves_show_the_median_and_the_95_percent_band_over_runs(report: Report, tmp_path: Path) -> None:
    figure = plots.curves(report, path=tmp_path / "curves.png")
    assert [p.name for p in tmp_path.iterdir()] == ["curves.png"]
    assert min(png_size(tmp_path / "curves.png")) > 400
    for axis, metric in zip(figure.axes, ("crps", "rmse_mean"), strict=True):
        lines = {line.get_label(): line for line in axis.lines}
        for process, band in zip(("flow matching", "diffusion"), axis.collections, strict=True):
            wanted = report.where(metric=metric, process=process.replace(" ", "_"))
            values = np.array([[r.value for r in wanted.where(epoch=e).rows] for e in EPOCHS])
            np.testing.assert_array_equal(lines[process].get_xdata(), EPOCHS)
            np.testing.assert_allclose(lines[process].get_ydata(), np.median(values, axis=1))
            corners = band.get_paths()[0].vertices
            for epoch, of_epoch in zip(EPOCHS, values, strict=True):
                drawn = corners[corners[:, 0] == epoch, 1]
                assert drawn.min() == pytest.approx(np.percentile(of_epoch, 2.5, method="weibull"))
                assert drawn.max() == pytest.approx(np.percentile(of_epoch, 97.5, method="weibull"))
        levels = {float(line.get_ydata()[0]) for line in axis.lines if len(set(line.get_ydata())) == 1}
        assert levels == {0.9, 0.6}
        assert {"mean", "locf"} <= {text.get_text() for text in axis.texts}
        assert axis.get_ylabel() == "standardised units"
        assert axis.get_xscale() == "log"


def test_one_run_has_no_band_and_few_epochs_a_linear_axis(report: Report) -> None:
    few = Report(tuple(r for r in report.rows if r.run in ("", "1") and (r.epoch or 0) <= 5))
    axis = plots.curves(few, metrics=("crps",)).axes[0]
    assert not axis.collections
    assert axis.get_xscale() == "linear"


def test_labels_name_what_tells_methods_apart(report: Report) -> None:
    more = Report((*report.rows, *(replace(r, n_steps=50) for r in report.rows if r.process == "diffusion")))
    labels = {line.get_label() for line in plots.curves(more, metrics=("crps",)).axes[0].lines}
    assert {"flow matching, 8 steps", "diffusion, 8 steps", "diffusion, 50 steps"} <= labels


def test_coverage_has_its_nominal_level(report: Report) -> None:
    axis = plots.curves(report, metrics=("coverage_90",)).axes[0]
    assert [text.get_text() for text in axis.texts] == ["nominal"]
    assert 0.9 in {float(line.get_ydata()[0]) for line in axis.lines if len(line.get_ydata()) == 2}


def test_values_that_cannot_be_compared_are_refused(report: Report) -> None:
    for change in ({"dataset": "pm25"}, {"protocol": "clean"}, {"units": "bpm"}, {"fold": 1}):
        mixed = Report((*report.rows, replace(report.rows[0], **change)))
        with pytest.raises(DataError, match=f"expected one {next(iter(change))} in a picture"):
            plots.curves(mixed)
    with pytest.raises(DataError, match="has several"):
        plots.curves(Report((*report.rows, replace(report.rows[0], value=9.0))))
    plots.curves(Report((*report.rows, report.rows[0])))  # the same value once more is no contradiction
    with pytest.raises(DataError, match="no value of metric 'ncrps'"):
        plots.curves(report, metrics=("ncrps",))


# -- records -------------------------------------------------------------------------------------------------------


def points(axis: Axes, marker: str) -> tuple[np.ndarray, np.ndarray]:
    line = next(line for line in axis.lines if line.get_marker() == marker)
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


def test_records_show_observed_points_truth_median_and_bands(windows: Windows, tmp_path: Path) -> None:
    samples = samples_of(windows)
    path = tmp_path / "records.png"
    figure = plots.imputed_records(
        samples, windows, ["Na", "HR"], path, records=["c", "a"], time_label="hours since admission"
    )
    assert min(png_size(path)) > 400
    axes = np.array(figure.axes).reshape(2, 2)
    quantiles = samples.quantile([0.05, 0.25, 0.5, 0.75, 0.95])
    for i, k in enumerate((2, 0)):
        for j, n in enumerate((2, 0)):
            axis = axes[i, j]
            for marker, mask in (("o", windows.shown), ("X", windows.scored)):
                x, y = points(axis, marker)
                np.testing.assert_array_equal(x, windows.times[n, mask[n, k]])
                np.testing.assert_array_equal(y, windows.values[n, k, mask[n, k]])
            median = next(line for line in axis.lines if len(line.get_xdata()) == 12)
            np.testing.assert_array_equal(median.get_ydata(), quantiles[2, n, k])
            bands = [c for c in axis.collections if len(c.get_paths()) and len(c.get_paths()[0].vertices) > 20]
            for band, (low, high) in zip(bands, ((0, 4), (1, 3)), strict=True):
                corners = band.get_paths()[0].vertices
                for step, time in enumerate(windows.times[n]):
                    drawn = corners[corners[:, 0] == time, 1]
                    assert drawn.min() == pytest.approx(quantiles[low, n, k, step])
                    assert drawn.max() == pytest.approx(quantiles[high, n, k, step])
    assert axes[0, 0].get_ylabel() == "Na\n(mmol/L)"
    assert axes[1, 1].get_xlabel() == "hours since admission"
    assert [axes[0, j].get_title(loc="left") for j in (0, 1)] == ["record c", "record a"]


def test_a_lone_cell_is_drawn_as_a_bar_and_what_was_not_asked_for_stays_empty(windows: Windows) -> None:
    values = np.full((1, 1, 7), np.nan)
    values[0, 0, [0, 3]] = 1.0, 2.0
    held_out = np.zeros(values.shape, bool)
    held_out[0, 0, 3] = True
    sparse = Windows(values, np.arange(7.0)[None], (Feature("pH", "1"),), ("a",), held_out)
    samples = samples_of(sparse, fill=held_out)
    axis = plots.imputed_records(samples, sparse).axes[0]
    bars = [c.get_segments()[0] for c in axis.collections if hasattr(c, "get_segments") and len(c.get_segments())]
    ends = samples.quantile([0.05, 0.95, 0.25, 0.75])[:, 0, 0, 3]
    np.testing.assert_allclose([bar[:, 1] for bar in bars], ends.reshape(2, 2))
    assert all((bar[:, 0] == 3).all() for bar in bars)
    line = next(line for line in axis.lines if len(line.get_xdata()) == 7)
    assert np.isnan(np.asarray(line.get_ydata())[[1, 2, 4, 5, 6]]).all()
    assert axis.get_ylabel() == "pH"


def test_records_and_features_with_most_to_see_are_chosen(windows: Windows) -> None:
    figure = plots.imputed_records(samples_of(windows), windows)
    best = np.sort(np.argsort(-windows.scored.sum((1, 2)), kind="stable")[:2])
    titles = [axis.get_title(loc="left") for axis in figure.axes[:2]]
    assert titles == [f"record {windows.record_ids[i]}" for i in best]
    assert len(figure.axes) == 8


def test_unknown_names_and_foreign_samples_are_refused(windows: Windows) -> None:
    samples = samples_of(windows)
    with pytest.raises(DataError, match="features: expected some of HR, pH, Na, K; came Temp"):
        plots.imputed_records(samples, windows, ["Temp"])
    with pytest.raises(DataError, match="records: expected some of a, b, c; came none"):
        plots.imputed_records(samples, windows, records=[])
    with pytest.raises(DataError, match="record_ids"):
        plots.imputed_records(samples, windows.select([2, 1, 0]))


# -- gaps ----------------------------------------------------------------------------------------------------------


def test_gaps_shows_the_share_of_records_and_of_cells(windows: Windows, tmp_path: Path) -> None:
    figure = plots.gaps(windows, tmp_path / "gaps.png", "hour")
    assert min(png_size(tmp_path / "gaps.png")) > 300
    left, right = figure.axes[:2]
    np.testing.assert_allclose(left.images[0].get_array(), np.isnan(windows.values).mean(0) * 100)
    widths = np.array([bar.get_width() for bar in right.patches]).reshape(3, 4)
    masks = (windows.shown, windows.scored, ~windows.observed)
    np.testing.assert_allclose(widths, [mask.mean((0, 2)) * 100 for mask in masks])
    assert [t.get_text() for t in left.get_yticklabels()] == ["HR", "pH", "Na", "K"]
    assert f"{100 * np.isnan(windows.values).mean():.1f} % missing" in figure.get_suptitle()


def test_gaps_of_one_record_shows_each_cell(windows: Windows) -> None:
    one = windows.select([1])
    kind = np.asarray(plots.gaps(one).axes[0].images[0].get_array())
    for number, mask in enumerate((one.shown, one.scored, ~one.observed)):
        np.testing.assert_array_equal(kind == number, mask[0])


def test_many_features_stay_within_a_page() -> None:
    wide = Windows(
        np.ones((1, 370, 3)), np.arange(3.0)[None], tuple(Feature(f"channel {i}") for i in range(370)), ("a",)
    )
    figure = plots.gaps(wide)
    assert figure.get_figheight() <= 24
    assert len(figure.axes[0].get_yticks()) <= 100
