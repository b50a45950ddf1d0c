"""Small records and networks that several test files share, beside those of ``tsimpute.testing``."""

from __future__ import annotations

from typing import Any

import numpy as np

from tsimpute.backbones.dual_transformer import DualTransformer
from tsimpute.config.settings import NetworkConfig
from tsimpute.core.windows import Windows
from tsimpute.testing._records import FEATURES, SIZES, shaken

NETWORK = NetworkConfig(options=SIZES)


def waves(n: int = 8, n_steps: int = 8, seed: int = 0, name: str = "r") -> Windows:
    """Records whose three features follow one sine wave of random phase, in different units; a fifth is missing."""
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0, 2 * np.pi, size=(n, 1, 1))
    values = np.sin(0.8 * np.arange(n_steps) + phase) + 0.1 * rng.normal(size=(n, 3, n_steps))
    values = values * np.array([10.0, 0.5, 300.0])[:, None] + np.array([80.0, 37.0, 500.0])[:, None]
    values[rng.random(values.shape) < 0.2] = np.nan
    return Windows(
        values=values,
        times=np.tile(np.arange(float(n_steps)), (n, 1)),
        features=FEATURES,
        record_ids=tuple(f"{name}{i}" for i in range(n)),
    )


def tiny_network(n_features: int = 3, seed: int = 0, **options: Any) -> DualTransformer:
    """A network of some thousand parameters, none of which is 0."""
    return shaken(DualTransformer(n_features, **(SIZES | options)), seed)
