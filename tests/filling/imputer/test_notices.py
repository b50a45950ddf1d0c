"""What is done with a table beyond filling its gaps is said from Python: a warning for each kind, with the way out."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tsimpute as ti
from tsimpute import ImputationWarning
from tsimpute.errors import ConfigError, DataError
from tsimpute.filling.imputer import steps as module

TRIAL: dict[str, Any] = {"effort": "trial", "n_samples": 3, "calibrate": False}


def frame() -> pd.DataFrame:
    index = pd.date_range("2024-01-01", periods=80, freq="h", name="time")
    wave = 20 + 5 * np.sin(np.arange(80) / 4)
    out = pd.DataFrame({"a": wave, "b": 2 * wave}, index)
    out.iloc[10:13, 0] = np.nan
    return out


def said(call: Any) -> list[str]:
    """The texts of the warnings of a call, each issued at a line of this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert all(one.filename == __file__ and one.category is ImputationWarning for one in caught)
    return [str(one.message) for one in caught]


def with_all() -> pd.DataFrame:
    """A table with every kind of thing that is worth a word."""
    table = frame().drop(frame().index[[40, 41]])
    table.iloc[[3, 5], 0] = -999.0
    table.iloc[7, 1] = 500.0
    return table.assign(word="x", note="y")


WANTED = [
    "-999: 2 cells of 1 feature hold a code for missing and are filled as gaps; if these are true values, set "
    "missing_codes='none'.",
    "1 value outside the limits is kept unchanged and hidden from the model; to fill such values, set "
    "drop_invalid=True (b: 1 value lies above the limit 100 (500)).",
    "look at b: 1 value lies far above all others (500).",
    "2 rows are added for times that the table does not have; to add none, set missing_times='keep'.",
    "2 columns are passed through unchanged, not filled: word, note; to fill one that holds numbers, name all "
    "columns to fill (features).",
]


def test_each_kind_is_said_once_with_counts_and_the_option_that_changes_it() -> None:
    settings = TRIAL | {"limits": {"b": (0, 100), "a": (0, 100)}}
    imputer = ti.TableImputer(**settings)
    assert said(lambda: ti.impute(with_all(), **settings)) == WANTED
    assert said(lambda: imputer.fit(with_all())) == WANTED
    assert said(lambda: imputer.impute(with_all())) == []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImputationWarning)
        ti.impute(with_all(), **settings)


def test_what_was_asked_for_is_no_surprise() -> None:
    settings = TRIAL | {
        "limits": {"b": (0, 600), "a": (-1000, 600)}, "missing_codes": "none", "missing_times": "keep",
        "features": ["a", "b"],
    }  # fmt: skip
    assert [text[:8] for text in said(lambda: ti.TableImputer(**settings).fit(with_all()))] == ["look at "]
    assert said(lambda: ti.impute(frame(), **TRIAL, limits=(0, None))) == []


def test_codes_stay_where_none_is_honoured() -> None:
    table = with_all()
    with pytest.warns(ImputationWarning):
        filled = ti.impute(table, **TRIAL, missing_codes="none")
    assert (filled["a"] == -999.0).sum() == 2


def test_a_table_is_read_once_where_it_is_learnt_from_and_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    import tsimpute.accessors  # noqa: F401

    calls = {"read_table": 0, "prepare": 0}

    def counted(name: str) -> Any:
        function = getattr(module, name)

        def count(*args: Any, **kwargs: Any) -> Any:
            calls[name] += 1
            return function(*args, **kwargs)

        return count

    for name in calls:
        monkeypatch.setattr(module, name, counted(name))
    settings = TRIAL | {"limits": (0, None)}
    expected = ti.TableImputer(**settings).fit(frame()).draw(frame())
    assert calls == {"read_table": 2, "prepare": 2}
    for call in (ti.impute, lambda table, **kwargs: table.tsimpute.draw(**kwargs).table):
        calls.update(read_table=0, prepare=0)
        pd.testing.assert_frame_equal(call(frame(), **settings), expected.table)
        assert calls == {"read_table": 1, "prepare": 1}


@pytest.mark.parametrize("change", ["sorted", "cut", "joined"])
def test_an_index_without_a_name_is_no_column(change: str) -> None:
    table = frame().reset_index()
    if change == "sorted":
        table = table.iloc[::-1]
    elif change == "cut":
        table = table[table.index > 5]
    else:
        table = pd.concat([table.iloc[:40], table.iloc[40:].set_axis(range(40))])
    assert said(lambda: ti.impute(table, **TRIAL)) == []


def test_gaps_that_a_setting_leaves_empty_are_counted() -> None:
    texts = said(lambda: ti.impute(frame(), **TRIAL, max_gap=0))
    assert texts == ["3 gaps stay empty, as set by max_gap=0."]
    assert said(lambda: ti.impute(frame(), **TRIAL, max_gap=3)) == []


