"""The files that one filling writes, and what of them must not be overwritten."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tsimpute.errors import ConfigError
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
    def beside(cls, out: Path, learns: bool = True, is_folder: bool = False) -> Outputs:
        """Names after ``out``, in its folder: ``a.csv.gz`` has ``a.provenance.csv.gz``, ``a.cells.csv`` and so on.

        Args:
            is_folder: ``out`` is a folder of files, whose name has no ending.
        """
        if not out.name:
            raise ConfigError(f"output: expected the name of a file, came {str(out)!r}.")
        end = "" if is_folder else out.name[len(out.name) - len(ending(out)) :]
        stem = out.name.removesuffix(end)
        return cls(
            table=out,
            provenance=out.with_name(f"{stem}.provenance{end}"),
            cells=out.with_name(f"{stem}.cells.csv"),
            report=out.with_name(f"{stem}.report.html"),
            model=out.with_name(f"{stem}.model.safetensors") if learns else None,
            state=out.with_name(f".{stem}.unfinished"),
        )

    @property
    def files(self) -> tuple[Path, ...]:
        """All that is left at the end, the table first."""
        files = (self.table, self.provenance, self.cells, self.report)
        return files if self.model is None else (*files, self.model)

    @property
    def begun(self) -> Path:
        """Stands while the files are written: those of a run that was killed then may be written again."""
        return self.state / "writing"

    def check(self, source: Path, force: bool) -> None:
        """Refuses, before any work is done, what must not be overwritten.

        Raises:
            ConfigError: a file is there and ``force`` is not given, one of them is the input or a folder, or there is
                no folder to write them in.
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
        if there and not force and not self.begun.exists():
            raise ConfigError(f"output: {there[0]} exists. Choose another name, or overwrite it with force=True.")
        folder = self.table.absolute().parent
        if not folder.is_dir():
            raise ConfigError(f"output: expected a folder {folder}, there is none. Make it first.")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ConfigError(f"output: expected a folder that can be written to, {folder} cannot. Choose another.")
