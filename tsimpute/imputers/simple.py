"""Simple deterministic baselines: mean, median, last observation carried forward, linear and monotone cubic curves."""

from __future__ import annotations

import json
import math
from dataclasses import astuple
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from tsimpute.core.gaps import carried, curved, interpolated
from tsimpute.core.windows import Feature, Samples, Windows
from tsimpute.errors import CheckpointError, DataError, NotFittedError
from tsimpute.imputers.shared.records import cells_asked
from tsimpute.system.files import atomic_write

_FORMAT = "tsimpute simple imputer"
_LAYOUT = 1
_KEYS = {"format", "layout", "imputer", "features", "centre", "no_data"}


class SimpleImputer:
    """Learns one number per feature from the visible training cells and imputes each record separately.

    A feature without a visible training cell keeps its place. Where it cannot be imputed from the record's own values
    it becomes 0.0, as a standardiser's mean of such a feature, and is named in ``no_data_``.

    Attributes:
        features_: names and units seen in ``fit``.
        centre_: (K,) the number learnt; 0 for a feature without data.
        no_data_: names of the features without a shown training cell.
    """

    name: ClassVar[str]

    features_: tuple[Feature, ...]
    centre_: np.ndarray
    no_data_: tuple[str, ...]

    def fit(self, train: Windows, valid: Windows | None = None) -> Self:
        """Learns from the shown cells of ``train``; ``valid`` is not needed.

        Raises:
            DataError: ``train`` shows no cell at all.
        """
        if not train.visible.any():
            raise DataError("train: expected at least one shown cell, came none. Are all values missing or held out?")
        known = [train.values[:, k][train.visible[:, k]].astype(np.float64) for k in range(train.n_features)]
        self.centre_ = np.array([self._centre(x) if len(x) else 0.0 for x in known])
        self.no_data_ = tuple(f.name for f, x in zip(train.features, known, strict=True) if not len(x))
        self.features_ = train.features
        return self

    def impute(self, windows: Windows, n_samples: int, seed: int = 0, fill: np.ndarray | None = None) -> Samples:
        cells = cells_asked(self, windows, n_samples, fill)
        known = windows.known
        completed = np.where(cells, self._fill(known, windows.times), known).astype(known.dtype, copy=False)
        return Samples(np.repeat(completed[None], n_samples, 0), windows.visible, windows.features, windows.record_ids)

    def save(self, path: Path) -> None:
        if not hasattr(self, "features_"):
            raise NotFittedError(f"imputer {self.name!r}: expected fit before save.")
        content = {
            "format": _FORMAT,
            "layout": _LAYOUT,
            "imputer": self.name,
            "features": [astuple(feature)[: 2 + feature.given] for feature in self.features_],
            "centre": self.centre_.tolist(),
            "no_data": list(self.no_data_),
        }
        text = json.dumps(content, indent=1, ensure_ascii=False)
        atomic_write(Path(path), lambda partial: partial.write_text(text, encoding="utf-8"))

    @classmethod
    def load(cls, path: Path) -> Self:
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise CheckpointError(f"{path}: expected an imputer written by save, cannot be read: {error}.") from error
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise CheckpointError(f"{path}: expected an imputer written by save, came another kind of file.")
        if content.get("layout") != _LAYOUT:
            came = content.get("layout")
            raise CheckpointError(f"{path}: expected layout {_LAYOUT}, came {came!r}. Fit and save again.")
        if set(content) != _KEYS or not _sound(content["features"], content["centre"], content["no_data"]):
            raise CheckpointError(f"{path}: the file is damaged: keys or values are not those that save writes.")
        if content["imputer"] != cls.name:
            raise CheckpointError(f"{path}: expected imputer {cls.name!r}, the file holds {content['imputer']!r}.")
        imputer = cls()
        imputer.features_ = tuple(Feature(*pair) for pair in content["features"])
        imputer.centre_ = np.array(content["centre"], np.float64)
        imputer.no_data_ = tuple(content["no_data"])
        return imputer

    def _centre(self, known: np.ndarray) -> float:
        """The number learnt from a feature's visible cells (M,), M >= 1."""
        return float(np.median(known))

    def _fill(self, known: np.ndarray, times: np.ndarray) -> np.ndarray:
        """(N, K, L) without NaN, from the visible values (N, K, L; NaN elsewhere) and times (N, L)."""
        return np.broadcast_to(self.centre_[:, None], known.shape)