def test_quantiles_beyond_the_draws_are_named() -> None:
    table = pd.concat([frame()] * 9).set_axis(pd.date_range("2024-01-01", periods=720, freq="h", name="time"))
    table.iloc[100:120] += np.random.default_rng(0).random((20, 2))
    texts = said(lambda: ti.impute(table, effort="instant", n_samples=10, quantiles=(0.025, 0.975)))
    assert len(texts) == 1
    assert re.fullmatch(
        r"quantile 0\.025, 0\.975: the smallest or largest of 10 draws, .* take 39 draws or more\.", texts[0]
    )


def test_the_name_of_an_index_is_no_column() -> None:
    table = frame().reset_index()
    table.index.name = "row"
    assert said(lambda: ti.impute(table, **TRIAL, max_gap=3)) == []


class PolarsFrame:
    def to_pandas(self) -> pd.DataFrame:
        return frame()


PolarsFrame.__module__, PolarsFrame.__name__ = "polars.dataframe.frame", "DataFrame"


def test_a_kind_of_table_that_is_not_known_is_refused_with_the_way_out() -> None:
    with pytest.raises(DataError, match=r"came Series\. Make a frame of it: series\.to_frame\(\)\."):
        ti.impute(frame()["a"])
    with pytest.raises(DataError, match=r"came polars\.DataFrame\. Convert it with table\.to_pandas\(\)\."):
        ti.impute(PolarsFrame())
    with pytest.raises(DataError, match=r"came complex128, complex numbers: give their real and imaginary parts"):
        ti.impute(frame().assign(c=1j), features=["c"])
    with pytest.raises(DataError, match=r"\)\. Convert it with pandas\.to_numeric, or leave"):
        ti.impute(frame().assign(c="1.5"), features=["c"])
    with pytest.raises(DataError, match=r"came str\. Fill a file with tsimpute\.fill_file"):
        ti.impute("stations.csv")
    with pytest.raises(DataError, match=r"expected Windows, came DataFrame\. A table is described by table\.tsimpute"):
        ti.describe(frame())  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"features: expected distinct columns, 'a' is named twice\. Name it once\."):
        ti.impute(frame(), features=["a", "a"])


def calibrating(**settings: Any) -> dict[str, Any]:
    return TRIAL | {"calibrate": True, "limits": (0, None)} | settings


def test_what_could_not_be_calibrated_is_said_once_with_the_count_and_what_to_do() -> None:
    texts = said(lambda: ti.impute(frame(), **calibrating()))
    assert len(texts) == 1
    found = re.fullmatch(
        r"the quantiles are as drawn: calibration needs 100 hidden cells and had (\d+), so the intervals may be too "
        r"narrow or too wide; give a longer table, or do without calibration: set calibrate=False\.",
        texts[0],
    )
    assert found is not None
    imputer = ti.TableImputer(**calibrating())
    assert said(lambda: imputer.fit(frame())) == texts
    assert int(found[1]) == imputer.scores_[0]["cells"] < 100
    assert said(lambda: imputer.draw(frame())) == []


def test_nothing_is_said_of_calibration_where_no_model_predicts() -> None:
    full = frame().interpolate()
    assert said(lambda: ti.impute(full, **calibrating())) == []
    constant = pd.DataFrame({"a": [7.5, np.nan] * 40}, frame().index)
    assert "drawn" not in " ".join(said(lambda: ti.impute(constant, **calibrating(limits=None))))


def test_a_second_call_with_the_same_table_says_nothing_again() -> None:
    table = with_all()
    table.iloc[20, 1] = 9e6  # the advice for such a value differs once a model has learnt
    imputer = ti.TableImputer(**TRIAL)
    assert len(said(lambda: imputer.fit(table))) == 4
    assert said(lambda: imputer.draw(table)) == said(lambda: imputer.impute(table.copy())) == []


def test_another_table_and_another_fit_say_it_again() -> None:
    imputer = ti.TableImputer(**TRIAL | {"limits": {"b": (0, 100), "a": (0, 100)}})
    assert said(lambda: imputer.fit(with_all())) == WANTED
    later = with_all()
    later.loc[later.index[60], "b"] = 600.0
    texts = said(lambda: imputer.impute(later))
    assert [text[:7] for text in texts] == [text[:7] for text in ("-999: 2", "2 value", *WANTED[3:])]
    shifted = with_all().set_axis(with_all().index + pd.Timedelta("365D"))
    assert said(lambda: imputer.impute(shifted)) == WANTED
    assert said(lambda: imputer.fit(with_all())) == WANTED


def test_what_was_not_said_of_a_table_before_is_said() -> None:
    imputer = ti.TableImputer(**TRIAL | {"limits": (0, 600), "missing_codes": "none"}).fit(frame())
    table = with_all().drop(columns=["word", "note"])
    before = said(lambda: imputer.impute(table))
    assert said(lambda: imputer.set_params(missing_codes=(-999,)).impute(table)) not in (before, [])
