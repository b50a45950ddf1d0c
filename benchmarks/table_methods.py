"""The methods that fill a table with holes: simple ones, peers, the Gaussian process, ``TableImputer``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm
from table_answers import Answer
from table_peers import cdrec, saits

from tsimpute.config import registry
from tsimpute.core.windows import Feature, Windows
from tsimpute.filling.imputer.table_imputer import TableImputer

N_DRAWS = 100


Method = Callable[[pd.DataFrame], Answer]


def by_imputer(kind: str, name: str, draws: bool, frame: pd.DataFrame, **options: Any) -> Answer:
    """An imputer of the package that learns from the table as one long record and fills it."""
    hours = (frame.index - frame.index[0]) / pd.Timedelta(hours=1)
    features = tuple(Feature(str(column)) for column in frame.columns)
    record = Windows(frame.to_numpy(float).T[None], hours.to_numpy(float)[None], features, ("table",))
    imputer = registry.make(kind, name, **options).fit(record)
    samples = imputer.impute(record, N_DRAWS if draws else 1)
    if not draws:
        point = samples.values[0, 0].T
        return Answer(point, point)
    low, median, high = (x[0].T for x in samples.quantile([0.05, 0.5, 0.95]))
    return Answer(median, samples.mean()[0].T, samples.values[:, 0].transpose(0, 2, 1), low, high)


def kalman(frame: pd.DataFrame) -> Answer:
    """statsmodels' local linear trend of each feature by itself; the package's own ``kalman`` takes 2,000 steps."""
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    mean, spread = np.zeros(frame.shape), np.zeros(frame.shape)
    level: Any = "local linear trend"
    for k, column in enumerate(frame.columns):
        values = frame[column].to_numpy(float)
        centre, scale = np.nanmean(values), np.nanstd(values) or 1.0
        model = UnobservedComponents((values - centre) / scale, level=level)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged in 50 iterations
            found: Any = model.fit(disp=False, maxiter=50)
        smoothed = found.smoothed_state[0]
        variance = found.smoothed_state_cov[0, 0] + found.params[0]
        mean[:, k], spread[:, k] = smoothed * scale + centre, np.sqrt(np.maximum(variance, 1e-12)) * scale
        known = ~np.isnan(values)
        mean[known, k], spread[known, k] = values[known], 0.0
    noise = norm.ppf((np.arange(N_DRAWS) + 0.5) / N_DRAWS)  # marginals alone are scored, so quantiles serve as draws
    draws = mean + spread * noise[:, None, None]
    reach = norm.ppf(0.95) * spread
    return Answer(mean, mean, draws, mean - reach, mean + reach)


def by_table_imputer(effort: Any, frame: pd.DataFrame, minutes: float | None = None) -> Answer:
    """The table as a person gives it, and what comes back; ``minutes`` as of ``TableImputer``."""
    imputer = TableImputer(effort=effort, minutes=minutes, keep_samples=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = imputer.fit_draw(frame, progress=False)
    names = [feature.name for feature in found.prepared.panel.features]
    filling = found.fillings[0]
    filling = filling.features(np.array([names.index(str(column)) for column in frame.columns]))
    at = {level: filling.quantiles[q].T for q, level in enumerate(filling.levels)}
    point = found.table.to_numpy(float)
    draws = None if filling.samples is None else filling.samples.transpose(0, 2, 1).astype(float)
    return Answer(point, point if draws is None else draws.mean(0), draws, at[0.05], at[0.95], None, imputer.delivered_)


SIMPLE: dict[str, Method] = {
    "linear": partial(by_imputer, "imputers", "linear", False),
    "LOCF": partial(by_imputer, "imputers", "locf", False),
    "PCHIP": partial(by_imputer, "imputers", "pchip", False),
    "seasonal": partial(by_imputer, "imputers", "seasonal", False),
    "Kalman": kalman,
    "kNN": partial(by_imputer, "peers", "knn", False),
    "chained, lags": partial(by_imputer, "peers", "chained_lags", False),
    "low rank": partial(by_imputer, "imputers", "low_rank", False),
    "missForest": partial(by_imputer, "peers", "miss_forest", False),
}
PEERS: dict[str, Method] = {"CDRec (ImputeGAP)": cdrec, "SAITS (PyPOTS)": saits}
GAUSSIAN: dict[str, Method] = {"gaussian": partial(by_imputer, "imputers", "gaussian", True)}
SHORT = {effort: f"TableImputer {effort}" for effort in ("instant", "trial", "quick", "normal", "auto")}
EFFORTS: dict[str, Method] = {name: partial(by_table_imputer, effort) for effort, name in SHORT.items()}
SHORT["auto2"] = "TableImputer auto, 2 minutes"
EFFORTS[SHORT["auto2"]] = partial(by_table_imputer, "auto", minutes=2.0)
METHODS = SIMPLE | PEERS | GAUSSIAN | EFFORTS
QUICK = (*SIMPLE, *GAUSSIAN)


def load_all(methods: Collection[str]) -> None:
    """Imports what these methods need, so that no row counts it."""
    if "Kalman" in methods:
        import statsmodels.tsa.statespace.structural  # noqa: F401
    if set(methods) & set(EFFORTS) - {SHORT["instant"]}:  # networks
        import lightning_fabric  # noqa: F401

        for part in (("processes", "flow_matching"), ("backbones", "context_cells"), ("solvers", "one_step")):
            registry.plugin(*part)
    for method in methods:
        if isinstance(METHODS[method], partial) and METHODS[method].func is by_imputer:
            registry.plugin(*METHODS[method].args[:2])
    if {"kNN", "chained, lags", "missForest"} & set(methods):
        import sklearn.ensemble
        import sklearn.impute  # noqa: F401
