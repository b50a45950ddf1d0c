"""Messages of the command line: its own spelling of every setting that the library names; tables that are described."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tsimpute
from tsimpute.cli.commands import ARGUMENTS, _parse, main
from tsimpute.cli.parsing import Parser
from tsimpute.cli.tables import settings_of
from tsimpute.cli.words import NEGATED, in_options, of_error
from tsimpute.errors import ConfigError, DataError
from tsimpute.filling.imputer.table_imputer import TableImputer
from tsimpute.filling.preparing.prepared import behind, shortened

PACKAGE = Path(tsimpute.__file__).parent
OF_TABLES = (
    "tables", "screening", "filling", "reports/table_report.py",
    "core/limits.py", "core/panel.py", "core/quantiles.py", "models/pretrained.py", "system/files.py",
)  # fmt: skip
PYTHON_ONLY = {
    "filling/files/lazy.py",
    "filling/preparing/table_settings.py",
    "tables/arrays/arrays.py",
}
"""What the command line never calls, or what says which Python values a setting takes."""


@cache
def options_of(command: str) -> tuple[str, ...]:
    parser = Parser()
    ARGUMENTS[command](parser)
    return tuple(vars(parser.get_defaults()))


def literals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of every string that is no docstring; what is put in is written X, or 'X' after ``name=``."""
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in inner | documents:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            text = ""
            for part in node.values:
                said = part.value if isinstance(part, ast.Constant) else "'X'" if text.endswith("=") else "X"
                text += str(said)
            yield node.lineno, text


@cache
def messages() -> list[tuple[str, str]]:
    """Place and text of every sentence about tables."""
    found = []
    for top in OF_TABLES:
        paths = [PACKAGE / top] if top.endswith(".py") else sorted((PACKAGE / top).rglob("*.py"))
        for path in paths:
            file = path.relative_to(PACKAGE).as_posix()
            if file not in PYTHON_ONLY:
                tree = ast.parse(path.read_text(encoding="utf-8"))
                found += [(f"{file}:{line}", text) for line, text in literals(tree) if " " in text.strip()]
    return found


def test_messages_are_seen() -> None:
    texts = "\n".join(text for _, text in messages())
    assert len(messages()) > 300
    assert "duplicates='first'" in texts
    assert "Name it (time)" in texts


def test_no_message_of_the_command_line_names_a_setting_as_python_does() -> None:
    names = options_of("impute")
    left = re.compile(rf"(?<![\w.'\"(=-])({'|'.join(names)})=(?!=)")
    code = re.compile(r"^  [\w\[\]'\"]+ = .*$", re.MULTILINE)  # lines of Python for a person to run
    for place, text in messages():
        said = code.sub("", in_options(text, names))
        assert not left.search(said), f"{place}: {said}"


def test_every_option_that_a_message_names_is_there() -> None:
    known = set(options_of("impute")) | set(options_of("draw"))
    for place, text in messages():
        for name in re.findall(r"--(\w+)", in_options(text, tuple(known))):
            assert name in known | set(NEGATED.values()), f"{place}: --{name}"


def test_every_setting_of_the_library_is_an_option() -> None:
    settings = set(TableImputer().get_params()) - {"keep_samples"}  # files hold quantiles, not draws
    assert settings <= set(options_of("impute"))


