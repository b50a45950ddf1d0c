"""Whatever comes in: a filled table that has every observed value as it was, or a refusal in words; nothing else."""

from __future__ import annotations

import copy
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fuzzed_tables import TIMES, damaged, frames, tables_as_text
from hypothesis import given, settings
from hypothesis import strategies as st

import tsimpute as ti
from tsimpute.core.panel import FILLED, LEFT_EMPTY
from tsimpute.errors import DataError, TsimputeError
from tsimpute.filling.files.fill_file import fill_file
from tsimpute.filling.learning import learning as efforts
from tsimpute.filling.preparing.prepare import prepare
from tsimpute.filling.preparing.prepared import Prepared
from tsimpute.tables.frames.table import Edits
from tsimpute.tables.sources.files import read_file, read_table, write_object

pytestmark = pytest.mark.filterwarnings("ignore::tsimpute.ImputationWarning")

FILES = (
    "air_quality/AirQualityUCI.csv", "air_quality/openaq_no2_long.csv", "air_quality/us_embassy_beijing_2015.csv",
    "pm25/pm25_ground.txt",
)  # fmt: skip


SOUND = b"time,pm,temp\n" + b"".join(b"2020-01-01 %02d:00,%d.5,%s\n" % (h, h % 5, b"7" * (h % 3)) for h in range(24))


def sound_frame() -> pd.DataFrame:
    times = pd.date_range("2020-01-01", periods=24, freq="h")
    hours = np.arange(24.0)
    return pd.DataFrame({"pm": hours % 5 + 0.5, "temp": np.where(hours % 3, 7 + hours / 10, np.nan)}, times)


def understood(read: Callable[[], Any]) -> Prepared | None:
    """A table made ready; None where it is refused in words."""
    try:
        return prepare(read(), limits={}, missing_codes="certain", drop_invalid=False)
    except TsimputeError as error:
        words = str(error)
    assert words.endswith((".", "?", ")"))
    return None


def parts(prepared: Prepared) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """What is filled, made-up values, and what each cell is: as a model would have it, without one."""
    codes = prepared.provenance
    changed = [np.isin(code, FILLED) for code in codes]
    return changed, [np.full(of_one.shape, 0.5) for of_one in changed], codes


