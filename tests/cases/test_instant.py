"""A table filled at effort "instant": a Gaussian process alone, measured and calibrated as all models are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tsimpute as ti
from tsimpute.core.panel import Clock, Panel, Series
from tsimpute.core.windows import Feature
from tsimpute.errors import ConfigError, DataError
from tsimpute.filling.files.fill_file import fill_file
from tsimpute.filling.imputer.fitting import first_fit, hidden_share
from tsimpute.filling.learning.learning import EFFORTS
from tsimpute.filling.measuring.hidden_draws import hidden_cells, season_of, simple_baselines
from tsimpute.filling.panels.windows import clock_times
from tsimpute.system.run import Run

SETTINGS: dict[str, Any] = {"effort": "instant", "n_samples": 20}
NAMES = ["last value carried forward", "linear interpolation", "daily profile and linear interpolation", "gaussian"]


def hourly(n_steps: int = 600, n_features: int = 3, seed: int = 0, missing: float = 0.2) -> pd.DataFrame:
    """Positive features that share most of their course and have a daily one; some values are missing, also in runs."""
    rng = np.random.default_rng(seed)
    times = pd.date_range("2024-03-01", periods=n_steps, freq="h")
    shared, daily = rng.normal(size=n_steps + 1), np.sin(2 * np.pi * np.arange(n_steps) / 24)
    for t in range(1, n_steps + 1):
        shared[t] = 0.8 * shared[t - 1] + 0.6 * shared[t]
    own = 0.2 * rng.normal(size=(n_steps, n_features))
    values = 20 * np.exp(0.5 * (shared[1:, None] + daily[:, None] + own))
    for k in range(n_features):
        while np.isnan(values[:, k]).mean() < missing:
            start, length = int(rng.integers(n_steps)), int(rng.choice([1, 2, 6, 12]))
            values[start : start + length, k] = np.nan
    return pd.DataFrame(values, times, [f"s{k}" for k in range(n_features)])


@pytest.fixture(scope="module")
def fitted() -> ti.TableImputer:
    return ti.TableImputer(limits=(0, None), **SETTINGS).fit(hourly())


def test_gaps_are_filled_and_what_was_observed_comes_back(fitted: ti.TableImputer) -> None:
    table = hourly()
    found = fitted.draw(table)
    known = table.notna().to_numpy()
    assert found.table.notna().all(axis=None)
    assert (found.table.to_numpy()[known] == table.to_numpy()[known]).all()
    assert (found.cells[["q0.05", "q0.95"]].to_numpy() > 0).all()
    assert (found.cells["q0.05"] <= found.cells["q0.95"]).all()


def test_the_report_has_a_row_for_each_simple_imputer_and_the_process_beats_them(fitted: ti.TableImputer) -> None:
    rows = {str(row["imputer"]): row for row in fitted.scores_}
    assert list(rows)[: len(NAMES)] == NAMES
    assert float(rows["gaussian"]["MAE"]) < min(float(rows[name]["MAE"]) for name in NAMES[:-1])
    assert float(fitted.scores_[-1]["CRPS"]) <= 1.02 * float(rows["gaussian"]["CRPS"])
    assert fitted.calibration_.n_cells >= 100
    assert 0.8 <= float(rows["gaussian"]["coverage 90 %, as drawn"]) <= 0.97


def test_hidden_values_reach_neither_what_is_measured_nor_its_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    table = hourly()
    first = ti.TableImputer(**SETTINGS).fit(table)
    seen = first.prepared(table).visible
    hidden = hidden_cells(seen, hidden_share(EFFORTS["instant"], seen), first.seed)[0]
    poisoned = seen.series[0].values.copy()
    poisoned[hidden] = 1e9
    wrong = pd.DataFrame(poisoned.T, table.index, table.columns)
    monkeypatch.setattr("tsimpute.filling.preparing.prepare.far_cells", lambda panel, *_: [np.zeros_like(hidden)])
    second = ti.TableImputer(missing_codes="none", **SETTINGS)
    fits = [first_fit(one.prepared(of_one), one.settings, Run()) for one, of_one in ((first, table), (second, wrong))]
    answers = [fit.answer for fit in fits if fit.answer is not None]
    assert answers[0].scores[-1]["MAE"] != answers[1].scores[-1]["MAE"]
    a, b = (answer.base.blind.base for answer in answers)
    assert a.scaler_.to_dict() == b.scaler_.to_dict()
    assert (a.model_.covariance == b.model_.covariance).all()


def test_what_fills_the_table_is_fitted_to_all_of_its_values(fitted: ti.TableImputer) -> None:
    model = fitted.imputer_
    assert model is not None
    assert model.scaler_.n_cells.tolist() == hourly().notna().sum().tolist()


def test_of_many_values_what_was_measured_fills_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tsimpute.filling.blending.first_answer.MANY_CELLS", 200)
    table = hourly(300)
    model = ti.TableImputer(limits=(0, None), **SETTINGS).fit(table).imputer_
    assert model is not None
    assert (model.scaler_.n_cells < table.notna().sum().to_numpy()).all()


def test_a_saved_one_fills_the_next_month_with_its_calibration(fitted: ti.TableImputer, tmp_path: Path) -> None:
    path = tmp_path / "kept.safetensors"
    fitted.save(path)
    later = hourly(200, seed=1).set_axis(pd.date_range("2024-04-01", periods=200, freq="h"))
    loaded = ti.TableImputer.load(path)
    pd.testing.assert_frame_equal(loaded.impute(later), fitted.impute(later))
    named = ti.TableImputer(path, n_samples=20)
    found = named.fit_draw(later)
    assert named.keeps_calibration
    assert dict(named.calibration_.factors) == dict(fitted.calibration_.factors)
    pd.testing.assert_frame_equal(found.table, fitted.impute(later))
    with pytest.raises(DataError, match="step of 1 hour"):
        loaded.impute(later.set_axis(pd.date_range("2024-04-01", periods=200, freq="D")))


def test_files_of_a_command_and_a_model_beside_them(tmp_path: Path) -> None:
    source, out, said = tmp_path / "in.csv", tmp_path / "out.csv", []
    hourly(300).to_csv(source, index_label="time", float_format="%.2f")
    fill_file(source, out, {"limits": (0, None), **SETTINGS}, say=said.append)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "in.csv", "out.cells.csv", "out.csv", "out.model.safetensors", "out.provenance.csv", "out.report.html",
    ]  # fmt: skip
    text = "\n".join(said)
    assert "Gaussian process over features and lags" in text
    assert "learnt from the file itself, effort instant" in text
    assert "steps" not in text.partition("draws:")[2].partition("\n")[0]
    assert all(name in (tmp_path / "out.report.html").read_text() for name in NAMES)
    second = tmp_path / "second.csv"
    fill_file(source, second, {"model": tmp_path / "out.model.safetensors", "n_samples": 20}, say=said.append)
    assert second.read_bytes() == out.read_bytes()


def test_the_seed_decides_all_and_progress_is_told() -> None:
    table, told = hourly(300), []
    a, b, c = (
        ti.TableImputer(effort="instant", n_samples=20, seed=seed, limits=(0, None)).fit_draw(
            table, progress=lambda *of: told.append(of)
        )
        for seed in (0, 0, 1)
    )
    pd.testing.assert_frame_equal(a.cells, b.cells)
    assert not a.cells.equals(c.cells)
    assert {what for what, *_ in told} == {"fitting", "measuring", "imputing"}


def test_it_stops_where_it_is_asked_to(tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    hourly(200).to_csv(source, index_label="time")
    assert fill_file(source, tmp_path / "out.csv", SETTINGS, should_stop=lambda: True) is None
    assert [p.name for p in tmp_path.iterdir()] == ["in.csv"]


def test_series_of_any_length_by_the_wall_clock_and_irregular_times() -> None:
    rng = np.random.default_rng(0)
    parts = []
    for n, length in enumerate([1, 2, 30, 150, 400]):
        times = pd.Timestamp("2024-03-01") + pd.to_timedelta(np.cumsum(rng.integers(5, 120, length)), unit="min")
        level = np.sin(2 * np.pi * (times.hour + times.minute / 60) / 24)
        parts.append(pd.DataFrame({"station": f"p{n}", "time": times, "a": level + 0.1 * rng.normal(size=length)}))
    table = pd.concat(parts, ignore_index=True)
    table["b"] = 2 * table["a"] + 0.1 * rng.normal(size=len(table))
    holes = rng.random((len(table), 2)) < 0.3
    table[["a", "b"]] = table[["a", "b"]].mask(holes)
    filled = ti.impute(table, time="time", group="station", irregular=True, **SETTINGS)
    assert filled[["a", "b"]].notna().all(axis=None)
    assert filled["a"].between(-2, 2).all()


@pytest.mark.filterwarnings("ignore::tsimpute.errors.ImputationWarning")
@pytest.mark.parametrize("kind", ["one row", "one feature", "constant", "empty column", "collinear", "K > T", "sparse"])
def test_odd_tables_are_filled(kind: str) -> None:
    table = hourly(120, 3, missing=0.3)
    if kind == "one row":
        table = table.iloc[:1]
    elif kind == "one feature":
        table = table[["s0"]]
    elif kind == "constant":
        table["s1"] = table["s1"].where(table["s1"].isna(), 7.0)
    elif kind == "empty column":
        table["s2"] = np.nan
    elif kind == "collinear":
        table = hourly(600, 3, missing=0.0)
        table["s1"] = 3 * table["s0"] + 1
        table["s0"] = hourly(600, 1, missing=0.3)["s0"] * 0 + table["s0"]
    elif kind == "K > T":
        table = hourly(20, 30)
    elif kind == "sparse":
        table = table.mask(np.random.default_rng(0).random(table.shape) < 0.97)
    filled = ti.impute(table, predict=["s1"] if kind == "constant" else None, limits=(0, None), **SETTINGS)
    known = table.notna().to_numpy()
    assert (filled.to_numpy()[known] == table.to_numpy()[known]).all()
    assert filled[[name for name in filled if table[name].notna().sum() > 4]].notna().all(axis=None)
    if kind == "collinear":
        gaps = table["s0"].isna() & table["s1"].notna()
        truth = (table["s1"][gaps] - 1) / 3
        assert ((filled["s0"][gaps] - truth).abs() / truth).median() < 0.1


def test_a_calendar_is_not_needed_and_said() -> None:
    with pytest.warns(ti.ImputationWarning, match="calendar: not used"):
        filled = ti.impute(hourly(300), calendar=True, limits=(0, None), **SETTINGS)
    assert filled.notna().all(axis=None)


def test_times_count_from_one_monday_for_all_series() -> None:
    labels = np.array(["2024-03-04T06:00", "2024-03-04T08:00"], "M8[us]")
    series = Series("s", np.array([0.0, 2.0]), np.zeros((1, 2)), labels)
    times = clock_times(series, Clock("hours", 2.0))
    np.testing.assert_array_equal(times % 168, [6.0, 8.0])
    np.testing.assert_array_equal(clock_times(series, Clock("", 2.0)), series.times)


def test_a_daily_profile_is_guessed_where_there_are_days() -> None:
    times = np.arange(24.0 * 10)
    labels = np.datetime64("2024-03-04T00") + times.astype("m8[h]")
    daily = np.sin(2 * np.pi * times / 24)[None]
    holes = np.zeros(daily.shape, bool)
    holes[:, 30:50] = holes[:, 100] = True
    series = Series("s", times, np.where(holes, np.nan, daily), labels)
    panel = Panel((Feature("a"),), (series,), Clock("hours", 1.0))
    assert season_of(panel) == "daily"
    guess = simple_baselines(series, "daily")["daily profile and linear interpolation"]
    np.testing.assert_allclose(guess, daily, atol=1e-9)
    assert season_of(Panel((Feature("a"),), (series,), Clock("steps", 1.0))) is None


def told(found: str, name: str) -> list[str]:
    """What is said of something, each time that it is."""
    return [line.partition(": ")[2] for line in found.splitlines() if line.startswith(f"  {name}: ")]


def test_auto_writes_a_first_answer_and_then_says_what_the_wait_bought(tmp_path: Path) -> None:
    source, out, said = tmp_path / "in.csv", tmp_path / "out.csv", []
    hourly(300).to_csv(source, index_label="time", float_format="%.2f")
    written: list[bytes] = []

    def say(text: str) -> None:
        said.append(text)
        if "the first answer, which can be used" in text:
            written.append(out.read_bytes())

    found = fill_file(source, out, {"limits": (0, None), "n_samples": 10, "minutes": 60}, say=say)
    assert found is not None
    text = "\n".join(said)
    assert written[0].count(b",") == source.read_bytes().count(b",")
    assert b",," not in written[0]
    assert len(told(text, "delivered")) == 2
    assert "less than that of linear interpolation" in told(text, "delivered")[0]
    assert told(text, "the wait")[0].startswith(("bought nothing", "mean absolute error on hidden cells"))
    assert not (tmp_path / ".out.unfinished").exists()
    assert "randomised trees" in text
    again = tmp_path / "again.csv"
    fill_file(source, again, {"model": tmp_path / "out.model.safetensors", "n_samples": 10}, say=said.append)
    assert again.read_bytes() == out.read_bytes()


def test_auto_that_is_stopped_keeps_its_first_answer(tmp_path: Path) -> None:
    source, out, said, improving = tmp_path / "in.csv", tmp_path / "out.csv", [], []
    hourly(300).to_csv(source, index_label="time", float_format="%.2f")
    settings = {"limits": (0, None), "n_samples": 4, "minutes": 60}

    def say(text: str) -> None:
        said.append(text)
        if "the first answer, which can be used" in text:
            improving.append(out.read_bytes())

    fill_file(source, out, settings, say=say, should_stop=lambda: bool(improving))
    assert "stopped: " in said[-1]
    assert out.read_bytes() == improving[0]
    fill_file(source, out, settings, say=said.append)
    assert not (tmp_path / ".out.unfinished").exists()


def test_without_enough_time_or_cells_nothing_is_improved_and_it_is_said() -> None:
    imputer = ti.TableImputer(minutes=0.001, n_samples=4, limits=(0, None)).fit(hourly(300))
    assert "no trees: 0 seconds are left" in imputer.delivered_
    assert imputer.imputer_ is not None
    with pytest.warns(ti.ImputationWarning, match="calibration needs 100 hidden cells"):
        few = ti.TableImputer(n_samples=4, limits=(0, None)).fit(hourly(60, 2))
    assert "too few to tell" in few.delivered_


def test_where_a_line_is_as_good_as_anything_the_process_is_moved_to_it() -> None:
    rng = np.random.default_rng(0)
    knots = np.cumsum(rng.normal(size=(61, 2)), 0) * 10
    steps = np.arange(600)
    values = np.stack([np.interp(steps, np.arange(61) * 10, column) for column in knots.T], 1)
    values[rng.random(values.shape) < 0.2] = np.nan
    imputer = ti.TableImputer(**SETTINGS).fit(pd.DataFrame(values, columns=["a", "b"]))
    rows = {str(row["imputer"]): row for row in imputer.scores_}
    last = imputer.scores_[-1]
    # By as much as the process is off, a line is better: nearly all of that is won.
    best, process = min(float(row["MAE"]) for row in rows.values()), float(rows["gaussian"]["MAE"])
    assert float(last["MAE"]) <= best + 0.2 * (process - best)
    assert float(last["CRPS"]) < 0.45 * float(rows["gaussian"]["CRPS"])
    assert 0.8 <= float(last["coverage 90 %, as drawn"]) <= 0.99


@pytest.mark.filterwarnings("ignore::tsimpute.errors.ImputationWarning")
def test_of_a_table_with_few_hidden_cells_gaps_moved_to_known_cells_choose_the_method() -> None:
    """A course without a scale, of which a curve through the neighbours is nearer than a process with one."""
    rng = np.random.default_rng(0)
    whole, gaps = rng.normal(size=(100, 2)).cumsum(0).cumsum(0), np.zeros((100, 2), bool)
    for k in range(2):
        while gaps[:, k].mean() < 0.15:
            start = int(rng.integers(1, 95))
            gaps[start : start + int(rng.choice([1, 2, 3])), k] = True
    table = pd.DataFrame(whole, pd.date_range("2024-01-01", periods=100, freq="h"), ["a", "b"]).mask(gaps)
    imputer = ti.TableImputer(**SETTINGS)
    filled, line = imputer.fit_draw(table).table, table.interpolate(limit_direction="both")
    error, of_line = (np.abs(one.to_numpy() - whole)[gaps].mean() for one in (filled, line))
    assert error < 0.8 * of_line
    assert imputer.calibration_.n_cells == 0
    assert imputer.scores_[0]["cells"] < 100


@pytest.mark.parametrize(("minutes", "effort"), [(0, "auto"), ("long", "auto"), (2, "quick")])
def test_minutes_that_mean_nothing_are_refused(minutes: Any, effort: str) -> None:
    with pytest.raises(ConfigError, match="minutes: expected"):
        ti.TableImputer(minutes=minutes, effort=effort).fit(hourly(50))  # type: ignore[arg-type]


def test_a_given_network_has_the_process_as_a_row_beside_it() -> None:
    table = hourly(450)
    network = ti.TableImputer(effort="trial", n_samples=5, limits=(0, None)).fit(table).imputer_
    given = ti.TableImputer(network, n_samples=5, limits=(0, None)).fit(table)
    assert [row["imputer"] for row in given.scores_] == [*NAMES, "flow_matching"]
    assert given.imputer_ is network
    assert given.delivered_ == ""
    assert len({row["cells"] for row in given.scores_}) == 1


def test_rows_that_stand_at_few_steps_of_a_fine_grid_are_filled(tmp_path: Path) -> None:
    """A sensor that stores every 15 minutes and scans now and then (FreeStyle Libre): minutes that are mostly bare."""
    rng = np.random.default_rng(0)
    stored = pd.date_range("2023-09-04 00:07", periods=400, freq="15min")
    scanned = stored[::11] + pd.to_timedelta(rng.integers(1, 14, len(stored[::11])), "min")
    level = np.round(130 + 40 * np.sin(np.arange(400) / 9), 1)
    rows = [*zip(stored, level, [np.nan] * 400, strict=True), *zip(scanned, [np.nan] * 37, level[::11], strict=True)]
    frame = pd.DataFrame(rows, columns=["time", "historic", "scan"]).sort_values("time", ignore_index=True)
    frame.loc[100:110, "historic"] = np.nan
    frame.to_csv(tmp_path / "libre.csv", index=False)
    fill_file(tmp_path / "libre.csv", tmp_path / "out.csv", SETTINGS)
    found = pd.read_csv(tmp_path / "out.csv")
    known = frame["historic"].notna().to_numpy()
    np.testing.assert_array_equal(found.loc[known, "historic"], frame["historic"][known])
    assert found["historic"].between(60, 200).all()
