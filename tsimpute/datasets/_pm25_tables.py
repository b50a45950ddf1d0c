"""The tables of the ST-MVL release: a stamp and one column per station, a line per hour; a broken line is named."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from tsimpute.errors import DataError

_STAMP = re.compile(r"(\d{4})/(\d\d)/(\d\d) (\d\d):00:00")


def read_table(path: Path) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Stamps (T,) in hours, station names (K), values (T, K), NaN where a cell is empty.

    Raises:
        DataError: a line is broken, or the stamps are not whole hours in increasing order; file and line are named.
    """
    header, *lines = path.read_bytes().decode("latin-1").replace("\r\n", "\n").rstrip("\n").split("\n")
    stations = header.split(",")[1:]
    if not header.startswith("datetime,") or not lines:
        raise DataError(
            f"{path}, line 1: expected the header datetime,station,... and rows below it, came {header[:80]!r}."
        )
    hours, values = [], []
    for number, line in enumerate(lines, start=2):
        stamp, *cells = line.split(",")
        try:
            hours.append(_hour(stamp))
            values.append([float(cell or "nan") for cell in cells])
        except ValueError as error:
            raise _broken(path, number, line) from error
        if len(cells) != len(stations) or (number > 2 and hours[-1] <= hours[-2]):
            raise _broken(path, number, line)
    return np.array(hours), stations, np.array(values)


def _hour(stamp: str) -> np.datetime64:
    match = _STAMP.fullmatch(stamp)
    if match is None:
        raise ValueError(stamp)
    return np.datetime64("{}-{}-{}T{}".format(*match.groups()), "h")


def _broken(path: Path, number: int, line: str) -> DataError:
    return DataError(
        f"{path}, line {number}: expected a whole hour such as 2014/05/01 01:00:00, later than the one before, and one "
        f"number or nothing per station; came {line[:80]!r}. Correct the line or get the file again."
    )
