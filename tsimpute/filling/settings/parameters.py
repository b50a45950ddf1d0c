"""Settings of an object as scikit-learn has them: stored as given, read and changed by name."""

from __future__ import annotations

import inspect
from typing import Any, Self

from tsimpute.errors import ConfigError


class Parameters:
    """Gives the arguments of a class's constructor, which it stores unchanged, as settings by name."""

    def __repr__(self) -> str:
        """The settings that are not the defaults."""
        defaults = {name: repr(default) for name, default in self.defaults().items()}
        texts = {name: repr(value) for name, value in self.get_params().items()}
        changed = ", ".join(f"{name}={text}" for name, text in texts.items() if text != defaults[name])
        return f"{type(self).__name__}({changed})"

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """The default of each setting."""
        return {name: of_one.default for name, of_one in inspect.signature(cls).parameters.items()}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name, as they were given; ``deep`` is not used, as no setting has settings of its own."""
        return {name: getattr(self, name) for name in self.defaults()}

    def set_params(self, **settings: Any) -> Self:
        """Changes settings.

        Raises:
            ConfigError: there is no such setting.
        """
        unknown = sorted(set(settings) - set(self.get_params()))
        if unknown:
            raise ConfigError(f"settings: expected some of {', '.join(self.get_params())}; came {unknown[0]!r}.")
        for name, value in settings.items():
            setattr(self, name, value)
        return self
