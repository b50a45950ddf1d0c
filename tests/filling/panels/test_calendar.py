"""The hour of the day and the day of the week as features that a model is given and nobody gets back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import tsimpute as ti
from tsimpute.config.registry import make
from tsimpute.config.settings import TrainingConfig
from tsimpute.core.containers import Condition
from tsimpute.errors import ConfigError, DataError
from tsimpute.filling.learning.learning import EFFORTS, Effort
from tsimpute.filling.measuring.hidden_draws import hidden_cells
from tsimpute.filling.panels.calendar import calendar_features, with_calendar
from tsimpute.tables.frames.frames import TimeOptions
from tsimpute.tables.sources.files import read_table
from tsimpute.testing._records import SIZES, shaken

SMALL: dict[str, Any] = {"effort": "trial", "n_samples": 5, "seed": 0, "calibrate": False}
DAY, WEEK = (0, 1), (2, 3)
"""Places of sine and cosine among the calendar's features."""
BESIDE_A_MODEL = {name: value for name, value in SMALL.items() if name != "effort"}


class Fast(Effort):
    """Learns much in few steps."""

    def training(self, n_windows: int, seed: int) -> TrainingConfig:
        return replace(super().training(n_windows, seed), learning_rate=8e-3, ema=0.9, warmup_steps=5, schedule="steps")


def cycles(n_hours: int = 24 * 60, seed: int = 0) -> pd.DataFrame:
    """Two features that follow the hour of the day and little else."""
    rng = np.random.default_rng(seed)
    hour = np.arange(n_hours) % 24
    shape = np.where((hour >= 8) & (hour < 20), 5.0, -5.0) + np.sin(2 * np.pi * hour / 24)
    values = shape[:, None] * [1.0, -2.0] + [20.0, 100.0] + 0.3 * rng.normal(size=(n_hours, 2))
    return pd.DataFrame(values, pd.date_range("2024-01-01", periods=n_hours, freq="h"), ["a", "b"])


def with_long_gaps(table: pd.DataFrame, hours: int = 72) -> tuple[pd.DataFrame, np.ndarray]:
    """All features missing for three days in every nine; and (T,) bool where."""
    gone = np.arange(len(table)) % (3 * hours) >= 2 * hours
    return table.mask(np.repeat(gone[:, None], table.shape[1], 1)), gone


def panel_of(index: Any, timezone: str | None = None):
    frame = pd.DataFrame({"time": index, "x": np.arange(len(index), dtype=float)})
    return read_table(frame, None, TimeOptions(timezone=timezone)).panel


def calendar_of(index: Any, timezone: str | None = None) -> np.ndarray:
    """(K', T) what a model is given."""
    panel = panel_of(index, timezone)
    return with_calendar(panel, calendar_features(panel)).series[0].values[1:]


@pytest.fixture(scope="module")
def fitted() -> ti.TableImputer:
    table, _ = with_long_gaps(cycles(24 * 14))
    return ti.TableImputer(**SMALL, calendar=True).fit(table)


