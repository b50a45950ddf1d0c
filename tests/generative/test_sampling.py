"""Draws belong to their record: alone, in any batch, in any order; in bounded memory; only where asked."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock
from time import sleep
from typing import Any

import pytest
import torch
from tiny_models import tiny_network
from torch import Tensor

from tsimpute.backbones.base import VectorField
from tsimpute.config import registry
from tsimpute.core.containers import Condition
from tsimpute.errors import ConfigError, OutOfMemoryError
from tsimpute.generative.sampling import rows_within, sample
from tsimpute.testing._records import random_condition

pytestmark = pytest.mark.threads(1)  # rows come in order with one; more are asked for where they matter

NETWORK, CONDITION, SEEDS = tiny_network(), random_condition(), (11, 12, 13, 14)
# A stochastic and a deterministic sampler; FlowMatching shares all code that matters here.
PROCESS = registry.make("processes", "diffusion")
ANCESTRAL, HEUN = registry.make("solvers", "one_step", eta=1.0), registry.make("solvers", "heun")


def draws(
    condition: Condition = CONDITION, seeds: tuple[int, ...] = SEEDS, solver: Any = ANCESTRAL, **options: Any
) -> Tensor:
    options = {"n_samples": 5, "n_steps": 3, "rows_at_once": 2} | options
    return sample(NETWORK, PROCESS, solver, condition, seeds=seeds, **options)


@pytest.mark.parametrize("solver", [ANCESTRAL, HEUN], ids=["ancestral", "heun"])
def test_a_records_draws_are_the_same_alone_in_another_batch_and_in_another_order(solver: Any):
    together = draws(solver=solver)
    turned = replace(CONDITION, **{name: x.flip(0) for name, x in vars(CONDITION).items() if isinstance(x, Tensor)})
    assert torch.equal(draws(turned, SEEDS[::-1], solver), together.flip(1))
    for b in range(4):
        alone = draws(CONDITION.select(slice(b, b + 1)), SEEDS[b : b + 1], solver)
        assert torch.equal(alone[:, 0], together[:, b])


def test_draws_differ_from_each_other_and_from_those_of_another_seed():
    found, fill = draws(), CONDITION.query_mask
    for s in range(1, 5):
        assert (found[s] != found[0])[fill].all()
    assert (draws(seeds=(1, 2, 3, 4)) != found)[:, fill].all()
    assert torch.equal(draws(), found)


def test_a_draw_does_not_depend_on_how_many_are_asked_for():
    # Row by row to the bit; in larger rows to the last bits, since matrix products round by their size.
    assert torch.equal(draws(n_samples=5, rows_at_once=1)[:3], draws(n_samples=3, rows_at_once=1))
    torch.testing.assert_close(draws(n_samples=5, rows_at_once=4)[:3], draws(n_samples=3, rows_at_once=3))
    torch.testing.assert_close(draws(rows_at_once=5), draws(rows_at_once=1), rtol=1e-4, atol=1e-5)


class Still:
    """A field that moves nothing: draws are the noise that they began with."""

    def condition_on(self, condition: Condition) -> VectorField:
        return lambda state, tau: torch.zeros_like(state)

    def bytes_per_row(self, condition: Condition) -> int:
        return 1

    def bytes_once(self, condition: Condition) -> int:
        return 0


def test_antithetic_draws_come_in_pairs_from_opposite_noise():
    process, solver = registry.make("processes", "flow_matching"), registry.make("solvers", "heun")
    options: dict[str, Any] = {"n_samples": 7, "n_steps": 2, "seeds": SEEDS}
    plain = sample(Still(), process, solver, CONDITION, **options)
    found = sample(Still(), process, solver, CONDITION, antithetic=True, **options)
    assert torch.equal(found[1:6:2], -found[:6:2])
    assert torch.equal(found[::2], plain[:4])


def test_what_is_drawn_is_in_units_of_the_spread_and_added_to_the_base():
    process, solver = registry.make("processes", "flow_matching"), registry.make("solvers", "heun")
    options: dict[str, Any] = {"n_samples": 7, "n_steps": 2, "seeds": SEEDS}
    plain = sample(Still(), process, solver, CONDITION, **options)
    spread, base = 1.0 + CONDITION.query_mask, CONDITION.query_mask * 3.0
    moved = sample(Still(), process, solver, replace(CONDITION, base=base, spread=spread), **options)
    torch.testing.assert_close(moved, (3 + 2 * plain) * CONDITION.query_mask)


def test_only_cells_to_fill_are_filled():
    found = draws()
    assert found.shape == (5, 4, 3, 8)
    assert (found[:, ~CONDITION.query_mask] == 0).all()
    assert (found[:, CONDITION.query_mask] != 0).all()


def test_shown_cells_steer_the_draws():
    other = replace(CONDITION, values=torch.where(CONDITION.cond_mask, CONDITION.values + 3, CONDITION.values))
    assert not torch.allclose(draws(other), draws())


class Counting:
    """A network that notes how many rows it was given, and what stood outside the cells to fill.

    Args:
        room: with more rows than that it says that memory has run out, as torch does.
        once: bytes that a record needs before any draw.
    """

    def __init__(self, room: int = 99, error: Exception | None = None, once: int = 0) -> None:
        self.once = once
        self.rows: list[int] = []
        self.outside, self.n_bound = 0.0, 0
        self.room, self.error = room, error

    def condition_on(self, condition: Condition) -> VectorField:
        self.n_bound += 1
        assert len(condition) == 1
        bound = NETWORK.condition_on(condition)

        def field(state: Tensor, tau: Tensor) -> Tensor:
            self.rows.append(len(state))
            self.outside += (state * ~condition.query_mask).abs().sum().item()
            assert len(tau) == len(state)
            if len(state) > self.room:
                raise self.error  # type: ignore[misc]
            return bound(state, tau)

        return field

    def bytes_per_row(self, condition: Condition) -> int:
        return 2**20 * int(condition.cond_mask.sum() + condition.query_mask.sum())

    def bytes_once(self, condition: Condition) -> int:
        return self.once


def counted(network: Counting, condition: Condition = CONDITION, **options: Any) -> Tensor:
    options = {"n_samples": 7, "n_steps": 2, "seeds": SEEDS} | options
    return sample(network, PROCESS, ANCESTRAL, condition, **options)


def test_no_more_rows_than_allowed_are_computed_at_once_and_noise_is_only_where_it_belongs():
    network = Counting()
    counted(network, rows_at_once=3)
    assert network.rows == [3, 3, 3, 3, 1, 1] * 4
    assert network.outside == 0
    assert network.n_bound == 4


def test_how_many_rows_fit_depends_on_the_record_and_the_budget_alone():
    sizes = [int(c.sum() + f.sum()) for c, f in zip(CONDITION.cond_mask, CONDITION.query_mask, strict=True)]
    assert len(set(sizes)) > 1
    budget = 3 * sizes[0]
    together = Counting()
    found = counted(together, memory_mib=budget, n_samples=20, n_steps=1)
    rows = []
    for b, size in enumerate(sizes):
        alone = Counting()
        at = slice(b, b + 1)
        assert torch.equal(counted(alone, CONDITION.select(at), memory_mib=budget, n_samples=20, n_steps=1,
                                   seeds=SEEDS[at])[:, 0], found[:, b])  # fmt: skip
        assert max(alone.rows) == budget // size
        rows += alone.rows
    assert together.rows == rows


def test_on_a_cpu_no_more_rows_are_taken_than_are_fast():
    record = CONDITION.select(slice(0, 1))
    per_row = Counting().bytes_per_row(record)
    assert rows_within(10**6, Counting(), record) == 64 * 2**20 // per_row
    assert rows_within(10**6, NETWORK, record) == 64 * 2**20 // NETWORK.bytes_per_row(record)


def test_what_a_record_needs_once_is_taken_from_the_budget():
    record = CONDITION.select(slice(0, 1))
    per_row = Counting().bytes_per_row(record)
    budget = 3 * per_row // 2**20
    assert [rows_within(budget, Counting(once=n * per_row), record) for n in (0, 1, 2)] == [3, 2, 1]
    with pytest.raises(ConfigError, match=f"needs about {4 * per_row // 2**20} MiB, came {budget}"):
        rows_within(budget, Counting(once=3 * per_row), record)


def test_a_draw_that_needs_more_than_the_budget_is_refused_unless_rows_are_asked_for():
    record, seeds = CONDITION.select(slice(0, 1)), SEEDS[:1]
    needs = Counting().bytes_per_row(record) // 2**20
    says = rf"memory_mib: .* 3 features and 8 steps needs about {needs} MiB, came {needs - 1}\. Raise it.*rows_at_once"
    with pytest.raises(ConfigError, match=says):
        counted(Counting(), record, memory_mib=needs - 1, seeds=seeds)
    for options in ({"memory_mib": needs}, {"memory_mib": 1, "rows_at_once": 1}):
        network = Counting()
        counted(network, record, seeds=seeds, **options)
        assert set(network.rows) == {1}


NO_MEMORY = (
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
                 "to allocate 34359738368 bytes. Error code 12 (Cannot allocate memory)"),
    RuntimeError("MPS backend out of memory (MPS allocated: 9.00 GB)."),
    MemoryError(),
)  # fmt: skip


@pytest.mark.parametrize("error", NO_MEMORY, ids=["cuda", "cpu", "mps", "python"])
def test_where_memory_runs_out_half_as_many_rows_give_the_same_numbers(error: Exception):
    network = Counting(3, error)
    found = counted(network, rows_at_once=7)
    assert network.rows == [7, 3, 3, 3, 3, 1, 1] * 4
    assert torch.equal(found, counted(Counting(), rows_at_once=3))
    torch.testing.assert_close(found, counted(Counting(), rows_at_once=7), rtol=1e-4, atol=1e-5)
    network = Counting(2, error)
    assert torch.equal(counted(network, rows_at_once=100), counted(Counting(), rows_at_once=1))
    assert network.rows == ([7, 3] + [1] * 14) * 4


def test_where_a_record_cannot_even_be_bound_the_error_says_so_too():
    class Large(Counting):
        def condition_on(self, condition: Condition) -> VectorField:
            raise NO_MEMORY[1]

    with pytest.raises(OutOfMemoryError, match="memory ran out at one draw of one record"):
        counted(Large())


def test_where_not_even_one_row_fits_the_error_says_what_to_do():
    with pytest.raises(OutOfMemoryError, match="memory ran out at one draw of one record; cut the records") as found:
        counted(Counting(0, NO_MEMORY[1]))
    assert isinstance(found.value, MemoryError)
    assert found.value.__cause__ is NO_MEMORY[1]


def test_any_other_failure_is_passed_on_as_it_is():
    network = Counting(3, RuntimeError("shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        counted(network, rows_at_once=7)
    assert network.rows == [7]


def test_nothing_to_fill_costs_nothing_and_gives_zeros():
    network = Counting()
    nothing = replace(CONDITION, query_mask=torch.zeros_like(CONDITION.query_mask))
    found = counted(network, nothing)
    assert (network.rows, network.n_bound) == ([], 0)
    assert (found == 0).all()


@pytest.mark.parametrize("solver", [ANCESTRAL, HEUN], ids=["ancestral", "heun"])
def test_one_sample_in_one_step_of_one_cell(solver: Any):
    found = draws(n_samples=1, n_steps=1, solver=solver)
    assert found.shape == (1, 4, 3, 8)
    assert found[:, CONDITION.query_mask].isfinite().all()
    one = Condition(torch.zeros(1, 1, 1), torch.zeros(1, 1, 1, dtype=torch.bool), torch.ones(1, 1, 1, dtype=torch.bool),
                    torch.zeros(1, 1))  # fmt: skip
    cell = sample(tiny_network(1), PROCESS, solver, one, n_samples=3, n_steps=4, seeds=[0])
    assert len(set(cell.flatten().tolist())) == 3


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"n_samples": 0}, "n_samples: expected at least 1, came 0"),
        ({"rows_at_once": 0}, "rows_at_once: expected at least 1, came 0"),
        ({"n_steps": 0}, "n_steps"),
        ({"n_steps": 51}, "50 noise levels"),
        ({"seeds": (1, 2)}, "seeds: expected one for each of 4 records, came 2"),
    ],
)
def test_counts_out_of_range_are_refused(options: dict[str, Any], says: str):
    with pytest.raises(ConfigError, match=says):
        draws(**options)


def test_no_gradient_is_kept_and_no_global_generator_is_used():
    before = torch.get_rng_state()
    assert not draws().requires_grad
    assert torch.equal(torch.get_rng_state(), before)


def test_threads_change_nothing_but_who_computes():
    alone = draws(rows_at_once=2)
    torch.set_num_threads(3)
    assert torch.equal(draws(rows_at_once=2), alone)
    assert torch.get_num_threads() == 3
    network = Counting(3, RuntimeError("shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        counted(network, rows_at_once=7)
    network = Counting()
    counted(network, rows_at_once=1)
    assert network.n_bound == 4  # each record once, whichever thread comes first


def test_pieces_are_computed_side_by_side_only_as_far_as_they_fit_into_memory_together():
    class Busy(Counting):
        def __init__(self) -> None:
            super().__init__()
            self.now, self.most, self.lock = 0, 0, Lock()

        def condition_on(self, condition: Condition) -> VectorField:
            bound = super().condition_on(condition)

            def field(state: Tensor, tau: Tensor) -> Tensor:
                with self.lock:
                    self.now += 1
                    self.most = max(self.most, self.now)
                sleep(0.01)
                with self.lock:
                    self.now -= 1
                return bound(state, tau)

            return field

    torch.set_num_threads(3)
    needs = max(Counting().bytes_per_row(CONDITION.select(slice(b, b + 1))) for b in range(4)) // 2**20
    for room, at_most in ((needs, 1), (2 * needs, 2), (9 * needs, 3)):
        network = Busy()
        counted(network, rows_at_once=1, memory_mib=room)
        assert network.most == at_most
