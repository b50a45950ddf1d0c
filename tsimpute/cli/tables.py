"""The arguments of ``tsimpute impute`` and ``describe``, and what they show of a table."""

from __future__ import annotations

import csv
import math
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jsonargparse import ActionYesNo, ArgumentParser, Namespace

from tsimpute.cli.parsing import NOT_ALL_FILLED, Parser
from tsimpute.cli.words import in_options
from tsimpute.errors import ConfigError
from tsimpute.system.terminal import Bars, stop_on_interrupt

if TYPE_CHECKING:
    from tsimpute.tables.sources.files import TextForm

SETTINGS = (
    "timezone", "dayfirst", "duplicates", "missing_times", "irregular", "drop_invalid", "no_information", "max_gap",
    "calendar", "n_samples", "seed", "effort", "minutes", "calibrate", "recalibrate", "feature", "value", "unit",
    "model", "limits", "records",
)  # fmt: skip
"""Arguments that are settings of ``TableImputer`` as they are."""
COLUMNS = ("time", "group", "features", "text", "categories", "predict")
"""Arguments that are lists of columns."""
TEXTS = {
    "time": "column of times, or several as Date,Time; none: the rows are steps. Default: detected",
    "group": "columns that say which series a row belongs to, such as station; none: one series. Default: detected",
    "features": "columns to fill, comma-separated. Default: the columns of numbers that are no times, ids or groups",
    "text": "columns to pass through unchanged, comma-separated, whatever they contain",
    "categories": "with --records rows: columns of categories to fill, comma-separated. Default: none, texts are "
    "passed through unchanged",
    "feature": "in a long table: the column of feature names. Default: detected",
    "value": "in a long table: the column of values. Default: detected",
    "unit": "in a long table: the column of units. Default: detected",
    "units": "units of features, as PM2.5=ug/m3,T=degC. Default: those that the file gives",
    "limits": "lowest and highest possible values, as PM2.5=0:,RH=0:100,steps=0::int,*=0: where * means all other "
    "features and int whole numbers; or a data set's, as physionet2012. Default: no limits",
    "predict": "columns that a model predicts although they look like constants, counters, codes, ids or events, "
    "comma-separated. Default: these are filled by a rule or left empty",
    "missing_codes": "numbers and texts that mean missing, as -200,NR; by feature, as WVHT=99,WDIR=none; none: no "
    "number does. Default: numbers such as -999 that cannot be measurements in their column",
    "missing_marks": "texts that mean missing, as Err,Bad Input, in addition to the usual ones such as NA and NaN",
    "timezone": "time zone of the table's clock, such as Europe/Rome; needed where clocks change for daylight saving. "
    "Default: none, it is not detected",
    "delimiter": "character between the fields of a text file. Default: detected",
    "decimal": "decimal mark of a text file, . or , (default: detected)",
    "encoding": "encoding of a text file, such as cp1252. Default: detected",
}


EFFORT = (
    "how long to learn; instant: a Gaussian process, in seconds; auto: writes that answer first, then learns its "
    "errors by randomised trees within --minutes, and uses them where hidden cells say that they help; quick, normal, "
    "thorough: trains a network that starts from the first answer, minutes to hours; trial: a small network alone"
)
RENAME = (
    "with --model: the table's names of the model's features, as HeartRate=HR,TempC=Temp; the table keeps its own names"
)


def add_arguments(parser: ArgumentParser) -> None:
    add: Any = parser.add_argument
    add("source", type=Path, help="a table: .csv and other text, .parquet, .nc or .zarr")
    add(
        "-o", "--out", type=Path, required=True,
        help="file to write, of the same kind; other files are written next to it",
    )  # fmt: skip
    add(
        "--model", type=str | None, default=None,
        help="a trained model, or the .model.safetensors that an earlier run wrote: then its calibration, codes, "
        "limits and columns hold. Default: one is trained on the file itself",
    )  # fmt: skip
    add("--rename", type=str | None, default=None, help=RENAME)
    add("--quantiles", type=str, default="0.05,0.5,0.95", help="levels of the quantiles, comma-separated")
    efforts: Any = Literal["auto", "instant", "trial", "quick", "normal", "thorough"]
    add("--effort", type=efforts, default="auto", help=EFFORT)
    add("--minutes", type=float | None, default=None, help="how long --effort auto takes, about. Default: 5")
    add("--n_samples", type=int, default=50, help="samples per cell")
    add("--seed", type=int, default=0, help="seed of training and sampling")
    add("--force", action="store_true", help="overwrite files that exist")
    add(
        "--calibrate", action=ActionYesNo(no_prefix="no_"), default=True,
        help="no_: leave the intervals as they are sampled. Default: calibrate them",
    )  # fmt: skip
    add(
        "--recalibrate", action="store_true",
        help="calibrate the intervals on this file; default: use the calibration of the model",
    )  # fmt: skip
    add_reading_arguments(parser)


