"""Plug-ins by name: data sets, processes, solvers, backbones, imputers, mask policies, missingness mechanisms.

A name is one of four things:

- a file of a folder of the package (``"heun"``): one file is one plug-in, and sets ``PLUGIN`` to its class. A file of
  several small ones sets ``PLUGINS`` to their classes by name. Files that start with an underscore, and the contract
  ``base.py``, are not plug-ins;
- an import path, ``"package.module:Class"``;
- an entry point of an installed package, in the group ``tsimpute.backbones``, ``tsimpute.solvers``, ...;
- in Python also the class or an instance itself, see ``named``.

Listing names runs no module but files of several, and works where the package is imported from a zip or has no sources.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import tsimpute
from tsimpute.errors import CheckpointError, ConfigError

IMPUTER_KINDS = ("imputers", "peers")
_IMPUTER = ("fit", "impute", "save", "load")
CONTRACTS = {
    "backbones": ("forward", "condition_on", "bytes_per_row", "bytes_once"),
    "processes": ("sample_tau", "grid", "scales", "corrupt", "target", "predict"),
    "solvers": ("solve", "n_evaluations"),
    "imputers": _IMPUTER,
    "peers": _IMPUTER,
    "datasets": ("card", "load"),
    "mask_policies": (),
    "mechanisms": (),
}
"""By kind, what a class has to have, beside being callable where it has nothing else; what lacks it is never called."""


def available(kind: str) -> list[str]:
    """Names of the plug-ins of a kind: those of the package, sorted, then those of other installed packages."""
    return [*_files(kind), *(name for name in _entry_points(kind) if name not in _files(kind))]


def is_import_path(name: str) -> bool:
    """Whether a plug-in is named by where it is, as "package.module:Class"."""
    return ":" in name


def is_known(kind: str, name: str) -> bool:
    """Whether a name is one of ``available``, or an import path; what it points to is not looked at."""
    return is_import_path(name) or name in available(kind)


def plugin(kind: str, name: str) -> Any:
    """The class of one plug-in.

    Raises:
        ConfigError: there is none of that name, or it lacks what the contract of its kind asks for.
    """
    if is_import_path(name):
        return _checked(kind, name, imported(kind, name))
    if name in _files(kind):
        module = importlib.import_module(f"tsimpute.{kind}.{_files(kind)[name]}")
        return module.PLUGINS[name] if hasattr(module, "PLUGINS") else module.PLUGIN
    if name in _entry_points(kind):
        return _checked(kind, name, _entry_points(kind)[name].load())
    raise ConfigError(
        f"{kind}: expected one of {', '.join(available(kind))}, or an import path as package.module:Class; "
        f"came {name!r}."
    )


def make(kind: str, name: Any, **options: Any) -> Any:
    """An instance of one plug-in; an instance of another package's class is given back as it is.

    Raises:
        ConfigError: unknown name, or an option that it does not have; the message lists those it has.
    """
    if not isinstance(name, str):
        return _checked(kind, type(name).__name__, name)
    known = options_of(kind, name)
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ConfigError(f"{name}: unknown option {', '.join(unknown)}; it has {', '.join(known) or 'none'}.")
    return plugin(kind, name)(**options)


def make_imputer(name: str, options: Mapping[str, Any], seed: int) -> Any:
    """An imputer or peer by its name. ``seed`` is its own where it has such an option and is given none.

    Raises:
        ConfigError: see ``make``.
    """
    kind = next((kind for kind in IMPUTER_KINDS if is_known(kind, name)), IMPUTER_KINDS[0])
    seeded = {"seed": seed} if "seed" in options_of(kind, name) else {}
    return make(kind, name, **{**seeded, **options})


def options_of(kind: str, name: str) -> list[str]:
    """Names of the options that one plug-in has.

    Raises:
        ConfigError: there is none of that name.
    """
    return _options_of(plugin(kind, name))


def named(kind: str, given: Any) -> tuple[str, dict[str, Any]]:
    """The name and the options of a plug-in that is given as a name, a class or an instance.

    Options of an instance are its attributes of the names that its constructor takes, as in scikit-learn.

    Example:
        >>> from tsimpute.processes.flow_matching import FlowMatching
        >>> named("processes", FlowMatching("trigonometric"))
        ('flow_matching', {'path': 'trigonometric'})

    Raises:
        ConfigError: the class cannot be imported by its name, lacks the contract of its kind, or an instance does not
            keep an option as an attribute.
    """
    if isinstance(given, str):
        return given, {}
    is_class = inspect.isclass(given) or inspect.isfunction(given)
    cls = given if is_class else type(given)
    name = _name_of(kind, cls)
    _checked(kind, name, given)
    if is_class:
        return name, {}
    options = _options_of(cls)
    lacks = [option for option in options if not hasattr(given, option)]
    if lacks:
        raise ConfigError(
            f"{name}: expected each option as an attribute of the instance, it has no {', '.join(lacks)}. Set it in "
            "the constructor, or give the name and the options."
        )
    changed = {}
    for option in options:
        value, default = getattr(given, option), inspect.signature(cls).parameters[option].default
        if not (type(value) is type(default) and bool(value == default)):
            changed[option] = value
    return name, changed


def imported(kind: str, path: str) -> Any:
    """What an import path "package.module:Class" names.

    Raises:
        ConfigError: no such module, or nothing of that name in it.
    """
    module, _, names = path.partition(":")
    try:
        target: Any = importlib.import_module(module)
        for name in names.split("."):
            target = getattr(target, name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise ConfigError(f"{kind}: {path!r}: importing {module} failed: {error}.") from error
        folders = [os.path.abspath(place) for place in sys.path if not place.startswith((sys.prefix, sys.base_prefix))]
        places = ", ".join(dict.fromkeys(folders)) or "other folders"
        raise ConfigError(
            f"{kind}: {path!r}: there is no module {error.name}, neither among the installed packages nor in {places}. "
            "Install its package, or name its folder in PYTHONPATH."
        ) from error
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"{kind}: expected an import path as package.module:Class, came {path!r}; {error}."
        ) from error
    return target


def check_imported(name: str, where: str) -> None:
    """Refuses an import path out of a file whose module has not been imported: to read a file must run no code.

    Raises:
        CheckpointError: the module has not been imported.
    """
    module, colon, _ = name.partition(":")
    if colon and module not in sys.modules:
        raise CheckpointError(
            f"{where}: it was made with {name}, which is not imported. If you trust that package, import {module} "
            "first, then read the file again."
        )


def _checked(kind: str, name: str, target: Any) -> Any:
    needs = CONTRACTS[kind] or ("__call__",)
    lacks = [attribute for attribute in needs if not hasattr(target, attribute)]
    if lacks:
        raise ConfigError(
            f"{kind}: {name}: expected {', '.join(needs)} as its contract says, it has no {', '.join(lacks)}."
        )
    return target


def _name_of(kind: str, cls: Any) -> str:
    if cls.__module__.startswith(f"tsimpute.{kind}."):
        file = cls.__module__.rpartition(".")[2]
        names = [name for name, module in _files(kind).items() if module == file and plugin(kind, name) is cls]
        if names:
            return names[0]
    if "<locals>" in cls.__qualname__ or not hasattr(sys.modules.get(cls.__module__), cls.__qualname__.split(".")[0]):
        raise ConfigError(
            f"{kind}: expected a class at the top of a module, which can be found again by its name; came "
            f"{cls.__qualname__} of {cls.__module__}."
        )
    return f"{cls.__module__}:{cls.__qualname__}"


def _options_of(cls: Callable[..., Any]) -> list[str]:
    if inspect.isclass(cls) and cls.__init__ is object.__init__:
        return []
    return list(inspect.signature(cls).parameters)


@cache
def _entry_points(kind: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in sorted(entry_points(group=f"tsimpute.{kind}"), key=lambda one: one.name)}


@cache
def _files(kind: str) -> dict[str, str]:
    """Name of each plug-in of the package, sorted -> the file of the kind's folder that it is in."""
    modules = pkgutil.iter_modules([os.path.join(folder, kind) for folder in tsimpute.__path__])
    files: dict[str, str] = {}
    for module in modules:
        if module.name == "base" or module.name.startswith("_"):
            continue
        # The names in the compiled module's own code: to import all of a folder would load torch to name two.
        spec = module.module_finder.find_spec(module.name, None)
        loader: Any = None if spec is None else spec.loader
        variables = () if loader is None else loader.get_code(module.name).co_names
        if "PLUGIN" in variables:
            files[module.name] = module.name
        elif "PLUGINS" in variables:
            files |= dict.fromkeys(importlib.import_module(f"tsimpute.{kind}.{module.name}").PLUGINS, module.name)
    return dict(sorted(files.items()))
