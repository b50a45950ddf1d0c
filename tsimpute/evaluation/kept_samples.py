"""The samples of an evaluation at its scored cells, kept in an ``.npz`` so that its numbers can be computed again.

For chunk i of the evaluation the file holds ``draws_i`` (M, S) and ``truth_i`` (M,) in the data's units, the place of
each cell in ``record_i``, ``feature_i``, ``step_i``, and ``record_ids_i``, which ``record_i`` points into; ``header``
is JSON text in bytes: features, context, seed, scaler and the like.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import numpy as np

from tsimpute.core.windows import Feature, Windows
from tsimpute.errors import ConfigError, DataError
from tsimpute.evaluation.reporting import EvaluationContext


@dataclass(frozen=True)
class Header:
    """All of an evaluation but its samples.

    Attributes:
        scaler: means and standard deviations of the features that scores are given in; None = the data's own units.
        no_data: features that the imputer had no training data for.
        seconds: time spent in the imputer.
        n_chunks: chunks in the file.
    """

    features: tuple[Feature, ...]
    context: EvaluationContext
    n_samples: int
    fill: str
    seed: int
    scaler: tuple[tuple[float, ...], tuple[float, ...]] | None
    no_data: tuple[str, ...]
    seconds: float = 0.0
    n_chunks: int = 0

    @classmethod
    def from_json(cls, text: bytes) -> Header:
        stored: dict[str, Any] = json.loads(text)
        stored["features"] = tuple(Feature(**f) for f in stored["features"])
        stored["context"] = EvaluationContext(**stored["context"])
        return cls(**stored)

    def in_units(self, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
        """Draws (M, S) and truth (M,) of a chunk in the units that are scored in, float64."""
        draws, truth = cells.draws.astype(np.float64, copy=False), cells.truth.astype(np.float64, copy=False)
        if self.scaler is None:
            return draws, truth
        mean, std = (np.array(x)[cells.feature] for x in self.scaler)
        return (draws - mean[:, None]) / std[:, None], (truth - mean) / std


@dataclass(frozen=True, eq=False)
class Cells:
    """M scored cells of a chunk of records.

    Attributes:
        draws: (M, S) in the data's units; truth: (M,).
        record, feature, step: (M,) ints, the place of each cell.
        record_ids: names of the chunk's records.
    """

    draws: np.ndarray
    truth: np.ndarray
    record: np.ndarray
    feature: np.ndarray
    step: np.ndarray
    record_ids: np.ndarray


class CellFile:
    """Writes chunks of cells, under a temporary name until ``close``.

    Raises:
        ConfigError: the name does not end in ".npz".
    """

    def __init__(self, path: Path) -> None:
        self.path, self.n_chunks = Path(path), 0
        if self.path.suffix != ".npz":
            raise ConfigError(f"keep_samples: expected a file name that ends in .npz, came {self.path.name!r}.")

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._part = self.path.with_name(f".{self.path.name}.partial{os.getpid()}")
        self._zip = zipfile.ZipFile(self._part, "w")
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self._zip.close()
        self._part.unlink(missing_ok=True)

    def add(self, cells: Cells) -> None:
        for field in fields(cells):
            self._write(f"{field.name}_{self.n_chunks}", getattr(cells, field.name))
        self.n_chunks += 1

    def close(self, header: Header) -> None:
        """Adds the header and gives the file its name."""
        text = json.dumps(asdict(replace(header, n_chunks=self.n_chunks)))
        self._write("header", np.frombuffer(text.encode(), np.uint8))
        self._zip.close()
        os.replace(self._part, self.path)

    def _write(self, name: str, array: np.ndarray) -> None:
        with self._zip.open(f"{name}.npy", "w", force_zip64=True) as file:
            np.lib.format.write_array(file, array, allow_pickle=False)


def read_cells(path: Path) -> tuple[Header, Iterator[Cells]]:
    """The header of a file, and its chunks one by one.

    Raises:
        DataError: the file is not one that ``evaluate`` kept, or is damaged; also while the chunks are read.
    """
    content = _read(path)
    return cast(Header, next(content)), cast(Iterator[Cells], content)


def filled_table(path: Path, windows: Windows) -> tuple[np.ndarray, np.ndarray]:
    """(N, K) bool, the scored cells of records of one step, and (S, N, K) these records with the draws there."""
    header, chunks = read_cells(path)
    truth, place = windows.values[:, :, 0], {record_id: n for n, record_id in enumerate(windows.record_ids)}
    scored, filled = np.zeros(truth.shape, bool), np.repeat(truth[None], header.n_samples, 0)
    for cells in chunks:
        rows = np.array([place[str(record_id)] for record_id in cells.record_ids])[cells.record]
        scored[rows, cells.feature] = True
        filled[:, rows, cells.feature] = cells.draws.T
    return scored, filled


def _read(path: Path) -> Iterator[Header | Cells]:
    try:
        with Path(path).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            header = Header.from_json(file["header"].tobytes())
            yield header
            for i in range(header.n_chunks):
                yield Cells(*(file[f"{field.name}_{i}"] for field in fields(Cells)))
    except DataError:
        raise
    except Exception as error:  # of a damaged file numpy and zipfile raise all kinds
        raise DataError(f"{path}: expected samples kept by evaluate; cannot be read: {error!r}.") from error
