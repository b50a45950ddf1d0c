"""PyPOTS in its own environment: the client with a stand-in for the worker everywhere, the real one where it is."""

import os
import stat
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tsimpute.config import registry
from tsimpute.core.windows import Feature, Windows
from tsimpute.errors import CheckpointError, ConfigError, DataError, MissingExtraError, NotFittedError, TsimputeError
from tsimpute.peers._pypots_worker import CLASSES, DRAWS
from tsimpute.peers.pypots import INTERPRETER, SIZES, PypotsImputer

STAND_IN = """#!{python}
import json, sys, time
from pathlib import Path
import numpy as np

folder, seen = Path(sys.argv[2]), Path({seen!r})
request = json.loads((folder / "request.json").read_text())
arrays = dict(np.load(folder / "arrays.npz"))
np.savez(seen / (request["work"] + ".npz"), **arrays)
(seen / (request["work"] + ".json")).write_text(json.dumps(request))
if request["sizes"].get("fault") == "slow":
    time.sleep(60)
if request["sizes"].get("fault") == "error":
    sys.exit("RuntimeError: no such layer")
weights = folder / "weights.pypots"
if request["work"] == "fit":
    weights.write_bytes(np.nanmean(arrays["train"], (0, 1)).astype("<f8").tobytes())
    np.savez(folder / "answer.npz")
else:
    x = arrays["records"]
    times = request["n_samples"] if request["model"] in {draws!r} else 1
    noise = np.random.default_rng(request["seed"]).normal(size=(len(x), times, *x.shape[1:]))
    mean = np.frombuffer(weights.read_bytes(), "<f8")
    np.savez(folder / "answer.npz", draws=np.where(np.isnan(x)[:, None], mean + noise, x[:, None] + 1e-4))
"""


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    """The folder with what a stand-in for the worker was given."""
    folder = tmp_path / "seen"
    folder.mkdir()
    return folder


@pytest.fixture
def python(tmp_path: Path, seen: Path) -> str:
    path = tmp_path / "python"
    path.write_text(STAND_IN.format(python=sys.executable, seen=str(seen), draws=DRAWS))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def records(n: int, seed: int, dtype: type = np.float64) -> Windows:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 3, 8)) * np.array([1.0, 20.0, 300.0])[:, None] + np.array([0.0, 80.0, -5.0])[:, None]
    values[rng.random(values.shape) < 0.33] = np.nan
    values[0, 0, 2] = -0.0
    held_out = ~np.isnan(values) & (rng.random(values.shape) < 0.25)
    held_out[0, 0, 2] = False
    features = (Feature("HR", "bpm"), Feature("Temp", "degC"), Feature("Urine", "mL"))
    times = np.tile(np.arange(8.0), (n, 1))
    return Windows(values.astype(dtype), times, features, tuple(f"{seed}-{i}" for i in range(n)), held_out)


TRAIN, VALID, TEST = records(8, 1), records(3, 2), records(5, 3)


def poisoned(windows: Windows) -> Windows:
    return replace(windows, values=np.where(windows.scored, 1e9, windows.values))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shown_values_come_back_bit_for_bit_and_only_cells_asked_for_are_filled(python: str, dtype: type):
    peer = PypotsImputer(python=python).fit(TRAIN, VALID)
    test = records(5, 3, dtype)
    samples = peer.impute(test, 4, fill=test.scored.copy())
    assert samples.values.dtype == dtype
    for draw in samples.values:
        assert draw[test.shown].tobytes() == test.values[test.shown].tobytes()
    np.testing.assert_array_equal(np.isfinite(samples.values).all(0), test.shown | test.scored)
    assert np.isfinite(peer.impute(test, 2).values).all()


