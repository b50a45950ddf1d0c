"""Imputation by a Gaussian process whose posterior small networks correct: fitted in minutes, drawn at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from tsimpute.batches.masking import make_policy
from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Windows
from tsimpute.errors import CheckpointError, ConfigError
from tsimpute.gaussian.conditioning import Piece
from tsimpute.gaussian.margins import Cells, Margins, Posterior, fit_margins, mapped, others_of
from tsimpute.gaussian.model import Regularisation
from tsimpute.gaussian.process import LEAST_SPREAD, Scores, Tails
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.imputers.network.starting import cross_fitted
from tsimpute.scaling.standardizer import Standardizer
from tsimpute.system.terminal import Progress, progress_bars

_CELLS, _FEWEST = 200, 1_000
"""Hidden cells of a mask that networks learn from at most, and of all masks below which there are no networks."""


class GaussianNetworkImputer(GaussianImputer):
    """A Gaussian process, and networks that learn what it leaves of cells that are hidden for it.

    Training records are cut into runs of consecutive ones. A process fitted to the other runs fills hidden cells of
    each, and networks learn its errors there, see ``gaussian.margins``. Where they predict runs that they did not learn
    from no better than the process does, the process stays alone, as with a single record.

    Args:
        mask_policy: how cells are hidden, see ``batches.masking.make_policy``; None = "mix" where the data say which
            records lend their gaps to others, else "random".
        n_masks: over the training records in turn.
        n_folds: number of runs, and of networks.
        n_steps: of training of each network.
        periods, settings, seed: see ``GaussianImputer``.

    Attributes:
        margins_: the networks; None = the process alone.
    """

    name = "gaussian_network"
    margins_: Margins | None = None

    def __init__(
        self,
        mask_policy: str | None = None,
        n_masks: int = 3000,
        n_folds: int = 5,
        n_steps: int = 800,
        periods: Sequence[float] = (24.0, 168.0, 8766.0),
        settings: Regularisation | Mapping[str, float] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(periods, settings, seed)
        for name, number, least in (("n_masks", n_masks, 1), ("n_folds", n_folds, 2), ("n_steps", n_steps, 1)):
            if number < least:
                raise ConfigError(f"{name}: expected at least {least}, came {number}.")
        self.mask_policy, self.n_masks, self.n_folds, self.n_steps = mask_policy, n_masks, n_folds, n_steps

    @property
    def method(self) -> str:
        """What the process is of, and whether networks correct it."""
        return super().method + (", corrected by networks" if self.margins_ is not None else "")

    def fit(
        self,
        train: Windows,
        valid: Windows | None = None,
        *,
        scaler: Standardizer | None = None,
        progress: Progress = "auto",
    ) -> Self:
        """See ``GaussianImputer``."""
        super().fit(train, valid, scaler=scaler, progress=progress)
        self.margins_, n_folds = None, min(self.n_folds, len(train))
        with progress_bars(progress, {"posteriors": "mask", "networks": "step"}) as tell:
            parts = list(self._hidden_cells(train, n_folds, tell)) if n_folds > 1 else []
            if sum(len(errors) for _, errors, _ in parts) >= _FEWEST:
                cells, errors, folds = zip(*parts, strict=True)
                self.margins_ = fit_margins(
                    Cells.joined(cells), np.concatenate(errors), np.concatenate(folds), len(self.features_),
                    self.n_steps, derive_seed(self.seed, "margins"),
                    lambda done, total: tell("networks", done, total),
                )  # fmt: skip
        if self.margins_ is not None:  # they learn the tails, too
            self.model_ = replace(self.model_, tails=Tails.normal(len(self.features_)))
        return self

    def _hidden_cells(
        self, train: Windows, n_folds: int, tell: Callable[[str, int, int], None]
    ) -> Iterator[tuple[Cells, np.ndarray, np.ndarray]]:
        """Of one mask after another some hidden cells, the process's errors there, in its spreads, and their fold."""
        base_of = cross_fitted(train, self.scaler_, self.model_, n_folds, self.seed, self.chosen_)
        name = self.mask_policy or ("random" if train.pattern_donor is None else "mix")
        policy, scores = make_policy(name, train), Scores(self.scaler_, self.model_)
        others, n_seen = others_of(self.model_.covariance[0]), {}
        for number, n in enumerate(np.linspace(0, len(train) - 1, self.n_masks).round().astype(int).tolist()):
            n_seen[n] = n_seen.get(n, -1) + 1
            rng = np.random.default_rng(derive_seed(self.seed, "hidden", train.record_ids[n], str(n_seen[n])))
            observed, times = train.visible[[n]], train.times[[n]].astype(np.float64)
            shown = policy(observed[0], rng)[None]
            truth = scores.transform(train.known[[n]].astype(np.float64))
            estimate = base_of(n).of(np.where(shown, truth, 0.0), shown, times, ~shown)
            season = self.model_.seasons.at(times[0]) / self.model_.scale[:, None]
            mean = np.where(shown, truth, estimate.mean)[0] - season
            assert estimate.spread is not None
            posterior = Posterior(mean, np.where(shown, 0.0, estimate.spread)[0], shown[0], others)
            hidden = np.flatnonzero(observed & ~shown)
            some = np.zeros(mean.shape, bool)
            some.reshape(-1)[rng.permutation(hidden)[:_CELLS]] = True
            if some.any():
                cells = posterior.cells(some)
                fold = np.full(len(cells.feature), n * n_folds // len(train))
                yield cells, ((truth[0] - season - mean)[some]) / cells.spread, fold
            tell("posteriors", number + 1, self.n_masks)

    def _shaped(self, known: np.ndarray, times: np.ndarray) -> Callable[[Piece], np.ndarray]:
        if self.margins_ is None:
            return super()._shaped(known, times)
        scores, gaps = self.model_.scores(known, times), np.isnan(known)
        mean, spread = self.model_.marginals(known, times)
        mean, spread = np.where(gaps, mean, scores), np.where(gaps, np.maximum(spread, LEAST_SPREAD), 0.0)
        posterior, margins = Posterior(mean, spread, ~gaps, others_of(self.model_.covariance[0])), self.margins_

        def shaped(piece: Piece) -> np.ndarray:
            wanted = np.zeros(gaps.shape, bool)
            wanted[:, piece.steps] = gaps[:, piece.steps]
            inside, cells = gaps[:, piece.steps], posterior.cells(wanted)
            normal = piece.deviations[:, inside] / cells.spread
            either = torch.from_numpy(np.concatenate([normal, -normal]))
            draws = np.repeat(piece.mean[None], len(either), 0)
            draws[:, inside] += mapped(torch.from_numpy(margins.maps(cells)), either).numpy() * cells.spread
            return draws

        return shaped

    def _arguments(self) -> dict[str, Any]:
        names = ("mask_policy", "n_masks", "n_folds", "n_steps")
        return {name: getattr(self, name) for name in names} | super()._arguments()

    def parts(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """See ``GaussianImputer``."""
        arrays, description = super().parts()
        networks = {} if self.margins_ is None else self.margins_.to_arrays()
        return arrays | {name: torch.from_numpy(array) for name, array in networks.items()}, description

    @classmethod
    def from_file(cls, path: Path, weights: Mapping[str, torch.Tensor], description: Mapping[str, Any]) -> Self:
        """See ``GaussianImputer``."""
        imputer = super().from_file(path, weights, description)
        try:
            imputer.margins_ = Margins.from_arrays({name: tensor.numpy() for name, tensor in weights.items()})
        except (LookupError, RuntimeError) as error:
            raise CheckpointError(f"{path}: the networks in the model file are damaged ({error}).") from error
        return imputer


PLUGIN = GaussianNetworkImputer
