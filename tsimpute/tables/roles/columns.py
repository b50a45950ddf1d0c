"""The columns of a table, and what is said of them: by a caller, and by the features that a model knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.columns.column_names import value_rank
from tsimpute.tables.columns.time_names import plain
from tsimpute.tables.text.numbers import split_unit
from tsimpute.tables.text.row_errors import RowError

FEWEST = 3  # Features of a model that a table must have, where the model has so many: of fewer it cannot say much
_SHOWN = 12
ALL = "*"  # All features that are not named
_SEVERAL = ("time", "group", "features", "text")
_ROLES = (*_SEVERAL, "feature", "value", "unit")


@dataclass(frozen=True)
class KnownFeatures:
    """Names of a model's features, and how a table's names are brought to them."""

    names: tuple[str, ...]  # of the model's features
    rename: Mapping[str, str] = field(default_factory=dict)  # from names of the table to names of the model
    descriptors: tuple[str, ...] = ()  # names of what describes a record and is passed through
    step: float = 1.0  # of the model, in hours

    def of(self, names: Sequence[object]) -> dict[str, str]:
        """From names of a table to those of the model, of those that it knows.

        A name is renamed as ``rename`` gives it. Else it is one of the model's, with or without a unit in brackets;
        case and signs do not matter where no other name is written so. A new name that is none of the model's is
        refused with a ``ConfigError``, two names for one feature with a ``DataError``.
        """
        if unknown := [name for name in self.rename.values() if name not in self.names]:
            raise ConfigError(
                f"rename: expected names of the model's features ({', '.join(self.names)}), came {unknown[0]!r}. Give "
                'them as rename={"HeartRate": "HR"} (--rename "HeartRate=HR").'
            )
        texts = [str(name) for name in names]
        names_of_model = {text: self.rename[text] for text in texts if text in self.rename}
        for text in texts:
            if text not in names_of_model and text in self.names:
                names_of_model[text] = text
        taken = list(names_of_model.values())
        _check_once(names_of_model)
        for bring in (lambda text: split_unit(text)[0].strip(), lambda text: plain(split_unit(text)[0])):
            by_form = {bring(name): name for name in self.names}
            candidates = {text: by_form.get(bring(text)) for text in texts if text not in names_of_model}
            new = {text: name for text, name in candidates.items() if name is not None and name not in taken}
            _check_once(new)
            names_of_model |= new
            taken += new.values()
        return {text: names_of_model[text] for text in texts if text in names_of_model}

    def check(self, names: Sequence[object], names_of_model: Mapping[str, str]) -> None:
        """Refuses a table that has hardly any of the features, or lacks one that is to be renamed.

        ``names`` are of the table, ``names_of_model`` as of ``of``.
        """
        texts = [str(name) for name in names]
        lacking = [name for name in self.rename if name not in texts]
        if lacking:
            raise ConfigError(f"rename: expected names of the table ({_some(texts)}), came {lacking[0]!r}.")
        if len(names_of_model) >= min(FEWEST, len(self.names)):
            return
        which = f"only {', '.join(names_of_model)}" if names_of_model else "none of them"
        others = [text for text in texts if text not in names_of_model]
        raise DataError(
            f"features: expected at least {min(FEWEST, len(self.names))} of the model's {len(self.names)} "
            f"({', '.join(self.names)}); the table has {which}, beside {_some(others)}. Name the features of other "
            f'names: --rename "{others[0] if others else "NAME"}={self.names[0]}" (rename), or fit on the table itself '
            "(no model)."
        )

    def are_names(self, content: Any) -> bool:
        """Whether a column holds names of features."""
        kind = getattr(content, "dtype", None)
        are_texts = pd.api.types.is_object_dtype(kind) or isinstance(kind, pd.CategoricalDtype | pd.StringDtype)
        if not are_texts and not (self.rename and pd.api.types.is_integer_dtype(kind)):
            return False
        names = [str(name) for name in pd.unique(np.asarray(content, object)) if not pd.isna(name)]
        known = set(self.names) | set(self.rename)
        return len(known.intersection(names)) >= min(FEWEST, len(self.names))

    def notes(self, names_of_model: Mapping[str, str], others: Mapping[str, int] | None, wide: bool) -> tuple[str, ...]:
        """Notes on the names of a table.

        ``names_of_model`` as of ``of``; ``others`` are names that the model does not know, with their rows (0 = they
        are not counted); ``wide``: the names are columns.
        """
        renamed = [f"{name} = {model_name}" for name, model_name in names_of_model.items() if name != model_name]
        notes = [f"features by other names: {', '.join(renamed)}"] * bool(renamed)
        absent = [name for name in self.names if name not in names_of_model.values()]
        if absent:
            what = "no column is added for them" if wide else "no row is added for them"
            notes.append(f"features of the model that the table lacks count as missing; {what}: {', '.join(absent)}")
        plain_others = {name: n for name, n in (others or {}).items() if name not in self.descriptors}
        described = [name for name in others or {} if name in self.descriptors]
        if described:
            notes.append(f"descriptors of the record, passed through unchanged: {', '.join(described)}")
        if plain_others:
            texts = [f"{name} ({n:,} rows)" if n else name for name, n in plain_others.items()]
            hint = next(iter(plain_others))
            notes.append(
                f"not known to the model, passed through unchanged: {_some(texts)}; if {hint} is one of the model's "
                f'features, map it with --rename "{hint}=NAME"'
            )
        return tuple(notes)


def _check_once(names_of_model: Mapping[str, str]) -> None:
    double = [name for name, count in Counter(names_of_model.values()).items() if count > 1]
    if double:
        names = [text for text, name in names_of_model.items() if name == double[0]]
        raise DataError(
            f"features: expected one name for {double[0]}, came {' and '.join(names)}. Take one of them out of the "
            "table, or give it a name of its own."
        )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) or "nothing else") + more


@dataclass(frozen=True)
class ColumnSpec:
    """What a caller says of the columns; None = to be detected.

    Attributes:
        time: one column, or date and time of day; () = there is none, rows are steps.
        group: columns that tell series apart; () = there is one.
        features: the columns to fill, of a wide table.
        feature, value, unit: of a long table, the columns of names, values and units.
        text: columns that are passed through unchanged, whatever they hold.
        categories: columns that are filled with one of their categories, each with the categories that a model
            knows, or none.
        learnt: of the table that a model was fitted to; see ``with_learnt``.
        known: the features of a model that is to fill the table; all others are passed through unchanged.
    """

    time: Sequence[Hashable] | None = None
    group: Sequence[Hashable] | None = None
    features: Sequence[Hashable] | None = None
    feature: Hashable | None = None
    value: Hashable | None = None
    unit: Hashable | None = None
    text: Sequence[Hashable] | None = None
    categories: Mapping[Hashable, Sequence[object]] = field(default_factory=dict)
    learnt: ColumnSpec | None = None
    known: KnownFeatures | None = None

    def with_known(self, columns: Sequence[Hashable], contents: Sequence[Any]) -> ColumnSpec:
        """What is said of the columns, with the features of a wide table, or a long one's names and values, named.

        ``columns`` are their names, ``contents`` what each holds.
        """
        known = self.known
        if known is None or self.features is not None or self.feature is not None or self.value is not None:
            return self
        taken = {str(name) for of_role in (self.time, self.group, self.text) for name in of_role or ()}
        names = [name for name in columns if str(name) not in taken]
        names_of_model = known.of([name for name in names if name is not None])
        features = [name for name in names if str(name) in names_of_model]
        if len(features) >= min(FEWEST, len(known.names)):
            known.check([name for name in columns if name is not None], names_of_model)
            return replace(self, features=tuple(features))
        holds = [at for at, name in enumerate(columns) if name in names and known.are_names(contents[at])]
        ranks = {name: value_rank(name) for name in names}
        least = min((rank for rank in ranks.values() if rank is not None), default=None)
        values = [name for name, rank in ranks.items() if rank is not None and rank == least]
        if len(holds) == 1 and len(values) == 1 and values[0] != columns[holds[0]]:
            return replace(self, feature=columns[holds[0]], value=values[0])
        return self

    def names_in(self, role: str) -> tuple[Hashable, ...]:
        names = getattr(self, role)
        return () if names is None else tuple(names) if role in _SEVERAL else (names,)

    def with_learnt(self, names: Sequence[Hashable]) -> ColumnSpec:
        """What a caller says of a table, and for the rest what was learnt, as far as the table has its columns.

        The columns to fill are taken from what was learnt only where the table (``names`` of all columns) has no column
        that is new: a new one may be a feature, and is detected and refused as such.

        Raises:
            ConfigError: a column is to be filled with categories and the model has not learnt it so.
        """
        learnt = self.learnt
        if learnt is None:
            return self
        if other := [name for name in self.categories if name not in learnt.categories]:
            raise ConfigError(
                "categories: expected columns that the model has learnt to fill with categories "
                f"({', '.join(map(str, learnt.categories)) or 'it has none'}), came {other[0]!r}. Correct the name or "
                "leave it out; to fill other columns, fit on the table itself (no model)."
            )
        taken = {name for role in _ROLES for name in self.names_in(role)}
        is_new = not {name for role in _ROLES for name in learnt.names_in(role)}.issuperset(names)

        def has(role: str) -> bool:
            known = learnt.names_in(role)
            return bool(known) and all(list(names).count(name) == 1 and name not in taken for name in known)

        changes: dict[str, Any] = {
            role: getattr(learnt, role) for role in ("time", "group") if getattr(self, role) is None and has(role)
        }
        if learnt.categories and all(name in names for name in learnt.categories):
            changes["categories"] = learnt.categories
        if self.features is None and self.feature is None and self.value is None:
            if learnt.features is not None and not is_new and has("features"):
                changes["features"] = tuple(name for name in names if name in learnt.features)
            if learnt.features is None and has("feature") and has("value"):
                changes |= {"feature": learnt.feature, "value": learnt.value}
                changes |= {"unit": learnt.unit} if self.unit is None and has("unit") else {}
        return replace(self, **changes, learnt=None)


class Columns:
    """Index levels and columns of a frame as one list."""

    def __init__(self, frame: pd.DataFrame) -> None:
        index = frame.index
        plain = isinstance(index, pd.RangeIndex) and index.name is None
        levels = [] if plain else [index.get_level_values(i) for i in range(index.nlevels)]
        self.names: list[Hashable] = [level.name for level in levels] + list(frame.columns)
        self.n_levels = len(levels)
        self._levels, self._frame = levels, frame
        self._codes: dict[int, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, at: int) -> pd.Series | pd.Index:
        return self._levels[at] if at < self.n_levels else self._frame.iloc[:, at - self.n_levels]

    def codes(self, at: int) -> np.ndarray:
        """(R,) what a column holds as whole numbers, in the order in which they first come, -1 = nothing or blank."""
        if at not in self._codes:
            codes, items = pd.factorize(np.asarray(self[at], object))
            blank = np.array([isinstance(item, str) and not item.strip() for item in items], bool)
            number = np.append(np.where(blank, -1, np.cumsum(~blank) - 1), -1)
            self._codes[at] = number[codes]
        return self._codes[at]

    def table_of(self, at: Sequence[int]) -> pd.DataFrame:
        return pd.DataFrame({i: self.codes(column) for i, column in enumerate(at)})

    def together(self, at: Sequence[int]) -> np.ndarray:
        """(R,) one number for each combination of what rows hold in some columns."""
        return pd.MultiIndex.from_arrays([self.codes(i) for i in at]).factorize()[0]

    def repeats(self, at: Sequence[int]) -> np.ndarray:
        """(R,) bool: rows that hold in some columns what an earlier row holds."""
        return self.table_of(at).duplicated().to_numpy()

    def find(self, name: Hashable, role: str) -> int:
        """The place of the column of that name; a ``ConfigError`` where there is none, or there are several."""
        at = [i for i, other in enumerate(self.names) if other == name]
        if len(at) != 1:
            listed = ", ".join(str(n) for n in self.names if n is not None)
            raise ConfigError(
                f"{role}: expected one column {name!r}, found {len(at)}; the table has {listed or 'none'}."
            )
        return at[0]


@dataclass(frozen=True)
class Roles:
    """Columns by their place: index levels first, as 0, 1, ..., then the columns of the table.

    Attributes: as of ``ColumnSpec``; ``extra`` are passed through unchanged; ``notes`` say what is not plain to see;
    ``unfillable`` are columns of ``extra`` with gaps that look like numbers, each with the reason why it stays empty.
    """

    layout: Literal["wide", "long"]
    time: tuple[int, ...]
    group: tuple[int, ...]
    features: tuple[int, ...]
    feature: int | None
    value: int | None
    unit: int | None
    extra: tuple[int, ...]
    notes: tuple[str, ...] = ()
    unfillable: tuple[tuple[str, RowError], ...] = ()

    def spec(self, columns: Columns) -> ColumnSpec:
        """The roles as a caller would give them; ``text`` are all columns that are passed through."""
        named = lambda at: tuple(columns.names[i] for i in at)
        one = [None if at is None else columns.names[at] for at in (self.feature, self.value, self.unit)]
        features = named(self.features) if self.layout == "wide" else None
        return ColumnSpec(named(self.time), named(self.group), features, *one, text=named(self.extra))


def unit_of(units: Mapping[str, str], name: str, known: str) -> str:
    """The unit given of a feature, else that of all, else the one known from the table."""
    return units.get(name, units.get(ALL, known))


def check_units(units: Mapping[str, str], names: Collection[str]) -> None:
    """Refuses units of what is no feature with a ``ConfigError``."""
    unknown = [name for name in units if name != ALL and name not in names]
    if unknown:
        some = ", ".join(list(names)[:20])
        raise ConfigError(f"units: expected features of the table ({some}), came {unknown[0]!r}.")
