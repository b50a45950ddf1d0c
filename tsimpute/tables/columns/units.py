"""Units that a caller gives, of features by name or of all."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tsimpute.errors import ConfigError

ALL = "*"
"""All features that are not named."""


def unit_of(units: Mapping[str, str], name: str, known: str) -> str:
    """The unit given of a feature, else that of all, else the one known from the table."""
    return units.get(name, units.get(ALL, known))


def check_names(units: Mapping[str, str], names: Collection[str]) -> None:
    """Refuses units of what is no feature.

    Raises:
        ConfigError: there is one.
    """
    unknown = [name for name in units if name != ALL and name not in names]
    if unknown:
        some = ", ".join(list(names)[:20])
        raise ConfigError(f"units: expected features of the table ({some}), came {unknown[0]!r}.")


def with_known(known: Mapping[str, str], units: Mapping[str, str]) -> dict[str, str]:
    """Units known from the table, where none is given."""
    return dict(units) if ALL in units else {**known, **units}
