"""How a time is spent on a network: what it costs to learn, to measure and to draw, and what of it can be afforded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FEWEST_STEPS = 60
"""Optimiser steps below which no network is trained."""
LEAST_SHARE = 0.2
"""Largest share of the draws that a network may have below which none is trained."""
_SAFETY, _KEPT = 1.5, 0.05
"""What draws may cost more than those of a few windows do, and the share of the time that is planned for nothing."""
LOOKS = (0.25, 0.5, 0.75)
"""Shares of the steps after which it is looked whether the network helps."""
_DRAWING, _MEASURING, _TRIAL = 0.3, 0.2, 0.03
"""Shares of the time for draws at gaps, for measuring, and for one look at the network."""
_LEARNING = 1 - _DRAWING - _MEASURING - _TRIAL * len(LOOKS) - _KEPT


@dataclass(frozen=True)
class Costs:
    """Seconds, as they were measured here.

    Attributes:
        step: of one optimiser step.
        draw: of one draw of one window.
    """

    step: float
    draw: float


@dataclass(frozen=True)
class Work:
    """What there is to do.

    Attributes:
        steps: of the optimiser, at most.
        n_samples: draws of each cell.
        to_fill: windows with a gap.
        to_measure: windows with a hidden cell.
        least_measured: of these, so many have to be measured.
    """

    steps: int
    n_samples: int
    to_fill: int
    to_measure: int
    least_measured: int


@dataclass(frozen=True)
class Plan:
    """What is done.

    Attributes:
        steps: of the optimiser.
        trial, measured: windows that are drawn at each look and at the end; a trial of 0 = there is no look.
        most: largest share of the draws that may be the network's.
        learning: seconds after which learning ends, whatever it has done.
    """

    steps: int
    trial: int
    measured: int
    most: float = 1.0
    learning: float = np.inf


@dataclass(frozen=True)
class TooDear:
    """There is no time for a network.

    Attributes:
        needed: seconds that would suffice.
    """

    needed: float


def plan(seconds: float, costs: Costs, work: Work) -> Plan | TooDear:
    """How the seconds that are left are spent; a plan takes no more than them."""
    window = _SAFETY * costs.draw * work.n_samples
    filling, fewest = window * work.to_fill, min(work.least_measured, work.to_measure)
    needed = max(
        LEAST_SHARE * filling / _DRAWING,
        fewest * window / _MEASURING,
        FEWEST_STEPS * costs.step / _LEARNING,
    )
    if needed > seconds:
        return TooDear(needed)
    most = min(1.0, np.floor(10 * _DRAWING * seconds / max(filling, 1e-9)) / 10)
    measured = max(fewest, min(work.to_measure, int(_MEASURING * seconds / max(window, 1e-9))))
    trial = min(measured, int(_TRIAL * seconds / max(window, 1e-9)))
    left = (1 - _KEPT) * seconds - most * filling - (measured + len(LOOKS) * trial) * window
    return Plan(min(work.steps, int(left / max(costs.step, 1e-9))), trial, measured, float(most), left)
