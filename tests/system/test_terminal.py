"""What the command line shows when its output is no terminal, and how it takes Ctrl-C."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tsimpute.system.terminal import Bar, stop_on_interrupt


def test_plain_progress_says_what_rate_and_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 10.0, 50.0, 110.0])
    monkeypatch.setattr("tsimpute.system.terminal.time", SimpleNamespace(monotonic=lambda: next(clock)))
    with Bar("training", 300, "step") as bar:
        for done in (100, 140, 200):
            bar.update(done, note="loss 0.5")
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "training: 140/300 1.00 step/s loss 0.5, 2.7 min left",
        "training: 200/300 1.00 step/s loss 0.5, 1.7 min left",
    ]


def test_what_begins_anew_under_the_same_name_has_a_rate_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 1.0, 101.0, 102.0, 142.0])
    monkeypatch.setattr("tsimpute.system.terminal.time", SimpleNamespace(monotonic=lambda: next(clock)))
    with Bar("scoring", 80, "record") as bar:
        for done in (0, 50, 0, 20):
            bar.update(done)
    assert capsys.readouterr().err.splitlines() == [
        "scoring: 50/80 0.50 record/s, 1.0 min left",
        "scoring: 20/80 0.50 record/s, 2.0 min left",
    ]


def test_one_long_piece_of_work_is_told_when_it_begins(capsys: pytest.CaptureFixture[str]) -> None:
    with Bar("fitting", 1, "step") as bar:
        bar.update(0)
        assert capsys.readouterr().err == "fitting ...\n"
        bar.update(1)
    assert capsys.readouterr().err.startswith("fitting: 1/1")
    with Bar("fitting", 1, "step", hidden=True) as bar:
        bar.update(0)
    assert capsys.readouterr().err == ""


def test_hidden_bar_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Bar("training", 2, "step", hidden=True) as bar:
        bar.update(2)
    assert capsys.readouterr().err == ""


def test_items_count_as_done_when_the_next_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with Bar("imputing", 3, "record", hidden=True) as bar:
        told: list[int] = []
        monkeypatch.setattr(bar, "update", told.append)
        seen = [(item, list(told)) for item in bar.over("abc")]
    assert seen == [("a", []), ("b", [1]), ("c", [1, 2])]
    assert told == [1, 2, 3]


@pytest.fixture
def interrupts() -> Iterator[Any]:
    """Ctrl-C interrupts, as in a terminal: what a shell starts in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def test_first_interrupt_asks_to_stop_and_the_second_interrupts(
    interrupts: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with stop_on_interrupt() as should_stop:
        assert not should_stop()
        os.kill(os.getpid(), signal.SIGINT)
        assert should_stop()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is interrupts
    assert "Ctrl-C again" in capsys.readouterr().err
