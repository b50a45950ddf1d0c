"""What is hidden to be measured on reaches no model, and a series is drawn the same whatever stands beside it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tsimpute.filling.blending.choosing import DeliveredModel, FittingData
from tsimpute.filling.imputer import fitting
from tsimpute.filling.imputer.table_imputer import TableImputer
from tsimpute.system.terminal import Tell


def table(seed: int, n_steps: int = 240) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    values = np.sin(np.arange(n_steps)[:, None] / 8 + np.arange(3)) + 0.2 * rng.normal(size=(n_steps, 3))
    values[rng.random(values.shape) < 0.15] = np.nan
    values[40:60, 1] = np.nan
    stamps = pd.date_range("2020-01-01", periods=n_steps, freq="h", name="time")
    return pd.DataFrame(values, stamps, list("abc")).reset_index()


def stations(seeds: dict[str, int]) -> pd.DataFrame:
    return pd.concat([table(seed).assign(station=name) for name, seed in seeds.items()], ignore_index=True)


@pytest.mark.filterwarnings("ignore::tsimpute.errors.ImputationWarning")
def test_values_of_hidden_cells_change_neither_the_process_nor_its_draws_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[DeliveredModel] = []
    plain = fitting.first_answer

    def twice(material: FittingData, progress: Tell) -> DeliveredModel:
        for shift in (0.0, 100.0):
            series = tuple(
                replace(s, values=np.where(cells, s.values + shift, s.values))
                for s, cells in zip(material.panel.series, material.hidden, strict=True)
            )
            answers.append(plain(replace(material, panel=replace(material.panel, series=series)), progress))
        return answers[0]

    monkeypatch.setattr(fitting, "first_answer", twice)
    TableImputer(effort="instant", n_samples=6).fit(table(0), progress=False)
    first, second = answers
    assert first.at is not None
    assert second.at is not None
    assert len(first.at.truth) >= 100
    np.testing.assert_array_equal(first.at.truth + 100, second.at.truth)
    np.testing.assert_array_equal(first.at.draws, second.at.draws)
    learnt = [answer.base.blind.base for answer in answers]
    assert learnt[0].scaler_.to_dict() == learnt[1].scaler_.to_dict()
    own, other = (of_one.model_.to_arrays() for of_one in learnt)
    for name, array in own.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


@pytest.mark.filterwarnings("ignore::tsimpute.errors.ImputationWarning")
def test_a_series_is_drawn_the_same_alone_and_beside_others() -> None:
    imputer = TableImputer(effort="instant", n_samples=6, keep_samples=True, group="station")
    imputer.fit(stations({"x": 1, "y": 2, "z": 3}), progress=False)
    together = imputer.draw(stations({"x": 1, "y": 2, "z": 3}), progress=False)
    turned = imputer.draw(stations({"z": 3, "y": 2, "x": 1}), progress=False)
    alone = imputer.draw(stations({"y": 2}), progress=False)
    of_y = [found.fillings[n].samples for found, n in ((together, 1), (turned, 1), (alone, 0))]
    assert of_y[0] is not None
    for other in of_y[1:]:
        np.testing.assert_array_equal(of_y[0], other)
