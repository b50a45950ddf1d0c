"""Data sets by name: each is a file of this folder, found by its file name and imported when it is asked for."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

from tsimpute.datasets.base import Card, DatasetAdapter, Source
from tsimpute.errors import ConfigError

__all__ = ["Card", "DatasetAdapter", "Source", "available", "make"]

_NOT_A_DATASET = {"base", "fetching", "describing"}


def available() -> list[str]:
    """The names that ``make`` takes, sorted."""
    stems = {path.stem for path in Path(__file__).parent.glob("*.py")}
    return sorted(stem for stem in stems - _NOT_A_DATASET if not stem.startswith("_"))


def make(name: str, **options: Any) -> DatasetAdapter:
    """The adapter of a data set, with its options set.

    Raises:
        ConfigError: the name or an option is unknown (those that exist are listed), or an option's value is refused.
    """
    if name not in available():
        raise ConfigError(f"data set: expected one of {', '.join(available())}; came {name!r}.")
    adapter = import_module(f"tsimpute.datasets.{name}").PLUGIN
    known = [option.name for option in fields(adapter)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ConfigError(
            f"options of data set {name}: expected some of {', '.join(known)}; came {', '.join(unknown)}."
        )
    return adapter(**options)
