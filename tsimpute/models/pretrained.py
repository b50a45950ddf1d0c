"""Trained models that come with the package, by name, each with a card of what it is and is not for."""

from __future__ import annotations

from pathlib import Path

from tsimpute.errors import ConfigError
from tsimpute.system.places import packaged, packaged_names


def names() -> list[str]:
    """The models that come with the package."""
    return packaged_names(".safetensors", "models")


def model_path(model: str | Path) -> Path:
    """The file of a model: a path, or the name of one that comes with the package.

    Raises:
        ConfigError: neither exists.
    """
    if str(model) in names():
        return packaged("models", f"{model}.safetensors")
    if not Path(model).is_file():
        raise ConfigError(f"model: expected a file or one of {', '.join(names())}; came {str(model)!r}.")
    return Path(model)


def card(name: str) -> str:
    """What the model learnt from, how good it is and what it is not for; Markdown.

    Raises:
        ConfigError: no model of that name comes with the package.
    """
    if name not in names():
        raise ConfigError(f"model: expected one of {', '.join(names())}; came {name!r}.")
    return packaged("models", f"{name}.md").read_text(encoding="utf-8")
