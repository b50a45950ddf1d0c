"""The tables that are filled for comparison, and the holes that are cut into them: the same cells for every method.

``python benchmarks/table_data.py DATA FOLDER`` copies the files that are needed, 5 MB, into a folder of that layout.
"""

from __future__ import annotations

import shutil
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

RATE = 0.1
COMPLETE = ("airq", "temperature", "meteo", "electricity", "traffic", "drift", "ett_hourly")
TABLES = (*COMPLETE, "air_quality_uci", "embassy", "openaq", "pm25")
FILES = (
    *(f"tables/{name}.csv" for name in COMPLETE),
    "air_quality/AirQualityUCI.csv", "air_quality/us_embassy_beijing_2015.csv", "air_quality/openaq_no2_long.csv",
    "pm25/pm25_ground.txt", "pm25/pm25_missing.txt",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Task:
    """A table with holes.

    Attributes:
        frame: as a method sees it: steps x features, NaN at its own gaps and at what is hidden.
        truth: (T, K) the values before; hidden: (T, K) bool, the cells that are scored.
        scale: (K,) standard deviation of each feature, of all its values; errors are in these.
    """

    frame: pd.DataFrame
    truth: np.ndarray
    hidden: np.ndarray
    scale: np.ndarray


def task(root: Path, table: str, holes: str, seed: int = 0) -> Task | None:
    """One table with one kind of holes; None where they make no sense there."""
    frame = load(root, table)
    truth = frame.to_numpy(np.float64)
    if holes == "published":
        hidden = _published(root, frame) if table == "pm25" else None
    elif table == "pm25":
        hidden = None  # large: its published cells, which others have scored, are enough
    else:
        rng = np.random.default_rng([seed, zlib.crc32(f"{table} {holes}".encode())])
        hidden = HOLES[holes](~np.isnan(truth), rng)
    if hidden is None:
        return None
    std = np.nanstd(truth, 0)
    scale = np.where(std > 0, std, 1.0)
    return Task(frame.mask(hidden), truth, hidden, scale)


# -- holes: of (T, K) observed cells, those to hide, or None ----------------------------------------------------------


def random(there: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Single cells."""
    return there & (rng.random(there.shape) < RATE)


def block(there: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Runs of 5 to 50 steps in single features."""
    hidden = np.zeros_like(there)
    while hidden.sum() < RATE * there.sum():
        length, k = int(rng.integers(5, 51)), int(rng.integers(there.shape[1]))
        start = int(rng.integers(0, len(there) - length))
        hidden[start : start + length, k] |= there[start : start + length, k]
    return hidden


def blackout(there: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """All features out for 24 steps."""
    hidden = np.zeros_like(there)
    while hidden.sum() < RATE * there.sum():
        start = int(rng.integers(0, len(there) - 24))
        hidden[start : start + 24] |= there[start : start + 24]
    return hidden


def sensors(there: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
    """A third of the features out for a third of the time, each for its own."""
    if there.shape[1] < 2:
        return None
    hidden = np.zeros_like(there)
    for k in rng.permutation(there.shape[1])[: max(1, there.shape[1] // 3)]:
        length = len(there) // 3
        start = int(rng.integers(0, len(there) - length))
        hidden[start : start + length, k] = there[start : start + length, k]
    return hidden


def own(there: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
    """The table's own gaps, moved in time."""
    hidden = there & np.roll(~there, int(rng.integers(len(there) // 3, 2 * len(there) // 3)), 0)
    return hidden if hidden.sum() >= 50 else None


HOLES: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray | None]] = {
    "random": random, "block": block, "blackout": blackout, "sensors": sensors, "own": own,
}  # fmt: skip
ALL_HOLES = (*HOLES, "published")


# -- tables ------------------------------------------------------------------------------------------------------------


def load(root: Path, table: str) -> pd.DataFrame:
    """Steps x features on an even index of times; NaN = missing."""
    if table in COMPLETE:
        return pd.read_csv(root / "tables" / f"{table}.csv", index_col="time", parse_dates=True)
    return {"air_quality_uci": _uci, "embassy": _embassy, "openaq": _openaq, "pm25": _pm25}[table](root)


def _uci(root: Path) -> pd.DataFrame:
    """Rows 2,000 to 5,000, without the sensor that was broken."""
    frame = pd.read_csv(root / "air_quality" / "AirQualityUCI.csv", sep=";", decimal=",")
    frame = frame.dropna(how="all").iloc[2000:5000]
    stamps = pd.to_datetime(frame["Date"] + " " + frame["Time"], format="%d/%m/%Y %H.%M.%S")
    frame = frame.drop(columns=["Date", "Time", "NMHC(GT)"]).dropna(axis=1, how="all")
    return frame.astype(float).replace(-200, np.nan).set_axis(pd.DatetimeIndex(stamps, name="time"))


def _embassy(root: Path) -> pd.DataFrame:
    """One year of hours; the hour that daylight saving doubles and the one it drops are taken as if it had not."""
    frame = pd.read_csv(root / "air_quality" / "us_embassy_beijing_2015.csv", skiprows=3)
    values = frame["Value"].where(frame["Value"] >= 0).to_numpy(float)
    index = pd.date_range("2015-01-01", periods=len(frame), freq="h", name="time")
    return pd.DataFrame({"PM2.5": values}, index)


def _openaq(root: Path) -> pd.DataFrame:
    frame = pd.read_csv(root / "air_quality" / "openaq_no2_long.csv")
    stamps = pd.to_datetime(frame["date.utc"]).dt.tz_localize(None).rename("time")
    wide = frame.assign(time=stamps).pivot_table(index="time", columns="location", values="value")
    wide.columns.name = None
    return wide.resample("h").mean()


def _pm25(root: Path) -> pd.DataFrame:
    return _of_pm25(root, "pm25_ground.txt")


def _published(root: Path, ground: pd.DataFrame) -> np.ndarray:
    return (ground.notna() & _of_pm25(root, "pm25_missing.txt").isna()).to_numpy()


def _of_pm25(root: Path, name: str) -> pd.DataFrame:
    frame = pd.read_csv(root / "pm25" / name, index_col=0, parse_dates=True)
    frame.index.name = "time"
    return frame.astype(float)


def copy_files(data: Path, folder: Path) -> None:
    """The files that the tables are read from, and their sizes."""
    sizes = []
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        sizes.append(Path(shutil.copyfile(data / name, folder / name)).stat().st_size)
        print(f"{sizes[-1]:>9,}  {name}")
    print(f"{sum(sizes):>9,}  bytes in all")


if __name__ == "__main__":
    copy_files(*map(Path, sys.argv[1:]))