def test_a_turn_is_a_day_and_a_week_and_begins_at_midnight_and_on_monday() -> None:
    found = calendar_of(pd.date_range("2024-01-01", periods=24 * 14, freq="h"))  # a Monday
    angle = np.arctan2(found[0::2], found[1::2]) / (2 * np.pi) % 1
    hours = np.arange(24 * 14)
    np.testing.assert_allclose(angle[0], hours % 24 / 24, atol=1e-12)
    np.testing.assert_allclose(angle[1], hours // 24 % 7 / 7, atol=1e-12)


def test_daily_steps_have_a_day_of_the_week_only_and_weekly_ones_are_refused() -> None:
    names = [f.name for f in calendar_features(panel_of(pd.date_range("2024-01-01", periods=60, freq="D")))]
    assert names == ["day of the week, sine", "day of the week, cosine"]
    for freq in ("7D", "MS"):
        with pytest.raises(DataError, match="expected times less than a week apart"):
            calendar_features(panel_of(pd.date_range("2024-01-01", periods=60, freq=freq)))


@pytest.mark.parametrize("times", [np.arange(60), np.arange(60) * 0.5, pd.to_timedelta(np.arange(60), unit="h")])
def test_clocks_without_dates_are_refused_before_anything_is_learnt(times: Any) -> None:
    table = pd.DataFrame({"time": times, "x": np.arange(60.0), "y": 1.0})
    with pytest.raises(DataError, match="calendar: expected times with dates, came"):
        ti.TableImputer(time="time", calendar=True).fit(table)


def test_rows_without_times_are_refused() -> None:
    with pytest.raises(DataError, match="calendar: expected times with dates, came rows without times"):
        ti.TableImputer(calendar=True).fit(pd.DataFrame({"x": np.arange(60.0)}))


@pytest.mark.parametrize("day", ["2024-03-31", "2024-10-27"])
def test_on_the_days_when_clocks_change_the_hour_is_that_of_the_wall(day: str) -> None:
    index = pd.date_range(day, periods=30, freq="h", tz="Europe/Rome")
    walls = index.hour.to_numpy()
    assert set(np.diff(walls)) - {1, -23}  # an hour is left out, or comes twice
    for found in (calendar_of(index), calendar_of(index.tz_localize(None).astype(str), "Europe/Rome")):
        angle = np.arctan2(found[0], found[1]) / (2 * np.pi) % 1
        np.testing.assert_allclose(angle, walls / 24, atol=1e-12)


def test_times_that_no_row_has_get_their_place_in_the_day_too() -> None:
    whole = pd.date_range("2024-01-01", periods=100, freq="h")
    np.testing.assert_array_equal(calendar_of(whole.delete([7, 8, 50])), calendar_of(whole))


def test_long_gaps_of_all_features_are_filled_much_better_with_a_calendar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    truth = cycles(24 * 27)
    table, gone = with_long_gaps(truth)
    errors = {}
    monkeypatch.setitem(EFFORTS, "trial", Fast(steps=120, width=16, n_blocks=2, hidden=0.1, windows=60))
    for calendar in (False, True):
        filled = ti.TableImputer(**SMALL | {"n_samples": 11}, calendar=calendar).fit(table).impute(table)
        pd.testing.assert_index_equal(filled.index, table.index)
        assert list(filled.columns) == ["a", "b"]
        errors[calendar] = (np.abs(filled - truth)[gone] / truth.std()).to_numpy().mean()
    assert errors[True] < 0.7 * errors[False]


def test_only_the_tables_own_features_come_back(fitted: ti.TableImputer) -> None:
    table, gone = with_long_gaps(cycles(24 * 14))
    found = fitted.set_params(keep_samples=True).draw(table)
    assert list(found.table.columns) == list(found.provenance.columns) == ["a", "b"]
    assert set(found.cells["feature"]) == {"a", "b"}
    assert len(found.cells) == sum(found.counts().values()) - found.counts()["observed"] == 2 * gone.sum()
    samples = found.fillings[0].samples
    assert samples is not None
    assert samples.shape == (5, 2, len(table))
    assert [f.name for f in found.prepared.panel.features] == ["a", "b"]


@pytest.mark.filterwarnings("ignore:quantile:tsimpute.ImputationWarning")
def test_scores_and_calibration_are_of_the_tables_own_features_and_in_their_unit() -> None:
    table = cycles().rename(columns={"a": "a [m]", "b": "b [m]"})
    imputer = ti.TableImputer(**SMALL | {"calibrate": True}, calendar=True, limits={"*": (0.0, None)}).fit(table)
    assert {row["units"] for row in imputer.scores_} == {"m"}
    hidden = hidden_cells(imputer.prepared(table).visible, 0.1, 0)[0]
    assert hidden.shape == (2, len(table))
    assert 0 < imputer.scores_[0]["cells"] <= hidden.sum()
    assert imputer.draw(table.mask(hidden.T)).table.min(axis=None) >= 0


@pytest.mark.filterwarnings("ignore::tsimpute.ImputationWarning")
def test_values_hidden_to_measure_with_reach_neither_model_nor_scaler() -> None:
    table, _ = with_long_gaps(cycles(24 * 14))
    settings = {"effort": "trial", "n_samples": 5, "missing_codes": (), "calendar": True}
    hidden = hidden_cells(ti.TableImputer(**settings).prepared(table).visible, 0.1, 0)[0]
    assert hidden.any()
    other = table.mask(hidden.T, 1e9)
    one, two = (ti.TableImputer(**settings).fit(x).imputer_ for x in (table, other))
    assert one.scaler_.to_dict() == two.scaler_.to_dict()
    for a, b in zip(one.network_.state_dict().values(), two.network_.state_dict().values(), strict=True):
        assert a.equal(b)


def test_a_saved_model_meets_a_later_table_at_its_own_times(fitted: ti.TableImputer, tmp_path: Path) -> None:
    fitted.imputer_.save(tmp_path / "m.safetensors")
    later, gone = with_long_gaps(
        cycles(24 * 14, seed=1).set_axis(pd.date_range("2024-06-01", periods=24 * 14, freq="h"))
    )
    apart = ti.TableImputer(str(tmp_path / "m.safetensors"), **BESIDE_A_MODEL, calendar=True).fit(later)
    given = [feature.name for feature in apart.imputer_.features_ if feature.given]
    assert len(given) == 4
    found = apart.impute(later)
    pd.testing.assert_frame_equal(found, fitted.impute(later))
    for hours, same in ((9, False), (24, False), (7 * 24, True)):
        moved = fitted.impute(later.set_axis(later.index + pd.Timedelta(hours=hours)))
        assert (moved.to_numpy()[gone] == found.to_numpy()[gone]).all() == same
    turned = later[["b", "a"]]
    pd.testing.assert_frame_equal(apart.impute(turned)[["a", "b"]], found)


def test_a_model_wants_the_option_with_which_it_learnt(fitted: ti.TableImputer) -> None:
    table, _ = with_long_gaps(cycles(24 * 14))
    with pytest.raises(ConfigError, match="calendar: expected True with this model, which was given hour of the day"):
        ti.TableImputer(fitted.imputer_, **BESIDE_A_MODEL).fit(table)
    plain = ti.TableImputer(**SMALL).fit(table)
    with pytest.raises(ConfigError, match="calendar: expected False with this model"):
        plain.set_params(calendar=True).draw(table)
    dateless = table.reset_index(drop=True)
    with pytest.raises(DataError, match="calendar: expected times with dates"):
        ti.TableImputer(fitted.imputer_, **BESIDE_A_MODEL, calendar=True).fit(dateless)


def test_lazily_filled_tables_are_given_the_same_calendar(fitted: ti.TableImputer) -> None:
    pytest.importorskip("dask")
    one, _ = with_long_gaps(cycles(24 * 12, seed=3))
    cube = one.rename_axis("time").rename_axis("feature", axis=1).stack(future_stack=True).to_xarray()
    cube = cube.expand_dims(station=["x", "y"]).copy()
    imputer = fitted.set_params(missing_codes=(), keep_samples=False)
    lazily = ti.impute_lazily(cube.chunk({"station": 1}), imputer)
    np.testing.assert_array_equal(lazily.values, imputer.impute(cube).values)


def test_what_is_given_is_never_a_target_of_training_nor_filled_in() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(8, 2, 8))
    values[0, 1, :3] = np.nan
    features = (ti.Feature("x"), ti.Feature("hour", given=True))
    windows = ti.Windows(values, np.tile(np.arange(8.0), (8, 1)), features, tuple(map(str, range(8))))
    from tsimpute.batches.loading import Loader
    from tsimpute.batches.masking import make_policy
    from tsimpute.config.settings import MASK_POLICIES
    from tsimpute.scaling.standardizer import Standardizer

    for name in MASK_POLICIES:
        loader = Loader(windows, Standardizer.fit(windows), make_policy(name, windows), 4, query_unobserved=1.0)
        for share in loader.epoch(1):
            assert not share.batch.target_mask[:, 1].any()
            assert share.batch.target_mask[:, 0].any()
            assert not share.batch.unobserved_query[:, 1].any()
    imputed = ti.LocfImputer().fit(windows).impute(windows, 1)
    assert np.isnan(imputed.values[0, 0, 1, :3]).all()


