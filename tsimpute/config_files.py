"""Settings as YAML files and plain dictionaries, and the files that come with the package. Imports nothing heavy."""

from __future__ import annotations

import dataclasses
import os
from importlib import resources
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from tsimpute.config import RunConfig
from tsimpute.errors import ConfigError

T = TypeVar("T")


def shipped_configs() -> list[str]:
    """Names of the config files that come with the package."""
    folder = resources.files("tsimpute") / "configs"
    return sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml"))


def config_path(name: str) -> Path:
    """The file of a config: a path, or the name of a shipped one.

    Raises:
        ConfigError: neither exists.
    """
    if name in shipped_configs():
        return Path(str(resources.files("tsimpute") / "configs" / f"{name}.yaml"))
    if not Path(name).is_file():
        raise ConfigError(f"config: expected a file or one of {', '.join(shipped_configs())}; came {name!r}.")
    return Path(name)


def load_config(path: Path) -> RunConfig:
    """The settings in a YAML file.

    Raises:
        ConfigError: the file is no YAML, or a key or value is not as expected.
    """
    return from_dict(RunConfig, read_settings(path))


def read_settings(path: Path) -> dict[str, Any]:
    """The settings by name in a YAML file, not looked at yet.

    Raises:
        ConfigError: the file is no YAML, or holds something else.
    """
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: expected a YAML file of settings; {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected settings by name, came {type(values).__name__}.")
    return values


class _Loader(yaml.SafeLoader):
    """Refuses a name that is given twice: YAML would take the last one without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice and not getattr(node, "merged", False):
            raise yaml.constructor.ConstructorError(None, None, f"{twice[0]!r} is given twice", node.start_mark)
        return super().construct_mapping(node, deep)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        node.merged = True  # type: ignore[attr-defined]  # what was merged in stands before what takes its place


def to_dict(config: Any) -> dict[str, Any]:
    """Plain nested dictionaries and lists, as YAML and JSON know them."""
    return _plain(dataclasses.asdict(config))


def from_dict(cls: type[T], values: dict[str, Any], where: str = "") -> T:
    """A settings dataclass from nested dictionaries.

    Raises:
        ConfigError: an unknown key, or a value of the wrong kind; the message names it and says what is expected.
    """
    if not isinstance(values, dict):
        raise ConfigError(f"config: {where.rstrip('.') or 'file'}: expected settings by name, came {values!r}.")
    kinds = get_type_hints(cls)
    unknown = sorted(set(values) - set(kinds))
    if unknown:
        raise ConfigError(f"config: unknown key {where}{unknown[0]}; expected {', '.join(kinds)}.")
    made = {}
    for key, value in values.items():
        if dataclasses.is_dataclass(kinds[key]):
            made[key] = from_dict(kinds[key], value, f"{where}{key}.")
            continue
        made[key] = tuple(value) if isinstance(value, list) else value
        if not _is_a(kinds[key], made[key]):
            kind = getattr(kinds[key], "__name__", str(kinds[key])) if not get_args(kinds[key]) else str(kinds[key])
            hint = " Text: YAML reads a number such as 1e-3 only as 1.0e-3." if isinstance(value, str) else ""
            raise ConfigError(f"config: {where}{key}: expected {kind.replace('typing.', '')}, came {value!r}.{hint}")
    return cls(**made)


def save_config(config: RunConfig, path: Path) -> None:
    """Writes ``config`` as YAML."""
    partial = path.with_name(f".{path.name}.partial{os.getpid()}")
    partial.write_text(yaml.safe_dump(to_dict(config), sort_keys=False), encoding="utf-8")
    os.replace(partial, path)


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
