"""The laws of a backbone; each takes a factory, ``make(n_features=3, **options)`` -> a torch module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from tsimpute.core.containers import Batch, Condition
from tsimpute.errors import ConfigError
from tsimpute.testing._laws import DoesNotApply, Laws, expect, expect_refused
from tsimpute.testing._records import random_batch, shaken

LAWS = Laws()

SHAPES = ((4, 3, 8), (1, 3, 8), (2, 1, 8), (2, 3, 1), (1, 1, 1), (2, 3, 30))


@dataclass(frozen=True)
class Networks:
    """Networks under test; every weight is drawn anew, so that none is 0 and every input matters."""

    make: Callable[..., Any]

    def __call__(self, n_features: int = 3, **options: Any) -> Any:
        return shaken(self.make(n_features=n_features, **options))

    @cached_property
    def max_length(self) -> int | None:
        """See ``Backbone``."""
        return getattr(self.make(n_features=3), "max_length", None)

    @property
    def length(self) -> int:
        """Steps of the records that most laws use."""
        return min(8, self.max_length or 8)

    def batch(self, n: int = 4) -> Batch:
        return random_batch(n, length=self.length)

    def condition(self, n: int = 4) -> Condition:
        return self.batch(n).condition

    def state(self, n: int = 4) -> torch.Tensor:
        return state_of(n, length=self.length)

    def takes_a_spread(self) -> bool:
        try:
            self.make(n_features=3, with_spread=True)
        except ConfigError as error:
            if "unknown option with_spread" in str(error):
                return False
            raise
        return True


subject = Networks
"""What the laws of this kind take."""


def tau_of(n: int) -> torch.Tensor:
    return torch.linspace(0.1, 0.9, n, dtype=torch.float64)


def state_of(n: int = 4, k: int = 3, length: int = 8) -> torch.Tensor:
    return torch.randn(n, k, length, generator=torch.Generator().manual_seed(1))


def greatest(a: torch.Tensor, b: torch.Tensor) -> str:
    return f"a difference of {(a - b).abs().max().item():.3g}"


def expect_equal(a: torch.Tensor, b: torch.Tensor, expected: str, tolerance: float = 0.0) -> None:
    expect(torch.allclose(a, b, rtol=tolerance, atol=tolerance), expected, greatest(a, b))


@LAWS.law(lambda: [{"n": n, "k": k, "length": length} for n, k, length in SHAPES])
def one_finite_number_per_cell_for_any_size(networks: Networks, n: int, k: int, length: int) -> None:
    """It gives one finite float32 number per cell, for any number of records, features and steps that it takes."""
    if length > (networks.max_length or length):
        raise DoesNotApply(f"it takes records of up to {networks.max_length} steps")
    with torch.no_grad():
        output = networks(k)(state_of(n, k, length), tau_of(n), random_batch(n, k, length).condition)
    expect(output.shape == (n, k, length), f"shape {(n, k, length)}", tuple(output.shape))
    expect(output.dtype == torch.float32, "torch.float32", output.dtype)
    expect(output.isfinite().all(), "finite numbers", output.tolist())


@LAWS.law()
def state_matters_at_the_cells_to_fill_and_nowhere_else(networks: Networks) -> None:
    """The noisy state matters at the cells to fill, and at no other cell."""
    network, condition, state = networks(), networks.condition(), networks.state()
    with torch.no_grad():
        output = network(state, tau_of(4), condition)
        elsewhere = network(torch.where(condition.query_mask, state, 1e6), tau_of(4), condition)
        moved = network(torch.where(condition.query_mask, state + 1, state), tau_of(4), condition)
    expect_equal(output, elsewhere, "the same where the state of other cells changes")
    changed = (output != moved).flatten(1).any(1)
    expect(changed.all(), "a change in each record where the state changes", "none in some")


@LAWS.law()
def hidden_values_cannot_matter(networks: Networks) -> None:
    """Values at hidden cells change nothing, and those at shown cells something."""
    network, batch, state = networks(), networks.batch(), networks.state()
    hidden = replace(batch, values=torch.where(batch.target_mask, 1e6, batch.values))
    shown = replace(batch, values=torch.where(batch.cond_mask, batch.values + 1, batch.values))
    with torch.no_grad():
        output, other, changed = (network(state, tau_of(4), b.condition) for b in (batch, hidden, shown))
    expect_equal(output, other, "the same where hidden values change")
    expect((output != changed).any(), "a change where shown values change", "the same")


@LAWS.law()
def a_spread_matters_at_the_cells_to_fill_where_the_network_is_made_for_one(networks: Networks) -> None:
    """Made with ``with_spread=True``, it uses a condition's spread and refuses a condition without one."""
    if not networks.takes_a_spread():
        raise DoesNotApply("it has no option with_spread")
    plain = networks.condition()
    network, state = networks(with_spread=True), networks.state()
    one, two = (replace(plain, base=plain.query_mask * 0.5, spread=1 + x * plain.query_mask) for x in (0.0, 1.5))
    with torch.no_grad():
        changed = network(state, tau_of(4), one) != network(state, tau_of(4), two)
        expect(changed[plain.query_mask].any(), "a change at cells to fill where the spread changes", "none")
        expect_refused(ConfigError, lambda: network(state, tau_of(4), plain), "expected a condition with a spread")


