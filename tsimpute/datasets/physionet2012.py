"""PhysioNet/CinC Challenge 2012, set A: 4000 intensive-care stays, 35 variables over the first 48 hours."""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from tsimpute.core.windows import Windows
from tsimpute.datasets._physionet_variables import FEATURES, LIMITS, OTHER_UNITS, SAME_UNITS
from tsimpute.datasets.base import Card, Source, TableRules, given_root
from tsimpute.datasets.fetching import check_sha256, download_with_tsdb, sha256
from tsimpute.errors import ConfigError, DataError, SourceError

if TYPE_CHECKING:
    import pandas as pd

WithinHour = Literal["last", "mean"]

N_HOURS = 48
UNKNOWN = -1.0
_ARCHIVE, OUTCOMES = "set-a.tar.gz", "Outcomes-a.txt"
# Over record id, line feed and content of each stay in order: holds for the folder and for any packing of it.
STAYS_SHA256 = "f8ec6abeed54c68342872dd5688017ed9dadb59a4261be82e6e87c671bac6547"
STATICS = ("Age", "Gender", "Height", "ICUType", "Weight")

HEADER = b"Time,Parameter,Value"
_RECORD_NAME = re.compile(r"(\d+)\.txt")
_PATTERNS = {
    "time": re.compile(r"\d{1,3}:[0-5]\d"),
    "parameter": re.compile(r"[A-Za-z]\w*"),
    "value": re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?"),
}
_LINE = re.compile(",".join(pattern.pattern for pattern in _PATTERNS.values()))

_URL = "https://www.physionet.org/files/challenge-2012/1.0.0/"
_CARD = Card(
    title="PhysioNet/Computing in Cardiology Challenge 2012, set A",
    licence="ODC-By 1.0",
    citation=(
        "Silva, Moody, Scott, Celi and Mark, Predicting in-hospital mortality of ICU patients: the PhysioNet/Computing "
        "in Cardiology Challenge 2012, Computing in Cardiology 39:245-248, 2012"
    ),
    sources=(
        Source(_ARCHIVE, _URL + _ARCHIVE, "55fbeb66bb0189a39733c5898d466ea98eba5049e684ed47ad8ee16ed10a27d8"),
        Source(OUTCOMES, _URL + OUTCOMES, "2613ea60ccda29f87571a7d6b09ad130858a8ccd66325bd073365925026883c2"),
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
        """The folder or archive of stays: ``root`` itself, or in it, or in its ``physionet2012/``."""
        root = Path(root)
        if root.is_file():
            return root
        looked_for = []
        for base in (root, root / self.name):
            folders, archive = (base / "set-a", base), base / _ARCHIVE
            for folder in folders:
                if folder.is_dir() and any(_RECORD_NAME.fullmatch(path.name) for path in folder.iterdir()):
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
        files = read_files(self.locate(given_root(self.name, root)))
        rows = join_rows(files)
        numbers = rows[rows["parameter"] == "RecordID"]
        for record, number in zip(numbers["record"], numbers["value"], strict=True):
            if int(files[record].record_id) != number:
                raise DataError(f"{files[record].name}: expected the RecordID of its name, came {number:.0f}.")
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


@dataclass(frozen=True)
class RecordFile:
    """One stay's raw text: ``name`` for messages, ``record_id`` from the file name."""

    name: str
    record_id: str
    content: bytes


def read_files(path: Path) -> list[RecordFile]:
    """The stays of a folder or ``.tar.gz``, sorted by record number; nothing is unpacked to disk.

    Raises:
        DataError: the archive is truncated, damaged or no ``.tar.gz``; or it holds no stay, or one twice.
    """
    if path.is_dir():
        stays = [file for file in sorted(path.iterdir()) if _RECORD_NAME.fullmatch(file.name)]
        contents = [(str(file), file.read_bytes()) for file in stays]
    else:
        contents = _archive_contents(path)
    names = [_RECORD_NAME.fullmatch(name.replace(os.sep, "/").rsplit("/", 1)[-1]) for name, _ in contents]
    files = [RecordFile(name, match[1], raw) for (name, raw), match in zip(contents, names, strict=True) if match]
    if not files:
        raise DataError(f"{path}: expected files such as set-a/132539.txt, found none. Is this PhysioNet 2012's set-a?")
    return sorted(files, key=lambda file: int(file.record_id))


def join_rows(files: list[RecordFile]) -> pd.DataFrame:
    """The rows of all files, in the order of the files and of their lines; an empty file contributes none.

    Columns: "record" (index into the list of files), "minute" (since admission), "parameter" (a category), "value"
    (float64, finite; -1 still stands for unknown).

    Raises:
        DataError: a file has another header, or a line is not ``HH:MM,Parameter,number``; file, line number and content
            are named.
    """
    import pandas as pd

    bodies = [_body(file) for file in files]
    n_rows = np.array([body.count(b"\n") + 1 if body else 0 for body in bodies])
    joined = b"\n".join(body for body in bodies if body)
    if not joined:
        none = np.empty(0, np.int64)
        return pd.DataFrame({"record": none, "minute": none, "parameter": pd.Categorical([]), "value": np.empty(0)})
    try:
        table = pd.read_csv(
            io.BytesIO(joined), header=None, names=["time", "parameter", "value"], dtype="category", encoding="latin-1",
            quoting=3, keep_default_na=False, skip_blank_lines=False,
        )  # fmt: skip
    except ValueError as error:
        raise _broken_line(files) from error
    codes = {column: table[column].cat.codes.to_numpy() for column in table}
    texts = {column: [str(text) for text in table[column].cat.categories] for column in table}
    # Each distinct text is checked and converted once: exact to the last bit, and faster than each of 1.8 million.
    well_formed = all(all(map(pattern.fullmatch, texts[column])) for column, pattern in _PATTERNS.items())
    if len(table) != n_rows.sum() or not well_formed or any((code < 0).any() for code in codes.values()):
        raise _broken_line(files)
    minutes = np.array([60 * int(text[:-3]) + int(text[-2:]) for text in texts["time"]])
    values = np.array([float(text) for text in texts["value"]])
    return table[["parameter"]].assign(
        record=np.repeat(np.arange(len(files)), n_rows), minute=minutes[codes["time"]], value=values[codes["value"]]
    )


def _archive_contents(path: Path) -> list[tuple[str, bytes]]:
    try:
        # Unpacked whole (27 MB) before any member is read, so that gzip's checksum speaks first.
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(path.read_bytes()))) as archive:
            opened = [(member.name, archive.extractfile(member)) for member in archive if member.isfile()]
            return [(name, file.read()) for name, file in opened if file is not None]
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise DataError(
            f"{path}: expected a whole .tar.gz archive of stays; it is truncated, damaged or another file ({error}). "
            "Get it again: `tsimpute fetch physionet2012`."
        ) from error


