"""A person's file filled: what is written, what is refused before any work, and what an interruption leaves."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from tsimpute.errors import BusyError, CheckpointError, ConfigError, DataError, ImputationWarning
from tsimpute.filling.blending.blend import Blend
from tsimpute.filling.blending.choosing import FIRST
from tsimpute.filling.blending.mixture import Mixture
from tsimpute.filling.files import fill_file as module
from tsimpute.filling.files import outputs as outputs_module
from tsimpute.filling.files.fill_file import fill_file
from tsimpute.filling.files.outputs import Outputs
from tsimpute.filling.imputer.table_imputer import TableImputer
from tsimpute.filling.measuring.calibration import Calibration
from tsimpute.filling.preparing.prepared import understood
from tsimpute.system.files import exclusive_lock

TRIAL: dict[str, Any] = {"effort": "trial", "n_samples": 5}
NAMES = {"out.csv", "out.provenance.csv", "out.cells.csv", "out.report.html", "out.model.safetensors"}


def write(path: Path, seed: int = 0, names: tuple[str, str] = ("pm", "temp"), hours: int = 1) -> Path:
    """100 rows of two related features with gaps, one time without a row."""
    rng = np.random.default_rng(seed)
    wave = 10 + 5 * np.sin(np.arange(100) / 4) + rng.normal(size=100)
    texts = [[f"{x:.1f}" for x in wave], [f"{x:.0f}" for x in 3 * wave]]
    for k, gap in ((0, slice(10, 12)), (0, slice(30, 37)), (1, slice(50, 51)), (1, slice(33, 35))):
        texts[k][gap] = [""] * (gap.stop - gap.start)
    times = pd.date_range("2020-01-01", periods=100, freq=f"{hours}h").strftime("%d.%m.%Y %H:%M")
    rows = [f"{time};{a};{b};ok\r\n" for time, a, b in zip(times, *texts, strict=True)]
    path.write_bytes((f"time;{names[0]};{names[1]};flag\r\n" + "".join(rows[:70] + rows[71:])).encode())
    return path


def stopping(at: str, after: int = 1) -> tuple[Callable[[str, int, int], None], Callable[[], bool]]:
    """Progress, and what then asks to stop."""
    seen = {"learning": 0, "measuring": 0, "imputing": 0}

    def progress(what: str, done: int, total: int) -> None:
        seen[what] += 1

    return progress, lambda: seen[at] >= after


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file that was filled without disturbance."""
    folder = tmp_path_factory.mktemp("filled")
    found = fill_file(write(folder / "in.csv"), folder / "out.csv", TRIAL)
    assert found is not None
    return folder


def test_only_gaps_and_missing_times_change(done: Path) -> None:
    before, after = ((done / name).read_bytes().split(b"\r\n") for name in ("in.csv", "out.csv"))
    new = [line for line in after if line not in before]
    assert [line for line in after if line in before] == [line for line in before if b";;" not in line]
    assert len(after) == len(before) + 1
    assert len(new) == 2 + 7 + 1 + 1
    assert all(len(line.split(b";")[1].split(b".")[1]) == 1 and b"." not in line.split(b";")[2] for line in new)
    assert [line.split(b";")[0] for line in new if line.endswith(b";ok")] != []


