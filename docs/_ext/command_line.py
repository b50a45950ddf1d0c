"""The help of every command, as the parser prints it."""

from __future__ import annotations

import contextlib
import io
import os
import re

from tsimpute.cli import main

WIDTH = "96"
COMMANDS = (
    "impute", "describe", "draw", "fetch", "demo", "train", "evaluate", "suite run", "suite check", "suite report",
)  # fmt: skip


def help_of(command: str) -> str:
    """What ``tsimpute COMMAND --help`` prints."""
    before, os.environ["COLUMNS"] = os.environ.get("COLUMNS"), WIDTH
    try:
        with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
            main([*command.split(), "--help"])
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    return printed.getvalue().rstrip()


def options_of(command: str) -> set[str]:
    """The options that a command has."""
    return set(re.findall(r"(?<![\w-])(--?[A-Za-z][\w.]*)", help_of(command)))


def page() -> str:
    """A section for each command."""
    return "\n\n".join(f"## tsimpute {name}\n\n```text\n{help_of(name)}\n```" for name in COMMANDS) + "\n"
