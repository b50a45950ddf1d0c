"""Missingness mechanisms of a table: cells are drawn over all rows at once, and not record by record.

A row is one step of a record; rows are taken by ascending record id, whatever their order. Own code: pygrinder's makers
have neither a seed nor an exact count. ``mar_logistic`` and ``ampute`` are missing at random in the strict sense: the
features that decide never lose a cell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tsimpute.core.windows import Windows
from tsimpute.errors import ConfigError
from tsimpute.tasks.missingness import chances, check_none_held_out, check_rate, named_features, scaler_of, share


def mcar_exact(windows: Windows, *, rate: float, seed: int, features: Sequence[str] | None = None) -> np.ndarray:
    """(N, K, L) bool: of all n observed cells together exactly int(rate * n), evenly drawn; a row may lose all.

    Args:
        windows: records without held-out cells.
        rate: share of the observed cells, in (0, 1).
        seed: of the draw.
        features: names of the features to hide cells of, with ``rate`` a share of their cells; None = all.

    Raises:
        ConfigError: rate out of range, or an unknown feature.
        DataError: cells are held out already.
    """
    check_rate(rate)

    def draw(cells: np.ndarray, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        candidates, hidden = np.flatnonzero(cells), np.zeros(cells.shape, bool)
        hidden.reshape(-1)[rng.choice(candidates, share(len(candidates), rate), replace=False)] = True
        return hidden

    return _over_rows(windows, features, seed, draw)


def mar_logistic(windows: Windows, *, rate: float, seed: int, features: Sequence[str] | None = None) -> np.ndarray:
    """(N, K, L) bool: each cell hidden with the chance that a logistic model of never hidden features gives.

    As in Muzellec et al. (2020), Missing Data Imputation using Optimal Transport, appendix on missingness: weights of a
    feature are N(0, 1), divided by the standard deviation of the weighted sum of the standardised deciding features;
    its intercept makes the mean chance ``rate``. ``rate`` is a share of the features that may lose cells: over a whole
    table it is ``rate * (1 - n_deciding / K)``, 18.75 % for rate 0.25 at K = 4. Where a deciding cell was not observed
    its feature's mean stands in.

    Args:
        windows, seed: as for ``mcar_exact``.
        rate: mean chance of a cell that may be hidden, in (0, 1).
        features: names of the features that may lose cells, all others decide; None = max(int(0.3 * K), 1) drawn
            features decide.

    Raises:
        ConfigError: rate out of range, an unknown feature, or no feature left to decide or to hide.
        DataError: cells are held out already.
    """
    check_rate(rate)

    def draw(cells: np.ndarray, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        may_lose = _may_lose(windows, features, max(share(cells.shape[1], 0.3), 1), "mar_logistic", rng)
        scores = values[:, ~may_lose] @ rng.normal(size=(int((~may_lose).sum()), int(may_lose.sum())))
        chance = np.zeros(cells.shape)
        chance[:, may_lose] = np.stack([chances(_scaled(s), rate * len(s)) for s in scores.T], axis=1)
        return cells & (rng.random(cells.shape) < chance)

    return _over_rows(windows, features, seed, draw)


def ampute(windows: Windows, *, rate: float, seed: int, features: Sequence[str] | None = None) -> np.ndarray:
    """(N, K, L) bool: half of the features is hidden together, in rows with a high sum of the other features.

    As in Schouten, Lugtig and Vink (2018), Generating missing values for simulation purposes, with the defaults of
    their Python package: one pattern of K // 2 drawn features (one at least). The other features are standardised and
    added up; the sum is standardised and goes through a logistic function whose shift gives the share of rows.

    Args:
        windows, seed: as for ``mcar_exact``.
        rate: share of all cells, in (0, 1); the share of rows is ``rate * K / n_hidden`` and must be below 1.
        features: names of the features that are hidden together, all others decide; None = see above.

    Raises: see ``mar_logistic``.
    """
    check_rate(rate)

    def draw(cells: np.ndarray, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        n_features = cells.shape[1]
        may_lose = _may_lose(windows, features, n_features - max(n_features // 2, 1), "ampute", rng)
        of_rows = rate * n_features / int(may_lose.sum())
        if of_rows >= 1:
            raise ConfigError(
                f"ampute: expected a rate below {may_lose.mean():g}, as {int(may_lose.sum())} of {n_features} features "
                f"are hidden together; came {rate:g}."
            )
        chance = chances(_scaled(values[:, ~may_lose].sum(1)), of_rows * len(cells))
        return cells & may_lose & (rng.random(len(cells)) < chance)[:, None]

    return _over_rows(windows, features, seed, draw)


TABLE_MECHANISMS: dict[str, Callable[..., np.ndarray]] = {
    "mcar_exact": mcar_exact,
    "mar_logistic": mar_logistic,
    "ampute": ampute,
}


def _over_rows(
    windows: Windows,
    features: Sequence[str] | None,
    seed: int,
    draw: Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray],
) -> np.ndarray:
    """(N, K, L) bool: what ``draw(cells, values, rng)`` hides of the (N * L, K) rows.

    ``cells`` may be hidden; ``values`` are standardised, 0 where nothing was observed.
    """
    check_none_held_out(windows)
    cells = windows.observed & named_features(windows, features)[:, None]
    values = np.nan_to_num(scaler_of(windows).transform(windows.values))
    order = np.argsort(np.array(windows.record_ids), kind="stable")
    rows = lambda x: x[order].swapaxes(1, 2).reshape(-1, windows.n_features)
    hidden = np.empty(cells.shape, bool)
    drawn = draw(rows(cells), rows(values), np.random.default_rng(seed))
    hidden[order] = drawn.reshape(len(windows), windows.n_steps, -1).swapaxes(1, 2)
    return hidden


def _may_lose(
    windows: Windows, features: Sequence[str] | None, n_deciding: int, name: str, rng: np.random.Generator
) -> np.ndarray:
    """(K,) bool: the features that may lose cells; all others decide."""
    may_lose = named_features(windows, features)
    if features is None:
        may_lose[rng.permutation(len(may_lose))[:n_deciding]] = False
    if may_lose.all() or not may_lose.any():
        raise ConfigError(
            f"{name}: expected at least one feature that decides and another that may lose cells; came "
            f"{int((~may_lose).sum())} to decide, {int(may_lose.sum())} to lose cells. Completely at random needs one "
            "feature only: mcar_exact."
        )
    return may_lose


def _scaled(scores: np.ndarray) -> np.ndarray:
    """Mean 0 and variance 1; all 0 where the deciding features do not vary."""
    deviation = scores.std()
    return (scores - scores.mean()) / deviation if deviation > 1e-9 else np.zeros_like(scores)
