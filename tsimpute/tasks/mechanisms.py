"""Shared parts of the missingness mechanisms: one record after another, each from its own seed, and the checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real

import numpy as np

from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Windows
from tsimpute.errors import ConfigError, DataError


def each_record(
    windows: Windows,
    features: Sequence[str] | None,
    seed: int,
    draw: Callable[..., np.ndarray],
    *of_records: np.ndarray,
) -> np.ndarray:
    """(N, K, L) bool: what ``draw`` hides of each record, given its cells (K, L), its seed and its share of the rest.

    Args:
        windows: N records without held-out cells.
        features: names of the features that may lose cells; None = all.
        seed: together with a record's id it makes that record's seed.
        draw: ``(cells, seed, *x)`` to a (K, L) bool mask within cells, x being one record's part of ``of_records``.
        of_records: arrays with N rows.

    Raises:
        ConfigError: an unknown feature.
        DataError: cells are held out already.
    """
    check_none_held_out(windows)
    # Contiguous, as makers write into a flat view of what is like it.
    cells = np.ascontiguousarray(windows.observed & named_features(windows, features)[:, None])
    hidden = np.zeros(cells.shape, bool)
    for n, record_id in enumerate(windows.record_ids):
        hidden[n] = draw(cells[n], derive_seed(int(seed), record_id), *(x[n] for x in of_records))
    return hidden


def check_none_held_out(windows: Windows) -> None:
    """Refuses records with held-out cells."""
    if windows.held_out_mask.any():
        raise DataError(
            f"held_out: expected records without held-out cells, came {int(windows.held_out_mask.sum())}: holes would "
            "be punched twice. Drop the old ones (`dataclasses.replace(windows, held_out=None)`), or make them missing "
            "for good (`windows.without_held_out()`) to hide part of what is left."
        )


def named_features(windows: Windows, features: Sequence[str] | None) -> np.ndarray:
    """(K,) bool: the features of those names; all where None.

    Raises:
        ConfigError: a name is unknown, or there is none.
    """
    names = [f.name for f in windows.features]
    if features is None:
        return np.ones(len(names), bool)
    unknown = [features] if isinstance(features, str) else [f for f in features if f not in names]
    if unknown or not len(features):
        raise ConfigError(
            f"features: expected a list of names out of {', '.join(names)}; "
            f"came {', '.join(map(repr, unknown)) or 'an empty list'}."
        )
    return np.array([name in features for name in names])


def check_rate(rate: float) -> None:
    """Refuses a rate that is not a number between 0 and 1."""
    if not (isinstance(rate, Real) and 0 < rate < 1):
        raise ConfigError(f"rate of cells to hide: expected a number between 0 and 1, both excluded; came {rate!r}.")


def share(n: int, rate: float) -> int:
    """int(rate * n) of the rate as it is written: 0.29 * 100 is 28.999999999999996 in floating point."""
    return int(n * rate + 1e-9)
