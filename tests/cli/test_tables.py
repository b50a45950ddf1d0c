"""``tsimpute impute``: its arguments reach the result, wrong ones end in one sentence, Ctrl-C leaves no half file."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tsimpute.cli.commands import _parse, main
from tsimpute.cli.tables import _codes, settings_of
from tsimpute.errors import ConfigError
from tsimpute.filling.files import outputs as module
from tsimpute.system.terminal import Bars


def write(path: Path, marks: tuple[str, str, str] = ("-200", "NR", "")) -> Path:
    """Two features of 60 hours in two stations; with a code, a mark, an empty field, a long gap and a wild value."""
    lines = ["Date,Time,Plant,PM2.5,RH"]
    for plant in ("01", "1"):
        for h in range(60):
            pm, rh = f"{10 + h % 7}.5", str(50 + h % 11)
            if plant == "01":
                pm = {5: marks[0], 6: marks[0], 9: marks[1], 11: marks[2], 30: "9000.0"}.get(h, pm)
                pm = "" if 40 <= h < 50 else pm
            lines.append(f"2020-01-{1 + h // 24:02d},{h % 24:02d}:00,{plant},{pm},{'' if plant == '1' else rh}")
    path.write_text("\n".join(lines) + "\n")
    return path


ROLES = ["--time", "Date,Time", "--group=Plant", "--features", "PM2.5,RH"]


LIMITS = ["--limits", "PM2.5=0:500,RH=0:100"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a file without what stands in the way, learnt with limits."""
    folder = tmp_path_factory.mktemp("cli")
    source = write(folder / "in.csv", ("", "", ""))
    main(["impute", str(source), "-o", str(folder / "out.csv"), "--effort", "trial", "--n-samples=5", *ROLES, *LIMITS])
    return folder / "out.model.safetensors"


def run(model: Path, folder: Path, *words: str) -> tuple[list[str], list[str], pd.DataFrame]:
    """Lines of the output and of the marks, and the table of cells."""
    write(folder / "in.csv")
    main([
        "impute", str(folder / "in.csv"), "-o", str(folder / "out.csv"), "--model", str(model), "--n_samples", "5",
        "--no_calibrate", *ROLES, *LIMITS, *words,
    ])  # fmt: skip
    table, marks = ((folder / name).read_text().splitlines() for name in ("out.csv", "out.provenance.csv"))
    return table, marks, pd.read_csv(folder / "out.cells.csv", dtype={"group": str})


