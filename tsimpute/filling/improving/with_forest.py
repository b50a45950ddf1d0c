"""The first answer improved by randomised trees, within a time, if they help on hidden cells."""

from __future__ import annotations

import time
from dataclasses import replace

from tsimpute.filling.blending.choosing import mixed
from tsimpute.filling.blending.delivered import DeliveredModel, FittedTwice, FittingData
from tsimpute.filling.blending.mixture import FittedMethods, Mixture
from tsimpute.filling.measuring.calibration import LEAST
from tsimpute.filling.methods.components import Unseasonal, fitted_again
from tsimpute.filling.methods.forest import Forest, Watch
from tsimpute.filling.preparing.summary import FIRST
from tsimpute.imputers.base import TableModel
from tsimpute.system.run import Run

_LEAST_GAIN = 0.005
"""Share of the score without trees by which it has to be lower with them: what is less may be chance."""
_FIRST, _AGAIN = 0.6, 1.5
"""Share of the time in which trees have to grow; they grow again if so many times as long as that took is left."""
_LEAST_SECONDS = 5.0
"""With less left nothing is begun."""


def with_forest(data: FittingData, first: DeliveredModel, until: float, run: Run) -> DeliveredModel:
    """The first answer, or one whose draws are also moved towards randomised trees if that is better on hidden cells.

    Args:
        until: ``time.monotonic()`` at which it should end.
    """
    began = time.monotonic()
    if first.at is None or len(first.at.truth) < LEAST:
        n_cells = 0 if first.at is None else len(first.at.truth)
        return replace(first, note=f"no trees: {n_cells} hidden cells are too few to tell whether they help")
    if until - began < _LEAST_SECONDS:
        return replace(first, note=f"no trees: {max(0.0, until - began):.0f} seconds are left")
    watch = _watch(began + _FIRST * (until - began), run)
    blind, whole = first.base.blind, first.base.whole
    forest = Forest.fit(data.visible, blind.base, data.seed, _unseasonal(blind), watch)
    if run.should_stop():
        return replace(first, note="no trees: it was stopped before they had grown")
    if forest is None:
        why = "the time does not suffice" if watch.should_stop() else "too few values are known"
        return replace(first, note=f"no trees: {why}")
    methods = FittedMethods(blind.base, (*blind.components, forest))
    better = mixed(data, FittedTwice(methods, methods, weights=first.base.weights), None, first.at, None)
    before, after = (float(answer.scores[-1]["CRPS"]) for answer in (first, better))
    mixed_in = better.model.fitted.components if isinstance(better.model, Mixture) else ()
    used = [component in mixed_in for component in methods.components]
    if not isinstance(better.model, Mixture) or not used[-1] or after > (1 - _LEAST_GAIN) * before:
        return replace(first, note=f"randomised trees lower the CRPS on hidden cells by less than {_LEAST_GAIN:.1%}")
    took = time.monotonic() - began
    # Components that the first answer does not use were not fitted to all values; those in use now are.
    components = [
        fitted_again(component, data.panel, whole.base, data.seed)
        if whole is not blind and fitted is component and (is_used or isinstance(component, Unseasonal))
        else fitted
        for component, fitted, is_used in zip(blind.components, whole.components, used[:-1], strict=True)
    ]
    whole = FittedMethods(whole.base, tuple(components))
    if whole.base is not blind.base:
        # Trees that know another process's errors do harm: airq with blocks out 2 % more error than without them.
        watch = _watch(until, run)
        late = time.monotonic() + _AGAIN * took > until
        again = None if late else Forest.fit(data.panel, whole.base, data.seed, _unseasonal(whole), watch)
        if again is None:
            return replace(first, note="no trees: the time does not suffice for those of all values")
        forest = again
    model: TableModel = Mixture(FittedMethods(whole.base, (*components, forest)).only(used), better.model.blend)
    scores = (*better.scores[:-1], first.scores[-1] | {"imputer": FIRST}, better.scores[-1])
    return replace(better, model=model, base=first.base, scores=scores)


def _unseasonal(learnt: FittedMethods) -> Unseasonal | None:
    return next((component for component in learnt.components if isinstance(component, Unseasonal)), None)


def _watch(until: float, run: Run) -> Watch:
    """Half of the time is for masks. At the end of the time an unfinished forest is given up."""
    half = (time.monotonic() + until) / 2
    return Watch(
        lambda done, total: run.progress("fitting", done, total),
        late=lambda: time.monotonic() > half,
        should_stop=lambda: run.should_stop() or time.monotonic() > until,
    )
