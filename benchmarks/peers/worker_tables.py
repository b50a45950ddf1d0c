"""HyperImpute or ForestDiffusion under the interpreter of its environment: ``worker_tables.py PACKAGE FOLDER M``.

Reads ``table.npy`` there, rows x columns with NaN where a cell is missing, and writes ``imputed.npy``, M tables without
NaN, and ``seconds.json``: wall and CPU seconds of the work itself. A column without a value gets 0, and an empty row
the means of the columns where the package leaves it out. Options follow as ``name=number``: those of
``HyperImputePlugin``, of which ``n_inner_iter`` is the number of rounds, or of ``ForestDiffusionModel``.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np


def hyperimpute(table: np.ndarray, m: int, options: dict[str, float]) -> Iterator[np.ndarray]:
    """One run a seed: each is the package's one answer."""
    import pandas as pd
    from hyperimpute.plugins.imputers import Imputers  # type: ignore[import-not-found]

    for seed in range(m):
        frame = pd.DataFrame(table, columns=[f"f{k}" for k in range(table.shape[1])])
        plugin = Imputers().get("hyperimpute", random_state=seed, **options)
        yield plugin.fit_transform(frame).to_numpy(float)


def forestdiffusion(table: np.ndarray, m: int, options: dict[str, float]) -> Iterator[np.ndarray]:
    """M draws of one model by RePaint; ``impute`` without a table fills the scaled rows that it keeps of training."""
    from ForestDiffusion import ForestDiffusionModel  # type: ignore[import-not-found]

    some = ~np.isnan(table).all(1)  # it leaves out the others without a word
    settings = {"diffusion_type": "vp", "n_jobs": 1, "seed": 0} | options
    model = ForestDiffusionModel(table[some], **settings)
    for draw in model.impute(k=m, repaint=True).reshape(m, some.sum(), -1):
        filled = np.broadcast_to(np.nanmean(table, 0), table.shape).copy()
        filled[some] = draw
        yield filled


def main(package: str, folder: Path, m: int, options: dict[str, float]) -> None:
    table = np.load(folder / "table.npy")
    columns = ~np.isnan(table).all(0)
    out = np.zeros((m, *table.shape))
    wall, cpu = time.perf_counter(), sum(os.times()[:4])
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for draw, filled in enumerate(globals()[package](table[:, columns], m, options)):
            out[draw][:, columns] = filled
    seconds = {"wall_s": time.perf_counter() - wall, "cpu_s": sum(os.times()[:4]) - cpu}
    np.save(folder / "imputed.npy", np.where(np.isnan(table), out, table))
    (folder / "seconds.json").write_text(json.dumps(seconds), encoding="utf-8")


if __name__ == "__main__":
    given = dict(text.split("=") for text in sys.argv[4:])
    numbers = {name: float(text) if "." in text else int(text) for name, text in given.items()}
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), numbers)
