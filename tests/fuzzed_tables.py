"""Tables as nobody means them: files damaged in the ways that files are, and frames of whatever pandas can hold."""

from __future__ import annotations

import os
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

TIMES = int(os.environ.get("FUZZ_TIMES", "1"))
"""How many times as many cases as in the suite are tried; see scripts/fuzz."""

WORDS = (
    b"", b"NA", b"-999", b"1e400", b"1e308", b"=SUM(A1:A3)", b"1,5", b"1.5", b"1.234,5", b"1,234.5", b"inf", b"nan",
    b'"', b'""', b"abc", b"2020-01-01", b"24:00:00", b"29/02/2019", b"0.", b"-0.0", b"+1", b"1_000", b"\xb5",
    b"\xc3\xa9", b"\xff\xfe", b"\0", b"\xe2\x80\x93", b"#", b"12345678901234567890", b"1" * 400, b"0." + b"1" * 60,
    b"5e-324", b"TRUE", b"\xd9\xa1", b"12:61", b"99999-01-01", b"9999-12-31", b"<0.1", b"1 000",
)  # fmt: skip
NAMES = (
    b"a", b"b", b"time", b"date", b"value", b"station", b"", b"id", b"hour", b"year", b"x [ppm]", b"parameter",
    b"Unnamed: 0", b"unit",
)  # fmt: skip
ENDS = (b"\n", b"\r\n", b"\r", b"\r\r\n", b"\n\n", b"\x0b")
STARTS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"# made by hand\n", b"\n\n", b"sep=;\n")
SEPARATORS = (b",", b";", b"\t", b"|", b" ")


def tables_as_text() -> st.SearchStrategy[bytes]:
    """Small tables, sound or damaged."""
    return st.builds(_table, st.randoms(use_true_random=False)).flatmap(damaged)


def damaged(text: bytes) -> st.SearchStrategy[bytes]:
    """A text after up to three accidents."""
    return st.builds(_damaged, st.just(text), st.lists(st.sampled_from(ACCIDENTS), max_size=3), st.randoms())


