"""The share of draws that a network gives, the process giving the others: by feature and class of gaps."""

from __future__ import annotations

import numpy as np

from tsimpute.filling.panels.gaps import N_CLASSES

_PRIOR_CELLS = 60
"""The score of all features counts as that many cells of one feature."""
_SHARES = np.arange(11) / 10
_LEAST_GAIN = 0.005
"""Share of the score of the process by which the network's draws have to lower it."""


def network_shares(
    process: np.ndarray, network: np.ndarray, truth: np.ndarray, feature: np.ndarray, gap_class: np.ndarray,
    n_features: int, most: float,
) -> np.ndarray:  # fmt: skip
    """(K, C) shares of a network with the lowest continuous ranked probability score of the mixture.

    With a share w the score is ``(1 - w, w) a - (1 - w, w) B (1 - w, w)' / 2``: a holds the mean distances of draws
    from the truth, B those between two draws of the same or of both. Shares are drawn towards those of all features.

    Args:
        process, network: (S, M) draws at M hidden cells, in units in which all features count alike.
        truth, feature, gap_class: (M,).
        most: largest share.
    """
    shares = _SHARES[most + 1e-9 >= _SHARES]
    rest = 1 - shares
    factors = np.stack([rest, shares, -(rest**2) / 2, -rest * shares, -(shares**2) / 2], 1)
    to_truth = [np.abs(draws - truth).mean(0) for draws in (process, network)]
    between = [_distance(a, b) for a, b in ((process, process), (process, network), (network, network))]
    terms = np.stack([*to_truth, *between])
    of_all = factors @ terms.mean(1)
    out = np.zeros((n_features, N_CLASSES))
    for c in range(N_CLASSES):
        of_class = _towards(of_all, factors, terms[:, gap_class == c])
        for k in range(n_features):
            scores = _towards(of_class, factors, terms[:, (gap_class == c) & (feature == k)])
            out[k, c] = shares[int(np.argmin(scores + _LEAST_GAIN * scores[0] * shares))]  # no gain by chance
    return out


def _towards(prior: np.ndarray, factors: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """(P,) scores of shares at n cells, n / (n + prior cells) of them these cells' alone; in units of the prior's."""
    n = terms.shape[1]
    if not n:
        return prior
    scores = factors @ terms.mean(1)
    scores *= prior[0] / max(scores[0], 1e-12)  # a feature that is hard to fill counts no more
    return (n * scores + _PRIOR_CELLS * prior) / (n + _PRIOR_CELLS)


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
