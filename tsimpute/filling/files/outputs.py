"""The files that one filling writes, and what of them must not be overwritten."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Self

from tsimpute.errors import ConfigError
from tsimpute.system.files import atomic_write
from tsimpute.tables.sources.files import check_ending, ending, is_folder_of_files
from tsimpute.tables.text.folders import check_replaceable


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
    def beside(cls, out: Path, learns: bool = True, is_folder: bool = False) -> Self:
        """Names after ``out``, in its folder: ``a.csv.gz`` has ``a.provenance.csv.gz``, ``a.cells.csv`` and so on.

        Args:
            is_folder: ``out`` is a folder of files, whose name has no ending.
        """
        if not out.name:
            raise ConfigError(f"output: expected the name of a file, came {str(out)!r}.")
        end = "" if is_folder else out.name[len(out.name) - len(ending(out)) :]
        return cls._of(out.parent, out.name.removesuffix(end), end, learns)

    @classmethod
    def _of(cls, folder: Path, stem: str, end: str, learns: bool) -> Self:
        return cls(
            table=folder / f"{stem}{end}",
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

    def begin_writing(self) -> None:
        """From now on the files belong to this run: if it is killed, the next run may write them again."""
        atomic_write(self.record, lambda path: path.touch())

    def end_writing(self) -> None:
        """Records what was written, so that a later change by somebody else is noticed."""
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
        names = (f"{stem}.improved{n if n > 1 else ''}" for n in count(1))
        outputs = (self._of(self.table.parent, name, self.table.name[len(stem) :], bool(self.model)) for name in names)
        free = next(of_name for of_name in outputs if not any(path.exists() for path in of_name.files))
        return replace(free, state=self.state)

    def check(self, source: Path, force: bool) -> None:
        """Refuses, before any work is done, what must not be overwritten.

        Raises:
            ConfigError: a file exists and ``force`` is not set, unless an interrupted run wrote it and nobody changed
                it since; one of them is the input or a folder; or there is no folder to write them in.
        """
        check_ending(source, self.table)
        there = [path for path in self.files if path.exists()]
        for path in there:
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
        if there and not force and not self.record.exists():
            raise ConfigError(f"output: {there[0]} exists. Choose another name, or overwrite it with force=True.")
        if not force and (edited := self.edited()):
            raise ConfigError(
                f"output: expected {edited[0]} as the interrupted run wrote it, but it was changed since. Choose "
                "another name to keep the changes, or overwrite it with force=True."
            )
        folder = self.table.absolute().parent
        if not folder.is_dir():
            raise ConfigError(f"output: expected a folder {folder}, there is none. Make it first.")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ConfigError(f"output: expected a folder that can be written to, {folder} cannot. Choose another.")


def _digest(path: Path) -> str:
    """Of the contents of a file, or of the names and contents of all files in a folder."""
    digest = hashlib.blake2b(digest_size=16)
    for part in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if part.is_file():
            digest.update(repr(str(part.relative_to(path))).encode())
            with part.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
    return digest.hexdigest()
