"""Memory of tensors kept for the next ones: handed out again, bounded, given back, and no tensor is touched by it."""

from __future__ import annotations

import gc
import os
import random
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
import torch

from tsimpute import kept_memory as module
from tsimpute.kept_memory import bytes_kept, kept_memory

needs_library = pytest.mark.skipif(module._library() is None, reason="NO C++ COMPILER: what is compiled is not tested")
MIB = 2**20


@pytest.fixture(autouse=True)
def nothing_left_of_other_tests() -> None:
    gc.collect()
    assert bytes_kept() == 0


@needs_library
@pytest.mark.parametrize(("n", "next_one"), [(1, 64), (64, 1), (65, 72), (1000, 1024), (4_000_000, 4_194_304)])
def test_a_block_is_handed_out_again_to_a_tensor_of_its_size(n: int, next_one: int):
    with kept_memory():
        first = torch.zeros(n, dtype=torch.uint8)
        at = first.data_ptr()
        del first
        assert bytes_kept() > 0
        again = torch.zeros(next_one, dtype=torch.uint8)
        assert again.data_ptr() == at
        assert at % 64 == 0
        assert bytes_kept() == 0
        assert torch.zeros(2 * next_one + 64, dtype=torch.uint8).data_ptr() != at


@needs_library
def test_blocks_are_large_enough_and_are_not_given_out_twice():
    """Each tensor is filled to its last byte with a number of its own, by several threads, and looked at later."""

    def work(seed: int) -> bool:
        rng = random.Random(seed)
        held: list[tuple[torch.Tensor, int]] = []
        for n in range(3000):
            if held and rng.random() < 0.5:
                tensor, number = held.pop(rng.randrange(len(held)))
                if not bool((tensor == number).all()):
                    return False
            size = int(2 ** rng.uniform(0, 14)) + rng.choice((-1, 0, 1))
            held.append((torch.full((max(0, size),), n % 251, dtype=torch.uint8), n % 251))
        return all(bool((tensor == number).all()) for tensor, number in held)

    with kept_memory(), ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


@needs_library
@pytest.mark.parametrize("failed_before", [False, True])
def test_no_more_than_a_quarter_beyond_the_most_used_at_once_is_held(failed_before: bool):
    with kept_memory():
        if failed_before:
            with pytest.raises(RuntimeError, match="can't allocate memory"):
                torch.empty(10**15, dtype=torch.uint8)
        for n in range(1, 60):
            tensors = [torch.empty(n * MIB // 4, dtype=torch.uint8) for _ in range(64 // n)]
            used = sum(len(tensor) for tensor in tensors)
            assert used + bytes_kept() <= 1.25 * 1.125 * 17 * MIB
            del tensors
        assert bytes_kept() > 10 * MIB


@needs_library
def test_what_is_kept_is_given_back_by_the_last_to_leave_and_tensors_live_on():
    with kept_memory():
        outlives = torch.arange(1000)
        with kept_memory():
            del outlives
            outlives = torch.arange(1000, 2000)
        torch.empty(MIB)
        assert bytes_kept() >= 4 * MIB
    assert bytes_kept() == 0
    assert outlives.sum() == 1_499_500
    outlives.resize_(2000)[1000:] = 0
    assert outlives.sum() == 1_499_500
    del outlives
    torch.empty(MIB)
    assert bytes_kept() == 0


@needs_library
def test_where_there_is_no_more_memory_torch_says_so_and_what_was_kept_is_tried_first():
    with kept_memory():
        torch.empty(MIB)
        assert bytes_kept() > 0
        with pytest.raises(RuntimeError, match="can't allocate memory"):
            torch.empty(10**15, dtype=torch.uint8)
        assert bytes_kept() == 0
        assert torch.ones(1000).sum() == 1000


def test_an_error_inside_ends_it_and_without_a_compiler_nothing_happens(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(KeyError), kept_memory():
        raise KeyError
    torch.empty(MIB)
    assert bytes_kept() == 0
    monkeypatch.setattr(module, "_library", lambda: None)
    with kept_memory():
        assert torch.ones(3).sum() == 3
        assert bytes_kept() == 0


@needs_library
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_process_forked_while_others_allocate_can_allocate():
    stop = Event()

    def churn() -> None:
        while not stop.is_set():
            torch.empty(1000)

    with kept_memory(), ThreadPoolExecutor(2) as pool:
        for _ in range(2):
            pool.submit(churn)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
                for _ in range(20):
                    child = os.fork()
                    if not child:
                        torch.empty(1000)
                        os._exit(0)
                    until = time.monotonic() + 20
                    while os.waitpid(child, os.WNOHANG) == (0, 0):
                        assert time.monotonic() < until, "the child hangs"
                        time.sleep(0.001)
        finally:
            stop.set()


def test_an_empty_tensor(tmp_path: Path):
    with kept_memory():
        empty = torch.empty(0)
        assert empty.numel() == 0
        torch.save(empty, tmp_path / "empty.pt")
    assert torch.load(tmp_path / "empty.pt").shape == (0,)
