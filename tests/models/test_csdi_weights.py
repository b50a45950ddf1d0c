"""The network, the schedule and the ancestral sampler are those of the original CSDI, number by number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tsimpute.backbones.dual_transformer import DualTransformer
from tsimpute.backbones.embeddings import clock_embedding
from tsimpute.core.containers import Condition
from tsimpute.errors import CheckpointError
from tsimpute.models.csdi_weights import load_csdi_weights
from tsimpute.processes.diffusion import Diffusion
from tsimpute.solvers.one_step import OneStep


@pytest.fixture(scope="module")
def stored(reference_root: Path) -> dict[str, np.ndarray]:
    return dict(np.load(reference_root / "csdi_parity.npz").items())


@pytest.fixture(scope="module")
def network(reference_root: Path) -> DualTransformer:
    return load_csdi_weights(reference_root / "csdi_physionet2012.pth")


@pytest.fixture(scope="module")
def condition(stored: dict[str, np.ndarray]) -> Condition:
    """The original puts noise into every cell that is not shown."""
    values, cond_mask = torch.from_numpy(stored["values"]), torch.from_numpy(stored["cond_mask"]).bool()
    return Condition(values * cond_mask, cond_mask, ~cond_mask, torch.arange(48.0).expand(4, 48))


def test_schedule(stored: dict[str, np.ndarray]):
    process = Diffusion()
    np.testing.assert_allclose(process.beta.numpy(), stored["beta"], rtol=1e-6)
    np.testing.assert_allclose(process.alpha_bar.numpy(), stored["alpha_bar"], rtol=1e-5)


def test_all_weights_are_used_and_none_is_made_up(network: DualTransformer):
    assert sum(w.numel() for w in network.parameters()) == 414_065


def test_side_information_is_that_of_the_original(stored: dict[str, np.ndarray], network: DualTransformer):
    side = stored["side_info"][0]
    clock = clock_embedding(torch.arange(48.0)[None], 128)[0]
    np.testing.assert_allclose(side[:128], np.tile(clock.T.numpy()[:, None], (1, 35, 1)), atol=2e-6)
    feature = network.feature.weight.detach().numpy()
    np.testing.assert_array_equal(side[128:144], np.tile(feature.T[:, :, None], (1, 1, 48)))
    np.testing.assert_array_equal(side[144], stored["cond_mask"][0])


@pytest.mark.parametrize("which", range(4))
def test_predicted_noise(stored: dict[str, np.ndarray], network: DualTransformer, condition: Condition, which: int):
    process, level = Diffusion(), int(stored["steps"][which])
    tau = torch.full((4,), 1 - (level + 1) / 50, dtype=torch.float64)
    state = process.corrupt(torch.from_numpy(stored["values"]), torch.from_numpy(stored["noise"]), tau)
    with torch.inference_mode():
        output = network(state, tau, condition).numpy()
    expected = stored["predicted_noise"][which]
    assert np.abs(output - expected).max() < 1e-4 * np.abs(expected).max()
    assert np.linalg.norm(output - expected) < 1e-4 * np.linalg.norm(expected)


def test_ancestral_sampler(stored: dict[str, np.ndarray], network: DualTransformer, condition: Condition):
    process, solver, shown = Diffusion(), OneStep(eta=1.0), condition.select(slice(0, 2))
    noise = iter(torch.from_numpy(stored["sampling_noise"]))

    def predict(state: Tensor, tau: Tensor):
        return process.predict(network(state, tau, shown), state, tau)

    with torch.inference_mode():
        state = solver.solve(predict, process.scales, next(noise), process.grid(50), lambda: next(noise))
    assert next(noise, None) is None
    hidden = shown.fill_mask.numpy()
    assert np.abs(state.numpy() - stored["sampled"])[hidden].max() < 1e-4 * np.abs(stored["sampled"][hidden]).max()


def test_foreign_and_truncated_files_are_refused_in_one_sentence(tmp_path: Path, reference_root: Path):
    whole = (reference_root / "csdi_physionet2012.pth").read_bytes()
    for content in (b"", b"not weights", whole[: len(whole) // 2], whole[:-40]):
        (tmp_path / "w.pth").write_bytes(content)
        refused(tmp_path / "w.pth")


def test_other_content_and_no_file_are_refused(tmp_path: Path):
    path = tmp_path / "w.pth"
    for other in ({"weight": torch.zeros(3)}, {"a.weight": torch.zeros(3)}, [1], {"embed_layer.weight": "x"}):
        torch.save(other, path)
        refused(path)
    refused(tmp_path / "none.pth")


def refused(path: Path) -> None:
    with pytest.raises(CheckpointError, match="expected a weights file of the original CSDI") as error:
        load_csdi_weights(path)
    assert "\n" not in str(error.value)
