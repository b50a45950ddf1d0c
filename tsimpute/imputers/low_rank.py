"""Steps times features as a matrix of low rank: singular values truncated or soft-thresholded, over rounds."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tsimpute.core.gaps import interpolated
from tsimpute.core.windows import Windows
from tsimpute.errors import ConfigError
from tsimpute.imputers.shared.standardised import StandardisedImputer, check_counts, moved_gaps, rows_of

_CHANGE = 1e-4


class LowRankImputer(StandardisedImputer):
    """Iterated principal components with shrunk singular values (Josse and Husson 2016, regularised iterative PCA).

    A row is one step of a record. Nothing is known of the steps before and after it, but where a step shows no value at
    all: it gets linear interpolation in time. Missing cells of a record solve the equations to which the iterations
    converge. The rank is chosen in ``fit``, on cells hidden under the records' own gaps, moved in time.

    Args:
        ranks: that are tried; those above the number of features less one are left out.
        max_iter: decompositions of a fit.
        seed: of the cells that are hidden to choose on.
    """

    name = "low_rank"
    _LEARNT: ClassVar = ("projection",)

    def __init__(self, ranks: tuple[int, ...] = (1, 2, 3, 5, 8, 12), max_iter: int = 100, seed: int = 0) -> None:
        if not ranks or not all(isinstance(rank, int) and rank > 0 for rank in ranks):
            raise ConfigError(f"ranks: expected positive integers, came {ranks!r}.")
        check_counts(max_iter=max_iter)
        self.ranks, self.max_iter, self.seed = tuple(ranks), max_iter, seed

    def _learn(self, known: np.ndarray, train: Windows) -> dict[str, np.ndarray]:
        n_features = known.shape[1]
        ranks = [rank for rank in self.ranks if rank < n_features]
        if not ranks:
            return {"projection": np.zeros((n_features, n_features))}
        hidden = moved_gaps(known, self.seed)
        shown, truth, cells = rows_of(np.where(hidden, np.nan, known)), rows_of(known), rows_of(hidden)
        errors = []
        for rank in ranks if len(ranks) > 1 else ():
            guess = solved(shown, iterated(shown, rank, self.max_iter))
            errors.append(np.abs(guess - truth)[cells].sum())
        best = ranks[int(np.argmin(errors))] if errors else ranks[0]
        return {"projection": iterated(truth, best, self.max_iter)}

    def _filled(self, known: np.ndarray, times: np.ndarray) -> np.ndarray:
        filled = solved(known.T, self.learnt_["projection"]).T
        alone = np.isnan(known).all(0)
        if alone.any() or len(known) == 1:
            lines = interpolated(known[None], times[None], np.zeros(len(known)))[0]
            filled = np.where(alone | (len(known) == 1), lines, filled)
        return filled


class SoftImputer(StandardisedImputer):
    """SoftImpute (Mazumder, Hastie and Tibshirani 2010): singular values lose ``lambda``, and none falls below 0.

    A row is one step of a record, so a table is records of one step. The penalty ``lambda`` is chosen in ``fit`` by the
    squared error on a tenth of the visible cells, which are hidden for it, among shares of the largest singular value
    from 0.001 to 1 with even ratios; each begins where the next larger one ended. At the end of its iterations a row's
    gaps solve linear equations given its visible cells. These are solved for each record, of the table or not.

    Args:
        n_penalties: values of ``lambda`` that are tried.
        max_iter: iterations for each of them.
        tol: relative change of the missing cells at which the iterations end.
        seed: of the cells that are hidden to choose on.
    """

    name = "softimpute"
    _LEARNT: ClassVar = ("projection",)

    def __init__(self, n_penalties: int = 15, max_iter: int = 1000, tol: float = 1e-5, seed: int = 0) -> None:
        check_counts(n_penalties=n_penalties, max_iter=max_iter)
        self.n_penalties, self.max_iter, self.tol, self.seed = n_penalties, max_iter, tol, seed

    def _learn(self, known: np.ndarray, train: Windows) -> dict[str, np.ndarray]:
        hidden = moved_gaps(known, self.seed)
        rows, cells = rows_of(known), rows_of(hidden)
        largest = np.linalg.norm(np.nan_to_num(rows), 2) or 1.0  # 0 where all that is visible is the mean
        penalties = largest * np.geomspace(1, 1e-3, self.n_penalties)
        shown = np.where(cells, np.nan, rows)
        guess, errors = np.zeros_like(rows), []
        for penalty in penalties:
            guess, _ = self._iterated(shown, guess, penalty)
            errors.append(np.square(guess - rows, where=cells, out=np.zeros_like(rows)).sum())
        return {"projection": self._iterated(rows, guess, penalties[np.argmin(errors)])[1]}

    def _iterated(self, rows: np.ndarray, guess: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
        """Rows (R, K) without gaps, which start from ``guess``, and the (K, K) projection that fills them."""
        gaps = np.isnan(rows)
        filled, projection = np.where(gaps, guess, rows), np.zeros((rows.shape[1],) * 2)
        for _ in range(self.max_iter):
            weights, vectors = np.linalg.eigh(filled.T @ filled)  # squared singular values
            values = np.sqrt(np.maximum(weights, 1e-300))
            projection = (vectors * np.maximum(1 - penalty / values, 0)) @ vectors.T
            before, filled[gaps] = filled[gaps], (filled @ projection)[gaps]
            if np.linalg.norm(filled[gaps] - before) <= self.tol * np.linalg.norm(before):
                break
        return filled, projection

    def _filled(self, known: np.ndarray, times: np.ndarray) -> np.ndarray:
        return solved(known.T, self.learnt_["projection"]).T


def iterated(rows: np.ndarray, rank: int, max_iter: int) -> np.ndarray:
    """(K, K) projection of a row onto ``rank`` shrunk components, of rows (R, K) with NaN at their gaps."""
    rows = rows[~np.isnan(rows).all(1)]
    gaps = np.isnan(rows)
    filled = np.where(gaps, 0.0, rows)
    projection = np.zeros((rows.shape[1],) * 2)
    for _ in range(max_iter):
        weights, vectors = np.linalg.eigh(filled.T @ filled / len(filled))
        noise = max(float(weights[:-rank].mean()), 0.0)
        largest, vectors = np.maximum(weights[-rank:], 1e-12), vectors[:, -rank:]
        projection = (vectors * np.clip(1 - noise / largest, 0, 0.999)) @ vectors.T
        guess = (filled @ projection)[gaps]
        change = np.abs(guess - filled[gaps]).mean() if gaps.any() else 0.0
        filled[gaps] = guess
        if change < _CHANGE:
            break
    return projection


def solved(rows: np.ndarray, projection: np.ndarray) -> np.ndarray:
    """(R, K) rows without gaps: where a missing cell is what the projection makes of its completed row."""
    out = np.where(np.isnan(rows), 0.0, rows)
    patterns, pattern_of_row = np.unique(np.isnan(rows), axis=0, return_inverse=True)
    order = np.argsort(pattern_of_row.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(pattern_of_row.ravel(), minlength=len(patterns)))
    for gaps, members in zip(patterns, np.split(order, ends[:-1]), strict=True):
        if gaps.any() and not gaps.all():
            left = np.eye(int(gaps.sum())) - projection[np.ix_(gaps, gaps)]
            right = projection[np.ix_(gaps, ~gaps)] @ rows[np.ix_(members, ~gaps)].T
            out[np.ix_(members, gaps)] = np.linalg.solve(left, right).T
    return out


PLUGINS = {cls.name: cls for cls in (LowRankImputer, SoftImputer)}