def test_codes_marks_levels_gaps_and_groups_reach_the_result(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, marks, cells = run(
        model, tmp_path, "--missing-codes", "-200,NR", "--quantiles", "0.9,0.25", "--max-gap", "3",
        "--no-information", "empty", "--units", "PM2.5=µg/m³,RH=%",
    )  # fmt: skip
    before = (tmp_path / "in.csv").read_text().splitlines()
    changed = [i for i, (old, new) in enumerate(zip(before, table, strict=True)) if old != new]
    assert changed == [6, 7, 10, 12]
    assert marks[6] == "2020-01-01,05:00,01,imputed,observed"
    assert all(marks[1 + h] == f"2020-01-02,{h - 24:02d}:00,01,left empty,observed" for h in range(40, 48))
    assert all(line.endswith("observed,left empty") for line in marks[61:])
    assert list(cells)[-2:] == ["q0.25", "q0.9"]
    assert set(cells["unit"]) == {"µg/m³", "%"}
    assert set(cells["group"]) == {"01", "1"}
    said = capsys.readouterr().out
    assert "Plant: 2 series" in said
    assert "-200: 2 cells" in said


@pytest.mark.parametrize("drop", [True, False])
def test_limits_hold_and_invalid_values_go_only_when_asked(model: Path, tmp_path: Path, drop: bool) -> None:
    words = ["--drop-invalid"] if drop else []
    table, marks, _ = run(model, tmp_path, "--missing-codes=-200,NR", *words)
    assert ("9000.0" in table[31]) is not drop
    assert marks[31].split(",")[3] == ("declared invalid" if drop else "observed")
    assert "no information" in marks[61]
    filled = pd.read_csv(tmp_path / "out.cells.csv").filter(regex="value|q")
    assert ((filled >= 0) & (filled <= 500)).all().all()


@pytest.mark.parametrize("limits", ["PM2.5=5:500", "PM2.5=0:400", "PM2.5=0:500:int"])
def test_limits_that_a_model_has_not_learnt_are_refused(model: Path, tmp_path: Path, limits: str) -> None:
    with pytest.raises(SystemExit, match="limits that the model has learnt"):
        run(model, tmp_path, "--missing-codes=-200,NR", "--limits", limits)
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_no_code_is_a_code_where_none_is_said(model: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "x.csv", ("-200", "", ""))
    words = ["--model", str(model), "--no_calibrate", "--n_samples", "2", *ROLES, "--limits", "PM2.5=0:500"]
    for codes, kept in (("none", True), ("-200", False)):
        main(["impute", str(source), "-o", str(tmp_path / "out.csv"), "--missing_codes", codes, "--force", *words])
        assert ("-200" in (tmp_path / "out.csv").read_text()) is kept


def settings(*words: str) -> dict[str, Any]:
    return settings_of(_parse(["impute", "in.csv", "-o", "out.csv", *words])[1])


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["--time", "none"], "time", []),
        (["--time", "Date, Time"], "time", ["Date", "Time"]),
        (["--features", '"a, b",c'], "features", ["a, b", "c"]),
        (["--units", "x=y=%,z=mm"], "units", {"x=y": "%", "z": "mm"}),
        (["--no-information", "empty"], "no_information", "empty"),
        (["--missing_times", "keep"], "missing_times", "keep"),
        (["--max-gap=3"], "max_gap", 3),
        (["--drop_invalid"], "drop_invalid", True),
        (["--dayfirst", "true"], "dayfirst", True),
        (["--irregular", "false"], "irregular", False),
        (["--timezone", "Europe/Rome"], "timezone", "Europe/Rome"),
        (["--seed", "-3"], "seed", -3),
        (["--quantiles", "0.1, 0.9"], "quantiles", (0.1, 0.9)),
        (["--feature", "p", "--value", "v"], "value", "v"),
        (["--missing_codes", "-200,NR"], "missing_codes", (-200.0,)),
        (
            ["--missing_codes", "a=99,a=-1,b c=none,-5,NR"],
            "missing_codes",
            {"a": [99.0, -1.0], "b c": [], "*": (-5.0,)},
        ),
        (["--missing_codes", "CO(GT)=-200"], "missing_codes", {"CO(GT)": [-200.0], "*": "certain"}),
    ],
)
def test_an_argument_becomes_its_setting(words: list[str], name: str, value: object) -> None:
    assert settings(*words)[name] == value
    others = {key: found for key, found in settings().items() if key not in (name, "feature")}
    assert others == {key: found for key, found in settings(*words).items() if key not in (name, "feature")}


@pytest.mark.parametrize(
    ("text", "numbers", "marks"),
    [
        (None, "certain", ()), ("none", (), ()), ("-200", (-200.0,), ()), ("-200,NR", (-200.0,), ("NR",)),
        ("NR, x", "certain", ("NR", "x")), ("nan,inf,1e3", (1000.0,), ("nan", "inf")),
    ],
)  # fmt: skip
def test_codes_are_numbers_and_marks_are_texts(text: str | None, numbers: object, marks: tuple[str, ...]) -> None:
    assert _codes(text) == (numbers, marks)


