"""The interval that is delivered is the one that is scored: in tables, on the command line, in pictures, calibrated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tsimpute import plots
from tsimpute.cli import commands
from tsimpute.cli.commands import main
from tsimpute.core.panel import Clock, Panel, Series
from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Feature, Samples, Windows
from tsimpute.evaluation.evaluate import evaluate
from tsimpute.evaluation.metrics import Scores
from tsimpute.experiments import runs
from tsimpute.filling.measuring.calibration import Calibration, calibrated_on, coverage_of, summarised
from tsimpute.filling.measuring.hidden_draws import HiddenDraws
from tsimpute.filling.preparing.series import Policy, fill_series, provenance_of
from tsimpute.scaling.standardizer import Standardizer
from tsimpute.suites.scoring import breakdown
from tsimpute.tables.sources.records import to_frame

DRAWS = (20, 100)
FEATURES = tuple(Feature(name, "ug/m3") for name in ("PM2.5", "PM10", "NO2", "CO, raw"))


def centre(n_steps: int) -> np.ndarray:
    """(K, L) middle of the law of each cell."""
    return np.arange(1.0, 5.0)[:, None] * (10 + np.sin(np.arange(n_steps) / 5))


def records(n: int = 50, n_steps: int = 200) -> Windows:
    """Truths of a known law, of which half are held out: 20,000 cells, a sampling error of 0.2 % for 90 %."""
    rng = np.random.default_rng(7)
    values = centre(n_steps) + np.arange(1.0, 5.0)[:, None] * rng.standard_t(4, size=(n, 4, n_steps))
    times = np.tile(np.arange(float(n_steps)), (n, 1))
    ids = tuple(f"station {i}" for i in range(n))
    return Windows(values, times, FEATURES, ids, rng.random(values.shape) < 0.5)


class Known:
    """Draws from the law of the truth, or from one of another spread."""

    name = "known law"
    whole_series = False

    def __init__(self, windows: Windows, spread: float = 1.0) -> None:
        self.scaler_, self.features_, self.spread = Standardizer.fit(windows), windows.features, spread

    def impute_records(self, windows: Windows, n: int, seed: int = 0, fill: Any = None) -> Iterator[Samples]:
        for i, name in enumerate(windows.record_ids):
            one = windows.select([i])
            rng = np.random.default_rng(derive_seed(seed, name))
            noise = rng.standard_t(4, size=(n, *one.values.shape))
            draws = centre(one.n_steps) + self.spread * np.arange(1.0, 5.0)[:, None] * noise
            asked = ~one.visible if fill is None else fill[[i]]
            values = np.where(one.visible, one.values, np.where(asked, draws, np.nan))
            yield Samples(values.astype(one.values.dtype), one.visible, one.features, one.record_ids)

    def impute(self, windows: Windows, n_samples: int, seed: int = 0, fill: Any = None) -> Samples:
        parts = list(self.impute_records(windows, n_samples, seed, fill))
        values, shown = np.concatenate([p.values for p in parts], 1), np.concatenate([p.visible for p in parts])
        return Samples(values, shown, windows.features, windows.record_ids)

    def impute_long(self, record: Windows, n: int, seed: int, fill: Any, progress: Any) -> Iterator[Any]:
        yield slice(0, record.n_steps), self.impute(record, n, seed, fill)


def scored(samples: Samples, windows: Windows) -> dict[str, float]:
    scores = Scores(windows.features)
    mask = windows.held_out_mask
    records, features, _ = np.nonzero(mask)
    scores.update(samples.values[:, mask].T, windows.values[mask], records, features, windows.record_ids)
    return {s.metric: s.value for s in scores.values() if s.feature == "all" and s.value is not None}


def share_inside(frame: pd.DataFrame, windows: Windows) -> float:
    """Of the scored cells, by the columns of a table of ``to_frame``'s form."""
    frame = frame.set_index(["record", "feature", "time"])
    n, k, step = np.nonzero(windows.held_out_mask)
    names = [f.name for f in windows.features]
    keys = [(windows.record_ids[a], names[b], float(windows.times[a, c])) for a, b, c in zip(n, k, step, strict=True)]
    rows, truth = frame.loc[keys], windows.values[windows.held_out_mask]
    return float(((rows["q0.05"] <= truth) & (truth <= rows["q0.95"])).mean())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_samples", DRAWS)
