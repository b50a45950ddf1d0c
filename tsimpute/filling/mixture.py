"""A mixture of the draws of a Gaussian process, of a network and of straight lines, with shares from hidden cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from tsimpute.checkpoints import write_model
from tsimpute.errors import CheckpointError
from tsimpute.filling.lines import Lines, gap_classes, record_of
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.pipeline.scaling import Standardizer
from tsimpute.seeding import derive_seed
from tsimpute.windows import Feature, Samples, Windows

METHODS = ("Gaussian process", "network", "linear interpolation")
"""In the order of shares."""
GAUSSIAN, NETWORK, LINES = range(3)
_PARTS = ("gaussian", "network")


class Mixture:
    """A draw is a path of one of three methods wherever the shares are the same for all features and gaps.

    Of S draws, the first ones are the network's, as many as its share says of the feature and the length of the gap,
    then those of straight lines, then the process's. See ``imputers.base.TableModel``.

    Args:
        base: the process.
        network: None where it has no share; its own features are those of ``base``, and given ones follow.
        lines: in the scale of ``base``.
        shares: (K, C, 3) by feature and class of gaps, see ``lines.gap_classes``.
    """

    name = "delivered"
    whole_series = True

    def __init__(
        self, base: GaussianImputer, network: GenerativeImputer | None, lines: Lines, shares: np.ndarray
    ) -> None:
        self.base, self.network, self.lines, self.shares = base, network, lines, shares
        self.features_: tuple[Feature, ...] = (network or base).features_
        self.scaler_: Standardizer = (network or base).scaler_
        self.time_step_, self.time_unit_ = base.time_step_, base.time_unit_
        self.regular_, self.n_steps_, self.no_data_ = base.regular_, base.n_steps_, base.no_data_

    @property
    def method(self) -> str:
        """The methods that have a share."""
        has = [bool(self.shares[..., method].any()) for method in range(len(METHODS))]
        names = [self.base.method, "" if self.network is None else self.network.method, "linear interpolation"]
        return "draws of " + " and ".join(name for name, some in zip(names, has, strict=True) if some)

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
            yield Samples(values, record.shown, record.features, record.record_ids)

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
        shares = self.shares[np.arange(n_own)[:, None], gap_classes(np.isnan(known))]
        chosen = chosen_of(n_samples, shares.reshape(-1, 3)).reshape(n_samples, *known.shape)
        own = _own(record, n_own)
        streams = [self.base.impute_long(own, n_samples, seed, None if fill is None else fill[:, :n_own])]
        n_network = int((chosen == NETWORK).any((1, 2)).sum())
        if self.network is not None and n_network:
            began = replace(record, times=record.times - record.times[:, :1])
            streams.append(self.network.impute_long(began, n_network, seed, fill, progress=progress))
        lines = self._lines(record, known, times, n_samples, seed) if (chosen == LINES).any() else None
        for steps, (of_base, *of_network) in _aligned(streams):
            here, values = chosen[..., steps], of_base.values[in_pairs(n_samples), 0]
            if of_network:
                drawn = of_network[0].values[:, 0, :n_own]
                values[:n_network] = np.where(here[:n_network] == NETWORK, drawn, values[:n_network])
            if lines is not None:
                values = np.where((here == LINES) & ~np.isnan(values), lines[..., steps], values)
            yield steps, self._completed(record.steps(steps), values)
        progress(1.0)

    def save(self, path: Path, also: Mapping[str, Any] | None = None) -> None:
        """See ``TableModel``."""
        weights: dict[str, torch.Tensor] = {}
        about: dict[str, Any] = {
            "imputer": "mixture", "lines": self.lines.to_dict(), "shares": self.shares.tolist(), "network": None,
        }  # fmt: skip
        for name, model in zip(_PARTS, (self.base, self.network), strict=True):
            if model is not None:
                own, about[name] = model.parts()
                weights |= {f"{name}.{key}": of_one for key, of_one in own.items()}
        write_model(Path(path), weights, {**(also or {}), **about})

    @classmethod
    def from_file(cls, path: Path, weights: Mapping[str, torch.Tensor], about: Mapping[str, Any]) -> Self:
        """What ``checkpoints.read_model`` read from ``path``."""
        try:
            of_parts = [
                {key.removeprefix(f"{name}."): of_one for key, of_one in weights.items() if key.startswith(f"{name}.")}
                for name in _PARTS
            ]
            base = GaussianImputer.from_file(path, of_parts[0], about["gaussian"])
            network = about["network"] and GenerativeImputer.from_file(path, of_parts[1], about["network"])
            return cls(base, network, Lines.from_dict(about["lines"]), np.array(about["shares"]))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            if isinstance(error, CheckpointError):
                raise
            reason = " ".join(str(error).split())[:200]
            raise CheckpointError(f"{path}: the model file is damaged or of another layout ({reason}).") from error

    def _lines(self, record: Windows, known: np.ndarray, times: np.ndarray, n_samples: int, seed: int) -> np.ndarray:
        """(S, K, T) in the data's units."""
        rng = np.random.default_rng(derive_seed(seed, "lines", record.record_ids[0]))
        scaler = self.base.scaler_
        return scaler.inverse(self.lines.draws(scaler.transform(known), times, n_samples, rng))

    def _completed(self, record: Windows, values: np.ndarray) -> Samples:
        given = np.repeat(record.values[:, len(self.base.features_) :], len(values), 0)
        values = np.concatenate([values, given], 1).astype(record.values.dtype)
        values[:, record.shown[0]] = record.values[0][record.shown[0]]
        return Samples(values[:, None], record.shown, record.features, record.record_ids)


def chosen_of(n_samples: int, shares: np.ndarray) -> np.ndarray:
    """(S, M) which method gives each draw at M cells with (M, 3) shares: the network first, then lines, the process."""
    at = (np.arange(n_samples)[:, None] + 0.5) / n_samples
    of_network = shares[:, NETWORK]
    of_lines = of_network + shares[:, LINES]
    return np.where(at < of_network, NETWORK, np.where(at < of_lines, LINES, GAUSSIAN))


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
    values, shown = samples.values[..., start:stop], samples.shown[..., start:stop]
    return Samples(values, shown, samples.features, samples.record_ids)