def _body(file: RecordFile) -> bytes:
    header, _, body = file.content.replace(b"\r\n", b"\n").rstrip().partition(b"\n")
    if file.content.strip() and header != HEADER:
        raise DataError(
            f"{file.name}, line 1: expected the header {HEADER.decode()!r}, came {header[:80].decode('latin-1')!r}."
        )
    return body


def _broken_line(files: list[RecordFile]) -> DataError:
    for file in files:
        lines = _body(file).decode("latin-1").split("\n")
        for number, line in enumerate(lines if lines != [""] else [], start=2):
            if not _LINE.fullmatch(line):
                return DataError(
                    f"{file.name}, line {number}: expected HH:MM,Parameter,number, came {line[:80]!r}. "
                    "Correct the line or get the file again."
                )
    return DataError("expected lines HH:MM,Parameter,number, but the files cannot be read as such.")


def _grid(rows: pd.DataFrame, n_records: int, within_hour: WithinHour, changes: dict[str, int]) -> np.ndarray:
    """(N, 35, 48) values; what is out of order, falls off or falls together is counted in ``changes``."""
    clock = (rows["record"] * (rows["minute"].max() + 1) + rows["minute"]).to_numpy()
    changes["rows out of time order (sorted)"] = int((np.diff(clock) < 0).sum())
    parameters = rows["parameter"].cat
    moment = np.sort(clock * len(parameters.categories) + parameters.codes)  # ten times faster here than np.unique
    changes["rows that repeat a record, time and parameter"] = int((np.diff(moment) == 0).sum())
    rows = rows.iloc[np.argsort(clock, kind="stable")]  # ties stay in the order of the file
    unknown = (rows["value"] == UNKNOWN).to_numpy()
    _count_per_parameter(rows.loc[unknown], "{} = -1, which means unknown (made missing)", changes)
    rows = rows.loc[~unknown]

    names = [feature.name for feature in FEATURES]
    to_feature = np.array([names.index(p) if p in names else -1 for p in parameters.categories], dtype=np.int64)
    feature, hour = to_feature[rows["parameter"].cat.codes], rows["minute"].to_numpy() // 60
    late = hour >= N_HOURS
    changes["rows at 48:00 or later (dropped)"] = int(late.sum())
    outside = rows.loc[~late & (feature < 0)]
    _count_per_parameter(outside, "rows of {}, not one of the 35 variables (dropped)", changes)

    keep = ~late & (feature >= 0)
    record, value = rows["record"].to_numpy(), rows["value"].to_numpy()[keep]
    cell = np.ravel_multi_index((record[keep], feature[keep], hour[keep]), (n_records, len(FEATURES), N_HOURS))
    flat = np.full(n_records * len(FEATURES) * N_HOURS, np.nan)
    if within_hour == "last":
        flat[cell] = value  # of a repeated index the last value stays
    else:
        count = np.bincount(cell, minlength=flat.size)
        np.divide(np.bincount(cell, value, minlength=flat.size), count, out=flat, where=count > 0)
    changes[f"rows merged into their hour's {within_hour} value"] = len(value) - int((~np.isnan(flat)).sum())
    return flat.reshape(n_records, len(FEATURES), N_HOURS)


def _count_per_parameter(rows: pd.DataFrame, what: str, changes: dict[str, int]) -> None:
    counts = rows["parameter"].value_counts(sort=False)
    changes.update((what.format(name), int(count)) for name, count in counts.items())


PLUGIN = PhysioNet2012
