"""The laws of every imputer and peer: each file in their folders is under test the moment it exists."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tsimpute.config import registry
from tsimpute.config.settings import NetworkConfig, SamplingConfig, TrainingConfig
from tsimpute.errors import ConfigError
from tsimpute.testing import Case, cases, subject

SETTINGS: dict[str, dict[str, Any]] = {
    "generative": {
        "network": NetworkConfig(options={"width": 8, "n_heads": 2, "n_blocks": 1}),
        "training": TrainingConfig(epochs=1, batch_size=4),
        "sampling": SamplingConfig(n_steps=2),
    },
    "iterative": {"max_iter": 2},
    "linear_pool": {"members": ["gaussian", {"imputer": "gaussian", "options": {"seed": 1}}], "shares": [2, 1]},
    "gain": {"n_steps": 20},
    "mice": {"max_iter": 2},
    "miss_forest": {"n_trees": 3, "max_iter": 2},
    "sinkhorn": {"n_steps": 5},
}
"""Settings that make an imputer small enough for tests, by its name; none = its defaults."""

DETERMINISTIC = {
    "mean",
    "median",
    "locf",
    "linear",
    "pchip",
    "seasonal",
    "low_rank",
    "softimpute",
    "gain",
    "sinkhorn",
    "knn",
    "chained_lags",
    "miss_forest",
}
PEERS = [name for name in registry.available("peers") if name != "pypots"]  # pypots has its laws, and an environment
every_imputer = pytest.mark.parametrize("name", [*registry.available("imputers"), *PEERS])


@cache
def under_test(name: str) -> Any:
    kind = "peers" if name in PEERS else "imputers"
    return subject(kind, name, SETTINGS.get(name), deterministic=name in DETERMINISTIC)


@every_imputer
@pytest.mark.parametrize("case", cases("imputers"), ids=str)
def test_law(name: str, case: Case) -> None:
    case.check(under_test(name))


@every_imputer
def test_an_unknown_setting_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="no_such_setting"):
        registry.make("peers" if name in PEERS else "imputers", name, no_such_setting=1)


def test_an_unknown_imputer_is_answered_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="linear, linear_pool, locf, low_rank, mean, median"):
        registry.make("imputers", "spline")
    assert {"linear", "locf", "mean", "median"} <= set(registry.available("imputers"))
