"""Each missing cell gets the last value of its feature within the record."""

from __future__ import annotations

import numpy as np

from tsimpute.imputers.shared.simple import SimpleImputer


class LocfImputer(SimpleImputer):
    """Last observation carried forward, within the record.

    Cells before a record's first value get that first value; a record without a value of the feature gets the
    feature's training median.

    Example:
        >>> import tsimpute as ti
        >>> times, a = np.arange(4.0)[None], ti.Feature("a")
        >>> record = ti.Windows(np.array([[[1.0, np.nan, np.nan, 7.0]]]), times, (a,), ("x",))
        >>> LocfImputer().fit(record).impute(record, n_samples=1).values[0, 0, 0].tolist()
        [1.0, 1.0, 1.0, 7.0]
    """

    name = "locf"

    def _fill(self, known: np.ndarray, times: np.ndarray) -> np.ndarray:
        return carried(known, self.centre_)


def carried(known: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """The last known value of each record and feature, before the first one that one.

    Args:
        known: (N, K, L), NaN where nothing is known.
        otherwise: (K,) for a record in which nothing of the feature is known.

    Returns:
        (N, K, L).
    """
    holds = ~np.isnan(known)
    last = np.maximum.accumulate(np.where(holds, np.arange(known.shape[2]), -1), axis=2)
    source = np.where(last < 0, holds.argmax(2, keepdims=True), last)
    found = np.take_along_axis(known, source, axis=2)
    return np.where(holds.any(2, keepdims=True), found, otherwise[:, None])


PLUGIN = LocfImputer
