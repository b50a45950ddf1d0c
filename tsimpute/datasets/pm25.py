"""Beijing PM2.5: 36 stations, hourly from May 2014 to April 2015, with prescribed artificial holes (ST-MVL release)."""

from __future__ import annotations

import re
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tsimpute.core.limits import Limits
from tsimpute.core.windows import Feature, Windows
from tsimpute.datasets.base import Card, Source, given_root
from tsimpute.datasets.fetching import check_sha256, download
from tsimpute.errors import ConfigError, DataError, SourceError

TEST_MONTHS = (3, 6, 9, 12)
TRAINING_MONTHS = (1, 2, 4, 5, 7, 8, 10, 11)
# The holes of the test months were copied from the gaps of the months after them, so those lend no pattern (CSDI).
LENDING_MONTHS = (2, 5, 8, 11)

GROUND, MISSING = "pm25_ground.txt", "pm25_missing.txt"
RELEASE = "https://www.microsoft.com/en-us/research/uploads/prod/2016/06/STMVL-Release.zip"
RELEASE_OLD_ADDRESS = "https://www.microsoft.com/en-us/research/wp-content/uploads/2016/06/STMVL-Release.zip"
IN_RELEASE = "Code/STMVL/SampleData"
_STAMP = re.compile(r"(\d{4})/(\d\d)/(\d\d) (\d\d):00:00")

_CARD = Card(
    title="Beijing PM2.5 of 36 stations, 2014-05 to 2015-04 (ST-MVL release)",
    licence="published for research with the ST-MVL paper; no licence text",
    citation=(
        "Yi, Zheng, Zhang and Li, ST-MVL: filling missing values in geo-sensory time series data, IJCAI 2016; "
        "months and windows as in Tashiro, Song, Song and Ermon, CSDI, NeurIPS 2021"
    ),
    sources=(
        Source(GROUND, RELEASE, "8f77b738ae4c50621705a308e606e6229564ad7ad20358986bd6031355f0ab5f"),
        Source(MISSING, RELEASE, "3f991eab5bbc5e644e61360e6b71ce45179c86cf650b3bb9a53771d8f9953fe3"),
    ),
    limits={"*": Limits(0, 1000)},
)


