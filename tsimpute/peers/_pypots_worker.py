"""Runs one PyPOTS model under the interpreter of PyPOTS' own environment; it imports nothing of this package.

Called as ``python _pypots_worker.py FOLDER``: reads ``request.json`` and ``arrays.npz`` there, writes ``answer.npz``
and the model ``weights.pypots``. Arrays are (N, L, K) float32 with NaN where a cell is not shown.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

CLASSES = {
    "csdi": "CSDI",
    "saits": "SAITS",
    "brits": "BRITS",
    "gpvae": "GPVAE",
    "imputeformer": "ImputeFormer",
    "timesnet": "TimesNet",
}
DRAWS = ("csdi", "gpvae")
"""Models that take ``n_sampling_times``."""


def main(folder: Path) -> None:
    """Does what ``request.json`` asks for: "fit" or "impute"."""
    import pypots.imputation  # type: ignore[import-not-found]
    from pypots.optim import Adam  # type: ignore[import-not-found]
    from pypots.utils.random import set_random_seed  # type: ignore[import-not-found]

    request: dict[str, Any] = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    with np.load(folder / "arrays.npz", allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    set_random_seed(request["seed"])
    model = getattr(pypots.imputation, CLASSES[request["model"]])(
        n_steps=request["n_steps"],
        n_features=request["n_features"],
        batch_size=request["batch_size"],
        epochs=request["epochs"],
        patience=request["patience"],
        optimizer=Adam(lr=request["learning_rate"]),
        device=request["device"],
        saving_path=None,
        **request["sizes"],
    )
    weights = folder / "weights.pypots"
    if request["work"] == "fit":
        valid = {"X": arrays["valid"], "X_ori": arrays["valid_whole"]} if "valid" in arrays else None
        model.fit({"X": arrays["train"]}, valid)
        model.save(str(weights), overwrite=True)
        np.savez(folder / "answer.npz")
        return
    model.load(str(weights))
    options = {"n_sampling_times": request["n_samples"]} if request["model"] in DRAWS else {}
    draws = np.asarray(model.impute({"X": arrays["records"]}, **options), np.float32)
    draws = draws if request["model"] in DRAWS else draws[:, None]
    np.savez(folder / "answer.npz", draws=draws)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
