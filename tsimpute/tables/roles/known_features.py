"""The features that a model knows, under the names that a table gives them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from tsimpute.errors import ConfigError, DataError
from tsimpute.tables.columns.time_names import plain
from tsimpute.tables.text.numbers import split_unit

FEWEST = 3
"""Features of a model that a table must have, where the model has so many: of fewer it cannot say much."""
_SHOWN = 12


@dataclass(frozen=True)
class KnownFeatures:
    """Names of a model's features, and how a table's names are brought to them.

    Attributes:
        names: of the model's features.
        rename: from names of the table to names of the model.
        descriptors: names of what describes a record and is passed through.
        step: of the model, in hours.
    """

    names: tuple[str, ...]
    rename: Mapping[str, str] = field(default_factory=dict)
    descriptors: tuple[str, ...] = ()
    step: float = 1.0

    def of(self, names: Sequence[object]) -> dict[str, str]:
        """From names of a table to those of the model, of those that it knows.

        A name is renamed as ``rename`` gives it. Else it is one of the model's, with or without a unit in brackets;
        case and signs do not matter where no other name is written so.

        Raises:
            ConfigError: the new name of a renamed feature is none of the model's.
            DataError: two names of the table would be one feature.
        """
        self._check_targets()
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

    def _check_targets(self) -> None:
        unknown = [name for name in self.rename.values() if name not in self.names]
        if unknown:
            raise ConfigError(
                f"rename: expected names of the model's features ({', '.join(self.names)}), came {unknown[0]!r}. Give "
                'them as rename={"HeartRate": "HR"} (--rename "HeartRate=HR").'
            )

    def check(self, names: Sequence[object], names_of_model: Mapping[str, str]) -> None:
        """Refuses a table that has hardly any of the features, or lacks one that is to be renamed.

        Args:
            names: of the table.
            found: as of ``of``.

        Raises:
            ConfigError, DataError: the table is refused.
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

        Args:
            found: as of ``of``.
            others: names that the model does not know, with their rows (0 = they are not counted).
            wide: the names are columns.
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
    """Refuses two names of a table for one feature."""
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