def add_reading_arguments(parser: ArgumentParser) -> None:
    """The options on how a table is read."""
    add: Any = parser.add_argument
    for name, what in TEXTS.items():
        add(f"--{name}", type=str | None, default=None, help=what)
    add(
        "--records", type=Literal["series", "rows"], default="series",
        help="rows: each row is a record by itself, as a person or a sample, in no order and without time; series: "
        "rows follow each other in time",
    )  # fmt: skip
    add(
        "--dayfirst", type=bool | None, default=None, metavar="{true,false}",
        help="true: 03/04/2005 is 3 April; false: it is 4 March. Default: detected, and refused where both fit",
    )  # fmt: skip
    add(
        "--irregular", type=bool | None, default=None, metavar="{true,false}",
        help="true: use the times as they are; false: expect one step. Default: detected",
    )  # fmt: skip
    add(
        "--duplicates", type=Literal["refuse", "first", "last", "mean"], default="refuse",
        help="what to do with several rows of one time: refuse them, take one of them, or average them",
    )  # fmt: skip
    add(
        "--missing_times", type=Literal["auto", "insert", "keep"], default="auto",
        help="insert: add a row for every missing time; keep: add none; auto: add those that the table's own pattern "
        "of times lacks",
    )  # fmt: skip
    add("--drop_invalid", action="store_true", help="make values outside the limits missing, and fill them")
    add(
        "--no_information", type=Literal["fill", "empty"], default="fill",
        help="what to do with features of which a series has no value",
    )  # fmt: skip
    add("--calendar", action="store_true", help="give the model the hour of the day and the day of the week")
    add("--max_gap", type=int | None, default=None, help="longest gap to fill, in steps; longer gaps stay empty")


def fill(options: Namespace) -> int:
    """Fills the gaps of a table in a file: the same file back, what each cell is, and a report."""
    from tsimpute.filling.files.fill_file import fill_file
    from tsimpute.filling.files.outputs import Outputs
    from tsimpute.filling.preparing.prepared import unfilled
    from tsimpute.system.run import UNITS

    spell = partial(in_options, names=list(vars(options)))
    with stop_on_interrupt() as should_stop, Bars(UNITS) as bars:
        filled = fill_file(
            options.source, options.out, settings_of(options), form=_form(options), force=options.force,
            say=lambda text: print(spell(text), flush=True), progress=bars.update, should_stop=should_stop, spell=spell,
        )  # fmt: skip
    if filled is None:
        state = Outputs.named_after(options.out).state
        note = f"; the same command goes on from what is in {state}" if state.exists() else ""
        sys.exit(f"tsimpute impute: stopped before anything was written{note}")
    text = unfilled(filled.prepared)
    if text is None:
        return 0
    print(spell(text))
    return NOT_ALL_FILLED


def describe(options: Namespace) -> None:
    """Prints how the file is read, as ``fill`` starts; nothing is trained."""
    from tsimpute.filling.files.fill_file import prepare_file
    from tsimpute.filling.preparing.prepared import understood, unfilled

    for name in ("root", "picture"):
        if options[name] is not None:
            raise ConfigError(f"--{name}: expected a data set with it, came the file {options.source}. Leave it out.")
    prepared = prepare_file(options.source, settings_of(options), _form(options))
    spell = partial(in_options, names=list(vars(options)))
    print(spell(f"{options.source}:\n{understood(prepared, most=None)}"))
    if (text := unfilled(prepared)) is not None:
        print(spell(f"  {text}"))


def refuse_reading_arguments(options: Namespace, name: str) -> None:
    """Refuses reading options for a data set, which states itself how it is read."""
    parser = Parser()
    add_reading_arguments(parser)
    plain = parser.get_defaults()
    given = [f"--{name}" for name in vars(plain) if options[name] != plain[name]]
    if given:
        raise ConfigError(f"{', '.join(given)}: expected the file of a table with it, came the data set {name}.")


def settings_of(options: Namespace) -> dict[str, Any]:
    """The settings of ``TableImputer`` in the arguments."""
    settings = {name: options[name] for name in SETTINGS if name in options}
    for name in COLUMNS:
        text = options[name]
        settings[name] = None if text is None else [] if text == "none" else _words(text)
    settings["units"] = _pairs(options.units, "--units: expected name=unit")
    if "rename" in options:
        settings["rename"] = _pairs(options.rename, "--rename: expected name of the table=name of the model")
    settings["missing_codes"] = _codes(options.missing_codes)[0]
    if "quantiles" in options:
        words = _words(options.quantiles)
        if wrong := [word for word in words if not _is_number(word)]:
            raise ConfigError(f"--quantiles: expected comma-separated numbers, came {wrong[0]!r}.")
        settings["quantiles"] = tuple(map(float, words))
    return settings


def _form(options: Namespace) -> TextForm:
    from tsimpute.tables.sources.files import TextForm

    marks = (*_codes(options.missing_codes)[1], *_words(options.missing_marks or ""))
    return TextForm(options.delimiter, options.decimal, options.encoding, marks)


def _words(text: str) -> list[str]:
    """Comma-separated; one that holds a comma stands in double quotes."""
    return [word.strip() for word in next(csv.reader([text], skipinitialspace=True), [""])]


def _pairs(text: str | None, expected: str) -> dict[str, str] | None:
    if text is None:
        return None
    parts = [word.rpartition("=") for word in _words(text)]
    if not all(name and sign for name, sign, _ in parts):
        raise ConfigError(f"{expected}, comma-separated; came {text!r}.")
    return {name.strip(): unit.strip() for name, _, unit in parts}


def _codes(text: str | None) -> tuple[Any, tuple[str, ...]]:
    """Numbers that mean missing, also by feature, or "certain" where none is named; and texts that do."""
    if text == "none":
        return (), ()
    of_all, marks, by_feature = [], [], {}
    for word in [] if text is None else _words(text):
        name, sign, code = word.rpartition("=")
        if _is_number(word):
            of_all.append(float(word))
        elif sign and name and (code == "none" or _is_number(code)):
            by_feature.setdefault(name.strip(), []).extend([] if code == "none" else [float(code)])
        elif sign and name:
            raise ConfigError(
                f"missing_codes: expected a number or none for one feature, came {word!r}. A text means missing in all "
                f"columns: name it alone, as {code or 'NR'}; one that holds = is given as missing_marks."
            )
        else:
            marks.append(word)
    rest = tuple(of_all) or "certain"
    return (by_feature | {"*": rest} if by_feature else rest), tuple(marks)


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False
