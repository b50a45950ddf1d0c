"""The limits of features: given by the user as texts or numbers, or by the data set of a model."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from tsimpute.config.registry import available, plugin
from tsimpute.core.limits import Limits
from tsimpute.errors import ConfigError
from tsimpute.filling.preparing.model_rules import ModelRules


def limits_for(
    limits: Mapping[str, Limits] | str, names: Sequence[str], rules: ModelRules | None
) -> Mapping[str, Limits]:
    """The limits of a table's features: those given, else those of the data set of a given model.

    Args:
        limits: by feature, or a text as of ``read_limits``.
        names: of the table's features.
    """
    limits = read_limits(limits, names) if isinstance(limits, str) else limits
    if rules is None or not rules.limits:
        return limits
    model_names = rules.known.of(names)
    return {name: rules.limits[model_names[name]] for name in names if model_names.get(name) in rules.limits} | dict(
        limits
    )


def parse_limits(text: str) -> dict[str, Limits]:
    """Limits from ``NAME=LOW:HIGH`` or ``NAME=LOW:HIGH:int``, parted by commas; a bound that is left out is none.

    "PM2.5=0:,RH=0:100,steps=0::int,*=:" bounds PM2.5 from below, RH on both sides, makes steps whole numbers from 0
    on, and leaves all others free. Blank text gives none.

    Raises:
        ConfigError: a part is none of these, names a feature twice, or gives no possible limits.
    """
    limits: dict[str, Limits] = {}
    for part in text.split(",") if text.strip() else ():
        fit = re.fullmatch(r"(?P<name>.+)=(?P<low>[^:=]*):(?P<high>[^:=]*)(?P<integer>:\s*int\s*)?", part.strip())
        if not fit or not (name := fit["name"].strip()):
            raise ConfigError(_expected(part))
        if name in limits:
            raise ConfigError(f"limits: expected each feature once, {name!r} comes twice.")
        try:
            low, high = (float(side) if side.strip() else None for side in (fit["low"], fit["high"]))
            limits[name] = Limits(low, high, integer=fit["integer"] is not None)
        except ValueError as error:  # a ConfigError is one too
            raise ConfigError(_expected(part) + f" ({error})") from error
    return limits


def read_limits(text: str, features: Collection[str]) -> dict[str, Limits]:
    """Limits as ``parse_limits`` reads them, or those that a data set's card gives to features of these names.

    Args:
        text: parts as of ``parse_limits``, or the name of a data set, such as physionet2012. What a card says of
            features that are not here is left out; its "*" holds for all others.

    Raises:
        ConfigError: it is neither, or the card says nothing of any of the features.
    """
    name = text.strip()
    if not name or "=" in name:
        return parse_limits(text)
    cards = {data_set: plugin("datasets", data_set).card.limits for data_set in available("datasets")}
    known = [data_set for data_set, limits in cards.items() if limits]
    if name not in known:
        raise ConfigError(_expected(name)[:-1] + f". A data set's name stands for its limits: {', '.join(known)}.")
    known_here = {feature: limits for feature, limits in cards[name].items() if feature in features or feature == "*"}
    if not known_here:
        raise ConfigError(
            f"limits: expected features that {name} has limits for ({', '.join(cards[name])}), came "
            f"{', '.join(map(str, features))}. Rename them, or give limits as NAME=LOW:HIGH."
        )
    return known_here


def _expected(part: str) -> str:
    return f"limits: expected NAME=LOW:HIGH or NAME=LOW:HIGH:int, such as PM2.5=0: or RH=0:100; came {part.strip()!r}."
