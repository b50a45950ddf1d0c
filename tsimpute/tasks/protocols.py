"""The three protocols that make a task of windows.

``clean``, the default: split, then hide, then fit the scaler on shown training cells, so that nothing of a held-out
cell is seen anywhere. ``csdi``: what the original CSDI code does, for numbers that can be compared with its own; its
scaler has seen the held-out cells, and where no split is prescribed the test records too. ``transductive``: the records
that are filled are those that are learnt from, as when a person fills the table at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tsimpute.config.registry import is_known, plugin
from tsimpute.core.limits import Limits, limits_of
from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Windows
from tsimpute.errors import ConfigError, DataError
from tsimpute.scaling.standardizer import Standardizer
from tsimpute.tasks.missingness import BY_VALUE, MECHANISMS, check_rate, mar_roles, reached_rate, scaler_of
from tsimpute.tasks.table_missingness import TABLE_MECHANISMS
from tsimpute.tasks.task import (
    PARTS,
    PRESCRIBED,
    REMOVED,
    TRANSDUCTIVE,
    Split,
    Task,
    check_fold,
    csdi_folds,
    legacy_generator,
    prescribed,
    seeded_folds,
)

EMPTY_DROPPED = "records without any observation (dropped by the protocol)"
LEFT_EMPTY_DROPPED = "training records all of whose cells are held out (dropped by the protocol)"
OUTSIDE = "values outside the limits (made missing)"
NEVER_SHOWN = "features never shown in training"
LEFT_EMPTY = "records without a visible cell (not trained on, but filled and scored)"


def clean(
    windows: Windows,
    *,
    rate: float | None,
    seed: int,
    fold: int = 0,
    mechanism: str = "random",
    features: Sequence[str] | None = None,
    limits: Mapping[str, Limits] | None = None,
) -> Task:
    """The task without leakage: no held-out value is used anywhere.

    The split is the prescribed one, else one of five seeded folds (70 / 10 / 20 %). The scored cells are those that the
    data set holds out (they are made missing in training records), else cells of validation and test records drawn by
    ``mechanism``. Last, the scaler is fitted on the shown cells of the training records. Records without any
    observation are dropped before all this.

    Example:
        >>> import tsimpute as ti
        >>> task = clean(ti.load_windows("synthetic", n_records=20), rate=0.2, seed=1)
        >>> len(task.train), len(task.valid), len(task.test), task.train.held_out is None
        (14, 2, 4, True)

    Args:
        windows: all records.
        rate: share of observed cells to hide, in (0, 1); None = the data set's own held-out cells.
        seed: of the folds and the held-out cells.
        fold: 0 to 4; 0 where the split is prescribed.
        mechanism: a name out of ``MECHANISMS``, or an import path, see ``own_mechanism``; where ``rate`` is None the
            task's mechanism is "prescribed".
        features: names of features that may lose cells to ``mechanism``; None = all, but those that decide in "mar".
        limits: by feature, "*" = all others: first of all, what lies outside is made missing; the scaler keeps to them.

    Raises:
        ConfigError: rate, fold or mechanism out of range; a rate where the data set holds out cells, or none where it
            does not.
        DataError: too few records for a split, or nothing to train on or to score.
    """
    prescribed = _is_own(windows, rate)
    _check_mechanism(mechanism, prescribed, features)
    windows = _within(windows, limits)
    windows, changes = _without_empty(windows)
    split, how = _split(windows, fold, lambda: seeded_folds(windows.record_ids, fold, seed), seed)
    train, valid, test = (windows.select(getattr(split, part)) for part in PARTS)
    if prescribed:
        changes[REMOVED] = int(train.held_out_mask.sum())
        train, left_empty = _nonempty(train.without_held_out())
        changes |= {LEFT_EMPTY_DROPPED: left_empty} if left_empty else {}
        mechanism, hidden = PRESCRIBED, "the data set's held-out cells hidden in valid and test, made missing in train"
    else:
        train = replace(train, held_out=None)
        hide = MECHANISMS[mechanism] if mechanism in MECHANISMS else own_mechanism(mechanism)
        if mechanism in BY_VALUE:  # what counts as high is a fact of the data set, the same in every fold
            hide = partial(hide, scaler=scaler_of(windows))
        if mechanism == "mar":
            features = mar_roles(windows, seed, features)[1]
        valid, test = (replace(w, held_out=hide(w, rate=rate, seed=seed, features=features)) for w in (valid, test))
        hidden = (
            f"cells of valid and test{'' if features is None else ' in ' + ', '.join(features)} hidden ({mechanism}, "
            f"rate {rate:g} asked, {reached_rate(test, test.held_out_mask, features):.4f} reached in test, seed {seed})"
        )
    scaler, units, first = _scalers(train, limits, changes)
    order = f"{first}{how} -> {hidden} -> scaler fitted on the shown cells of train only."
    return Task(train, valid, test, scaler, "clean", fold, mechanism, rate, changes, order, seed, units)


def csdi(
    windows: Windows,
    *,
    rate: float | None,
    fold: int = 0,
    seed: int = 1,
    limits: Mapping[str, Limits] | None = None,
) -> Task:
    """The task exactly as the original CSDI code sets it up, leaks included.

    Records are taken by ascending id. Without own held-out cells (PhysioNet): records without any observation are
    dropped, and held-out cells are drawn for every record by numpy's legacy generator on the (steps, features) grid.
    Without a prescribed split: the original's five folds, and a scaler fitted on *all* records. With one (PM2.5): a
    scaler fitted on training and validation records; the original ships a pickled mean and standard deviation of
    unknown making there, so this is the nearest that can be computed, each cell counted in every window that holds it.
    Either way the scaler sees the held-out cells, and training records show all they have.

    Example:
        >>> import tsimpute as ti
        >>> task = csdi(ti.load_windows("synthetic", n_records=20), rate=0.2)
        >>> task.protocol, bool(task.test.held_out.any())
        ('csdi', True)

    Args:
        windows: all records.
        rate: share of each record's observed cells to hide, in (0, 1); None = the data set's own held-out cells.
        fold: 0 to 4; 0 where the split is prescribed.
        seed: of the legacy generator; the original's is 1.
        limits: by feature, "*" = all others. Not in the original: after cells are held out, values outside are made
            missing, and the scaler keeps to them; scores stay in the units of the original's scaler.

    Raises: see ``clean``.
    """
    prescribed = _is_own(windows, rate)
    windows = windows.select(np.argsort(np.array(windows.record_ids), kind="stable"))
    changes = dict(windows.changes)
    if not prescribed:
        windows, changes = _without_empty(windows)
        check_rate(rate)
        assert rate is not None
        rng, by_step = legacy_generator(seed), windows.observed.transpose(0, 2, 1).reshape(len(windows), -1)
        hidden = np.zeros_like(by_step)
        for observed, of_record in zip(by_step, hidden, strict=True):
            cells = np.flatnonzero(observed)
            of_record[rng.choice(cells, int(len(cells) * rate), replace=False)] = True
        held_out = hidden.reshape(len(windows), windows.n_steps, windows.n_features).transpose(0, 2, 1)
        windows = replace(windows, held_out=held_out)
    whole, windows = windows, _within(windows, limits)
    changes |= {OUTSIDE: windows.changes[OUTSIDE]} if limits else {}
    split, how = _split(windows, fold, lambda: csdi_folds(len(windows), fold, seed), seed)
    train, valid, test = (windows.select(getattr(split, part)) for part in PARTS)
    fitted_on, name = (np.arange(len(windows)), "all records, test included")
    if windows.split is not None:
        fitted_on, name = np.concatenate([split.train, split.valid]), "train and valid"
    scaler = units = Standardizer.fit(replace(whole.select(fitted_on), held_out=None))
    if limits:
        scaler = Standardizer.fit(replace(windows.select(fitted_on), held_out=None), limits)
    hidden = (
        "the data set's held-out cells taken"
        if prescribed
        else f"cells of all records hidden (rate {rate:g}, seed {seed})"
    )
    hidden += " -> values outside the limits made missing" if limits else ""
    order = (
        f"{hidden} -> scaler fitted on all observed cells of {name}, held-out cells included -> {how} -> "
        "held-out cells of train shown again."
    )
    mechanism = PRESCRIBED if prescribed else "random"
    train = replace(train, held_out=None)
    return Task(train, valid, test, scaler, "csdi", fold, mechanism, rate, changes, order, seed, units)


def transductive(
    windows: Windows,
    *,
    rate: float | None,
    seed: int,
    fold: int = 0,
    mechanism: str = "mcar_exact",
    features: Sequence[str] | None = None,
    limits: Mapping[str, Limits] | None = None,
) -> Task:
    """The task of filling the records that are learnt from: training and test records are the same.

    Cells of all records are hidden and scored; a model sees the visible ones only, and the scaler is fitted on these.
    Records left without a visible cell are not trained on, but filled and scored. There are no validation records.

    Example:
        >>> import tsimpute as ti
        >>> task = transductive(ti.load_windows("synthetic", n_records=20, n_steps=1), rate=0.5, seed=1)
        >>> len(task.train), len(task.valid), len(task.test)
        (17, 0, 17)

    Args:
        windows: all records; those without any observation are dropped.
        rate: share of cells to hide, see ``mechanism``; None = the data set's own held-out cells.
        seed: of the held-out cells.
        fold: 0 to 4, for so many masks of the same records.
        mechanism: a name out of ``TABLE_MECHANISMS`` or ``MECHANISMS``, or an import path, see ``own_mechanism``.
        features, limits: as for ``clean``.

    Raises: see ``clean``.
    """
    prescribed, known = _is_own(windows, rate), TABLE_MECHANISMS | MECHANISMS
    _check_mechanism(mechanism, prescribed, features, known)
    check_fold(fold)
    test, changes = _without_empty(_within(windows, limits))
    if prescribed:
        mechanism, hidden = PRESCRIBED, "the data set's held-out cells hidden"
    else:
        hide = known[mechanism] if mechanism in known else own_mechanism(mechanism)
        mask_seed = derive_seed(int(seed), "transductive", int(fold))
        test = replace(test, held_out=hide(test, rate=rate, seed=mask_seed, features=features))
        hidden = (
            f"cells of all records hidden ({mechanism}, rate {rate:g}, "
            f"{reached_rate(test, test.held_out_mask):.4f} of the observed cells, seed {seed}, mask {fold})"
        )
    train, left_empty = _nonempty(test.without_held_out())
    changes[REMOVED] = int(test.held_out_mask.sum())
    changes |= {LEFT_EMPTY: left_empty} if left_empty else {}
    scaler, units, first = _scalers(train, limits, changes)
    order = f"{first}{hidden} -> trained on the visible cells of the same records -> scaler fitted on these cells only."
    nobody = test.select([])
    return Task(train, nobody, test, scaler, TRANSDUCTIVE, fold, mechanism, rate, changes, order, seed, units)


PROTOCOLS: dict[str, Callable[..., Task]] = {"clean": clean, "csdi": csdi, TRANSDUCTIVE: transductive}


def own_mechanism(path: str) -> Callable[..., np.ndarray]:
    """A mechanism of another package, ``(windows, *, rate, seed, features=None) -> (N, K, L) bool``: the cells to hide.

    ``rate`` is the share of observed cells to hide; ``features`` names those that may lose cells, None = all.

    Raises:
        ConfigError: nothing is there, or, when it is called, it does not take these arguments.
        DataError: when it is called: it gives something else, or marks a cell that holds no value.
    """
    mechanism, expected = plugin("mechanisms", path), "(windows, *, rate, seed, features=None) -> (N, K, L) bool"

    def hide(windows: Windows, **settings: Any) -> np.ndarray:
        try:
            hidden: Any = mechanism(windows, **settings)
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise  # of its own code
            raise ConfigError(f"mechanism {path!r}: expected a function {expected}; called so: {error}.") from error
        came = f"{hidden.dtype} {hidden.shape}" if isinstance(hidden, np.ndarray) else type(hidden).__name__
        if came != f"bool {windows.values.shape}":
            raise DataError(f"mechanism {path!r}: expected {expected}, here bool {windows.values.shape}; came {came}.")
        if n := int((hidden & ~windows.observed).sum()):
            raise DataError(f"mechanism {path!r}: expected a mask within windows.observed; {n} cells hold no value.")
        return hidden

    return hide


_OTHER_CELLS = (
    "To draw other cells instead, in Python: drop these first (`dataclasses.replace(windows, held_out=None)`) and give "
    "a rate."
)


def _is_own(windows: Windows, rate: float | None) -> bool:
    prescribed = bool(windows.held_out_mask.any())
    if rate is not None and prescribed:
        raise ConfigError(
            f"rate: expected None, as the data set itself holds out {int(windows.held_out_mask.sum())} cells; came "
            f"{rate}. Set it to None (--protocol.rate null). {_OTHER_CELLS}"
        )
    if rate is None and not prescribed:
        raise ConfigError(
            "rate: expected a number between 0 and 1, as the data set holds out no cells; came None. Give one "
            "(--protocol.rate 0.1)."
        )
    return prescribed


def _check_mechanism(
    mechanism: str,
    prescribed: bool,
    features: Sequence[str] | None,
    known: Mapping[str, Callable[..., np.ndarray]] = MECHANISMS,
) -> None:
    if prescribed and (mechanism not in ("random", "mcar_exact", PRESCRIBED) or features is not None):
        raise ConfigError(
            f"mechanism {mechanism!r}, features {features}: expected none of these, as rate is None and the data set's "
            f"own held-out cells are scored. Leave them out (--protocol.mechanism random). {_OTHER_CELLS}"
        )
    if not prescribed and mechanism not in known and not is_known("mechanisms", mechanism):
        raise ConfigError(
            f"mechanism: expected one of {', '.join(known)}, or an import path as package.module:function; came "
            f"{mechanism!r}."
        )


def _within(windows: Windows, limits: Mapping[str, Limits] | None) -> Windows:
    """The records without any value outside the limits, and the number of these among their changes."""
    if not limits:
        return windows
    given = limits_of([feature.name for feature in windows.features], limits)
    outside = np.stack([bounds.outside(windows.values[:, k]) for k, bounds in enumerate(given)], axis=1)
    return replace(
        windows,
        values=np.where(outside, np.nan, windows.values),
        held_out=None if windows.held_out is None else windows.held_out & ~outside,
        changes=dict(windows.changes) | {OUTSIDE: int(outside.sum())},
    )


def _scalers(
    train: Windows, limits: Mapping[str, Limits] | None, changes: dict[str, int]
) -> tuple[Standardizer, Standardizer | None, str]:
    """The scaler with limits, that of the scores, and what stands first in the order; counts features never shown."""
    scaler = Standardizer.fit(train, limits)
    if scaler.never_shown.any():
        changes[NEVER_SHOWN] = int(scaler.never_shown.sum())
    return (
        (scaler, Standardizer.fit(train), "values outside the limits made missing -> ")
        if limits
        else (scaler, None, "")
    )


def _split(windows: Windows, fold: int, draw: Callable[[], Split], seed: int) -> tuple[Split, str]:
    check_fold(fold)
    if windows.split is None:
        return draw(), f"records split (fold {fold} of 5, seed {seed})"
    if fold != 0:
        raise ConfigError(f"fold: expected 0, as the data set prescribes its one split; came {fold}.")
    return prescribed(windows), "records split as the data set prescribes"


def _without_empty(windows: Windows) -> tuple[Windows, dict[str, int]]:
    nonempty, n_empty = _nonempty(windows)
    if not len(nonempty):
        raise DataError(f"records: expected some that hold a value, came {n_empty} without any observation.")
    return nonempty, dict(windows.changes) | ({EMPTY_DROPPED: n_empty} if n_empty else {})


def _nonempty(windows: Windows) -> tuple[Windows, int]:
    filled = np.flatnonzero(windows.observed.any(axis=(1, 2)))
    return windows.select(filled), len(windows) - len(filled)
