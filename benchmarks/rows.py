"""Tables of people: ``ti.TableImputer(records="rows")`` beside methods of scikit-learn, a row a table in rows.csv.

    export TSIMPUTE_DATA=DATA                      # with uci/, see datasets/uci.md
    python benchmarks/rows.py                      # the tables below, a quarter of their cells hidden by seed 0

Root of the mean squared error at hidden cells, in standard deviations of each column; CPU seconds of ours. The methods
of scikit-learn see columns that are standardised with the truth, which favours them a little.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.linear_model import BayesianRidge

import tsimpute as ti

TABLES = (
    "airfoil_self_noise", "wine", "concrete_compression", "breast_cancer_diagnostic", "banknote", "seeds", "glass",
    "iris", "ecoli", "yeast", "concrete_slump",
)  # fmt: skip
PEERS = {
    "forests": lambda: IterativeImputer(RandomForestRegressor(50, random_state=0), max_iter=4),
    "neighbours": lambda: KNNImputer(n_neighbors=10, weights="distance"),
    "chained": lambda: IterativeImputer(BayesianRidge(), max_iter=30),
}


def row(table: str) -> dict[str, object]:
    """The errors of all methods on one table."""
    windows = ti.load_windows("uci", table=table)
    truth = pd.DataFrame(windows.values[:, :, 0], columns=[feature.name for feature in windows.features])
    scale = truth.std(ddof=0).replace(0, 1)
    hidden = np.random.default_rng(0).random(truth.shape) < 0.25
    gaps = truth.mask(hidden)

    def error(filled: np.ndarray) -> float:
        return float(np.sqrt((((filled - truth.to_numpy()) / scale.to_numpy())[hidden] ** 2).mean()))

    standard = (gaps - truth.mean()) / scale
    errors = {
        name: error(make().fit_transform(standard) * scale.to_numpy() + truth.mean().to_numpy())
        for name, make in PEERS.items()
    }
    began = time.process_time()
    imputer = ti.TableImputer(records="rows", effort="instant").fit(gaps, progress=False)
    ours = error(imputer.impute(gaps, progress=False).to_numpy(np.float64))
    return {"table": table, "rows": len(truth), "instant": ours, **errors, "cpu_s": time.process_time() - began}


def main() -> None:
    """Writes rows.csv anew."""
    warnings.simplefilter("ignore")
    frame = pd.DataFrame([row(table) for table in TABLES])
    frame.to_csv(Path(__file__).parent / "rows.csv", index=False, float_format="%.4g", lineterminator="\n")
    print(frame.round(3).to_string(index=False))


if __name__ == "__main__":
    main()