def accepts_text(content: bytes) -> bool:
    """Whether a file is filled, written and read again; it is refused in words otherwise."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "in.csv", Path(folder) / "out.csv"
        path.write_bytes(content)
        prepared = understood(lambda: read_file(path))
        if prepared is None:
            return False
        table = prepared.table
        changed, values, codes = parts(prepared)
        assert table.understood
        write_object(table.apply(Edits.of_provenance(changed, codes)), out)
        write_object(table.apply(Edits(changed, values)), out)
        again = read_file(out).panel
        if all(series.observed.all() for series in prepared.panel.series):
            assert out.read_bytes() == content
    before = {series.name: series for series in prepared.panel.series}
    assert sorted(before) == sorted(series.name for series in again.series)
    for series in again.series:
        seen = before[series.name].observed
        np.testing.assert_array_equal(series.values[seen], before[series.name].values[seen])
    return True


def check_all(try_one: Callable[[Any], bool], sound: Any, examples: st.SearchStrategy[Any], n: int) -> None:
    """Tries examples. A sound one has to be accepted: a reader that refuses everything is no reader."""
    assert try_one(sound)
    tried = []

    @settings(max_examples=n * TIMES)
    @given(examples)
    def each(example: Any) -> None:
        tried.append(try_one(example))

    each()
    assert len(tried) >= n / 2


def test_a_text_is_filled_and_read_again_or_refused_in_words() -> None:
    check_all(accepts_text, SOUND, tables_as_text(), 60)


def test_a_damaged_real_file_is_filled_and_read_again_or_refused_in_words(data_root: Path) -> None:
    heads = [b"".join((data_root / name).read_bytes().splitlines(True)[:40]) for name in FILES]
    assert all(accepts_text(head) for head in heads)
    check_all(accepts_text, SOUND, st.sampled_from(heads).flatmap(damaged), 25)


def same(old: Any, new: Any) -> bool:
    """To the bit; where nothing was, anything may be."""
    if pd.api.types.is_scalar(old) and pd.isna(old):
        return True
    if pd.api.types.is_scalar(new) and pd.isna(new):
        return False
    signs = np.signbit(old) == np.signbit(new) if isinstance(old, float | np.floating) else True
    return bool(type(old) is type(new) or np.isscalar(old)) and bool(np.all(old == new)) and bool(signs)


def check_frame(given_: pd.DataFrame, before: pd.DataFrame, out: pd.DataFrame, coded: set[float]) -> None:
    pd.testing.assert_frame_equal(given_, before)
    assert repr(list(out.columns)) == repr(list(before.columns))
    old, new = ([f.iloc[:, at].tolist() for at in range(f.shape[1])] for f in (before, out))
    if len(out) == len(before):
        pd.testing.assert_index_equal(out.index, before.index)
    rows = iter(zip(*new, strict=True))
    for row in zip(*old, strict=True):
        blank = [None if isinstance(x, int | float) and float(x) in coded else x for x in row]
        assert any(all(map(same, blank, other)) for other in rows), row


def accepts_frame(frame: pd.DataFrame) -> bool:
    before = copy.deepcopy(frame)
    prepared = understood(lambda: read_table(frame))
    if prepared is None:
        return False
    changed, values, codes = parts(prepared)
    panel = read_table(frame).panel
    coded = {float(v) for s, cells in zip(panel.series, prepared.coded, strict=True) for v in s.values[cells]}
    check_frame(frame, before, prepared.table.apply(Edits(changed, values)), coded)
    assert isinstance(prepared.table.apply(Edits.of_provenance(changed, codes)), pd.DataFrame)
    return True


def test_a_frame_comes_back_with_every_observed_value_or_is_refused_in_words() -> None:
    check_all(accepts_frame, sound_frame(), frames(), 80)


@pytest.fixture(scope="module")
def hasty() -> Any:
    """The smallest effort, made smaller."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(efforts.EFFORTS, "trial", replace(efforts.EFFORTS["trial"], steps=2, windows=4))
        yield


def learns_from_frame(frame: pd.DataFrame) -> bool:
    before = copy.deepcopy(frame)
    imputer = ti.TableImputer(effort="trial", n_samples=3, duplicates="mean")
    try:
        found = imputer.fit(frame).draw(frame)
    except TsimputeError:
        return False
    pd.testing.assert_frame_equal(frame, before)
    predicted = np.array([kind.predicted for kind in imputer.kinds_])
    for filling in found.fillings:
        assert np.isfinite(filling.point[predicted]).all()
        empty = filling.provenance == LEFT_EMPTY
        assert np.array_equal(np.isnan(filling.point), empty)
        assert (np.diff(filling.quantiles, axis=0) >= 0)[:, ~empty].all()
    return True


@pytest.mark.usefixtures("hasty")
def test_a_frame_is_learnt_from_and_filled_wholly_or_refused_in_words() -> None:
    check_all(learns_from_frame, sound_frame(), frames(), 12)


def fills_file(content: bytes) -> bool:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in.csv").write_bytes(content)
        try:
            fill_file(folder / "in.csv", folder / "out.csv", {"effort": "trial", "n_samples": 3})
        except TsimputeError:
            assert [path.name for path in folder.iterdir() if path.suffix == ".csv"] == ["in.csv"]
            return False
        assert len(list(folder.iterdir())) == 6
    return True


@pytest.mark.usefixtures("hasty")
def test_a_file_is_filled_whole_or_nothing_is_written() -> None:
    check_all(fills_file, SOUND, damaged(SOUND), 6)


@settings(max_examples=30 * TIMES)
@given(st.binary(max_size=300))
def test_bytes_that_are_no_table_are_refused_in_words(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        for name in ("in.csv", "in.csv.gz", "in.parquet", "in.nc"):
            path = Path(folder) / name
            path.write_bytes(content)
            with pytest.raises(DataError, match=r"in\."):
                read_file(path)
