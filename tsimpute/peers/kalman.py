"""State space: statsmodels' unobserved components of each feature by itself, smoothed exactly, with draws."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Windows
from tsimpute.errors import ConfigError, DataError
from tsimpute.imputers.shared.records import usual_step
from tsimpute.imputers.shared.standardised import StandardisedImputer, check_counts, optional_module

TRENDS = {"level": "local level", "linear": "local linear trend"}
_MOST_STEPS = 2000
_LOWEST, _HIGHEST = -14.0, 4.0
"""Of the logarithm of a standardised variance."""


class KalmanImputer(StandardisedImputer):
    """A local level or a local linear trend per feature, with a season where records are long enough, and noise.

    statsmodels' ``UnobservedComponents`` says what the model is. Its variances, and those of a record's first states,
    are learnt once per feature, by maximum likelihood over the shown cells of training records. A record's missing
    cells given its shown ones are then one normal distribution, which the Kalman smoother would give cell by cell; it
    is computed here from the covariance of the record's steps, all at once: a draw of statsmodels' simulation smoother
    takes 1 ms, and records times features times draws are millions.

    Features know nothing of each other. One without a shown training cell is taken for noise around 0. Steps must be
    even; a record has 2,000 at most.

    Args:
        trend: "level" or "linear".
        season: length of a season in the unit of the records' times, 24 for days where it is the hour; left out where
            it is no whole number of steps, or a training record holds less than two of it. None = never.
        fit_records: the most training records to learn a feature's variances from, drawn with ``seed``.
        seed: of fit.
    """

    name = "kalman"
    _LEARNT: ClassVar = ("variances", "season_steps", "step")

    def __init__(
        self, trend: str = "level", season: float | None = 24.0, fit_records: int = 300, seed: int = 0
    ) -> None:
        if trend not in TRENDS:
            raise ConfigError(f"trend: expected one of {', '.join(TRENDS)}; came {trend!r}.")
        if season is not None and not season > 0:
            raise ConfigError(f"season: expected a positive length of time or None, came {season!r}.")
        check_counts(fit_records=fit_records)
        self.trend, self.season, self.fit_records, self.seed = trend, season, fit_records, seed

    def _learn(self, known: np.ndarray, train: Windows) -> dict[str, np.ndarray]:
        step = _even_step(train)
        season = 0  # left out
        if self.season is not None and step:
            steps = round(self.season / step)
            even = abs(steps - self.season / step) < 0.05 * steps
            season = steps if even and 2 <= steps <= train.n_steps // 2 else 0
        parts = covariances(self.trend, season, train.n_steps)
        variances = []
        for k, feature in enumerate(train.features):
            telling = np.flatnonzero(~np.isnan(known[:, k]).all(1))
            some = np.random.default_rng(derive_seed(self.seed, feature.name)).permutation(telling)[: self.fit_records]
            variances.append(_most_likely(parts, list(known[some, k])))
        return {"variances": np.stack(variances), "season_steps": np.array(season), "step": np.array(step)}

    def _check(self, windows: Windows) -> None:
        learnt, step = float(self.learnt_["step"]), _even_step(windows)
        if learnt and step and not np.isclose(step, learnt, rtol=0.05):
            raise DataError(f"times: expected steps of {learnt:g}, as learnt in fit; came {step:g}. Fit again.")

    def _draw(self, known: np.ndarray, times: np.ndarray, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        parts = covariances(self.trend, int(self.learnt_["season_steps"]), known.shape[1])
        draws = np.repeat(known[None], n_samples, 0)
        noise = rng.standard_normal(draws.shape)
        for k, variances in enumerate(self.learnt_["variances"]):
            gaps = np.isnan(known[k])
            if gaps.any():
                mean, cov = posterior(np.tensordot(variances, parts, 1), known[k])
                root = np.linalg.cholesky(cov)
                draws[:, k, gaps] = mean + noise[:, k, gaps] @ root.T
        return draws


@lru_cache(maxsize=8)
def covariances(trend: str, season: int, n_steps: int) -> np.ndarray:
    """(P, L, L): what a unit of each of P variances adds to the covariance of L observations.

    The variances are, in this order: noise of an observation; the first state of each component; the change from step
    to step of each component. Components: level, slope where ``trend`` is "linear", season where ``season`` is not 0.

    Raises:
        MissingExtraError: statsmodels is not installed.
    """
    structural = optional_module("kalman", "statsmodels", "statsmodels.tsa.statespace.structural")
    seasons = [{"period": season, "harmonics": min(2, season // 2)}] if season else None
    level: Any = TRENDS[trend]  # its signature says bool; its documentation, these names
    space = structural.UnobservedComponents(np.zeros(2), level=level, freq_seasonal=seasons).ssm
    change, look = space["transition"], space["design"][0]
    n_trend = 1 + (trend == "linear")
    components = [[i] for i in range(n_trend)] + ([list(range(n_trend, len(change)))] if season else [])
    parts = [np.eye(n_steps)]
    for moved in (False, True):
        for states in components:
            unit = np.zeros_like(change)
            unit[states, states] = 1.0
            parts.append(
                _seen(change, look, np.zeros_like(unit) if moved else unit, unit if moved else 0 * unit, n_steps)
            )
    return np.stack(parts)


def posterior(cov: np.ndarray, record: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean (M,) and covariance (M, M) of the M cells of a (L,) record that are NaN, given the others."""
    gaps = np.isnan(record)
    across = cov[np.ix_(gaps, ~gaps)]
    gain = np.linalg.solve(cov[np.ix_(~gaps, ~gaps)], across.T).T
    return gain @ record[~gaps], cov[np.ix_(gaps, gaps)] - gain @ across.T


