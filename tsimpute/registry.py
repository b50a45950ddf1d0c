"""Plug-ins found by their file name: one file in a folder is one data set, process, solver, backbone or imputer.

A plug-in module sets ``PLUGIN`` to its class. Files that start with an underscore, and the contract ``base.py``, are
not plug-ins. Listing names imports nothing.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any

from tsimpute.errors import ConfigError

_ROOT = Path(__file__).parent


def available(kind: str) -> list[str]:
    """Names of the plug-ins in the subpackage ``kind``, sorted."""
    modules = pkgutil.iter_modules([str(_ROOT / kind)])
    return sorted(
        m.name for m in modules if m.name != "base" and not m.name.startswith("_") and _is_plugin(kind, m.name)
    )


def plugin(kind: str, name: str) -> Any:
    """The class of one plug-in.

    Raises:
        ConfigError: there is none of that name; the message lists those there are.
    """
    if name not in available(kind):
        raise ConfigError(f"{kind}: expected one of {', '.join(available(kind))}; came {name!r}.")
    return importlib.import_module(f"tsimpute.{kind}.{name}").PLUGIN


def make(kind: str, name: str, **options: Any) -> Any:
    """An instance of one plug-in.

    Raises:
        ConfigError: unknown name, or an option that it does not have; the message lists those it has.
    """
    known = options_of(kind, name)
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ConfigError(f"{name}: unknown option {', '.join(unknown)}; it has {', '.join(known) or 'none'}.")
    return plugin(kind, name)(**options)


def options_of(kind: str, name: str) -> list[str]:
    """Names of the options that one plug-in has.

    Raises:
        ConfigError: there is none of that name.
    """
    cls = plugin(kind, name)
    return [] if cls.__init__ is object.__init__ else list(inspect.signature(cls).parameters)


def _is_plugin(kind: str, name: str) -> bool:
    return "\nPLUGIN = " in (_ROOT / kind / f"{name}.py").read_text(encoding="utf-8")
