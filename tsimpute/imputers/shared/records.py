"""What every imputer does with records: checks, the cells to impute, and samples back in the data's units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tsimpute.core.windows import Feature, Samples, Windows
from tsimpute.errors import ConfigError, DataError, NotFittedError, TsimputeError
from tsimpute.scaling.standardizer import Scale
from tsimpute.system.terminal import Progress, progress_bars


def check_features(fitted: Sequence[Feature], given: Sequence[Feature]) -> None:
    """Refuses records of other features, units or order than those learnt, with a DataError that says which."""
    fitted, given = tuple(fitted), tuple(given)
    if fitted == given:
        return
    names, came = [f.name for f in fitted], [f.name for f in given]
    if names == came:
        unit_text = lambda feature: f"{feature.unit!r}{', given' * feature.given}"
        pairs = [
            f"{a.name} in {unit_text(a)}, came {unit_text(b)}" for a, b in zip(fitted, given, strict=True) if a != b
        ]
        raise DataError(f"units: expected those learnt in fit: {'; '.join(pairs)}. Convert the values or fit again.")
    absent, new = [n for n in names if n not in came], [n for n in came if n not in names]
    if absent or new:
        raise DataError(
            f"features: expected the {len(names)} learnt in fit; absent: {', '.join(absent) or 'none'}; "
            f"not learnt: {', '.join(new) or 'none'}. A feature without values stays, as NaN."
        )
    raise DataError(f"features: expected the order learnt in fit, {', '.join(names)}; came {', '.join(came)}.")


def cells_asked(imputer: Any, windows: Windows, n_samples: int, fill: np.ndarray | None) -> np.ndarray:
    """The cells to fill, see ``cells_to_fill``, after what every ``impute`` checks first."""
    if not hasattr(imputer, "features_"):
        raise NotFittedError(f"imputer {imputer.name!r}: expected fit or load before impute.")
    check_features(imputer.features_, windows.features)
    return cells_to_fill(windows, n_samples, fill)


def check_given(features: Sequence[Feature]) -> None:
    """Refuses, with a DataError, features that are all given, or of which given ones do not come last."""
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


def time_steps(windows: Windows) -> np.ndarray:
    """(N,) median distance between two steps of each record; 0 where records have one step."""
    return np.median(np.diff(windows.times, axis=1), axis=1) if windows.n_steps > 1 else np.zeros(len(windows))


def check_steps(windows: Windows, expected: float) -> None:
    """Refuses, with a DataError, records of other steps than a model was trained on; 0 = it knows none."""
    for record, step in zip(windows.record_ids, time_steps(windows), strict=True):
        if step and expected and not np.isclose(step, expected, rtol=0.05):
            raise DataError(
                f"times: the model was trained on steps of {expected:g}, record {record!r} has steps of {step:g}. "
                "Resample it, or convert its times to the model's unit."
            )


def usual_step(windows: Windows) -> tuple[float, bool]:
    """The usual distance between two steps, 0 where there is none, and whether all records keep to it."""
    steps = time_steps(windows)
    if not len(steps):
        return 0.0, True
    usual = float(np.median(steps))
    return usual, bool(np.isclose(steps, usual, rtol=0.05).all())


def completed(record: Windows, scaler: Scale, draws: np.ndarray, filled: np.ndarray) -> Samples:
    """One record with its standardised draws (S, 1, K, L) at the cells ``filled``, in the data's units."""
    values = np.empty(draws.shape, record.values.dtype)
    with np.errstate(over="ignore"):  # what does not fit the data's own dtype is refused below
        for draw, value in zip(draws, values, strict=True):  # one by one: all draws in float64 would be much
            value[...] = scaler.inverse(draw)
    if not np.isfinite(values).all():
        raise TsimputeError(
            f"sampling: draws of record {record.record_ids[0]!r} are not finite as {values.dtype}. "
            "Train anew, use more steps, or give the records in a wider dtype."
        )
    values[:, ~filled] = np.nan
    shown = record.visible
    values[:, shown] = record.values[shown]
    return Samples(values, shown, record.features, record.record_ids)


def collected(records: Iterator[Samples], windows: Windows, n_samples: int, progress: Progress) -> Samples:
    """The draws of all records of ``windows`` in one, of an iterator over one after another."""
    values = np.empty((n_samples, *windows.values.shape), windows.values.dtype)
    with progress_bars(progress, {"imputing": "record"}) as tell:
        for n, record in enumerate(records):
            values[:, n] = record.values[:, 0]
            tell("imputing", n + 1, len(windows))
    return Samples(values, windows.visible, windows.features, windows.record_ids)
