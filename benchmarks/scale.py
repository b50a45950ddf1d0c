"""Large tables through ``ti.TableImputer(effort="instant")``: seconds and memory, a row a run in scale.csv.

    python benchmarks/scale.py wide         # 300 features x 5,000 steps
    python benchmarks/scale.py long         # 3 features x 1,000,000 rows
    python benchmarks/scale.py stays        # 4,000 stays of PhysioNet 2012, 48 hours x 35 features (TSIMPUTE_DATA)
    python benchmarks/scale.py stays --share 0.1

CPU seconds are those of this process; they grow by a half or more beside busy neighbours.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tsimpute.core.windows import Windows

HERE = Path(__file__).parent
COLUMNS = ("case", "rows", "features", "missing", "cpu_s", "wall_s", "peak_mib", "mae", "mae_linear", "delivered")


def wide(share: float) -> pd.DataFrame:
    """300 features that follow 20 factors, a tenth of the cells missing in runs."""
    n_steps, n_features = int(5_000 * share), int(300 * share**0.5)
    rng = np.random.default_rng(0)
    factors = np.zeros((n_steps, 20))
    for t in range(1, n_steps):
        factors[t] = 0.95 * factors[t - 1] + rng.normal(size=20)
    values = factors @ rng.normal(size=(20, n_features)) / 5 + 0.3 * rng.normal(size=(n_steps, n_features))
    return _hourly(_with_gaps(values, rng), "h")


def long(share: float) -> pd.DataFrame:
    """A year and eleven months of minutes, three features with a day."""
    n_steps, rng = int(1_000_000 * share), np.random.default_rng(0)
    day = np.sin(2 * np.pi * np.arange(n_steps) / 1440)
    noise = pd.DataFrame(rng.normal(size=(n_steps, 3))).ewm(alpha=0.02).mean().to_numpy() * 5
    values = day[:, None] + noise @ np.array([[1.0, 0.5, 0.2], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]])
    return _hourly(_with_gaps(values, rng), "min")


def stays(share: float) -> pd.DataFrame:
    """Hours of ICU stays, four of five cells missing."""
    from tsimpute.datasets.physionet2012 import PLUGIN

    return table_of_stays(PLUGIN().load(Path(os.environ["TSIMPUTE_DATA"]) / "physionet2012"), int(4_000 * share))


def table_of_stays(windows: Windows, n: int) -> pd.DataFrame:
    """The first so many stays of 48 hours as one table, a row for each stay and hour."""
    names = [feature.name for feature in windows.features]
    parts = [
        pd.DataFrame(values.T, columns=names).assign(stay=stay, hour=range(48))
        for stay, values in zip(windows.record_ids[:n], windows.values[:n], strict=True)
    ]
    return pd.concat(parts, ignore_index=True)


def _with_gaps(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A tenth of the cells missing, in runs of 1 to 40 steps."""
    n_steps, n_features = values.shape
    n_runs = int(0.1 * values.size / 20)
    starts, lengths = rng.integers(0, n_steps, n_runs), rng.integers(1, 41, n_runs)
    for k, start, length in zip(rng.integers(0, n_features, n_runs), starts, lengths, strict=True):
        values[start : start + length, k] = np.nan
    return values


def _hourly(values: np.ndarray, step: str) -> pd.DataFrame:
    index = pd.date_range("2022-01-01", periods=len(values), freq=step, name="time")
    return pd.DataFrame(values, index, [f"x{k}" for k in range(values.shape[1])])


def measured(case: str, share: float) -> dict[str, Any]:
    """One row: the table is fitted and filled."""
    import tsimpute as ti

    frame = {"wide": wide, "long": long, "stays": stays}[case](share)
    options: dict[str, Any] = {"group": "stay", "time": "hour"} if case == "stays" else {}
    before, wall, cpu = _peak_mib(), time.perf_counter(), time.process_time()
    imputer = ti.TableImputer(effort="instant", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        imputer.fit(frame, progress=False)
        print(f"fitted: {time.process_time() - cpu:.0f} CPU s, {_peak_mib() - before:.0f} MiB more", flush=True)
        imputer.impute(frame, progress=False)
    cells = frame.drop(columns=list(options.values()))
    errors = {str(row["imputer"]): float(row["MAE"]) for row in imputer.scores_}
    return {
        "case": case, "rows": len(frame), "features": cells.shape[1], "missing": cells.isna().to_numpy().mean(),
        "cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall, "peak_mib": _peak_mib(),
        "mae": list(errors.values())[-1] if errors else np.nan,
        "mae_linear": errors.get("linear interpolation", np.nan), "delivered": imputer.delivered_.partition(";")[0],
    }  # fmt: skip


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=("wide", "long", "stays"))
    parser.add_argument("--share", type=float, default=1.0, help="of the cells")
    parser.add_argument("--out", type=Path, default=HERE / "scale.csv")
    options = parser.parse_args()
    row = pd.DataFrame([measured(options.case, options.share)], columns=list(COLUMNS))
    print(row.T.to_string(header=False))
    rows = pd.concat([pd.read_csv(options.out), row]) if options.out.is_file() else row
    rows.drop_duplicates(["case", "rows"], keep="last").to_csv(options.out, index=False, float_format="%.4g")


if __name__ == "__main__":
    main()
