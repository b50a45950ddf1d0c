"""Settings, plug-ins and errors as lists, from signatures and docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any

import tsimpute as ti
from tsimpute import errors
from tsimpute.config.registry import available, plugin
from tsimpute.suites import settings as suites

KINDS = ("datasets", "processes", "solvers", "backbones", "imputers", "peers")


def pages() -> Iterator[tuple[str, str]]:
    """(name under ``docs/generated``, Markdown)."""
    yield "settings-table.md", _list(_described(ti.TableImputer, "Args"), _defaults(ti.TableImputer))
    yield (
        "settings-run.md",
        "\n".join(
            f"## {field.name}\n\n{_of_class(field.default_factory)}"  # type: ignore[arg-type]
            for field in dataclasses.fields(ti.RunConfig)
        ),
    )
    for cls in (suites.Suite, suites.TaskConfig, suites.MethodConfig, suites.Published, suites.Ranking, suites.Claim):
        yield f"settings-{cls.__name__}.md", _of_class(cls)
    for kind in KINDS:
        yield f"plugins-{kind}.md", _plugins(kind)
    yield "errors.md", _errors()


def _of_class(cls: type) -> str:
    doc = inspect.getdoc(cls) or ""
    intro = re.split(r"\n\n(?:Example|Attributes):", doc)[0]
    return f"{_text(intro)}\n\n{_list(_described(cls, 'Attributes'), _defaults(cls))}"


def _list(described: dict[str, str], defaults: dict[str, str]) -> str:
    """A definition list; settings without a description are listed all the same."""
    names: list[str] = list(described)
    covered = {one for name in names for one in name.split(", ")}
    names += [name for name in defaults if name not in covered]
    parts = []
    for name in names:
        values = [f"`{one} = {defaults[one]}`" if defaults.get(one) else f"`{one}`" for one in name.split(", ")]
        parts.append(f"{', '.join(values)}\n: {described.get(name) or 'not described.'}\n")
    return "\n".join(parts)


def _described(cls: type, section: str) -> dict[str, str]:
    """What a Google-style section of the docstring says, by name or names."""
    match = re.search(rf"(?m)^{section}:\n((?:    .*\n?|\n)*)", inspect.getdoc(cls) or "")
    entries: dict[str, str] = {}
    for part in re.split(r"(?m)^    (?=\S)", match[1] if match else ""):
        text = " ".join(part.split())
        # "task: name of the task; differs: what is not the same there": one line for two settings
        for name, words in re.findall(r"(?:^|; )([a-z_]+(?:, [a-z_]+)*): (.*?)(?=; [a-z_]+: |$)", text):
            entries[name] = _text(words)
    return entries


def _defaults(cls: type) -> dict[str, str]:
    """Name and default of each argument; "" where there is none, or it is no plain value."""
    shown = {}
    for name, of_one in inspect.signature(cls).parameters.items():
        value = of_one.default
        plain = value is None or isinstance(value, (bool, int, float, str, tuple))
        shown[name] = repr(value) if plain and value is not inspect.Parameter.empty else ""
    return shown


def _plugins(kind: str) -> str:
    lines = []
    for name in available(kind):
        cls: Any = plugin(kind, name)
        doc = inspect.getdoc(cls) or ""
        options = {} if cls.__init__ is object.__init__ else _defaults(cls)
        words = ", ".join(f"`{one} = {value}`" if value else f"`{one}`" for one, value in options.items())
        lines.append(
            f"`{name}`\n: {_text(' '.join(doc.partition(chr(10) * 2)[0].split()))} Options: {words or 'none'}.\n"
        )
    return "\n".join(lines)


def _errors() -> str:
    parts = []
    for cls in vars(errors).values():
        if isinstance(cls, type) and issubclass(cls, (errors.TsimputeError, UserWarning)):
            bases = ", ".join(f"`{base.__name__}`" for base in cls.__bases__)
            doc = (inspect.getdoc(cls) or "").partition("\n\n")[0]
            parts.append(f"`tsimpute.errors.{cls.__name__}` ({bases})\n: {_text(doc)}\n")
    return "\n".join(parts)


def _text(text: str) -> str:
    """Double backticks as Markdown's single ones; stars are stars."""
    text = re.sub(r"``(.*?)``", r"`\1`", text)
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else part.replace("*", r"\*").replace("|", r"\|") for part in parts)
