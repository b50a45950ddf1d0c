"""Every command and its options, from the help that the parser prints."""

from __future__ import annotations

import contextlib
import io
import os
import re
from functools import cache

from tsimpute.cli import commands

_FIRST = ("impute", "describe")
COMMANDS = (*_FIRST, *(name for name in commands.COMMANDS if name not in _FIRST))


@cache
def help_of(command: str) -> str:
    """What ``tsimpute COMMAND --help`` prints on a terminal so wide that no line is broken."""
    before, os.environ["COLUMNS"] = os.environ.get("COLUMNS"), "10000"
    try:
        with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
            commands.main([*command.split(), "--help"])
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    return printed.getvalue()


def options_of(command: str) -> set[str]:
    """The options that a command has."""
    return {word for names, _ in _arguments(command) for word in re.findall(r"(?<![\w-])--?[A-Za-z][\w.]*", names)}


def page() -> str:
    """A section for each command, and what the exit codes mean."""
    codes = help_of(COMMANDS[0]).partition("exit codes:")[2]
    return "\n".join([*(_section(name) for name in COMMANDS), f"## Exit codes\n\n{_text(codes)}\n"])


def _section(command: str) -> str:
    summary = (commands.COMMANDS[command].__doc__ or "").strip().partition("\n\n")[0]
    example = commands.EXAMPLES.get(command, f"tsimpute {command}")
    lines = [f"## tsimpute {command}\n", f"{_text(summary)}\n", f"```sh\n{example}\n```\n"]
    for names, text in _arguments(command):
        if names != "-h, --help":
            lines.append(f"`{names}`\n: {_text(text) or 'see the settings.'}\n")
    return "\n".join(lines)


def _arguments(command: str) -> list[tuple[str, str]]:
    """(names as printed, what the help says) of each argument: names are indented by two, long texts by more."""
    options: list[tuple[str, str]] = []
    for line in help_of(command).splitlines():
        if match := re.match(r"  (\S.*?)(?:\s{2,}(\S.*))?$", line):
            options.append((match[1], match[2] or ""))
        elif options and line.startswith("   "):
            options[-1] = (options[-1][0], f"{options[-1][1]} {line.strip()}".strip())
    return options


def _text(text: str) -> str:
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()).replace("``", "`"))
    return "".join(part if part.startswith("`") else re.sub(r"([*<])", r"\\\1", part) for part in parts)
