"""Pieces of work side by side: in order, on their share of torch's threads, and no further after an error."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from threading import Barrier, Thread, active_count, current_thread
from time import sleep

import pytest
import torch

from tsimpute.system.threads import in_threads

pytestmark = pytest.mark.threads(4)


@pytest.fixture(autouse=True)
def waits_passively(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")


@pytest.fixture(autouse=True)
def number_stays() -> Iterator[None]:
    yield
    found = []
    new = Thread(target=lambda: found.append(torch.get_num_threads()))
    new.start()
    new.join()
    assert [torch.get_num_threads(), *found] == [4, 4], "a worker's number has come through"


def test_results_come_in_order():
    assert list(in_threads(lambda n: (sleep(0.02 * (5 - n)), n)[1], range(5))) == [0, 1, 2, 3, 4]


def test_as_many_work_at_once_as_torch_has_threads_each_on_its_share():
    together = Barrier(2)

    def work(n: int) -> tuple[int, str]:
        together.wait(10)  # passes only if two are at work
        return torch.get_num_threads(), current_thread().name

    found = list(in_threads(work, range(4), at_most=2))
    assert {threads for threads, _ in found} == {1}  # two of torch's threads together are worth less than they cost
    assert current_thread().name not in {name for _, name in found}


@pytest.mark.parametrize(("pieces", "at_most"), [([1], None), ([1, 2], 1), ([], None)])
def test_nothing_to_share_is_done_here(pieces: list[int], at_most: int | None):
    found = list(in_threads(lambda n: (torch.get_num_threads(), current_thread().name), pieces, at_most))
    assert found == [(4, current_thread().name)] * len(pieces)


def test_after_an_error_nothing_further_is_begun():
    begun = []

    def work(n: int) -> None:
        begun.append(n)
        sleep(0.01)
        if n == 1:
            raise ValueError("one")

    with pytest.raises(ValueError, match="one"):
        list(in_threads(work, range(500)))
    assert len(begun) < 100


def test_threads_are_kept_and_made_anew_after_a_fork():
    list(in_threads(lambda n: sleep(0.01), range(8)))
    for _ in range(50):
        list(in_threads(lambda n: sleep(0.001), range(8)))
    assert active_count() < 50
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # later Pythons warn of forks beside threads
        child = os.fork()
    if not child:
        os._exit(list(in_threads(lambda n: n, range(5))) != [0, 1, 2, 3, 4])
    assert os.waitpid(child, 0)[1] == 0


def test_what_is_not_asked_for_is_not_begun_and_nothing_is_at_work_afterwards():
    at_work, begun = [], []

    def work(n: int) -> int:
        begun.append(n)
        at_work.append(n)
        sleep(0.01)
        at_work.remove(n)
        return n

    assert next(in_threads(work, range(500))) == 0
    assert at_work == []
    assert len(begun) < 100


def test_pieces_within_pieces_and_callers_side_by_side_all_get_done():
    def outer(n: int) -> list[int]:
        return list(in_threads(lambda m: (sleep(0.001), 10 * n + m)[1], range(3)))

    expected = [[10 * n + m for m in range(3)] for n in range(6)]
    found: list[list[list[int]]] = []
    callers = [Thread(target=lambda: found.append(list(in_threads(outer, range(6))))) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(20)
    assert found == [expected] * 3


def test_a_slow_piece_does_not_keep_the_others_waiting():
    late = Barrier(2)

    def work(n: int) -> int:
        if n in (0, 20):
            late.wait(10)  # the first piece ends only when the last has begun
        return n

    assert list(in_threads(work, range(21), at_most=2)) == list(range(21))


# -- beside another busy process ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [1, 2, 3, 8])
@pytest.mark.parametrize("choice", [{"OMP_WAIT_POLICY": "ACTIVE"}, {"OMP_WAIT_POLICY": ""}])
def test_where_threads_spin_every_piece_has_one(pieces: int, choice: dict, monkeypatch: pytest.MonkeyPatch):
    for name, value in choice.items():
        monkeypatch.setenv(name, value)
    found = list(in_threads(lambda n: (n, torch.get_num_threads()), range(pieces)))
    assert found == [(n, 1) for n in range(pieces)]
    with pytest.raises(ZeroDivisionError):
        list(in_threads(lambda n: 1 / 0, [1]))  # the number of threads comes back: see the fixture above


@pytest.mark.parametrize(
    ("first", "chosen", "expected"),
    [
        ("tsimpute", {}, "PASSIVE"),
        ("tsimpute", {"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE"),
        ("tsimpute", {"GOMP_SPINCOUNT": "7"}, None),
        ("torch", {}, None),
    ],
)
def test_torch_is_told_to_wait_passively_before_it_is_loaded(first: str, chosen: dict, expected: str | None):
    names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
    inherited = {name: value for name, value in os.environ.items() if name not in names}
    code = f"import {first}, tsimpute, torch, os; print(os.environ.get('OMP_WAIT_POLICY'))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=inherited | {"OMP_DISPLAY_ENV": "TRUE"} | chosen, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.strip() == str(expected)
    seen = [line for line in done.stderr.splitlines() if "OMP_WAIT_POLICY" in line]  # as the library itself read it
    if expected and seen:
        assert all(expected in line for line in seen)