def log_likelihood(variances: np.ndarray, parts: np.ndarray, records: list[np.ndarray]) -> tuple[float, np.ndarray]:
    """Of the shown cells of (L,) records, and its gradient (P,) in the variances."""
    cov = np.tensordot(variances, parts, 1)
    total, gradient = 0.0, np.zeros(len(variances))
    for record in records:
        shown = np.flatnonzero(~np.isnan(record))
        at = np.ix_(shown, shown)
        root = np.linalg.cholesky(cov[at])
        inverse = np.linalg.inv(cov[at])
        scaled = inverse @ record[shown]
        total -= 0.5 * (record[shown] @ scaled + len(shown) * np.log(2 * np.pi)) + np.log(np.diag(root)).sum()
        gradient += 0.5 * np.tensordot(parts[:, at[0], at[1]], np.outer(scaled, scaled) - inverse, 2)
    return total, gradient


def _most_likely(parts: np.ndarray, records: list[np.ndarray]) -> np.ndarray:
    """(P,) variances."""
    if not records:
        return np.eye(len(parts))[0]
    from scipy.optimize import minimize

    def loss(logs: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = log_likelihood(np.exp(logs), parts, records)
        return -value, -gradient * np.exp(logs)

    n_components = (len(parts) - 1) // 2
    start = np.log([0.2] + [0.5] * n_components + [0.02] * n_components)
    optimum = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(_LOWEST, _HIGHEST)] * len(start),
                     options={"maxiter": 50})  # fmt: skip
    return np.exp(optimum.x)


def _seen(change: np.ndarray, look: np.ndarray, first: np.ndarray, moved: np.ndarray, n_steps: int) -> np.ndarray:
    """(L, L) covariance of ``look @ state`` with the first state's covariance and that of its changes."""
    out, cov = np.zeros((n_steps, n_steps)), first
    for step in range(n_steps):
        later = cov @ look
        for then in range(step, n_steps):
            out[step, then] = out[then, step] = look @ later
            later = change @ later
        cov = change @ cov @ change.T + moved
    return out


def _even_step(windows: Windows) -> float:
    """The distance between two steps, 0 where records have one; uneven or too many steps are refused."""
    if windows.n_steps > _MOST_STEPS:
        raise DataError(f"steps: expected {_MOST_STEPS} at most, came {windows.n_steps}. Cut records into windows.")
    step, even = usual_step(windows)
    if not even:
        raise DataError("times: expected records of one step, came several. Bring them to one before.")
    return step


PLUGIN = KalmanImputer
