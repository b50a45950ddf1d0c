"""Archives of text files, such as ``set-a.tar.gz``, read as the folder that they hold."""

from __future__ import annotations

import lzma
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from tsimpute.errors import DataError

ARCHIVES = (".tar.gz", ".tgz", ".tar", ".tar.bz2", ".tar.xz")


def is_archive(path: Path) -> bool:
    """Whether a file is an archive by its ending."""
    return path.name.lower().endswith(ARCHIVES) and not path.is_dir()


@contextmanager
def unpacked(path: Path, endings: Sequence[str]) -> Iterator[Path]:
    """A temporary folder with the text files of an archive, by the last part of their names.

    Raises:
        DataError: the archive is damaged, or holds two files of one name.
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
    """Names of the text files of an archive."""
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
