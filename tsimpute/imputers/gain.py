"""GAIN (Yoon, Jordon and van der Schaar 2018): a generator against a discriminator that is given hints."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from tsimpute.core.windows import Windows
from tsimpute.errors import ConfigError
from tsimpute.imputers.shared.standardised import StandardisedImputer, check_counts, rows_of

_LAYERS = tuple(f"{kind}{layer}" for layer in range(3) for kind in ("weight", "bias"))
_EPS = 1e-8


class GainImputer(StandardisedImputer):
    """Two small networks, each with two hidden layers as wide as there are features, on values between 0 and 1.

    A row is one step of a record, so a table is records of one step. The settings are those of the package hyperimpute.
    The noise of the generator is uniform on (0, 0.01) in training. It moves predictions by about 0.01 standard
    deviations, which is no spread to report: ``impute`` sets it to its mean and repeats one answer. Values outside the
    range of the visible training cells are never given.

    Args:
        n_steps: gradient steps of each network; 25,000 in the paper of CFMI.
        batch_size: rows of a step.
        hint_rate: share of the mask that the discriminator is given.
        alpha: weight of the squared error at visible cells in the generator's loss.
        seed: of ``fit``.
    """

    name = "gain"
    _LEARNT: ClassVar = ("low", "range", *_LAYERS)

    def __init__(
        self, n_steps: int = 25_000, batch_size: int = 256, hint_rate: float = 0.9, alpha: float = 10.0, seed: int = 0
    ) -> None:
        check_counts(n_steps=n_steps, batch_size=batch_size)
        if not (0 <= hint_rate <= 1 and alpha >= 0):
            raise ConfigError(f"hint_rate, alpha: expected a share and a weight from 0, came {hint_rate!r}, {alpha!r}.")
        self.n_steps, self.batch_size, self.seed = n_steps, batch_size, seed
        self.hint_rate, self.alpha = float(hint_rate), float(alpha)

    def _learn(self, known: np.ndarray, train: Windows) -> dict[str, np.ndarray]:
        rows = rows_of(known)
        low = np.nanmin(np.where(np.isnan(rows).all(0), 0.0, rows), 0)
        span = np.nanmax(np.where(np.isnan(rows).all(0), 0.0, rows), 0) - low
        scaled = torch.tensor((rows - low) / np.where(span > 0, span, 1.0), dtype=torch.float32)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed)
            layers = self._trained(scaled.nan_to_num(), (~scaled.isnan()).float()).parameters()
        arrays = (parameter.detach().double().numpy() for parameter in layers)
        return {"low": low, "range": span} | dict(zip(_LAYERS, arrays, strict=True))

    def _trained(self, values: Tensor, observed: Tensor) -> nn.Sequential:
        """The generator, of values (R, K) between 0 and 1 that are 0 where they are not observed."""
        generator, discriminator = _network(values.shape[1]), _network(values.shape[1])
        of_generator, of_discriminator = (torch.optim.Adam(net.parameters()) for net in (generator, discriminator))

        def sample() -> tuple[Tensor, Tensor, Tensor]:
            """A batch with its noise, its mask, and what the generator makes of it."""
            at = torch.randperm(len(values))[: self.batch_size]
            mask = observed[at]
            noisy = values[at] + (1 - mask) * 0.01 * torch.rand(mask.shape)
            return noisy, mask, generator(torch.cat([noisy, mask], 1))

        def real(noisy: Tensor, mask: Tensor, imputed: Tensor) -> Tensor:
            """The discriminator's probability of each cell that it was observed."""
            hint = mask * (torch.rand(mask.shape) < self.hint_rate)
            return discriminator(torch.cat([mask * noisy + (1 - mask) * imputed, hint], 1))

        for _ in range(self.n_steps):
            noisy, mask, imputed = sample()
            chance = real(noisy, mask, imputed.detach())
            _step(of_discriminator, -(mask * (chance + _EPS).log() + (1 - mask) * (1 - chance + _EPS).log()).mean())
            noisy, mask, imputed = sample()
            error = (mask * (noisy - imputed)).square().mean() / mask.mean().clamp(min=_EPS)
            _step(of_generator, self.alpha * error - ((1 - mask) * (real(noisy, mask, imputed) + _EPS).log()).mean())
        return generator

    def _filled(self, known: np.ndarray, times: np.ndarray) -> np.ndarray:
        low, span = self.learnt_["low"], self.learnt_["range"]
        rows = (known.T - low) / np.where(span > 0, span, 1.0)
        state = np.concatenate([np.where(np.isnan(rows), 0.005, rows), ~np.isnan(rows)], -1)
        for layer in range(3):
            state = state @ self.learnt_[f"weight{layer}"].T + self.learnt_[f"bias{layer}"]
            state = np.maximum(state, 0) if layer < 2 else 0.5 * (1 + np.tanh(state / 2))
        return np.where(np.isnan(rows), low + span * state, known.T).T


def _step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def _network(width: int) -> nn.Sequential:
    linear = nn.Linear
    return nn.Sequential(linear(2 * width, width), nn.ReLU(), linear(width, width), nn.ReLU(), linear(width, width),
                         nn.Sigmoid())  # fmt: skip


PLUGIN = GainImputer
