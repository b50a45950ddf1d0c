"""The exit code says whether the command line is to be changed (2) or what it works on (1), for every option."""

from __future__ import annotations

from pathlib import Path

import pytest

from tsimpute.cli.commands import main
from tsimpute.cli.parsing import EXIT_CODES, Parser
from tsimpute.cli.tables import add_arguments

WRONG = {
    "model": ["no such model"], "rename": ["HR", "T=HR"], "quantiles": ["0.1,high", "0,1", "2", ""],
    "effort": ["huge"], "minutes": ["0", "soon"],
    "n_samples": ["0", "many"], "seed": ["x"], "calibrate": ["maybe"], "time": ["nosuch"],
    "group": ["nosuch"], "features": ["nosuch", "none"], "text": ["nosuch"], "feature": ["nosuch"],
    "value": ["nosuch"], "unit": ["nosuch", "T"], "units": ["T", "nosuch=m"],
    "limits": ["T", "T=high:", "nosuch=0:", "T=5:1", "physionet"], "predict": ["nosuch"],
    "missing_codes": ["T=NR", "nosuch=-9"], "timezone": ["Mars/Olympus"], "delimiter": ["abc"], "decimal": ["abc"],
    "encoding": ["klingon"], "dayfirst": ["maybe"], "irregular": ["maybe"], "duplicates": ["some"],
    "missing_times": ["some"], "records": ["people"], "categories": ["nosuch", "T"],
    "no_information": ["some"], "max_gap": ["-1", "x"],
}  # fmt: skip
FLAGS = {"recalibrate": 2, "drop_invalid": 2}
FREE = {"help", "source", "out", "force", "calendar", "missing_marks"}
"""Flags that cannot be wrong, and texts of any kind."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [f"2024-01-0{1 + h // 24} {h % 24:02d}:00,{'' if h == 5 else 10 + h % 7}.5,x" for h in range(60)]
    (tmp_path / "in.csv").write_text("when,T,note\n" + "\n".join(rows).replace(",.5", ",") + "\n")
    return tmp_path


def code_of(*words: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as stop:
        main(list(words))
    code = stop.value.code
    return (code, str(stop.value)) if isinstance(code, int) else (1, str(code))


def test_every_option_has_a_wrong_value_here() -> None:
    parser = Parser()
    add_arguments(parser)
    options = {action.dest for action in parser._actions}
    assert options - FREE == {*WRONG, *FLAGS}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_value_that_is_not_possible_ends_with_2(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, value: str
) -> None:
    assert code_of("impute", "in.csv", "-o", "out.csv", f"--{name}={value}")[0] == 2
    error = capsys.readouterr().err
    assert error.startswith("tsimpute impute: ")
    assert error.count("\n") == 1
    assert [path.name for path in folder.iterdir()] == ["in.csv"]


@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_that_lacks_its_partner_ends_with_2(folder: Path, name: str) -> None:
    assert code_of("impute", "in.csv", "-o", "out.csv", f"--{name}")[0] == 2


def test_what_the_command_works_on_ends_with_1(folder: Path) -> None:
    assert code_of("impute", "absent.csv", "-o", "out.csv")[0] == 1
    for text in ("when,note\n2024-01-01,x\n", "when,T\n2024-01-01,\n2024-01-02,\n"):
        (folder / "in.csv").write_text(text)
        assert code_of("impute", "in.csv", "-o", "out.csv")[0] == 1


def test_an_output_that_exists_ends_with_2_and_the_help_says_so(folder: Path) -> None:
    (folder / "out.csv").write_text("")
    code, _ = code_of("impute", "in.csv", "-o", "out.csv")
    assert code == 2
    assert "2 the command line is wrong" in " ".join(EXIT_CODES.split())
    assert "or the output exists" in EXIT_CODES


@pytest.mark.parametrize(
    "words",
    [
        ["describe", "in.csv", "--limits", "T"], ["describe", "in.csv", "--picture", "x.png"],
        ["draw", "m", "--out", "x.csv", "--quantiles", "2"], ["draw", "m", "--out", "x.csv", "--quantiles", "high"],
        ["train", "--out", "x", "--training.epochs", "0"], ["train", "--out", "x", "--protocol.rate", "1.5"],
    ],
)  # fmt: skip
def test_other_commands_end_with_2_too(folder: Path, words: list[str]) -> None:
    assert code_of(*words)[0] == 2
