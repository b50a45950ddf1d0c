"""A table with gaps as a person has it, filled in seconds, beside the truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from tsimpute.core.panel import Filling, Panel
from tsimpute.datasets.synthetic import DEAD_SENSOR, FEATURES, SyntheticAirQuality
from tsimpute.filling.files.fill_file import fill_file
from tsimpute.system.files import atomic_write

N_DAYS = 90
EFFORT = "instant"


def fill_demo_table(
    out: Path,
    say: Callable[[str], None],
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    n_days: int = 90,
) -> pd.DataFrame:
    """Writes a generated table of 8 sensors with gaps, fills it, and compares what was filled with the truth.

    Args:
        out: folder of ``stations.csv``, ``filled.csv`` with what goes beside it, and ``filled.png``.
        say, progress: see ``fill_file``.
        n_days: length of the table.

    Returns:
        One row for each feature and one for all: gaps, errors of linear interpolation and of the filled table, and the
        share of true values inside the 90 % interval.
    """
    out.mkdir(parents=True, exist_ok=True)
    truth, given = tables(n_days)
    source, filled = out / "stations.csv", out / "filled.csv"
    atomic_write(source, lambda partial: given.to_csv(partial))
    limits = {feature.name: (0.0, None) for feature in FEATURES[1:]}
    result = fill_file(
        source, filled, {"effort": EFFORT, "limits": limits, "units": {f.name: f.unit for f in FEATURES}}, force=True,
        say=say, progress=progress,
    )  # fmt: skip
    assert result is not None
    _draw(result.prepared.panel, result.fillings, out / "filled.png")
    low, high = (result.cells.pivot(index="time", columns="feature", values=name) for name in ("q0.05", "q0.95"))
    return _compared(truth, given, pd.read_csv(filled, index_col="time", parse_dates=True), low, high)


def tables(n_days: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(T, 8) the generated table, whole and with its gaps; rows are hours."""
    generator = SyntheticAirQuality(n_records=n_days)
    hours = pd.date_range("2024-01-01", periods=n_days * generator.n_steps, freq="h", name="time")
    names = [feature.name for feature in FEATURES]
    truth = pd.DataFrame(generator.complete().T.round(2), hours, names)
    values = np.concatenate(list(generator.load().values), axis=1).T  # (N, K, L) -> (T, K)
    return truth, truth.where(~np.isnan(values))


def _draw(panel: Panel, fillings: Sequence[Filling], path: Path) -> None:
    from tsimpute.plots.fillings import filled_feature, stretches
    from tsimpute.reports.pages import png

    figure = filled_feature(panel, fillings, DEAD_SENSOR, stretches(fillings, DEAD_SENSOR))
    atomic_write(path, lambda partial: partial.write_bytes(png(figure)))


def _compared(
    truth: pd.DataFrame, given: pd.DataFrame, filled: pd.DataFrame, low: pd.DataFrame, high: pd.DataFrame
) -> pd.DataFrame:
    gaps = given.isna()
    straight = given.interpolate("time", limit_direction="both")
    rows = {}
    for feature in FEATURES:
        at = gaps[feature.name].to_numpy()
        hidden_cells = lambda frame, at=at, name=feature.name: frame[name].reindex(truth.index).to_numpy()[at]
        right = hidden_cells(truth)
        rows[f"{feature.name}, {feature.unit}"] = {
            "gaps": int(at.sum()),
            "MAE, linear interpolation": float(np.abs(hidden_cells(straight) - right).mean()),
            "MAE, filled": float(np.abs(hidden_cells(filled) - right).mean()),
            "inside 90 % interval": float(((hidden_cells(low) <= right) & (right <= hidden_cells(high))).mean()),
        }
    return pd.DataFrame.from_dict(rows, orient="index")
