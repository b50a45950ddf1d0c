"""The deterministic imputers, against answers worked out by hand and against pandas."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsimpute.config import registry
from tsimpute.core.windows import Feature, Windows
from tsimpute.errors import CheckpointError, DataError

nan = np.nan


def series(*rows: list[float], times: list[float] | None = None, held_out: np.ndarray | None = None) -> Windows:
    """Records of one feature."""
    values = np.array(rows, float)[:, None]
    clock = np.arange(values.shape[2], dtype=float) if times is None else np.array(times)
    return Windows(
        values,
        np.tile(clock, (len(rows), 1)),
        (Feature("x", "m"),),
        tuple(f"r{i}" for i in range(len(rows))),
        held_out,
    )


TRAIN = series([1.0, 2.0, nan, 9.0], [nan, 4.0, nan, 4.0])  # mean 4, median 4
SKEWED = series([0.0, 1.0, 2.0, 17.0])  # mean 5, median 1.5


def impute(name: str, windows: Windows, train: Windows = SKEWED) -> list[list[float]]:
    return registry.make("imputers", name).fit(train).impute(windows, 1).values[0, :, 0].tolist()


def test_mean_and_median_are_those_of_the_shown_training_cells() -> None:
    gap = series([nan, 7.0, nan, nan])
    assert impute("mean", gap) == [[5.0, 7.0, 5.0, 5.0]]
    assert impute("median", gap) == [[1.5, 7.0, 1.5, 1.5]]
    hidden = series([0.0, 1.0, 2.0, 17.0], held_out=np.array([[[False, False, False, True]]]))
    assert impute("mean", gap, hidden) == [[1.0, 7.0, 1.0, 1.0]]
    assert impute("median", gap, hidden) == [[1.0, 7.0, 1.0, 1.0]]


def test_locf_carries_forward_then_backward_then_takes_the_median() -> None:
    windows = series([nan, 3.0, nan, 5.0, nan], [nan] * 5, [1.0, nan, nan, nan, 2.0])
    expected = [[3.0, 3.0, 3.0, 5.0, 5.0], [1.5] * 5, [1.0, 1.0, 1.0, 1.0, 2.0]]
    assert impute("locf", windows) == expected


def test_locf_equals_pandas_ffill_then_bfill() -> None:
    rng = np.random.default_rng(0)
    values = np.where(rng.random((20, 30)) < 0.6, nan, rng.normal(size=(20, 30)))
    assert impute("locf", series(*values)) == pd.DataFrame(values).ffill(axis=1).bfill(axis=1).to_numpy().tolist()


def test_linear_uses_the_true_times_and_stays_constant_at_the_edges() -> None:
    windows = series([nan, 1.0, nan, nan, 5.0, nan], times=[0.0, 1.0, 2.0, 4.0, 5.0, 9.0])
    assert impute("linear", windows) == [[1.0, 1.0, 2.0, 4.0, 5.0, 5.0]]
    assert impute("linear", series([nan, nan])) == [[1.5, 1.5]]
    assert impute("linear", series([nan, 8.0, nan])) == [[8.0, 8.0, 8.0]]


def test_linear_equals_pandas_interpolation_by_index() -> None:
    rng = np.random.default_rng(1)
    times = np.cumsum(rng.random(40) + 0.01)
    values = np.where(rng.random((10, 40)) < 0.6, nan, rng.normal(size=(10, 40)))
    found = np.array(impute("linear", series(*values, times=times.tolist())))
    frame = pd.DataFrame(values.T, index=times).interpolate("index", limit_direction="both")
    np.testing.assert_allclose(found, frame.to_numpy().T, atol=1e-12)


@pytest.mark.parametrize("name", ["mean", "median", "locf", "linear"])
def test_a_feature_without_training_data_gets_its_own_values_where_it_can_and_else_zero(name: str) -> None:
    def two(second: list[float]) -> Windows:
        values = np.array([[[1.0, 2.0, 3.0], second]])
        return Windows(values, np.arange(3.0)[None], (Feature("x"), Feature("y")), ("r",))

    imputer = registry.make("imputers", name).fit(two([nan, nan, nan]))
    own = imputer.impute(two([nan, 6.0, nan]), 1).values[0, 0, 1].tolist()
    assert own == ([6.0, 6.0, 6.0] if name in ("locf", "linear") else [0.0, 6.0, 0.0])
    assert imputer.impute(two([nan, nan, nan]), 1).values[0, 0, 1].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", ["mean", "locf"])
def test_training_data_without_a_value_is_refused(name: str) -> None:
    with pytest.raises(DataError, match="at least one shown cell"):
        registry.make("imputers", name).fit(series([nan, nan]))


def test_the_file_of_another_imputer_or_layout_and_senseless_numbers_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mean.json"
    registry.make("imputers", "mean").fit(TRAIN).save(path)
    with pytest.raises(CheckpointError, match="expected imputer 'median', the file holds 'mean'"):
        type(registry.make("imputers", "median")).load(path)
    content = json.loads(path.read_text())
    changes = {
        "layout": 2,
        "centre": [nan],
        "features": [["x"]],
        "no_data": ["z"],
        "surplus": 1,
    }
    for key, value in changes.items():
        path.write_text(json.dumps({**content, key: value}))
        with pytest.raises(CheckpointError):
            type(registry.make("imputers", "mean")).load(path)
    for centre in ([1.0, 2.0], ["4"], [True], {}):
        path.write_text(json.dumps({**content, "centre": centre}))
        with pytest.raises(CheckpointError, match="damaged"):
            type(registry.make("imputers", "mean")).load(path)
