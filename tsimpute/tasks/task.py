"""The records that a run trains on and scores, and how they were made: which are for training, validation and test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields

import numpy as np

from tsimpute.core.seeding import derive_seed
from tsimpute.core.shapes import ShortRepr
from tsimpute.core.windows import Windows
from tsimpute.errors import ConfigError, DataError
from tsimpute.scaling.standardizer import Standardizer

N_FOLDS = 5
PARTS = ("train", "valid", "test")
PRESCRIBED = "prescribed"
TRANSDUCTIVE = "transductive"
"""The protocol whose test records are its training records, with no others for validation."""
REMOVED = "held-out cells of training records made missing"


@dataclass(frozen=True)
class PartCounts:
    """Cells of one part of a task: ``observed = removed + shown + scored``.

    Attributes:
        part: "train", "valid" or "test".
        records: number of records.
        cells: records x features x steps.
        observed: cells that hold a value in the data.
        removed: held out by the data set and taken away from training; neither shown nor scored.
        shown: cells that a model may see. In training the mask policy makes part of them targets, anew on each pass.
        scored: hidden from the model, and compared with what it fills in.
    """

    part: str
    records: int
    cells: int
    observed: int
    removed: int
    shown: int
    scored: int


@dataclass(frozen=True, eq=False, repr=False)
class Task(ShortRepr):
    """Records for training, validation and test, the scaler, and how they were made.

    Attributes:
        train: training records; without held-out cells.
        valid, test: records whose ``held_out`` cells are hidden from the model and scored. A transductive task has no
            records for validation, and its test records are those of training and their like.
        scaler: means and standard deviations to train and impute with, and the limits to keep.
        units: means and standard deviations of the values themselves, that scores are given in; None = ``scaler``.
        protocol: "clean", "csdi" or "transductive".
        fold: 0 to 4; 0 where the split is prescribed.
        mechanism: how the scored cells were chosen: "prescribed" (by the data set) or a name out of ``MECHANISMS``.
        rate: share of the observed cells that was asked to be hidden; None for "prescribed".
        changes: what was dropped or made missing on the way from the raw files, and how often.
        order: one sentence: what was done, in which order.
        seed: what the split and the holes were drawn from.

    Raises:
        DataError: a part holds no record, records are in two parts, nothing is shown in training or nothing is scored.
    """

    train: Windows
    valid: Windows
    test: Windows
    scaler: Standardizer
    protocol: str
    fold: int
    mechanism: str
    rate: float | None
    changes: Mapping[str, int]
    order: str
    seed: int = 0
    units: Standardizer | None = None

    def __post_init__(self) -> None:
        parts = PARTS if self.protocol != TRANSDUCTIVE else ("train", "test")
        counts = [len(getattr(self, part)) for part in parts]
        ids = [record_id for part in parts for record_id in getattr(self, part).record_ids]
        repeated = 0 if self.protocol == TRANSDUCTIVE else len(ids) - len(set(ids))
        if not all(counts) or repeated:
            raise DataError(
                "task: expected at least one record in each part and none in two; "
                f"came {', '.join(f'{n} {name}' for name, n in zip(parts, counts, strict=True))} records, "
                f"{repeated} of them repeated."
            )
        if not self.train.visible.any():
            raise DataError(
                "task: expected cells to train on; no training record shows any. Check the data and the split."
            )
        # A data set may hold out cells of its test records only; validation then has to draw its own targets.
        for name in ("test",) if self.mechanism == PRESCRIBED or "valid" not in parts else ("valid", "test"):
            if not getattr(self, name).held_out_mask.any():
                raise DataError(
                    f"task: expected cells to score in the {name} records, none is held out ({self.mechanism}, rate "
                    f"{self.rate}). A rate hides int(rate * n) of a record's n observed cells: raise it, or take the "
                    "mechanism 'mcar', which hides each cell by chance."
                )

    @property
    def valid_or_none(self) -> Windows | None:
        """The records for validation; None where the protocol keeps none."""
        return self.valid if len(self.valid) else None

    def summary(self) -> tuple[PartCounts, ...]:
        """How many cells of each part are observed, removed, shown and scored; ``summary_text`` prints it."""
        counts = []
        for part in PARTS:
            windows: Windows = getattr(self, part)
            removed = self.changes.get(REMOVED, 0) if part == "train" else 0
            shown, scored = int(windows.visible.sum()), int(windows.held_out_mask.sum())
            observed = removed + shown + scored
            counts.append(PartCounts(part, len(windows), windows.values.size, observed, removed, shown, scored))
        return tuple(counts)

    def summary_text(self) -> str:
        """The summary as a Markdown table, followed by the order of steps and what was changed."""
        names = [field.name for field in fields(PartCounts)]
        rows = [names, ["---"] + ["---:"] * (len(names) - 1)]
        for counts in self.summary():
            part, *numbers = astuple(counts)
            rows.append([part, *(f"{number:,}" for number in numbers)])
        lines = [f"| {' | '.join(row)} |" for row in rows]
        lines += ["", f"{self.protocol}: {self.order}"]
        lines += [f"- {what}: {count:,}" for what, count in self.changes.items()]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False, repr=False)
class Split(ShortRepr):
    """Positions of the records of each part, each (n,) int.

    Raises:
        DataError: a part is empty, or a record stands in two places.
    """

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray

    def __post_init__(self) -> None:
        sizes = {part: len(getattr(self, part)) for part in PARTS}
        if not all(sizes.values()):
            raise DataError(
                f"split: expected at least one record in each of train, valid and test; came {sizes}. "
                f"Use more records (folds need at least {N_FOLDS}), or set `split` of the windows yourself."
            )
        together = np.concatenate([self.train, self.valid, self.test])
        if len(np.unique(together)) < len(together):
            raise DataError("split: expected train, valid and test without common records.")


def prescribed(windows: Windows) -> Split:
    """The split that the data set prescribes, in the records' order.

    Raises:
        DataError: none is prescribed, it has other names than train, valid and test, or one of them is empty.
    """
    if windows.split is None:
        raise DataError("split: expected a prescribed split, the windows have none; use seeded_folds.")
    unknown = sorted(set(map(str, windows.split)) - set(PARTS))
    if unknown:
        raise DataError(
            f"split: expected only the names {', '.join(PARTS)}; came also {', '.join(map(repr, unknown))}."
        )
    return Split(*(np.flatnonzero(windows.split == part) for part in PARTS))


def seeded_folds(record_ids: Sequence[str], fold: int, seed: int) -> Split:
    """One of five folds: a fifth is test, of the rest 7/8 are training and 1/8 validation (70 / 10 / 20 %).

    The test parts of the five folds have no record in common and together hold all. Who is where depends on the set of
    ids and the seed, not on the order of the records.

    Raises:
        ConfigError: fold is not 0 to 4.
        DataError: fewer than five records.
    """
    check_fold(fold)
    n = len(record_ids)
    if n < N_FOLDS:
        raise DataError(
            f"records: expected at least {N_FOLDS} for {N_FOLDS} folds, came {n}. Cut the series into more windows, or "
            "set `split` of the windows yourself."
        )
    by_lot = sorted(range(n), key=lambda i: derive_seed(int(seed), "test", record_ids[i]))
    start, end = fold * n // N_FOLDS, (fold + 1) * n // N_FOLDS
    rest = by_lot[:start] + by_lot[end:]
    rest.sort(key=lambda i: derive_seed(int(seed), "valid", int(fold), record_ids[i]))
    n_valid = max(round(len(rest) / 8), 1)
    return Split(*(np.array(sorted(part), int) for part in (rest[n_valid:], rest[:n_valid], by_lot[start:end])))


def csdi_folds(n: int, fold: int, seed: int) -> Split:
    """The folds of the original CSDI code, draw by draw, over n records that it numbers by ascending id.

    Raises:
        ConfigError: fold is not 0 to 4, or the seed is none of numpy's legacy generator.
        DataError: too few records: a part would be empty.
    """
    check_fold(fold)
    order = np.arange(n)
    legacy_generator(seed).shuffle(order)
    start, end = fold * n // N_FOLDS, (fold + 1) * n // N_FOLDS
    rest = np.concatenate([order[:start], order[end:]])
    legacy_generator(seed).shuffle(rest)
    n_train = int(n * 0.7)
    return Split(train=rest[:n_train], valid=rest[n_train:], test=order[start:end])


def legacy_generator(seed: int) -> np.random.RandomState:
    """The generator behind ``np.random.seed(seed)``, without touching the global one; other seeds are a ConfigError."""
    if not 0 <= seed < 2**32:
        raise ConfigError(f"seed of the csdi protocol: expected 0 to 2**32 - 1, came {seed}.")
    return np.random.RandomState(int(seed))


def check_fold(fold: int) -> None:
    """Raises ConfigError where ``fold`` is not one of 0 to 4."""
    if fold not in range(N_FOLDS):
        raise ConfigError(f"fold: expected one of 0 to {N_FOLDS - 1}, came {fold!r}.")
