"""Models that fill tables: draws of a Gaussian process, moved towards other methods, and draws of a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from tsimpute.core.windows import Feature, Samples, Windows
from tsimpute.errors import CheckpointError
from tsimpute.filling.blending.blend import Blend
from tsimpute.filling.methods.components import COMPONENTS, Component
from tsimpute.filling.methods.forest import Forest
from tsimpute.filling.panels.windows import BOUNDS, gap_classes
from tsimpute.imputers.base import TableModel
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.models.checkpoints import part_of, write_model
from tsimpute.scaling.standardizer import Standardizer

_COMPONENTS: tuple[type[Component], ...] = (*COMPONENTS, Forest)
"""What draws may be moved towards, in the order in which they take their turn."""
METHODS = ("Gaussian process", "network", *(component.name for component in _COMPONENTS))
"""In the order of shares."""
GAUSSIAN, NETWORK = range(2)
_PARTS = ("gaussian", "network")


@dataclass(frozen=True, eq=False)
class FittedMethods:
    """A process and the other methods that were fitted to the same values."""

    base: GaussianImputer
    components: tuple[Component, ...]

    def only(self, used: Sequence[bool]) -> FittedMethods:
        """The process with some of the methods."""
        return replace(self, components=tuple(c for c, is_used in zip(self.components, used, strict=True) if is_used))

    @property
    def independent(self) -> bool:
        """Whether steps are records of their own."""
        return len(self.base.model_.covariance) == 1

    def values(self, known: np.ndarray, times: np.ndarray) -> list[np.ndarray]:
        """Of each other method for a record; see ``Component.at``."""
        return [component.at(known, times) for component in self.components]


class Mixture:
    """A draw is a path of the process, moved towards other methods, or one of a network.

    Methods that no draw is moved towards are left out: they are neither used nor saved.

    Of S draws, the first ones are the network's, by its share for the feature and the length of the gap; the process
    gives the others. See ``imputers.base.TableModel``.

    Args:
        fitted: the process and the methods that its draws are moved towards.
        blend: how far, and how wide they are.
        network: None where it has no share; its first features are those of the process, covariates follow.
        shares: (K, C) of the network, by feature and class of gaps, see ``windows.gap_classes``; None = 0.
    """

    name = "delivered"
    whole_series = True

    def __init__(
        self, fitted: FittedMethods, blend: Blend, network: GenerativeImputer | None = None,
        shares: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        used = np.asarray(blend.weights.any((1, 2)))
        self.fitted = fitted.only(used.tolist())
        self.base, self.blend, self.network = fitted.base, replace(blend, weights=blend.weights[used]), network
        self.shares = np.zeros_like(blend.spread) if network is None or shares is None else shares
        self.features_: tuple[Feature, ...] = (network or self.base).features_
        self.scaler_: Standardizer = (network or self.base).scaler_
        self.time_step_, self.time_unit_ = self.base.time_step_, self.base.time_unit_
        self.regular_, self.n_steps_, self.no_data_ = self.base.regular_, self.base.n_steps_, self.base.no_data_

    @property
    def method(self) -> str:
        """The methods that have a share."""
        names = [self.base.method, *([] if self.network is None else [self.network.method])]
        names += [component.name for component in self.fitted.components]
        return "draws of " + " and ".join(names)

    @property
    def sampler(self) -> str:
        """How the network draws, where it has a share."""
        return self.base.sampler if self.network is None else f"{self.base.sampler} and {self.network.sampler}"

    def impute_records(
        self, windows: Windows, n_samples: int, seed: int = 0, fill: np.ndarray | None = None
    ) -> Iterator[Samples]:
        """See ``TableModel``."""
        for n in range(len(windows)):
            record, cells = windows.select([n]), None if fill is None else fill[[n]]
            values = np.repeat(record.values[None], n_samples, 0)
            for steps, samples in self.impute_long(record, n_samples, seed, cells):
                values[..., steps] = samples.values
            yield Samples(values, record.visible, record.features, record.record_ids)

    def impute_long(
        self,
        record: Windows,
        n_samples: int,
        seed: int = 0,
        fill: np.ndarray | None = None,
        *,
        progress: Callable[[float], None] = lambda share: None,
    ) -> Iterator[tuple[slice, Samples]]:
        """See ``TableModel``."""
        n_features = len(self.base.features_)
        known = np.where(record.visible[0], record.values[0], np.nan).astype(np.float64)[:n_features]
        times = record.times[0].astype(np.float64)
        gap_class, feature = gap_classes(np.isnan(known), self.fitted.independent), np.arange(n_features)[:, None]
        is_network = network_draws(n_samples, self.shares[feature, gap_class])
        values = self.fitted.values(self.base.scaler_.transform(known), times)
        n_even = n_samples + n_samples % 2  # so that their median is the process's
        held_out = None if record.held_out is None else record.held_out[:, :n_features]
        features = record.features[:n_features]  # without covariates
        for_process = replace(record, values=record.values[:, :n_features], features=features, held_out=held_out)
        streams = [self.base.impute_long(for_process, n_even, seed, None if fill is None else fill[:, :n_features])]
        n_network = int(is_network.any((1, 2)).sum())
        if self.network is not None and n_network:
            origin = 0.0 if self.network.whole_series else record.times[:, :1]
            from_origin = replace(record, times=record.times - origin)
            streams.append(self.network.impute_long(from_origin, n_network, seed, fill, progress=progress))
        for steps, (of_base, *of_network) in _aligned(streams):
            draws = of_base.values[pair_order(n_even), 0]
            if self.blend.changes:
                scaled = self.base.scaler_.transform(draws)
                moved = self.blend.moved(scaled, [v[:, steps] for v in values], feature, gap_class[:, steps])
                draws = np.where(np.isnan(draws), draws, self.base.scaler_.inverse(moved))
            draws = draws[:n_samples]
            if of_network:
                other = of_network[0].values[:, 0, :n_features]
                draws[:n_network] = np.where(is_network[:n_network, :, steps], other, draws[:n_network])
            part = record.steps(steps)
            covariates = np.repeat(part.values[:, n_features:], n_samples, 0)
            draws = np.concatenate([draws, covariates], 1).astype(part.values.dtype)
            draws[:, part.visible[0]] = part.values[0][part.visible[0]]
            yield steps, Samples(draws[:, None], part.visible, part.features, part.record_ids)
        progress(1.0)

    def save(self, path: Path, also: Mapping[str, Any] | None = None) -> None:
        """See ``TableModel``."""
        weights: dict[str, torch.Tensor] = {}
        description: dict[str, Any] = {
            "imputer": "mixture", "weights": self.blend.weights.tolist(), "spread": self.blend.spread.tolist(),
            "shares": self.shares.tolist(), "bounds": BOUNDS, "network": None, "components": {},
        }  # fmt: skip
        for name, model in zip(_PARTS, (self.base, self.network), strict=True):
            if model is not None:
                arrays, description[name] = model.parts()
                weights |= {f"{name}.{key}": array for key, array in arrays.items()}
        for component in self.fitted.components:
            arrays, description["components"][component.name] = component.parts()
            weights |= {f"{component.name}.{key}": torch.tensor(array) for key, array in arrays.items()}
        write_model(Path(path), weights, {**(also or {}), **description})

    @classmethod
    def from_file(cls, path: Path, weights: Mapping[str, torch.Tensor], description: Mapping[str, Any]) -> Self:
        """What ``checkpoints.read_model`` read from ``path``."""
        try:
            if tuple(description["bounds"]) != BOUNDS:
                raise ValueError(f"classes of gaps up to {description['bounds']} steps, not {list(BOUNDS)}")
            base = GaussianImputer.from_file(path, part_of(weights, "gaussian"), description["gaussian"])
            network = description["network"] and GenerativeImputer.from_file(
                path, part_of(weights, "network"), description["network"]
            )
            spread = np.array(description["spread"])
            blend = Blend(np.array(description["weights"]).reshape(-1, *spread.shape), spread)
            kinds = {kind.name: kind for kind in _COMPONENTS}
            components = [
                kinds[name].from_parts({k: w.numpy() for k, w in part_of(weights, name).items()}, of_component, base)
                for name, of_component in description["components"].items()
            ]
            return cls(FittedMethods(base, tuple(components)), blend, network, np.array(description["shares"]))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            if isinstance(error, CheckpointError):
                raise
            reason = " ".join(str(error).split())[:200]
            raise CheckpointError(
                f"{path}: the model file is damaged or of another layout ({reason}). Fit the table once more."
            ) from error


MODEL_KINDS = (GenerativeImputer, GaussianImputer, Mixture)
"""The classes of models that fill tables."""


def model_from_file(path: Path, weights: Mapping[str, Any], description: Mapping[str, Any]) -> TableModel:
    """The model in what ``checkpoints.read_model`` read from ``path``.

    Raises:
        CheckpointError: the file is damaged, of another layout, or holds no model.
    """
    if description.get("imputer") == "mixture":
        return Mixture.from_file(path, weights, description)
    if description.get("imputer") == GaussianImputer.name:
        return GaussianImputer.from_file(path, weights, description)
    return GenerativeImputer.from_file(path, dict(weights), dict(description))


def network_draws(n_samples: int, shares: np.ndarray) -> np.ndarray:
    """(S, ...) bool: which of the draws are the network's, which come first, by its shares (...)."""
    at = (np.arange(n_samples) + 0.5) / n_samples
    return at.reshape(-1, *[1] * shares.ndim) < shares


def pair_order(n_samples: int) -> np.ndarray:
    """(S,) the process's draws, of which each is followed by its opposite; see ``GaussianImputer``."""
    half = -(-n_samples // 2)
    order = np.stack([np.arange(half), half + np.arange(half)], 1).ravel()
    return order[order < n_samples]


def _aligned(streams: list[Iterator[tuple[slice, Samples]]]) -> Iterator[tuple[slice, list[Samples]]]:
    """Draws of several models at the same steps, of streams of different pieces; steps that one lacks are left out."""
    pieces = [next(stream, None) for stream in streams]
    while all(piece is not None for piece in pieces):
        current = [piece for piece in pieces if piece is not None]
        start, stop = max(steps.start for steps, _ in current), min(steps.stop for steps, _ in current)
        if start < stop:
            parts = [(samples, slice(start - steps.start, stop - steps.start)) for steps, samples in current]
            yield slice(start, stop), [replace(s, values=s.values[..., p], visible=s.visible[..., p]) for s, p in parts]
        pieces = [
            next(stream, None) if piece[0].stop == stop else piece
            for stream, piece in zip(streams, current, strict=True)
        ]  # fmt: skip