@pytest.mark.parametrize("text", ["T=NR", "-999,T=x", "T="])
def test_a_text_for_one_feature_is_refused_as_it_would_do_nothing(text: str) -> None:
    with pytest.raises(ConfigError, match=r"missing_codes: expected a number or none for one feature, came 'T="):
        _codes(text)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--quantiles", "0.1,high"], "--quantiles: expected comma-separated numbers, came 'high'."),
        (["--quantiles", "0,1"], "--quantiles: expected one or more levels in (0, 1)"),
        (["--limits", "PM2.5"], "--limits: expected NAME=LOW:HIGH"),
        (["--units", "PM2.5"], "--units: expected name=unit"),
        (["--group", "Station"], "'Station'"),
        (["--encoding", "klingon"], "encoding"),
        (["--delimiter", "abc"], "delimiter"),
        (["--timezone", "Mars/Olympus", "--time", "Date,Time"], "Mars/Olympus"),
        (["--model", "absent.safetensors"], "absent.safetensors"),
        (["-o", "."], "output"),
    ],
)
def test_a_wrong_value_ends_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "in.csv", ("", "", ""))
    with pytest.raises(SystemExit, match=r"^tsimpute impute: ") as stop:
        main(["impute", "in.csv", "-o", "out.csv", *ROLES, *words])
    assert message in str(stop.value)
    assert "\n" not in str(stop.value)
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_what_is_absent_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="there is none"):
        main(["impute", str(tmp_path / "no.csv"), "-o", "x.csv"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["impute"], "tsimpute impute: expected SOURCE and --out, came none. See tsimpute impute --help."),
        (["impute", "x.csv"], "tsimpute impute: expected --out, came none."),
        (
            ["impute", "--effort", "huge"],
            "--effort: expected one of auto, instant, trial, quick, normal, thorough, came 'huge'.",
        ),
        (["impute", "--max-gap", "long"], "--max_gap: expected a whole number, came 'long'."),
        (["impute", "--dayfirst", "maybe"], "--dayfirst: expected true or false, came 'maybe'."),
        (["impute", "x.csv", "-o", "y.csv", "--nonsense", "3"], "expected one of the options; came --nonsense. "),
        (["train", "--out", "x", "--training.epoch", "1"], "came --training.epoch, the nearest is --training.epochs. "),
        (["impute", "a.csv", "--ou", "b.csv"], "came --ou, the nearest is --out. "),
        (["evaluate", "x", "--base"], "came --base, the nearest is --baselines. "),
        (["suite", "run", "tiny", "--out=x", "--minute=3"], "came --minute, the nearest is --minutes. "),
        (["impute", "x.csv", "-o", "y.csv", "--force", "true"], "unrecognized arguments: true."),
        (["draw", "m", "--out", "x.csv", "--force", "true"], "unrecognized arguments: true."),
        (["evaluate", "run", "--baselines", "true"], "unrecognized arguments: true."),
        (["train", "--out", "x", "--training.learning_rate", "fast"], "--training.learning_rate: expected a number"),
        (["suite"], "tsimpute suite: expected a command, came none. See tsimpute suite --help."),
        (["suite", "run", "tiny"], "tsimpute suite: expected --out, came none."),
        ([], "tsimpute: expected a command, came none. See tsimpute --help."),
        (
            ["fill"],
            "expected a command: one of demo, impute, describe, fetch, train, evaluate, draw, suite, doctor; ",
        ),
    ],
)
def test_a_wrong_argument_ends_in_one_sentence_and_exit_code_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    out, error = capsys.readouterr()
    assert not out
    assert error.startswith("tsimpute")
    assert message in error
    assert error.count("\n") == 1


def test_a_disk_error_ends_in_one_sentence(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_object", full)
    with pytest.raises(SystemExit, match=r"^tsimpute impute: .*No space left"):
        run(model, tmp_path, "--missing-codes=-200,NR")
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("at", ["learning", "measuring", "imputing"])
def test_an_interrupt_ends_in_one_sentence_and_leaves_the_state_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    source, seen = write(tmp_path / "in.csv", ("", "", "")), []

    def interrupt(bars: Bars, what: str, done: int, total: int) -> None:
        seen.append(what)
        if seen.count(at) == 1 and what == at:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Bars, "update", interrupt)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit, match=r"stopped before anything was written; .*goes on.*\.out\.unfinished") as stop:
        main(["impute", str(source), "-o", str(tmp_path / "out.csv"), "--effort=trial", "--n_samples", "2", *ROLES])
    assert isinstance(stop.value.code, str)  # which Python turns into exit code 1
    assert {path.name for path in tmp_path.iterdir()} == {"in.csv", ".out.unfinished"}
    assert signal.getsignal(signal.SIGINT) is before


def test_progress_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Bars({"learning": "step"}) as bars:
        for done in (2, 2):
            bars.update("learning", done, 2)
        bars.update("imputing", 3, 3)
    assert capsys.readouterr().err.splitlines() == ["learning: 2/2", "imputing: 3/3"]


def test_fill_says_what_it_understood_and_did(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path / "in.csv", ("", "", ""))
    words = ["--model", str(model), "--n_samples", "5", *LIMITS, "--effort", "trial", *ROLES]
    main(["impute", str(source), "-o", str(tmp_path / "out.csv"), *words])
    text = capsys.readouterr().out
    assert f"{source}:\n  layout: wide, 120 rows\n" in text
    assert "50/90/95 % intervals as drawn hold" in text
    assert "files: out.csv, out.provenance.csv, out.cells.csv, out.report.html\n" in text
    counts = pd.read_csv(tmp_path / "out.cells.csv")["provenance"].value_counts()
    assert all(f"{n} {word}" in text for word, n in counts.items())
    np.testing.assert_array_less(-1e-9, pd.read_csv(tmp_path / "out.csv")["PM2.5"])
