"""Functions that put values into words take everything that can reach them: no message crashes while it is built.

What this does not reach: a sentence in the middle of a function, whose values only that function knows. Those are built
by the tests of what refuses.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsimpute.core.limits import Limits
from tsimpute.core.panel import Clock, Panel, Series
from tsimpute.core.quantiles import few_draws_text
from tsimpute.core.windows import Feature
from tsimpute.filling.preparing.prepare import some_of
from tsimpute.reports.pages import number, several, share
from tsimpute.tables.clock.duplicates import series_text
from tsimpute.tables.clock.steps import months_text, step_text
from tsimpute.tables.frames.table import features_text, time_text
from tsimpute.tables.text.number_forms import nature
from tsimpute.tables.text.numbers import advice, tally
from tsimpute.tables.text.row_errors import RowError
from tsimpute.tables.time.stamps import label_text

MICROSECOND = 1 / 3.6e9
"""In hours: the finest step that stamps have."""
steps = st.one_of(
    st.floats(MICROSECOND, 1e6), st.integers(1, 10**6).map(float), st.integers(1, 10**6).map(lambda n: n * MICROSECOND)
)
moments = st.integers(-(10**16), 10**17).map(lambda n: np.datetime64(n, "us"))
numbers = st.one_of(st.floats(), st.integers(-(2**63), 2**63 - 1))
labels = st.one_of(moments, numbers, numbers.map(np.float64), st.integers(-(2**31), 2**31).map(np.int64))
names = st.text(max_size=8)


def is_said(text: str) -> None:
    assert isinstance(text, str)
    assert text.strip()
    assert not re.search(r"<(class|function|built-in)|\bobject at 0x|np\.\w+\(", text)


@given(steps)
def test_any_step_can_be_told(hours: float) -> None:
    is_said(step_text(hours))
    assert re.fullmatch(r"[\d.,e+-]+ (second|minute|hour|day|month|year)s?", step_text(hours))


@pytest.mark.parametrize(
    ("hours", "text"),
    [
        (MICROSECOND, "1e-06 seconds"), (0.25 / 3600, "0.25 seconds"), (1 / 3600, "1 second"), (1 / 6, "10 minutes"),
        (1, "1 hour"), (24, "1 day"), (168, "7 days"),
    ],
)  # fmt: skip
def test_steps_as_people_say_them(hours: float, text: str) -> None:
    assert step_text(hours) == text


@given(st.integers(1, 10**6))
def test_any_number_of_months_can_be_told(months: int) -> None:
    assert re.fullmatch(r"[\d,]+ (month|year)s?", months_text(months))


@given(labels)
def test_any_label_can_be_told(label: object) -> None:
    is_said(label_text(label))


@given(
    st.sampled_from(["hours", "steps", ""]), st.one_of(st.none(), steps), st.lists(moments, min_size=2, max_size=2),
    st.one_of(st.just(""), st.just("1 month")), st.booleans(), names, names,
)  # fmt: skip
def test_any_panel_can_be_told(
    unit: str, step: float | None, ends: list[np.datetime64], called: str, is_empty: bool, name: str, feature: str
) -> None:
    values = np.array([[np.nan, np.nan if is_empty else 1.0]])
    of_labels = np.array(sorted(ends)) if unit == "hours" else np.array([0.0, 1.0])
    series = Series(name, np.array([0.0, 1.0]), values, of_labels)
    panel = Panel((Feature(feature, name),), (series,), Clock(unit, step))  # type: ignore[arg-type]
    is_said(time_text(panel, called))
    is_said(features_text(panel))


@given(st.lists(names, max_size=3), st.integers(0, 2))
def test_any_series_can_be_told(of_series: list[str], at: int) -> None:
    is_said(series_text(of_series if at < len(of_series) else (), at))


@given(names, st.lists(st.text(min_size=1, max_size=9), min_size=1, max_size=12), st.integers(0, 9))
def test_any_texts_among_numbers_can_be_told(name: str, bad: list[str], more: int) -> None:
    is_said(tally(bad, len(bad) + more))
    is_said(advice(name, bad))
    for text in bad:
        is_said(nature(text))


@given(st.lists(names, min_size=1, max_size=30))
def test_any_list_can_be_shortened(texts: list[str]) -> None:
    assert some_of(texts, ", ").startswith(texts[0])


@given(st.floats(), st.integers(0, 10**9), st.integers(1, 10**9))
def test_any_number_and_share_can_be_told(value: float, part: int, whole: int) -> None:
    is_said(number(value))
    is_said(share(min(part, whole), whole))
    is_said(several(part, "cell"))


@given(st.one_of(st.none(), st.floats(-1e9, 0)), st.one_of(st.none(), st.floats(1, 1e9)))
def test_any_limits_can_be_told(low: float | None, high: float | None) -> None:
    is_said(str(Limits(low, high)))


@given(st.lists(st.floats(0.001, 0.999), min_size=1, max_size=5), st.integers(1, 10**5))
def test_any_number_of_draws_can_be_told(levels: list[float], n_samples: int) -> None:
    assert isinstance(few_draws_text(levels, n_samples), str)


@given(
    st.lists(
        st.one_of(names, st.integers(0, 9), st.tuples(st.integers(0, 9), st.integers(0, 9)), st.just(np.int64(3))),
        min_size=1, max_size=5,
    )
)  # fmt: skip
def test_any_error_of_rows_can_be_told_in_rows_and_in_lines(parts: list) -> None:
    error = RowError("x", *parts)
    assert str(error).startswith("x")
    assert error.in_lines(np.arange(1, 11)).replace("line", "row").count("row") == str(error).count("row") + sum(
        part.count("line") for part in parts if isinstance(part, str)
    )
    assert error.in_words(lambda row: f"<{row}>").startswith("x")
