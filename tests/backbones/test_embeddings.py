"""Embeddings of the clock and of process time."""

from __future__ import annotations

import math

import torch

from tsimpute.backbones.embeddings import ProcessTimeEmbedding, clock_embedding
from tsimpute.processes.diffusion import Diffusion


def test_clock_embedding_is_the_published_formula():
    times = torch.tensor([[0.0, 1.0, 2.5, 47.0]])
    found = clock_embedding(times, 6)
    assert found.shape == (1, 4, 6)
    for t, time in enumerate(times[0].tolist()):
        for i in range(3):
            angle = time / 10000 ** (2 * i / 6)
            assert math.isclose(found[0, t, 2 * i].item(), math.sin(angle), abs_tol=1e-5)
            assert math.isclose(found[0, t, 2 * i + 1].item(), math.cos(angle), abs_tol=1e-5)


def positions(embedding: ProcessTimeEmbedding, tau: torch.Tensor) -> torch.Tensor:
    """The positions of ``tau`` on the axis of noise levels, read back through the layers of the network."""
    seen: list[torch.Tensor] = []
    handle = embedding.first.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    embedding(tau)
    handle.remove()
    sine, cosine = seen[0].chunk(2, -1)
    return torch.atan2(sine[:, 0].double(), cosine[:, 0].double()) / embedding.frequency[0].double()


def test_levels_of_a_diffusion_are_whole_positions_also_with_csdis_frequencies():
    process = Diffusion()
    embedding = ProcessTimeEmbedding(8)
    levels = torch.arange(50)
    for tau in (process.sample_tau((levels.double() + 0.5) / 50), process.grid(50)[:-1].flip(0)):
        sinusoids: list[torch.Tensor] = []
        handle = embedding.first.register_forward_pre_hook(lambda module, args, to=sinusoids: to.append(args[0]))
        embedding(tau)
        handle.remove()
        angle = levels[:, None].float() * embedding.frequency
        # At 1e4 radians per level an error of 1e-7 in the position would show as 1e-3.
        assert torch.allclose(sinusoids[0], torch.cat([angle.sin(), angle.cos()], -1), atol=1e-9, rtol=0)


def test_position_is_linear_in_tau_and_the_frequency_is_as_asked():
    slow = ProcessTimeEmbedding(8, n_levels=50, max_frequency=10.0)
    assert torch.allclose(slow.frequency, 10.0 ** torch.linspace(-3, 1, 4))
    tau = torch.tensor([0.0, 0.25, 0.5, 1.0], dtype=torch.float64)
    assert torch.allclose(positions(slow, tau), 50 * (1 - tau) - 1, atol=1e-3)


def test_nearby_times_look_alike_with_a_slow_frequency_only():
    tau = torch.tensor([0.5, 0.5001], dtype=torch.float64)

    def jump(max_frequency: float) -> float:
        embedding = ProcessTimeEmbedding(16, max_frequency=max_frequency)
        for layer in (embedding.first, embedding.second):
            torch.nn.init.eye_(layer.weight)
            torch.nn.init.zeros_(layer.bias)
        with torch.no_grad():
            return (embedding(tau)[0] - embedding(tau)[1]).abs().max().item()

    assert jump(10.0) < 0.05
    assert jump(1e4) > 0.3
