"""Imputers, one file each, found by its name; files that start with ``_`` are shared."""

from __future__ import annotations

from typing import Any

from tsimpute.config import registry
from tsimpute.imputers.base import Imputer


def available() -> list[str]:
    """The names of all imputers, in alphabetical order."""
    return registry.available("imputers")


def make(name: str, **settings: Any) -> Imputer:
    """The imputer ``name``, not yet fitted, with ``settings`` as its constructor takes them.

    Raises:
        ConfigError: no imputer has that name, or the imputer has no such setting.
    """
    return registry.make("imputers", name, **settings)
