"""Draws of a Gaussian process moved towards other methods as hidden cells say, and draws of a network beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from tsimpute.core.windows import Feature, Samples, Windows
from tsimpute.errors import CheckpointError
from tsimpute.filling.blending.blending import Blend
from tsimpute.filling.methods.components import COMPONENTS, Component, record_of
from tsimpute.filling.methods.forest import Forest
from tsimpute.filling.panels.gaps import BOUNDS, gap_classes
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.models.checkpoints import part_of, write_model
from tsimpute.scaling.standardizer import Standardizer

KINDS: tuple[type[Component], ...] = (*COMPONENTS, Forest)
"""What draws may be moved towards, in the order in which they take their turn."""
METHODS = ("Gaussian process", "network", *(component.name for component in KINDS))
"""In the order of shares."""
GAUSSIAN, NETWORK = range(2)
_PARTS = ("gaussian", "network")


@dataclass(frozen=True, eq=False)
class FittedMethods:
    """A process and the other methods that were fitted beside it, to the same values."""

    base: GaussianImputer
    components: tuple[Component, ...]

    @property
    def name(self) -> str:
        """Of the process."""
        return self.base.name

    def only(self, used: Sequence[bool]) -> FittedMethods:
        """The process with some of the methods beside it."""
        return replace(self, components=tuple(c for c, is_used in zip(self.components, used, strict=True) if is_used))

    def points(self, known: np.ndarray, times: np.ndarray) -> list[np.ndarray]:
        """What each other method says of a record; see ``Component.at``."""
        return [component.at(known, times) for component in self.components]


class Mixture:
    """A draw is a path of the process, moved towards other methods, or one of a network.

    Methods that no draw is moved towards are left out: they are neither asked nor saved.

    Of S draws, the first ones are the network's, as many as its share says of the feature and the length of the gap,
    then those of the process. See ``imputers.base.TableModel``.

    Args:
        learnt: the process and what its draws are moved towards.
        blend: how far, and how wide they are.
        network: None where it has no share; its own features are those of the process, and given ones follow.
        shares: (K, C) of the network, by feature and class of gaps, see ``gaps.gap_classes``; None = 0.
    """

    name = "delivered"
    whole_series = True

    def __init__(
        self,
        learnt: FittedMethods,
        blend: Blend,
        network: GenerativeImputer | None = None,
        shares: np.ndarray | None = None,
    ) -> None:
        used = np.asarray(blend.weights.any((1, 2)))
        self.learnt = learnt.only(used.tolist())
        self.base, self.blend, self.network = learnt.base, replace(blend, weights=blend.weights[used]), network
        self.shares = np.zeros_like(blend.spread) if network is None or shares is None else shares
        self.features_: tuple[Feature, ...] = (network or self.base).features_
        self.scaler_: Standardizer = (network or self.base).scaler_
        self.time_step_, self.time_unit_ = self.base.time_step_, self.base.time_unit_
        self.regular_, self.n_steps_, self.no_data_ = self.base.regular_, self.base.n_steps_, self.base.no_data_

    @property
    def method(self) -> str:
        """The methods that have a share."""
        beside = [component.name for component in self.learnt.components]
        names = [self.base.method, *([] if self.network is None else [self.network.method]), *beside]
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
            for steps, found in self.impute_long(record, n_samples, seed, cells):
                values[..., steps] = found.values
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
        n_own = len(self.base.features_)
        known, times = record_of(record, n_own)
        gap, feature = gap_classes(np.isnan(known)), np.arange(n_own)[:, None]
        of_network = first_draws(n_samples, self.shares[feature, gap])
        points = self.learnt.points(self.base.scaler_.transform(known), times)
        n_even = n_samples + n_samples % 2  # so that their median is the process's
        streams = [self.base.impute_long(_own(record, n_own), n_even, seed, None if fill is None else fill[:, :n_own])]
        n_network = int(of_network.any((1, 2)).sum())
        if self.network is not None and n_network:
            times_from = 0.0 if self.network.whole_series else record.times[:, :1]
            began = replace(record, times=record.times - times_from)
            streams.append(self.network.impute_long(began, n_network, seed, fill, progress=progress))
        for steps, (of_base, *others) in _aligned(streams):
            drawn, here = of_base.values[in_pairs(n_even), 0], of_network[..., steps]
            values = self._moved(drawn, [point[:, steps] for point in points], feature, gap[:, steps])[:n_samples]
            if others:
                of_other = others[0].values[:, 0, :n_own]
                values[:n_network] = np.where(here[:n_network], of_other, values[:n_network])
            yield steps, self._completed(record.steps(steps), values)
        progress(1.0)

    def _moved(
        self, draws: np.ndarray, points: Sequence[np.ndarray], feature: np.ndarray, gap: np.ndarray
    ) -> np.ndarray:
        """(S, K, T) draws of the process in the data's units, moved where a blend changes them."""
        if not self.blend.changes:
            return draws
        scaled = self.base.scaler_.transform(draws)
        moved = self.blend.moved(scaled, np.median(scaled, 0), points, feature, gap)
        return np.where(np.isnan(draws), draws, self.base.scaler_.inverse(moved))

    def save(self, path: Path, also: Mapping[str, Any] | None = None) -> None:
        """See ``TableModel``."""
        weights: dict[str, torch.Tensor] = {}
        about: dict[str, Any] = {
            "imputer": "mixture", "weights": self.blend.weights.tolist(), "spread": self.blend.spread.tolist(),
            "shares": self.shares.tolist(), "bounds": BOUNDS, "network": None, "components": {},
        }  # fmt: skip
        for name, model in zip(_PARTS, (self.base, self.network), strict=True):
            if model is not None:
                own, about[name] = model.parts()
                weights |= {f"{name}.{key}": of_one for key, of_one in own.items()}
        for component in self.learnt.components:
            arrays, about["components"][component.name] = component.parts()
            weights |= {f"{component.name}.{key}": torch.tensor(of_one) for key, of_one in arrays.items()}
        write_model(Path(path), weights, {**(also or {}), **about})

    @classmethod
    def from_file(cls, path: Path, weights: Mapping[str, torch.Tensor], about: Mapping[str, Any]) -> Self:
        """What ``checkpoints.read_model`` read from ``path``."""
        try:
            if tuple(about["bounds"]) != BOUNDS:
                raise ValueError(f"classes of gaps up to {about['bounds']} steps, not {list(BOUNDS)}")
            base = GaussianImputer.from_file(path, part_of(weights, "gaussian"), about["gaussian"])
            network = about["network"] and GenerativeImputer.from_file(
                path, part_of(weights, "network"), about["network"]
            )
            spread = np.array(about["spread"])
            blend = Blend(np.array(about["weights"]).reshape(-1, *spread.shape), spread)
            learnt = FittedMethods(base, tuple(_components(weights, about["components"], base)))
            return cls(learnt, blend, network, np.array(about["shares"]))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            if isinstance(error, CheckpointError):
                raise
            reason = " ".join(str(error).split())[:200]
            raise CheckpointError(
                f"{path}: the model file is damaged or of another layout ({reason}). Fit the table once more."
            ) from error

    def _completed(self, record: Windows, values: np.ndarray) -> Samples:
        given = np.repeat(record.values[:, len(self.base.features_) :], len(values), 0)
        values = np.concatenate([values, given], 1).astype(record.values.dtype)
        values[:, record.visible[0]] = record.values[0][record.visible[0]]
        return Samples(values[:, None], record.visible, record.features, record.record_ids)