@pytest.mark.parametrize(
    ("python", "option"),
    [
        ("set missing_times='keep'.", "set --missing_times keep."),
        ("missing_times='keep' (--missing_times keep)", "--missing_times keep"),
        ("choose duplicates='first', 'last' or 'mean'.", "choose --duplicates first, 'last' or 'mean'."),
        ("duplicates='first' or 'last' (--duplicates first).", "--duplicates first or 'last'."),
        ("irregular=True (--irregular false)", "--irregular true (--irregular false)"),
        ("leave irregular=False out.", "leave --irregular false out."),
        ("dayfirst=True for day/month/year", "--dayfirst true for day/month/year"),
        ("timezone='Europe/Rome', say.", "--timezone Europe/Rome, say."),
        ("overwrite it with force=True.", "overwrite it with --force."),
        ('Pass decimal="," for a decimal comma', 'Pass --decimal "," for a decimal comma'),
        ("name them time=['Date', 'Time of day']", "name them --time 'Date,Time of day'"),
        ("features=['a, b', 'c']", "--features '\"a, b\",c'"),
        ("group=() = there is none", "--group none = there is none"),
        ("limits={'RH': '0:100', 'T': '0:'}", "--limits RH=0:100,T=0:"),
        ("missing_codes=[-200, -999]", "--missing_codes -200,-999"),
        ("missing_codes={'WVHT': 99}", "--missing_codes WVHT=99"),
        ("max_gap=3", "--max_gap 3"),
        ("Name it (time).", "Name it (--time)."),
        ("name those to fill (features) or the groups (group).", "name those to fill (--features) or the groups (--group)."),  # noqa: E501
        ("set missing_codes to none", "set --missing_codes none"),
        ("Set timezone to Europe/Rome", "Set --timezone Europe/Rome"),
        ("leave drop_invalid out or widen the limits", "leave --drop_invalid out or widen the limits"),
        ("to fill such values, set drop_invalid", "to fill such values, set --drop_invalid"),
        ("time (time) = 'Date', groups (group) = none", "time (--time) = 'Date', groups (--group) = none"),
        ("say that the unit is the model's (units).", "say that the unit is the model's (--units)."),
    ],
)  # fmt: skip
def test_a_setting_is_spelt_as_an_option(python: str, option: str) -> None:
    assert in_options(python, options_of("impute")) == option


@pytest.mark.parametrize(
    "text",
    [
        "came 'time=5'.",
        'came "limits=3".',
        "Concentration (value): expected a number, came 'x'.",
        "expected name=unit, comma-separated.",
        "pandas.to_datetime(frame, unit='s')",
        "x.csv: my_time='a'",
        "column 'max_gap', max_gaps, x.max_gap, data/max_gap.csv",
        "the times are set to hours",
        "time = 3",
    ],
)
def test_what_a_table_holds_is_not_translated(text: str) -> None:
    names = [name for name in options_of("impute") if not (name == "unit" and "pandas" in text)]
    assert in_options(text, names) == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("time", ["Date", "Time of day"]), ("features", ["a, b", "c"]), ("group", []), ("missing_times", "keep"),
        ("duplicates", "mean"), ("dayfirst", False), ("irregular", True), ("timezone", "Europe/Rome"), ("max_gap", 3),
        ("drop_invalid", True), ("calendar", True), ("units", {"T": "degC"}), ("quantiles", (0.1, 0.9)),
    ],
)  # fmt: skip
def test_an_option_as_it_is_spelt_gives_the_setting(name: str, value: Any) -> None:
    words = shlex.split(in_options(f"{name}={value!r}", options_of("impute")))
    _, options = _parse(["impute", "in.csv", "-o", "out.csv", *words])
    assert settings_of(options)[name] == value


def test_an_error_about_a_setting_begins_with_its_option() -> None:
    names = options_of("impute")
    assert of_error(ConfigError("limits: expected a name."), names) == "--limits: expected a name."
    assert of_error(ConfigError("output: x exists."), names) == "output: x exists."
    assert of_error(DataError("features: expected the model's."), names) == "features: expected the model's."


# Files ----------------------------------------------------------------------------------------------------------------


