"""What a Gaussian process leaves of cells that are hidden for it, and networks that learn it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tsimpute.batches.masking import MaskPolicy, make_policy
from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Windows
from tsimpute.errors import ConfigError
from tsimpute.gaussian.margins import Cells, Margins, Posterior, fit_margins, others_of
from tsimpute.gaussian.model import Regularisation
from tsimpute.gaussian.process import GaussianBase, GaussianModel, Scores
from tsimpute.imputers.shared.cross_fitting import cross_fitted
from tsimpute.scaling.standardizer import Standardizer

_CELLS, _FEWEST = 200, 1_000
"""Hidden cells of a mask that networks learn from at most, and of all masks below which there are no networks."""
_MOST_MASKS = 8
"""Of one record."""


@dataclass(frozen=True)
class Networks:
    """How the networks that correct a process are trained.

    Attributes:
        mask_policy: how cells are hidden, see ``batches.masking.make_policy``; None = "mix" where the data say which
            records lend their gaps to others, else "random".
        n_masks: over the training records in turn, at most 8 of one record.
        n_folds: number of runs of consecutive records, and of networks.
        n_steps: of training of each network.

    Raises:
        ConfigError: a number is too small.
    """

    mask_policy: str | None = None
    n_masks: int = 3000
    n_folds: int = 5
    n_steps: int = 800

    def __post_init__(self) -> None:
        for name, least in (("n_masks", 1), ("n_folds", 2), ("n_steps", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"networks.{name}: expected at least {least}, came {getattr(self, name)}.")


def learn_margins(
    train: Windows, scaler: Standardizer, model: GaussianModel, settings: Regularisation, networks: Networks,
    seed: int, progress: Callable[[str, int, int], None],
) -> Margins | None:  # fmt: skip
    """The networks; None where there are too few records or cells, or where the process predicts as well alone.

    A process fitted to the other runs of records fills hidden cells of each run, so that its errors there are those
    that it makes in records which it does not know.

    Args:
        model, settings: the process fitted to ``train``, and what regularised it.
        progress: called with "posteriors" or "networks", the work done and all of it.
    """
    n_folds = min(networks.n_folds, len(train))
    if n_folds < 2:
        return None
    policy = make_policy(networks.mask_policy or ("random" if train.pattern_donor is None else "mix"), train)
    bases = cross_fitted(train, scaler, model, n_folds, seed, settings)
    parts, folds, n_before = [], [], np.zeros(len(train), np.int64)
    n_masks = min(networks.n_masks, _MOST_MASKS * len(train))
    for number, n in enumerate(np.linspace(0, len(train) - 1, n_masks).round().astype(int).tolist()):
        rng = np.random.default_rng(derive_seed(seed, "hidden", train.record_ids[n], str(n_before[n])))
        parts.append(_hidden_cells(train.select([n]), Scores(scaler, model), bases(n), policy, rng))
        folds.append(np.full(len(parts[-1][1]), n * n_folds // len(train)))
        n_before[n] += 1
        progress("posteriors", number + 1, n_masks)
    cells, errors = Cells.joined([of_mask for of_mask, _ in parts]), np.concatenate([error for _, error in parts])
    if len(errors) < _FEWEST:
        return None
    return fit_margins(
        cells, errors, np.concatenate(folds), train.n_features, networks.n_steps, derive_seed(seed, "margins"),
        lambda done, total: progress("networks", done, total),
    )  # fmt: skip


def _hidden_cells(
    record: Windows, scores: Scores, base: GaussianBase, policy: MaskPolicy, rng: np.random.Generator
) -> tuple[Cells, np.ndarray]:
    """Some of the cells that a mask hides, and the process's errors there, in its standard deviations."""
    observed, times, model = record.visible, record.times.astype(np.float64), scores.model
    shown = policy(observed[0], rng)[None]
    truth = scores.transform(record.known.astype(np.float64))
    estimate = base.of(np.where(shown, truth, 0.0), shown, times, ~shown)
    assert estimate.spread is not None
    season = model.seasons.at(times[0]) / model.scale[:, None]
    mean = np.where(shown, truth, estimate.mean)[0] - season
    posterior = Posterior(mean, np.where(shown, 0.0, estimate.spread)[0], shown[0], others_of(model.covariance[0]))
    some = np.zeros(mean.shape, bool)
    some.reshape(-1)[rng.permutation(np.flatnonzero(observed & ~shown))[:_CELLS]] = True
    cells = posterior.cells(some)
    return cells, (truth[0] - season - mean)[some] / cells.spread
