"""The mean course of a day, a week or another season that the data have, and straight lines for the rest."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tsimpute.core.gaps import interpolated
from tsimpute.core.windows import Windows
from tsimpute.imputers.shared.records import usual_step
from tsimpute.imputers.shared.standardised import StandardisedImputer, moved_gaps

_DAY, _WEEK = 24.0, 168.0
_PEAKS, _MOST_RECORDS = 3, 50


class SeasonalImputer(StandardisedImputer):
    """Each feature's mean by phase of a season, plus linear interpolation in time of what is left.

    The season is found in ``fit``: a day and a week where the unit of the times is the hour, and the three lags at
    which the records are most like themselves. Each feature takes the one that fits best on cells hidden under the
    records' own gaps, moved in time, or none. Records of uneven steps, or shorter than two seasons, have none.

    Args:
        seed: of the cells that are hidden to choose on.
    """

    name = "seasonal"
    _LEARNT: ClassVar = ("step", "periods", "profiles")

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def _learn(self, known: np.ndarray, train: Windows) -> dict[str, np.ndarray]:
        step, even = usual_step(train)
        has_steps = even and step > 0
        steps = (
            np.array([in_steps(times, step) for times in train.times]) if has_steps else np.zeros((len(train), 0), int)
        )
        periods = [0, *_candidates(known, train.times, step)] if has_steps else [0]
        hidden = moved_gaps(known, self.seed)
        shown = np.where(hidden, np.nan, known)
        errors = np.zeros((len(periods), known.shape[1]))
        for i, period in enumerate(periods):
            profile = _profile(shown, steps, period)
            course = profile[:, steps % period].transpose(1, 0, 2) if period else np.zeros(known.shape)
            guess = course + interpolated(shown - course, train.times, np.zeros(known.shape[1]))
            errors[i] = np.where(hidden, np.abs(guess - known), 0).sum((0, 2))
        best = errors.argmin(0)  # the first of equals: no season
        profiles = np.zeros((known.shape[1], max(periods)))
        for k, i in enumerate(best):
            profiles[k, : periods[i]] = _profile(known[:, [k]], steps, periods[i])[0]
        return {"step": np.array(step), "periods": np.array(periods)[best], "profiles": profiles}

    def _filled(self, known: np.ndarray, times: np.ndarray) -> np.ndarray:
        step, periods, profiles = (self.learnt_[name] for name in self._LEARNT)
        course = np.zeros(known.shape)
        for k, period in enumerate(periods):
            if period:
                course[k] = profiles[k, in_steps(times, float(step)) % period]
        return course + interpolated((known - course)[None], times[None], np.zeros(len(known)))[0]


def in_steps(times: np.ndarray, step: float) -> np.ndarray:
    """(L,) times as whole numbers of steps, so that records agree on the phase of a season."""
    return np.rint(np.asarray(times, np.float64) / step).astype(np.int64)


def _candidates(known: np.ndarray, times: np.ndarray, step: float) -> list[int]:
    """Periods in steps that records hold twice: day, week, and the highest peaks of the mean autocorrelation."""
    length = known.shape[2]
    usual = [round(span / step) for span in (_DAY, _WEEK) if abs(span / step - round(span / step)) < 1e-6]
    if length < 8:
        return []
    some = known[:_MOST_RECORDS]
    full = interpolated(some, times[:_MOST_RECORDS], np.zeros(some.shape[1]))
    full -= full.mean(2, keepdims=True)
    spectrum = np.abs(np.fft.rfft(full, 2 * length)) ** 2
    likeness = np.fft.irfft(spectrum)[..., : length // 2 + 1] / np.arange(length, length - length // 2 - 1, -1)
    likeness = (likeness / np.maximum(likeness[..., :1], 1e-12)).mean((0, 1))
    inner = likeness[1:-1]
    peaks = 1 + np.flatnonzero((inner > likeness[:-2]) & (inner >= likeness[2:]) & (inner > 0.05))
    lags = peaks[np.argsort(-likeness[peaks])][:_PEAKS].tolist()
    return [period for period in dict.fromkeys([*usual, *lags]) if 2 <= period <= length // 2]


def _profile(known: np.ndarray, steps: np.ndarray, period: int) -> np.ndarray:
    """(K, period) mean by phase over records (N, K, L), drawn to 0 as by one more cell there."""
    at = ~np.isnan(known)
    out = np.zeros((known.shape[1], period))
    for k in range(known.shape[1] if period else 0):
        here = (steps % period)[at[:, k]]
        sums = np.bincount(here, known[:, k][at[:, k]], period)
        out[k] = sums / (np.bincount(here, minlength=period) + 1)
    return out


PLUGIN = SeasonalImputer
