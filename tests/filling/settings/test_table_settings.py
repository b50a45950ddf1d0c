"""Every setting of a table imputer, as one value, as a list, and of a wrong kind: one form, or a clear refusal."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

import tsimpute as ti
from tsimpute.core.limits import Limits
from tsimpute.errors import ConfigError
from tsimpute.filling.preparing.table_settings import Settings
from tsimpute.models.pretrained import model_path


@dataclass(frozen=True)
class Case:
    """What a setting becomes, from several forms; and what is refused. ``at`` leads to the normalised value."""

    at: str
    accepted: tuple[tuple[Any, Any], ...]
    refused: tuple[Any, ...] = field(default=())


def _columns(at: str, none: tuple[tuple[Any, Any], ...] = ()) -> Case:
    """One name or several."""
    several = (["a", "b"], ("a", "b"), np.array(["a", "b"], object), pd.Index(["a", "b"]), {"a": 0, "b": 0}.keys())
    accepted = [("ab", ("ab",)), (3, (3,)), (None, None), *((names, ("a", "b")) for names in several)]
    return Case(at, (*accepted, *none), (True, b"ab", {"a": 1}, [["a"]], iter("a")))


def _one_column(at: str) -> Case:
    return Case(at, (("ab", "ab"), (3, 3), (["ab"], "ab"), (None, None)), (["a", "b"], [], True, {"a": 1}))


def _true_or_false(at: str, *none: tuple[Any, Any]) -> Case:
    return Case(at, ((True, True), (np.False_, False), *none), ("true", 1, [True], None, np.nan)[: 3 if none else 5])


def _words(at: str, *words: str) -> Case:
    return Case(at, tuple((word, word) for word in words), ("other", [words[0]], 1, None, True))


FILE = model_path("physionet2012")
_NO_COLUMN = (("none", ()), ([], ()), ((), ()))
CASES: Mapping[str, Case] = {
    "model": Case(
        "model", ((None, None), ("physionet2012", "physionet2012"), (FILE, FILE)), (3, ["name"], True)
    ),
    "time": _columns("spec.time", _NO_COLUMN),
    "group": _columns("spec.group", _NO_COLUMN),
    "features": Case("spec.features", _columns("").accepted, (*_columns("").refused, [], ())),
    "feature": _one_column("spec.feature"),
    "value": _one_column("spec.value"),
    "unit": _one_column("spec.unit"),
    "text": _columns("spec.text", (([], ()), ((), ()))),
    "records": _words("time_options.records", "series", "rows"),
    "categories": Case(
        "spec.categories", ((None, {}), ("a", {"a": ()}), (["a", 3], {"a": (), 3: ()})), (True, [True], b"a")
    ),
    "units": Case(
        "units",
        (("m", {"*": "m"}), ({"a": "m", 3: "mm"}, {"a": "m", "3": "mm"}), (None, {}), ({}, {})),
        (3, ["m", "mm"], {"a": 3}, True),
    ),
    "rename": Case(
        "rename", ((None, {}), ({}, {}), ({"a": "HR", 3: "K"}, {"a": "HR", "3": "K"})), ("a=HR", ["a"], {"a": 3}, True)
    ),
    "timezone": Case(
        "time_options.timezone",
        (("Europe/Rome", "Europe/Rome"), (None, None), (ZoneInfo("Europe/Rome"), "Europe/Rome"), (UTC, "UTC")),
        (1, ["Europe/Rome"], True),
    ),
    "dayfirst": _true_or_false("time_options.dayfirst", (None, None)),
    "irregular": _true_or_false("time_options.irregular", (None, None)),
    "duplicates": _words("time_options.duplicates", "refuse", "first", "last", "mean"),
    "missing_times": _words("time_options.missing_times", "auto", "insert", "keep"),
    "limits": Case(
        "limits",
        (
            ({"a": (0, None)}, {"a": Limits(0)}),
            ({"a": [0, np.float32(2)], "*": Limits(1)}, {"a": Limits(0, 2), "*": Limits(1)}),
            ({3: np.array([0, 2])}, {"3": Limits(0, 2)}),
            ((0, None), {"*": Limits(0)}),
            ([0, 100], {"*": Limits(0, 100)}),
            (Limits(0, integer=True), {"*": Limits(0, integer=True)}),
            ("a=0:", "a=0:"),
            (None, {}),
        ),
        (3, [0], [0, 1, 2], {"a": 3}, {"a": (0,)}, {"a": ("0", "1")}, {"a": (2, 1)}, {"a": (np.nan, 1)}, True),
    ),
    "missing_codes": Case(
        "codes",
        (
            ("certain", {"*": "certain"}),
            ("none", {"*": ()}),
            ([], {"*": ()}),
            (-999, {"*": (-999.0,)}),
            (0, {"*": (0.0,)}),
            (np.int16(-1), {"*": (-1.0,)}),
            (np.array(-1), {"*": (-1.0,)}),
            ([-1, 0], {"*": (-1.0, 0.0)}),
            ((-200.5, np.nan, pd.NA, pd.NaT), {"*": (-200.5,)}),
            (np.nan, {"*": ()}),
            (np.array([-1, -2]), {"*": (-1.0, -2.0)}),
            (pd.Series([-1.0]), {"*": (-1.0,)}),
            ({-1, -2}, {"*": (-1.0, -2.0)}),
            ({"a": -1, "b": [0, 9], 3: "none"}, {"a": (-1.0,), "b": (0.0, 9.0), "3": ()}),
            ({"a": np.int8(-1), "*": "certain"}, {"a": (-1.0,), "*": "certain"}),
        ),
        (None, True, "-999", ["-999"], [True], [None], {"a": "x"}, {"a": None}),
    ),
    "drop_invalid": _true_or_false("drop_invalid"),
    "predict": _columns("predict", (([], ()), ((), ()))),
    "no_information": _words("no_information", "fill", "empty"),
    "max_gap": Case("max_gap", ((3, 3), (0, 0), (np.int64(3), 3), (None, None)), (-1, 2.0, "3", [3], True, np.nan)),
    "calendar": _true_or_false("calendar"),
    "n_samples": Case("n_samples", ((5, 5), (np.int64(3), 3), (np.array(4), 4)), (0, 5.0, "5", [5], True, None)),
    "quantiles": Case(
        "levels",
        (
            (0.5, (0.5,)), ([0.9, 0.1], (0.1, 0.9)), (np.array([0.1, 0.9]), (0.1, 0.9)), (np.float32(0.5), (0.5,)),
            ((0.5, 0.5), (0.5,)), (pd.Series([0.1]), (0.1,)),
        ),
        ([], 0, 1, [0.5, 1.5], "0.5", ["0.5"], None, True, {"a": 0.5}, np.nan),
    ),
    "seed": Case("seed", ((0, 0), (-3, -3), (np.uint8(7), 7)), (1.5, "1", [1], None, True)),
    "effort": _words("effort", "auto", "instant", "trial", "quick", "normal", "thorough"),
    "minutes": Case("minutes", ((2, 2.0), (0.5, 0.5), (None, None)), (0, -1, "5", [5], True, np.nan)),
    "calibrate": _true_or_false("calibrate"),
    "recalibrate": _true_or_false("recalibrate"),
    "keep_samples": _true_or_false("keep_samples"),
}  # fmt: skip


def settings(**given: Any) -> Settings:
    return ti.TableImputer(**given).settings


@pytest.mark.parametrize("name", inspect.signature(ti.TableImputer).parameters)
def test_every_setting_has_its_cases_and_takes_each_form(name: str) -> None:
    assert name in CASES, f"{name}: a new setting; say in CASES what it accepts and refuses"
    case = CASES[name]
    for given, expected in case.accepted:
        imputer = ti.TableImputer(**{name: given})
        assert getattr(imputer, name) is given, "the constructor stores what it is given"
        found: Any = imputer.settings
        for part in case.at.split("."):
            found = getattr(found, part)
        assert (type(found), found) == (type(expected), expected), f"{name}={given!r}"


@pytest.mark.parametrize("name", inspect.signature(ti.TableImputer).parameters)
def test_every_setting_of_a_wrong_kind_is_refused_with_what_was_expected_and_came(name: str) -> None:
    frame = pd.DataFrame({"a": [1.0, None, 3.0] * 20, "b": [2.0, 4.0, None] * 20})
    refused = CASES[name].refused
    assert refused
    for wrong in refused:
        with pytest.raises(ConfigError, match=r"expected .*came|limits: expected") as error:
            ti.TableImputer(**{name: wrong}).prepared(frame)
        assert name in str(error.value)


def test_a_text_is_one_column() -> None:
    frame = pd.DataFrame({"ab": [1.0, None, 3.0] * 20, "a": [2.0, 4.0, None] * 20, "b": 1.0})
    for features in ("ab", ["ab"], ("ab",)):
        panel = ti.TableImputer(features=features).prepared(frame).panel
        assert [feature.name for feature in panel.features] == ["ab"]


def test_one_unit_is_of_all_features_and_one_by_name_comes_first() -> None:
    frame = pd.DataFrame({"a [s]": [1.0, None, 3.0] * 20, "b": [2.0, 4.0, None] * 20})
    for units, expected in (("m", ["m", "m"]), ({"b": "mm", "*": "m"}, ["m", "mm"]), ({"b": "mm"}, ["s", "mm"])):
        panel = ti.TableImputer(units=units).prepared(frame).panel
        assert [feature.unit for feature in panel.features] == expected
    assert {f.unit for f in ti.TableImputer(units="m").prepared(frame.to_numpy()).panel.features} == {"m"}
    for table in (frame, frame.to_xarray()):
        with pytest.raises(ConfigError, match=r"units: expected features of the table .*came 'c'"):
            ti.TableImputer(units={"c": "m"}).prepared(table)


@pytest.mark.parametrize(
    ("codes", "missing"),
    [
        ("none", []),
        ("certain", [("a", 3), ("a", 5), ("b", 7)]),
        (-999, [("a", 3), ("a", 5), ("b", 7)]),
        ([0, -1], [("b", 4), ("b", 9)]),
        ({"b": [0, np.nan], "*": "none"}, [("b", 4)]),
        ({"b": -1, "*": "certain"}, [("a", 3), ("a", 5), ("b", 9)]),
        ({"a": "none", "*": -999}, [("b", 7)]),
        ({"b": 0}, [("a", 3), ("a", 5), ("b", 4)]),
    ],
)
def test_codes_are_those_that_are_said_and_all_others_stay(codes: Any, missing: list[tuple[str, int]]) -> None:
    values = 5 + np.sin(np.arange(60))
    frame = pd.DataFrame({"a": values, "b": values})
    frame.loc[[3, 5], "a"] = -999.0
    frame.loc[[4, 7, 9], "b"] = [0.0, -999.0, -1.0]
    prepared = ti.TableImputer(missing_codes=codes).prepared(frame)
    found = np.argwhere(prepared.coded[0])
    assert [("ab"[k], t) for k, t in found] == missing
    assert np.isnan(prepared.panel.series[0].values).sum() == len(missing)
    assert any("code for missing and" in warning for warning in prepared.warnings) is bool(missing)


def test_codes_of_what_is_no_column_are_refused() -> None:
    frame = pd.DataFrame({"a": [1.0, None, 3.0] * 20})
    with pytest.raises(ConfigError, match=r"missing_codes: expected features of the table \(a\) .*came 'b'"):
        ti.TableImputer(missing_codes={"b": -1}).prepared(frame)


def test_a_wrong_setting_is_refused_by_all_ways_of_filling() -> None:
    frame = pd.DataFrame({"a": [1.0, None, 3.0] * 20, "b": [2.0, 4.0, None] * 20})
    import tsimpute.accessors  # noqa: F401

    imputer = ti.TableImputer(n_samples="5")  # type: ignore[arg-type]
    for call in (
        lambda: ti.impute(frame, n_samples="5"),
        lambda: imputer.fit(frame),
        lambda: frame.tsimpute.draw(n_samples="5"),
        lambda: frame.tsimpute.describe(n_samples="5"),
        imputer.check,
    ):
        with pytest.raises(ConfigError, match="n_samples: expected a whole number from 1, came '5'"):
            call()
