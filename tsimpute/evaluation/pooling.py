"""One estimate of an analysis of several completed tables, with the uncertainty that the gaps add: Rubin's rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

from tsimpute.errors import ConfigError, DataError


@dataclass(frozen=True, eq=False)
class Pooled:
    """The pooled parameters of m analyses, each array (p,).

    Attributes:
        estimate: mean of the m estimates.
        variance: of the estimate in all, ``within + (1 + 1 / m) * between``.
        within: mean of the m variances, that complete data would have.
        between: variance of the m estimates, due to the gaps; 0 for one analysis, as of a table without gaps.
        df: degrees of freedom of Student's t (Barnard and Rubin 1999).
    """

    estimate: np.ndarray
    variance: np.ndarray
    within: np.ndarray
    between: np.ndarray
    df: np.ndarray

    def interval(self, level: float = 0.95) -> np.ndarray:
        """(2, p) bounds of the central confidence intervals; a level outside (0, 1) is a ConfigError."""
        if not 0 < level < 1:
            raise ConfigError(f"interval: expected a level in (0, 1), as 0.95; came {level}.")
        half = student.ppf(0.5 + level / 2, self.df) * np.sqrt(self.variance)
        return np.stack([self.estimate - half, self.estimate + half])


def pool(estimates: Sequence[Any], variances: Sequence[Any], df: float = np.inf) -> Pooled:
    """Pools the same analysis of m completed tables by Rubin's rules (van Buuren 2018, sections 2.3.2 and 2.3.6).

    Draw the tables with a generative method, which keeps the uncertainty of the gaps; medians of draws have none.

    Example:
        >>> pooled = pool([1.0, 2.0, 3.0], [0.5, 0.5, 0.5])
        >>> pooled.estimate, pooled.variance.round(3), pooled.df.round(2)
        (array([2.]), array([1.833]), array([3.78]))

    Args:
        estimates: m estimates, two or more, each a number or (p,) parameters, as a model's ``params``.
        variances: their m squared standard errors, as ``bse**2``.
        df: degrees of freedom of one analysis, rows less parameters; infinite = a large sample.

    Raises:
        DataError: shapes disagree, there are fewer than two analyses, an estimate or a variance is not finite, a
            variance is negative, or ``df`` is not positive.
    """
    q, u = (np.array([np.atleast_1d(np.asarray(x, np.float64)) for x in given]) for given in (estimates, variances))
    if q.shape != u.shape or q.ndim != 2 or not q.size or (u < 0).any() or not df > 0:
        came = f"{len(q)} estimates and {len(u)} variances"
        if len(q) == len(u):
            came = f"estimates of shape {q.shape[1:]} and variances of shape {u.shape[1:]}"
        came += ", some negative" * bool((u < 0).any())
        raise DataError(
            "pool: expected m estimates and as many variances of one shape, none negative, and df above 0; came "
            f"{came}, and df {df}."
        )
    if len(q) < 2:
        raise DataError(
            "pool: expected the analyses of two tables or more, which tell what the gaps add to the variance, came 1. "
            "Draw more tables (n_samples); the analysis of a table without gaps needs no pooling."
        )
    for name, values in (("estimate", q), ("variance", u)):
        if not np.isfinite(values).all():
            analysis, parameter = np.argwhere(~np.isfinite(values))[0]
            where = f"of parameter {parameter} (counted from 0) " if q.shape[1] > 1 else ""
            raise DataError(
                f"pool: expected finite estimates and variances, came the {name} {values[analysis, parameter]} {where}"
                f"of analysis {analysis + 1} of {len(q)}. Look at the analysis of that table: it has failed, or the "
                "table still has missing values."
            )
    return combined(q, u, df)


def combined(q: np.ndarray, u: np.ndarray, df: float) -> Pooled:
    """``pool`` of (m, p) estimates and variances; a single analysis counts as one of a table without gaps."""
    m = len(q)
    within, between = u.mean(0), q.var(0, ddof=1) if m > 1 else np.zeros(q.shape[1])
    added = (1 + 1 / m) * between
    variance = within + added
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(variance > 0, added / variance, 0.0)  # of the variance, due to the gaps
        of_gaps = np.where(share > 0, (m - 1) / share**2, np.inf)
        observed = (1 - share) * (df if np.isinf(df) else (df + 1) / (df + 3) * df)
        pooled_df = 1 / (1 / of_gaps + 1 / observed)
    return Pooled(q.mean(0), variance, within, between, pooled_df)
