"""Messages of the library in the spelling of the command line: ``missing_times='keep'`` as ``--missing_times keep``.

The library speaks Python in its messages: a setting with its value is ``name=value`` or "set name to value"; a setting
alone stands in brackets after what to do, as in "Name it (time)", or as it is where its name is no English word; and a
message about a setting begins with its name. Here these forms are translated; whatever else a message says stays.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Collection

from tsimpute.errors import ConfigError

_LIST = r"""\[(?:'[^']*'|"[^"]*"|[^\[\]'"])*\]"""
"""A list, whose texts may have brackets in them, as of a unit."""
_VALUE = rf"""(?:'[^']*'|"[^"]*"|True|False|None|\((?:[^()]*)\)|{_LIST}|\{{[^{{}}]*\}}|-?\d+(?:\.\d+)?)"""
_QUOTED = re.compile(r"""(?<!\w)'[^'\n]*'(?!\w)|(?<!\w)"[^"\n]*"(?!\w)""")
"""Names of columns and values: what they hold is no setting."""
_ADVICE = r"(?:[Nn]am(?:e|es|ing)|[Cc]hoose|[Gg]ive|[Ss]et|[Pp]ass|say|overwrite|fit)"
_CODE = re.compile(r"^  [\w\[\]'\"]+ = ", re.MULTILINE)
"""A line of Python, set in, for a person to run: it stays as it is."""
FLAGS = ("force", "drop_invalid", "calendar", "recalibrate")
"""Options without a value."""
NEGATED = {"calibrate": "no_calibrate"}
"""Settings that are true without an option, and the options that make them false."""


def in_options(text: str, names: Collection[str]) -> str:
    """A message, or a note, with the settings that are options here spelt as options.

    Example:
        >>> in_options("Name it (time), or set missing_times='keep'.", ("time", "missing_times"))
        'Name it (--time), or set --missing_times keep.'

    Args:
        names: of the options, without dashes.
    """
    if _CODE.search(text):
        return "\n".join(line if _CODE.match(line) else in_options(line, names) for line in text.split("\n"))
    known = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    if not known:
        return text
    text = re.sub(rf"(?<![\w.'\"=-])({known})=({_VALUE})(?!\w)", lambda match: _option(match[1], match[2]), text)
    quoted: list[str] = []

    def put_aside(match: re.Match[str]) -> str:
        quoted.append(match[0])
        return f"\0{len(quoted) - 1}\0"

    text = _QUOTED.sub(put_aside, text)
    bracketed = re.compile(rf"(?:\b{_ADVICE}\b|\bmodel's\b)[^.!?\n]*?\(({known})(?=\)| = )")
    while match := bracketed.search(text):
        text = f"{text[: match.start(1)]}--{text[match.start(1) :]}"
    text = re.sub(rf"(?<![\w.])(\w+ )\(({known})\) = ", r"\1(--\2) = ", text)
    unmistakable = "|".join(name for name in known.split("|") if "_" in name)
    if unmistakable:
        text = re.sub(rf"(?<![\w.'\"=/-])({unmistakable})(?![\w'\"=(/])", r"--\1", text)
    text = re.sub(rf"\b([Ss]et) (?:--)?({known}) to (\w+)", r"\1 --\2 \3", text)
    text = re.sub(r"\0(\d+)\0", lambda match: quoted[int(match[1])], text)
    return re.sub(r" \((--\w+(?: [^\s()]+)?)\)", _unless_said, text)


def of_error(error: Exception, names: Collection[str]) -> str:
    """What an error says, in options; one about a setting begins with its option."""
    text = in_options(str(error), names)
    name = text.partition(":")[0]
    return f"--{text}" if isinstance(error, ConfigError) and name in names else text


def _unless_said(match: re.Match[str]) -> str:
    """Nothing for an option in brackets that stands before in the same text: some messages say both spellings."""
    return "" if re.search(rf"{re.escape(match[1])}(?![\w=])", match.string[: match.start()]) else match[0]


def _option(name: str, value: str) -> str:
    """One setting as words of a shell."""
    try:
        given = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return f"--{name} {value}"
    if name in NEGATED and given in (True, False):
        name, given = NEGATED[name], not given
    if name in (*FLAGS, *NEGATED.values()) and given in (True, False):
        return f"--{name}" if given else f"no --{name}"
    if isinstance(given, dict):
        word = shlex.quote(",".join(f"{key}={item}" for key, item in given.items()))
    elif isinstance(given, list | tuple):
        word = shlex.quote(",".join(f'"{one}"' if "," in str(one) else str(one) for one in given) or "none")
    else:
        word = str(given).lower() if given is None or isinstance(given, bool) else str(given)
        is_plain = re.fullmatch(r"[\w./:,+-]*\w[\w./:,+-]*", word)
        word = word if is_plain else f'"{word}"' if word in (",", ".") else shlex.quote(word)
    return f"--{name} {word}"