def write(path: Path, gaps: bool = True, column: str = "", separator: str = ",") -> Path:
    """Sixty steps of ten minutes, with a gap, two rows left out and, if asked, one more column of almost numbers."""
    times = pd.date_range("2024-03-01", periods=60, freq="10min")
    lines = [separator.join(["When", "Temp", "RH", "remark", *([column] if column else [])])]
    for i, time in enumerate(times):
        if gaps and i in (20, 21):
            continue
        temp = "" if gaps and i in (7, 8) else f"{10 + i % 5}.5"
        odd = [{3: "1..5", 4: ""}.get(i, f"{i}.0")] if column else []
        lines.append(separator.join([f"{time:%Y-%m-%d %H:%M}", temp, str(50 + i % 7), "fine", *odd]))
    path.write_text("\n".join(lines) + "\n")
    return path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str]]:
    """The exit code and the lines printed."""
    try:
        main(list(words))
        code: Any = 0
    except SystemExit as stop:
        code = stop.code
    out, err = (stream.splitlines() for stream in capsys.readouterr())
    if isinstance(code, int):
        return code, [*out, *err] if code == 2 else out
    return 1, [*out, str(code)]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_describe_says_what_impute_would_understand_and_trains_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], separator: str
) -> None:
    source = write(tmp_path / "in.csv", separator=separator)
    code, lines = run(capsys, "describe", str(source))
    assert code == 0
    assert lines[0] == f"{source}:"
    text = "\n".join(lines)
    assert "layout: wide, 58 rows, 2 to be added" in text
    assert "time: When: every 10 minutes, 2024-03-01 00:00 to 2024-03-01 09:50" in text
    assert "groups: none, one series" in text
    assert "features: 2: Temp" in text
    assert "remark" in text
    assert "to fill: 6 of 120 cells (5.0%)" in text
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]
    _, kept = run(capsys, "describe", str(source), "--missing_times", "keep", "--features", "Temp")
    assert "to be added" not in "\n".join(kept)
    assert "to fill: 2 of 58 cells" in "\n".join(kept)


def test_describe_takes_tables_and_data_sets_and_says_which_option_is_for_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "in.csv")
    write(tmp_path / "synthetic")  # a file of that name comes first, and has no ending
    for words, message in (
        (["in.csv", "--root", "x"], "--root: expected a data set with it"),
        (["pm25", "--time", "When"], "--time: expected the file of a table with it"),
        (["pm25", "--missing_codes", "-1", "--max_gap", "3"], "--missing_codes, --max_gap: expected the file"),
        (["absent.csv"], "absent.csv: expected a file, there is none"),
        (
            ["absent"],
            "absent: expected the file of a table, or a data set (densities, physionet2012, pm25, synthetic, uci)",
        ),
        (["synthetic"], "came 'no ending'"),
        (["in.csv", "--duplicates", "never"], ""),
    ):
        code, lines = run(capsys, "describe", *words)
        assert code in (1, 2)
        assert message in (lines or [""])[-1]
    (tmp_path / "synthetic").unlink()
    code, lines = run(capsys, "describe", "synthetic")
    assert code == 0
    assert "records" in "\n".join(lines)


@pytest.mark.parametrize("name", ["in.csv", "in.tsv", "in.csv.gz", "in.parquet"])
def test_a_complete_table_comes_back_at_once_to_the_bit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("trained")

    monkeypatch.setattr(TableImputer, "fit_first", never)
    plain = write(tmp_path / "plain.csv", gaps=False)
    source, out = tmp_path / name, tmp_path / f"out{name[2:]}"
    if name.endswith(".parquet"):
        pd.read_csv(plain, parse_dates=["When"]).to_parquet(source)
    else:
        frame = pd.read_csv(plain, dtype=str)
        frame.to_csv(source, index=False, sep="\t" if name.endswith("tsv") else ",", lineterminator="\r\n")
    code, lines = run(capsys, "impute", str(source), "-o", str(out))
    assert code == 0
    assert "nothing to fill: the output holds the table as it is" in lines
    assert out.read_bytes() == source.read_bytes()
    cells = pd.read_csv(tmp_path / "out.cells.csv")
    assert not len(cells)
    assert "nothing to fill" in (tmp_path / "out.report.html").read_text(encoding="utf-8")
    left = {path.name for path in tmp_path.iterdir()} - {"plain.csv", name, out.name}
    assert left == {"out.cells.csv", "out.report.html", f"out.provenance{name[2:]}"}


