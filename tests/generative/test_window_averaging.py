"""Long records by overlapping windows: the draws of a whole record, without seams, in pieces or at once."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from tiny_models import tiny_network
from torch import Tensor

from tsimpute.backbones.base import VectorField
from tsimpute.config import registry
from tsimpute.core.containers import Condition
from tsimpute.core.seeding import derive_seed
from tsimpute.errors import ConfigError
from tsimpute.generative import sampling
from tsimpute.generative.sampling import sample
from tsimpute.generative.window_averaging import WindowAveraging, window_starts
from tsimpute.imputers.network.sampler import pieces, steps_within
from tsimpute.testing._records import SIZES, random_condition, shaken

PROCESS = registry.make("processes", "flow_matching")
SOLVER = registry.make("solvers", "multistep")


class ExactAutoregression:
    """The best possible network for one feature that is a stationary AR(1) process, given a window's shown cells."""

    def __init__(self, rho: float = 0.9) -> None:
        self.rho = rho

    def bytes_per_row(self, condition: Condition) -> int:
        return 1

    def bytes_once(self, condition: Condition) -> int:
        return 1

    def given(self, condition: Condition) -> tuple[Tensor, Tensor]:
        """Mean (M,) and covariance (M, M) of the cells to fill."""
        at = torch.arange(condition.values.shape[2], dtype=torch.float64)
        prior = self.rho ** (at[:, None] - at).abs()
        shown, asked = condition.cond_mask[0, 0], condition.query_mask[0, 0]
        gain = torch.linalg.solve(prior[shown][:, shown], prior[shown][:, asked]).T
        mean = gain @ condition.values[0, 0, shown].double()
        return mean, prior[asked][:, asked] - gain @ prior[shown][:, asked]

    def condition_on(self, condition: Condition) -> VectorField:
        asked, (mean, covariance) = condition.query_mask[0, 0], self.given(condition)
        variance, directions = torch.linalg.eigh(covariance)

        def field(state: Tensor, tau: Tensor) -> Tensor:
            alpha, sigma = float(tau[0]), 1 - float(tau[0])
            gain = (directions * (alpha * variance / (alpha**2 * variance + sigma**2))) @ directions.T
            noisy = state[:, 0, asked].double()
            clean = mean + (noisy - alpha * mean) @ gain.T
            out = torch.zeros_like(state)
            out[:, 0, asked] = (clean - (noisy - alpha * clean) / max(sigma, 1e-9)).to(state)
            return out

        return field


def one_feature(n_steps: int = 96) -> Condition:
    """A value every 16 steps or so; all else is to be filled."""
    shown = torch.zeros(1, 1, n_steps, dtype=torch.bool)
    shown[..., ::16] = shown[..., [5, 50]] = True
    values = torch.randn(shown.shape, generator=torch.Generator().manual_seed(0)) * shown
    return Condition(values, shown, ~shown, torch.arange(float(n_steps))[None])


def drawn(condition: Condition, stride: int, n_samples: int = 3000) -> Tensor:
    """(S, M) draws of the cells to fill."""
    joined = WindowAveraging(ExactAutoregression(), 24, stride)
    found = sample(joined, PROCESS, SOLVER, condition, n_samples=n_samples, n_steps=12, seeds=[1])
    return found[:, 0][:, condition.query_mask[0]].double()


def worst_jump(draws: Tensor, covariance: Tensor) -> float:
    """The largest ratio of the variance of a step from one cell to the next to what it should be."""
    should = covariance.diagonal()[1:] + covariance.diagonal()[:-1] - 2 * covariance.diagonal(1)
    return float((draws.diff(dim=1).var(0) / should).max())


def test_draws_have_no_jumps_where_windows_end_and_the_joint_spread_of_the_whole() -> None:
    condition = one_feature()
    mean, covariance = ExactAutoregression().given(condition)
    draws = drawn(condition, stride=12)
    assert worst_jump(draws, covariance) < 1.25
    assert float((torch.cov(draws.T) - covariance).abs().max()) < 0.12
    assert float((draws.mean(0) - mean).abs().max()) < 0.35
    assert worst_jump(drawn(condition, stride=24), covariance) > 2, "windows that share no steps would show"


def test_a_record_of_one_window_is_computed_as_without_windows() -> None:
    network, condition = tiny_network(), random_condition(n=1)
    state, tau = torch.randn(5, 3, 8), torch.full((5,), 0.3, dtype=torch.float64)
    joined = WindowAveraging(network, 8, 4)(state, tau, condition) * condition.query_mask
    assert torch.equal(joined, network(state, tau, condition) * condition.query_mask)
    assert torch.equal(WindowAveraging(network, 100, 50)(state, tau, condition) * condition.query_mask, joined)


