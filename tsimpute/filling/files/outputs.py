"""The files that one filling writes: their names, what must not be overwritten, and their writing."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd

from tsimpute.errors import ConfigError
from tsimpute.filling.imputer.imputation import Imputation
from tsimpute.reports.table_report import ReportContent, write_report
from tsimpute.system.files import atomic_write, remove_partial
from tsimpute.system.run import after_a_while
from tsimpute.system.terminal import Tell
from tsimpute.tables.sources.files import check_ending, ending, is_folder_of_files, write_object
from tsimpute.tables.text.folders import check_replaceable

_ROWS = 100_000
"""Rows of cells.csv that are in memory at once, about."""


@dataclass(frozen=True)
class Outputs:
    """The files that one filling writes.

    Attributes:
        table: the file filled.
        provenance: the same with a word for each value.
        cells: one row for each cell that was not observed, with its quantiles.
        report: a page with pictures.
        model: what was learnt, for other files of the same kind; None where nothing is learnt.
        state: folder of an unfinished run; gone at the end.
    """

    table: Path
    provenance: Path
    cells: Path
    report: Path
    model: Path | None
    state: Path

    @classmethod
    def named_after(cls, out: Path, learns: bool = True, is_folder: bool = False) -> Self:
        """Names after ``out``, in its folder: ``a.csv.gz`` has ``a.provenance.csv.gz``, ``a.cells.csv`` and so on.

        Args:
            is_folder: ``out`` is a folder of files, whose name has no ending.
        """
        if not out.name:
            raise ConfigError(f"output: expected the name of a file, came {str(out)!r}.")
        end = "" if is_folder else out.name[len(out.name) - len(ending(out)) :]
        folder, stem = out.parent, out.name.removesuffix(end)
        return cls(
            table=out,
            provenance=folder / f"{stem}.provenance{end}",
            cells=folder / f"{stem}.cells.csv",
            report=folder / f"{stem}.report.html",
            model=folder / f"{stem}.model.safetensors" if learns else None,
            state=folder / f".{stem}.unfinished",
        )

    @property
    def files(self) -> tuple[Path, ...]:
        """All that is left at the end, the table first."""
        files = (self.table, self.provenance, self.cells, self.report)
        return files if self.model is None else (*files, self.model)

    @property
    def record(self) -> Path:
        """Exists once the files of an unfinished run are being written; afterwards it holds their digests."""
        return self.state / "writing"

    def write(
        self, imputation: Imputation, content: ReportContent, source: Path, save: Callable[[Path], None] | None,
        progress: Tell,
    ) -> None:  # fmt: skip
        """Writes all files, the table last: where it exists, the others do.

        From the first file on they belong to this run: if it is killed, the next run may write them again. At the end
        their digests are recorded, so that a later change by somebody else is noticed.

        Args:
            source: the input.
            save: writes the model; None where the output is the input itself.
        """
        atomic_write(self.record, lambda path: path.touch())
        folders = (self.table, self.provenance) if is_folder_of_files(source) else ()
        for path in self.files:
            if ending(path) != ".zarr" and path not in folders:
                remove_partial(path)
        if save is not None and self.model is not None:
            save(self.model)
        write_report(content, self.report)
        atomic_write(self.cells, lambda path: write_cells(imputation, path))
        write_object(imputation.marked(), self.provenance, after_a_while(progress, "writing what each cell is"))
        if save is None and source.is_file() and ending(source) == ending(self.table):
            atomic_write(self.table, lambda path: shutil.copyfile(source, path))
        else:
            write_object(imputation.table, self.table, after_a_while(progress, "writing"))
        digests = {path.name: _digest(path) for path in self.files if path.exists()}
        atomic_write(self.record, lambda path: path.write_text(json.dumps(digests), encoding="utf-8"))

    def edited(self) -> list[Path]:
        """The files that somebody changed after this run, or the run that it continues, wrote them."""
        text = self.record.read_text(encoding="utf-8") if self.record.exists() else ""
        digests = json.loads(text) if text else {}
        return [p for p in self.files if p.exists() and p.name in digests and _digest(p) != digests[p.name]]

    def unused(self) -> Self:
        """Outputs of a similar name, ``a.improved.csv``, none of which exists; the state is the same."""
        stem = self.report.name.removesuffix(".report.html")
        end, is_folder = self.table.name[len(stem) :], self.table.name == stem
        names = (self.table.with_name(f"{stem}.improved{n if n > 1 else ''}{end}") for n in count(1))
        outputs = (self.named_after(name, bool(self.model), is_folder) for name in names)
        free = next(of_name for of_name in outputs if not any(path.exists() for path in of_name.files))
        return replace(free, state=self.state)

    def check(self, source: Path, force: bool) -> None:
        """Refuses, before any work is done, what must not be overwritten.

        Raises:
            ConfigError: a file exists and ``force`` is not set, unless an interrupted run wrote it and nobody changed
                it since; one of them is the input or a folder; or there is no folder to write them in.
        """
        check_ending(source, self.table)
        existing = [path for path in self.files if path.exists()]
        for path in existing:
            if source.exists() and path.samefile(source):
                raise ConfigError(f"output: expected files other than the input, came {path} as both. Choose another.")
            if is_folder_of_files(source) and path in (self.table, self.provenance):
                if not check_replaceable(path, source):
                    raise ConfigError(
                        f"output: expected a new folder, or one with files of the names in {source} alone; {path} "
                        "holds others. Choose another."
                    )
            elif path.is_dir() and ending(path) != ".zarr":
                raise ConfigError(f"output: expected a file, {path} is a folder. Name a file in it.")
        if existing and not force and not self.record.exists():
            raise ConfigError(f"output: {existing[0]} exists. Choose another name, or overwrite it with force=True.")
        if not force and (edited := self.edited()):
            raise ConfigError(
                f"output: expected {edited[0]} as the interrupted run wrote it, but it was changed since. Choose "
                "another name to keep the changes, or overwrite it with force=True."
            )
        folder = self.table.absolute().parent
        if not folder.is_dir():
            raise ConfigError(f"output: expected a folder {folder}, there is none. Make it first.")
        try:
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise ConfigError(
                f"output: expected a folder that can be written to, {folder} cannot. Choose another."
            ) from error


def _digest(path: Path) -> str:
    """A digest of the contents of a file, or of the names and contents of all files in a folder."""
    digest = hashlib.blake2b(digest_size=16)
    for part in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if part.is_file():
            digest.update(repr(str(part.relative_to(path))).encode())
            with part.open("rb") as file:
                digest.update(hashlib.file_digest(file, "blake2b").digest())
    return digest.hexdigest()


def write_cells(imputation: Imputation, path: Path) -> None:
    """Writes ``Imputation.cells`` batch by batch: of thousands of series all cells do not fit into memory."""
    labels = np.concatenate([series.labels for series in imputation.prepared.panel.series])
    in_pieces, form = True, None
    if labels.dtype.kind == "M":  # pandas writes a column of dates shorter, and seconds only as far as there are any
        in_pieces = not (labels != labels.astype("M8[s]")).any()
        form = "%Y-%m-%d %H:%M:%S" if in_pieces and (labels != labels.astype("M8[D]")).any() else None
    parts = _batches(imputation.cells_by_series()) if in_pieces else [imputation.cells]
    with path.open("w", encoding="utf-8", newline="") as file:
        for n, part in enumerate(parts):
            part.to_csv(file, index=False, header=not n, float_format="%.8g", date_format=form)


def _batches(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Joins frames to frames of about ``_ROWS`` rows; gives one at least."""
    parts: list[pd.DataFrame] = []
    n_rows = 0
    for frame in frames:
        parts.append(frame)
        n_rows += len(frame)
        if n_rows >= _ROWS:
            yield pd.concat(parts)
            parts, n_rows = [], 0
    if parts:
        yield pd.concat(parts)
