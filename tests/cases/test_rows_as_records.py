"""Tables without time, whose rows are records by themselves, through ``records="rows"``."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import tsimpute as ti
from tsimpute.cli.commands import main
from tsimpute.errors import ConfigError, DataError, ImputationWarning
from tsimpute.filling.imputer.fitting import first_fit, hidden_share
from tsimpute.filling.learning.learning import EFFORTS
from tsimpute.filling.measuring.hidden_draws import hidden_cells
from tsimpute.system.run import Run
from tsimpute.tables.frames.frames import TimeOptions, read_frame
from tsimpute.tables.roles.columns import ColumnSpec

CORRELATION = 0.9
DAYS = pd.date_range("2024-01-01", periods=30).strftime("%Y-%m-%d")


def people(n: int = 300) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The truth, and the same with a fifth of the cells missing."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, n)
    x = 2.0 * group + rng.normal(size=n)
    truth = pd.DataFrame({
        "person": np.arange(1000, 1000 + n),
        "colour": np.array(["red", "blue, dark", "green"], object)[group],
        "x": x.round(3),
        "y": (0.5 * x - group + 0.3 * rng.normal(size=n)).round(2),
        "visits": pd.array(np.rint(3 * np.exp(x / 3)).astype(int), "Int64"),
        "note": np.resize(["ok", "", 'said "no"'], n),
    })  # fmt: skip
    gaps = truth.copy()
    for column in ("colour", "x", "y", "visits"):
        gaps.loc[rng.random(n) < 0.2, column] = None
    return truth, gaps


@pytest.fixture(scope="module")
def filled() -> tuple[pd.DataFrame, pd.DataFrame, ti.TableImputer, ti.Imputation]:
    truth, gaps = people()
    imputer = ti.TableImputer(
        records="rows", categories="colour", text="note", limits={"visits": (0, None)}, effort="instant", n_samples=20,
        keep_samples=True,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImputationWarning)
        imputer.fit(gaps, progress=False)
        return truth, gaps, imputer, imputer.draw(gaps, progress=False)


def test_a_whole_table_comes_back(filled: tuple) -> None:
    truth, gaps, _, imputation = filled
    table = imputation.table
    assert table.notna().all().all()
    assert list(table.columns) == list(gaps.columns)
    pd.testing.assert_index_equal(table.index, gaps.index)
    for column in gaps:
        assert table[column].dtype == gaps[column].dtype
        known = gaps[column].notna()
        pd.testing.assert_series_equal(table.loc[known, column], gaps.loc[known, column])
    hidden = gaps["colour"].isna()
    assert set(table["colour"]) == {"red", "blue, dark", "green"}
    assert (table["colour"] == truth["colour"])[hidden].mean() > 0.8
    assert (table["visits"] >= 0).all()


def test_it_is_better_than_the_mean(filled: tuple) -> None:
    truth, gaps, imputer, imputation = filled
    for column in ("x", "y"):
        hidden = gaps[column].isna()
        error = (imputation.table[column] - truth[column])[hidden].abs().mean()
        assert error < 0.7 * (gaps[column].mean() - truth[column])[hidden].abs().mean()
    assert {row["imputer"] for row in imputer.scores_} >= {"the mean", "the median", "gaussian"}
    assert "the mean" in imputer.delivered_


def test_the_order_of_rows_means_nothing() -> None:
    """Medians of the same fitted model are the same, but for the draws that they come from."""
    _, gaps = people(200)
    gaps = gaps[["x", "y"]]
    imputer = ti.TableImputer(records="rows", effort="instant", n_samples=40, calibrate=False).fit(gaps, progress=False)
    order = np.random.default_rng(1).permutation(len(gaps))
    whole, mixed = imputer.impute(gaps, progress=False), imputer.impute(gaps.iloc[order], progress=False)
    difference = (whole - mixed.sort_index()).abs().max().max()
    assert difference < 0.1 * float(gaps.std().max())


def test_a_gaussian_is_filled_with_its_conditional_expectation() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    y = CORRELATION * x + np.sqrt(1 - CORRELATION**2) * rng.normal(size=2000)
    frame = pd.DataFrame({"x": x, "y": np.where(rng.random(2000) < 0.2, np.nan, y)})
    imputation = (
        ti.TableImputer(records="rows", effort="instant").fit(frame, progress=False).draw(frame, progress=False)
    )
    hidden = frame["y"].isna()
    assert np.abs(imputation.table["y"] - CORRELATION * x)[hidden].mean() < 0.06
    width = imputation.cells["q0.95"] - imputation.cells["q0.05"]
    assert width.median() == pytest.approx(2 * 1.645 * np.sqrt(1 - CORRELATION**2), rel=0.3)


def test_draws_make_completed_tables(filled: tuple) -> None:
    _, gaps, _, imputation = filled
    tables = list(imputation.completed_tables())
    assert len(tables) == 20
    hidden = gaps["x"].isna()
    assert np.std([table.loc[hidden, "x"].to_numpy() for table in tables], axis=0).min() > 0
    for table in tables:
        assert table["colour"].isin(["red", "blue, dark", "green"]).all()
        pd.testing.assert_series_equal(table.loc[~hidden, "x"], gaps.loc[~hidden, "x"])


def test_without_draws_there_are_no_completed_tables() -> None:
    _, gaps = people(60)
    imputation = (
        ti.TableImputer(records="rows", effort="instant", calibrate=False).fit(gaps[["x", "y"]]).draw(gaps[["x", "y"]])
    )
    with pytest.raises(ConfigError, match="keep_samples"):
        next(imputation.completed_tables())


def test_a_saved_model_knows_its_categories(filled: tuple, tmp_path: Path) -> None:
    _, gaps, imputer, imputation = filled
    imputer.save(tmp_path / "people.safetensors")
    again = ti.TableImputer(model=tmp_path / "people.safetensors", limits={"visits": (0, None)}, text="note")
    few = gaps.iloc[:40]
    assert again.impute(few, progress=False)["colour"].equals(imputation.table["colour"].iloc[:40])
    unknown = few.assign(colour=few["colour"].replace("red", "pink"))
    with pytest.raises(DataError, match="'pink'"):
        again.impute(unknown, progress=False)
    for name in ("color", "note"):  # misspelt, and a column that the model passes through
        other = ti.TableImputer(model=tmp_path / "people.safetensors", categories=name)
        with pytest.raises(ConfigError, match=rf"categories: expected columns .* \(colour\), came '{name}'"):
            other.impute(few, progress=False)


def test_hidden_values_reach_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    table = people()[1][["x", "y"]]
    first = ti.TableImputer(records="rows", effort="instant")
    visible = first.prepared(table).visible
    hidden = hidden_cells(visible, hidden_share(EFFORTS["instant"], visible), first.seed)[0]
    poisoned = table.mask(hidden.T, 1e9)
    monkeypatch.setattr("tsimpute.filling.preparing.prepare.far_cells", lambda panel, *_: [np.zeros_like(hidden)])
    second = ti.TableImputer(records="rows", effort="instant", missing_codes="none")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImputationWarning)  # too few cells for calibration
        fits = [
            first_fit(one.prepared(of_one), one.settings, Run()) for one, of_one in ((first, table), (second, poisoned))
        ]
    answers = [fit.answer for fit in fits if fit.answer is not None]
    assert answers[0].scores[-1]["MAE"] != answers[1].scores[-1]["MAE"]
    a, b = (answer.base.blind for answer in answers)
    assert a.base.scaler_.to_dict() == b.base.scaler_.to_dict()
    np.testing.assert_array_equal(a.base.model_.covariance, b.base.model_.covariance)
    assert len(a.components) == len(b.components) == 2  # nearest neighbours and forests
    for one, other in zip(a.components, b.components, strict=True):
        np.testing.assert_equal(one.parts(), other.parts())


@pytest.mark.parametrize(
    ("setting", "value"), [("time", "x"), ("group", "note"), ("max_gap", 3), ("feature", "note"), ("calendar", True)]
)
def test_settings_of_series_are_refused(setting: str, value: object) -> None:
    _, gaps = people(30)
    with pytest.raises(ConfigError, match=f"{setting}: expected none with records='rows'"):
        ti.impute(gaps, records="rows", effort="instant", **{setting: value})


def test_objects_that_cannot_be_rows_are_refused() -> None:
    array = np.random.default_rng(0).normal(size=(40, 3))
    array[::7, 1] = np.nan
    labelled = xr.DataArray(array, dims=("person", "feature"))
    with pytest.raises(ConfigError, match=r"records: expected a frame.*to_pandas"):
        ti.impute(labelled, records="rows")
    for table in (array, xr.Dataset({"u": ("person", array[:, 0]), "v": ("person", array[:, 1])})):
        with pytest.raises(ConfigError, match=r"categories: expected [Nn]one"):
            ti.impute(table, records="rows", categories=["v"])


def test_categories_need_rows() -> None:
    _, gaps = people(30)
    with pytest.raises(ConfigError, match="records='rows'"):
        ti.impute(gaps, categories="colour", effort="instant")


def texts_of(frame: pd.DataFrame, **settings: object) -> list[str]:
    """What is said of columns of texts with gaps in a table of records."""
    options = {name: settings[name] for name in ("text", "categories") if name in settings}
    table = read_frame(frame, ColumnSpec(**options), TimeOptions(records="rows"))  # type: ignore[arg-type]
    return [text for text in table.warnings if "whose gaps stay empty" in text]


def test_texts_with_gaps_that_may_be_categories_name_the_option_that_fills_them() -> None:
    _, gaps = people(100)
    gaps["note"] = None
    whole, unlike = np.resize(["a", "b"], 100), [None, *(f"text {n}" for n in range(99))]
    gaps = gaps.assign(whole=whole, unlike=unlike, sex=np.resize(["f", "m", None], 100))
    assert texts_of(gaps) == [
        "colour, sex: columns of texts whose gaps stay empty; "
        "categories=['colour', 'sex'] fills them with one of their texts"
    ]
    assert texts_of(gaps, categories={"sex": ()})[0].startswith("colour: column of texts whose gaps stay empty")
    assert texts_of(gaps, categories={"sex": ()}, text=("colour",)) == []


@pytest.mark.parametrize("several", [False, True])
def test_a_table_of_categories_alone_is_filled_and_so_is_the_next(several: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth = pd.DataFrame({"town": rng.choice(["Ulm", "Bonn", "Kiel"] if several else ["Ulm", "Bonn"], 300)})
    truth["state"] = truth["town"].map({"Ulm": "BW", "Bonn": "NW", "Kiel": "SH"})
    gaps = truth.copy()
    gaps.loc[::5, "town"], gaps.loc[2::5, "state"] = None, None
    with pytest.raises(DataError, match=r"columns of texts to fill \(categories\)"):
        ti.impute(gaps, records="rows", effort="instant")
    options = {"records": "rows", "effort": "instant", "n_samples": 20, "calibrate": False}
    imputer = ti.TableImputer(categories=["town", "state"], **options)  # type: ignore[arg-type]
    pd.testing.assert_frame_equal(imputer.fit(gaps, progress=False).impute(gaps, progress=False), truth)
    imputer.save(tmp_path / "m.safetensors")
    again = ti.TableImputer(model=tmp_path / "m.safetensors").impute(gaps[:50], progress=False)
    pd.testing.assert_frame_equal(again, truth[:50])


def test_a_long_table_is_no_table_of_records_and_is_not_sent_from_option_to_option() -> None:
    long = pd.DataFrame({"site": ["a", "b"] * 20, "parameter": ["pH"] * 20 + ["NO3"] * 20, "result": np.arange(40.0)})
    with pytest.raises(
        DataError, match=r"came a long one, .*'parameter' and their values in 'result'\. Leave"
    ) as refused:
        ti.impute(long, records="rows", effort="instant")
    assert "(time)" not in str(refused.value)


@pytest.mark.parametrize("name", ["MRN", "patient_id", "Subject"])
def test_people_with_a_date_name_the_option_for_records(name: str) -> None:
    rng = np.random.default_rng(0)
    ids = rng.permutation(900)[:90] + 5000
    frame = pd.DataFrame({
        name: [f"P{n}" for n in ids] if name == "Subject" else ids, "admitted": np.repeat(DAYS, 3),
        "age": rng.integers(20, 90, 90), "HR": rng.normal(80, 15, 90).round(),
    })  # fmt: skip
    frame.loc[::7, "HR"] = None
    with pytest.raises(DataError, match=f"Every row has another '{name}': if each row is a record .*records='rows'"):
        read_frame(frame)
    counted = frame.assign(**{name: np.arange(90)})
    with pytest.raises(DataError) as refused:
        read_frame(counted)
    assert "records='rows'" not in str(refused.value)
    table = read_frame(frame, ColumnSpec((), ()), TimeOptions(records="rows"))
    assert [feature.name for feature in table.panel.features] == ["age", "HR"]


def test_too_many_categories_are_refused() -> None:
    _, gaps = people(80)
    gaps["name"] = [f"n{i}" for i in range(80)]
    with pytest.raises(DataError, match="1 to 50 different categories"):
        ti.impute(gaps, records="rows", categories="name", effort="instant")


def test_two_categories_and_numbers_that_name_categories() -> None:
    rng = np.random.default_rng(0)
    sex = rng.integers(1, 3, 400)
    frame = pd.DataFrame(
        {"sex": np.where(rng.random(400) < 0.1, np.nan, sex), "height": 150.0 + 20 * sex + rng.normal(size=400)}
    )
    filled = (
        ti.TableImputer(records="rows", categories=["sex"], effort="instant")
        .fit(frame, progress=False)
        .impute(frame, progress=False)
    )
    hidden = frame["sex"].isna()
    assert filled["sex"].dtype == frame["sex"].dtype
    assert (filled["sex"] == sex)[hidden].mean() > 0.95


def test_a_file_keeps_every_other_byte(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, gaps = people(120)
    source, out = tmp_path / "people.csv", tmp_path / "filled.csv"
    gaps.to_csv(source, index=False, sep=";")
    options = ["--records", "rows", "--time", "none", "--categories", "colour", "--effort", "instant"]
    main(["impute", str(source), "-o", str(out), *options])
    printed = capsys.readouterr().out
    assert "each row by itself" in printed
    assert "categories: colour: 3" in printed
    before, after = (path.read_text().splitlines() for path in (source, out))
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        for was, now in zip(old.split(";"), new.split(";"), strict=True):
            assert was == now or (was == "" and now != "")
    assert not pd.read_csv(out, sep=";")[["colour", "x", "y", "visits"]].isna().any().any()
    assert (tmp_path / "filled.report.html").stat().st_size > 20_000


@pytest.mark.parametrize(
    ("frame", "n_empty"),
    [
        (pd.DataFrame({"a": [1.0], "b": [np.nan]}), 0),
        (pd.DataFrame({"a": [1.0, np.nan, 3.0, 4.0]}), 0),
        (pd.DataFrame({"a": [np.nan] * 40 + [1.0, 2.0], "b": [np.nan] * 42}), 0),
        # One value says nothing of the others, 1 or nothing is an event, and a number of the row is no measurement.
        (pd.DataFrame({"a": [np.nan, np.nan, 3.0], "b": [np.nan, 1.0, 2.0]}), 2),
        (pd.DataFrame({"a": [1.0, 1.0, np.nan, 1.0] * 20, "b": [2.0, 2.0, 2.0, np.nan] * 20}), 20),
        (pd.DataFrame({"a": np.r_[np.arange(79.0), np.nan], "b": np.r_[np.nan, 2 * np.arange(79.0)]}), 1),
    ],
)
def test_small_and_degenerate_tables_are_filled(frame: pd.DataFrame, n_empty: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImputationWarning)
        filled = ti.impute(frame, records="rows", effort="instant", progress=False)
    for column in frame:
        known = frame[column].notna()
        pd.testing.assert_series_equal(filled.loc[known, column], frame.loc[known, column], check_dtype=False)
        assert np.isfinite(filled[column].dropna()).all()
    assert filled["a"].isna().sum() == n_empty


def test_forests_fill_what_bends_and_come_back_from_a_file(tmp_path: Path) -> None:
    """Where a column is no line of the others, trees have a share; a saved model gives the same numbers."""
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-2, 2, (2, 600))
    truth = np.sign(a) * np.sign(b) + 0.05 * rng.normal(size=600)
    frame = pd.DataFrame({"a": a, "b": b, "c": np.where(rng.random(600) < 0.2, np.nan, truth)})
    imputer = ti.TableImputer(records="rows", effort="instant").fit(frame, progress=False)
    assert "random forests" in imputer.delivered_
    filled, hidden = imputer.impute(frame, progress=False), frame["c"].isna()
    errors = np.abs(filled["c"] - truth)[hidden], np.abs(frame["c"].mean() - truth)[hidden]
    assert errors[0].mean() < 0.5 * errors[1].mean()
    imputer.save(tmp_path / "model.safetensors")
    again = ti.TableImputer(model=tmp_path / "model.safetensors").impute(frame, progress=False)
    pd.testing.assert_frame_equal(again, filled)


def test_one_person_without_a_category_is_filled_by_a_saved_model(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    flag = rng.random(400) < 0.5
    frame = pd.DataFrame(
        {
            "x": flag + 0.1 * rng.normal(size=400),
            "flag": flag.astype(object),
            "s": pd.Categorical(np.where(flag, "hi", "lo")),
        }
    )
    gaps = frame.mask(rng.random(frame.shape) < 0.15)
    imputer = ti.TableImputer(records="rows", categories=["flag", "s"], effort="instant").fit(gaps, progress=False)
    imputer.save(tmp_path / "m.safetensors")
    one = pd.DataFrame({"x": [1.0], "flag": pd.Series([None], dtype=object), "s": pd.Categorical([None], ["lo"])})
    with warnings.catch_warnings():  # no value of these columns in this table, which is the case
        warnings.simplefilter("ignore", ImputationWarning)
        filled = ti.TableImputer(model=tmp_path / "m.safetensors").impute(one, progress=False)
    assert filled["flag"][0] is True
    assert filled["s"][0] == "hi"


def test_rare_categories_are_drawn_as_often_as_they_are() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=1000), "kind": rng.choice(["a", "b", "c"], 1000, p=[0.88, 0.1, 0.02])})
    gaps = frame.copy()
    gaps.loc[rng.random(1000) < 0.3, "kind"] = None
    imputer = ti.TableImputer(records="rows", categories="kind", effort="instant", keep_samples=True, n_samples=20)
    tables = list(imputer.fit(gaps, progress=False).draw(gaps, progress=False).completed_tables())
    hidden = gaps["kind"].isna()
    shares = pd.concat([table.loc[hidden, "kind"] for table in tables]).value_counts(normalize=True)
    assert shares["b"] == pytest.approx(0.1, abs=0.03)
    assert 0.003 < shares["c"] < 0.05


def test_a_code_for_missing_is_no_category() -> None:
    frame = pd.DataFrame({"x": np.arange(60.0) % 7, "stage": [1, 2, -999] * 20})
    with pytest.raises(DataError, match="-999, which is a code for missing"):
        ti.impute(frame, records="rows", categories="stage", effort="instant")
