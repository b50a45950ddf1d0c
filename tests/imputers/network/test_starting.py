"""Training records are estimated by a process that has not seen them, where this is asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tiny_models import NETWORK, waves

from tsimpute.config.settings import TrainingConfig
from tsimpute.errors import ConfigError
from tsimpute.gaussian.maps import Records
from tsimpute.gaussian.model import fit
from tsimpute.gaussian.process import GaussianBase, GaussianModel, Scores
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.imputers.network.starting import base_process
from tsimpute.imputers.shared.cross_fitting import cross_fitted
from tsimpute.scaling.standardizer import Standardizer

TRAIN = waves(24)
SCALER = Standardizer.fit(TRAIN)


def base() -> GaussianModel:
    found = base_process(TRAIN, SCALER, "gaussian", None, 0)
    assert found is not None
    return found


def test_records_are_parted_in_their_order_and_a_process_does_not_see_its_own() -> None:
    process = base()
    base_of_record = cross_fitted(TRAIN, SCALER, process, 3, 0)
    estimates = [base_of_record(n) for n in range(24)]
    assert [estimates.index(base) // 8 for base in estimates] == [0] * 8 + [1] * 8 + [2] * 8
    other = replace(TRAIN, values=np.where(np.arange(24)[:, None, None] < 8, 3 * TRAIN.values - 5, TRAIN.values))
    again = cross_fitted(other, SCALER, process, 3, 0)
    for n, same in ((0, True), (8, False), (16, False)):
        one, two = base_of_record(n).apart, again(n).apart
        assert one is not None
        assert two is not None
        assert np.array_equal(one.covariance, two.covariance) == same


def test_a_base_estimate_of_scores_is_on_the_scale_of_the_base_process() -> None:
    """With a process that was learnt from the same records, hardly anything changes."""
    process = base()
    scores = Scores(SCALER, process).transform(TRAIN.values)
    same = fit(Records(tuple(scores), tuple(TRAIN.times), 1.0), (), None, 0)
    plain, apart = (
        GaussianBase(process, x).of(scores, TRAIN.observed, TRAIN.times, ~TRAIN.observed) for x in (None, same)
    )
    assert plain.spread is not None
    assert apart.spread is not None
    gaps = ~TRAIN.observed
    assert np.corrcoef(plain.mean[gaps], apart.mean[gaps])[0, 1] > 0.95
    assert 0.7 < np.median(apart.spread[gaps] / plain.spread[gaps]) < 1.4
    assert (apart.spread > 0).all()


def test_folds_change_training_alone_and_are_at_most_the_records() -> None:
    def imputer(n_folds: int) -> GenerativeImputer:
        training = TrainingConfig(epochs=1, batch_size=6, base_folds=n_folds)
        return GenerativeImputer("flow_matching", replace(NETWORK, base="gaussian"), training).fit(TRAIN)

    two, three = imputer(2), imputer(3)
    assert two.base_ is not None
    assert three.base_ is not None
    np.testing.assert_array_equal(two.base_.covariance, three.base_.covariance)
    weights = (x.network_.state_dict()["enter.weight"] for x in (two, three))
    assert not np.array_equal(*(x.numpy() for x in weights))
    with pytest.raises(ConfigError, match="base_folds: expected at most 24"):
        imputer(25)
