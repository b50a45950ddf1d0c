"""Chained equations: scikit-learn's IterativeImputer, each feature regressed on the others, with draws."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tsimpute.core.windows import Windows
from tsimpute.errors import ConfigError, DataError
from tsimpute.imputers.shared.standardised import StandardisedImputer, check_counts, optional_module, rows_of

OVER = ("windows", "steps")
_MOST_COLUMNS = 200


class IterativeImputer(StandardisedImputer):
    """scikit-learn's IterativeImputer (Bayesian ridge regressions, ``sample_posterior``) on standardised values.

    It is fitted by scikit-learn. Its chain of regressions is then run here, one record at a time from the record's own
    seed: scikit-learn's ``transform`` draws for all rows from one generator, so that a record's draws would depend on
    its neighbours; and so a saved model holds numbers only, and no pickle.

    Over "windows" a row is a whole record, K * L columns, which knows of time. A round fits K * L regressions: at 1,680
    columns (35 features, 48 hours) ten rounds are 16,800, and hours; ``n_nearest_features`` bounds the size of each.
    Columns without a shown training cell are filled with the mean. Over "steps" a row is one step of a record, K
    columns; nothing is known of the steps before and after it.

    Args:
        over: "windows" or "steps"; None = windows up to 200 columns, else steps.
        max_iter: rounds over all columns, in fit and for each draw.
        n_nearest_features: columns that a regression looks at, drawn by correlation; None = all up to 200 columns, 30
            where there are more.
        seed: of fit.
    """

    name = "iterative"
    _LEARNT: ClassVar = ("over", "n_steps", "start", "column", "neighbours", "weights", "intercept", "noise", "offset",
                         "spread")  # fmt: skip

    def __init__(
        self,
        over: str | None = None,
        max_iter: int = 10,
        n_nearest_features: int | None = None,
        seed: int = 0,
    ) -> None:
        if over is not None and over not in OVER:
            raise ConfigError(f"over: expected one of {', '.join(OVER)} or None, came {over!r}.")
        check_counts(max_iter=max_iter, n_nearest_features=n_nearest_features)
        self.over, self.max_iter, self.n_nearest_features, self.seed = over, max_iter, n_nearest_features, seed

    def _learn(self, known: np.ndarray, train: Windows) -> dict[str, np.ndarray]:
        over = self.over or ("windows" if train.n_features * train.n_steps <= _MOST_COLUMNS else "steps")
        rows = _rows(known, over)
        rows = rows[~np.isnan(rows).all(1)]  # no regression is fitted on a row that shows nothing
        return {"over": np.array(over), "n_steps": np.array(train.n_steps)} | self._chain(rows)

    def _chain(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """The regressions in their order: of T columns, each on M neighbours."""
        if rows.shape[1] == 1:  # scikit-learn gives the mean alone: no neighbours, so a draw is one of the column
            none = np.zeros((1, 0))
            return {
                "start": rows.mean(0, where=~np.isnan(rows)),
                "column": np.zeros(1, int),
                "neighbours": none.astype(int),
                "weights": none,
                "intercept": np.nanmean(rows, 0),
                "noise": np.nanvar(rows, 0),
                "offset": none,
                "spread": np.zeros((1, 0, 0)),
            }
        optional_module(self.name, "scikit-learn", "sklearn.experimental.enable_iterative_imputer")
        n_columns = rows.shape[1]
        nearest = self.n_nearest_features or (30 if n_columns > _MOST_COLUMNS else None)
        fitted = (
            optional_module(self.name, "scikit-learn", "sklearn.impute")
            .IterativeImputer(
                sample_posterior=True,
                max_iter=self.max_iter,
                n_nearest_features=nearest if nearest is None or nearest < n_columns else None,
                keep_empty_features=True,
                random_state=self.seed % 2**32,
            )
            .fit(rows)
        )
        sequence = fitted.imputation_sequence_
        regressions = [triplet.estimator for triplet in sequence]
        return {
            "start": np.nan_to_num(fitted.initial_imputer_.statistics_),
            "column": np.array([triplet.feat_idx for triplet in sequence]),
            "neighbours": np.stack([triplet.neighbor_feat_idx for triplet in sequence]),
            "weights": np.stack([r.coef_ for r in regressions]),
            "intercept": np.array([r.intercept_ for r in regressions]),
            "noise": np.array([1.0 / r.alpha_ for r in regressions]),
            "offset": np.stack([r.X_offset_ for r in regressions]),
            "spread": np.stack([r.sigma_ for r in regressions]),
        }

    def _check(self, windows: Windows) -> None:
        learnt = int(self.learnt_["n_steps"])
        if str(self.learnt_["over"]) == "windows" and windows.n_steps != learnt:
            raise DataError(
                f"steps: expected {learnt}, as learnt over whole windows, came {windows.n_steps}. Cut records to that "
                "length, or learn over steps."
            )

    def _draw(self, known: np.ndarray, times: np.ndarray, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        over = str(self.learnt_["over"])
        rows = run_chain(self.learnt_, np.tile(_rows(known[None], over), (n_samples, 1)), rng)
        if over == "windows":
            return rows.reshape(n_samples, *known.shape)
        return rows.reshape(n_samples, known.shape[1], known.shape[0]).transpose(0, 2, 1)


def run_chain(chain: dict[str, np.ndarray], rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(R, columns) rows with a draw at each NaN: the regressions one after another, each on what the last ones drew."""
    gaps = np.isnan(rows)
    filled = np.where(gaps, chain["start"], rows)
    for t, column in enumerate(chain["column"]):
        at = np.flatnonzero(gaps[:, column])
        if len(at):
            inputs = filled[np.ix_(at, chain["neighbours"][t])]
            centred = inputs - chain["offset"][t]
            variance = chain["noise"][t] + ((centred @ chain["spread"][t]) * centred).sum(1)
            mean = inputs @ chain["weights"][t] + chain["intercept"][t]
            filled[at, column] = mean + np.sqrt(variance) * rng.standard_normal(len(at))
    return filled


def _rows(known: np.ndarray, over: str) -> np.ndarray:
    """(N, K, L) as (N, K * L) windows or (N * L, K) steps."""
    return known.reshape(len(known), -1) if over == "windows" else rows_of(known)


PLUGIN = IterativeImputer
