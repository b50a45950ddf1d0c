"""Masks of whole series and the posterior at what they hide: that of the process, of windows as of the whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tsimpute.batches.loading import Loader
from tsimpute.core.gaps import runs_of
from tsimpute.core.panel import Clock, Panel, Series
from tsimpute.core.windows import Feature
from tsimpute.filling.learning.learning import gaussian
from tsimpute.filling.learning.posterior_masks import PosteriorMasks
from tsimpute.filling.panels.windows import clock_times, window_places, windows_at
from tsimpute.gaussian.process import GaussianBase, Scores
from tsimpute.system.terminal import silent

LENGTH = 32


def panel(n_steps: int = 480, hour: int = 5) -> Panel:
    """Two features with a daily course, some values missing; the series begins at an odd hour."""
    rng = np.random.default_rng(0)
    times = np.arange(float(n_steps))
    daily = 2 * np.sin(2 * np.pi * (times + hour) / 24)
    values = np.stack([daily + 0.3 * rng.normal(size=n_steps), -daily + 0.3 * rng.normal(size=n_steps)])
    values[rng.random(values.shape) < 0.1] = np.nan
    labels = np.datetime64("2024-03-04T00") + (times + hour).astype("m8[h]")
    return Panel((Feature("a"), Feature("b")), (Series("s", times, values, labels),), Clock("hours", 1.0))


def made(table: Panel, n_folds: int, seed: int = 0) -> PosteriorMasks:
    base = gaussian(table, {}, 0, silent)
    assert base.model_.seasons.periods
    masks = PosteriorMasks(table, base, seed, n_folds)
    for number, n in masks.pieces:
        masks.make(number, n)
    masks.take(window_places(table, LENGTH, LENGTH // 4), LENGTH)
    return masks


def test_the_base_estimate_is_the_posterior_of_the_whole_series_by_its_clock() -> None:
    table = panel()
    masks = made(table, 1)
    series, base = table.series[0], masks.base
    times, scores = clock_times(series, table.clock), Scores(base.scaler_, base.model_).transform(series.values)
    rng = np.random.default_rng(1)
    for record in (0, 17, len(masks.places) - 1):
        shown, number = masks.draw(record, rng)
        steps = slice(masks.places[record][1], masks.places[record][1] + LENGTH)
        hidden = series.observed[:, steps] & ~shown
        assert hidden.any()
        found = masks.estimates(np.array([record]), shown[None], [number], hidden[None], False)
        # Stretches are masked one after the other: the cells that are known around a window are those of one of them.
        assert np.corrcoef(found.mean[0][hidden], scores[:, steps][hidden])[0, 1] > 0.9
        assert found.spread is not None
        assert (found.mean[0][~hidden] == 0).all()
        assert (found.spread[0][~hidden] == 1).all()
        blind = np.where(np.isin(np.arange(480), np.arange(480)[steps]) & _at(hidden, steps, 480), np.nan, scores)
        known = ~np.isnan(blind)
        whole = GaussianBase(base.model_).of(
            np.where(known, blind, 0.0)[None], known[None], times[None], _at(hidden, steps, 480)[None]
        )
        near = np.abs(whole.mean[0][:, steps] - found.mean[0])[hidden]
        assert np.median(near) < 0.15


def _at(cells: np.ndarray, steps: slice, n_steps: int) -> np.ndarray:
    out = np.zeros((len(cells), n_steps), bool)
    out[:, steps] = cells
    return out


def test_the_seed_decides_and_masks_are_runs_like_the_gaps() -> None:
    table = panel()
    a, b, c = made(table, 1), made(table, 1), made(table, 1, seed=1)
    draws = [[of_one.draw(n, np.random.default_rng(n)) for n in range(10)] for of_one in (a, b, c)]
    assert all((x[0] == y[0]).all() and x[1] == y[1] for x, y in zip(draws[0], draws[1], strict=True))
    assert not all((x[0] == y[0]).all() for x, y in zip(draws[0], draws[2], strict=True))
    blocks = (np.arange(480) // 12 + 3 * np.arange(2)[:, None]) % 10 == 3
    series = replace(table.series[0], values=np.where(blocks, np.nan, np.nan_to_num(table.series[0].values)))
    hidden = made(replace(table, series=(series,)), 1).posterior(0, 0)[0]
    _, starts, stops = runs_of(hidden | blocks)
    assert len(starts) > 10
    assert np.mean(stops - starts >= 12) > 0.8


def test_processes_of_other_stretches_are_less_sure_of_what_they_have_not_seen() -> None:
    rng = np.random.default_rng(3)
    values = np.cumsum(rng.normal(size=(12, 200)), 1) + rng.normal(size=(12, 200))
    values[rng.random(values.shape) < 0.1] = np.nan
    series = Series("s", np.arange(200.0), values, np.arange(200))
    table = Panel(tuple(Feature(f"f{k}") for k in range(12)), (series,), Clock("steps", 1.0))
    base = gaussian(table, {}, 0, silent)
    errors = []
    for n_folds in (1, 4):
        masks = PosteriorMasks(table, base, 0, n_folds)
        for number, n in masks.pieces[: len(masks.pieces)]:
            masks.make(number, n)
        masks.take(window_places(table, LENGTH, LENGTH), LENGTH)
        scores = Scores(base.scaler_, base.model_).transform(values)
        of_masks = []
        for record in range(len(masks.places)):
            shown, number = masks.draw(record, np.random.default_rng(0))
            part = slice(masks.places[record][1], masks.places[record][1] + LENGTH)
            hidden = series.observed[:, part] & ~shown
            found = masks.estimates(np.array([record]), shown[None], [number], hidden[None], False)
            of_masks.append((found.mean[0] - scores[:, part])[hidden])
        errors.append(float(np.abs(np.concatenate(of_masks)).mean()))
    assert errors[1] > errors[0]


def test_short_series_are_padded_and_windows_without_targets_left_out() -> None:
    table = panel(60)
    empty = replace(table.series[0], name="bare", values=np.full((2, 60), np.nan))
    both = replace(table, series=(table.series[0], empty))
    base = gaussian(both, {}, 0, silent)
    masks = PosteriorMasks(both, base, 0)
    for number, n in masks.pieces:
        masks.make(number, n)
    masks.take([(0, 0), (0, 44), (1, 0)], LENGTH)
    assert masks.places == [(0, 0), (0, 44)]
    loader = Loader(windows_at(both, masks.places, LENGTH), Scores(base.scaler_, base.model_), None, 2, masks=masks)  # type: ignore[arg-type]
    (share,) = loader.epoch(1)
    assert share.batch.target_mask.any()
    assert not share.batch.target_mask[1 if share.batch.record_ids[1] == "s@44" else 0, :, 16:].any()
    assert float(share.batch.times[0, 0]) == 0.0
