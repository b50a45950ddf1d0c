"""Curves find what a process leaves where features tell each other by a curve, and nothing where there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsimpute.core.windows import Feature, Windows
from tsimpute.filling.blending.choosing import DeliveredModel, FittingData
from tsimpute.filling.imputer import fitting
from tsimpute.filling.imputer.table_imputer import TableImputer
from tsimpute.gaussian.conditioning import joined
from tsimpute.gaussian.curves import Curves, Inputs, fit_curves
from tsimpute.gaussian.maps import Records
from tsimpute.gaussian.model import Regularisation, fit
from tsimpute.gaussian.process import GaussianModel
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.scaling.standardizer import Standardizer
from tsimpute.system.terminal import Tell

N_STEPS, OUT = 900, slice(300, 600)


def waves(seed: int, n_features: int) -> np.ndarray:
    """(K, T) smooth and independent."""
    noise = np.random.default_rng(seed).normal(size=(n_features, N_STEPS + 40))
    return np.stack([np.convolve(row, np.hanning(41), "valid") for row in noise])[:, :N_STEPS] / 4


def records(bend: float, seed: int = 0) -> tuple[Records, np.ndarray]:
    """Two features, and one that is their difference and a part of a square; out for a third of the time."""
    a, b = waves(seed, 2)
    noise = 0.05 * np.random.default_rng(seed + 1).normal(size=N_STEPS)
    truth = np.stack([a, b, a - b + bend * (a**2 - 1) + noise])
    values = truth.copy()
    values[2, OUT] = np.nan
    return Records((values,), (np.arange(float(N_STEPS)),), 1.0), truth


def fitted(bend: float, seed: int = 0) -> tuple[GaussianModel, Records, np.ndarray, Curves | None]:
    of, truth = records(bend, seed)
    model = fit(of, (), Regularisation(normality=0.0), 0)
    return model, of, truth, fit_curves(model, of, 0)


def test_a_square_is_found_that_a_process_cannot_tell() -> None:
    model, of, truth, curves = fitted(bend=1.0)
    assert curves is not None
    assert [curve.inputs.features[0] for curve in curves.curves] == [2]
    mean, spread = model.marginals(of.values[0], of.times[0])
    move, factor = curves.moves(mean, spread, of.times[0])
    errors = [np.abs(model.values(of_one, of.times[0]) - truth)[2, OUT].mean() for of_one in (mean, mean + move)]
    assert errors[1] < 0.4 * errors[0]
    assert 0 < factor[2, OUT].max() < 0.6
    np.testing.assert_array_equal(move[:2], 0)  # of what is known nothing moves
    np.testing.assert_array_equal(factor[:2], 1)


@pytest.mark.parametrize("seed", range(4))
def test_a_process_leaves_nothing_of_what_it_drew_itself(seed: int) -> None:
    model, of, _, _ = fitted(bend=0.3)
    nothing, rng = np.full((3, N_STEPS), np.nan), np.random.default_rng(seed)
    piece = joined(list(model.posterior_pieces(nothing, of.times[0], 1, rng)))
    drawn = model.values(piece.mean + piece.deviations[0], of.times[0])
    holes = rng.random(drawn.shape) < 0.1
    holes[2, OUT] = True
    assert fit_curves(model, replace(of, values=(np.where(holes, np.nan, drawn),)), 0) is None


def test_records_without_gaps_have_no_curves() -> None:
    of, truth = records(1.0)
    whole = replace(of, values=(truth,))
    assert fit_curves(fit(whole, (), Regularisation(normality=0.0), 0), whole, 0) is None


def test_curves_come_back_from_arrays_to_the_bit() -> None:
    model, of, _, curves = fitted(bend=1.0)
    assert curves is not None
    again = Curves.from_arrays(curves.to_arrays())
    assert again is not None
    mean, spread = model.marginals(of.values[0], of.times[0])
    for own, other in zip(curves.moves(mean, spread, of.times[0]), again.moves(mean, spread, of.times[0]), strict=True):
        np.testing.assert_array_equal(own, other)
    assert Curves.from_arrays(model.to_arrays()) is None


def test_inputs_are_means_slopes_and_the_phase_of_time() -> None:
    mean, times = np.array([[1.0, 4.0, 9.0], [0.0, 0.0, 2.0]]), np.array([0.0, 6.0, 12.0])
    found = Inputs((1, 0), slopes=True, period=24.0).of(mean, times)
    ahead, behind = [[0.0, 2.0, 0.0], [3.0, 5.0, 0.0]], [[0.0, 0.0, 2.0], [0.0, 3.0, 5.0]]
    phase = [[0.0, 1.0, 0.0], [1.0, 0.0, -1.0]]
    np.testing.assert_allclose(found.T, [*mean[::-1], *ahead, *behind, *phase], atol=1e-12)


def test_an_imputer_with_curves_is_kept_and_its_median_lies_on_them(tmp_path: Path) -> None:
    of, truth = records(1.0)
    features = tuple(Feature(name) for name in "abc")
    windows = Windows(of.values[0][None], of.times[0][None], features, ("x",))
    imputer = GaussianImputer((), Regularisation(normality=0.0))
    imputer.fit_records(of, features, Standardizer.fit(windows), regular=True)
    before = np.median(imputer.impute(windows, 20, progress=False).values[:, 0], 0)
    after = imputer.learn_curves(of).impute(windows, 20, progress=False).values
    median = np.median(after[:, 0], 0)
    assert np.abs(median - truth)[2, OUT].mean() < 0.4 * np.abs(before - truth)[2, OUT].mean()
    np.testing.assert_array_equal(median[:2], truth[:2])
    assert imputer.method == "Gaussian process over features and lags, with curves for 1 feature"
    imputer.save(tmp_path / "model.safetensors")
    loaded = GaussianImputer.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.impute(windows, 20, progress=False).values, after)


@pytest.mark.filterwarnings("ignore::tsimpute.errors.ImputationWarning")
def test_values_of_hidden_cells_do_not_reach_measured_curves_and_a_table_keeps_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answers: list[DeliveredModel] = []
    plain = fitting.first_answer

    def twice(material: FittingData, progress: Tell) -> DeliveredModel:
        for value in (None, 1e9):
            series = tuple(
                replace(s, values=np.where(cells, s.values if value is None else value, s.values))
                for s, cells in zip(material.panel.series, material.hidden, strict=True)
            )
            answers.append(plain(replace(material, panel=replace(material.panel, series=series)), progress))
        return answers[0]

    monkeypatch.setattr(fitting, "first_answer", twice)
    of, _ = records(1.0)
    stamps = pd.date_range("2020-01-01", periods=N_STEPS, freq="h", name="time")
    frame = pd.DataFrame(of.values[0].T, stamps, list("abc")).reset_index()
    imputer = TableImputer(effort="instant", n_samples=6).fit(frame, progress=False)
    own, other = (answer.base.blind.base.curves_ for answer in answers)
    assert own is not None
    assert other is not None
    for name, array in own.to_arrays().items():
        np.testing.assert_array_equal(array, other.to_arrays()[name], err_msg=name)
    assert answers[0].at is not None
    assert answers[1].at is not None
    np.testing.assert_array_equal(answers[0].at.draws, answers[1].at.draws)
    assert answers[0].base.whole.base.curves_ is not None
    imputer.save(tmp_path / "table.safetensors")
    filled = [
        of_one.draw(frame, progress=False).table
        for of_one in (imputer, TableImputer.load(tmp_path / "table.safetensors"))
    ]
    pd.testing.assert_frame_equal(*filled, check_exact=True)


def test_of_many_records_each_is_one_stretch_and_a_square_is_found() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(60, 40))
    truth = np.stack([a, a**2 - 1 + 0.05 * rng.normal(size=a.shape)], 1)
    values = np.where(rng.random(truth.shape) < [[[0.0], [0.3]]], np.nan, truth)
    of = Records(tuple(values), tuple(np.tile(np.arange(40.0), (60, 1))), 1.0)
    model = fit(of, (), Regularisation(normality=0.0), 0)
    curves = fit_curves(model, of, 0)
    assert curves is not None
    for n in range(3):
        mean, spread = model.marginals(values[n], of.times[n])
        move, _ = curves.moves(mean, spread, of.times[n])
        gaps = np.isnan(values[n])
        errors = [np.abs(model.values(of_one, of.times[n]) - truth[n])[gaps].mean() for of_one in (mean, mean + move)]
        assert errors[1] < 0.3 * errors[0]