def test_a_simple_imputer_keeps_what_is_given_in_its_file(tmp_path: Path) -> None:
    features = (ti.Feature("x", "m"), ti.Feature("hour", given=True))
    windows = ti.Windows(np.ones((2, 2, 3)), np.tile(np.arange(3.0), (2, 1)), features, ("a", "b"))
    ti.MeanImputer().fit(windows).save(tmp_path / "mean.json")
    assert ti.MeanImputer.load(tmp_path / "mean.json").features_ == features


def test_given_features_come_last_and_not_alone() -> None:
    values, times = np.zeros((4, 2, 8)), np.tile(np.arange(8.0), (4, 1))
    for given in ((True, False), (True, True)):
        features = tuple(ti.Feature(name, given=g) for name, g in zip("xy", given, strict=True))
        with pytest.raises(DataError, match=r"given ones after them; came x \(given\), y"):
            ti.GenerativeImputer().fit(ti.Windows(values, times, features, tuple("abcd")))


@pytest.mark.parametrize("name", ["context_cells", "present_cells", "dual_transformer"])
def test_every_network_tells_what_is_given_to_the_cells_of_its_step(name: str) -> None:
    values = torch.tensor([[[1.0, 0.0, 0.0], [0.3, -0.2, 0.5]]])
    shown = torch.tensor([[[True, False, False], [True, True, True]]])
    network = shaken(make("backbones", name, n_features=2, n_given=1, **SIZES))
    state, tau = torch.ones(1, 2, 3), torch.tensor([0.5], dtype=torch.float64)

    def said(of_given: torch.Tensor) -> torch.Tensor:
        told = torch.cat([values[:, :1], of_given], 1)
        return network(state, tau, Condition(told, shown, ~shown, torch.arange(3.0)[None]))[0, 0]

    before, after = said(values[:, 1:]), said(values[:, 1:] + torch.tensor([0.0, 0.0, 1.0]))
    assert before[2] != after[2]
    with pytest.raises(ConfigError, match="expected 0 to 1 of the features as given, came 2"):
        make("backbones", name, n_features=2, n_given=2, **SIZES)


def test_the_command_line_says_that_a_calendar_was_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tsimpute.cli.commands import main

    table, _ = with_long_gaps(cycles(24 * 14))
    source = tmp_path / "in.csv"
    table.round(3).to_csv(source, index_label="time")
    main(
        ["impute", str(source), "-o", str(tmp_path / "out.csv"), "--effort", "trial", "--n_samples", "3", "--calendar"]
    )
    said = "hour of the day and day of the week, by the wall clock, given to the model"
    assert f"calendar: {said}" in capsys.readouterr().out
    assert (tmp_path / "out.report.html").read_text().count(said) == 1
    header = source.read_text().splitlines()[0]
    for name in ("out.csv", "out.provenance.csv"):
        assert (tmp_path / name).read_text().splitlines()[0] == header
    assert set(pd.read_csv(tmp_path / "out.cells.csv")["feature"]) == {"a", "b"}
