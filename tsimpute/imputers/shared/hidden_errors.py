"""What a Gaussian process leaves of cells that are hidden for it, and networks that learn it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tsimpute.batches.masking import make_policy
from tsimpute.config.registry import is_known
from tsimpute.config.settings import MASK_POLICIES
from tsimpute.core.seeding import derive_seed
from tsimpute.core.shapes import joined
from tsimpute.core.windows import Windows
from tsimpute.errors import ConfigError
from tsimpute.gaussian.margins import Cells, Margins, Posterior, fit_margins, others_of
from tsimpute.gaussian.model import Regularisation
from tsimpute.gaussian.process import FARTHEST, GaussianBase, GaussianModel, Scores
from tsimpute.imputers.shared.cross_fitting import cross_fitted, folds_of
from tsimpute.scaling.standardizer import Standardizer

_CELLS, _MOST_CELLS, _FEWEST = 200, 1_000_000, 1_000
"""Hidden cells that networks learn from: of a mask and of all masks at most, and below which there are no networks."""
_LEAST_WIDTH = 1e-6
_MOST_MASKS = 8
"""Of one record, on average."""


@dataclass(frozen=True)
class Networks:
    """How the networks that correct a process are trained.

    Attributes:
        mask_policy: how cells are hidden, see ``batches.masking.make_policy``; None = "mix" where the data say which
            records lend their gaps to others, else "random".
        n_masks: spread evenly over the training records; at most 8 times as many as records. Networks learn
            from at most 200 hidden cells of each and about a million of all (100 of each of 10,000); these take 1.2 GB.
        n_folds: number of runs of consecutive records, and of networks.
        n_steps: of training of each network.

    Raises:
        ConfigError: a number is no integer or too small, or the policy is unknown.
    """

    mask_policy: str | None = None
    n_masks: int = 10_000
    n_folds: int = 5
    n_steps: int = 1_600

    def __post_init__(self) -> None:
        for name, least in (("n_masks", 1), ("n_folds", 2), ("n_steps", 1)):
            number = getattr(self, name)
            if not isinstance(number, int) or isinstance(number, bool) or number < least:
                raise ConfigError(f"networks.{name}: expected an integer of at least {least}, came {number!r}.")
        policy = self.mask_policy
        known = isinstance(policy, str) and (policy in MASK_POLICIES or is_known("mask_policies", policy))
        if policy is not None and not known:
            raise ConfigError(
                f"networks.mask_policy: expected one of {', '.join(MASK_POLICIES)}, or None; came {policy!r}."
            )


def learn_margins(
    train: Windows, scaler: Standardizer, model: GaussianModel, settings: Regularisation, networks: Networks,
    seed: int, progress: Callable[[str, int, int], None],
) -> Margins | None:  # fmt: skip
    """The networks; None, with a warning, where there are too few records or cells, or where they predict no better.

    A process whose covariances are learnt from the other runs of records fills hidden cells of each run, so that its
    errors there are those that it makes in records which it does not know. Given features are always shown.

    Args:
        model, settings: the process fitted to ``train``, and what regularised it.
        progress: called with "posteriors" or "networks", the work done and all of it.
    """
    targets = np.array([not feature.given for feature in train.features])
    train = train.select(np.flatnonzero(train.visible[:, targets].any((1, 2))))
    n_folds = min(networks.n_folds, len(train))
    if n_folds < 2:
        return _without(f"expected at least 2 training records with values, came {len(train)}")
    name = networks.mask_policy or ("random" if train.pattern_donor is None else "mix")
    policy, bases = make_policy(name, train), cross_fitted(train, scaler, model, n_folds, seed, settings)
    scores, others, visible = Scores(scaler, model), others_of(model.covariance[0]), train.visible
    fold_of = folds_of(len(train), n_folds)
    n_masks = min(networks.n_masks, _MOST_MASKS * len(train))
    n_cells = max(1, min(_CELLS, _MOST_CELLS // n_masks))
    record = np.arange(n_masks) * len(train) // n_masks
    number_of_record = np.arange(n_masks) - np.searchsorted(record, record)

    def of_masks() -> Iterator[tuple[Cells, np.ndarray, np.ndarray, np.ndarray]]:
        for done, (n, number) in enumerate(zip(record.tolist(), number_of_record.tolist(), strict=True), 1):
            rng = np.random.default_rng(derive_seed(seed, "hidden", train.record_ids[n], str(number)))
            shown = visible[n].copy()
            shown[targets] = policy(shown[targets], rng)
            learnt_from = _hidden_cells(train.select([n]), shown, scores, bases(n), others, n_cells, rng)
            yield *learnt_from, np.full(len(learnt_from[1]), fold_of[n])
            progress("posteriors", done, n_masks)

    cells, errors, weight, fold = _joined(of_masks())
    groups, group = np.unique(fold, return_inverse=True)
    if len(errors) < _FEWEST or len(groups) < 2:
        return _without(f"expected at least {_FEWEST:,} hidden cells in 2 folds, came {len(errors):,} in {len(groups)}")
    margins = fit_margins(
        cells, errors, weight, group, train.n_features, networks.n_steps, derive_seed(seed, "margins"),
        lambda done, total: progress("networks", done, total),
    )  # fmt: skip
    return margins or _without("records that they had not learnt from were predicted no better with them")


def _joined(of_masks: Iterable[tuple[Cells, *tuple[np.ndarray, ...]]]) -> tuple[Cells, *tuple[np.ndarray, ...]]:
    """All cells together; those of single masks are in memory here alone."""
    cells, *numbers = zip(*of_masks, strict=True)
    return joined(cells), *(np.concatenate(number) for number in numbers)


def _without(reason: str) -> None:
    warnings.warn(f"networks: {reason}. The Gaussian process is used alone.", stacklevel=4)


def _hidden_cells(
    record: Windows,
    shown: np.ndarray,
    scores: Scores,
    base: GaussianBase,
    others: np.ndarray,
    n_cells: int,
    rng: np.random.Generator,
) -> tuple[Cells, np.ndarray, np.ndarray]:
    """Some of the visible cells that are not ``shown``, the process's errors there, in its spreads, and their weights.

    A weight is proportional to the root of the posterior spread in standardised values. Were it the spread itself, few
    cells with large values would rule; were all equal, these would not count enough.
    """
    times, model, shown = record.times.astype(np.float64), scores.model, shown[None]
    season = model.seasons.at(times[0]) / model.scale[:, None]
    truth = scores.transform(record.known.astype(np.float64))
    truth = np.clip(truth - season, -FARTHEST, FARTHEST) + season  # as in use
    estimate = base.of(np.where(shown, truth, 0.0), shown, times, ~shown)
    assert estimate.spread is not None
    mean = np.where(shown, truth, estimate.mean)[0] - season
    posterior = Posterior(mean, np.where(shown, 0.0, estimate.spread)[0], shown[0], others)
    some = np.zeros(mean.shape, bool)
    some.reshape(-1)[rng.permutation(np.flatnonzero(record.visible & ~shown))[:n_cells]] = True
    cells = posterior.cells(some)
    low, high = (model.values(mean + sign * posterior.spread, times[0])[some] for sign in (-1, 1))
    return cells, (truth[0] - season - mean)[some] / cells.spread, np.sqrt(np.maximum(high - low, _LEAST_WIDTH))
