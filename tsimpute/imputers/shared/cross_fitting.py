"""Gaussian processes of all records but a run of consecutive ones: what they make of it is what they make of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tsimpute.core.windows import Windows
from tsimpute.errors import ConfigError
from tsimpute.gaussian.maps import Records
from tsimpute.gaussian.model import Regularisation, fit
from tsimpute.gaussian.process import GaussianBase, GaussianModel, Scores
from tsimpute.imputers.shared.records import usual_step
from tsimpute.scaling.standardizer import Standardizer


def folds_of(n_records: int, n_folds: int) -> np.ndarray:
    """(N,) the run of consecutive records to which each belongs, from 0 on."""
    return np.arange(n_records) * n_folds // n_records


def cross_fitted(
    train: Windows,
    scaler: Standardizer,
    base: GaussianModel,
    n_folds: int,
    seed: int,
    settings: Regularisation | None = None,
) -> Callable[[int], GaussianBase]:
    """The base estimate for a training record, by its index, of a process learnt from the other stretches.

    Args:
        settings: what regularises these processes; None = the default.
    """
    if n_folds > len(train):
        raise ConfigError(f"training.base_folds: expected at most {len(train)}, the training records; came {n_folds}.")
    settings = settings or Regularisation()
    times, step = train.times.astype(np.float64), usual_step(train)[0]
    scores = Scores(scaler, base).transform(train.known)
    rest = [s - base.seasons.at(t) / base.scale[:, None] for s, t in zip(scores, times, strict=True)]
    fold_of = folds_of(len(train), n_folds)
    bases = []
    for fold in range(n_folds):
        others = np.flatnonzero(fold_of != fold)
        records = Records(tuple(rest[n] for n in others), tuple(times[n] for n in others), step)
        bases.append(GaussianBase(base, fit(records, settings=replace(settings, normality=0.0), seed=seed)))
    return lambda record: bases[fold_of[record]]
