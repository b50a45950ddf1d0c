"""PhysioNet/CinC Challenge 2012, set A: 4000 intensive-care stays, 35 variables over the first 48 hours."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from tsimpute.core.windows import Windows
from tsimpute.datasets._download import check_sha256, download_with_tsdb, sha256
from tsimpute.datasets._physionet_rows import RecordFile, Rows, is_record_name, join_rows, read_files
from tsimpute.datasets._physionet_variables import FEATURES, LIMITS, OTHER_UNITS, SAME_UNITS
from tsimpute.datasets.base import Card, Source, TableRules
from tsimpute.errors import ConfigError, DataError, SourceError

WithinHour = Literal["last", "mean"]

N_HOURS = 48
UNKNOWN = -1.0
OUTCOMES = "Outcomes-a.txt"
# Over record id, line feed and content of each stay in order: holds for the folder and for any packing of it.
STAYS_SHA256 = "f8ec6abeed54c68342872dd5688017ed9dadb59a4261be82e6e87c671bac6547"
STATICS = ("Age", "Gender", "Height", "ICUType", "Weight")

_URL = "https://www.physionet.org/files/challenge-2012/1.0.0/"
_CARD = Card(
    title="PhysioNet/Computing in Cardiology Challenge 2012, set A",
    licence="ODC-By 1.0",
    citation=(
        "Silva, Moody, Scott, Celi and Mark, Predicting in-hospital mortality of ICU patients: the PhysioNet/Computing "
        "in Cardiology Challenge 2012, Computing in Cardiology 39:245-248, 2012"
    ),
    sources=(
        Source(
            "set-a.tar.gz", _URL + "set-a.tar.gz", "55fbeb66bb0189a39733c5898d466ea98eba5049e684ed47ad8ee16ed10a27d8"
        ),
        Source(
            "Outcomes-a.txt",
            _URL + "Outcomes-a.txt",
            "2613ea60ccda29f87571a7d6b09ad130858a8ccd66325bd073365925026883c2",
        ),
    ),
    limits=LIMITS,
    tables=TableRules(FEATURES, 1.0, ("RecordID", *STATICS), SAME_UNITS, OTHER_UNITS),
)


@dataclass(frozen=True)
class PhysioNet2012:
    """ICU stays on a grid of 35 variables x 48 hours; no split and no held-out cells are prescribed.

    Attributes:
        within_hour: which value stands for an hour that has several: the latest ("last", as in CSDI; of several at the
            same minute the one that stands last in the file) or their arithmetic mean ("mean").

    Raises:
        ConfigError: any other ``within_hour``.
    """

    within_hour: WithinHour = "last"

    name = "physionet2012"
    card = _CARD

    def __post_init__(self) -> None:
        if self.within_hour not in get_args(WithinHour):
            raise ConfigError(f"within_hour: expected one of {get_args(WithinHour)}, came {self.within_hour!r}.")

    def locate(self, root: Path) -> Path:
        """The folder or archive of stays: ``root`` itself, or in it, or in its ``physionet2012/``.

        Raises:
            SourceError: neither is there.
        """
        root = Path(root)
        if root.is_file():
            return root
        looked_for = []
        for base in (root, root / self.name):
            folders, archive = (base / "set-a", base), base / "set-a.tar.gz"
            for folder in folders:
                if folder.is_dir() and any(is_record_name(path.name) for path in folder.iterdir()):
                    return folder
            if archive.exists():
                return archive
            looked_for += [f"{folders[0]}/132539.txt and others", f"{base}/132539.txt and others", str(archive)]
        raise SourceError(
            f"{self.name}: expected the stays of set A under {root}; found none of: "
            f"{', '.join(looked_for)}. Download them with `tsimpute fetch {self.name}`, or save "
            f"{self.card.sources[0].url} there yourself (unpacked or not) and name the folder with --root or "
            "TSIMPUTE_DATA."
        )

    def load(self, root: Path | None) -> Windows:
        """Every stay, sorted by record number, at 0 to 47 hours since admission.

        A stay without a measurement is kept, without a value. ``changes`` counts the rows that the grid cannot take:
        those at 48:00 or later, parameters outside the 35, values merged within an hour, and -1 for "unknown".
        """
        files, rows = self._rows(root)
        changes: dict[str, int] = {}
        values = _grid(rows, len(files), self.within_hour, changes)
        changes["records without a value (kept)"] = int(np.isnan(values).all((1, 2)).sum())
        return Windows(
            values=values,
            times=np.tile(np.arange(float(N_HOURS)), (len(files), 1)),
            features=FEATURES,
            record_ids=tuple(file.record_id for file in files),
            changes={what: count for what, count in changes.items() if count},
        )

    def download(self, folder: Path) -> None:
        """Brings set A and its outcomes into ``folder`` with TSDB's downloader, in a process of its own."""
        unpacked = folder / "unpacked"
        shutil.rmtree(unpacked, ignore_errors=True)  # TSDB wants a new folder
        download_with_tsdb("physionet_2012", [source.url for source in self.card.sources], unpacked)
        for path in unpacked.iterdir():
            os.replace(path, folder / path.name)
        unpacked.rmdir()

    def verify(self, root: Path) -> None:
        """Accepts the 4000 published stays, as a folder or an archive; see ``STAYS_SHA256``."""
        place = self.locate(root)
        stays = read_files(place)
        digest = sha256(b"".join(file.record_id.encode() + b"\n" + file.content for file in stays))
        if digest != STAYS_SHA256:
            raise DataError(
                f"{place}: expected the 4000 stays as published (sha256 of their contents {STAYS_SHA256}), came "
                f"{len(stays)} with {digest}. Remove them and get them again: `tsimpute fetch {self.name}`."
            )
        outcomes = place.parent / OUTCOMES
        if outcomes.exists():
            check_sha256(outcomes, next(source.sha256 for source in self.card.sources if source.name == OUTCOMES))

    def _rows(self, root: Path | None) -> tuple[list[RecordFile], Rows]:
        files = read_files(self.locate(_given(self.name, root)))
        rows = join_rows(files)
        numbers = rows.where(rows.parameter == _code(rows, "RecordID"))
        for record, number in zip(numbers.record, numbers.value, strict=True):
            if int(files[record].record_id) != number:
                raise DataError(f"{files[record].name}: expected the RecordID of its name, came {number:.0f}.")
        return files, rows


