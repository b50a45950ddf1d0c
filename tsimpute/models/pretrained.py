"""Bundled models by name, each with a card that states its purpose and limits."""

from __future__ import annotations

from pathlib import Path

from tsimpute.errors import ConfigError
from tsimpute.system.files import packaged, packaged_names


def names() -> list[str]:
    """Names of the bundled models."""
    return packaged_names(".safetensors", "models")


def model_path(model: str | Path) -> Path:
    """The file of a model: a path, or the name of a bundled one.

    Raises:
        ConfigError: neither exists.
    """
    if str(model) in names():
        return packaged("models", f"{model}.safetensors")
    if not Path(model).is_file():
        raise ConfigError(f"model: expected a file or one of {', '.join(names())}; came {str(model)!r}.")
    return Path(model)


def card(name: str) -> str:
    """The model's card: training data, accuracy and limits; Markdown.

    Raises:
        ConfigError: no bundled model has that name.
    """
    if name not in names():
        raise ConfigError(f"model: expected one of {', '.join(names())}; came {name!r}.")
    return packaged("models", f"{name}.md").read_text(encoding="utf-8")
