"""Standardised draws as completed records in the data's units."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tsimpute.core.windows import Samples, Windows
from tsimpute.errors import DataError, TsimputeError
from tsimpute.scaling.standardizer import Scale
from tsimpute.system.terminal import Progress, progress_bars


def time_steps(windows: Windows) -> np.ndarray:
    """(N,) median distance between two steps of each record; 0 where records have one step."""
    return np.median(np.diff(windows.times, axis=1), axis=1) if windows.n_steps > 1 else np.zeros(len(windows))


def check_steps(windows: Windows, expected: float) -> None:
    """Refuses records whose steps are not those that a model was trained on; 0 = it knows none.

    Raises:
        DataError: one has others.
    """
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
