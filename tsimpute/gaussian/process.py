"""The fitted process: values to scores and back, posteriors of records, and all of it as arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from tsimpute.gaussian import maps
from tsimpute.gaussian.conditionals import Prior
from tsimpute.gaussian.conditioning import Piece, conditioned_pieces, joined, marginals, window_length
from tsimpute.gaussian.maps import MonotoneMap
from tsimpute.gaussian.records import positions
from tsimpute.gaussian.seasons import Seasons
from tsimpute.gaussian.tails import Tails

FARTHEST = 8.0
"""Scores beyond it count as that far: one slip of the keyboard does not move its neighbours by more."""
_MOST_REMEMBERED = 500_000
"""Cells of the records whose posteriors are remembered, about."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(7)


@dataclass(frozen=True, eq=False)
class GaussianModel:
    """A fitted process.

    Attributes:
        maps: one per feature.
        seasons: in scores.
        centre: (K,) mean of the scores without their season.
        scale: (K,) standard deviation of the same.
        covariance: (W, K, K), see ``covariance.Estimated.regularised``.
        step: see ``Records``.
        tails: of draws.
    """

    maps: tuple[MonotoneMap, ...]
    seasons: Seasons
    centre: np.ndarray
    scale: np.ndarray
    covariance: np.ndarray
    step: float
    tails: Tails

    def scores(self, values: np.ndarray, times: np.ndarray) -> np.ndarray:
        """(K, T) standardised scores without season of (K, T) values."""
        mapped = np.stack([mapping.forward(row) for mapping, row in zip(self.maps, values, strict=True)])
        rest = (mapped - self.seasons.at(times) - self.centre[:, None]) / self.scale[:, None]
        return np.clip(rest, -FARTHEST, FARTHEST)

    def values(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """(..., K, T) values in the data's units of scores."""
        mapped = scores * self.scale[:, None] + self.centre[:, None] + self.seasons.at(times)
        return np.stack([mapping.inverse(mapped[..., k, :]) for k, mapping in enumerate(self.maps)], -2)

    @cached_property
    def prior(self) -> Prior:
        """The process of the scores; all records share what is computed for it."""
        return Prior(self.covariance)

    def posterior(self, values: np.ndarray, times: np.ndarray, n_draws: int, rng: np.random.Generator) -> Piece:
        """Draws of one record, in scores; see ``conditioning.conditioned_pieces``."""
        return joined(list(self.posterior_pieces(values, times, n_draws, rng)))

    def posterior_pieces(
        self, values: np.ndarray, times: np.ndarray, n_draws: int, rng: np.random.Generator
    ) -> Iterator[Piece]:
        """The same draws of a long record, piece by piece in the order of time."""
        at, n_features = positions(times, self.step), len(self.maps)
        factors = self.tails.of_draws(n_draws, len(times), window_length(n_features, len(self.covariance)), rng)
        for piece in conditioned_pieces(self.prior, self.scores(values, times), at, n_draws, rng):
            piece.deviations[:] *= factors.at(piece.steps).transpose(0, 2, 1)
            yield piece

    def marginals(
        self, values: np.ndarray, times: np.ndarray, cells: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(K, T) posterior means and standard deviations of one record, in scores; see ``conditioning.marginals``.

        Those of the records that came last are remembered: several methods look at the same ones.
        """
        key = b"".join(
            np.ascontiguousarray(part).tobytes() for part in (values, times) + (() if cells is None else (cells,))
        )
        digest = hashlib.blake2b(key, digest_size=16).digest()
        if digest not in self._remembered:
            result = marginals(self.prior, self.scores(values, times), positions(times, self.step), cells)
            for array in result:
                array.flags.writeable = False
            while sum(mean.size for mean, _ in self._remembered.values()) > _MOST_REMEMBERED:
                self._remembered.pop(next(iter(self._remembered)))
            self._remembered[digest] = result
        return self._remembered[digest]

    @cached_property
    def _remembered(self) -> dict[bytes, tuple[np.ndarray, np.ndarray]]:
        return {}

    def moments(self, values: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and spread of one record in the data's units, without draws.

        The spread is half of the distance between the 16 and 84 % quantiles: the standard deviation where maps are
        linear. Records whose times lie alike share what was computed for their windows.

        Args:
            values: (K, T), NaN where nothing is known.
            times: (T,).

        Returns:
            (K, T) means, known values themselves where there are some, and (K, T) spreads, 0 there.
        """
        mean, spread = self.marginals(values, times)
        mapped = [self.values(mean + node * spread, times) for node in _NODES.tolist()]
        shares = (_WEIGHTS / _WEIGHTS.sum()).tolist()
        middle = sum(share * of_node for share, of_node in zip(shares, mapped, strict=True))
        low, high = (self.values(mean + sign * spread, times) for sign in (-1, 1))
        gaps = np.isnan(values)
        return np.where(gaps, np.clip(middle, mapped[0], mapped[-1]), values), np.where(gaps, (high - low) / 2, 0.0)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """All that makes the model, for any file."""
        return {
            **maps.to_arrays(self.maps), "season_periods": np.array(self.seasons.periods),
            "season_weights": self.seasons.weights, "centre": self.centre, "scale": self.scale,
            "covariance": self.covariance, "step": np.array(self.step), "tails": self.tails.weights,
        }  # fmt: skip

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """The model whose ``to_arrays`` these are, to the bit; covariances may be in single precision."""
        seasons = Seasons(tuple(arrays["season_periods"].tolist()), arrays["season_weights"])
        # Files of before have none.
        tails = Tails(arrays["tails"]) if "tails" in arrays else Tails.normal(len(arrays["scale"]))
        return cls(
            maps.from_arrays(arrays), seasons, arrays["centre"], arrays["scale"],
            arrays["covariance"].astype(np.float64), float(arrays["step"]), tails,
        )  # fmt: skip
