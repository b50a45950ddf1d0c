"""The arguments of ``tsimpute impute``, and what it shows."""

from __future__ import annotations

import csv
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NoReturn

from jsonargparse import ArgumentParser, Namespace

from tsimpute.errors import ConfigError
from tsimpute.terminal import Bars, stop_on_interrupt

SETTINGS = (
    "timezone", "dayfirst", "duplicates", "missing_times", "irregular", "drop_invalid", "no_information", "max_gap",
    "calendar", "n_samples", "seed", "effort", "calibrate",
)  # fmt: skip
"""Arguments that are settings of ``TableImputer`` as they are."""


class OneSentence(ArgumentParser):
    """A parser that refuses in one sentence."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        sys.exit(f"tsimpute impute: {sentence(message)} See tsimpute impute --help.")


def sentence(message: str) -> str:
    """What a parser says of a wrong argument, in one plain sentence."""
    name, value = re.search(r'Parser key "(?:impute\.)?(\w+)"', message), re.search(r"value: (.*)\s*$", message)
    if name is None or value is None:
        return " ".join(message.replace("impute.", "").split()).rstrip(".") + "."
    choices = re.search(r"Literal\[(.*?)\]", message)
    kinds = {"'int'": "a whole number", "'bool'": "true or false"}
    expected = "one of " + choices[1].replace("'", "") if choices else next(
        (words for kind, words in kinds.items() if kind in message), "another value"
    )  # fmt: skip
    return f"--{name[1].replace('_', '-')}: expected {expected}, came {value[1].strip()!r}."


def add_arguments(parser: ArgumentParser) -> None:
    add: Any = parser.add_argument
    add("source", type=Path, help="a table: .csv and the like, .parquet, .nc or .zarr")
    add("-o", "--out", type=Path, required=True, help="the table filled, of the same kind; other files go beside it")
    add("--model", type=str | None, default=None, help="a trained model; default: learn from the file itself")
    add("--quantiles", type=str, default="0.05,0.5,0.95", help="levels, comma-separated")
    add("--effort", type=Literal["trial", "quick", "normal", "thorough"], default="normal", help="how long to learn")
    add("--n_samples", type=int, default=50, help="draws per cell")
    add("--seed", type=int, default=0, help="of everything drawn")
    add("--force", action="store_true", help="overwrite files that are there")
    add("--calibrate", type=bool, default=True, help="false: measure nothing, leave the intervals as drawn")
    for name, what in (
        ("time", "column of times, or date,time; none = rows are steps"),
        ("group", "columns that tell series apart, such as station; none = one series"),
        ("features", "columns to fill, comma-separated"),
        ("feature", "of a long table: the column of feature names"),
        ("value", "of a long table: the column of values"),
        ("unit", "of a long table: the column of units"),
        ("text", "columns that are passed through unchanged, comma-separated"),
        ("units", "of features, as PM2.5=ug/m3,T=degC"),
        (
            "limits",
            "lowest and highest value, as PM2.5=0:,RH=0:100,steps=0::int,*=0:, or a data set's, as physionet2012",
        ),
        ("missing_codes", "numbers and texts that mean missing, as -200,NR; none = no numbers do"),
        ("missing_marks", "texts that mean missing, comma-separated, as Err,Bad Input"),
        ("timezone", "zone of the wall clock, such as Europe/Rome"),
        ("delimiter", "of a text file"),
        ("decimal", "of a text file: . or ,"),
        ("encoding", "of a text file"),
    ):
        add(f"--{name}", type=str | None, default=None, help=f"{what}; default: found out")
    add("--dayfirst", type=bool | None, default=None, help="whether 03/04/2005 is in April; default: found out")
    add("--irregular", type=bool | None, default=None, help="true: use the true times; default: found out")
    add("--duplicates", type=Literal["refuse", "first", "last", "mean"], default="refuse", help="of times")
    add("--missing_times", type=Literal["auto", "insert", "keep"], default="auto", help="rows for missing times")
    add("--drop_invalid", action="store_true", help="values outside the limits are made missing, and filled")
    add("--no_information", type=Literal["fill", "empty"], default="fill", help="features a series shows no value of")
    add("--calendar", action="store_true", help="give the model the hour of the day and the day of the week")
    add("--max_gap", type=int | None, default=None, help="longest gap, in steps, that is filled; longer: wholly empty")


def fill(options: Namespace, say: Callable[[str], None]) -> None:
    """Fills the file and says what was understood and done."""
    from tsimpute.filling.fill_file import Outputs, fill_file
    from tsimpute.tables.files import TextForm

    codes, marks = _codes(options.missing_codes)
    marks += tuple(_words(options.missing_marks or ""))
    form = TextForm(options.delimiter, options.decimal, options.encoding, marks)
    units = {"learning": "step", "measuring": "window", "imputing": "time"}
    with stop_on_interrupt() as should_stop, Bars(units) as bars:
        found = fill_file(
            options.source, options.out, settings_of(options) | {"missing_codes": codes}, form=form,
            force=options.force, say=say, progress=bars.update, should_stop=should_stop,
        )  # fmt: skip
    if found is None:
        state = Outputs.beside(options.out).state
        kept = f"; the same command goes on from what is in {state}" if state.exists() else ""
        sys.exit(f"tsimpute impute: stopped before anything was written{kept}")
    say(f"wrote {options.out}")


def settings_of(options: Namespace) -> dict[str, Any]:
    """The settings of ``TableImputer`` that the arguments say."""
    settings = {name: options[name] for name in SETTINGS}
    settings |= {name: _names(options[name]) for name in ("time", "group", "features", "text")}
    settings |= {name: options[name] for name in ("feature", "value", "unit", "model")}
    settings["units"] = _pairs(options.units)
    settings["limits"] = options.limits
    settings["quantiles"] = tuple(_number(word, "--quantiles") for word in _words(options.quantiles))
    return settings


def _words(text: str) -> list[str]:
    """Comma-separated; one that holds a comma stands in double quotes."""
    return [word.strip() for word in next(csv.reader([text], skipinitialspace=True), [""])]


def _names(text: str | None) -> list[str] | None:
    if text is None:
        return None
    return [] if text == "none" else _words(text)


def _pairs(text: str | None) -> dict[str, str] | None:
    if text is None:
        return None
    parts = [word.rpartition("=") for word in _words(text)]
    if not all(name and sign for name, sign, _ in parts):
        raise ConfigError(f"--units: expected name=unit, comma-separated; came {text!r}.")
    return {name.strip(): unit.strip() for name, _, unit in parts}


def _codes(text: str | None) -> tuple[Any, tuple[str, ...]]:
    """Numbers that mean missing, or "certain" where none is named, and texts that do."""
    if text == "none":
        return (), ()
    words = [] if text is None else _words(text)
    numbers = [word for word in words if _is_number(word)]
    return tuple(map(float, numbers)) or "certain", tuple(word for word in words if word not in numbers)


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _number(word: str, name: str) -> float:
    if not _is_number(word):
        raise ConfigError(f"{name}: expected comma-separated numbers, came {word!r}.")
    return float(word)