def test_a_frame_delivers_the_interval_that_is_scored(n_samples: int, dtype: type) -> None:
    windows = records()
    if dtype is np.float32:
        windows = replace(windows, values=windows.values.astype(np.float32), times=windows.times.astype(np.float32))
    samples = Known(windows).impute(windows.without_held_out(), n_samples)
    delivered = share_inside(to_frame(samples, windows), windows)
    found = scored(samples, windows)
    assert delivered == found["coverage_90"]
    assert delivered == pytest.approx(0.9, abs=0.008)
    for percent in (50, 90, 95):
        low, high = samples.quantile([(100 - percent) / 200, (100 + percent) / 200])
        inside = (low <= windows.values) & (windows.values <= high)
        assert inside[windows.held_out_mask].mean() == found[f"coverage_{percent}"]


@pytest.mark.parametrize("n_samples", DRAWS)
def test_the_command_line_writes_the_interval_that_is_scored(
    n_samples: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    windows = records(10)
    model = Known(windows)
    monkeypatch.setattr(commands, "_model_of", lambda *_: model)
    monkeypatch.setattr(runs, "load_windows", lambda *_, **__: windows.without_held_out())
    out = tmp_path / "drawn.csv"
    main(["draw", "model.safetensors", "--n_samples", str(n_samples), "--out", str(out)])
    samples = model.impute(windows.without_held_out(), n_samples)
    delivered = share_inside(pd.read_csv(out), windows)
    assert delivered == scored(samples, windows)["coverage_90"]
    assert delivered == pytest.approx(0.9, abs=0.02)
    assert "note:" not in capsys.readouterr().out


def test_the_command_line_says_when_the_draws_are_too_few_for_a_quantile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    windows = records(2, 20)
    monkeypatch.setattr(commands, "_model_of", lambda *_: Known(windows))
    monkeypatch.setattr(runs, "load_windows", lambda *_, **__: windows.without_held_out())
    main(["draw", "model.safetensors", "--n_samples", "8", "--out", str(tmp_path / "drawn.csv")])
    said = capsys.readouterr().out
    assert "note: quantile 0.05, 0.95: the smallest or largest of 8 draws" in said
    assert "take 19 draws or more" in said


@pytest.mark.parametrize("n_samples", DRAWS)
def test_the_bands_of_a_picture_are_the_intervals_that_are_scored(n_samples: int) -> None:
    windows = records(4, 300)
    held_out = np.ones(windows.values.shape, bool)
    held_out[..., 0] = False  # whole stretches: every cell is a corner of the band
    windows = replace(windows, held_out=held_out)
    samples = Known(windows).impute(windows.without_held_out(), n_samples)
    names = [f.name for f in FEATURES]
    figure = plots.imputed_records(samples, windows, names, records=windows.record_ids)
    inside = {90: 0, 50: 0}
    for axis, (k, n) in zip(figure.axes, np.ndindex(4, 4), strict=True):
        bands = [c for c in axis.collections if len(c.get_paths()) and len(c.get_paths()[0].vertices) > 20]
        for percent, band in zip(inside, bands, strict=True):
            corners = np.asarray(band.get_paths()[0].vertices)
            for step in range(1, 300):
                ends = corners[corners[:, 0] == step, 1]
                inside[percent] += bool(ends.min() <= windows.values[n, k, step] <= ends.max())
    found = scored(samples, windows)
    for percent, count in inside.items():
        assert count / windows.held_out_mask.sum() == found[f"coverage_{percent}"]
    assert inside[90] / windows.held_out_mask.sum() == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize(("n_samples", "words"), [(20, "90 % band"), (8, "range of 8 samples")])
def test_a_band_of_few_draws_has_the_name_of_what_it_is(n_samples: int, words: str) -> None:
    windows = records(1, 20)
    samples = Known(windows).impute(windows.without_held_out(), n_samples)
    (legend,) = plots.imputed_records(samples, windows).legends
    assert words in [text.get_text() for text in legend.get_texts()]


@pytest.mark.parametrize("n_samples", DRAWS)
def test_a_table_is_filled_with_the_interval_that_is_scored(n_samples: int) -> None:
    windows = records(1, 6000)
    model: Any = Known(windows)
    seen, times = windows.without_held_out().values[0], windows.times[0]
    series = Series("station 0", times, seen, times)
    panel = Panel(FEATURES, (series,), Clock("hours", 1.0))
    codes = provenance_of(series, Policy(), np.zeros(seen.shape, bool), np.zeros(4, bool))
    filling = fill_series(
        model, panel, series, seen, codes, levels=(0.05, 0.5, 0.95), n_samples=n_samples, seed=0,
        calibration=Calibration(), keep_samples=True,
    )  # fmt: skip
    at, truth = windows.held_out_mask[0], windows.values[0]
    delivered = ((filling.quantiles[0] <= truth) & (truth <= filling.quantiles[2]))[at].mean()
    samples = model.impute(windows.without_held_out(), n_samples)
    assert delivered == scored(samples, windows)["coverage_90"]
    assert delivered == pytest.approx(0.9, abs=0.01)
    np.testing.assert_allclose(filling.point[at], np.median(samples.values[:, 0, at], 0), rtol=1e-14)


def hidden(windows: Windows, samples: Samples) -> HiddenDraws:
    n, feature, _ = np.nonzero(windows.held_out_mask)
    draws, truth = samples.values[:, windows.held_out_mask], windows.values[windows.held_out_mask]
    return HiddenDraws(draws, truth, feature, n)


@pytest.mark.parametrize("spread", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("n_samples", DRAWS)
def test_what_a_table_measures_is_what_is_scored_and_what_it_delivers(n_samples: int, spread: float) -> None:
    windows = records(160, 40)
    model: Any = Known(windows, spread)
    samples = model.impute(windows.without_held_out(), n_samples)
    cells = hidden(windows, samples)
    found, metrics = coverage_of(model, cells), scored(samples, windows)
    for percent in (50, 90, 95):
        assert found[f"coverage {percent} %, as drawn"] == metrics[f"coverage_{percent}"]
        assert found[f"coverage {percent} %, calibrated"] == pytest.approx(percent / 100, abs=0.015)
    levels, inside = (0.05, 0.95), np.zeros(len(cells.truth), bool)
    first = cells.block // 8 % 2 == 0  # of cells calibrated on the others, as measured
    for mine in (first, ~first):
        calibration, own = calibrated_on(model, cells.at(~mine), levels), cells.at(mine)
        _, (low, high) = summarised(model.scaler_, calibration, levels, own.draws, own.feature)
        inside[mine] = (low <= own.truth) & (own.truth <= high)
    assert inside.mean() == found["coverage 90 %, calibrated"]


@pytest.mark.parametrize("n_samples", DRAWS)
def test_a_report_and_the_parts_of_a_suite_score_what_a_frame_delivers(n_samples: int, tmp_path: Path) -> None:
    windows = records(20, 50)
    model: Any = Known(windows)
    report = evaluate(model, windows, n_samples=n_samples, fill="missing", keep_samples=tmp_path / "kept.npz")
    delivered = share_inside(to_frame(model.impute(windows.without_held_out(), n_samples), windows), windows)
    assert report.value("coverage_90") == delivered
    parts = breakdown(windows, tmp_path / "kept.npz")
    assert [p.value for p in parts if (p.kind, p.key) == ("interval", "90")] == [delivered]
