"""How much of each of several methods is delivered: shares of draws by feature and class of gaps, from hidden cells."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from tsimpute.filling.panels.gaps import N_CLASSES

_PRIOR_CELLS = 60
"""What cells of all features say of a class of gaps counts as that many cells of a feature."""
_PARTS = 10
"""Shares are multiples of one part in so many."""
_LEAST_GAIN = 0.005
"""Share of the score of the first method by which others have to lower it."""


def best_weights(
    draws: Sequence[np.ndarray], truth: np.ndarray, feature: np.ndarray, gap: np.ndarray, n_features: int,
    most: Sequence[float],
) -> np.ndarray:  # fmt: skip
    """(K, C, J) shares of J methods with the lowest continuous ranked probability score of their mixture.

    With shares w it is ``w'a - w'Bw / 2``, where a holds mean distances of draws from the truth and B those
    between draws of two methods. Both are drawn towards those of all features.

    Args:
        draws: J times (S, M) at hidden cells, in units in which all features count alike.
        truth, feature, gap: (M,).
        most: J largest shares; the first method may have all.
    """
    to_truth = np.stack([np.abs(of_one - truth).mean(0) for of_one in draws])
    between = np.stack([[_distance(a, b) for b in draws] for a in draws])
    shares = _simplex(len(draws), most)
    pooled = _score(to_truth.mean(1), between.mean(2), shares)
    out = np.empty((n_features, N_CLASSES, len(draws)))
    for c in range(N_CLASSES):
        of_class = gap == c
        scores = _drawn_towards(pooled, to_truth[:, of_class], between[:, :, of_class], shares)
        for k in range(n_features):
            here = of_class & (feature == k)
            own = _drawn_towards(scores, to_truth[:, here], between[:, :, here], shares)
            # Others than the first have to gain something: what they gain by chance does not count.
            own = own + _LEAST_GAIN * own[_alone(shares)] * (1 - shares[:, 0])
            out[k, c] = shares[int(np.argmin(own))]
    return out


def _drawn_towards(prior: np.ndarray, to_truth: np.ndarray, between: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(P,) scores of shares at n cells, n / (n + prior cells) of them these cells' own; in units of the prior's."""
    n = to_truth.shape[1]
    if not n:
        return prior
    own = _score(to_truth.mean(1), between.mean(2), shares)
    own *= prior[_alone(shares)] / max(own[_alone(shares)], 1e-12)  # a feature that is hard to guess counts no more
    return (n * own + _PRIOR_CELLS * prior) / (n + _PRIOR_CELLS)


def _alone(shares: np.ndarray) -> int:
    """Where the first method has all."""
    return int(np.argmax(shares[:, 0]))


def _score(to_truth: np.ndarray, between: np.ndarray, shares: np.ndarray) -> np.ndarray:
    return shares @ to_truth - np.einsum("pi,ij,pj->p", shares, between, shares) / 2


def _distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(M,) mean distance of a draw (S, M) of one and another draw of the other, which may be the same method."""
    n, m = len(a), len(b)
    if a is b:
        return _sum_of_distances(a) / max(1, n * (n - 1))
    both = np.concatenate([a, b])
    return (_sum_of_distances(both) - _sum_of_distances(a) - _sum_of_distances(b)) / (2 * n * m)


def _sum_of_distances(values: np.ndarray) -> np.ndarray:
    """(M,) over all ordered pairs of (S, M) values."""
    n = len(values)
    return 2 * (2 * np.arange(n) - n + 1) @ np.sort(values, axis=0)


def _simplex(n: int, most: Sequence[float]) -> np.ndarray:
    """(P, n) shares in tenths that add up to 1, the first with all of it among them."""
    found = [parts for parts in product(range(_PARTS + 1), repeat=n) if sum(parts) == _PARTS]
    shares = np.array(found, float) / _PARTS
    return shares[(shares <= np.append(1.0, np.asarray(most[1:], float)) + 1e-9).all(1)]