@dataclass(frozen=True)
class PM25:
    """Windows of 36 stations, split by calendar month as in CSDI; the held-out cells are those of the release.

    Attributes:
        valid_month: the one training month that is kept for validation; one of 1, 2, 4, 5, 7, 8, 10, 11.
        window_steps: hours in a window, at least 1.

    Raises:
        ConfigError: a setting outside these.
    """

    valid_month: int = 1
    window_steps: int = 36

    name = "pm25"
    card = _CARD

    def __post_init__(self) -> None:
        if self.valid_month not in TRAINING_MONTHS:
            raise ConfigError(
                f"valid_month: expected one of the months {TRAINING_MONTHS} (3, 6, 9, 12 are the test months), "
                f"came {self.valid_month!r}."
            )
        if not isinstance(self.window_steps, int) or self.window_steps < 1:
            raise ConfigError(f"window_steps: expected a whole number of hours from 1 on, came {self.window_steps!r}.")

    def locate(self, root: Path) -> Path:
        """The folder of both tables: ``root``, its ``pm25/``, or the sample folder of an unpacked release in them."""
        root = Path(root)
        folders = [base / inner for base in (root, root / self.name) for inner in ("", IN_RELEASE)]
        for folder in folders:
            if (folder / GROUND).exists() and (folder / MISSING).exists():
                return folder
        raise SourceError(
            f"{self.name}: expected {GROUND} and {MISSING} under {root}; none of these folders holds both: "
            f"{', '.join(map(str, folders))}. Download them with `tsimpute fetch {self.name}`, or unpack {RELEASE} "
            "there yourself and name the folder with --root or TSIMPUTE_DATA."
        )

    def load(self, root: Path | None) -> Windows:
        """All windows, by month of the year and within it by time; ids are start stamps such as "2014-05-01T01".

        In training and validation months every hour starts a window. Test months are cut end to end; where the month
        is no multiple of a window, one more ends with the month, and the cells that the window before it already
        scores are missing in it: neither shown nor scored twice. No window crosses a month or a gap in the hours.
        Held-out cells of training windows are marked too; whether they are seen in training is the protocol's choice.
        """
        folder = self.locate(given_root(self.name, root))
        stamps, stations, ground = read_table(folder / GROUND)
        held_out = _held_out(folder, stamps, stations, ground)
        months = stamps.astype("datetime64[M]").astype(int) % 12 + 1
        starts, overlaps, unplaced = self._starts(stamps, months)
        if not len(starts):
            raise DataError(
                f"{self.name}: expected a stretch of at least {self.window_steps} hours within a month; there is none "
                f"in {len(stamps)} rows. Use a smaller window_steps."
            )
        view = np.lib.stride_tricks.sliding_window_view
        values, scored = (view(table, self.window_steps, axis=0)[starts] for table in (ground, held_out))
        again = scored & (np.arange(self.window_steps) < overlaps[:, None])[:, None, :]
        values[again] = np.nan
        changes = {
            "hours in stretches shorter than a window (dropped)": unplaced,
            "cells scored in the test window before (missing in the overlap)": int(again.sum()),
        }
        return Windows(
            values=values,
            times=np.tile(np.arange(float(self.window_steps)), (len(starts), 1)),
            features=tuple(Feature(station, "ug/m3") for station in stations),
            record_ids=tuple(str(stamp) for stamp in stamps[starts]),
            held_out=scored & ~again,
            split=np.array([self._split(month) for month in months[starts]]),
            pattern_donor=np.isin(months[starts], LENDING_MONTHS),
            changes={what: count for what, count in changes.items() if count},
        )

    def download(self, folder: Path) -> None:
        """Brings both tables into ``folder``, out of the release archive; a broken-off download is continued."""
        archive = folder / "STMVL-Release.zip"
        download(dict.fromkeys([*(source.url for source in self.card.sources), RELEASE_OLD_ADDRESS]), archive)
        try:
            with zipfile.ZipFile(archive) as release:
                for source in self.card.sources:
                    (folder / source.name).write_bytes(release.read(f"{IN_RELEASE}/{source.name}"))
        except (zipfile.BadZipFile, zlib.error, KeyError) as error:
            raise DataError(
                f"{archive}: expected the ST-MVL release with {IN_RELEASE}/ in it, came another file ({error})."
            ) from error
        finally:
            archive.unlink()

    def verify(self, root: Path) -> None:
        """Accepts the published tables, with LF or CRLF line ends."""
        folder = self.locate(root)
        for source in self.card.sources:
            check_sha256(folder / source.name, source.sha256)

    def _split(self, month: int) -> str:
        return "test" if month in TEST_MONTHS else "valid" if month == self.valid_month else "train"

    def _starts(self, stamps: np.ndarray, months: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
        """Where windows begin, how many of their first hours an earlier test window scores, and hours without a place.

        Args:
            stamps, months: (T,) hours, and the month of the year of each, 1 to 12.
        """
        month = stamps.astype("datetime64[M]")
        breaks = np.flatnonzero(
            (np.diff(stamps) != np.timedelta64(1, "h")) | (np.diff(month) != np.timedelta64(0, "M"))
        )
        runs = [(int(run[0]), len(run)) for run in np.split(np.arange(len(stamps)), breaks + 1)]
        starts, overlaps, unplaced = [], [], 0
        for first, length in sorted(runs, key=lambda run: (months[run[0]], run[0])):
            last = length - self.window_steps
            if last < 0:
                unplaced += length
            elif self._split(months[first]) != "test":
                starts += range(first, first + last + 1)
                overlaps += [0] * (last + 1)
            else:
                cut = list(range(first, first + last + 1, self.window_steps))
                rest = length % self.window_steps
                starts += cut + [first + last] * bool(rest)
                overlaps += [0] * len(cut) + [self.window_steps - rest] * bool(rest)
        return np.array(starts, np.int64), np.array(overlaps, np.int64), unplaced


def _held_out(folder: Path, stamps: np.ndarray, stations: list[str], ground: np.ndarray) -> np.ndarray:
    """(T, K) bool: cells of the ground table that the other table leaves empty."""
    missing_stamps, missing_stations, missing = read_table(folder / MISSING)
    if stations != missing_stations or not np.array_equal(stamps, missing_stamps):
        raise DataError(
            f"{folder / MISSING}: expected the stations and hours of {GROUND}, came others. Get both files again."
        )
    if (~np.isnan(missing) & (missing != ground)).any():
        raise DataError(
            f"{folder / MISSING}: expected values of {GROUND} with holes; some differ. Get both files again."
        )
    return ~np.isnan(ground) & np.isnan(missing)


def read_table(path: Path) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Stamps (T,) in hours, station names (K), values (T, K), NaN where a cell is empty: a line per hour.

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
        match = _STAMP.fullmatch(stamp)
        try:
            if match is None:
                raise ValueError(stamp)
            hours.append(np.datetime64("{}-{}-{}T{}".format(*match.groups()), "h"))
            values.append([float(cell or "nan") for cell in cells])
            if len(cells) != len(stations) or (number > 2 and hours[-1] <= hours[-2]):
                raise ValueError(line)
        except ValueError as error:
            raise DataError(
                f"{path}, line {number}: expected a whole hour such as 2014/05/01 01:00:00, later than the one before, "
                f"and one number or nothing per station; came {line[:80]!r}. Correct the line or get the file again."
            ) from error
    return np.array(hours), stations, np.array(values)


PLUGIN = PM25
