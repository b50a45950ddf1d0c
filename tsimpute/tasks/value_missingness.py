"""Missingness mechanisms of values: at random (MAR) and not at random (MNAR), with an exact share of each record.

The chance that a cell is hidden is ``sigmoid(strength * score + b)``. In ``mar`` its score comes from observed values
of other features, which never lose a cell themselves; in ``mnar`` it is the cell's own standardised value. Per record b
is such that the chances add up to int(rate * n), and that many cells are drawn with exactly these chances (systematic
sampling of the cells in random order).

Own code, as pygrinder's makers are not made for data with natural gaps: ``mar_logistic`` takes a complete table of
rows, ``mnar_x`` takes NaN for a large value (20 % missing went in, all came out missing). Neither has a seed or an
exact share.

A ``scaler`` standardises the values. Without one, mean and deviation of all records are used, in any order of them;
with one, a record's held-out cells depend on its values, its id and the seed only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real

import numpy as np

from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Windows
from tsimpute.errors import ConfigError
from tsimpute.scaling.standardizer import Standardizer
from tsimpute.tasks.mechanisms import check_rate, each_record, named_features, share


def mar(
    windows: Windows,
    *,
    rate: float,
    seed: int,
    features: Sequence[str] | None = None,
    drivers: Sequence[str] | None = None,
    strength: float = 2.0,
    scaler: Standardizer | None = None,
) -> np.ndarray:
    """(N, K, L) bool: of each record's n cells that may be hidden, exactly int(rate * n), by values of other features.

    A cell's score is a weighted sum of the drivers' standardised values at its step, of variance 1 if these were
    independent; the weights of each feature are drawn once from the seed. Where a driver was not observed its value is
    interpolated in time between the record's own, and 0, the mean, in a record that has none.

    Args:
        windows: records without held-out cells.
        rate: share of the observed cells of features that are no drivers, in (0, 1).
        seed: determines the weights and, with a record's id, its held-out cells.
        features: names of the features that may lose cells; None = all but the drivers.
        drivers: names of the features that decide and never lose a cell; None = see ``mar_roles``.
        strength: 0 = evenly drawn; at 2, a score of one deviation multiplies the odds by 7.
        scaler: to standardise with; None = fitted on the given records.

    Raises:
        ConfigError: rate or strength out of range, an unknown feature, or no feature left to decide or to hide.
        DataError: cells are held out already, or the scaler is of other features.
    """
    check_rate(rate)
    _check_strength(strength)
    drivers, features = mar_roles(windows, seed, features, drivers)
    known = _interpolated(windows, _standardised(windows, scaler), np.flatnonzero(named_features(windows, drivers)))
    weights = np.stack([_weights(seed, f.name, drivers) for f in windows.features])
    scores = strength * np.einsum("kd,ndl->nkl", weights, known)
    return each_record(windows, features, seed, _by_chance(rate), scores)


def mar_roles(
    windows: Windows,
    seed: int,
    features: Sequence[str] | None = None,
    drivers: Sequence[str] | None = None,
) -> tuple[list[str], list[str]]:
    """Names of the features that decide in ``mar``, and of those that may lose cells, in the windows' order.

    Where nothing is named, every fourth feature decides, one at least, drawn from the seed; where only those that may
    lose cells are named, all others decide.

    Raises:
        ConfigError: an unknown feature, one with both roles, or a role without a feature.
    """
    names = [f.name for f in windows.features]
    for given in (features, drivers):
        named_features(windows, given)
    if drivers is None and features is None:
        turns = sorted(names, key=lambda name: derive_seed(int(seed), "mar driver", name))
        drivers = turns[: max(len(names) // 4, 1)]
    drivers = [n for n in names if n not in (features or ())] if drivers is None else drivers
    features = [n for n in names if n not in drivers] if features is None else features
    if not drivers or not features or set(drivers) & set(features):
        raise ConfigError(
            "mar: expected at least one feature that decides and another that may lose cells, none with both roles; "
            f"came {', '.join(drivers) or 'none'} to decide, {', '.join(features) or 'none'} to lose cells."
        )
    return [n for n in names if n in drivers], [n for n in names if n in features]


def mnar(
    windows: Windows,
    *,
    rate: float,
    seed: int,
    features: Sequence[str] | None = None,
    strength: float = 2.0,
    scaler: Standardizer | None = None,
) -> np.ndarray:
    """(N, K, L) bool: of each record's n observed cells, exactly int(rate * n), high values more often than low ones.

    Args:
        windows, rate, features: as for ``random_cells``.
        seed: with a record's id and values it determines that record's held-out cells.
        strength: 0 = evenly drawn; at 2, one standard deviation multiplies the odds by 7; below 0 low values go first.
        scaler: to standardise with; None = fitted on the given records.

    Raises:
        ConfigError: rate or strength out of range, or an unknown feature.
        DataError: cells are held out already, or the scaler is of other features.
    """
    check_rate(rate)
    _check_strength(strength)
    return each_record(windows, features, seed, _by_chance(rate), strength * _standardised(windows, scaler))


def chances(scores: np.ndarray, count: float) -> np.ndarray:
    """(M,) ``sigmoid(scores + b)`` with b such that they add up to ``count``, above 0 and below M."""
    low = np.log(count / (len(scores) - count)) - scores.max()
    high = low + scores.max() - scores.min()
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _sigmoid(scores + middle).sum() < count else (low, middle)
    return _sigmoid(scores + (low + high) / 2)


def scaler_of(windows: Windows) -> Standardizer:
    """Mean and deviation of all observed cells, held out or not; the same to the bit in any order of records."""
    order = np.argsort(np.array(windows.record_ids), kind="stable")
    return Standardizer.fit_cells(windows.values[order], windows.observed[order])


def _by_chance(rate: float) -> Callable[[np.ndarray, int, np.ndarray], np.ndarray]:
    def draw(cells: np.ndarray, seed: int, scores: np.ndarray) -> np.ndarray:
        rng = np.random.default_rng(seed)
        candidates = rng.permutation(np.flatnonzero(cells))
        count = share(len(candidates), rate)
        hidden = np.zeros_like(cells)
        if count:
            # Laid end to end in random order, the chances fill ``count`` units; a comb of teeth one unit apart, laid at
            # a random place, meets a cell with exactly its chance, and ``count`` cells in all.
            ends = np.cumsum(chances(scores.reshape(-1)[candidates], count))
            ends[-1] = count
            teeth = np.floor(ends + rng.random())
            hidden.reshape(-1)[candidates[np.diff(teeth, prepend=0.0) > 0]] = True
        return hidden

    return draw


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(x / 2))  # without overflow on either side


def _standardised(windows: Windows, scaler: Standardizer | None) -> np.ndarray:
    scaler = scaler_of(windows) if scaler is None else scaler
    return np.where(scaler.never_shown[:, None], 0.0, scaler.transform(windows.values))  # neither high nor low


def _interpolated(windows: Windows, values: np.ndarray, drivers: np.ndarray) -> np.ndarray:
    """(N, D, L) values of the drivers at every step."""
    known = np.zeros((len(windows), len(drivers), windows.n_steps))
    for n, times in enumerate(windows.times):
        for d, k in enumerate(drivers):
            observed = windows.observed[n, k]
            if observed.any():
                known[n, d] = np.interp(times, times[observed], values[n, k, observed])
    return known


def _weights(seed: int, feature: str, drivers: Sequence[str]) -> np.ndarray:
    """(D,) of length 1: what each driver counts for one feature."""
    drawn = [np.random.default_rng(derive_seed(int(seed), "mar weight", feature, d)).normal() for d in drivers]
    return np.array(drawn) / np.linalg.norm(drawn)


def _check_strength(strength: float) -> None:
    if not (isinstance(strength, Real) and np.isfinite(strength)):
        raise ConfigError(f"strength: expected a finite number, came {strength!r}.")
