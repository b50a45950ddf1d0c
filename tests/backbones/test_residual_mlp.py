"""The residual multilayer perceptron: its function written out, and that it is used by all processes and solvers."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import tsimpute as ti
from tsimpute.backbones.residual_mlp import ResidualMLP
from tsimpute.config.registry import available
from tsimpute.core.windows import Feature, Windows
from tsimpute.errors import ConfigError
from tsimpute.testing._records import random_batch, shaken

OPTIONS = {"width": 8, "n_blocks": 2, "width_tau": 8}


def rows(n: int = 40, k: int = 3, length: int = 1) -> Windows:
    """A table with gaps; its last feature is the sum of the others."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(n, k, length))
    values[:, -1] = values[:, :-1].sum(1)
    values[rng.random(values.shape) < 0.3] = np.nan
    times = np.tile(np.arange(float(length)), (n, 1))
    return Windows(values, times, tuple(Feature(f"x{i}", "1") for i in range(k)), tuple(f"r{i}" for i in range(n)))


def test_is_the_function_of_the_paper() -> None:
    network = shaken(ResidualMLP(2, **OPTIONS))
    condition = random_batch(5, 2, 1).condition
    state, tau = torch.randn(5, 2, 1), torch.linspace(0, 1, 5, dtype=torch.float64)
    inputs = [state * condition.query_mask, condition.values, condition.cond_mask, condition.query_mask]
    h = F.relu(network.enter(torch.cat([*(x[..., 0].float() for x in inputs), network.of_tau(tau)], 1)))
    for block in network.blocks:
        h = F.relu(h + block.second(F.relu(block.first(h))))
    torch.testing.assert_close(network(state, tau, condition)[..., 0], network.leave(h))


def test_has_the_size_of_the_paper() -> None:
    layers = [4 * 2 + 128] + [256] * 9
    weights = sum(a * b + b for a, b in zip(layers, [*layers[1:], 2], strict=True))
    embedding = 2 * (128 * 128 + 128)
    assert sum(w.numel() for w in ResidualMLP(2).parameters()) == weights + embedding


@pytest.mark.parametrize("process", ["flow_matching", "diffusion"])
@pytest.mark.parametrize("solver", available("solvers"))
def test_every_process_and_solver_takes_it(process: str, solver: str) -> None:
    training = ti.TrainingConfig(max_steps=3, batch_size=8, micro_batch=8)
    sampling = ti.SamplingConfig(solver=solver, n_steps=4)
    table = rows()
    imputer = ti.GenerativeImputer(process, ti.NetworkConfig("residual_mlp", OPTIONS), training, sampling).fit(table)
    samples = imputer.impute(table, n_samples=2, seed=0)
    assert np.isfinite(samples.values).all()
    visible = np.broadcast_to(table.observed, samples.values.shape)
    assert np.array_equal(samples.values[visible], np.broadcast_to(table.values, visible.shape)[visible])


@pytest.mark.parametrize(("process", "solver"), [("flow_matching", None), ("diffusion", "one_step")])
@pytest.mark.parametrize("antithetic", [False, True])
def test_a_row_gets_the_same_bits_alone_in_any_order_and_with_more_draws(
    process: str, solver: str | None, antithetic: bool
) -> None:
    table = rows(150)
    training = ti.TrainingConfig(max_steps=2, batch_size=8)
    sampling = ti.SamplingConfig(solver=solver, n_steps=3, antithetic=antithetic)
    imputer = ti.GenerativeImputer(process, ti.NetworkConfig("residual_mlp"), training, sampling).fit(table)
    together = imputer.impute(table, n_samples=2, seed=4).values
    backwards = imputer.impute(table.select(np.arange(150)[::-1]), n_samples=3, seed=4).values
    assert np.array_equal(backwards[:2, ::-1], together, equal_nan=True)
    for n in (0, 77, 149):
        assert np.array_equal(imputer.impute(table.select([n]), n_samples=1, seed=4).values[0, 0], together[0, n])
    cells = np.broadcast_to(~table.observed, together.shape)
    assert len(np.unique(together[cells])) == cells.sum()  # no two draws are alike


def test_a_draw_is_that_of_the_record_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    table, training = rows(20), ti.TrainingConfig(max_steps=2, batch_size=8)
    imputer = ti.GenerativeImputer(network=ti.NetworkConfig("residual_mlp"), training=training).fit(table)
    blocks = imputer.impute(table, n_samples=3, seed=4).values
    monkeypatch.setattr(ResidualMLP, "__getattribute__", _without_max_length)
    np.testing.assert_allclose(imputer.impute(table, n_samples=3, seed=4).values, blocks, rtol=1e-4, atol=1e-5)


def _without_max_length(network: ResidualMLP, name: str) -> object:
    """As for a backbone that takes records of any length, which are sampled one by one."""
    if name == "max_length" and inspect.stack()[1].function == "sample":
        raise AttributeError(name)
    return object.__getattribute__(network, name)


def test_records_of_several_steps_are_refused() -> None:
    imputer = ti.GenerativeImputer(network=ti.NetworkConfig("residual_mlp", OPTIONS))
    with pytest.raises(ConfigError, match="residual_mlp is for records of one step, came 4 steps"):
        imputer.fit(rows(length=4))


@pytest.mark.parametrize("wrong", [{"width": 0}, {"n_blocks": 0}, {"width_tau": 5}, {"n_given": 2}])
def test_sizes_that_do_not_fit_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="residual_mlp: expected"):
        ResidualMLP(2, **wrong)