PLUGIN = PhysioNet2012


def _given(name: str, root: Path | None) -> Path:
    if root is None:
        raise SourceError(f"{name}: expected the folder of its files, came None. Name it with --root or TSIMPUTE_DATA.")
    return Path(root)


def _code(rows: Rows, parameter: str) -> int:
    """The index of a parameter's name in these rows; -1 where it never occurs."""
    return rows.parameters.index(parameter) if parameter in rows.parameters else -1


def _grid(rows: Rows, n_records: int, within_hour: WithinHour, changes: dict[str, int]) -> np.ndarray:
    """(N, 35, 48) values; what falls off or together is added to ``changes``."""
    rows = _drop_unknown(_in_time_order(rows, changes), changes)
    names = [feature.name for feature in FEATURES]
    to_feature = np.array([names.index(p) if p in names else -1 for p in rows.parameters], dtype=np.int64)
    feature, hour = to_feature[rows.parameter], rows.minute // 60
    late = hour >= N_HOURS
    changes["rows at 48:00 or later (dropped)"] = int(late.sum())
    outside = rows.where(~late & (feature < 0))
    _count_per_parameter(outside, "rows of {}, not one of the 35 variables (dropped)", changes)

    keep = ~late & (feature >= 0)
    value = rows.value[keep]
    cell = np.ravel_multi_index((rows.record[keep], feature[keep], hour[keep]), (n_records, len(FEATURES), N_HOURS))
    flat = np.full(n_records * len(FEATURES) * N_HOURS, np.nan)
    if within_hour == "last":
        flat[cell] = value  # of a repeated index the last value stays
    else:
        count = np.bincount(cell, minlength=flat.size)
        np.divide(np.bincount(cell, value, minlength=flat.size), count, out=flat, where=count > 0)
    changes[f"rows merged into their hour's {within_hour} value"] = len(value) - int((~np.isnan(flat)).sum())
    return flat.reshape(n_records, len(FEATURES), N_HOURS)


def _in_time_order(rows: Rows, changes: dict[str, int]) -> Rows:
    """Rows by record and minute, ties in the order of the file; counts disorder and repeats of (minute, parameter)."""
    clock = rows.record * (rows.minute.max(initial=0) + 1) + rows.minute
    changes["rows out of time order (sorted)"] = int((np.diff(clock) < 0).sum())
    moment = np.sort(clock * len(rows.parameters) + rows.parameter)  # ten times faster here than np.unique
    changes["rows that repeat a record, time and parameter"] = int((np.diff(moment) == 0).sum())
    return rows.where(np.argsort(clock, kind="stable"))


def _drop_unknown(rows: Rows, changes: dict[str, int]) -> Rows:
    unknown = rows.value == UNKNOWN
    _count_per_parameter(rows.where(unknown), "{} = -1, which means unknown (made missing)", changes)
    return rows.where(~unknown)


def _count_per_parameter(rows: Rows, what: str, changes: dict[str, int]) -> None:
    counts = np.bincount(rows.parameter, minlength=len(rows.parameters))
    changes.update((what.format(name), int(count)) for name, count in zip(rows.parameters, counts, strict=True))
