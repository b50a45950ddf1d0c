"""Imputation by one Gaussian process over all features and lags: exact joint draws, fitted in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Self

import numpy as np

from tsimpute.containers import Feature, Samples, Windows
from tsimpute.errors import CheckpointError, ConfigError, DataError, NotFittedError
from tsimpute.gaussian.model import GaussianModel, Records, Regularisation, fit
from tsimpute.imputers._checks import cells_asked
from tsimpute.imputers._completing import check_steps, usual_step
from tsimpute.imputers._model_files import read_model, write_model
from tsimpute.seeding import derive_seed


class GaussianImputer:
    """Missing cells given the visible ones under one stationary Gaussian process of K features.

    Each feature is mapped towards normality and freed of its daily, weekly and yearly profile where it has them. The
    covariances of all features at all lags up to a window's length are learnt from incomplete records by stochastic EM;
    how far the maps go and how the covariances are regularised is chosen on cells that are hidden for it. A draw is one
    coherent path; draws come in pairs that lie symmetrically about the posterior mean, so that the median of an even
    number of draws is the exact posterior median.

    Args:
        periods: of seasons that may be there, in the unit of the records' times; day, week and year in hours.
        settings: what regularises; None = chosen in ``fit``.
        seed: of ``fit``.

    Attributes:
        features_: names and units seen in ``fit``.
        model_: the process.
        no_data_: names of the features without a visible training cell; their gaps are filled around 0.
    """

    name = "gaussian"

    features_: tuple[Feature, ...]
    model_: GaussianModel
    no_data_: tuple[str, ...]

    def __init__(
        self, periods: Sequence[float] = (24.0, 168.0, 8766.0), settings: Regularisation | None = None, seed: int = 0
    ) -> None:
        if not all(period > 0 for period in periods):
            raise ConfigError(f"periods: expected positive lengths of time, came {tuple(periods)}.")
        self.periods, self.settings, self.seed = tuple(map(float, periods)), settings, seed

    def fit(self, train: Windows, valid: Windows | None = None) -> Self:
        """Learns from the visible cells of ``train``; ``valid`` is not needed.

        Raises:
            DataError: ``train`` shows no cell at all.
        """
        if not train.shown.any():
            raise DataError("train: expected at least one visible cell, came none. Are all values missing or held out?")
        records = Records(tuple(_visible(train)), tuple(train.times.astype(np.float64)), usual_step(train)[0])
        model = fit(records, self.periods, self.settings, self.seed)
        visible = train.shown.sum((0, 2))
        self.features_, self.model_ = train.features, model
        self.no_data_ = tuple(f.name for f, count in zip(train.features, visible.tolist(), strict=True) if not count)
        return self

    def impute(self, windows: Windows, n_samples: int, seed: int = 0, fill: np.ndarray | None = None) -> Samples:
        cells = cells_asked(self, windows, n_samples, fill)
        check_steps(windows, self.model_.step)
        shown = windows.shown
        values = np.empty((n_samples, *windows.values.shape), windows.values.dtype)
        for n, record in enumerate(_visible(windows)):
            rng = np.random.default_rng(derive_seed(int(seed), windows.record_ids[n]))
            values[:, n] = self._draws(record, windows.times[n].astype(np.float64), n_samples, rng)
        values[:, ~(shown | cells)] = np.nan
        values[:, shown] = windows.values[shown]
        return Samples(values, shown, windows.features, windows.record_ids)

    def save(self, path: Path) -> None:
        if not hasattr(self, "features_"):
            raise NotFittedError(f"imputer {self.name!r}: expected fit before save.")
        header = {
            "imputer": self.name,
            "settings": {
                "periods": self.periods,
                "settings": None if self.settings is None else asdict(self.settings),
                "seed": self.seed,
            },
            "features": [[f.name, f.unit, f.given] for f in self.features_],
            "no_data": self.no_data_,
        }
        write_model(Path(path), header, self.model_.to_arrays())

    @classmethod
    def load(cls, path: Path) -> Self:
        header, arrays = read_model(Path(path), cls.name)
        try:
            settings = header["settings"]
            own = settings["settings"]
            made = cls(settings["periods"], None if own is None else Regularisation(**own), settings["seed"])
            made.features_ = tuple(Feature(*of_one) for of_one in header["features"])
            made.no_data_ = tuple(header["no_data"])
            made.model_ = GaussianModel.from_arrays(arrays)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path}: the file is damaged: {error}. Fit and save again.") from error
        return made

    def _draws(self, record: np.ndarray, times: np.ndarray, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """(S, K, L): pairs about the mean, and one more draw where S is odd."""
        found = self.model_.posterior(record, times, -(-n_samples // 2), rng)
        scores = np.concatenate([found.mean + found.deviations, found.mean - found.deviations])
        return self.model_.values(scores[:n_samples], times)


def _visible(windows: Windows) -> np.ndarray:
    """(N, K, L) float64, NaN where nothing is visible."""
    return np.where(windows.shown, windows.values, np.nan).astype(np.float64)


PLUGIN = GaussianImputer
