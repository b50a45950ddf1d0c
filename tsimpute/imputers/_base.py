"""The Gaussian process that a generative imputer starts from."""

from __future__ import annotations

import numpy as np

from tsimpute.containers import Windows
from tsimpute.errors import ConfigError
from tsimpute.gaussian.model import fit
from tsimpute.gaussian.process import GaussianModel
from tsimpute.gaussian.records import Records
from tsimpute.imputers._completing import usual_step
from tsimpute.pipeline.scaling import Standardizer


def base_of(
    train: Windows, scaler: Standardizer, guess: str, base: GaussianModel | None, seed: int
) -> GaussianModel | None:
    """The process given, or one fitted to what ``train`` shows, standardised; None where the guess is another one.

    Raises:
        ConfigError: a process is given for another guess, or of another number of features.
    """
    if guess != "gaussian":
        if base is not None:
            raise ConfigError(f'base: expected none with network.guess {guess!r}, came one. Set guess to "gaussian".')
        return None
    n_features = len(train.features)
    if base is not None:
        if len(base.maps) != n_features:
            raise ConfigError(
                f"base: expected a Gaussian process of {n_features} features, as the records have; came one of "
                f"{len(base.maps)}. Fit it on these records, or pass none."
            )
        return base
    values = scaler.transform(np.where(train.shown, train.values, np.nan))
    return fit(Records(tuple(values), tuple(train.times.astype(np.float64)), usual_step(train)[0]), seed=seed)
