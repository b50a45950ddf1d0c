"""Folders and archives of text files with the same columns, as one table: a file per patient, station or day."""

from __future__ import annotations

import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import numpy as np

from tsimpute.errors import DataError
from tsimpute.system.files import atomic_write_folder
from tsimpute.tables.text.delimited import Insertion, read_delimited, write_delimited
from tsimpute.tables.text.number_forms import find_decimal, has_points
from tsimpute.tables.text.rawtext import Delimited
from tsimpute.tables.text.row_errors import RowError

ARCHIVES = (".tar.gz", ".tgz", ".tar", ".tar.bz2", ".tar.xz")
COLUMN = "file"  # The column that is added to a table of several files: the name of each row's file without its ending
_NAMED = 3


@dataclass(frozen=True, eq=False)
class Folder(Delimited):
    """The rows of several files below one another; the last column says of which file each row is."""

    files: tuple[Delimited, ...]  # F of them, in the order of their names
    first: np.ndarray  # (F + 1,) the first row of each, and the number of rows
    alike: tuple[tuple[str, str], ...] = ()  # names of files of the same content, each with the first of them

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader should look at, a sentence each."""
        if not self.alike:
            return ()
        named = ", ".join(f"{name} is {first}" for name, first in self.alike[:_NAMED])
        more = f" and {len(self.alike) - _NAMED:,} more" if len(self.alike) > _NAMED else ""
        files = "1 file has" if len(self.alike) == 1 else f"{len(self.alike):,} files have"
        return (f"{files} the content of another one ({named}{more}); each is filled by itself",)

    def names_twice(self, name: str) -> tuple[str, ...]:
        """Says of a long table with rows of that name, as RecordID, which of their values stand in several files."""
        in_files: dict[str, list[str]] = {}
        for at in range(len(self.header) - 2):
            for row in np.flatnonzero(self.columns[at] == name).tolist():
                files = in_files.setdefault(self.columns[at + 1][row], [])
                if (file := self.files[self.file_of(row)].name) not in files:
                    files.append(file)
        twice = {value: files for value, files in in_files.items() if len(files) > 1}
        if not twice:
            return ()
        named = "; ".join(f"{value} in {', '.join(files[:_NAMED])}" for value, files in [*twice.items()][:_NAMED])
        more = f"; and {len(twice) - _NAMED:,} more" if len(twice) > _NAMED else ""
        return (f"{name}: the same in several files ({named}{more}); each file is filled as a series of its own",)

    def file_of(self, row: int) -> int:
        return int(np.searchsorted(self.first, row, side="right")) - 1

    def place(self, row: int) -> str:
        return f"{self.files[self.file_of(row)].name}, line {self.lines[row]}"

    def in_lines(self, error: RowError) -> str:
        return error.in_words(lambda row: f"line {self.lines[row]} of {self.files[self.file_of(row)].name}")


def text_files(path: Path, endings: Sequence[str]) -> list[Path]:
    """The files of a folder that hold text by their ending, by name, but hidden ones; refused where none is."""
    paths = sorted(
        p for p in path.iterdir() if p.is_file() and p.name[0] != "." and p.name.lower().endswith(tuple(endings))
    )
    if not paths:
        raise DataError(
            f"{path}: expected a file, or a folder of text files with the same columns ({', '.join(endings)}); came a "
            "folder without any."
        )
    return paths


def read_folder(
    path: Path,
    endings: Sequence[str],
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Folder:
    """Reads all text files of a folder, each once; settings as of ``read_delimited``.

    ``progress`` is called with the number of files that are read, and of all files.

    Raises:
        DataError: there is no text file, one cannot be read, or two differ in their columns.
    """
    paths = text_files(path, endings)
    files: list[Delimited] = []
    parts: list[tuple[np.ndarray, ...]] = []
    known: dict[str, str] = {}
    contents: dict[bytes, str] = {}
    alike: list[tuple[str, str]] = []
    for file_path in paths:
        # The decimal mark is detected from all files together: a single one may not show it.
        try:
            file = read_delimited(file_path, delimiter=delimiter, decimal=decimal or ".", encoding=encoding)
        except DataError as error:
            raise DataError(f"{error} All text files of a folder are read; if it is none of these, move it.") from None
        delimiter = delimiter or file.delimiter
        _check_columns(files[0] if files else file, file)
        parts.append(tuple(shared(column, known) for column in file.columns))
        content = blake2b("".join(file._raw.records).encode("utf-8", "surrogatepass")).digest()
        if (first := contents.setdefault(content, file.name)) != file.name:
            alike.append((file.name, first))
        files.append(replace(file, columns=()))
        progress(len(files), len(paths))
    sizes = [len(file) for file in files]
    columns = [np.concatenate(of_column) for of_column in zip(*parts, strict=True)]
    texts = [column.tolist() for column in columns] if decimal is None else []
    mark = decimal or find_decimal(texts)
    header = files[0].header
    labels = np.repeat(np.array(_labels(paths, endings), object), sizes)
    name = next(n for n in (COLUMN, "file name", "name of the file") if n not in header)
    notes = [
        *files[0].notes,
        f"{len(paths):,} files, from {paths[0].name} to {paths[-1].name}; {name!r} is the name of each",
    ]
    others = sorted(p.name for p in path.iterdir() if p not in paths and p.name[0] != ".")
    if others:
        notes.append(f"{len(others)} in the folder not read: {', '.join(others[:3])}{' ...' * (len(others) > 3)}")
    return Folder(
        name=path.name,
        header=(*header, name),
        columns=(*columns, labels),
        lines=np.concatenate([file.lines for file in files]),
        delimiter=files[0].delimiter,
        decimal=mark,
        encoding=files[0].encoding,
        units=(*files[0].units, ""),
        notes=tuple(notes),
        decimal_is_sure=decimal is not None or (mark == "." and has_points(texts)),
        _raw=files[0]._raw,
        files=tuple(files),
        first=np.concatenate([[0], np.cumsum(sizes)]),
        alike=tuple(alike),
    )


def write_folder(
    table: Folder,
    path: Path,
    changes: Mapping[int, Mapping[int, str]],
    insertions: Sequence[Insertion] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Writes a folder of files of the same names, each as it was read but for some fields and new lines.

    ``progress`` is called with the number of files that are written, and of all files.
    """
    by_file: list[dict[int, dict[int, str]]] = [{} for _ in table.files]
    for column, texts in changes.items():
        if column == len(table.header) - 1:
            continue
        for row, text in texts.items():
            at = table.file_of(row)
            by_file[at].setdefault(column, {})[row - int(table.first[at])] = text
    new: list[list[tuple[int, Insertion]]] = [[] for _ in table.files]
    place = {str(table.columns[-1][row]): at for at, row in enumerate(table.first[:-1].tolist())}
    for one in insertions:
        # A new line before the first row of a file may as well follow the last one of the file before.
        at = place.get(one.fields[-1], table.file_of(max(one.row - 1, 0)))
        row = min(max(one.row - int(table.first[at]), 0), len(table.files[at]))
        new[at].append((row, one))

    def write(folder: Path) -> None:
        folder.mkdir()
        for n, (file, of_file, of_new) in enumerate(zip(table.files, by_file, new, strict=True)):
            added = [Insertion(row, one.fields[:-1]) for row, one in of_new]  # file by file: all at once is much
            write_delimited(file, folder / file.name, of_file, added)
            progress(n + 1, len(table.files))

    atomic_write_folder(path, write)


