"""Records at rest, before and after their gaps are filled: frozen dataclasses of NumPy arrays that check themselves.

Letters: N windows (records), K features, L time steps, S samples. Arrays are (N, K, L), samples come first:
(S, N, K, L).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tsimpute.core.quantiles import quantiles
from tsimpute.core.shapes import ShortRepr, check_distinct, check_mask, check_numbers, check_shape
from tsimpute.errors import DataError


@dataclass(frozen=True)
class Feature:
    """One variable of a series.

    Attributes:
        name: distinct among the features of a series.
        unit: "" where unknown, "1" for a pure number.
        given: it is known beforehand, as the hour of the day is: always shown to a model and never asked for.

    Example:
        >>> Feature("PM2.5", "ug/m3")
        Feature(name='PM2.5', unit='ug/m3', given=False)
    """

    name: str
    unit: str = ""
    given: bool = False

    @property
    def unit_beside(self) -> str:
        """The unit to be shown beside the name: "" where the name ends with it in brackets, as "PM10 [ug/m3]" does."""
        return "" if self.name.rstrip().endswith((f"[{self.unit}]", f"({self.unit})")) else self.unit


@dataclass(frozen=True, eq=False, repr=False)
class Windows(ShortRepr):
    """Data at rest: N records of K features at L times, NaN where nothing was observed.

    Example:
        >>> values = np.array([[[1.0, np.nan, 3.0]]])  # one record, one feature, three steps
        >>> windows = Windows(values, np.arange(3.0)[None], (Feature("PM2.5", "ug/m3"),), ("station 1",))
        >>> windows.visible.tolist()
        [[[True, False, True]]]

    Attributes:
        values: (N, K, L) floats in the data's own units; NaN = missing.
        times: (N, L) the series' own clock, strictly increasing along L.
        features: K names and units.
        record_ids: N distinct names.
        held_out: (N, K, L) bool, the observed cells that are prescribed for scoring, or None.
        split: (N,) strings such as "train", "valid", "test", or None where none is prescribed.
        pattern_donor: (N,) bool, records whose missingness pattern other records may borrow in training; None = all.
        changes: what reading the files dropped, merged or declared missing, and how often.

    Raises:
        DataError: shapes disagree, a value is infinite, times do not increase, ids repeat, or held_out marks a cell
            without a value.
    """

    values: np.ndarray
    times: np.ndarray
    features: tuple[Feature, ...]
    record_ids: tuple[str, ...]
    held_out: np.ndarray | None = None
    split: np.ndarray | None = None
    pattern_donor: np.ndarray | None = None
    changes: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_numbers("values", self.values, "f")
        check_numbers("times", self.times, "fiu")
        if self.values.ndim != 3 or 0 in self.values.shape[1:]:
            raise DataError(
                "values: expected floats of shape (records, features, steps), NaN where missing, at least one feature "
                f"and step; came shape {self.values.shape}."
            )
        if not all(isinstance(feature, Feature) for feature in self.features):
            raise DataError(f"features: expected Feature(name, unit) for each, came {self.features[0]!r}.")
        if not all(isinstance(name, str) for name in self.record_ids):
            raise DataError("record_ids: expected texts; write numbers as text, such as '132539'.")
        object.__setattr__(self, "features", tuple(self.features))
        object.__setattr__(self, "record_ids", tuple(self.record_ids))
        n, k, length = self.values.shape
        check_shape("times", self.times, (n, length))
        check_shape("features", self.features, (k,))
        check_shape("record_ids", self.record_ids, (n,))
        for name in ("split", "pattern_donor"):
            check_shape(name, getattr(self, name), (n,))
        check_mask("held_out", self.held_out, (n, k, length))
        if np.isinf(self.values).any():
            i, j, t = (int(axis[0]) for axis in np.nonzero(np.isinf(self.values)))
            raise DataError(
                f"values: expected finite numbers or NaN; record {self.record_ids[i]!r}, feature "
                f"{self.features[j].name!r}, step {t} is {self.values[i, j, t]}. Replace it by NaN or correct it."
            )
        if not np.isfinite(self.times).all() or (np.diff(self.times, axis=1) <= 0).any():
            raise DataError(
                "times: expected finite, strictly increasing times within each record. Sort and deduplicate."
            )
        check_distinct("record_ids", self.record_ids)
        check_distinct("features", [f.name for f in self.features])
        if self.held_out is not None and (self.held_out & np.isnan(self.values)).any():
            raise DataError("held_out: expected only cells that hold a value; it marks cells that are NaN.")

    def __len__(self) -> int:
        return len(self.values)

    @property
    def n_features(self) -> int:
        return self.values.shape[1]

    @property
    def n_steps(self) -> int:
        return self.values.shape[2]

    @property
    def observed(self) -> np.ndarray:
        """(N, K, L) bool: the cell holds a value (whether held out or not)."""
        return ~np.isnan(self.values)

    @property
    def held_out_mask(self) -> np.ndarray:
        """(N, K, L) bool: the held-out cells; nowhere True if none are prescribed."""
        return np.zeros(self.values.shape, bool) if self.held_out is None else self.held_out

    @property
    def visible(self) -> np.ndarray:
        """(N, K, L) bool: observed and not held out."""
        return self.observed & ~self.held_out_mask

    @property
    def known(self) -> np.ndarray:
        """(N, K, L) the visible values, NaN elsewhere."""
        return np.where(self.visible, self.values, np.nan)

    def records_within(self, n_bytes: int, n_samples: int) -> int:
        """How many records at once have draws, in the dtype of the values, of no more than that; one at least."""
        return max(1, n_bytes // (n_samples * self.n_features * self.n_steps * self.values.itemsize))

    def select(self, index: np.ndarray | Sequence[int] | slice) -> Windows:
        """The records at ``index`` (integers, a bool mask or a slice), in that order."""
        at = np.arange(len(self))[index]
        arrays = {name: x[at] for name, x in vars(self).items() if isinstance(x, np.ndarray)}  # all have N rows
        return replace(self, record_ids=tuple(self.record_ids[i] for i in at), **arrays)

    def steps(self, index: slice) -> Windows:
        """All records at those steps only."""
        held_out = None if self.held_out is None else self.held_out[..., index]
        return replace(self, values=self.values[..., index], times=self.times[:, index], held_out=held_out)

    def named(self, record_ids: Sequence[str] | None) -> Windows:
        """The records of those names, in that order, all where None; an unknown name is a DataError."""
        if record_ids is None:
            return self
        at = {name: i for i, name in enumerate(self.record_ids)}
        absent = [name for name in record_ids if name not in at]
        if absent:
            raise DataError(f"records: expected ids out of {len(at)} such as {self.record_ids[0]!r}; no {absent[0]!r}.")
        return self.select([at[name] for name in record_ids])

    def without_held_out(self) -> Windows:
        """The same records with every held-out cell made missing: all that an imputer may see."""
        return replace(self, values=np.where(self.held_out_mask, np.nan, self.values), held_out=None)


@dataclass(frozen=True, eq=False, repr=False)
class Samples(ShortRepr):
    """Completed records: S draws of every window, in the data's own units.

    Attributes:
        values: (S, N, K, L); shown cells hold the observed value in every draw, bit for bit. NaN marks a cell that
            was not asked for.
        visible: (N, K, L) bool, cells that were observed and not held out.
        features, record_ids: as in Windows.
    """

    values: np.ndarray
    visible: np.ndarray
    features: tuple[Feature, ...]
    record_ids: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.values.ndim != 4:
            raise DataError(
                "samples: expected shape (samples, records, features, steps); "
                f"came {self.values.shape}. One draw is a leading axis of length 1."
            )
        check_mask("visible", self.visible, self.values.shape[1:])
        check_shape("record_ids", self.record_ids, (self.values.shape[1],))
        check_shape("features", self.features, (self.values.shape[2],))

    @property
    def n_samples(self) -> int:
        return len(self.values)

    def quantile(self, levels: Sequence[float]) -> np.ndarray:
        """(Q, N, K, L) quantiles over the draws, one per level in [0, 1]; shown cells bit for bit.

        They are those whose coverage is scored: see ``tsimpute.core.quantiles``. Below 19 draws the interval from 0.05
        to 0.95 is the range of the draws, which holds less than 90 %.
        """
        return np.where(self.visible, self.values[0], quantiles(self.values, levels))

    def median(self) -> np.ndarray:
        """(N, K, L) median over the draws; shown cells bit for bit."""
        return self.quantile([0.5])[0]

    def mean(self) -> np.ndarray:
        """(N, K, L) mean over the draws; shown cells bit for bit."""
        return np.where(self.visible, self.values[0], self.values.mean(0))
