"""Dekads, half months and composites of satellites: the true times are used, and what is absent is named."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from tsimpute.tables.frames.frames import Clockwork, read_frame


def months(*days: int) -> pd.DatetimeIndex:
    return pd.DatetimeIndex([f"{y}-{m:02d}-{d:02d}" for y in (2019, 2020, 2021) for m in range(1, 13) for d in days])


def composites(step: int) -> pd.DatetimeIndex:
    return pd.DatetimeIndex(np.concatenate([
        pd.date_range(f"{year}-01-01", f"{year}-12-31", freq=f"{step}D").values for year in (2019, 2020, 2021)
    ]))  # fmt: skip


CALENDARS = {
    "dekads, the 1st, 11th and 21st of each month": months(1, 11, 21),
    "half months, the 1st and 16th of each month": months(1, 16),
    "half months, the 1st and 15th of each month": months(1, 15),
    "composites of 8 days that begin anew each 1 January": composites(8),
    "composites of 16 days that begin anew each 1 January": composites(16),
}


def read(dates: pd.DatetimeIndex, absent: Sequence[int] = (), form: str = "", **settings: bool) -> tuple[str, list]:
    """The notes, and the times of the first series; two pixels stand below one another."""
    frame = pd.DataFrame({"date": dates, "ndvi": np.arange(len(dates)) / 100}).drop(index=list(absent))
    if form:
        frame["date"] = frame["date"].dt.strftime(form)
    both = pd.concat([frame.assign(pixel="a"), frame.assign(pixel="b")])
    found = read_frame(both, clockwork=Clockwork(**settings))
    assert found.n_added == 0
    return "\n".join(found.notes), list(found.panel.series[0].labels.astype("M8[D]"))


@pytest.mark.parametrize("form", ["", "%Y-%m-%d", "%d.%m.%Y"])
@pytest.mark.parametrize("text", CALENDARS)
def test_the_pattern_is_named_and_absent_dates_are_counted(text: str, form: str) -> None:
    dates = CALENDARS[text]
    notes, labels = read(dates, form=form)
    assert f"times are irregular ({text}; none is absent): the true times are used and none is inserted" in notes
    assert labels == list(dates.values.astype("M8[D]"))
    notes, _ = read(dates, (20, 30), form)
    first = f"{dates[20]:%Y-%m-%d}, {dates[30]:%Y-%m-%d}"
    assert f"({text}; 4 are absent (first: {first}, {dates[20]:%Y-%m-%d}): add rows for them" in notes


@pytest.mark.parametrize(
    "dates",
    [
        pd.date_range("2019-01-01", periods=60, freq="16D"), pd.date_range("2019-01-01", periods=20, freq="8D"),
        pd.date_range("2019-01-01", periods=36, freq="MS"), pd.date_range("2019-01-01", periods=90, freq="D"),
        composites(16)[:23],
    ],
)  # fmt: skip
def test_clocks_of_one_step_stay_regular(dates: pd.DatetimeIndex) -> None:
    notes, _ = read(dates)
    assert "regular clock, a step of" in notes
    assert "irregular" not in notes
