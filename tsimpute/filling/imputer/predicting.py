"""What fills the gaps of a table that has been understood: a model, rules, or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tsimpute.core.panel import FILLED, LEFT_EMPTY, Filling
from tsimpute.errors import ConfigError, DataError
from tsimpute.filling.measuring.calibration import Calibration
from tsimpute.filling.preparing.prepare import matched
from tsimpute.filling.preparing.prepared import Prepared
from tsimpute.filling.preparing.rules import with_rules
from tsimpute.filling.preparing.series import fill_series
from tsimpute.filling.settings.table_settings import Settings
from tsimpute.imputers.base import TableModel
from tsimpute.system.terminal import Tell


def has_to_predict(prepared: Prepared, provenance: Sequence[np.ndarray]) -> bool:
    """Whether any cell is to be filled by a model.

    Args:
        provenance: per series (K, T), see ``Prepared.provenance``.
    """
    at = prepared.predicted
    return any(np.isin(codes[at], FILLED).any() for codes in provenance)


def model_of(model: TableModel | None, prepared: Prepared) -> TableModel:
    """The model that fills a table.

    Raises:
        DataError: there is none.
    """
    if model is None:
        names = [kind.feature for kind in prepared.kinds if kind.predicted]
        raise DataError(
            f"features: expected gaps that rules fill, as in the table that was fitted, came gaps of "
            f"{', '.join(names)}. "
            "Fit on a table in which they are measured."
        )
    return model


def predicted_fillings(
    model: TableModel,
    calibration: Calibration,
    prepared: Prepared,
    provenance: Sequence[np.ndarray],
    settings: Settings,
    progress: Tell,
) -> tuple[Filling, ...]:
    """What a model says of the features that it predicts, one per series.

    Raises:
        ConfigError: a level was not calibrated.
        DataError: the table has other features or units than the model.
    """
    new = [level for level in settings.levels if level != 0.5 and level not in calibration.factors]
    if calibration.n_cells and new:
        raise ConfigError(
            f"quantiles: expected levels that fit has calibrated, came {new[0]:g}. Fit once more (recalibrate)."
        )
    panel, at = prepared.model_panel, prepared.predicted
    if panel is None:
        return ()
    seen, place = matched(panel, model.features_, prepared.rules)
    fillings = []
    total, done = sum(len(s.times) for s in seen.series), 0
    for kept, view, codes in zip(prepared.panel.series, seen.series, provenance, strict=True):
        found = fill_series(
            model, seen, replace(kept, values=place.to_model(kept.values[at], np.nan)), view.values,
            place.to_model(codes[at], LEFT_EMPTY),
            levels=settings.levels, n_samples=settings.n_samples, seed=settings.seed, calibration=calibration,
            keep_samples=settings.keep_samples, progress=partial(_tell, progress, done, len(view.times), total),
        )  # fmt: skip
        fillings.append(found.features(place.back))
        done += len(view.times)
        progress("imputing", done, total)
    return tuple(fillings)


def fillings_of(
    prepared: Prepared, provenance: Sequence[np.ndarray], settings: Settings, predicted: Sequence[Filling]
) -> tuple[Filling, ...]:
    """The fillings of all features, one per series.

    Args:
        predicted: of the features that a model predicts; empty where none has to be.
    """
    if predicted and all(kind.predicted for kind in prepared.kinds):
        return tuple(predicted)
    n_samples, at = settings.n_samples if settings.keep_samples else None, prepared.predicted
    return tuple(
        with_rules(
            series, codes, settings.levels, (at, predicted[n]) if predicted else None, prepared.bands(n), n_samples
        )
        for n, (series, codes) in enumerate(zip(prepared.panel.series, provenance, strict=True))
    )


def _tell(progress: Tell, done: int, more: int, total: int, share: float) -> None:
    progress("imputing", done + int(share * more), total)
