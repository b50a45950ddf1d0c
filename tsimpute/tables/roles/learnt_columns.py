"""A table read as the one that a model was fitted to: columns of the same names are the same things."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

from tsimpute.tables.roles.columns import Columns, Told
from tsimpute.tables.roles.roles import Roles

_SEVERAL = ("time", "group", "features", "text")


def told_by(columns: Columns, roles: Roles) -> Told:
    """What a table was understood to be, as a caller would say it; ``text`` are all columns that are passed through."""

    def named(at: Iterable[int]) -> tuple[Hashable, ...]:
        return tuple(columns.names[i] for i in at)

    one = [None if at is None else columns.names[at] for at in (roles.feature, roles.value, roles.unit)]
    features = named(roles.features) if roles.layout == "wide" else None
    return Told(named(roles.time), named(roles.group), features, *one, text=named(roles.extra))


def as_learnt(told: Told, names: Sequence[Hashable]) -> Told:
    """What a caller says of a table, and for the rest what was learnt, where its columns are there.

    The columns to fill are taken from what was learnt only where the table has no column that is new: a new one may be
    a feature, and is found and refused as such.

    Args:
        names: of all columns of the table.
    """
    learnt = told.learnt
    if learnt is None:
        return told
    taken = {name for role in fields(Told) if role.name not in ("learnt", "known") for name in _names(told, role.name)}
    known = {
        name for role in fields(Told) if role.name not in ("learnt", "known") for name in _names(learnt, role.name)
    }
    is_new = any(name not in known for name in names)

    def holds(role: str) -> bool:
        own = _names(learnt, role)
        return bool(own) and all(list(names).count(name) == 1 and name not in taken for name in own)

    changes: dict[str, Any] = {
        role: getattr(learnt, role) for role in ("time", "group") if getattr(told, role) is None and holds(role)
    }
    says_features = any(getattr(told, role) is not None for role in ("features", "feature", "value"))
    if not says_features and learnt.features is not None and not is_new and holds("features"):
        changes["features"] = tuple(name for name in names if name in learnt.features)
    if not says_features and learnt.features is None and holds("feature") and holds("value"):
        changes |= {"feature": learnt.feature, "value": learnt.value}
        changes |= {"unit": learnt.unit} if told.unit is None and holds("unit") else {}
    return replace(told, **changes, learnt=None)


def _names(told: Told, role: str) -> tuple[Hashable, ...]:
    found = getattr(told, role)
    if found is None:
        return ()
    return tuple(found) if role in _SEVERAL else (found,)