def _table(rng: Any) -> bytes:
    rows, separator = rng.randrange(12), rng.choice(SEPARATORS)
    kinds = [rng.randrange(6) for _ in range(rng.randrange(5))]

    def cell(kind: int, row: int) -> bytes:
        if rng.random() < 0.1:
            return rng.choice(WORDS)
        station = rng.choice((b"A", b"B"))
        half = b"" if rng.random() < 0.5 else b"%.1f" % rng.random()
        stamp = b"2020-01-%02d %02d:00" % (1 + row // 24, row % 24)
        return (b"%d" % rng.randrange(-5, 100), b"%.2f" % rng.gauss(0, 10), stamp, station, half, b"%d" % row)[kind]

    lines = [[rng.choice(NAMES) for _ in kinds], *([cell(kind, row) for kind in kinds] for row in range(rows))]
    return rng.choice(ENDS[:3]).join(separator.join(fields) for fields in lines)


def _damaged(text: bytes, accidents: list[Any], rng: Any) -> bytes:
    for accident in accidents:
        text = accident(text, rng)
    return text


def _cut(text: bytes, rng: Any) -> bytes:
    return text[: rng.randrange(len(text) + 1)]


def _flipped(text: bytes, rng: Any) -> bytes:
    corrupted = bytearray(text)
    for _ in range(rng.choice((1, 5, 30)) if corrupted else 0):
        corrupted[rng.randrange(len(corrupted))] = rng.randrange(256)
    return bytes(corrupted)


def _lines_doubled_or_lost(text: bytes, rng: Any) -> bytes:
    lines = text.splitlines(True)
    at, n = rng.randrange(len(lines) + 1), rng.choice((-3, -1, 1, 3))
    return b"".join(lines[: max(0, at + n)] + lines[at:])


def _lines_shuffled(text: bytes, rng: Any) -> bytes:
    first, *rest = text.splitlines(True) or [b""]
    rng.shuffle(rest)
    return b"".join([first, *rest])


def _another_separator(text: bytes, rng: Any) -> bytes:
    return text.replace(rng.choice(SEPARATORS[:3]), rng.choice(SEPARATORS))


def _other_ends(text: bytes, rng: Any) -> bytes:
    return b"".join(line.rstrip(b"\r\n") + (rng.choice(ENDS)) for line in text.splitlines(True))


def _fields_replaced(text: bytes, rng: Any) -> bytes:
    pieces = re.split(rb"([;,\t|\r\n])", text)
    for _ in range(rng.choice((1, 1, 4, 20))):
        pieces[2 * rng.randrange((len(pieces) + 1) // 2)] = rng.choice(WORDS)
    return b"".join(pieces)


def _another_encoding(text: bytes, rng: Any) -> bytes:
    codec = rng.choice(("utf-16", "utf-32", "utf-16-le", "latin-1", "utf-8-sig", "cp1252"))
    return text.decode("utf-8", "replace").encode(codec, "replace")


ACCIDENTS = (
    _cut, _flipped, _lines_doubled_or_lost, _lines_shuffled, _another_separator, _other_ends, _fields_replaced,
    _fields_replaced, _another_encoding, lambda text, rng: text.replace(b".", b","),
    lambda text, rng: rng.choice(STARTS) + text,
)  # fmt: skip


def frames() -> st.SearchStrategy[pd.DataFrame]:
    """Frames of up to five columns of any kind, of any index."""
    return st.builds(_frame, st.randoms(use_true_random=False))


def _frame(rng: Any) -> pd.DataFrame:
    n = rng.choice((0, 1, 2, 3, 8, 30))
    columns = [pd.Series(_column(n, rng)) for _ in range(rng.randrange(6))]
    frame = pd.concat(columns, axis=1) if columns else pd.DataFrame(index=range(n))
    odd = ("time", "date", "station", "id", "hour", "year", "value", "parameter", "unit", "", None, 2.5, ("a", "b"))
    names = [rng.choice(odd) if rng.random() < 0.3 else f"f{i}" for i in range(len(columns))]
    frame.columns = pd.Index(names, dtype=object, tupleize_cols=False)
    where = rng.random()
    if where < 0.35:
        frame.index = _stamps(n, rng)
    elif where < 0.7:
        frame.insert(0, rng.choice(("time", "when")), _stamps(n, rng), allow_duplicates=True)
    elif where < 0.8:
        frame.index = pd.MultiIndex.from_arrays([["AB"[i % 2] for i in range(n)], _stamps(n, rng)])
    elif where < 0.9:
        frame.index = pd.Index([rng.choice(("p", "q")) for _ in range(n)], dtype=object)
    return frame.iloc[[i for i in range(n) if i != 2]] if n > 5 and rng.random() < 0.3 else frame


def _stamps(n: int, rng: Any) -> Any:
    start = rng.choice(("2020-01-01", "2019-03-30 22:00", "2019-10-26 22:00", "1900-01-01"))
    times = pd.date_range(start, periods=n, freq=rng.choice(("h", "D", "15min", "MS", "s")))
    zoned = times.tz_localize("UTC").tz_convert(rng.choice(("Europe/Rome", "UTC")))
    texts = pd.Index([str(time) for time in times], dtype=object)
    numbers = pd.Index(np.arange(n) * 1.0)
    repeated = times[[rng.randrange(n) for _ in range(n)]]
    with_gap = times.insert(0, pd.NaT)[:n]
    spans = pd.timedelta_range(0, periods=n, freq="h")
    return rng.choice(
        (times, times, times[::-1], zoned, texts, numbers, repeated, with_gap, spans, times.to_period("D"))
    )


def _column(n: int, rng: Any) -> Any:
    draw = np.random.default_rng(rng.randrange(10**9))
    values = draw.normal(size=n) * 10.0 ** rng.choice((0, 0, 2, -5, 30, 150))
    missing = draw.random(n) < rng.choice((0, 0.2, 0.5, 1))
    gappy = np.where(missing, np.nan, values)
    small, whole = np.clip(gappy, -6e4, 6e4), draw.integers(-100, 100, n)

    def objects(make: Any) -> np.ndarray:
        column = np.empty(n, object)
        column[:] = [None if gap else make(value) for gap, value in zip(missing, np.nan_to_num(small), strict=True)]
        return column

    odd = np.array([rng.choice((np.inf, -np.inf, -0.0, 1e308, 5e-324, -999.0, 1.5)) for _ in range(n)])
    mixed = objects(lambda v: rng.choice((1, 2.5, "x", pd.NA, True, pd.NaT, Decimal(2), 10**30, np.float32(1.5))))
    makers = (
        lambda: gappy, lambda: gappy, lambda: gappy, lambda: odd, lambda: mixed, lambda: small.astype(np.float16),
        lambda: small.astype(np.float32), lambda: small.astype(np.longdouble), lambda: whole.astype(np.int8),
        lambda: draw.integers(2**53, 2**62, n), lambda: whole > 0, lambda: values + 1j,
        lambda: pd.array(objects(int), dtype="Int64"), lambda: pd.array(objects(bool), dtype="boolean"),
        lambda: pd.array(objects(float), dtype="Float64"), lambda: pd.array(objects(float), dtype="float64[pyarrow]"),
        lambda: pd.array(objects(int), dtype="int32[pyarrow]"), lambda: pd.arrays.SparseArray(gappy),
        lambda: pd.Categorical.from_codes(draw.integers(-1, 3, n), ["x", "y", "z"]),
        lambda: pd.interval_range(0, n) if n else values, lambda: objects(lambda v: Decimal(f"{v:.3f}")),
        lambda: objects(lambda v: f"{v:.1f}"), lambda: objects(lambda v: rng.choice("AB")),
        lambda: objects(lambda v: [1, 2]), lambda: objects(lambda v: b"ab"), lambda: objects(float),
    )  # fmt: skip
    return rng.choice(makers)()
