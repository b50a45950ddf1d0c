"""Missingness mechanisms of evaluation: observed cells to hide and score, drawn for each record from its own seed.

Every maker takes windows and gives back a new (N, K, L) bool mask within ``windows.observed``; the windows stay as they
are. A record's held-out cells depend on ``seed`` and its id only, not on the other records or the order.
Those of ``tasks.value_missingness`` depend on values, too: "mar" and "mnar".

"Completely at random" has two meanings in the field, and both are here: ``random_cells`` hides an exact share of each
record's *observed* cells (what CSDI does); ``independent_cells`` hides each observed cell with the given chance, so the
count varies. Both are drawn by pygrinder (its ``rdo`` and ``mcar``). Its block mechanisms are not used: runs overlap
(0.44 reached for 0.6 asked) or spill over into the next record; ``blocks`` reaches the asked share exactly.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Real
from types import ModuleType

import numpy as np
import torch

from tsimpute.core.windows import Windows
from tsimpute.errors import ConfigError, DataError, MissingExtraError
from tsimpute.tasks.mechanisms import check_rate, each_record, named_features, share
from tsimpute.tasks.value_missingness import mar, mnar


def random_cells(windows: Windows, *, rate: float, seed: int, features: Sequence[str] | None = None) -> np.ndarray:
    """(N, K, L) bool: of each record's n observed cells, exactly int(rate * n), evenly drawn.

    Rounding down is CSDI's rule; a record with fewer than 1 / rate observed cells loses none.

    Args:
        windows: records without held-out cells.
        rate: share of the observed cells, in (0, 1).
        seed: with a record's id it determines that record's held-out cells.
        features: names of the features to hide cells of, with ``rate`` a share of their cells; None = all.

    Raises:
        ConfigError: rate out of range, or an unknown feature.
        DataError: cells are held out already.
        MissingExtraError: pygrinder cannot be imported.
    """
    check_rate(rate)
    pygrinder = _pygrinder()

    def draw(cells: np.ndarray, seed: int) -> np.ndarray:
        n, count = int(cells.sum()), share(int(cells.sum()), rate)
        if not count:
            return np.zeros_like(cells)
        hidden = _hidden_by(lambda x: pygrinder.rdo(x, count / n), cells, seed)
        if hidden.sum() != count:
            raise DataError(
                f"pygrinder.rdo: expected {count} of {n} cells hidden, came {hidden.sum()}; use pygrinder 0.7."
            )
        return hidden

    with global_generators_kept():
        return each_record(windows, features, seed, draw)


def independent_cells(windows: Windows, *, rate: float, seed: int, features: Sequence[str] | None = None) -> np.ndarray:
    """(N, K, L) bool: each observed cell with chance ``rate``, independently; the reached share varies around it.

    Arguments and errors as for ``random_cells``.
    """
    check_rate(rate)
    pygrinder = _pygrinder()
    with global_generators_kept():
        return each_record(
            windows, features, seed, lambda cells, seed: _hidden_by(lambda x: pygrinder.mcar(x, rate), cells, seed)
        )


def blocks(
    windows: Windows, *, rate: float, seed: int, features: Sequence[str] | None = None, length: int | None = None
) -> np.ndarray:
    """(N, K, L) bool: runs of consecutive steps of one feature, until int(rate * n) of a record's n cells are hidden.

    Runs are drawn evenly over features and positions, one after another. They may join or overlap, begin before a
    record or end after it, and hold steps where nothing was observed; the last one is cut short where the asked count
    is reached. Cells at a record's ends are hidden nearly as often as others (within 15 % over 24 steps at rate 0.1).

    Args:
        windows, rate, seed, features: as for ``random_cells``.
        length: steps of a run, from 1 to L; None = a quarter of L.

    Raises:
        ConfigError: rate or length out of range, or an unknown feature.
        DataError: cells are held out already.
    """
    check_rate(rate)
    length = max(windows.n_steps // 4, 1) if length is None else length
    if not 1 <= length <= windows.n_steps:
        raise ConfigError(f"block length: expected 1 to {windows.n_steps} steps, that of a record; came {length}.")

    def draw(cells: np.ndarray, seed: int) -> np.ndarray:
        n_features, n_steps = cells.shape
        # All possible runs get a place in a random queue; a cell is hidden with the first run that covers it.
        rng = np.random.default_rng(seed)
        queue = rng.permutation(n_features * (n_steps + length - 1)).reshape(n_features, -1)
        turn = np.lib.stride_tricks.sliding_window_view(queue, length, axis=1).min(-1)
        # The last run is cut short at its end or, as often, at its beginning, which favours neither end of a record.
        candidates = np.flatnonzero(cells)[:: rng.choice((1, -1))]
        by_turn = candidates[np.argsort(turn.reshape(-1)[candidates], kind="stable")]
        hidden = np.zeros_like(cells)
        hidden.reshape(-1)[by_turn[: share(len(candidates), rate)]] = True
        return hidden

    return each_record(windows, features, seed, draw)


def dead_sensor(windows: Windows, *, rate: float, seed: int, features: Sequence[str] | None = None) -> np.ndarray:
    """(N, K, L) bool: all cells of a feature in a record, for each named feature with chance ``rate`` per record.

    Whether a feature is dead in one record says nothing about other records or features; with rate 1 it is dead in all.

    Args:
        windows, seed: as for ``random_cells``.
        rate: chance that a feature of a record is dead, in (0, 1].
        features: names of the features that may be dead; None = any.

    Raises:
        ConfigError: rate out of range, or an unknown feature.
        DataError: cells are held out already.
    """
    if not (isinstance(rate, Real) and 0 < rate <= 1):
        raise ConfigError(f"rate of dead sensors: expected a number above 0 and up to 1, came {rate!r}.")
    return each_record(
        windows,
        features,
        seed,
        lambda cells, seed: cells & (np.random.default_rng(seed).random(len(cells)) < rate)[:, None],
    )


MECHANISMS: dict[str, Callable[..., np.ndarray]] = {
    "random": random_cells,
    "mcar": independent_cells,
    "blocks": blocks,
    "dead_sensor": dead_sensor,
    "mar": mar,
    "mnar": mnar,
}

BY_VALUE = ("mar", "mnar")
"""Mechanisms that depend on values, and take the option ``scaler`` to standardise them with."""


def reached_rate(windows: Windows, held_out: np.ndarray, features: Sequence[str] | None = None) -> float:
    """Share of the observed cells (of the named features, None = all) that are held out; NaN where none is observed.

    Raises:
        DataError: the mask has another shape or marks cells that hold no value.
        ConfigError: an unknown feature.
    """
    if held_out.shape != windows.values.shape or held_out.dtype != bool or (held_out & ~windows.observed).any():
        raise DataError(
            f"held_out: expected a bool mask of shape {windows.values.shape} within the observed cells; "
            f"came {held_out.dtype} {held_out.shape}."
        )
    named = named_features(windows, features)
    n_observed = int(windows.observed[:, named].sum())
    return int(held_out[:, named].sum()) / n_observed if n_observed else float("nan")


def _hidden_by(grind: Callable[[np.ndarray], np.ndarray], cells: np.ndarray, seed: int) -> np.ndarray:
    np.random.seed([seed & 0xFFFFFFFF, seed >> 32])  # noqa: NPY002 - pygrinder draws from the global generator
    return cells & np.isnan(grind(np.where(cells, 0.0, np.nan)))


@contextmanager
def global_generators_kept() -> Iterator[None]:
    """Puts numpy's and torch's global generators back as they were; pygrinder has no seed argument."""
    state = np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        np.random.set_state(state)  # noqa: NPY002


def _pygrinder() -> ModuleType:
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # its first import announces the configuration file that it writes
    try:
        import pygrinder
    except (ImportError, OSError) as error:
        raise MissingExtraError(
            f"pygrinder: expected an installed package that can write ~/.pypots on its first import; came {error}. "
            "Install it, or make the home folder writable."
        ) from error
    finally:
        logging.disable(disabled)
    return pygrinder