def test_what_is_beside_the_table_says_what_each_cell_is(done: Path) -> None:
    assert {path.name for path in done.iterdir()} == NAMES | {"in.csv"}
    table, marks = (pd.read_csv(done / name, sep=";") for name in ("out.csv", "out.provenance.csv"))
    assert list(marks["time"]) == list(table["time"])
    assert marks[["pm", "temp"]].stack().value_counts().to_dict() == {"observed": 186, "imputed": 14}
    cells = pd.read_csv(done / "out.cells.csv")
    assert list(cells) == ["group", "time", "step", "feature", "unit", "provenance", "value", "q0.05", "q0.5", "q0.95"]
    assert len(cells) == 14
    assert (cells["q0.05"] <= cells["value"]).all()
    assert (cells["value"] <= cells["q0.95"]).all()
    in_table = table.loc[(marks["pm"] == "imputed"), "pm"].to_numpy()
    np.testing.assert_allclose(in_table, cells.loc[cells["feature"] == "pm", "value"], atol=0.05 + 1e-6)
    page = (done / "out.report.html").read_text(encoding="utf-8")
    assert all(name in page for name in NAMES)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_file_that_is_there_is_refused_before_any_work(done: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(ConfigError, match=f"{name} exists.*force=True"):
        fill_file(done / "in.csv", tmp_path / "out.csv", TRIAL, say=pytest.fail, progress=pytest.fail)  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


@pytest.mark.parametrize(
    ("source", "out", "message"),
    [
        ("in.csv", "in.csv", "other than the input"),
        ("a.cells.csv", "a.csv", "other than the input"),
        ("in.csv", "absent/out.csv", "there is none. Make it first"),
        ("in.csv", "out.parquet", "expected a name that ends in"),
        ("in.csv", "out", "expected a name that ends in"),
        ("in.csv", "folder.csv", "is a folder"),
        ("book.xlsx", "out.xlsx", "as .csv"),
    ],
)
def test_an_output_that_cannot_be_is_refused_even_with_force(
    tmp_path: Path, source: str, out: str, message: str
) -> None:
    write(tmp_path / source)
    (tmp_path / "folder.csv").mkdir()
    before = {path.name for path in tmp_path.iterdir()}
    with pytest.raises(ConfigError, match=message):
        fill_file(tmp_path / source, tmp_path / out, TRIAL, force=True, say=pytest.fail)  # type: ignore[arg-type]
    assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"quantiles": (0.5, 1.0)}, r"levels in \(0, 1\)"),
        ({"quantiles": (float("nan"),)}, r"levels in \(0, 1\)"),
        ({"n_samples": 0}, "n_samples: expected a whole number from 1, came 0"),
        ({"max_gap": -1}, "max_gap"),
        ({"units": {"PM": "ppb"}}, "units: expected features of the table"),
        ({"limits": {"PM": (0, None)}}, "PM"),
        ({"features": ["nothing"]}, "nothing"),
        ({"drop_invalid": True}, "limits"),
        ({"effort": "huge"}, "effort"),
        ({"model": "absent.safetensors"}, "absent.safetensors"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_learning(
    done: Path, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises((ConfigError, CheckpointError), match=message):
        fill_file(done / "in.csv", tmp_path / "out.csv", TRIAL | settings, progress=pytest.fail)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("at", "after", "learnt"), [("learning", 7, 7), ("measuring", 1, 19), ("imputing", 1, 19)])
def test_a_stopped_run_goes_on_to_the_same_bytes(done: Path, tmp_path: Path, at: str, after: int, learnt: int) -> None:
    """Learning that is done shows as its last step, of 20."""
    progress, should_stop = stopping(at, after)
    out = tmp_path / "out.csv"
    assert fill_file(done / "in.csv", out, TRIAL, progress=progress, should_stop=should_stop) is None
    assert [path.name for path in tmp_path.iterdir()] == [".out.unfinished"]
    steps: list[int] = []
    fill_file(done / "in.csv", out, TRIAL, progress=lambda what, n, _: steps.append(n) if what == "learning" else None)
    assert min(steps) > learnt
    for name in ("out.csv", "out.cells.csv", "out.provenance.csv"):
        assert (tmp_path / name).read_bytes() == (done / name).read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == NAMES


def test_a_killed_run_goes_on_to_the_same_bytes(done: Path, tmp_path: Path) -> None:
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom tsimpute.filling.files.fill_file import fill_file\n"
        "die = lambda what, n, total: os.kill(os.getpid(), 9) if (what, n) == ('learning', 9) else None\n"
        f"fill_file(Path(sys.argv[1]), Path(sys.argv[2]), {TRIAL}, progress=die)"
    )
    out = tmp_path / "out.csv"
    killed = subprocess.run([sys.executable, "-c", code, str(done / "in.csv"), str(out)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir()] == [".out.unfinished"]
    steps: list[int] = []
    fill_file(done / "in.csv", out, TRIAL, progress=lambda what, n, _: steps.append(n) if what == "learning" else None)
    assert steps[0] == 10
    assert out.read_bytes() == (done / "out.csv").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == NAMES


@pytest.mark.parametrize("given", [False, True])
def test_two_at_once_into_one_output_are_refused(done: Path, tmp_path: Path, given: bool) -> None:
    source, out = write(tmp_path / "in.csv"), tmp_path / "out.csv"
    settings = TRIAL | ({"model": done / "out.model.safetensors"} if given else {})
    state = Outputs.named_after(out).state
    with (
        exclusive_lock(state),
        pytest.raises(BusyError, match=r"out\.csv: expected to be alone here"),
    ):  # as another process
        fill_file(source, out, settings)
    assert {path.name for path in tmp_path.iterdir()} == {"in.csv", state.name}
    assert fill_file(source, out, settings) is not None
    assert not state.exists()


@pytest.mark.parametrize("other", ["another file", "another seed", "other limits"])
def test_the_state_of_another_run_is_not_taken_up(done: Path, tmp_path: Path, other: str) -> None:
    progress, should_stop = stopping("learning", 5)
    out = tmp_path / "out.csv"
    fill_file(done / "in.csv", out, TRIAL, progress=progress, should_stop=should_stop)
    source = write(tmp_path / "in.csv", seed=1) if other == "another file" else done / "in.csv"
    more = {"another seed": {"seed": 1}, "other limits": {"limits": {"pm": (0, None)}}}.get(other, {})
    first: list[int] = []
    progress, should_stop = stopping("learning", 1)
    fill_file(
        source, out, TRIAL | more, should_stop=should_stop,
        progress=lambda what, n, total: (first.append(n), progress(what, n, total))[1],
    )  # fmt: skip
    assert first[0] == 1
    assert not out.exists()


def test_a_run_that_was_killed_while_it_wrote_writes_again(
    done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, model = tmp_path / "out.csv", {"model": done / "out.model.safetensors"}

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(outputs_module, "write_object", die)
    with pytest.raises(KeyboardInterrupt):
        fill_file(done / "in.csv", out, TRIAL | model)
    assert (tmp_path / "out.report.html").exists()
    assert not out.exists()
    monkeypatch.undo()
    assert fill_file(done / "in.csv", out, TRIAL | model) is not None
    assert {path.name for path in tmp_path.iterdir()} == NAMES - {"out.model.safetensors"}


def test_a_model_fills_another_file_whose_columns_stand_otherwise(done: Path, tmp_path: Path) -> None:
    source = write(tmp_path / "other.csv", seed=2)
    swapped = [";".join(line.split(";")[i] for i in (0, 2, 1, 3)) for line in source.read_text().splitlines()]
    (tmp_path / "swapped.csv").write_text("\n".join(swapped) + "\n")
    settings = TRIAL | {"model": str(done / "out.model.safetensors"), "calibrate": False}
    first = fill_file(source, tmp_path / "a.csv", settings)
    second = fill_file(tmp_path / "swapped.csv", tmp_path / "b.csv", settings)
    assert first is not None
    assert second is not None
    assert first.counts() == second.counts() == {**first.counts(), "observed": 186, "imputed": 14}
    np.testing.assert_array_equal(first.fillings[0].point, second.fillings[0].point[::-1])
    assert not (tmp_path / "a.model.safetensors").exists()


@pytest.mark.parametrize(
    ("made", "settings", "message"),
    [
        ({"names": ("pm", "wind")}, {}, "absent from the table: temp; not known to the model: wind"),
        ({"hours": 3}, {}, "step"),
    ],
)
@pytest.mark.parametrize("calibrate", [True, False])
def test_a_file_that_is_not_the_models_is_refused(
    done: Path, tmp_path: Path, made: dict[str, Any], settings: dict[str, Any], message: str, calibrate: bool
) -> None:
    source = write(tmp_path / "other.csv", **made)
    settings = TRIAL | settings | {"model": done / "out.model.safetensors", "calibrate": calibrate}
    with pytest.raises(DataError, match=message):
        fill_file(source, tmp_path / "out.csv", settings)
    assert [path.name for path in tmp_path.iterdir()] == ["other.csv"]


def test_parquet_is_filled_in_kind(done: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(done / "in.csv", sep=";").astype({"pm": "float32", "temp": "Int16"})
    frame["time"] = pd.to_datetime(frame["time"], dayfirst=True)
    frame = frame.set_index("time")
    frame.to_parquet(tmp_path / "in.parquet")
    settings = TRIAL | {"model": done / "out.model.safetensors", "calibrate": False}
    fill_file(tmp_path / "in.parquet", tmp_path / "out.parquet", settings)
    after = pd.read_parquet(tmp_path / "out.parquet")
    assert after.dtypes.to_dict() == pd.read_parquet(tmp_path / "in.parquet").dtypes.to_dict()
    assert not after[["pm", "temp"]].isna().any().any()
    for name in ("pm", "temp"):
        known = frame[name].dropna()
        pd.testing.assert_series_equal(after.loc[known.index, name], known, check_freq=False, check_index_type=False)
    assert list(pd.read_parquet(tmp_path / "out.provenance.parquet")) == ["pm", "temp"]


@pytest.mark.parametrize(
    ("out", "provenance", "others"),
    [
        ("a.csv", "a.provenance.csv", "a"),
        ("a.b.2015.csv", "a.b.2015.provenance.csv", "a.b.2015"),
        ("A.CSV.GZ", "A.provenance.CSV.GZ", "A"),
        ("a.zarr", "a.provenance.zarr", "a"),
        ("a", "a.provenance", "a"),
    ],
)
def test_what_stands_beside_is_named_after_the_table(out: str, provenance: str, others: str) -> None:
    found = Outputs.named_after(Path("some.where") / out)
    assert found.files == tuple(
        Path("some.where") / name
        for name in (out, provenance, *(f"{others}.{end}" for end in ("cells.csv", "report.html", "model.safetensors")))
    )
    assert found.state == Path("some.where") / f".{others}.unfinished"
    assert Outputs.named_after(Path(out), learns=False).files == tuple(Path(path.name) for path in found.files[:-1])


def interrupted(source: Path, out: Path) -> dict[str, Any]:
    """Writes the first answer of an effort that is timed, and stops while it is improved; the settings."""
    settings = {"limits": (0, None), "n_samples": 4, "minutes": 60}
    said: list[str] = []
    fill_file(source, out, settings, say=said.append, should_stop=lambda: "the first answer" in "".join(said[1:]))
    assert "stopped: " in said[-1]
    return settings


@pytest.mark.parametrize("name", ["out.csv", "out.cells.csv", "out.report.html"])
def test_a_first_answer_that_was_edited_is_not_overwritten_by_the_next_run(tmp_path: Path, name: str) -> None:
    source, out = write(tmp_path / "in.csv"), tmp_path / "out.csv"
    settings = interrupted(source, out)
    with (tmp_path / name).open("a") as file:
        file.write("a remark\n")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    with pytest.raises(ConfigError, match=rf"{name} as the interrupted run wrote it, but it was changed .*force=True"):
        fill_file(source, out, settings, say=pytest.fail)  # type: ignore[arg-type]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    other = tmp_path / "other.csv"
    assert fill_file(source, other, settings | {"minutes": None, "effort": "instant"}) is not None
    assert fill_file(source, out, settings | {"minutes": None, "effort": "instant"}, force=True) is not None
    assert out.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("helps", [True, False])
def test_a_first_answer_that_is_edited_while_it_is_improved_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, helps: bool
) -> None:
    def improved(material: Any, first: Any, *_: Any) -> Any:
        methods = first.base.whole
        scores = (*first.scores[:-1], first.scores[-1] | {"imputer": FIRST}, first.scores[-1])
        model = Mixture(methods, Blend.nothing(len(methods.components), 2))
        return replace(first, model=model, scores=scores) if helps else first

    monkeypatch.setattr("tsimpute.filling.imputer.fitting.with_forest", improved)
    source, out, said = write(tmp_path / "in.csv"), tmp_path / "out.csv", []
    (tmp_path / "out.improved.csv").write_text("mine")

    def say(text: str) -> None:
        said.append(text)
        if "the first answer, which can be used" in text:
            out.write_text("edited")

    assert fill_file(source, out, {"limits": (0, None), "n_samples": 4}, say=say, force=True) is not None
    assert out.read_text() == "edited"
    assert (tmp_path / "out.improved.csv").read_text() == "mine"
    new = tmp_path / "out.improved2.csv"
    text = f"{out} was changed after it was written: it is kept, the result goes to {new}"
    assert (text in said) == helps == new.exists() == (tmp_path / "out.improved2.report.html").exists()
    assert said[-1] == f"wrote {new if helps else out}"
    assert not helps or new.read_bytes().count(b"\r\n") == 101
    assert not Outputs.named_after(out).state.exists()


@pytest.mark.parametrize("code", ["", "-999"])
def test_a_table_without_a_value_is_refused(tmp_path: Path, code: str) -> None:
    source = tmp_path / "in.csv"
    days = pd.date_range("2024-01-01", periods=30).strftime("%Y-%m-%d")
    source.write_text("time,a,b\n" + "".join(f"{day},{code},{code}\n" for day in days))
    match = r"table: expected at least one value to learn from, all cells of a, b are missing\. Choose"
    settings = TRIAL | {"missing_codes": {"*": -999}}
    with pytest.raises(DataError, match=match):
        fill_file(source, tmp_path / "out.csv", settings)
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]
    with pytest.raises(DataError, match=match):
        TableImputer(**settings).fit_draw(pd.read_csv(source, parse_dates=["time"]), progress=False)
    source.write_text(source.read_text() + "2024-01-31,5,\n2024-02-01,7,\n")
    with pytest.warns(ImputationWarning):  # one column without a value stays empty
        TableImputer(**settings).fit_draw(pd.read_csv(source, parse_dates=["time"]), progress=False)


def test_the_reason_is_said_where_nothing_is_calibrated() -> None:
    said = []
    for imputer in (TableImputer(), TableImputer(calibrate=False)):
        imputer.imputer_, imputer.calibration_ = cast(Any, SimpleNamespace(method="a", sampler="b")), Calibration()
        imputer.scores_, imputer.delivered_ = ({"imputer": "linear interpolation", "cells": 36},), ""
        said.append(dict(module._done(imputer, cast(Any, SimpleNamespace(counts=dict)), 1.0))["calibrated"])
    assert said[0].startswith("no, the quantiles are as drawn: calibration needs 100 hidden cells and had 36")
    assert said[1] == "no, as set"


def test_intervals_that_are_not_calibrated_are_pointed_out_with_what_they_hold() -> None:
    imputer = TableImputer()
    imputer.imputer_, imputer.calibration_ = cast(Any, SimpleNamespace()), Calibration()
    covers = {f"coverage {percent} %, as drawn": share for percent, share in ((50, 0.31), (90, 0.63))}
    imputer.scores_ = ({"imputer": "delivered", "cells": 59} | covers,)
    text = module._uncalibrated(imputer)
    assert text is not None
    assert text.startswith("intervals are not calibrated, as too few cells could be hidden")
    assert text.endswith("of the 59 hidden cells 31/63 % lie in 50/90 % intervals")
    imputer.calibration_ = Calibration({0.9: 1.0}, 100)
    assert module._uncalibrated(imputer) is None
    assert module._uncalibrated(cast(Any, SimpleNamespace(imputer_=None))) is None


def test_an_empty_cell_of_a_repeated_time_gets_what_the_file_holds_for_it(tmp_path: Path) -> None:
    source, out, said = tmp_path / "in.csv", tmp_path / "out.csv", list[str]()
    rows = [f"16.03.2024 {h:02d}:00;{15 + h % 5},5;{31 + h % 7},0" for h in range(24)]
    source.write_text("\n".join(["time;a;b", rows[0], "16.03.2024 00:00;;31,0", *rows[1:], ""]))
    fill_file(source, out, {"duplicates": "first"}, say=said.append)
    assert out.read_text() == source.read_text().replace(";;", ";15,5;")
    assert (tmp_path / "out.provenance.csv").read_text().splitlines()[2].split(";")[1:] == ["by rule", "observed"]
    assert "note: 1 empty cell stands beside a value of another row of the same time: it gets" in "\n".join(said)


def test_a_folder_in_which_nothing_can_be_written_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise FileNotFoundError(2, "No such file or directory", "/proc/.out.unfinished")

    monkeypatch.setattr(outputs_module.tempfile, "TemporaryFile", refuse)
    with pytest.raises(ConfigError, match=rf"expected a folder that can be written to, {tmp_path} cannot"):
        fill_file(write(tmp_path / "in.csv"), tmp_path / "out.csv", TRIAL)


def test_a_category_counts_as_one_cell(tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("x,city\n" + "".join(f"{n},{('Rome', 'Oslo', 'Bonn', '')[n % 4]}\n" for n in range(40)))
    prepared = module.prepare_file(source, {"records": "rows", "categories": ["city"]})
    assert "to fill: 10 of 80 cells (12.5%)" in understood(prepared)


def test_quantiles_beyond_the_draws_are_named_where_they_are_calibrated(tmp_path: Path) -> None:
    source, said = tmp_path / "in.csv", list[str]()
    wave = 10 + 5 * np.sin(np.arange(700) / 4)
    frame = pd.DataFrame({"time": pd.date_range("2024-01-01", periods=700, freq="h"), "a": wave.round(2)})
    frame.loc[5:6, "a"] = np.nan
    frame.to_csv(source, index=False)
    settings = {"effort": "instant", "n_samples": 10, "quantiles": (0.025, 0.5, 0.975)}
    fill_file(source, tmp_path / "out.csv", settings, say=said.append)
    assert re.search(r"calibrated: on [1-9]\d\d hidden cells", "\n".join(said))
    assert re.search(r"draws: 10 draws a cell, .*; quantile 0.025, 0.975: .* take 39 draws or more", "\n".join(said))
