"""The leakage test: hidden values are changed, and nothing that is learned or sampled may change.

A method is fitted twice on a few records, each time with other values in the held-out cells of training, validation and
test; then both fill the same test records. The true values are never among them. A third fit, on the records of the
first, shows what changes by itself: a method that does not repeat itself cannot be judged, and the result states it. It
also states where the samples of a record depend on the other records. The test does not see what a method reads from
elsewhere, such as the files of the data set.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tsimpute.core.windows import Windows
from tsimpute.errors import DataError
from tsimpute.imputers.base import Imputer
from tsimpute.tasks.task import Task

VALUES = (1e9, -12345.678, None)
"""What hidden cells are set to; None = the largest value of their feature, which no filter of outliers takes away."""

NO_LEAK = "none"
_RECORDS = {"train": 24, "valid": 8, "test": 4}


def leakage_of(make: Callable[[], Imputer], task: Task, seed: int = 0, n_samples: int = 2) -> str:
    """The result of the leakage test: ``NO_LEAK`` (and remarks), what moved, or that it cannot be decided.

    Args:
        make: gives a new imputer; it is fitted on a few records, so a short training is enough.
        task: some records of each part are taken. Training records without held-out cells get some, so that a method
            that looks at ``values`` where ``held_out`` is True is detected.

    Raises:
        DataError: ``save`` of the imputer writes no file at its path.
    """
    parts = {name: _few(getattr(task, name), number) for name, number in _RECORDS.items()}
    for name in ("train", "valid"):
        if not parts[name].held_out_mask.any():
            chosen = np.random.default_rng(seed).random(parts[name].values.shape) < 0.1
            parts[name] = replace(parts[name], held_out=parts[name].observed & chosen)
    parts = {name: _without_truth(part, seed) for name, part in parts.items()}
    first = _fit_and_fill(make, parts, seed, n_samples)
    turned = _fill(first.imputer, parts["test"].select(slice(None, None, -1)), seed, n_samples)[:, ::-1]
    again = _fit_and_fill(make, parts, seed, n_samples)
    learns_the_same, moved = first.state == again.state, []
    for value in VALUES:
        spoilt = {name: _spoilt(part, value) for name, part in parts.items()}
        changed = _fit_and_fill(make, spoilt, seed, n_samples)
        moved += ["what is learnt"] if learns_the_same and changed.state != first.state else []
        moved += ["draws"] if _moved(changed.draws, first.draws, again.draws) else []
    repeats = _equal(first.draws, again.draws)
    remarks = [] if learns_the_same else ["what is learnt is not the same twice"]
    remarks += ["draws depend on the other records"] if repeats and not _equal(turned, first.draws) else []
    return _result_text(moved, repeats, remarks)


def leakage_of_filling(imputer: Imputer, test: Windows, seed: int = 0) -> str:
    """The same for an imputer that was fitted elsewhere: only its draws are compared."""
    few = _without_truth(_few(test, _RECORDS["test"]), seed)
    draws, again = (_fill(imputer, few, seed, 2) for _ in range(2))
    moved = [_moved(_fill(imputer, _spoilt(few, value), seed, 2), draws, again) for value in VALUES]
    return _result_text(["draws"] if any(moved) else [], _equal(draws, again), ["filling only"])


def _result_text(moved: Sequence[str], repeats: bool, remarks: Sequence[str]) -> str:
    what = f" ({'; '.join(remarks)})" if remarks else ""
    if moved:
        return f"moved: {', '.join(sorted(set(moved)))}{what}"
    return f"{NO_LEAK}{what}" if repeats else f"cannot be told: draws are not the same twice{what}"


def scaler_moves(task: Task, make_task: Callable[[Windows], Task], windows: Windows) -> bool:
    """Whether the protocol's own scaler has seen held-out values of validation and test records.

    Args:
        make_task: the protocol, from records to a task.
        windows: the records that ``task`` was made of. Their held-out cells are set to their feature's largest value,
            which no limits take away, and the task is made anew.
    """
    values = windows.values.copy()
    # Of the task's records: what lies outside limits is not among them.
    highest = np.max([_highest(part) for part in (task.train, task.valid, task.test) if len(part)], axis=0)
    at = {record_id: n for n, record_id in enumerate(windows.record_ids)}
    for part in (task.valid, task.test):
        for record_id, scored in zip(part.record_ids, part.held_out_mask, strict=True):
            n = at[record_id]
            values[n] = np.where(scored & ~np.isnan(values[n]), highest[:, None], values[n])
    return make_task(replace(windows, values=values)).scaler.to_dict() != task.scaler.to_dict()


@dataclass(frozen=True, eq=False)
class _Answer:
    """A fitted imputer, what it has learnt, as it is saved, and its draws."""

    imputer: Imputer
    state: bytes
    draws: np.ndarray


def _fit_and_fill(make: Callable[[], Imputer], parts: dict[str, Windows], seed: int, n_samples: int) -> _Answer:
    imputer = make()
    # Copies: what a method does to its records must not reach the next fit.
    imputer.fit(*(parts[name].select(slice(None)) for name in ("train", "valid") if len(parts[name])))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "imputer"
        imputer.save(path)
        if not path.is_file():
            raise DataError("save(path) wrote no file at path; expected one file there, of all that fit has learnt.")
        state = path.read_bytes()
    return _Answer(imputer, state, _fill(imputer, parts["test"], seed, n_samples))


def _fill(imputer: Imputer, windows: Windows, seed: int, n_samples: int) -> np.ndarray:
    return np.asarray(imputer.impute(windows.select(slice(None)), n_samples, seed).values)


def _few(windows: Windows, number: int) -> Windows:
    """The first records with something held out; where none has, the first ones."""
    with_holes = np.flatnonzero(windows.held_out_mask.any((1, 2)))
    return windows.select((with_holes if len(with_holes) else np.arange(len(windows)))[:number])


def _without_truth(windows: Windows, seed: int) -> Windows:
    """Held-out cells hold values that other cells of their feature show, or 0 where none does."""
    values, rng = windows.values.copy(), np.random.default_rng(seed)
    for k in range(values.shape[1]):
        hidden, shown = windows.held_out_mask[:, k], windows.values[:, k][windows.visible[:, k]]
        values[:, k][hidden] = rng.choice(shown, hidden.sum()) if len(shown) else 0.0
    return replace(windows, values=values)


def _spoilt(windows: Windows, value: float | None) -> Windows:
    other = _highest(windows)[:, None] if value is None else value
    return replace(windows, values=np.where(windows.held_out_mask, other, windows.values).astype(windows.values.dtype))


def _highest(windows: Windows) -> np.ndarray:
    """(K,) the largest value of each feature; 0 where there is none."""
    highest = np.where(np.isnan(windows.values), -np.inf, windows.values).max((0, 2), initial=-np.inf)
    return np.where(np.isfinite(highest), highest, 0.0)


def _moved(changed: np.ndarray, draws: np.ndarray, again: np.ndarray) -> bool:
    """Whether draws are others than before; where they never repeat themselves, whether they are much further off."""
    if _equal(draws, again):
        return not _equal(changed, draws)
    return _distance(changed, draws) > 10 * _distance(again, draws)


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(a, b, equal_nan=True)


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """Between means over draws: how much the answer moves where single draws do anyway."""
    with np.errstate(all="ignore"):
        return float(np.nanmax(np.abs(a.mean(0) - b.mean(0)), initial=0.0))
