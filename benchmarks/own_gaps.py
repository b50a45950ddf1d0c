"""How good models of ICU stays are where gaps lie as the stays' own: what `tsimpute impute --model` measures.

    python benchmarks/own_gaps.py physionet2012 results/physionet2012/bounded/model.safetensors --out own_gaps.csv

Stays are test ones of protocol `clean`, fold 0, which no committed model has seen. TSIMPUTE_DATA names the folder of
the data.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import pandas as pd
from scale import table_of_stays

import tsimpute as ti
from tsimpute.experiments.runs import load_windows


def scores(model: str, table: pd.DataFrame, n_samples: int) -> pd.DataFrame:
    """What a table imputer measures on cells hidden as the table's own gaps lie; one row each method."""
    started = time.perf_counter()
    imputer = ti.TableImputer(model=model, n_samples=n_samples, group="stay", time="hour").fit(table, progress=False)
    rows = pd.DataFrame(imputer.scores_)
    return rows.assign(model=model, stays=table.stay.nunique(), seconds=round(time.perf_counter() - started, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", help="model files, or names of bundled models")
    parser.add_argument("--first", type=int, default=0, help="first test stay")
    parser.add_argument("--stays", type=int, default=48)
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    test = ti.clean(load_windows("physionet2012"), rate=0.1, seed=1).test
    table = table_of_stays(test.select(range(asked.first, asked.first + asked.stays)), asked.stays)
    found = pd.concat([scores(model, table, asked.samples) for model in asked.models])
    found.to_csv(asked.out, index=False, float_format="%.4f")
    print(found.to_string(index=False))


if __name__ == "__main__":
    main()