def test_the_worker_gets_shown_standardised_cells_and_nothing_else(python: str, seen: Path):
    peer = PypotsImputer(python=python).fit(poisoned(TRAIN), poisoned(VALID))
    given = dict(np.load(seen / "fit.npz"))
    assert set(given) == {"train", "valid", "valid_whole"}
    by_step = TRAIN.shown.transpose(0, 2, 1)
    np.testing.assert_array_equal(~np.isnan(given["train"]), by_step)
    np.testing.assert_allclose(np.nanmean(given["train"], (0, 1)), 0, atol=1e-6)
    np.testing.assert_allclose(np.nanstd(given["train"], (0, 1)), 1, atol=1e-6)
    np.testing.assert_array_equal(~np.isnan(given["valid_whole"]), VALID.shown.transpose(0, 2, 1))
    hidden = np.isnan(given["valid"]) & ~np.isnan(given["valid_whole"])
    np.testing.assert_array_equal(hidden.sum((1, 2)), VALID.shown.sum((1, 2)) // 10)
    peer.impute(poisoned(TEST), 2)
    np.testing.assert_array_equal(~np.isnan(dict(np.load(seen / "impute.npz"))["records"]),
                                  TEST.shown.transpose(0, 2, 1))  # fmt: skip


def test_held_out_values_change_nothing(python: str):
    clean = PypotsImputer(python=python).fit(TRAIN, VALID)
    poison = PypotsImputer(python=python).fit(poisoned(TRAIN), poisoned(VALID))
    assert clean.weights_.tobytes() == poison.weights_.tobytes()
    assert clean.impute(TEST, 3, 1).values.tobytes() == poison.impute(poisoned(TEST), 3, 1).values.tobytes()


def test_draws_differ_where_the_model_draws_and_one_answer_is_repeated_where_not(python: str):
    for model in ("csdi", "saits"):
        samples = PypotsImputer(model, python=python).fit(TRAIN).impute(TEST, 3, seed=1)
        gap = ~TEST.shown
        assert (samples.values[0, gap] != samples.values[1, gap]).all() == (model == "csdi")
        again = PypotsImputer(model, python=python).fit(TRAIN).impute(TEST, 3, seed=1)
        assert again.values.tobytes() == samples.values.tobytes()


def test_options_reach_the_worker(python: str, seen: Path):
    PypotsImputer("brits", epochs=3, batch_size=5, sizes={"rnn_hidden_size": 9}, seed=4, python=python).fit(TRAIN)
    request = (seen / "fit.json").read_text()
    for part in ('"epochs": 3', '"batch_size": 5', '"rnn_hidden_size": 9', '"seed": 4', '"n_steps": 8'):
        assert part in request


def test_saved_and_loaded_is_the_same(python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    peer = PypotsImputer(python=python, epochs=7).fit(TRAIN)
    peer.save(tmp_path / "model")
    monkeypatch.setenv(INTERPRETER, python)
    loaded = PypotsImputer.load(tmp_path / "model")
    assert loaded.epochs == 7
    assert loaded.impute(TEST, 2).values.tobytes() == peer.impute(TEST, 2).values.tobytes()
    (tmp_path / "model").write_bytes((tmp_path / "model").read_bytes()[:300])
    with pytest.raises(CheckpointError, match="model"):
        PypotsImputer.load(tmp_path / "model")


def test_without_an_interpreter_the_message_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(INTERPRETER, raising=False)
    for given in (None, "/no/such/python"):
        with pytest.raises(MissingExtraError, match="install_pypots"):
            PypotsImputer(python=given).fit(TRAIN)


def test_a_worker_that_fails_or_takes_too_long_is_told_with_its_log(python: str):
    with pytest.raises(TsimputeError, match=r"code 1.*no such layer"):
        PypotsImputer(python=python, sizes={"fault": "error"}).fit(TRAIN)
    with pytest.raises(TsimputeError, match="time_limit"):
        PypotsImputer(python=python, sizes={"fault": "slow"}, time_limit=1).fit(TRAIN)


def test_senseless_requests_are_refused(python: str):
    assert set(CLASSES) == set(SIZES)
    assert "pypots" in registry.available("peers")
    with pytest.raises(ConfigError, match="timesnet"):
        PypotsImputer("lstm")
    with pytest.raises(ConfigError, match="epochs"):
        PypotsImputer(epochs=0)
    with pytest.raises(NotFittedError):
        PypotsImputer().impute(TEST, 1)
    peer = PypotsImputer(python=python).fit(TRAIN)
    with pytest.raises(DataError, match="expected 8, as learnt"):
        peer.impute(TEST.steps(slice(5)), 1)
    with pytest.raises(DataError, match="order"):
        peer.impute(replace(TEST, features=TEST.features[::-1]), 1)


def test_the_real_csdi_learns_and_draws():
    """Shown values, draws and leaks, with PyPOTS itself."""
    own = Path(__file__).parents[2] / "benchmarks/peers/.venv/bin/python"
    python = os.environ.get(INTERPRETER) or str(own)
    if not Path(python).is_file():
        pytest.skip(f"PYPOTS ABSENT: name its interpreter in {INTERPRETER}, or call benchmarks/peers/install_pypots")
    sizes = {"n_layers": 1, "n_heads": 1, "n_channels": 4, "n_diffusion_steps": 3}
    peer = PypotsImputer(epochs=1, sizes=sizes, python=python, device="cpu").fit(TRAIN, VALID)
    samples = peer.impute(TEST, 2)
    assert np.isfinite(samples.values).all()
    assert (samples.values[0, ~TEST.shown] != samples.values[1, ~TEST.shown]).all()
    assert samples.values[0][TEST.shown].tobytes() == TEST.values[TEST.shown].tobytes()
