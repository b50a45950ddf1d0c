"""What imputers of one record at a time share: standardised shown cells in, draws from the record's own seed out."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Feature, Samples, Windows
from tsimpute.errors import CheckpointError, ConfigError, DataError, MissingExtraError, NotFittedError
from tsimpute.imputers.shared.records import cells_asked, collected, completed
from tsimpute.models.array_files import read_model, write_model
from tsimpute.scaling.standardizer import Standardizer

_LEAST, _RATE, _MOST = 20, 0.1, 0.3


class StandardisedImputer:
    """Learns from standardised visible cells only, and imputes one record at a time.

    The constructor keeps each argument as an attribute of its name.

    Attributes:
        features_: names and units seen in ``fit``.
        scaler_: fitted on the shown training cells.
        learnt_: arrays by name, all that ``impute`` needs beside these.
    """

    name: ClassVar[str]

    features_: tuple[Feature, ...]
    scaler_: Standardizer
    learnt_: dict[str, np.ndarray]

    @property
    def no_data_(self) -> tuple[str, ...]:
        """Names of the features without a shown training cell; their gaps are filled around 0."""
        return tuple(f.name for f, never in zip(self.features_, self.scaler_.never_shown, strict=True) if never)

    def fit(self, train: Windows, valid: Windows | None = None) -> Self:
        """Learns from the shown cells of ``train``; ``valid`` is not needed.

        Raises:
            DataError: ``train`` shows no cell at all, or see the class.
            MissingExtraError: the package that it is made of is not installed.
        """
        if not train.visible.any():
            raise DataError("train: expected at least one shown cell, came none. Are all values missing or held out?")
        scaler = Standardizer.fit(train)
        learnt = self._learn(scaler.transform(train.known), train)
        self.features_, self.scaler_, self.learnt_ = train.features, scaler, learnt
        return self

    def impute(self, windows: Windows, n_samples: int, seed: int = 0, fill: np.ndarray | None = None) -> Samples:
        cells = cells_asked(self, windows, n_samples, fill)
        self._check(windows)
        all_draws = self._draws(self.scaler_.transform(windows.known), windows, n_samples, seed)
        records = (
            completed(windows.select([n]), self.scaler_, draws[:, None], cells[[n]])
            for n, draws in enumerate(all_draws)
        )
        return collected(records, windows, n_samples, progress=False)

    def save(self, path: Path) -> None:
        if not hasattr(self, "features_"):
            raise NotFittedError(f"imputer {self.name!r}: expected fit before save.")
        header = {
            "imputer": self.name,
            "settings": self._settings(),
            "features": [[f.name, f.unit, f.given] for f in self.features_],
            "scaler": self.scaler_.to_dict(),
        }
        write_model(Path(path), header, self.learnt_)

    @classmethod
    def load(cls, path: Path) -> Self:
        header, arrays = read_model(Path(path), cls.name)
        try:
            imputer = cls(**header["settings"])
            imputer.features_ = tuple(Feature(*pair) for pair in header["features"])
            imputer.scaler_ = Standardizer.from_dict(header["scaler"])
            imputer.learnt_ = {name: arrays[name] for name in cls._LEARNT}
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path}: the file is damaged: {error}. Fit and save again.") from error
        return imputer

    def _settings(self) -> dict[str, Any]:
        """The constructor's arguments, as the file holds them."""
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    _LEARNT: ClassVar[tuple[str, ...]]
    """Names of the arrays that ``_learn`` gives."""

    def _learn(self, known: np.ndarray, train: Windows) -> dict[str, np.ndarray]:
        """From the standardised shown cells (N, K, L), NaN elsewhere."""
        raise NotImplementedError

    def _check(self, windows: Windows) -> None:
        """Refuses records of other steps than those learnt."""

    def _draws(self, known: np.ndarray, windows: Windows, n_samples: int, seed: int) -> Iterator[np.ndarray]:
        """``_draw`` of one record of (N, K, L) after another."""
        for n, record_id in enumerate(windows.record_ids):
            rng = np.random.default_rng(derive_seed(int(seed), record_id))
            yield self._draw(known[n], windows.times[n], n_samples, rng)

    def _draw(self, known: np.ndarray, times: np.ndarray, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """(S, K, L) completed versions of one record (K, L), NaN where it is not shown, with its times (L,)."""
        return np.repeat(self._filled(known, times)[None], n_samples, 0)

    def _filled(self, known: np.ndarray, times: np.ndarray) -> np.ndarray:
        """(K, L) the one answer of a method that does not draw."""
        raise NotImplementedError


def rows_of(known: np.ndarray) -> np.ndarray:
    """(N, K, L) as (N * L, K): a row for each step."""
    return known.transpose(0, 2, 1).reshape(-1, known.shape[1])


def check_counts(**settings: int | None) -> None:
    """Refuses, with a ConfigError, settings that are neither positive integers nor None."""
    for name, count in settings.items():
        if count is not None and (not isinstance(count, int) or count < 1):
            raise ConfigError(f"{name}: expected an integer of at least 1, came {count!r}.")


def optional_module(peer: str, package: str, module: str) -> Any:
    """A module of a package that only one peer needs; a MissingExtraError where it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"peer {peer!r}: expected {package}, came {error}. Install the extra `peers`."
        ) from error


def moved_gaps(known: np.ndarray, seed: int) -> np.ndarray:
    """(N, K, L) bool, cells of ``known`` under its own gaps (NaN), moved by the same time in all features of a record.

    Settings that suit such cells suit the gaps that are to be filled: single cells, long runs or all features at once.
    Where gaps cover more than 30 % of the known cells, they are thinned out; where they cover less than 20 cells,
    10 % of the cells are drawn.
    """
    rng = np.random.default_rng(seed)
    observed = ~np.isnan(known)
    length = known.shape[2]
    hidden = np.zeros_like(observed)
    for n, record in enumerate(observed):
        by = int(rng.integers(length // 4, max(length // 4 + 1, 3 * length // 4)))
        hidden[n] = record & np.roll(~record, by, axis=1)
    if hidden.sum() < _LEAST:
        return observed & (rng.random(observed.shape) < _RATE)
    return hidden & (rng.random(observed.shape) < _MOST * observed.sum() / hidden.sum())
