"""PyPOTS' networks (CSDI, SAITS, BRITS, GP-VAE, ImputeFormer, TimesNet), run in an environment of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Feature, Samples, Windows
from tsimpute.errors import CheckpointError, ConfigError, DataError, MissingExtraError, NotFittedError, TsimputeError
from tsimpute.imputers.shared.records import cells_asked, check_features, collected, completed
from tsimpute.imputers.shared.standardised import check_counts
from tsimpute.models.array_files import read_model, write_model
from tsimpute.scaling.standardizer import Standardizer
from tsimpute.system.files import packaged
from tsimpute.tasks.missingness import random_cells

INTERPRETER = "TSIMPUTE_PYPOTS_PYTHON"
SIZES: dict[str, dict[str, Any]] = {
    "csdi": {"n_layers": 4, "n_heads": 8, "n_channels": 64, "d_time_embedding": 128, "d_feature_embedding": 16,
             "d_diffusion_embedding": 128, "n_diffusion_steps": 50},
    "saits": {"n_layers": 2, "d_model": 256, "n_heads": 4, "d_k": 64, "d_v": 64, "d_ffn": 128, "dropout": 0.1},
    "brits": {"rnn_hidden_size": 108},
    "gpvae": {"latent_size": 35, "encoder_sizes": [128, 128], "decoder_sizes": [256, 256], "beta": 0.2,
              "length_scale": 7.0, "window_size": 24},
    "imputeformer": {"n_layers": 3, "d_input_embed": 32, "d_learnable_embed": 96, "d_proj": 8, "d_ffn": 256,
                     "n_temporal_heads": 4},
    "timesnet": {"n_layers": 2, "top_k": 3, "d_model": 64, "d_ffn": 128, "n_kernels": 4, "dropout": 0.1},
}  # fmt: skip
"""Sizes of each model: those of its paper for PhysioNet 2012 where it tells them, else near those of its own code."""

_VALID_RATE = 0.1


class PypotsImputer:
    """One of PyPOTS' models under another interpreter; both sides speak through files in a temporary folder.

    The worker gets standardised shown cells and nothing else; the scaler is fitted on shown training cells. A tenth of
    the shown cells of validation records is hidden from it, and the weights of the epoch that is best there are kept;
    without validation records, of the epoch with the lowest training loss. Steps count as even: PyPOTS is not told the
    times.

    PyPOTS seeds global generators only. Draws of CSDI are repeatable with the same records in the same order and
    batches; **a record's draws depend on its batch**, unlike those of the package's own imputers. PyPOTS 1.5 decodes
    the mean of GP-VAE's latent state, so that its draws are all the same; of the other models one answer is repeated.
    Its rounding in float32 may differ with the batch, too.

    Args:
        model: "csdi", "saits", "brits", "gpvae", "imputeformer" or "timesnet".
        epochs: passes over the training records, at most.
        batch_size: records at once, in fit and impute.
        learning_rate: of Adam.
        patience: epochs without improvement on validation records before it stops; None = never.
        sizes: what differs from ``SIZES``, by the names that PyPOTS gives them.
        seed: of fit.
        device: "cpu", "cuda" or "cuda:0"; None = as PyPOTS chooses.
        python: interpreter of the environment that holds PyPOTS; None = what TSIMPUTE_PYPOTS_PYTHON names.
        time_limit: seconds that one call of the worker may take; None = any.
        progress: whether PyPOTS' log goes to standard error while it works.
    """

    records_at_once = 4096
    """Records of a call in an evaluation: each call starts PyPOTS anew, which takes seconds."""

    features_: tuple[Feature, ...]
    scaler_: Standardizer
    n_steps_: int
    weights_: np.ndarray

    def __init__(
        self,
        model: str = "csdi",
        epochs: int = 100,
        batch_size: int = 32,
        learning_rate: float = 1e-3,
        patience: int | None = None,
        sizes: Mapping[str, Any] | None = None,
        seed: int = 0,
        device: str | None = None,
        python: str | None = None,
        time_limit: float | None = None,
        progress: bool = False,
    ) -> None:
        if model not in SIZES:
            raise ConfigError(f"model: expected one of {', '.join(SIZES)}; came {model!r}.")
        check_counts(epochs=epochs, batch_size=batch_size, patience=patience or None)
        self.model, self.epochs, self.batch_size, self.learning_rate = model, epochs, batch_size, learning_rate
        self.patience, self.sizes, self.seed, self.device = patience, dict(sizes or {}), seed, device
        self.python, self.time_limit, self.progress = python, time_limit, progress

    @property
    def name(self) -> str:
        return f"pypots {self.model}"

    @property
    def no_data_(self) -> tuple[str, ...]:
        """Names of the features without a shown training cell."""
        return tuple(f.name for f, never in zip(self.features_, self.scaler_.never_shown, strict=True) if never)

    def fit(self, train: Windows, valid: Windows | None = None) -> Self:
        """Trains the model.

        Raises:
            DataError: ``train`` shows no cell at all.
            MissingExtraError: no interpreter with PyPOTS is named.
            TsimputeError: PyPOTS failed or took too long; the end of its log is in the message.
        """
        if not train.visible.any():
            raise DataError("train: expected at least one shown cell, came none. Are all values missing or held out?")
        scaler = Standardizer.fit(train)
        arrays = {"train": _coded(train, scaler)}
        if valid is not None and len(valid):
            check_features(train.features, valid.features)
            whole = replace(valid.without_held_out(), split=None)
            hidden = random_cells(whole, rate=_VALID_RATE, seed=self.seed)
            if hidden.any():
                part = _coded(replace(whole, held_out=hidden), scaler)
                arrays |= {"valid": part, "valid_whole": _coded(whole, scaler)}
        _, weights = self._work({"work": "fit", "seed": self.seed}, arrays, train, None)
        self.features_, self.scaler_, self.n_steps_, self.weights_ = train.features, scaler, train.n_steps, weights
        return self

    def impute(self, windows: Windows, n_samples: int, seed: int = 0, fill: np.ndarray | None = None) -> Samples:
        cells = cells_asked(self, windows, n_samples, fill)
        if windows.n_steps != self.n_steps_:
            raise DataError(f"steps: expected {self.n_steps_}, as learnt in fit, came {windows.n_steps}.")
        request = {"work": "impute", "n_samples": int(n_samples), "seed": derive_seed(int(seed), "pypots") % 2**32}
        answer, _ = self._work(request, {"records": _coded(windows, self.scaler_)}, windows, self.weights_)
        draws = answer["draws"].transpose(1, 0, 3, 2)  # (N, S, L, K) -> (S, N, K, L)
        draws = np.broadcast_to(draws, (n_samples, *windows.values.shape))
        parts = (slice(n, n + 1) for n in range(len(windows)))
        records = (completed(windows.select(at), self.scaler_, draws[:, at], cells[at]) for at in parts)
        return collected(records, windows, n_samples, progress=False)

    def save(self, path: Path) -> None:
        if not hasattr(self, "features_"):
            raise NotFittedError(f"imputer {self.name!r}: expected fit before save.")
        header = {
            "imputer": "pypots",
            "settings": {key: getattr(self, key) for key in _SETTINGS},
            "features": [[f.name, f.unit] for f in self.features_],
            "scaler": self.scaler_.to_dict(),
            "n_steps": self.n_steps_,
        }
        write_model(Path(path), header, {"weights": self.weights_})

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads what ``save`` wrote; PyPOTS reads the weights themselves with ``weights_only=True``, in the worker.

        The interpreter, the device and the time limit are not of the model: they are as by default.
        """
        header, arrays = read_model(Path(path), "pypots")
        try:
            imputer = cls(**header["settings"])
            imputer.features_ = tuple(Feature(*pair) for pair in header["features"])
            imputer.scaler_ = Standardizer.from_dict(header["scaler"])
            imputer.n_steps_, imputer.weights_ = int(header["n_steps"]), arrays["weights"]
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path}: the file is damaged: {error}. Fit and save again.") from error
        return imputer

    def _work(
        self, request: dict[str, Any], arrays: dict[str, np.ndarray], windows: Windows, weights: np.ndarray | None
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The worker's answer and the weights that it left."""
        settings = {key: getattr(self, key) for key in _SETTINGS} | {"sizes": SIZES[self.model] | self.sizes}
        steps = {"n_steps": windows.n_steps, "n_features": windows.n_features, "device": self.device}
        python = self.python or os.environ.get(INTERPRETER)
        if not python or not Path(python).is_file():
            raise MissingExtraError(
                "peer 'pypots': expected the interpreter of an environment that holds PyPOTS in `python` or in "
                f"{INTERPRETER}, came {python!r}. benchmarks/peers/install_pypots makes one in benchmarks/peers/.venv; "
                "by hand: a new environment, and in it `pip install torch==2.13.0 pypots==1.5`."
            )
        with tempfile.TemporaryDirectory(prefix="tsimpute_pypots_") as name:
            folder = Path(name)
            (folder / "request.json").write_text(json.dumps(settings | steps | request), encoding="utf-8")
            np.savez(folder / "arrays.npz", **arrays)  # type: ignore[arg-type]
            if weights is not None:
                (folder / "weights.pypots").write_bytes(weights.tobytes())
            _call(python, folder, self.time_limit, self.progress)
            with np.load(folder / "answer.npz", allow_pickle=False) as stored:
                answer = {key: stored[key] for key in stored.files}
            return answer, np.frombuffer((folder / "weights.pypots").read_bytes(), np.uint8)


_SETTINGS = ("model", "epochs", "batch_size", "learning_rate", "patience", "sizes", "seed")


def _coded(windows: Windows, scaler: Standardizer) -> np.ndarray:
    """(N, L, K) float32, NaN where a cell is not shown."""
    return np.ascontiguousarray(scaler.transform(windows.known).transpose(0, 2, 1), np.float32)


def _call(python: str, folder: Path, time_limit: float | None, progress: bool) -> None:
    """Runs the worker in the folder; its log goes to a file there, or to standard error."""
    log = folder / "log.txt"
    # Run from a folder of its own: beside its source, this module would stand for PyPOTS.
    worker = folder / "worker.py"
    worker.write_bytes(packaged("peers", "_pypots_worker.py").read_bytes())
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    with log.open("wb") as file:
        out = sys.stderr if progress else file
        try:
            done = subprocess.run([python, str(worker), str(folder)], stdout=out, stderr=out, timeout=time_limit,
                                  check=False, env=environment, cwd=folder).returncode  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise TsimputeError(
                f"pypots: expected an end within {time_limit} s, as time_limit says. {_end(log)}"
            ) from error
    if done or not (folder / "answer.npz").is_file():
        raise TsimputeError(f"pypots: expected an answer, the worker ended with code {done}. {_end(log)}")


def _end(log: Path) -> str:
    return "Its log ends: " + log.read_text(encoding="utf-8", errors="replace")[-1500:].strip()


PLUGIN = PypotsImputer