@LAWS.law()
def process_time_clock_and_mask_matter(networks: Networks) -> None:
    """The process time, the series' own times (of several steps) and the mask of shown cells each matter."""
    network, condition, state = networks(), networks.condition(), networks.state()
    blank = replace(condition, values=torch.zeros_like(condition.values))
    unknown = replace(blank, cond_mask=torch.zeros_like(condition.cond_mask))
    with torch.no_grad():
        output = network(state, tau_of(4), condition)
        later = network(state, tau_of(4) + 0.05, condition)
        slower = network(state, tau_of(4), replace(condition, times=condition.times * 2))
        known, not_known = network(state, tau_of(4), blank), network(state, tau_of(4), unknown)
    expect(not torch.allclose(output, later, atol=1e-6), "a change with tau", greatest(output, later))
    of_one_step = networks.length == 1
    expect(of_one_step or not torch.allclose(output, slower), "a change with the times", greatest(output, slower))
    expect(not torch.allclose(known, not_known, atol=1e-6), "a change with the mask alone", greatest(known, not_known))


@LAWS.law()
def a_record_does_not_depend_on_its_neighbours_in_the_batch(networks: Networks) -> None:
    """A record gives the same alone and in a batch, up to rounding."""
    network, condition, state = networks(), networks.condition(), networks.state()
    with torch.no_grad():
        together = network(state, tau_of(4), condition)
        for b in range(4):
            at = slice(b, b + 1)
            alone = network(state[at], tau_of(4)[at], condition.select(at))
            expect_equal(alone[0], together[b], f"record {b} alone as in a batch of four", 1e-5)


@LAWS.law()
def bound_to_one_record_it_takes_any_number_of_draws(networks: Networks) -> None:
    """``condition_on`` of one record gives a function of any number of draws, each as if it were alone."""
    network, condition = networks(), networks.condition(1)
    states = torch.randn(5, 3, networks.length, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        field = network.condition_on(condition)
        together = field(states, tau_of(5))
        for s in range(5):
            at = slice(s, s + 1)
            alone = network(states[at], tau_of(5)[at], condition)
            bound, unbound = together[at][condition.query_mask], alone[condition.query_mask]
            expect_equal(bound, unbound, f"draw {s} of the bound function as of the network", 1e-5)
        again = field(states, tau_of(5))
    expect_equal(again, together, "the same of a second call of the bound function")


@LAWS.law()
def gradient_reaches_every_parameter(networks: Networks) -> None:
    """The gradient of its output reaches every parameter."""
    network = networks()
    (network(networks.state(), tau_of(4), networks.condition()) ** 2).sum().backward()
    for parameter, weights in network.named_parameters():
        expect(weights.grad is not None, f"a gradient of {parameter}", "none")
        expect(weights.grad.abs().sum() > 0, f"a gradient of {parameter} that is not 0", weights.grad.abs().sum())


@LAWS.law()
def is_a_function_of_its_inputs_and_leaves_them_alone(networks: Networks) -> None:
    """Called twice it gives the same bits, and writes to none of its inputs."""
    network, condition, state = networks(), networks.condition(), networks.state()
    before = [x.clone() for x in (state, condition.values, condition.times)]
    with torch.no_grad():
        first, second = network(state, tau_of(4), condition), network(state, tau_of(4), condition)
    expect_equal(first, second, "the same of a second call")
    after = (state, condition.values, condition.times)
    for name, a, b in zip(("state", "values", "times"), before, after, strict=True):
        expect_equal(a, b, f"that {name} is not written to")