class MeanImputer(SimpleImputer):
    """The mean of a feature's visible training cells, at every missing cell.

    Example:
        >>> import tsimpute as ti
        >>> times, a = np.arange(4.0)[None], ti.Feature("a")
        >>> record = ti.Windows(np.array([[[1.0, np.nan, np.nan, 7.0]]]), times, (a,), ("x",))
        >>> MeanImputer().fit(record).impute(record, n_samples=1).values[0, 0, 0].tolist()
        [1.0, 4.0, 4.0, 7.0]
    """

    name = "mean"

    def _centre(self, known: np.ndarray) -> float:
        return float(known.mean())


class MedianImputer(SimpleImputer):
    """The median of a feature's visible training cells, at every missing cell.

    Example:
        >>> import tsimpute as ti
        >>> times, a = np.arange(4.0)[None], ti.Feature("a")
        >>> record = ti.Windows(np.array([[[1.0, np.nan, np.nan, 7.0]]]), times, (a,), ("x",))
        >>> MedianImputer().fit(record).impute(record, n_samples=1).values[0, 0, 0].tolist()
        [1.0, 4.0, 4.0, 7.0]
    """

    name = "median"


class LocfImputer(SimpleImputer):
    """Last observation carried forward, within the record.

    Cells before a record's first value get that first value; a record without a value of the feature gets the
    feature's training median.

    Example:
        >>> import tsimpute as ti
        >>> times, a = np.arange(4.0)[None], ti.Feature("a")
        >>> record = ti.Windows(np.array([[[1.0, np.nan, np.nan, 7.0]]]), times, (a,), ("x",))
        >>> LocfImputer().fit(record).impute(record, n_samples=1).values[0, 0, 0].tolist()
        [1.0, 1.0, 1.0, 7.0]
    """

    name = "locf"

    def _fill(self, known: np.ndarray, times: np.ndarray) -> np.ndarray:
        return carried(known, self.centre_)


class LinearImputer(SimpleImputer):
    """Linear interpolation in ``times`` between a record's values of the same feature.

    Before the first and after the last value it stays constant; a record without a value of the feature gets the
    feature's training median.

    Example:
        >>> import tsimpute as ti
        >>> times, a = np.arange(4.0)[None], ti.Feature("a")
        >>> record = ti.Windows(np.array([[[1.0, np.nan, np.nan, 7.0]]]), times, (a,), ("x",))
        >>> LinearImputer().fit(record).impute(record, n_samples=1).values[0, 0, 0].tolist()
        [1.0, 3.0, 5.0, 7.0]
    """

    name = "linear"

    def _fill(self, known: np.ndarray, times: np.ndarray) -> np.ndarray:
        return interpolated(known, times, self.centre_)


class PchipImputer(SimpleImputer):
    """SciPy's ``PchipInterpolator`` in ``times`` through a record's values of the same feature; it does not overshoot.

    Before the first and after the last value it stays constant; a record without a value of the feature gets the
    feature's training median.
    """

    name = "pchip"

    def _fill(self, known: np.ndarray, times: np.ndarray) -> np.ndarray:
        return curved(known, times, self.centre_)


def _sound(features: Any, centre: Any, no_data: Any) -> bool:
    """Whether the three lists belong together: features, one finite number each, some of the names."""
    if not all(isinstance(x, list) for x in (features, centre, no_data)) or len(features) != len(centre):
        return False
    kinds = [str, str], [str, str, bool]
    if not all(isinstance(f, list) and [*map(type, f)] in kinds for f in features):
        return False
    names = [f[0] for f in features]
    numbers = all(isinstance(x, float | int) and not isinstance(x, bool) and math.isfinite(x) for x in centre)
    return bool(names) and len(set(names)) == len(names) and numbers and all(x in names for x in no_data)


PLUGINS = {cls.name: cls for cls in (LinearImputer, LocfImputer, MeanImputer, MedianImputer, PchipImputer)}
