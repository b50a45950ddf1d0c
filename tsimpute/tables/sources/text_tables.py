"""Delimited text files as tables: which columns are numbers; written back with every other field as it is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.columns.column_names import GROUP_NAMES, UNIT_NAMES, VALUE_NAMES, value_of_long
from tsimpute.tables.columns.number_texts import are_catalogue_codes, are_padded_codes, unfillable_text
from tsimpute.tables.columns.time_names import COUNT_NAMES, TIME_NAMES, is_time_name, plain
from tsimpute.tables.frames.edits import RowEdits, row_edits
from tsimpute.tables.frames.filled_frames import new_labels
from tsimpute.tables.frames.frames import TimeOptions, read_frame
from tsimpute.tables.frames.table import Edits, FrameTable
from tsimpute.tables.roles.columns import ALL, ColumnSpec
from tsimpute.tables.roles.roles import FILL
from tsimpute.tables.roles.wide_times import check_wide_hours, check_wide_times
from tsimpute.tables.text.delimited import Insertion, read_delimited, write_delimited
from tsimpute.tables.text.folders import Folder, shared, write_folder
from tsimpute.tables.text.number_forms import PLAIN
from tsimpute.tables.text.numbers import (
    COMMAND,
    MISSING_MARKS,
    Numbers,
    find_numbers,
    has_padded,
    is_number,
    is_number_or_missing,
    number_text,
    read_numbers,
    written_decimals,
)
from tsimpute.tables.text.rawtext import Delimited
from tsimpute.tables.text.row_errors import RowError, RowNote
from tsimpute.tables.time.calendar_columns import CALENDAR_NAMES
from tsimpute.tables.time.columns import looks_like_time
from tsimpute.tables.time.numbers import are_months
from tsimpute.tables.time.stamps import forms_note

FEW = 5  # So many numbers of a feature of a long table show how many decimals it has
_EXACT = 15  # Digits of a whole number up to which a float holds it exactly
MOST_LEVELS = 20  # So many different numbers with units may be names


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
    """Writes a table back as the text file in which it came."""

    file: Delimited  # as it stands
    columns: tuple[int, ...]  # place in the file of each column of the frame
    numbers: Mapping[int, Numbers]  # of the frame's columns of numbers, by their place in the frame

    def decimals(self, table: FrameTable) -> list[int | None]:
        if table.roles.value is not None:
            return self._decimals_by_feature(table).tolist()
        return [self._decimals(column) for column in table.roles.features]

    def apply(self, table: FrameTable, edits: Edits) -> FilledText:
        """The file with the edits; numbers are rounded to the decimals of their column, NaN is an empty field."""
        rows = row_edits(table, edits)
        changes = {}
        for column, (at, contents) in rows.cells.items():
            features = None if table.feature_of_row is None else table.feature_of_row[at]
            texts = self._texts(table, column, contents, features)
            changes[self.columns[column]] = dict(zip(at.tolist(), texts, strict=True))
        return FilledText(self.file, changes, self._insertions(table, rows))

    def _texts(self, table: FrameTable, column: int, values: np.ndarray, features: np.ndarray | None) -> list[str]:
        """Numbers as the column writes them, words as they are, "" for nothing; ``features``: of each, if long."""
        if values.dtype == object:
            return ["" if value is None else value for value in values.tolist()]
        decimals, numbers = np.full(len(values), self._decimals(column)), self.numbers[column]
        if features is not None:
            decimals = self._decimals_by_feature(table)[features]
        texts, is_value, mark = np.full(len(values), "", object), ~np.isnan(values), self.file.decimal
        if numbers.exponents is not None:
            texts[is_value] = numbers.form.dressed(numbers.exponents.texts(values[is_value], mark), mark)
            return texts.tolist()
        for n_decimals in np.unique(decimals[is_value]).tolist():
            cells = is_value & (decimals == n_decimals)
            padded = [text.zfill(numbers.width) for text in number_text(values[cells], n_decimals, mark)]
            texts[cells] = numbers.form.dressed(padded, mark)
        return texts.tolist()

    def _decimals_by_feature(self, table: FrameTable) -> np.ndarray:
        """(K,) decimals of each feature of a long table; of one of few numbers, those of the column."""
        value, n_features = table.roles.value, len(table.panel.features)
        assert value is not None
        assert table.feature_of_row is not None
        numbers, of_column = self.numbers[value], self._decimals(value)
        if numbers.form != PLAIN:
            return np.full(n_features, of_column)
        known = ~np.isnan(numbers.values)
        if table.nameless is not None:
            known &= ~table.nameless
        decimals, feature = np.zeros(n_features, np.int64), table.feature_of_row[known]
        fields = self.file.columns[self.columns[value]][known].tolist()
        np.maximum.at(decimals, feature, written_decimals(fields, self.file.decimal))
        return np.where(np.bincount(feature, minlength=n_features) < FEW, of_column, np.minimum(decimals, of_column))

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


def read_text_table(
    path: Path,
    spec: ColumnSpec | None = None,
    time_options: TimeOptions | None = None,
    units: Mapping[str, str] | None = None,
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    missing_marks: Collection[str] = (),
) -> FrameTable:
    """Understands a delimited text file.

    Args:
        path, delimiter, decimal, encoding: see ``read_delimited``.
        spec, time_options, units: see ``read_frame``; units also come from a row of units in the file.
        missing_marks: texts that mean "missing", in addition to ``MISSING_MARKS``.

    Raises:
        DataError: it is no such file, a column that is mostly numbers holds something else, or see ``read_frame``;
            the message names the file and, for rows, lines of it, from 1.
    """
    file = read_delimited(path, delimiter=delimiter, decimal=decimal, encoding=encoding)
    return _understood(file, spec or ColumnSpec(), time_options, units, missing_marks)


def understood_folder(
    folder: Folder,
    spec: ColumnSpec | None = None,
    time_options: TimeOptions | None = None,
    units: Mapping[str, str] | None = None,
    missing_marks: Collection[str] = (),
) -> FrameTable:
    """Understands the files of a folder as one table: each is a series, unless groups are named."""
    spec, name = spec or ColumnSpec(), folder.header[-1]
    if spec.group is None:
        spec = replace(spec, group=(name,))
    elif name not in _names(spec.group):
        spec = replace(spec, text=(*_names(spec.text), name))
    twice = folder.names_twice(spec.known.descriptors[0]) if spec.known and spec.known.descriptors else ()
    table = _understood(folder, spec, time_options, units, missing_marks)
    return replace(table, warnings=folder.warnings + twice + table.warnings)


def _understood(
    file: Delimited,
    spec: ColumnSpec,
    time_options: TimeOptions | None,
    units: Mapping[str, str] | None,
    missing_marks: Collection[str],
) -> FrameTable:
    marks = (*MISSING_MARKS, *missing_marks)
    columns = tuple(i for i, name in enumerate(file.header) if name or (file.columns[i] != "").any())
    names = [file.header[at] or f"Unnamed: {at}" for at in columns]
    fitted = _names(spec.learnt.features) if spec.learnt else ()
    spec = spec.with_learnt(names)
    if spec.known is not None:
        spec = spec.with_known(names, [file.columns[at] for at in columns])
    if spec.features is None and spec.value is None:
        _check_wide_file(file, columns, names)
    parsed = {i: _parsed(file, at, spec, marks, fitted) for i, at in enumerate(columns)}
    numbers = {i: column for i, column in parsed.items() if column is not None}
    texts = () if spec.features is not None else [i for i in range(len(columns)) if parsed[i] is None]
    coded = {names[i] for i in texts if _are_codes(names[i], _known(file, columns[i], marks))}
    with_marks = {*spec.categories, *coded}
    has_values = any(not np.isnan(column.values).all() for column in numbers.values())
    features = {*_names(spec.features), spec.value, *fitted} if has_values else set(names)
    frame = pd.DataFrame({
        i: _as_column(file.columns[at], parsed[i], names[i] in features, marks if names[i] in with_marks else ())
        for i, at in enumerate(columns)
    })  # fmt: skip
    frame.columns = pd.Index(names, dtype=object)
    in_file = {names[i]: column.form.unit for i, column in numbers.items() if column.form.unit}
    in_file |= {names[i]: file.units[at] for i, at in enumerate(columns) if file.units[at]}
    all_units = dict(units) if units and ALL in units else in_file | dict(units or {})
    try:
        reading = read_frame(frame, spec, time_options, all_units)
        if file.blanks and not (reading.roles.time or reading.roles.group):
            # Each row is a step, so one without any value is a step at which nothing was measured.
            return _understood(file.with_blanks(), spec, time_options, units, missing_marks)
        if written := _times_as_written(file, reading, columns, numbers):
            for i in written:
                frame.isetitem(i, pd.Series(file.columns[columns[i]], dtype=object))
            spec_time = [reading.columns.names[at] for at in reading.roles.time]
            first, reading = reading, read_frame(frame, replace(spec, time=spec_time), time_options, all_units)
            reading = replace(reading, notes=tuple(dict.fromkeys((*first.roles.notes, *reading.notes))))
            numbers = {i: column for i, column in numbers.items() if i not in written}
    except RowError as error:
        raise DataError(f"{file.name}: {file.in_lines(error)}") from None
    except DataError as error:
        raise DataError(f"{file.name}: {error}") from None
    coded -= {*_names(spec.text), *spec.categories}  # of which the user has said what becomes of them
    extra = (names[i] for i in reading.roles.extra if names[i] in coded)
    more = [f"{name}: digits with zeros before them are names; passed through unchanged. {FILL}" for name in extra]
    forms = {names[i]: column.form.text for i, column in numbers.items()}
    more += [f"{name}: {text}; filled cells have it too" for name, text in forms.items() if text]
    if reading.n_added and reading.stamps is not None:
        more += forms_note(reading.stamps, [file.columns[columns[at]] for at in reading.roles.time])
    notes = (note.in_lines(file.lines) if isinstance(note, RowNote) else note for note in reading.notes)
    named = {name for name, _ in reading.roles.unfillable}
    reasons = {n: unfillable_text(pd.Series(frame[n]), n, missing_marks, COMMAND) for n in frame if n in named}
    unfillable = tuple((name, file.in_lines(reason)) for name, reason in reasons.items() if reason)
    writer = TextWriter(file, columns, numbers)
    return replace(reading, notes=(*file.notes, *notes, *more), unfillable=unfillable, writer=writer)


def _times_as_written(
    file: Delimited, reading: FrameTable, columns: Sequence[int], numbers: Mapping[int, Numbers]
) -> list[int]:
    """Time columns whose numbers do not say how they are written, as 07, 0.50 and nanoseconds: to be read as texts."""
    is_plain = lambda at: numbers[at].is_integer and numbers[at].form == PLAIN
    is_other = lambda text: has_padded([text]) or len(text) > _EXACT
    times = [at for at in reading.roles.time if at in numbers]
    return [at for at in times if not is_plain(at) or any(map(is_other, file.columns[columns[at]]))]


def _parsed(
    file: Delimited, at: int, spec: ColumnSpec, marks: tuple[str, ...], fitted: Collection[object]
) -> Numbers | None:
    """The numbers of a column, or None where it is text; ``fitted`` are columns that a model has learnt as numbers."""
    name, texts = file.header[at], file.columns[at]
    if name == spec.value or name in _names(spec.features):
        if find_numbers(file, at, marks) is None and looks_like_time(pd.Series(_known(file, at, marks))):
            role = "value" if name == spec.value else "features"
            raise ConfigError(
                f"{role}: expected columns of numbers, {name!r} holds times. Leave it out of {role}; it is read as the "
                "column of times where there is no other one (time)."
            )
        return read_numbers(file, at, marks)
    labels = {*_names(spec.group), *_names(spec.time), spec.feature, spec.unit, *_names(spec.text), *spec.categories}
    if name in labels or plain(name) in UNIT_NAMES:
        return None
    if spec.group is None and plain(name) in GROUP_NAMES and (has_padded(texts) or max(map(len, texts)) > _EXACT):
        return None
    known = _known(file, at, marks)
    if not known:
        return Numbers(np.full(len(texts), np.nan), {}, 0, False)
    if name not in fitted and _are_codes(name, known):
        return None
    if len(known) == len(texts) and are_months(pd.Series(texts, name=name)):
        return None
    if spec.features is None and are_catalogue_codes(name, known):
        return None
    # Where the columns to impute are named, the others need not be numbers.
    open_to_all = spec.features is None and spec.value is None and value_of_long(file.header) in (None, name)
    numbers = find_numbers(file, at, marks)
    if numbers is None or np.isnan(numbers.values).all():
        if spec.time is None and is_time_name(name):
            return None  # one row of it is no time, which is reported where times are read
        is_mostly_numbers = any(map(is_number, known)) and 2 * sum(map(is_number_or_missing, known)) >= len(known)
        if not (open_to_all and is_mostly_numbers):
            return None
        numbers = read_numbers(file, at, marks)
    # Few numbers with units in all rows, as the heights 2m and 10m, are names of something, and nothing to fill.
    few = len(set(known)) <= min(MOST_LEVELS, len(known) // 4)
    are_levels = few and numbers.form != PLAIN and not np.isnan(numbers.values).any()
    return None if open_to_all and are_levels else numbers


def _known(file: Delimited, at: int, marks: Sequence[str]) -> list[str]:
    """The texts of a column that do not mean "missing"."""
    folded = {mark.casefold() for mark in marks}
    return [text for text in file.columns[at].tolist() if text.casefold() not in folded]


def _are_codes(name: str, texts: Sequence[str]) -> bool:
    """Digits with zeros before them that name something, and are no times and no values of a long table."""
    return plain(name) not in (*TIME_NAMES, *COUNT_NAMES, *CALENDAR_NAMES, *VALUE_NAMES) and are_padded_codes(texts)


def _as_column(
    texts: np.ndarray, numbers: Numbers | None, is_feature: bool, marks: Sequence[str]
) -> np.ndarray | pd.Series:
    """Whole numbers without gaps stay whole: they may be dates such as 20140501.

    A column without any value is no column of numbers, unless it is known to be a feature: it may be one of remarks.
    ``marks`` mean "missing" in a column of texts.
    """
    if numbers is None:
        column, folded = pd.Series(texts, dtype=object), {mark.casefold() for mark in marks}
        return column.mask([text.casefold() in folded for text in texts], None) if folded else column
    values = numbers.values
    if np.isnan(values).all() and not is_feature:
        return pd.Series([None] * len(texts), dtype=object)
    is_exact = numbers.is_integer and not np.isnan(values).any() and (np.abs(values) < 2**53).all()
    return values.astype(np.int64) if is_exact else values


def _names(spec: object) -> tuple[object, ...]:
    return () if spec is None else tuple(spec) if isinstance(spec, list | tuple) else (spec,)


def _check_wide_file(file: Delimited, columns: Sequence[int], names: Sequence[str]) -> None:
    """Refuses a file whose hours, days or times stand in ``columns`` of it; see ``check_wide_hours``."""
    texts = pd.DataFrame({i: file.columns[at] for i, at in enumerate(columns)}, dtype=object)
    texts.columns = pd.Index(names, dtype=object)
    how = "" if file.delimiter == "," else f", sep={chr(92) + 's+' if file.delimiter == ' ' else file.delimiter!r}"
    how += f", skiprows={file.names_line - 1}" if file.names_line > 1 else ""
    how += f", decimal={file.decimal!r}" if file.decimal != "." else ""
    try:
        read = f"pandas.read_csv({file.name!r}{how})"
        check_wide_hours(texts, read)
        check_wide_times(texts, read + ".filter(regex='^(?!Unnamed)')" * (len(columns) < len(file.header)))
    except DataError as error:
        raise DataError(f"{file.name}: {error}") from None
