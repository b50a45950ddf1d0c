"""All laws of one kind, checked on one plug-in."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tsimpute.config import registry
from tsimpute.errors import ConfigError, ContractError
from tsimpute.testing._laws import Case, DoesNotApply, Law

_MODULES = {"peers": "imputers"} | {
    kind: kind for kind in ("solvers", "processes", "backbones", "imputers", "datasets")
}
"""By kind, the module with its laws."""


def laws(kind: str) -> dict[str, Law]:
    """The laws of a kind of plug-in, by their names.

    Raises:
        ConfigError: there are none of that kind.
    """
    return dict(_module(kind).LAWS.by_name)


def cases(kind: str) -> list[Case]:
    """Each law of a kind with each size or partner that it is checked with: what a test may be parametrised over.

    Raises:
        ConfigError: there are none of that kind.
    """
    return [case for law in laws(kind).values() for case in law.cases()]


def subject(kind: str, plug: Any, options: Mapping[str, Any] | None = None, **of_kind: Any) -> Any:
    """What the laws of a kind take; the arguments are those of ``check_plugin``.

    Raises:
        ConfigError: no such plug-in or option, or no laws of that kind.
    """
    name, saved = registry.named(kind, plug)
    return _module(kind).subject(partial(registry.make, kind, name, **saved | dict(options or {})), **of_kind)


def check_plugin(
    kind: str,
    plug: Any,
    options: Mapping[str, Any] | None = None,
    *,
    report: Callable[[str], object] | None = None,
    **of_kind: Any,
) -> None:
    """Checks all laws of a kind on one plug-in.

    Args:
        kind: "solvers", "processes", "backbones", "imputers", "peers" or "datasets".
        plug: a name, an import path "package.module:Class", a class at the top of a module, or an instance that keeps
            its options as attributes; instances of the laws' own are made of it.
        options: of its constructor, such as make it small.
        report: is called with one line per law, for example ``print``.
        of_kind: ``root=`` of a data set of files: their folder; ``deterministic=`` of an imputer: whether it repeats
            one answer whatever the seed.

    Raises:
        ContractError: laws are broken; the message names every one and says what was expected and what came.
        ConfigError: no such plug-in or option, or no laws of that kind.
    """
    under_test = subject(kind, plug, options, **of_kind)
    broken: dict[str, str] = {}
    for law in laws(kind).values():
        reasons, inapplicable = [], []
        for case in law.cases():
            try:
                case.check(under_test)
            except DoesNotApply as why:
                inapplicable.append(str(why))
            except Exception as error:
                reasons.append(_reason(case, error))
        if reasons:
            broken[law.name] = reasons[0] + (f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else "")
        if report is not None:
            outcome = f"BROKEN   {broken[law.name]}" if reasons else "does not apply" if inapplicable else "holds"
            report(f"{law.name}: {outcome}")
    if broken:
        name = plug if isinstance(plug, str) else registry.named(kind, plug)[0]
        raise ContractError(f"{kind}: {name}", broken)


def _reason(case: Case, error: Exception) -> str:
    text = " ".join(str(error).split())
    reason = text if isinstance(error, AssertionError) else f"{type(error).__name__}: {text}"
    return f"{case.law.statement} {reason[:1].upper()}{reason[1:]}" + (f" [{case}]" if case.options else "")


def _module(kind: str) -> Any:
    if kind not in _MODULES:
        raise ConfigError(f"kind: expected one of {', '.join(_MODULES)}, which have laws; came {kind!r}.")
    return importlib.import_module(f"tsimpute.testing.{_MODULES[kind]}")
