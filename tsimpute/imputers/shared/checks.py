"""What every imputer checks of the records that it is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tsimpute.core.windows import Feature, Windows
from tsimpute.errors import ConfigError, DataError, NotFittedError


def check_features(learnt: Sequence[Feature], given: Sequence[Feature]) -> None:
    """Refuses records of other features than those learnt.

    Raises:
        DataError: names, units or their order differ; the message says which.
    """
    learnt, given = tuple(learnt), tuple(given)
    if learnt == given:
        return
    names, came = [f.name for f in learnt], [f.name for f in given]
    if names == came:
        said = lambda feature: f"{feature.unit!r}{', given' * feature.given}"
        pairs = [f"{a.name} in {said(a)}, came {said(b)}" for a, b in zip(learnt, given, strict=True) if a != b]
        raise DataError(f"units: expected those learnt in fit: {'; '.join(pairs)}. Convert the values or fit again.")
    absent, new = [n for n in names if n not in came], [n for n in came if n not in names]
    if absent or new:
        raise DataError(
            f"features: expected the {len(names)} learnt in fit; absent: {', '.join(absent) or 'none'}; "
            f"not learnt: {', '.join(new) or 'none'}. A feature without values stays, as NaN."
        )
    raise DataError(f"features: expected the order learnt in fit, {', '.join(names)}; came {', '.join(came)}.")


def cells_asked(imputer: Any, windows: Windows, n_samples: int, fill: np.ndarray | None) -> np.ndarray:
    """The cells to fill, after what every ``impute`` checks first; see ``cells_to_fill``.

    Raises:
        NotFittedError: the imputer has learnt nothing yet.
    """
    if not hasattr(imputer, "features_"):
        raise NotFittedError(f"imputer {imputer.name!r}: expected fit or load before impute.")
    check_features(imputer.features_, windows.features)
    return cells_to_fill(windows, n_samples, fill)


def check_given(features: Sequence[Feature]) -> None:
    """Refuses features of which given ones do not come last.

    Raises:
        DataError: one comes before another that is not given, or all are given.
    """
    given = [feature.given for feature in features]
    if given != sorted(given) or all(given):
        raise DataError(
            "features: expected some that are not given, and given ones after them; came "
            f"{', '.join(f.name + ' (given)' * f.given for f in features)}. Reorder them."
        )


def cells_to_fill(windows: Windows, n_samples: int, fill: np.ndarray | None) -> np.ndarray:
    """(N, K, L) bool: the missing cells that are asked for, of given features none; held-out cells count as missing.

    Raises:
        ConfigError: ``n_samples`` is not a positive integer.
        DataError: ``fill`` is not a bool mask of the windows' shape.
    """
    if isinstance(n_samples, bool) or not isinstance(n_samples, int | np.integer) or n_samples < 1:
        raise ConfigError(f"n_samples: expected an integer of at least 1, came {n_samples!r}.")
    missing = ~windows.visible
    missing[:, [feature.given for feature in windows.features]] = False
    if fill is None:
        return missing
    if fill.shape != windows.values.shape or fill.dtype != bool:
        raise DataError(f"fill: expected bool of shape {windows.values.shape}, came {fill.dtype} of {fill.shape}.")
    return fill & missing
