"""Missingness mechanisms of evaluation: observed cells to hide and score, drawn for each record from its own seed.

Every maker takes windows and gives back a new (N, K, L) bool mask within ``windows.observed``; the windows stay as they
are. A record's held-out cells depend on ``seed`` and its id only, not on the other records or the order; those of "mar"
and "mnar" on its values and the scaler, too. Those of ``tasks.table_missingness`` are drawn over a whole table.

"Completely at random" has two meanings in the field, and both are here: ``random_cells`` hides an exact share of each
record's *observed* cells (what CSDI does); ``independent_cells`` hides each observed cell with the given chance, so the
count varies. Both are drawn by pygrinder (its ``rdo`` and ``mcar``). Its block mechanisms are not used: runs overlap
(0.44 reached for 0.6 asked) or spill over into the next record; ``blocks`` reaches the asked share exactly.

In ``mar`` and ``mnar`` the chance that a cell is hidden is ``sigmoid(strength * score + b)``. In ``mar`` its score
comes from values of other features, which never lose a cell themselves; in ``mnar`` it is the cell's own value. Per
record b is such that the chances add up to int(rate * n), and that many cells are drawn with exactly these chances
(systematic sampling of the cells in random order). Own code: pygrinder's makers have neither a seed nor an exact share,
and are not for natural gaps: ``mnar_x`` takes NaN for a large value (20 % missing went in, all came out missing).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Real
from types import ModuleType

import numpy as np
import torch

from tsimpute.core.gaps import interpolated
from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Windows
from tsimpute.errors import ConfigError, DataError, MissingExtraError
from tsimpute.scaling.standardizer import Standardizer


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
    draw = lambda cells, seed: _hidden_by(lambda x: pygrinder.mcar(x, rate), cells, seed)
    with global_generators_kept():
        return each_record(windows, features, seed, draw)


def blocks(
    windows: Windows, *, rate: float, seed: int, features: Sequence[str] | None = None, length: int | None = None
) -> np.ndarray:
    """(N, K, L) bool: runs of consecutive steps of one feature, until int(rate * n) of a record's n cells are hidden.

    Runs are drawn evenly over features and positions, one after another. They may join or overlap, begin before a
    record or end after it, and hold steps where nothing was observed; the last one is cut short where the asked count
    is reached. Cells at a record's ends are hidden nearly as often as others (within 15 % over 24 steps at rate 0.1).

    Args:
        windows, rate, seed, features: as for ``random_cells``.
        length: steps of a run, from 1 to L; None = a quarter of L. Any other is a ConfigError; see ``random_cells``.
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

    Raises: see ``random_cells``.
    """
    if not (isinstance(rate, Real) and 0 < rate <= 1):
        raise ConfigError(f"rate of dead sensors: expected a number above 0 and up to 1, came {rate!r}.")
    dead = lambda cells, seed: cells & (np.random.default_rng(seed).random(len(cells)) < rate)[:, None]
    return each_record(windows, features, seed, dead)


def mar(
    windows: Windows,
    *,
    rate: float,
    seed: int,
    features: Sequence[str] | None = None,
    strength: float = 2.0,
    scaler: Standardizer | None = None,
) -> np.ndarray:
    """(N, K, L) bool: of each record's n cells that may be hidden, exactly int(rate * n), by values of other features.

    A cell's score is a weighted sum of the drivers' standardised values at its step, of variance 1 if these were
    independent; the weights of each feature are drawn once from the seed. Where a driver was not observed its value is
    interpolated in time between the record's own, and 0, the mean, in a record that has none.

    Args:
        windows: records without held-out cells.
        rate: share of the observed cells of features that are no drivers, in (0, 1).
        seed: determines the weights and, with a record's id, its held-out cells.
        features: names of the features that may lose cells; all others, the drivers, decide. None = see ``mar_roles``.
        strength: 0 = evenly drawn; at 2, a score of one deviation multiplies the odds by 7.
        scaler: to standardise with; None = fitted on the given records.

    Raises:
        ConfigError: rate or strength out of range, an unknown feature, or no feature left to decide or to hide.
        DataError: cells are held out already, or the scaler is of other features.
    """
    _check_settings(rate, strength)
    drivers, features = mar_roles(windows, seed, features)
    of_drivers = _standardised(windows, scaler)[:, named_features(windows, drivers)]
    known = interpolated(of_drivers, windows.times, np.zeros(len(drivers)))
    drawn = np.array([
        [np.random.default_rng(derive_seed(int(seed), "mar weight", f.name, d)).normal() for d in drivers]
        for f in windows.features
    ])  # fmt: skip
    weights = np.stack([of_feature / np.linalg.norm(of_feature) for of_feature in drawn])
    scores = strength * np.einsum("kd,ndl->nkl", weights, known)
    return each_record(windows, features, seed, _by_chance(rate), scores)


def mar_roles(windows: Windows, seed: int, features: Sequence[str] | None = None) -> tuple[list[str], list[str]]:
    """Names of the features that decide in ``mar``, and of those that may lose cells, in the windows' order.

    Those that may lose cells are the ``features``, and all others decide. Where None are named, every fourth feature
    decides, one at least, drawn from the seed.

    Raises:
        ConfigError: an unknown feature, or a role without a feature.
    """
    may_lose = named_features(windows, features)
    if features is None:
        order = [derive_seed(int(seed), "mar driver", f.name) for f in windows.features]
        may_lose[np.argsort(order, kind="stable")[: max(len(order) // 4, 1)]] = False
    drivers = [f.name for f, loses in zip(windows.features, may_lose, strict=True) if not loses]
    lose_cells = [f.name for f, loses in zip(windows.features, may_lose, strict=True) if loses]
    if not drivers or not lose_cells:
        raise ConfigError(
            "mar: expected at least one feature that decides and another that may lose cells, none with both roles; "
            f"came {', '.join(drivers) or 'none'} to decide, {', '.join(lose_cells) or 'none'} to lose cells."
        )
    return drivers, lose_cells


def mnar(
    windows: Windows,
    *,
    rate: float,
    seed: int,
    features: Sequence[str] | None = None,
    strength: float = 2.0,
    scaler: Standardizer | None = None,
) -> np.ndarray:
    """(N, K, L) bool: of each record's n observed cells, exactly int(rate * n), high values more often than low ones.

    Args:
        windows, rate, features: as for ``random_cells``.
        seed: with a record's id and values it determines that record's held-out cells.
        strength: 0 = evenly drawn; at 2, one standard deviation multiplies the odds by 7; below 0 low values go first.
        scaler: see ``mar``, which raises the same errors.
    """
    _check_settings(rate, strength)
    return each_record(windows, features, seed, _by_chance(rate), strength * _standardised(windows, scaler))


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


def each_record(
    windows: Windows,
    features: Sequence[str] | None,
    seed: int,
    draw: Callable[..., np.ndarray],
    *of_records: np.ndarray,
) -> np.ndarray:
    """(N, K, L) bool: what ``draw(cells, seed, *x)`` hides of the ``features`` of each record, one after another.

    Its arguments are the record's cells (K, L), its seed, and its part of each of ``of_records``, which have N rows.
    """
    check_none_held_out(windows)
    # Contiguous, as makers write into a flat view of what is like it.
    cells = np.ascontiguousarray(windows.observed & named_features(windows, features)[:, None])
    hidden = np.zeros(cells.shape, bool)
    for n, record_id in enumerate(windows.record_ids):
        hidden[n] = draw(cells[n], derive_seed(int(seed), record_id), *(x[n] for x in of_records))
    return hidden


def check_none_held_out(windows: Windows) -> None:
    """Refuses records with held-out cells."""
    if windows.held_out_mask.any():
        raise DataError(
            f"held_out: expected records without held-out cells, came {int(windows.held_out_mask.sum())}: holes would "
            "be punched twice. Drop the old ones (`dataclasses.replace(windows, held_out=None)`), or make them missing "
            "for good (`windows.without_held_out()`) to hide part of what is left."
        )


def named_features(windows: Windows, features: Sequence[str] | None) -> np.ndarray:
    """(K,) bool: the features of those names; all where None. An unknown name, or an empty list, is refused."""
    names = [f.name for f in windows.features]
    if features is None:
        return np.ones(len(names), bool)
    unknown = [features] if isinstance(features, str) else [f for f in features if f not in names]
    if unknown or not len(features):
        raise ConfigError(
            f"features: expected a list of names out of {', '.join(names)}; "
            f"came {', '.join(map(repr, unknown)) or 'an empty list'}."
        )
    return np.array([name in features for name in names])


def check_rate(rate: float | None) -> None:
    """Refuses a rate that is not a number between 0 and 1."""
    if not (isinstance(rate, Real) and 0 < rate < 1):
        raise ConfigError(f"rate of cells to hide: expected a number between 0 and 1, both excluded; came {rate!r}.")


def share(n: int, rate: float) -> int:
    """int(rate * n) of the rate as it is written: 0.29 * 100 is 28.999999999999996 in floating point."""
    return int(n * rate + 1e-9)


def chances(scores: np.ndarray, count: float) -> np.ndarray:
    """(M,) ``sigmoid(scores + b)`` with b such that they add up to ``count``, above 0 and below M."""
    low = np.log(count / (len(scores) - count)) - scores.max()
    high = low + scores.max() - scores.min()
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _sigmoid(scores + middle).sum() < count else (low, middle)
    return _sigmoid(scores + (low + high) / 2)


def scaler_of(windows: Windows) -> Standardizer:
    """Mean and deviation of all observed cells, held out or not; the same to the bit in any order of records."""
    order = np.argsort(np.array(windows.record_ids), kind="stable")
    return Standardizer.fit_cells(windows.values[order], windows.observed[order])


def _by_chance(rate: float) -> Callable[[np.ndarray, int, np.ndarray], np.ndarray]:
    def draw(cells: np.ndarray, seed: int, scores: np.ndarray) -> np.ndarray:
        rng = np.random.default_rng(seed)
        candidates = rng.permutation(np.flatnonzero(cells))
        count = share(len(candidates), rate)
        hidden = np.zeros_like(cells)
        if count:
            # Laid end to end in random order, the chances fill ``count`` units; a comb of teeth one unit apart, laid at
            # a random place, meets a cell with exactly its chance, and ``count`` cells in all.
            ends = np.cumsum(chances(scores.reshape(-1)[candidates], count))
            ends[-1] = count
            teeth = np.floor(ends + rng.random())
            hidden.reshape(-1)[candidates[np.diff(teeth, prepend=0.0) > 0]] = True
        return hidden

    return draw


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(x / 2))  # without overflow on either side


def _standardised(windows: Windows, scaler: Standardizer | None) -> np.ndarray:
    scaler = scaler_of(windows) if scaler is None else scaler
    return np.where(scaler.never_shown[:, None], 0.0, scaler.transform(windows.values))  # neither high nor low


def _check_settings(rate: float, strength: float) -> None:
    check_rate(rate)
    if not (isinstance(strength, Real) and np.isfinite(strength)):
        raise ConfigError(f"strength: expected a finite number, came {strength!r}.")


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
