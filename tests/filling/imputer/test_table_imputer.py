"""A table in, the same table back: what is learnt, what is hidden, what is given back, and how sure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tsimpute as ti
from tsimpute.core.limits import Limits
from tsimpute.core.panel import PROVENANCE
from tsimpute.errors import ConfigError, DataError, ImputationWarning, NotFittedError
from tsimpute.filling.files.fill_file import fill_file
from tsimpute.filling.measuring.hidden_draws import hidden_cells

# Tables are small, and an effort given beside a model makes its measuring quick.
pytestmark = pytest.mark.filterwarnings("ignore:(the quantiles are as drawn|effort=)")


def stations(n_hours: int = 120, seed: int = 0, missing: float = 0.2) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    common = np.sin(np.arange(n_hours) / 4)
    values = np.exp(common[:, None] + 0.3 * rng.normal(size=(n_hours, 3))) * [10, 20, 5]
    index = pd.date_range("2020-01-01", periods=n_hours, freq="h", name="time")
    return pd.DataFrame(values, index, ["a", "b", "c"]).mask(rng.random((n_hours, 3)) < missing)


SETTINGS = {"effort": "trial", "n_samples": 20, "limits": {"*": (0, None)}}


@pytest.fixture(scope="module")
def fitted() -> ti.TableImputer:
    return ti.TableImputer(**SETTINGS, keep_samples=True).fit(stations())


@pytest.fixture(scope="module")
def drawn(fitted: ti.TableImputer) -> ti.Imputation:
    return fitted.draw(stations())


def test_the_table_comes_back_with_every_observed_value_to_the_bit(drawn: ti.Imputation) -> None:
    table = stations()
    there = table.notna().to_numpy()
    pd.testing.assert_index_equal(drawn.table.index, table.index)
    assert list(drawn.table.columns) == ["a", "b", "c"]
    assert drawn.table.to_numpy()[there].tobytes() == table.to_numpy()[there].tobytes()
    assert drawn.table.notna().all().all()
    assert ((drawn.provenance == "observed").to_numpy() == there).all()
    assert drawn.counts() == dict(zip(PROVENANCE, [there.sum(), (~there).sum(), 0, 0, 0, 0], strict=True))


def test_no_draw_and_no_quantile_lies_outside_the_limits(drawn: ti.Imputation) -> None:
    filling = drawn.fillings[0]
    assert filling.samples is not None
    filled = filling.filled
    assert filling.samples[:, filled].min() > 0
    assert filling.quantiles[:, filled].min() > 0
    assert np.isnan(filling.samples[:, ~filled]).all()


def test_cells_list_what_was_not_observed_with_quantiles_in_order(drawn: ti.Imputation) -> None:
    cells = drawn.cells
    assert len(cells) == stations().isna().to_numpy().sum()
    assert (cells["q0.05"] <= cells["q0.5"]).all()
    assert (cells["q0.5"] <= cells["q0.95"]).all()
    row = cells.iloc[7]
    assert drawn.table.loc[row["time"], row["feature"]] == row["value"]


@pytest.mark.filterwarnings("ignore::tsimpute.ImputationWarning")
def test_values_hidden_to_measure_with_reach_neither_model_nor_scaler() -> None:
    table = stations()
    first = ti.TableImputer(**SETTINGS)
    seen = first.prepared(table).visible
    hidden = hidden_cells(seen, 0.1, first.seed)[0]
    assert hidden.any()
    other = table.copy()
    other[pd.DataFrame(hidden.T, table.index, table.columns)] = 1e9
    # Against what a code for missing would do: such a value is none.
    one, two = (ti.TableImputer(**SETTINGS, missing_codes=()).fit(x).imputer_ for x in (table, other))
    assert one.scaler_.to_dict() == two.scaler_.to_dict()
    for a, b in zip(one.network_.state_dict().values(), two.network_.state_dict().values(), strict=True):
        assert a.equal(b)


def test_groups_are_never_mixed_and_draws_do_not_depend_on_the_others(fitted: ti.TableImputer) -> None:
    one, two = stations(60, seed=1).assign(site="x"), stations(40, seed=2).assign(site="y")
    model = {"model": fitted.imputer_, "calibrate": False, "group": "site", **SETTINGS}
    both = pd.concat([one, two]).sort_index(kind="stable")
    together = ti.TableImputer(**model).fit(both).impute(both)
    changed = pd.concat([one, two.assign(a=two["a"] * 3)])
    again = ti.TableImputer(**model).fit(changed).impute(changed)
    alone = ti.TableImputer(**model).fit(one).impute(one)
    for other in (together, again):
        pd.testing.assert_frame_equal(other[other["site"] == "x"], alone, check_freq=False)


def test_the_same_call_gives_the_same_table_and_another_seed_another(fitted: ti.TableImputer) -> None:
    table = stations(50, seed=5)
    model = {"model": fitted.imputer_, "calibrate": False, **SETTINGS}
    first, second = (ti.TableImputer(**model).fit(table).impute(table) for _ in range(2))
    pd.testing.assert_frame_equal(first, second)
    other = ti.TableImputer(**model, seed=1).fit(table).impute(table)
    assert (other != first).to_numpy()[table.isna().to_numpy()].mean() > 0.9


def test_a_model_finds_its_features_by_name_and_refuses_others(fitted: ti.TableImputer) -> None:
    table = stations(50, seed=5)
    model = {"model": fitted.imputer_, "calibrate": False, **SETTINGS}
    turned = table[["c", "a", "b"]]
    found = ti.TableImputer(**model).fit(turned).impute(turned)
    expected = ti.TableImputer(**model).fit(table).impute(table)
    pd.testing.assert_frame_equal(found[["a", "b", "c"]], expected)
    assert list(found.columns) == ["c", "a", "b"]
    renamed = table.rename(columns={"c": "d"})
    with pytest.raises(DataError, match="absent from the table: c; not known to the model: d"):
        ti.TableImputer(**model).fit(renamed)
    daily = table.set_axis(pd.date_range("2020-01-01", periods=50, freq="D"))
    imputer = ti.TableImputer(**model).fit(daily)
    with pytest.raises(DataError, match="trained on steps of 1, record"):
        imputer.impute(daily)


def test_a_long_series_of_a_model_with_short_windows_is_one_path(fitted: ti.TableImputer) -> None:
    table = stations(400, seed=6, missing=0.5)
    imputer = ti.TableImputer(fitted.imputer_, calibrate=False, keep_samples=True, **SETTINGS).fit(table)
    assert imputer.imputer_.n_steps_ == 64
    filling = imputer.draw(table).fillings[0]
    assert filling.samples is not None
    assert (np.isfinite(filling.samples).all(0) == filling.filled).all()


def test_nothing_to_fill_gives_the_table_back(fitted: ti.TableImputer) -> None:
    table = stations(50, missing=0.0)
    found = ti.TableImputer(fitted.imputer_, calibrate=False, **SETTINGS).fit(table).draw(table)
    pd.testing.assert_frame_equal(found.table, table)
    assert len(found.cells) == 0


def test_scores_tell_simple_imputers_and_coverage_without_and_with_calibration() -> None:
    imputer = ti.TableImputer(**SETTINGS).fit(stations(1500))
    names = [row["imputer"] for row in imputer.scores_]
    assert names == [
        "last value carried forward", "linear interpolation", "daily profile and linear interpolation", "flow_matching"
    ]  # fmt: skip
    row = imputer.scores_[-1]
    assert row["units"] == "standard deviations"
    assert row["cells"] > 100
    for percent in (50, 90, 95):
        assert abs(row[f"coverage {percent} %, calibrated"] - percent / 100) < 0.12


def test_the_tables_own_values_are_kept_where_limits_say_that_they_cannot_be(fitted: ti.TableImputer) -> None:
    table = stations(50, seed=5)
    table.iloc[3, 0] = -5.0
    model = {"model": fitted.imputer_, "calibrate": False, **SETTINGS}
    with pytest.warns(ImputationWarning, match="1 value outside the limits .*to fill such values, set drop_invalid"):
        kept = ti.TableImputer(**model).fit_draw(table)
    assert kept.table.iloc[3, 0] == -5.0
    assert kept.provenance.iloc[3, 0] == "observed"
    assert any("-5" in warning for warning in kept.prepared.warnings)
    with pytest.warns(ImputationWarning, match="is made missing and filled; to keep such values"):
        dropped = ti.TableImputer(**model, drop_invalid=True).fit_draw(table)
    assert dropped.table.iloc[3, 0] > 0
    assert dropped.provenance.iloc[3, 0] == "declared invalid"
    assert dropped.table.iloc[4, 0] == kept.table.iloc[4, 0], "the model saw -5 in neither case"


def test_another_one_of_the_same_settings_is_made_as_scikit_learn_clones(fitted: ti.TableImputer) -> None:
    given = {"limits": {"a": (0, None)}, "quantiles": [0.1, 0.9], "group": ["site"], "calendar": True}
    imputer = ti.TableImputer(**given)
    assert all(imputer.get_params(deep=False)[name] is value for name, value in given.items())
    clone = type(fitted)(**fitted.get_params(deep=False))
    assert clone.get_params() == fitted.get_params()
    assert not hasattr(clone, "imputer_")
    changed = clone.set_params(seed=7, max_gap=2)
    assert (changed, clone.seed, clone.max_gap, fitted.seed) == (clone, 7, 2, 0)
    with pytest.raises(ConfigError):
        clone.set_params(seed=8, sed=4)
    assert clone.seed == 7, "all or nothing"


def test_it_reads_as_the_call_that_makes_it() -> None:
    assert repr(ti.TableImputer()) == "TableImputer()"
    imputer = ti.TableImputer(limits={"a": (0, None)}, quantiles=(0.1, 0.9), seed=3)
    again = eval(repr(imputer), {"TableImputer": ti.TableImputer})
    assert again.get_params() == imputer.get_params()
    assert repr(imputer) == "TableImputer(limits={'a': (0, None)}, quantiles=(0.1, 0.9), seed=3)"


def test_what_was_learnt_from_one_table_fills_another(fitted: ti.TableImputer) -> None:
    other = stations(50, seed=9)
    filled = fitted.impute(other)
    there = other.notna().to_numpy()
    assert filled.to_numpy()[there].tobytes() == other.to_numpy()[there].tobytes()
    assert filled.notna().all(axis=None)


def test_nothing_is_filled_before_fit() -> None:
    for call in (ti.TableImputer().impute, ti.TableImputer().draw):
        with pytest.raises(NotFittedError, match="expected fit before impute"):
            call(stations())


@pytest.mark.parametrize("value", [1e20, -1e38, 1.7e308])
def test_a_value_that_nothing_can_be_learnt_with_is_named_before_any_work_unless_it_is_told(value: float) -> None:
    frame = stations()
    frame.iloc[7, 1] = value
    few = frame[:20]  # too few to say that it is far from all others
    with pytest.raises(
        DataError, match=rf"b: .*came {value:g}".replace("+", r"\+") + r" at 2020-01-01 07:00\. Is it a code"
    ):
        ti.TableImputer(effort="trial").fit(few)
    prepared = ti.TableImputer().prepared(frame)
    assert np.isnan(prepared.visible.series[0].values[1, 7])
    assert any(f"b: {value:.10g} at 2020-01-01 07:00 lies far" in text for text in prepared.warnings)
    for told in ({"missing_codes": [value]}, {"limits": {"b": (0, 1000)}}):
        prepared = ti.TableImputer(**told).prepared(frame)
        assert np.isnan(prepared.visible.series[0].values[1, 7])


def test_values_of_many_orders_are_learnt_from() -> None:
    frame = stations()
    frame["b"] = 10.0 ** np.linspace(-20, 20, len(frame))
    frame["c"] *= 1e25
    assert ti.TableImputer().prepared(frame).visible.features


def test_settings_are_read_and_written_as_in_scikit_learn() -> None:
    imputer = ti.TableImputer(max_gap=3)
    assert imputer.get_params()["max_gap"] == 3
    assert ti.TableImputer(**imputer.get_params()).get_params() == imputer.get_params()
    assert imputer.set_params(seed=4).seed == 4
    with pytest.raises(ConfigError, match="came 'sed'"):
        imputer.set_params(sed=4)
    with pytest.raises(NotFittedError, match="expected fit"):
        imputer.impute(stations())
    with pytest.raises(ConfigError, match="effort: expected one of auto, instant, trial, quick"):
        ti.TableImputer(effort="much").fit(stations())
    with pytest.raises(ConfigError, match="levels in"):
        ti.TableImputer(quantiles=(0.5, 1.0), effort="trial").fit(stations())


def test_times_of_another_kind_than_the_models_are_refused_and_the_kind_is_saved(
    fitted: ti.TableImputer, tmp_path: Path
) -> None:
    fitted.imputer_.save(tmp_path / "model.safetensors")
    model = ti.GenerativeImputer.load(tmp_path / "model.safetensors")
    assert model.time_unit_ == "hours"
    dates, counts = stations(30), stations(30).set_axis(pd.Index(np.arange(30), name="time"))
    settings = {"calibrate": False, **SETTINGS}
    imputer = ti.TableImputer(model, **settings).fit(dates)
    with pytest.raises(DataError, match=r"expected dates or hours:minutes, .* came times that are plain numbers"):
        imputer.impute(counts)
    model.model_ = replace(model.model_, clock=replace(model.model_.clock, unit=""))
    with pytest.raises(DataError, match=r"expected times that are plain numbers, .* came dates"):
        ti.TableImputer(model, **settings).fit(dates)
    model.model_ = replace(model.model_, clock=replace(model.model_.clock, unit=None))  # as files from before have it
    assert ti.TableImputer(model, **settings).fit(counts).impute(counts).notna().all().all()


def test_codes_of_the_table_that_was_fitted_are_those_of_later_ones_until_it_is_fitted_anew() -> None:
    table = stations()
    table.iloc[[3, 8], 0] = -999
    with pytest.warns(ImputationWarning, match="-999: 2 cells of 1 feature hold a code .*set missing_codes='none'"):
        imputer = ti.TableImputer(**SETTINGS, calibrate=False).fit(table)
    later = stations(40, seed=3)
    later.iloc[5, 0] = -999  # alone it would not be certain
    with pytest.warns(ImputationWarning, match="-999: 1 cell of 1 feature"):
        assert imputer.draw(later).provenance.iloc[5, 0] == "imputed"
    assert imputer.set_params(model=imputer.imputer_).fit(stations()).codes_ == {}


def test_a_data_sets_name_stands_for_the_limits_of_its_card() -> None:
    table = stations().rename(columns={"a": "HR", "b": "pH"})
    kept = ti.TableImputer(limits="physionet2012").prepared(table).limits
    assert set(kept) == {"HR", "pH"}
    assert ti.TableImputer(limits="pm25").prepared(table).limits == {"*": Limits(0, 1000)}
    with pytest.raises(ConfigError, match="physionet2012, pm25"):
        ti.TableImputer(limits="physio").prepared(table)
    with pytest.raises(ConfigError, match="expected features that physionet2012 has limits for"):
        ti.TableImputer(limits="physionet2012").prepared(stations())
    assert ti.TableImputer(limits="HR=0:300").prepared(table).limits == {"HR": Limits(0, 300)}


def test_rounding_crosses_no_limit(fitted: ti.TableImputer) -> None:
    table = pd.DataFrame({"a": [1, 4, 7] * 5, "b": [0.5, np.nan, 0.7] * 5}).astype({"a": "Int64"})
    table.loc[4, "a"] = pd.NA
    prepared = ti.TableImputer(limits={"a": (0.6, 7.4), "b": (0, 0.96)}).prepared(table)
    changed = [np.array([table["a"].isna(), table["b"].isna()])]
    for value, a in ((0.61, 1), (7.39, 7), (7.2, 7)):
        out = prepared.table.apply(prepared.edits(changed, [np.full(changed[0].shape, value)]))
        assert out["a"][4] == a
        assert out["b"][1] == value


def test_values_below_zero_where_none_was_observed_are_named_with_the_way_out() -> None:
    frame = stations()
    frame["a"] = np.abs(frame["a"] - frame["a"].min())
    frame["b"] = np.abs(frame["b"]) * np.where(frame.index.hour % 5 == 0, -1, 1)
    with pytest.warns(ImputationWarning, match="some filled values or their intervals lie below 0"):
        found = ti.TableImputer(effort="trial", calibrate=False, n_samples=20, quantiles=(0.001,)).fit_draw(frame)
    named = [hint.partition(":")[0].split(", ") for hint in found.hints()]
    assert named
    assert "a" in named[0]
    assert "b" not in named[0]
    kept = ti.TableImputer(effort="trial", calibrate=False, n_samples=20, limits={"a": (0, None), "c": (0, None)})
    assert kept.fit(frame).draw(frame).hints() == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_sample": 3}, r"came 'n_sample'\. Did you mean 'n_samples'\?"),
        ({"quantile": 0.5}, r"came 'quantile'\. Did you mean 'quantiles'\?"),
        ({"foo": 1}, r"came 'foo'\. Use one of model, time, group"),
        ({"effort": "fast"}, "effort: expected one of auto, instant"),
    ],
)
def test_a_wrong_setting_is_refused_before_the_table_is_looked_at(settings: dict, message: str, tmp_path: Path) -> None:
    import tsimpute.accessors  # noqa: F401 - registers the methods of frames

    frame = stations()
    for call in (
        lambda: ti.impute(object(), **settings),  # no table at all: the setting is what is refused
        lambda: frame.tsimpute.impute(**settings),
        lambda: frame.tsimpute.draw(**settings),
        lambda: frame.tsimpute.describe(**settings),
        lambda: fill_file(tmp_path / "absent.csv", tmp_path / "out.csv", settings),
    ):
        with pytest.raises(ConfigError, match=message):
            call()
