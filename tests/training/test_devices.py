"""Gradients of parts of a batch: those of the whole batch, and the same to the bit whoever computes them."""

from __future__ import annotations

import pytest
import torch
from lightning_fabric import Fabric
from tiny_models import tiny_network
from torch import Tensor, nn

from tsimpute.config import registry
from tsimpute.core.containers import Batch
from tsimpute.generative.objective import draw, loss_per_record, squared_errors
from tsimpute.testing._records import random_batch
from tsimpute.training.devices import CallableModule, gradients_one_by_one, gradients_side_by_side, side_by_side_here

pytestmark = pytest.mark.threads(3)
PROCESS = registry.make("processes", "flow_matching")
BATCH = random_batch(7, 3, 8)


def losses(network: nn.Module, batch: Batch) -> Tensor:
    tau, noise = draw(batch, PROCESS)
    return loss_per_record(squared_errors(network, PROCESS, batch, tau, noise), batch.target_mask)  # type: ignore[arg-type]


def parts(size: int) -> list[Batch]:
    return [BATCH.select(slice(first, first + size)) for first in range(0, len(BATCH), size)]


def gradients(network: nn.Module) -> list[Tensor]:
    return [w.grad for w in network.parameters() if w.grad is not None]


def side_by_side(size: int, n_threads: int) -> tuple[Tensor, list[Tensor]]:
    torch.set_num_threads(n_threads)
    network = tiny_network()
    total = gradients_side_by_side(network, parts(size), losses, 0.5)
    return total, gradients(network)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_threads_and_fabric_give_the_same_to_the_bit(size: int):
    total, found = side_by_side(size, 3)
    for n_threads in (1, 2, 4):
        again, same = side_by_side(size, n_threads)
        assert torch.equal(total, again)
        assert all(map(torch.equal, found, same))
    torch.set_num_threads(1)
    fabric = Fabric(accelerator="cpu", devices=1)
    network = tiny_network()
    model = fabric.setup_module(CallableModule(network))
    by_fabric = gradients_one_by_one(fabric, model, parts(size), losses, 0.5)
    assert torch.equal(total, by_fabric)
    assert len(found) > 10
    assert all(map(torch.equal, found, gradients(network)))


def test_the_sum_over_parts_is_that_of_the_batch():
    whole, expected = side_by_side(7, 1)
    total, found = side_by_side(2, 3)
    torch.testing.assert_close(total, whole, rtol=1e-5, atol=0)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)
    torch.set_num_threads(1)
    network = tiny_network()
    (0.5 * losses(network, BATCH).sum()).backward()
    assert all(map(torch.equal, expected, gradients(network)))


def test_they_are_added_to_what_is_there():
    network = tiny_network()
    for _ in range(2):
        gradients_side_by_side(network, parts(3), losses, 0.5)
    for twice, once in zip(gradients(network), side_by_side(3, 3)[1], strict=True):
        torch.testing.assert_close(twice, 2 * once, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("precision", "here"), [("32-true", True), ("bf16-mixed", False)])
def test_only_full_precision_is_for_threads(precision: str, here: bool):
    assert side_by_side_here(Fabric(accelerator="cpu", devices=1), precision) == here
