"""A table that came as a delimited text file, written back: every field that is not filled stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from tsimpute.tables.frames.edits import RowEdits, row_edits
from tsimpute.tables.frames.filled_frames import new_labels
from tsimpute.tables.frames.frame_table import FrameTable
from tsimpute.tables.frames.table import Edits
from tsimpute.tables.text.contents import Delimited
from tsimpute.tables.text.delimited import Insertion, write_delimited
from tsimpute.tables.text.folders import Folder, shared, write_folder
from tsimpute.tables.text.number_forms import PLAIN
from tsimpute.tables.text.numbers import Numbers, number_text, written_decimals

FEW = 5
"""So many numbers of a feature of a long table show how many decimals it has."""


@dataclass(frozen=True, eq=False)
class FilledText:
    """A file with what changes in it."""

    file: Delimited
    changes: Mapping[int, Mapping[int, str]]
    insertions: Sequence[Insertion]

    def write(self, path: Path, progress: Callable[[int, int], None] = lambda done, total: None) -> None:
        """Writes the file, or the folder of files, whole or not at all; ``progress`` as of ``write_folder``."""
        if isinstance(self.file, Folder):
            write_folder(self.file, path, self.changes, self.insertions, progress)
        else:
            write_delimited(self.file, path, self.changes, self.insertions)


@dataclass(frozen=True, eq=False)
class TextWriter:
    """Writes a table back as the text file in which it came.

    Attributes:
        file: as it stands.
        columns: place in the file of each column of the frame.
        numbers: of the frame's columns of numbers, by their place in the frame.
    """

    file: Delimited
    columns: tuple[int, ...]
    numbers: Mapping[int, Numbers]

    def decimals(self, table: FrameTable) -> list[int | None]:
        if table.roles.value is not None:
            return self._decimals_by_feature(table).tolist()
        return [self._decimals(column) for column in table.roles.features]

    def apply(self, table: FrameTable, edits: Edits) -> FilledText:
        """The file with the edits; numbers are rounded to the decimals of their column, NaN is an empty field."""
        rows = row_edits(table, edits)
        changes = {
            self.columns[column]: dict(
                zip(at.tolist(), self._texts(table, column, contents, table.feature_at(at)), strict=True)
            )
            for column, (at, contents) in rows.cells.items()
        }
        return FilledText(self.file, changes, self._insertions(table, rows))

    def _texts(self, table: FrameTable, column: int, values: np.ndarray, features: np.ndarray | None) -> list[str]:
        """Numbers as the column writes them; words as they are; "" for nothing.

        Args:
            features: of each value, in a long table.
        """
        if values.dtype == object:
            return ["" if value is None else value for value in values.tolist()]
        decimals = np.full(len(values), self._decimals(column))
        if features is not None:
            decimals = self._decimals_by_feature(table)[features]
        return written(values, decimals, self.numbers[column], self.file.decimal)

    def _decimals_by_feature(self, table: FrameTable) -> np.ndarray:
        value = table.roles.value
        assert value is not None
        fields, of_column = self.file.columns[self.columns[value]], self._decimals(value)
        return decimals_by_feature(table, self.numbers[value], fields, self.file.decimal, of_column)

    def _decimals(self, column: int) -> int:
        """Decimals of a column; of one without any number, as many as another one has."""
        numbers = self.numbers[column]
        if np.isnan(numbers.values).all():
            return max(n.decimals for n in self.numbers.values())
        return numbers.decimals

    def _insertions(self, table: FrameTable, edits: RowEdits) -> list[Insertion]:
        new = edits.new
        fields = np.full((len(new), len(self.file.header)), "", object)
        stamps = None if table.stamps is None or not len(new) else table.stamps.texts(new.moment)
        for i, at in enumerate(self.columns if len(new) else ()):
            if i in edits.new_contents:
                fields[:, at] = shared(self._texts(table, i, edits.new_contents[i], new.feature), {})
            elif stamps is not None and i in table.roles.time:
                fields[:, at] = shared([texts[table.roles.time.index(i)] for texts in stamps], {})
            else:
                # The text that is in all rows of a new row's series, as the file writes it.
                texts = pd.Series(self.file.columns[at], dtype=object, name=table.frame.columns[i])
                labels = new_labels(table, edits.new, i, texts)
                fields[:, at] = ["" if pd.isna(text) else str(text) for text in labels]
        return [Insertion(after + 1, tuple(row)) for after, row in zip(new.after.tolist(), fields, strict=True)]


def decimals_by_feature(
    reading: FrameTable, numbers: Numbers, fields: np.ndarray, mark: str, of_column: int
) -> np.ndarray:
    """(K,) decimals of each feature of a long table; of one of few numbers, those of the column.

    Args:
        numbers, fields: (R,) of the column of values.
        mark: the decimal mark.
        of_column: decimals of the column.
    """
    assert reading.feature_of_row is not None
    n_features = len(reading.panel.features)
    known = ~np.isnan(numbers.values)
    if reading.nameless is not None:
        known &= ~reading.nameless
    if numbers.form != PLAIN:
        return np.full(n_features, of_column)
    decimals, feature = np.zeros(n_features, np.int64), reading.feature_of_row[known]
    np.maximum.at(decimals, feature, written_decimals(fields[known].tolist(), mark))
    return np.where(np.bincount(feature, minlength=n_features) < FEW, of_column, np.minimum(decimals, of_column))


def written(values: np.ndarray, decimals: np.ndarray, numbers: Numbers, mark: str) -> list[str]:
    """Numbers as their column writes them, each with its own decimals; "" for NaN."""
    out = np.full(len(values), "", object)
    is_value = ~np.isnan(values)
    for n_decimals in np.unique(decimals[is_value]).tolist():
        cells = is_value & (decimals == n_decimals)
        out[cells] = numbers.form.dressed(number_text(values[cells], n_decimals, mark), mark)
    return out.tolist()
