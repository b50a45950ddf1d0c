"""Metrics of imputed tables, all so that small is good: distances of distributions, of cells, and of what follows.

All distances are in standard deviations: columns are standardised with mean and population deviation of the truth; a
constant column is only centred. What the study of Simkus and Gutmann 2025 leaves open is chosen here:

- ``w2``: the root of the optimal cost, squared Euclidean, between all rows of the truth and of an imputed table.
- ``rmse``: over the hidden cells, per imputation, then the mean.
- ``crps``: the ensemble form, per column, then the mean over columns that have a hidden cell.
- ``mmd_energy``, ``mmd_gaussian``, ``mmd_laplacian``: half the squared MMD with biased sums, as geomloss gives it, for
  the kernels -|x - y|, exp(-|x - y|^2 / 2 s^2), exp(-|x - y| / s); s is the median of the non-zero distances of the
  truth, of 2,000 drawn rows at most.
- ``auroc_loss``, classes only: 1 - AUROC, one class against the rest, mean over classes, of a logistic regression
  (penalty C = 1) learnt on imputed rows and used on true ones, in five stratified folds whose answers are put together.
- ``prediction_crps``: a linear (numbers) or that logistic (classes) regression is learnt on the truth; CRPS between its
  answer for a true row and its m answers for the imputed rows, in deviations of the outcome or as a probability.
- ``percent_bias``, ``coverage_loss``, ``width``: of the coefficients of a linear regression of the outcome, or of the
  indicator of each class but the first (a logistic one has no finite coefficients where classes can be separated),
  pooled by Rubin's rules: mean over coefficients of 100 |estimate - true| / |true|, share of true ones outside the 95 %
  interval, and mean width of the intervals. "True" = on the complete table. Constant columns are left out. NaN where
  the coefficients are not determined, in the truth or in an imputed table: condition number above 1e8.

Of tables of more than 5,000 rows, ``w2`` and the MMDs take 5,000 rows, the same of the truth and the imputed table.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist, pdist
from scipy.stats import rankdata

from tsimpute.errors import DataError, MissingExtraError
from tsimpute.evaluation.ensembles import crps
from tsimpute.evaluation.pooling import combined

BETWEEN_ROWS = ("w2", "mmd_energy", "mmd_gaussian", "mmd_laplacian")
TABLE_METRICS = (
    "w2", "rmse", "crps", *BETWEEN_ROWS[1:], "auroc_loss", "prediction_crps", "percent_bias", "coverage_loss", "width"
)  # fmt: skip
MAX_ROWS, BANDWIDTH_ROWS, FOLDS, LARGEST_CONDITION = 5_000, 2_000, 5, 1e8


def table_metrics(
    truth: np.ndarray, hidden: np.ndarray, imputed: np.ndarray, target: np.ndarray, seed: int = 0
) -> dict[str, float]:
    """All metrics of m imputed tables by name; NaN where one is not defined.

    Args:
        truth: (N, D) the complete table.
        hidden: (N, D) bool, the cells that were imputed.
        imputed: (m, N, D) the table with these cells filled; other cells are as in the truth.
        target: (N,) the outcome: floats, or texts of classes.
        seed: of the rows that are drawn, and of the folds.

    Raises:
        DataError: shapes disagree, a number is not finite, no cell is hidden, or another cell was changed.
        MissingExtraError: POT is not installed.
    """
    shapes = (truth.shape, imputed.shape[1:], (len(target), truth.shape[-1]))
    if len({*shapes, hidden.shape}) != 1 or truth.ndim != 2 or not len(imputed) or not hidden.any():
        raise DataError(
            f"table_metrics: expected tables of one shape and a hidden cell, came {shapes}, {hidden.shape}."
        )
    if not (np.isfinite(truth).all() and np.isfinite(imputed).all()) or (imputed != truth)[:, ~hidden].any():
        raise DataError("table_metrics: expected finite numbers, and imputed tables that differ at hidden cells only.")
    varies = np.ptp(truth, axis=0) > 0
    centre, scale = truth.mean(0), np.where(varies, truth.std(0), 1.0)
    x, filled = (truth - centre) / scale, (imputed - centre) / scale
    drawn = np.random.default_rng(seed).permutation(len(x))
    rows, bandwidth = np.sort(drawn[:MAX_ROWS]), median_distance(x[drawn[:BANDWIDTH_ROWS]])
    by_cell, lost = crps(filled, np.where(hidden, x, np.nan)), hidden.any(0)
    distances = [mmds(x[rows], one[rows], bandwidth) for one in filled]
    values = {
        "w2": float(np.mean([wasserstein(x[rows], one[rows]) for one in filled])),
        "rmse": float(np.sqrt(((filled - x)[:, hidden] ** 2).mean(1)).mean()),
        "crps": float(np.nanmean(by_cell[:, lost], axis=0).mean()),
        **{name: float(np.mean([of_table[name] for of_table in distances])) for name in distances[0]},
    }
    return values | _of_outcome(x[:, varies], filled[:, :, varies], target, seed)


def wasserstein(x: np.ndarray, y: np.ndarray) -> float:
    """The 2-Wasserstein distance between rows (N, D) and (M, D), each of the same weight.

    Raises:
        MissingExtraError: POT is not installed.
    """
    try:
        import ot
    except ImportError as error:
        raise MissingExtraError(f"w2: expected POT, came {error}. Install the extra `tables`.") from error
    cost: Any = ot.emd2([], [], cdist(x, y, "sqeuclidean"), numItermax=10_000_000)
    return float(np.sqrt(max(float(cost), 0.0)))


def median_distance(x: np.ndarray) -> float:
    """Median of the non-zero distances between rows (N, D); 1 where there is none."""
    distances = pdist(x)
    return float(np.median(distances[distances > 0])) if (distances > 0).any() else 1.0


def mmds(x: np.ndarray, y: np.ndarray, bandwidth: float) -> dict[str, float]:
    """Half the squared maximum mean discrepancy between rows (N, D) and (M, D) for three kernels, see the module."""
    of_x, of_y, across = (cdist(a, b) for a, b in ((x, x), (y, y), (x, y)))
    kernels: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "mmd_energy": lambda d: -d,
        "mmd_gaussian": lambda d: np.exp(-((d / bandwidth) ** 2) / 2),
        "mmd_laplacian": lambda d: np.exp(-d / bandwidth),
    }
    return {name: float((k(of_x).mean() + k(of_y).mean()) / 2 - k(across).mean()) for name, k in kernels.items()}


def _of_outcome(x: np.ndarray, filled: np.ndarray, target: np.ndarray, seed: int) -> dict[str, float]:
    """What analyses of the outcome give; x (N, D) and filled (m, N, D) standardised, without constant columns."""
    if target.dtype.kind == "f":
        y = ((target - target.mean()) / (target.std() or 1.0))[:, None]
        line = np.linalg.lstsq(_with_ones(x), y, rcond=None)[0]
        true, answers = _with_ones(x) @ line, _with_ones(filled) @ line
        values = {}
    else:
        classes = np.unique(target)
        y = (target[:, None] == classes[1:]).astype(np.float64)
        if len(classes) < 2:
            return dict.fromkeys(("auroc_loss", "prediction_crps", *_OF_COEFFICIENTS), np.nan)
        values = {"auroc_loss": float(np.mean([1 - auroc(x, one, target, seed) for one in filled]))}
        true, *answers = _class_chances(x, target, [x, *filled])
    values["prediction_crps"] = float(crps(np.stack([*answers]), true).mean())
    return values | dict(zip(_OF_COEFFICIENTS, _of_coefficients(x, filled, y), strict=True))


_OF_COEFFICIENTS = ("percent_bias", "coverage_loss", "width")


def _of_coefficients(x: np.ndarray, filled: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    true, *fits = [_least_squares(rows, y) for rows in (x, *filled)]
    if true is None or any(fit is None for fit in fits):
        return np.nan, np.nan, np.nan
    estimates, variances = (np.stack([fit[k] for fit in fits if fit]) for k in (0, 1))
    pooled = combined(estimates, variances, len(x) - x.shape[1] - 1)
    (low, high), known = pooled.interval(), true[0]
    bias = 100 * np.abs(pooled.estimate - known)[known != 0] / np.abs(known)[known != 0]
    outside = (known < low) | (known > high)
    return float(bias.mean()), float(outside.mean()), float((high - low).mean())


def _least_squares(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Coefficients of each outcome (N, c) but the intercepts, and their variances; None where not determined."""
    design = _with_ones(x)
    df = len(design) - design.shape[1]
    if df < 1 or design.shape[1] < 2 or np.linalg.cond(design) > LARGEST_CONDITION:
        return None
    inverse = np.linalg.inv(design.T @ design)
    line = inverse @ design.T @ y
    noise = ((y - design @ line) ** 2).sum(0) / df
    return line[1:].ravel(), np.outer(np.diag(inverse), noise)[1:].ravel()