def _components(
    weights: Mapping[str, torch.Tensor], about: Mapping[str, Any], base: GaussianImputer
) -> Iterator[Component]:
    kinds = {kind.name: kind for kind in KINDS}
    for name, of_one in about.items():
        arrays = {key: array.numpy() for key, array in part_of(weights, name).items()}
        yield kinds[name].from_parts(arrays, of_one, base)


def first_draws(n_samples: int, shares: np.ndarray) -> np.ndarray:
    """(S, ...) bool: which of the draws are those of a method with such shares (...) that comes first."""
    at = (np.arange(n_samples) + 0.5) / n_samples
    return at.reshape(-1, *[1] * shares.ndim) < shares


def in_pairs(n_samples: int) -> np.ndarray:
    """(S,) the process's draws, of which each is followed by its opposite; see ``GaussianImputer``."""
    half = -(-n_samples // 2)
    order = np.stack([np.arange(half), half + np.arange(half)], 1).ravel()
    return order[order < n_samples]


def _own(record: Windows, n_own: int) -> Windows:
    """The record without given features."""
    held_out = None if record.held_out is None else record.held_out[:, :n_own]
    return replace(record, values=record.values[:, :n_own], features=record.features[:n_own], held_out=held_out)


def _aligned(streams: list[Iterator[tuple[slice, Samples]]]) -> Iterator[tuple[slice, list[Samples]]]:
    """Draws of several models at the same steps, of streams of different pieces; steps that one lacks are left out."""
    pieces = [next(stream, None) for stream in streams]
    while all(piece is not None for piece in pieces):
        current = [piece for piece in pieces if piece is not None]
        start, stop = max(steps.start for steps, _ in current), min(steps.stop for steps, _ in current)
        if start < stop:
            yield slice(start, stop), [_steps(found, start - own.start, stop - own.start) for own, found in current]
        pieces = [
            next(stream, None) if piece[0].stop == stop else piece
            for stream, piece in zip(streams, current, strict=True)
        ]  # fmt: skip


def _steps(samples: Samples, start: int, stop: int) -> Samples:
    values, shown = samples.values[..., start:stop], samples.visible[..., start:stop]
    return Samples(values, shown, samples.features, samples.record_ids)
