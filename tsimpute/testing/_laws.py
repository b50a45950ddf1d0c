"""What a law is, how it says that it is broken, and all laws of one kind checked on one plug-in."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from tsimpute.config import registry
from tsimpute.errors import ConfigError, ContractError

Checked = TypeVar("Checked", bound=Callable[..., None])
Cases = Callable[[], Iterable[Mapping[str, Any]]]
_MODULES = {"peers": "imputers"}
_MODULES |= {kind: kind for kind in ("solvers", "processes", "backbones", "imputers", "datasets")}
"""By kind, the module with its laws."""


class DoesNotApply(Exception):
    """A law says nothing of this plug-in; the message says why."""


@dataclass(frozen=True)
class Case:
    """A law together with the sizes or partners that it is checked with."""

    law: Law
    options: Mapping[str, Any]

    def __str__(self) -> str:
        of = ", ".join(f"{name}={getattr(value, '__name__', value)}" for name, value in self.options.items())
        return f"{self.law.name}({of})" if of else self.law.name

    def check(self, subject: Any) -> None:
        """Checks the law; ``subject`` is what ``tsimpute.testing.subject`` gives.

        Raises:
            AssertionError: the law is broken; the message says what was expected and what came.
            DoesNotApply: the law says nothing of this plug-in.
        """
        self.law.function(subject, **self.options)


@dataclass(frozen=True)
class Law:
    """A function that raises where a plug-in breaks it, and the cases that it is checked with."""

    function: Callable[..., None]
    options: Cases

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def statement(self) -> str:
        """The law in one sentence."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]

    def cases(self) -> list[Case]:
        return [Case(self, options) for options in self.options()]


@dataclass(frozen=True)
class Laws:
    """The laws of one kind of plug-in, in the order in which they stand in its module."""

    by_name: dict[str, Law] = field(default_factory=dict)

    def law(self, options: Cases = lambda: [{}]) -> Callable[[Checked], Checked]:
        """Makes a function a law; ``options`` gives the keyword arguments of each of its cases."""

        def register(function: Checked) -> Checked:
            self.by_name[function.__name__] = Law(function, options)
            return function

        return register


def over(**values: Iterable[Any]) -> Cases:
    """One case for each value of a name."""
    ((name, each),) = values.items()
    repeatable = tuple(each)
    return lambda: [{name: value} for value in repeatable]


def expect(holds: Any, expected: str, came: object) -> None:
    """Raises where something does not hold, also where Python runs without assert statements.

    Raises:
        AssertionError: it does not hold.
    """
    if not bool(holds):
        raise AssertionError(f"expected {expected}; came {came}")


def expect_name(plugin: Any) -> None:
    """Raises where a plug-in has no ``name`` of its own to stand in tables, messages and settings.

    Raises:
        AssertionError: ``name`` is absent, empty or no text.
    """
    name = getattr(plugin, "name", None)
    expect(isinstance(name, str) and name, "a text as its name", repr(name))


def expect_refused(error: type[Exception], call: Callable[[], object], says: str = "") -> None:
    """Raises where a call is not refused with an error of a class whose message matches a regular expression.

    Raises:
        AssertionError: it is accepted, or refused in another way.
    """
    expected = f"{error.__name__}{f' that says {says!r}' if says else ''}"
    try:
        call()
    except error as came:
        expect(re.search(says, str(came)), expected, f"{type(came).__name__}: {came}")
    except Exception as came:
        raise AssertionError(f"expected {expected}; came {type(came).__name__}: {came}") from came
    else:
        raise AssertionError(f"expected {expected}; no error came")


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
    registry.plugin(kind, name)  # refused here, and not by every law
    make = partial(registry.make, kind, name, **saved | dict(options or {}))
    module = _module(kind)
    return module.subject(make, **of_kind) if hasattr(module, "subject") else make(**of_kind)


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
                text = " ".join(str(error).split())
                reason = text if isinstance(error, AssertionError) else f"{type(error).__name__}: {text}"
                of_case = f" [{case}]" if case.options else ""
                reasons.append(f"{law.statement} {reason[:1].upper()}{reason[1:]}{of_case}")
        if reasons:
            broken[law.name] = reasons[0] + (f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else "")
        if report is not None:
            outcome = f"BROKEN   {broken[law.name]}" if reasons else "does not apply" if inapplicable else "holds"
            report(f"{law.name}: {outcome}")
    if broken:
        name = plug if isinstance(plug, str) else registry.named(kind, plug)[0]
        raise ContractError(f"{kind}: {name}", broken)


def _module(kind: str) -> Any:
    if kind not in _MODULES:
        raise ConfigError(f"kind: expected one of {', '.join(_MODULES)}, which have laws; came {kind!r}.")
    return importlib.import_module(f"tsimpute.testing.{_MODULES[kind]}")
