"""Calls from Python show how far they are where a person sees it, and an interrupted one goes on to the same bits."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tsimpute as ti
from tsimpute.errors import ConfigError
from tsimpute.system import terminal

pytestmark = pytest.mark.filterwarnings("ignore:the quantiles are as drawn")  # tables are small

TRIAL: dict[str, Any] = {"effort": "trial", "n_samples": 3, "limits": (0, None)}


def frame(n_hours: int = 90) -> pd.DataFrame:
    index = pd.date_range("2024-01-01", periods=n_hours, freq="h", name="time")
    wave = 20 + 5 * np.sin(np.arange(n_hours) / 4)
    table = pd.DataFrame({"a": wave, "b": 2 * wave + np.cos(np.arange(n_hours))}, index)
    return table.mask(np.random.default_rng(0).random(table.shape) < 0.15)


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """Ctrl-C interrupts, as in a terminal: what a shell starts in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press_at(at: str, after: int) -> Callable[[str, int, int], None]:
    """Progress that presses Ctrl-C."""
    seen: list[str] = []

    def tell(what: str, done: int, total: int) -> None:
        seen.append(what)
        if what == at and seen.count(at) == after:
            os.kill(os.getpid(), signal.SIGINT)

    return tell


@pytest.fixture(scope="module")
def expected() -> pd.DataFrame:
    return ti.impute(frame(), **TRIAL)


@pytest.mark.parametrize(("at", "after", "learnt"), [("learning", 7, 7), ("measuring", 1, 19), ("imputing", 1, 19)])
def test_an_interrupted_call_goes_on_in_its_folder_to_the_same_bits(
    expected: pd.DataFrame, tmp_path: Path, at: str, after: int, learnt: int
) -> None:
    folder = str(tmp_path) if at == "learning" else tmp_path
    with pytest.raises(KeyboardInterrupt):
        ti.impute(frame(), folder=folder, progress=press_at(at, after), **TRIAL)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    steps: list[int] = []
    again = ti.impute(
        frame(), folder=folder, **TRIAL, progress=lambda what, n, _: steps.append(n) if what == "learning" else None
    )
    assert min(steps) > learnt
    pd.testing.assert_frame_equal(again, expected, check_exact=True)


@pytest.mark.parametrize("folder", [__file__, 3, ["a"]])
def test_a_folder_that_is_none_is_refused_before_any_work(folder: Any) -> None:
    with pytest.raises(ConfigError, match="folder: expected the name of a folder"):
        ti.impute(frame(), folder=folder, progress=pytest.fail, **TRIAL)


def test_without_a_folder_an_interruption_ends_the_call_at_once(tmp_path: Path) -> None:
    steps: list[int] = []
    press = press_at("learning", 2)

    def tell(what: str, done: int, total: int) -> None:
        steps.append(done)
        press(what, done, total)

    with pytest.raises(KeyboardInterrupt):
        ti.impute(frame(), progress=tell, **TRIAL)
    assert steps == [1, 2]


class Seen:
    """Stands in for ``Bars``, and notes what would be shown."""

    made: list[Seen]

    def __init__(self, units: object, after: float, transient: bool) -> None:
        self.after, self.transient, self.what = after, transient, dict[str, tuple[int, int]]()
        Seen.made.append(self)

    def __enter__(self) -> Seen:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, what: str, done: int, total: int) -> None:
        self.what[what] = (done, total)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Seen]:
    Seen.made = []
    monkeypatch.setattr(terminal, "Bars", Seen)
    return Seen.made


def test_nothing_is_shown_where_nobody_sees_it(seen: list[Seen], capsys: pytest.CaptureFixture[str]) -> None:
    ti.impute(frame(), **TRIAL)
    assert seen == []
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("in_notebook", [True, False])
def test_each_long_call_shows_a_bar_in_a_terminal_and_in_a_notebook(
    seen: list[Seen], monkeypatch: pytest.MonkeyPatch, in_notebook: bool
) -> None:
    import tsimpute.accessors  # noqa: F401

    monkeypatch.setattr(terminal, "_in_notebook" if in_notebook else "is_shown_live", lambda: True)
    imputer = ti.TableImputer(**TRIAL)
    for call, shows in (
        (lambda: imputer.fit(frame()), {"learning", "measuring"}),
        (lambda: imputer.impute(frame()), {"imputing"}),
        (lambda: imputer.draw(frame()), {"imputing"}),
        (lambda: ti.impute(frame(), **TRIAL), {"learning", "measuring", "imputing"}),
        (lambda: frame().tsimpute.impute(**TRIAL), {"learning", "measuring", "imputing"}),
    ):
        seen.clear()
        call()
        assert [set(bars.what) for bars in seen] == [shows]
        assert all(done == total for done, total in seen[0].what.values())
        assert seen[0].after == 1.0, "short work shows nothing"
    seen.clear()
    imputer.impute(frame(), progress=False)
    with terminal.unseen():
        imputer.impute(frame())
    assert seen == []


def test_it_is_shown_always_when_asked_for(seen: list[Seen]) -> None:
    ti.impute(frame(), **TRIAL, progress=True)
    assert [(bars.after, bars.transient) for bars in seen] == [(0.0, False)]


@pytest.mark.parametrize("wrong", ["yes", None, 1, 0.5])
def test_a_wrong_setting_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"progress: expected 'auto', True, False or a function, came"):
        ti.impute(frame(), progress=wrong, **TRIAL)


def test_generative_imputers_tell_steps_and_records(seen: list[Seen], monkeypatch: pytest.MonkeyPatch) -> None:
    windows = ti.load_windows("synthetic", n_records=6)
    network = ti.NetworkConfig(options={"width": 8, "n_heads": 2, "n_blocks": 1})
    imputer = ti.GenerativeImputer(network=network, training=ti.TrainingConfig(epochs=2, batch_size=3))
    told: list[tuple[str, int, int]] = []
    imputer.fit(windows, progress=lambda *now: told.append(now))
    imputer.impute(windows, 2, progress=lambda *now: told.append(now))
    assert list(dict.fromkeys(told)) == [("learning", n, 4) for n in range(1, 5)] + [
        ("imputing", n, 6) for n in range(1, 7)
    ]
    monkeypatch.setattr(terminal, "is_shown_live", lambda: True)
    imputer.impute(windows, 2)
    assert [bars.what for bars in seen] == [{"imputing": (6, 6)}]


def test_a_bar_waits_until_the_work_is_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now)
    with terminal.Bars({"learning": "step"}, after=1.0) as bars:
        for done, now in ((1, 0.5), (2, 0.9), (3, 40.0), (4, 80.0)):  # noqa: B007
            bars.update("learning", done, 4)
    assert capsys.readouterr().err == "learning: 4/4 0.03 step/s, 0.0 min left\n"