def test_each_window_tells_for_itself_whether_it_is_crowded() -> None:
    """Three windows side by side, of which only the second holds more cells than training records do."""
    network = shaken(registry.make("backbones", "context_cells", n_features=2, **SIZES))
    asked = torch.zeros(1, 2, 24, dtype=torch.bool)
    asked[..., 8:16], asked[..., 0], asked[..., 20] = True, True, True
    shown = torch.zeros_like(asked)
    shown[..., 1:3] = True
    times = torch.arange(24.0)[None]
    state, tau = torch.randn(1, 2, 24, generator=torch.Generator().manual_seed(0)), torch.tensor([0.3])
    never, above_10, always = (
        WindowAveraging(network, 8, 8)(state, tau, Condition(shown * 1.0, shown, asked, times, usual_cells=usual))
        for usual in (torch.inf, 8, 0)
    )
    dense_records = [not torch.equal(*(out[..., a : a + 8] for out in (above_10, never))) for a in (0, 8, 16)]
    as_always = [torch.equal(*(out[..., a : a + 8] for out in (above_10, always))) for a in (0, 8, 16)]
    assert dense_records == [False, True, False]
    assert as_always[1]


def test_what_windows_say_is_averaged_with_weights_that_sum_to_one_and_fade_towards_their_ends() -> None:
    class Constant(ExactAutoregression):
        def condition_on(self, condition: Condition) -> VectorField:
            return lambda state, tau: torch.full_like(state, float(condition.values.sum()))

    values = torch.zeros(1, 1, 12)
    values[..., 0] = 1.0  # the first of two windows says 1, the second 0
    shown = values != 0
    condition = Condition(values, shown, ~shown, torch.arange(12.0)[None])
    said = WindowAveraging(Constant(), 8, 4)(torch.zeros(1, 1, 12), torch.zeros(1, dtype=torch.float64), condition)[
        0, 0
    ]
    assert (said[:4] == 1).all()
    assert (said[8:] == 0).all()
    torch.testing.assert_close(said[4:8], torch.tensor([4 / 5, 3 / 5, 2 / 5, 1 / 5]))


def test_windows_without_anything_to_fill_are_not_computed() -> None:
    bound = []

    class Counting(ExactAutoregression):
        def condition_on(self, condition: Condition) -> VectorField:
            bound.append(condition)
            return super().condition_on(condition)

    whole = one_feature()
    asked = whole.query_mask & (torch.arange(96) < 10)
    condition = replace(whole, query_mask=asked)
    WindowAveraging(Counting(), 24, 12)(torch.zeros(2, 1, 96), torch.full((2,), 0.5, dtype=torch.float64), condition)
    assert len(bound) == 1
    assert all(float(part.times[0, 0]) == 0 for part in bound)


@pytest.mark.parametrize(
    ("n_steps", "expected"), [(5, [0]), (8, [0]), (9, [0, 1]), (16, [0, 4, 8]), (18, [0, 4, 8, 10])]
)
def test_windows_begin_every_hop_and_the_last_one_ends_with_the_record(n_steps: int, expected: list[int]) -> None:
    assert window_starts(n_steps, 8, 4) == expected


@pytest.mark.threads(2)
@pytest.mark.parametrize("solver", [SOLVER, registry.make("solvers", "one_step", eta=1.0)], ids=["no noise", "noise"])
def test_pieces_of_a_record_give_what_the_whole_gives_bit_for_bit(monkeypatch: Any, solver: Any) -> None:
    monkeypatch.setattr(sampling, "_BLOCK", 32)
    network, n_evaluations, length, stride = tiny_network(n_features=2), 3, 8, 5
    whole = random_condition(1, 2, 203)
    options = {"n_samples": 3, "n_steps": n_evaluations, "rows_at_once": 3, "seeds": [7]}
    at_once = sample(WindowAveraging(network, length, stride), PROCESS, solver, whole, **options)
    made = pieces(203, length, stride, n_evaluations, 40)
    assert len(made) == 6
    for piece in made:
        assert piece.computed.stop - piece.computed.start < 110
        part = whole.steps(piece.computed)
        found = sample(
            WindowAveraging(network, length, stride),
            PROCESS,
            solver,
            part,
            part_of=(piece.computed.start, 203),
            **options,
        )
        assert torch.equal(found[..., piece.delivered_within], at_once[..., piece.delivered])


