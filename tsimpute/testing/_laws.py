"""What a law is, and how it says that it is broken."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

Checked = TypeVar("Checked", bound=Callable[..., None])
Cases = Callable[[], Iterable[Mapping[str, Any]]]


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