def test_a_complete_table_that_only_looks_so_is_filled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No cell is empty, but rows are missing."""
    source = write(tmp_path / "in.csv", gaps=False)
    lines = source.read_text().splitlines()
    source.write_text("\n".join([*lines[:30], *lines[32:]]) + "\n")
    _, said = run(capsys, "describe", str(source))
    assert "  layout: wide, 58 rows, 2 to be added" in said
    code, said = run(capsys, "impute", str(source), "-o", str(tmp_path / "out.csv"), "--effort", "trial",
                     "--n_samples", "2", "--no_calibrate")  # fmt: skip
    assert code == 0
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 61


@pytest.mark.parametrize("words", [(), ("--text", "flow")])
def test_a_column_that_could_not_be_filled_is_in_the_last_line_and_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """Unless it is named as text; the other columns are filled either way."""
    lines = write(tmp_path / "in.csv").read_text().splitlines()
    odd = [f"{line},{'' if i in (5, 6) else f'<{i}'}" for i, line in enumerate(lines[1:])]
    (tmp_path / "in.csv").write_text("\n".join([f"{lines[0]},flow", *odd]) + "\n")
    code, said = run(
        capsys, "impute", str(tmp_path / "in.csv"), "-o", str(tmp_path / "out.csv"), "--effort", "trial",
        "--n_samples", "2", "--no_calibrate", *words,
    )  # fmt: skip
    assert code == (0 if words else 3)
    assert said[-1].startswith("wrote " if words else "1 column with gaps not filled: flow: ")
    filled = pd.read_csv(tmp_path / "out.csv")
    assert filled[["Temp", "RH"]].notna().all().all()
    assert filled["flow"].isna().sum() == 2 + 2  # its own gaps, and rows that were added
    _, described = run(capsys, "describe", str(tmp_path / "in.csv"), *words)
    assert ("not filled: flow" in described[-1]) is not bool(words)


def test_ten_lines_of_a_kind_are_shown_and_the_others_counted() -> None:
    texts = [f"x{i}" for i in range(14)]
    assert shortened("look", texts[:10]) == [f"  look: {text}" for text in texts[:10]]
    assert shortened("look", texts, where="see out.report.html")[-2:] == [
        "  look: x9", "  look: and 4 more, see out.report.html",
    ]  # fmt: skip
    assert len(shortened("look", texts, most=None)) == 14
    assert shortened("look", []) == []


def scores(linear: float, model: float, cells: int = 500, **others: float) -> list[dict[str, str | float]]:
    rows = {"last value carried forward": 9.0, "linear interpolation": linear, **others, "flow_matching": model}
    return [
        {"imputer": name, "units": "degC", "cells": cells, "MAE": error, "RMSE": 10 - error}
        for name, error in rows.items()
    ]


def test_a_method_that_is_clearly_nearer_than_what_was_delivered_is_named() -> None:
    text = behind(scores(0.5, 0.75), "normal")
    assert text is not None
    assert text.startswith(
        "linear interpolation is nearer to the hidden values than what was delivered: mean absolute error 0.5 against "
        "0.75 (degC)."
    )
    assert "--effort thorough" in in_options(text, options_of("impute"))
    assert "effort" not in (behind(scores(0.5, 0.75), "thorough") or "effort")
    given = behind(scores(0.5, 0.75), None)
    assert given is not None
    assert "Learning from the table itself (no model) may help." in given
    assert "effort" not in given
    for nothing in (scores(0.5, 0.5), scores(0.5, 0.25), scores(0.5, float("nan")), scores(0.72, 0.75), (),
                    scores(0.5, 0.75)[-1:], scores(0.65, 0.75, cells=50)):  # fmt: skip
        assert behind(nothing, "normal") is None


def test_any_method_that_was_measured_on_the_same_cells_may_be_the_nearer_one() -> None:
    for name in ("kNN", "gaussian", "the median"):
        assert (behind(scores(0.7, 0.75, **{name: 0.4}), "normal") or "").startswith(f"{name} is nearer")
    elsewhere = scores(0.74, 0.75, kNN=0.4)
    elsewhere[2]["cells"] = 400
    assert behind(elsewhere, "normal") is None
    squared = behind(scores(0.7, 0.75, other=2.5), "normal", categories=True)
    assert squared is not None
    assert "root mean square error" in squared
    assert squared.startswith("last value carried forward is nearer")


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version") == (0, [f"tsimpute {tsimpute.__version__}"])


@pytest.mark.parametrize("command", sorted(ARGUMENTS))
def test_help_says_what_is_so(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = run(capsys, *command.split(), "--help")
    text = " ".join(" ".join(lines).split())
    assert code == 0
    assert "exit codes: 0 done; 1 refused" in text
    for word in ("found out", "null", "<class", "Literal[", "default: False"):
        assert word not in text.replace("(type: ", ""), word
    if command in ("impute", "describe"):
        assert "Default: no limits" in text
        assert "Default: none, it is not detected" in text