class Untouched:
    """A process and solver that give back the noise that they begin with; of two steps, what they get on the way."""

    def grid(self, n_steps: int, power: float) -> Tensor:
        return torch.linspace(0, 1, n_steps + 1, dtype=torch.float64)

    def scales(self, tau: Tensor) -> None: ...

    def solve(self, predict: Any, scales: Any, state: Tensor, grid: Tensor, draw_noise: Any) -> Tensor:
        return state if len(grid) == 2 else draw_noise()


def noise_of(condition: Condition, n_calls: int = 1, **part: Any) -> Tensor:
    """(K, L) numbers that draw 2 gets at the first or the second time that it asks."""
    way: Any = Untouched()
    joined = WindowAveraging(ExactAutoregression(), 24, 12)
    return sample(joined, way, way, condition, n_samples=3, n_steps=n_calls, seeds=[5], **part)[2, 0]


def blank(n_steps: int, k: int = 2) -> Condition:
    nothing = torch.zeros(1, k, n_steps, dtype=torch.bool)
    return Condition(torch.zeros(1, k, n_steps), nothing, ~nothing, torch.arange(float(n_steps))[None])


def test_noise_is_normal_and_of_a_short_record_what_the_generator_of_the_draw_gives(monkeypatch: Any) -> None:
    generator = torch.Generator().manual_seed(derive_seed(5, 2))
    first, second = (torch.randn(2, 50, generator=generator) for _ in range(2))
    assert torch.equal(noise_of(blank(50)), first)
    assert torch.equal(noise_of(blank(50), 2), second)
    monkeypatch.setattr(sampling, "_BLOCK", 16)
    long = noise_of(blank(8000))
    assert len(long.unique()) > 0.99 * long.numel()  # no block repeats another
    assert abs(float(long.mean())) < 0.03
    assert abs(float(long.std()) - 1) < 0.03


def test_any_part_gets_its_noise_of_the_whole_and_draws_little_else(monkeypatch: Any) -> None:
    monkeypatch.setattr(sampling, "_BLOCK", 16)
    wholes = [noise_of(blank(103), n_calls) for n_calls in (1, 2)]
    made, randn = [], torch.randn
    monkeypatch.setattr(torch, "randn", lambda *shape, **more: (made.append(shape), randn(*shape, **more))[1])
    for first, last in ((0, 16), (0, 17), (15, 16), (16, 48), (40, 103), (96, 103), (0, 103)):
        for n_calls, whole in enumerate(wholes, 1):
            made.clear()
            found = noise_of(blank(last - first), n_calls, part_of=(first, 103))
            assert torch.equal(found, whole[:, first:last])
            assert sum(n for _, n in made) <= 3 * 2 * (last - first + 2 * 16)


@pytest.mark.parametrize("n_steps", [1, 39, 40, 64, 65, 500, 1001])
def test_pieces_keep_every_step_once_and_in_order(n_steps: int) -> None:
    made = pieces(n_steps, 8, 5, 3, 40)
    assert (made[0].delivered.start, made[-1].delivered.stop) == (0, n_steps)
    assert all(a.delivered.stop == b.delivered.start for a, b in pairwise(made))
    assert all(p.computed.start <= p.delivered.start and p.delivered.stop <= p.computed.stop <= n_steps for p in made)


def test_more_draws_or_features_mean_fewer_steps_at_once_but_never_less_than_a_piece_needs() -> None:
    assert steps_within(1024, 100, 36, 10) == 1024 * 2**20 // (32 * 3600)
    assert steps_within(1, 1000, 370, 77) == 77


def test_draws_that_do_not_fit_at_once_come_one_after_the_other_and_are_the_same() -> None:
    network, condition = tiny_network(), random_condition(n=1, length=20)
    state, tau = torch.randn(40, 3, 20), torch.full((40,), 0.3, dtype=torch.float64)
    few = WindowAveraging(network, 8, 4, memory_mib=1)
    assert few.memory_mib * 2**20 < 40 * network.bytes_per_row(condition.steps(slice(8)))
    torch.testing.assert_close(few(state, tau, condition), WindowAveraging(network, 8, 4)(state, tau, condition))


def test_shares_told_add_up_to_the_draws_of_each_evaluation() -> None:
    told: list[float] = []
    joined = WindowAveraging(ExactAutoregression(), 24, 12, computed=told.append)
    sample(joined, PROCESS, SOLVER, one_feature(), n_samples=7, n_steps=5, seeds=[1], rows_at_once=3)
    assert sum(told) == pytest.approx(7 * 5)


@pytest.mark.parametrize("stride", [0, 9])
def test_a_hop_beyond_a_window_is_refused(stride: int) -> None:
    with pytest.raises(ConfigError, match=f"expected 1 to 8.*came {stride}"):
        WindowAveraging(tiny_network(), 8, stride)
