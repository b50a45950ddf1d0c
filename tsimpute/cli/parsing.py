"""How the command line reads words: both spellings of an option, one sentence for what it refuses, plain help texts."""

from __future__ import annotations

import re
import sys
from argparse import Action
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NoReturn

from jsonargparse import ArgumentParser, DefaultHelpFormatter, Namespace, set_loader
from yaml import YAMLError

from tsimpute.config.yaml_files import load_yaml

MODE = "tsimpute"
"""Name of this package's reader of YAML in jsonargparse."""
EXIT_CODES = """exit codes: 0 done; 1 refused, failed or interrupted, with the reason in the last line; 2 the command
line is wrong: an argument is missing or has a value that is not possible, or the output exists; 3 done, but a column
that looks like numbers could not be filled (impute). An improvement that is interrupted ends with 0."""
WRONG_ARGUMENT, NOT_ALL_FILLED = 2, 3
_KINDS = {
    "'int'": "a whole number",
    "'float'": "a number",
    "'bool'": "true or false",
    "'dict'": "settings by name, such as {width: 32}",
    "tuple": "a list, such as [1,5]",
}


class PlainHelp(DefaultHelpFormatter):
    """Says what is required and which value counts where none is given, and nothing of Python's types."""

    def _get_help_string(self, action: Action) -> str:
        text = action.help or ""
        if action.required and action.option_strings:
            return f"{text} (required)"
        silent = action.default in (None, False, "", "==SUPPRESS==") or not action.option_strings
        return text if silent or "efault" in text else f"{text} (default: %(default)s)"


class Parser(ArgumentParser):
    """A parser that refuses in one sentence and exits with 2.

    Args:
        command: the words before its own arguments, such as "tsimpute impute".
    """

    def __init__(self, *, command: str = MODE, version: str | None = None, description: str | None = None) -> None:
        set_loader(MODE, load_yaml, (YAMLError,))
        super().__init__(
            prog=MODE, parser_mode=MODE, formatter_class=PlainHelp, version=version, description=description,
            epilog=EXIT_CODES, allow_abbrev=False,
        )  # fmt: skip
        self.command = command

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        sys.stderr.write(
            f"{self.command}: {sentence(message, list(self._option_string_actions))} See {self.command} --help.\n"
        )
        sys.exit(WRONG_ARGUMENT)


def sentence(message: str, options: Sequence[str] = ()) -> str:
    """What jsonargparse says of a wrong argument, in one plain sentence.

    Args:
        options: that there are, of which the nearest is named.
    """
    unknown = re.search(r"[Uu]nrecognized arguments: .*?(--[\w.-]+)", message)
    if unknown is not None:
        longer = [option for option in options if option.startswith(unknown[1])]
        nearest = (longer or get_close_matches(unknown[1], options, 1, cutoff=0.8))[:1]
        advice = f", the nearest is {nearest[0]}" if nearest else ""
        return f"expected one of the options; came {unknown[1]}{advice}."
    name, value = re.search(r'Parser key "([\w.]+)"', message), re.search(r"value: (.*)\s*$", message)
    absent = re.search(r"arguments are required: ([\w., ]+)", message)
    if absent is not None:
        return f"expected {' and '.join(_spelt(one) for one in absent[1].split(', '))}, came none."
    command = re.search(r"invalid choice: ('[^']*') \(choose from (.*)\)", message)
    if command is not None:
        return f"expected a command: one of {command[2].replace(chr(39), '')}; came {command[1]}."
    if re.search(r'expected "(\w+\.)?command"', message):
        return "expected a command, came none."
    if name is None or value is None:
        return " ".join(re.sub(r"^Problems parsing config: ", "", message).split()).rstrip(".") + "."
    choices = re.search(r"Literal\[(.*?)\]", message)
    expected = "one of " + choices[1].replace("'", "") if choices else next(
        (words for kind, words in _KINDS.items() if kind in message), "another value"
    )  # fmt: skip
    return f"{_spelt(name[1])}: expected {expected}, came {value[1].strip()!r}."


def _spelt(name: str) -> str:
    """``impute.max_gap`` as ``--max_gap``; names of arguments without dashes as they are."""
    name = re.sub(r"^(demo|fetch|describe|train|impute|draw|evaluate|suite\.(run|check|report))\.", "", name)
    return name.upper() if name in ("source", "name", "model", "suite", "command") else f"--{name}"


def spellings(words: list[str]) -> list[str]:
    """``--drop-invalid`` as ``--drop_invalid``, and ``--missing_codes -200,NR`` as one word."""
    out: list[str] = []
    for given in words:
        name, sign, value = given.partition("=")
        word = name[:2] + name[2:].replace("-", "_") + sign + value if name.startswith("--") else given
        takes_value = bool(out) and out[-1].startswith("--") and "=" not in out[-1]
        if takes_value and len(word) > 1 and word[0] == "-" and word[1] in "0123456789.":
            out[-1] += f"={word}"  # a number below zero is no option, but the value of the one before it
        else:
            out.append(word)
    return out


def chosen(parsed: Namespace) -> tuple[str, Namespace]:
    """The command, as "suite run", and its own options."""
    command, options = parsed.command, parsed[parsed.command]
    if "command" in options:
        return f"{command} {options.command}", options[options.command]
    return command, options
