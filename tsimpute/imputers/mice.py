"""Multiple imputation by chained equations: scikit-learn's BayesianRidge, feature by feature, with draws."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tsimpute.core.windows import Windows
from tsimpute.imputers.shared.standardised import StandardisedImputer, check_counts, optional_module, rows_of

_CHAIN = ("weights", "intercept", "noise", "offset", "spread")


class MiceImputer(StandardisedImputer):
    """Several chains of regressions, each from a seed of its own: every feature on all others, with draws at its gaps.

    A row is one step of a record, so a table is records of one step. A round of a chain fits ``BayesianRidge`` to each
    feature and draws its gaps from the predictive distribution, as scikit-learn's ``IterativeImputer`` does with
    ``sample_posterior``. What is kept of a chain are the regressions of its last round. The gaps of a record are then
    drawn by ``n_sweeps`` more rounds with these, draw s by chain s modulo ``n_chains``, from the record's own seed:
    the draws of a record do not depend on its neighbours, and more draws than chains differ. The final state of
    a chain at its training rows, which is what ``IterativeImputer.fit_transform`` gives, is not used. A feature that is
    constant or was never shown is filled with its centre.

    Args:
        n_chains: chains; one for each imputation that is wanted.
        max_iter: rounds of a chain in ``fit``; the method has no rule to stop earlier.
        n_sweeps: rounds over the gaps of a record.
        seed: of ``fit``.
    """

    name = "mice"
    _LEARNT: ClassVar = _CHAIN

    def __init__(self, n_chains: int = 5, max_iter: int = 20, n_sweeps: int = 20, seed: int = 0) -> None:
        check_counts(n_chains=n_chains, max_iter=max_iter, n_sweeps=n_sweeps)
        self.n_chains, self.max_iter, self.n_sweeps, self.seed = n_chains, max_iter, n_sweeps, seed

    def _learn(self, known: np.ndarray, train: Windows) -> dict[str, np.ndarray]:
        rows = rows_of(known)
        rows = rows[~np.isnan(rows).all(1)]  # no regression is fitted to a row that shows nothing
        seeds = np.random.SeedSequence(self.seed).spawn(self.n_chains)
        chains = [self._chain(rows, np.random.default_rng(seed)) for seed in seeds]
        return {name: np.stack([chain[name] for chain in chains]) for name in _CHAIN}

    def _chain(self, rows: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """The last regressions of one chain, of each of K features on all K; nothing goes from a feature to itself."""
        regression = optional_module(self.name, "scikit-learn", "sklearn.linear_model").BayesianRidge()
        n, size = rows.shape[1], (rows.shape[1],) * 2
        last = {"weights": np.zeros(size), "intercept": np.zeros(n), "noise": np.zeros(n), "offset": np.zeros(size),
                "spread": np.zeros((n, *size))}  # fmt: skip
        gaps = np.isnan(rows)
        filled = np.where(gaps, 0.0, rows)
        order = [k for k in np.argsort(gaps.sum(0), kind="stable") if len(np.unique(rows[~gaps[:, k], k])) > 1]
        for turn in range(self.max_iter):
            for k in order:
                at = gaps[:, k]
                if not at.any() and turn < self.max_iter - 1:
                    continue  # nothing to draw here
                others = np.arange(n) != k if n > 1 else np.zeros(1, int)  # a feature alone: on a column of zeros
                inputs = filled[:, others] if n > 1 else np.zeros((len(rows), 1))
                regression.fit(inputs[~at], rows[~at, k])
                if at.any():
                    mean, std = regression.predict(inputs[at], return_std=True)
                    filled[at, k] = mean + std * rng.standard_normal(len(mean))
                last["intercept"][k], last["noise"][k] = regression.intercept_, 1.0 / regression.alpha_
                if n > 1:
                    last["weights"][k, others], last["offset"][k, others] = regression.coef_, regression.X_offset_
                    last["spread"][k][np.ix_(others, others)] = regression.sigma_
        return last

    def _draw(self, known: np.ndarray, times: np.ndarray, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        out, chain = np.repeat(known[None], n_samples, 0), np.arange(n_samples) % self.n_chains
        for step in np.flatnonzero(np.isnan(known).any(0)):
            row = known[:, step]
            gaps = np.flatnonzero(np.isnan(row))
            of_gaps = [[self.learnt_[name][chain, k] for name in _CHAIN] for k in gaps]
            filled = np.repeat(np.where(np.isnan(row), 0.0, row)[None], n_samples, 0)
            for noise in rng.standard_normal((self.n_sweeps, len(gaps), n_samples)):
                for k, (weights, intercept, variance, offset, spread), z in zip(gaps, of_gaps, noise, strict=True):
                    centred = filled - offset
                    unsure = ((centred[:, None] @ spread)[:, 0] * centred).sum(1)
                    filled[:, k] = intercept + (filled * weights).sum(1) + np.sqrt(variance + unsure) * z
            out[:, :, step] = filled
        return out


PLUGIN = MiceImputer
