"""Data sets by name: each is a file of this folder, found by its file name and imported when it is asked for."""

from __future__ import annotations

from typing import Any

from tsimpute.config import registry
from tsimpute.datasets.base import Card, DatasetAdapter, Source

__all__ = ["Card", "DatasetAdapter", "Source", "available", "make"]


def available() -> list[str]:
    """The names that ``make`` takes, sorted."""
    return registry.available("datasets")


def make(name: str, **options: Any) -> DatasetAdapter:
    """The adapter of a data set, with its options set.

    Raises:
        ConfigError: the name or an option is unknown (those that exist are listed), or an option's value is refused.
    """
    return registry.make("datasets", name, **options)
