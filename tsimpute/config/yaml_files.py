"""Settings as YAML files and plain dictionaries, and the files that come with the package. Imports nothing heavy."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

import yaml

from tsimpute.config.settings import RunConfig, types_of
from tsimpute.errors import ConfigError
from tsimpute.system.files import atomic_write_text, packaged, packaged_names

T = TypeVar("T")


def shipped_configs() -> list[str]:
    """Names of the config files that come with the package."""
    return packaged_names(".yaml", "config", "shipped")


def config_path(name: str) -> Path:
    """The file of a config: a path, or the name of a shipped one.

    Raises:
        ConfigError: neither exists.
    """
    if name in shipped_configs():
        return packaged("config", "shipped", f"{name}.yaml")
    if not Path(name).is_file():
        raise ConfigError(f"config: expected a file or one of {', '.join(shipped_configs())}; came {name!r}.")
    return Path(name)


def load_config(path: Path) -> RunConfig:
    """The settings in a YAML file.

    Raises:
        ConfigError: the file is no YAML, or a key or value is not as expected.
    """
    return from_dict(RunConfig, read_settings(path), source=str(path))


def read_settings(path: Path) -> dict[str, Any]:
    """The settings by name in a YAML file, not looked at yet.

    Raises:
        ConfigError: the file is no YAML, or holds something else.
    """
    try:
        values = load_yaml(path.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f", line {error.problem_mark.line + 1}"
        raise ConfigError(f"{path}{line}: expected a YAML file of settings; {error.problem}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: expected a YAML file of settings; {' '.join(str(error).split())}.") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected settings by name, came {type(values).__name__}.")
    return values


def load_yaml(text: str) -> Any:
    """What a YAML text says; the one reader of all settings, in files and on the command line.

    Example:
        >>> load_yaml("{rate: 1e-3, day: 2020-01-01}")
        {'rate': 0.001, 'day': '2020-01-01'}

    Raises:
        yaml.YAMLError: the text is no YAML, or a name is given twice.
    """
    return yaml.load(text, _Loader)


_NUMBERS = {
    "tag:yaml.org,2002:int": r"[-+]?(0|[1-9][0-9]*)$",
    "tag:yaml.org,2002:float": r"[-+]?((\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+|\.inf)$"
    r"|\.nan$",
}
_OTHERS = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:null", "tag:yaml.org,2002:merge")
_RESOLVERS = {
    first: [one for one in resolvers if one[0] in _OTHERS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _tag, _pattern in _NUMBERS.items():
    for _first in "-+.0123456789":
        _RESOLVERS.setdefault(_first, []).append((_tag, re.compile(_pattern)))


class _Dumper(yaml.SafeDumper):
    """Puts in quotes what ``_Loader`` would not read as text."""

    yaml_implicit_resolvers: ClassVar = _RESOLVERS


class _Loader(yaml.SafeLoader):
    """YAML in which numbers are decimal and dates are text; a name that is given twice is refused.

    PyYAML follows YAML 1.1, in which 1e-3 is a text, 010 is 8, 12:30 is 750 and the last of two values counts.
    """

    yaml_implicit_resolvers: ClassVar = _RESOLVERS

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice and not getattr(node, "merged", False):
            second = [key for key, _ in node.value if key.value == twice[0]][1]
            raise yaml.constructor.ConstructorError(
                None, None, f"{twice[0]!r} is given twice; keep one of them", second.start_mark
            )
        return super().construct_mapping(node, deep)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        node.merged = True  # type: ignore[attr-defined]  # what was merged in stands before what takes its place


def to_dict(config: Any) -> dict[str, Any]:
    """Plain nested dictionaries and lists, as YAML and JSON know them."""
    return _plain(dataclasses.asdict(config))


def differences(one: Any, other: Any, place: str, other_place: str) -> str:
    """The settings in which two of a kind differ, for messages; an option that only one of them sets is the default.

    Example:
        >>> from tsimpute.config.settings import NetworkConfig
        >>> wide = NetworkConfig(options={"width": 64, "n_heads": 2})
        >>> differences(NetworkConfig(options={"n_heads": 2}), wide, "here", "there")
        'width is the default here and 64 there'
    """
    first, second = (plain.pop("options", {}) | plain for plain in (to_dict(one), to_dict(other)))
    return "; ".join(
        f"{name} is {first.get(name, 'the default')} {place} and {second.get(name, 'the default')} {other_place}"
        for name in first | second
        if name not in first or name not in second or first[name] != second[name]
    )


def from_dict(cls: type[T], values: dict[str, Any], where: str = "", source: str = "config") -> T:
    """A settings dataclass from nested dictionaries; ``where`` and ``source`` say in messages where they stand.

    Raises:
        ConfigError: an unknown key, one that is not there, or a value of the wrong kind; the message names it.
    """
    arguments = _arguments(cls, values, where, source)
    for one in dataclasses.fields(cls):  # type: ignore[arg-type]
        if one.default is one.default_factory is dataclasses.MISSING and one.name not in arguments:
            raise ConfigError(f"{source}: {where}{one.name}: expected a value, came none.")
    kinds = types_of(cls)
    for key, value in arguments.items():
        if dataclasses.is_dataclass(kinds[key]):
            arguments[key] = from_dict(kinds[key], value, f"{where}{key}.", source)
    return cls(**arguments)


def with_settings(config: RunConfig, settings: Mapping[str, Any]) -> RunConfig:
    """A config with other values, as ``{"training.epochs": 40, "training": {"batch_size": 8}}``.

    Raises:
        ConfigError: an unknown key, or a value of the wrong kind.
    """
    values = to_dict(config)
    for path, value in settings.items():
        *parents, last = path.split(".")
        node = values
        for name in parents:
            node = node.setdefault(name, {})
            if not isinstance(node, dict):
                raise ConfigError(f"settings: {path}: {name} is one value and holds no others.")
        before = node.get(last)
        node[last] = before | value if isinstance(before, dict) and isinstance(value, dict) else value
    return from_dict(RunConfig, values)


def check_config(path: Path) -> None:
    """Refuses the keys and values that ``load_config`` refuses; which values go together is not looked at.

    Raises:
        ConfigError: as ``load_config``.
    """
    _arguments(RunConfig, read_settings(path), "", str(path))


def _arguments(cls: type, values: Any, where: str, source: str) -> dict[str, Any]:
    """The checked arguments of a dataclass, those of other dataclasses in it as dictionaries."""
    if not isinstance(values, dict):
        raise ConfigError(f"{source}: {where.rstrip('.') or 'file'}: expected settings by name, came {values!r}.")
    kinds = types_of(cls)
    unknown = sorted(set(map(str, values)) - set(kinds))
    if unknown:
        raise ConfigError(f"{source}: unknown key {where}{unknown[0]}; expected {', '.join(kinds)}.")
    arguments = {}
    for key, value in values.items():
        kind, value = kinds[key], tuple(value) if isinstance(value, list) else value
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            value = _arguments(kind, value, f"{where}{key}.", source)
        elif not _is_a(kind, value):
            expected = str(kind) if get_args(kind) else getattr(kind, "__name__", str(kind))
            raise ConfigError(f"{source}: {where}{key}: expected {expected.replace('typing.', '')}, came {value!r}.")
        arguments[key] = value
    return arguments


def save_config(config: RunConfig, path: Path) -> None:
    """Writes ``config`` as YAML."""
    atomic_write_text(path, yaml.dump(to_dict(config), Dumper=_Dumper, sort_keys=False))


def _is_a(kind: Any, value: Any) -> bool:
    """Whether ``value`` is of an annotated type of this module."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (UnionType, Union):
        return any(_is_a(arg, value) for arg in args)
    if origin is Literal:
        return value in args
    if origin is tuple:
        return isinstance(value, tuple) and all(_is_a(args[0], one) for one in value)
    if kind in (int, float):
        return isinstance(value, int | kind) and not isinstance(value, bool)
    return isinstance(value, origin or kind)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value