def auroc(x: np.ndarray, filled: np.ndarray, target: np.ndarray, seed: int) -> float:
    """Area under the ROC curve, mean over classes: learnt on imputed rows, used on true rows of the other folds."""
    fold = np.empty(len(x), int)
    fold[np.lexsort((np.random.default_rng(seed).random(len(x)), target))] = np.arange(len(x)) % FOLDS
    classes, scores = np.unique(target), np.zeros((len(x), len(np.unique(target))))
    for k in range(FOLDS):
        training, test = fold != k, fold == k
        if len(np.unique(target[training])) > 1 and test.any():
            known = np.isin(classes, target[training])
            scores[np.ix_(test, known)] = _class_chances(filled[training], target[training], [x[test]])[0]
    areas = []
    for score, name in zip(scores.T, classes, strict=True):
        inside = target == name
        n = int(inside.sum())
        areas.append((rankdata(score)[inside].sum() - n * (n + 1) / 2) / (n * (len(x) - n)))
    return float(np.mean(areas))


def _class_chances(x: np.ndarray, target: np.ndarray, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Probabilities of the classes of some rows, (N, classes) each, by a logistic regression learnt on x and target."""
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():  # chances hardly change after so many steps
        warnings.simplefilter("ignore")
        model = LogisticRegression(max_iter=300).fit(x, target)
    return [model.predict_proba(one) for one in rows]


def _with_ones(x: np.ndarray) -> np.ndarray:
    return np.concatenate([np.ones((*x.shape[:-1], 1)), x], axis=-1)
