"""Plug-ins found by their file name: one file in a folder is one data set, process, solver, backbone or imputer.

A plug-in module sets ``PLUGIN`` to its class. Files that start with an underscore, and the contract ``base.py``, are
not plug-ins. Listing names runs no module, and works where the package is imported from a zip or has no sources.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
from functools import cache
from typing import Any

import tsimpute
from tsimpute.errors import ConfigError


def available(kind: str) -> list[str]:
    """Names of the plug-ins in the subpackage ``kind``, sorted."""
    return list(_available(kind))


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


@cache
def _available(kind: str) -> tuple[str, ...]:
    modules = pkgutil.iter_modules([os.path.join(folder, kind) for folder in tsimpute.__path__])
    named = [module for module in modules if module.name != "base" and not module.name.startswith("_")]
    return tuple(sorted(module.name for module in named if _sets_plugin(module)))


def _sets_plugin(module: pkgutil.ModuleInfo) -> bool:
    """Whether the compiled module sets ``PLUGIN``: to import all of a folder would load torch to name two."""
    spec = module.module_finder.find_spec(module.name, None)
    loader: Any = None if spec is None else spec.loader
    return loader is not None and "PLUGIN" in loader.get_code(module.name).co_names
