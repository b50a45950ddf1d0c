"""HyperImpute and ForestDiffusion as imputers of a suite: ``table_imputers:HyperImpute``, ``:ForestDiffusion``.

Each runs under an interpreter of its own environment, which ``peers/install_hyperimpute`` and
``peers/install_forestdiffusion`` make; TSIMPUTE_HYPERIMPUTE_PYTHON and TSIMPUTE_FORESTDIFFUSION_PYTHON name others.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np

from tsimpute.core.windows import Windows
from tsimpute.errors import DataError, MissingExtraError, TsimputeError
from tsimpute.imputers.shared.standardised import StandardisedImputer, check_counts, rows_of

_PEERS = Path(__file__).parent / "peers"


class _TableImputer(StandardisedImputer):
    """Imputes the standardised table in ``fit``; ``impute`` fills these records, and refuses others."""

    _LEARNT: ClassVar = ("ids", "known", "imputed")
    _options: Mapping[str, float]
    n_imputations: int

    def _learn(self, known: np.ndarray, train: Windows) -> dict[str, np.ndarray]:
        n, k, length = known.shape
        draws = run(self.name, rows_of(known), self.n_imputations, self._options)
        imputed = draws.reshape(-1, n, length, k).transpose(0, 1, 3, 2).copy()
        return {"ids": np.array(train.record_ids), "known": known, "imputed": imputed}

    def _draws(self, known: np.ndarray, windows: Windows, n_samples: int, seed: int) -> Iterator[np.ndarray]:
        learnt = self.learnt_
        places = {record_id: n for n, record_id in enumerate(learnt["ids"].tolist())}
        for record, record_id in zip(known, windows.record_ids, strict=True):
            n = places.get(record_id, -1)
            if n < 0 or not np.array_equal(learnt["known"][n], record, equal_nan=True):
                raise DataError(
                    f"record {record_id!r}: expected a record of the training table with the same visible cells: "
                    f"{self.name} fills no others. Fit on the table that is to be filled."
                )
            yield learnt["imputed"][np.arange(n_samples) % self.n_imputations, n]


class HyperImpute(_TableImputer):
    """One answer: the columnwise choice of models over rounds (Jarrett et al. 2022)."""

    name, n_imputations = "hyperimpute", 1

    def __init__(self, n_inner_iter: int = 60) -> None:
        check_counts(n_inner_iter=n_inner_iter)
        self.n_inner_iter, self._options = n_inner_iter, {"n_inner_iter": n_inner_iter}


class ForestDiffusion(_TableImputer):
    """Boosted trees as a diffusion model, with RePaint (Jolicoeur-Martineau et al. 2024); draws repeat after five."""

    name = "forestdiffusion"

    def __init__(self, n_imputations: int = 5, n_t: int = 50, duplicate_K: int = 100) -> None:
        check_counts(n_imputations=n_imputations, n_t=n_t, duplicate_K=duplicate_K)
        self.n_imputations, self.n_t, self.duplicate_K = n_imputations, n_t, duplicate_K
        self._options = {"n_t": n_t, "duplicate_K": duplicate_K}


def interpreter(package: str) -> Path:
    """Of its environment; whether there is one is not looked at."""
    return Path(os.environ.get(f"TSIMPUTE_{package.upper()}_PYTHON", _PEERS / package / ".venv/bin/python"))


def run(package: str, table: np.ndarray, m: int, options: Mapping[str, float]) -> np.ndarray:
    """(m, R, K) imputed versions of a table (R, K) by the worker."""
    python = interpreter(package)
    if not python.is_file():
        raise MissingExtraError(
            f"{package}: expected an interpreter, {python} is not there. benchmarks/peers/install_{package} makes its "
            f"environment, or TSIMPUTE_{package.upper()}_PYTHON names one."
        )
    with tempfile.TemporaryDirectory(prefix=f"tsimpute_{package}_") as name:
        worker = shutil.copy(_PEERS / "worker_tables.py", name)  # beside others, it would find their modules
        np.save(Path(name) / "table.npy", table)
        given = [f"{key}={value}" for key, value in options.items()]
        without = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
        command = [str(python), worker, package, name, str(m), *given]
        done = subprocess.run(command, env=without, cwd=name, capture_output=True, text=True, check=False)
        if done.returncode:
            raise TsimputeError(
                f"{package}: the worker ended with code {done.returncode}: {done.stderr[-300:].strip()}"
            )
        return np.load(Path(name) / "imputed.npy")
