"""The help of every command, as the parser prints it."""

from __future__ import annotations

import contextlib
import io
import os
import re

from tsimpute import cli

WIDTH = "96"
_FIRST = ("impute", "describe")
COMMANDS = (*_FIRST, *(name for name in cli.COMMANDS if name not in _FIRST))


def help_of(command: str) -> str:
    """What ``tsimpute COMMAND --help`` prints."""
    before, os.environ["COLUMNS"] = os.environ.get("COLUMNS"), WIDTH
    try:
        with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
            cli.main([*command.split(), "--help"])
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    return printed.getvalue().rstrip()


def options_of(command: str) -> set[str]:
    """The options that a command has."""
    return set(re.findall(r"(?<![\w-])(--?[A-Za-z][\w.]*)", help_of(command)))


def page() -> str:
    """A section for each command."""
    return "\n\n".join(f"## tsimpute {name}\n\n```text\n{help_of(name)}\n```" for name in COMMANDS) + "\n"