def check_replaceable(path: Path, source: Path) -> bool:
    """Whether a folder holds nothing but files of the names that ``source`` has, so that it may be written anew."""
    if not path.is_dir():
        return False
    names = names_in(source, ("",)) if is_archive(source) else {p.name for p in source.iterdir()}
    return all(p.is_file() and p.name in names for p in path.iterdir())


def shared(column: Sequence[str] | np.ndarray, known: dict[str, str]) -> np.ndarray:
    """The same texts, each held once by ``known``: of millions most are alike."""
    return np.array([known.setdefault(text, text) for text in column], object)


def _check_columns(first: Delimited, file: Delimited) -> None:
    if file.header == first.header:
        return
    absent = [name for name in first.header if name not in file.header]
    more = [name for name in file.header if name not in first.header]
    differ = [f"without {', '.join(absent[:5])}"] * bool(absent) + [f"with {', '.join(more[:5])}"] * bool(more)
    raise DataError(
        f"{file.name}: expected the columns of {first.name}, the first file of the folder, came a file "
        f"{' and '.join(differ) or 'with the same columns in another order'}. Make the columns alike, or put files of "
        "other columns into a folder of their own."
    )


def _labels(paths: Sequence[Path], endings: Sequence[str]) -> list[str]:
    """Names without endings, or whole where two would be the same."""
    by_length = sorted(endings, key=len, reverse=True)
    cut: Callable[[str], str] = lambda name: name[: -len(next(e for e in by_length if name.lower().endswith(e)))]
    stems = [cut(path.name) or path.name for path in paths]
    return stems if len(set(stems)) == len(stems) else [path.name for path in paths]


def is_archive(path: Path) -> bool:
    return path.name.lower().endswith(ARCHIVES) and not path.is_dir()


@contextmanager
def unpacked(path: Path, endings: Sequence[str]) -> Iterator[Path]:
    """A temporary folder with the text files of an archive, by the last part of their names.

    A damaged archive, or two files of one name, are refused with a ``DataError``.
    """
    with TemporaryDirectory() as temporary:
        folder = Path(temporary, path.name)
        folder.mkdir()
        for name, content in _contents(path, endings):
            if (folder / name).exists():
                raise DataError(
                    f"{path}: expected files of different names, {name} stands twice in the archive. Unpack it and "
                    "give one of its folders."
                )
            (folder / name).write_bytes(content)
        yield folder


def names_in(path: Path, endings: Sequence[str]) -> set[str]:
    return {name for name, _ in _contents(path, endings)}


def _contents(path: Path, endings: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    def wanted(name: str) -> bool:
        return name[:1] not in (".", "") and name.lower().endswith(tuple(endings))

    try:
        with tarfile.open(path) as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None and wanted(name := PurePosixPath(member.name).name):
                    yield name, content.read()
    except (OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path}: expected a whole archive of text files; it is damaged ({reason}).") from error
