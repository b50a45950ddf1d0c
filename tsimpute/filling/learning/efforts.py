"""How long to learn from a table: sizes of network and training by the name of the effort."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tsimpute.config.settings import NetworkConfig, TrainingConfig


@dataclass(frozen=True)
class Effort:
    """Sizes that cost time.

    Attributes:
        steps: optimiser steps of the network, about.
        width, n_blocks: of the network.
        hidden: share of the observed cells that is hidden to measure on.
        windows: windows of the network that are drawn to measure, at most.
        methods: what is learnt: a network alone, a Gaussian process alone, a process and randomised trees on its
            posterior, or a process and a network that starts from it.
        timed: whether it ends within a time, and does as much as fits in.
    """

    steps: int
    width: int
    n_blocks: int
    hidden: float
    windows: int
    methods: Literal["network", "gaussian", "forest", "both"] = "network"
    timed: bool = False

    @property
    def improves(self) -> bool:
        """Whether a first answer is improved while there is time."""
        return self.methods in ("forest", "both")

    @property
    def network(self) -> NetworkConfig:
        options = {
            "width": self.width, "n_heads": self.width // 8, "n_blocks": self.n_blocks, "width_time": 64,
            "width_feature": 16, "width_tau": 64,
        }  # fmt: skip
        return NetworkConfig("context_cells", options, base="linear" if self.methods == "network" else "gaussian")

    def training(self, n_windows: int, seed: int) -> TrainingConfig:
        """A cosine schedule over about ``steps`` steps."""
        batch = min(16, n_windows)
        batches = -(-n_windows // batch)
        return TrainingConfig(
            epochs=max(1, round(self.steps / batches)), batch_size=batch, micro_batch=max(1, batch // 4),
            learning_rate=1e-3, warmup_steps=min(50, self.steps // 10), schedule="cosine", clip_norm=2.0, ema=0.99,
            mask_policy="mix" if self.methods == "network" else "gaps", seed=seed,
        )  # fmt: skip


EFFORTS = {
    "auto": Effort(steps=0, width=0, n_blocks=0, hidden=0.1, windows=200, methods="forest", timed=True),
    "instant": Effort(steps=0, width=0, n_blocks=0, hidden=0.1, windows=200, methods="gaussian"),
    "trial": Effort(steps=20, width=16, n_blocks=1, hidden=0.1, windows=60),
    "quick": Effort(steps=500, width=16, n_blocks=2, hidden=0.1, windows=100, methods="both"),
    "normal": Effort(steps=2500, width=32, n_blocks=3, hidden=0.1, windows=200, methods="both"),
    "thorough": Effort(steps=8000, width=64, n_blocks=4, hidden=0.1, windows=400, methods="both"),
}
