"""Chained regressions over time: each feature on the other features and on steps before and after, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tsimpute.core.windows import Windows
from tsimpute.errors import ConfigError
from tsimpute.imputers.shared.interpolation import interpolated
from tsimpute.imputers.shared.standardised import StandardisedImputer, check_counts

_CHANGE = 1e-3


class ChainedImputer(StandardisedImputer):
    """Begins from linear interpolation in time; each round predicts every feature's gaps from what the last one gave.

    Lagged columns are made anew from the filled values before each regression, so that two columns never disagree on
    the same cell. Beyond the ends of a record its first and last step are repeated. Predictions stay within the range
    of the standardised training values, wider by a half: a chain cannot run away.

    Args:
        lags: steps before (negative) and after that are columns, too.
        max_iter: rounds, in ``fit`` and for each record; they end where predictions change little.
        max_rows: training steps of one regression; more are drawn from.
        seed: of that draw, and of what is random in a regression.
    """

    n_nearest_features: int = 30
    """The other features that a regression looks at, those that go with it most."""

    def __init__(self, lags: Sequence[int], max_iter: int, max_rows: int, seed: int) -> None:
        if not all(isinstance(lag, int) and lag for lag in lags) or len(set(lags)) < len(lags):
            raise ConfigError(f"lags: expected whole numbers of steps, each once and none of them 0; came {lags!r}.")
        check_counts(max_iter=max_iter, max_rows=max_rows)
        self.lags, self.max_iter, self.max_rows, self.seed = tuple(lags), max_iter, max_rows, seed

    def _learn(self, known: np.ndarray, train: Windows) -> dict[str, np.ndarray]:
        observed = ~np.isnan(known)
        neighbours = _neighbours(known, self.n_nearest_features)
        wide = 0.5 * (np.nanmax(known, initial=0.0) - np.nanmin(known, initial=0.0)) + 1e-9
        bounds = np.array([np.nanmin(known, initial=0.0) - wide, np.nanmax(known, initial=0.0) + wide])
        filled = interpolated(known, train.times, np.zeros(known.shape[1]))
        order = [k for k in np.argsort(-observed.sum((0, 2)), kind="stable").tolist() if observed[:, k].any()]
        rng = np.random.default_rng(self.seed)
        learnt: dict[int, Any] = {}
        for _ in range(self.max_iter if neighbours.shape[1] or self.lags else 0):
            before = filled.copy()
            for k in order:
                columns, at = _columns(filled, k, neighbours[k], self.lags), observed[:, k].reshape(-1)
                rows = np.flatnonzero(at)
                if len(rows) > self.max_rows:
                    rows = np.sort(rng.choice(rows, self.max_rows, replace=False))
                learnt[k] = self._regression(columns[rows], known[:, k].reshape(-1)[rows], k)
                if not at.all():
                    filled[:, k].reshape(-1)[~at] = np.clip(self._predicted(learnt[k], columns[~at]), *bounds)
            if np.abs(filled - before).mean(where=~observed) < _CHANGE if not observed.all() else True:
                break
        return {"neighbours": neighbours, "bounds": bounds, **self._as_arrays(learnt, known.shape[1])}

    def _draw(self, known: np.ndarray, times: np.ndarray, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        return np.repeat(self._filled(known[None], times[None]), n_samples, 0)

    def _filled(self, known: np.ndarray, times: np.ndarray) -> np.ndarray:
        """(N, K, L) without gaps; the rounds of a record end where its own predictions change little."""
        gaps, learnt = np.isnan(known), self._from_arrays(self.learnt_, known.shape[1])
        filled = interpolated(known, times, np.zeros(known.shape[1]))
        active = np.flatnonzero(gaps.any((1, 2)))
        for _ in range(self.max_iter):
            before, now, at = filled[active], filled[active], gaps[active]
            for k, regression in learnt.items():
                if at[:, k].any():
                    columns = _columns(now, k, self.learnt_["neighbours"][k], self.lags)[at[:, k].reshape(-1)]
                    now[:, k][at[:, k]] = np.clip(self._predicted(regression, columns), *self.learnt_["bounds"])
            filled[active] = now
            changes = [np.abs(new - old)[cells].mean() for new, old, cells in zip(now, before, at, strict=True)]
            active = active[np.array(changes) >= _CHANGE] if len(active) else active
            if not len(active):
                break
        return filled

    def _regression(self, columns: np.ndarray, target: np.ndarray, feature: int) -> Any:
        """What is learnt of one feature (M,) from columns (M, C)."""
        raise NotImplementedError

    def _predicted(self, regression: Any, columns: np.ndarray) -> np.ndarray:
        """(M,) of columns (M, C)."""
        raise NotImplementedError

    def _as_arrays(self, learnt: dict[int, Any], n_features: int) -> dict[str, np.ndarray]:
        """The regressions by feature, in their order, as named arrays."""
        raise NotImplementedError

    def _from_arrays(self, arrays: dict[str, np.ndarray], n_features: int) -> dict[int, Any]:
        raise NotImplementedError


def _neighbours(known: np.ndarray, most: int) -> np.ndarray:
    """(K, M) the other features that each one goes with most."""
    rows = known.transpose(0, 2, 1).reshape(-1, known.shape[1])
    observed = (~np.isnan(rows)).astype(float)
    filled = np.nan_to_num(rows)
    products, counts = filled.T @ filled, observed.T @ observed
    likeness = np.abs(products) / np.maximum(counts, 1) * (counts / (counts + 10))
    np.fill_diagonal(likeness, -1.0)
    return np.argsort(-likeness, axis=1, kind="stable")[:, : min(most, len(likeness) - 1)]


def _columns(filled: np.ndarray, k: int, neighbours: np.ndarray, lags: Sequence[int]) -> np.ndarray:
    """(N * L, C): the neighbours at the step itself, then they and the feature ``k`` at each lag."""
    n, _, length = filled.shape
    features = filled[:, [k, *neighbours]]
    parts = [features[:, 1:]] + [features[:, :, np.clip(np.arange(length) + lag, 0, length - 1)] for lag in lags]
    return np.concatenate(parts, 1).transpose(0, 2, 1).reshape(n * length, -1)
