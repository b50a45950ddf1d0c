"""Dropout: what it zeroes, where its masks come from, and that a network in use has none."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch
from tiny_models import tiny_network

from tsimpute.backbones.dropout import Dropout, seeded_dropout
from tsimpute.config.registry import make
from tsimpute.errors import ConfigError
from tsimpute.testing._records import SIZES, random_condition, shaken

CPU = torch.device("cpu")


def test_a_share_is_zeroed_and_the_others_keep_the_mean() -> None:
    x = torch.full((200, 500), 3.0)
    with seeded_dropout([1], CPU):
        out = Dropout(0.25)(x)
    assert sorted(out.unique().tolist()) == [0.0, 4.0]
    assert float((out == 0).float().mean()) == pytest.approx(0.25, abs=0.005)
    assert torch.equal(Dropout(0.25).eval()(x), x)
    assert Dropout(0.0)(x) is x


def test_gradients_pass_where_numbers_were_kept() -> None:
    x = torch.ones(1000, requires_grad=True)
    with seeded_dropout([1], CPU):
        out = Dropout(0.5)(x)
    out.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, out.detach())


def test_masks_come_from_the_seeds_alone_also_in_threads() -> None:
    layer, x, together = Dropout(0.5), torch.ones(1000), Barrier(4)

    def two_masks(seed: int) -> torch.Tensor:
        with seeded_dropout([seed], CPU):
            first = layer(x)
            if together.parties > 1:
                together.wait(10)
            return torch.stack([first, layer(x)])

    with ThreadPoolExecutor(4) as threads:
        side_by_side = list(threads.map(two_masks, range(4)))
    together = Barrier(1)
    one_by_one = [two_masks(seed) for seed in range(4)]
    for a, b in zip(side_by_side, one_by_one, strict=True):
        assert torch.equal(a, b)
    masks = torch.cat(one_by_one)
    assert len(masks.unique(dim=0)) == len(masks), "two draws have the same mask"


@pytest.mark.parametrize("name", ["dual_transformer", "present_cells", "context_cells", "context_grid"])
def test_a_network_drops_in_training_and_not_in_use(name: str) -> None:
    plain, dropping = (
        shaken(make("backbones", name, n_features=3, dropout=share, **SIZES), seed=0) for share in (0.0, 0.5)
    )
    condition = random_condition(2, 3, 8)
    state, tau = torch.randn(2, 3, 8), torch.full((2,), 0.3, dtype=torch.float64)

    def output(network: torch.nn.Module, seed: int) -> torch.Tensor:
        with seeded_dropout([seed], CPU):
            return network(state, tau, condition)

    assert torch.equal(output(plain.train(), 0), output(dropping.eval(), 0))
    first, same, other = (output(dropping.train(), seed) for seed in (0, 0, 1))
    assert torch.equal(first, same)
    assert not torch.allclose(first, other)
    assert not torch.allclose(first, output(plain, 0))


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match="dropout: expected a share from 0 to below 1, came"):
        tiny_network(dropout=share)
