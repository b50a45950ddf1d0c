"""A user's own imputer out of one file: a class, something that gives one, or two plain functions."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

from tsimpute.containers import Windows
from tsimpute.errors import ConfigError, DataError
from tsimpute.imputers.base import Imputer
from tsimpute.peers._standardised import StandardisedPeer


def is_own(imputer: str) -> bool:
    """Whether a name is that of a file, as "my_imputer.py" or "my_imputer.py:MyImputer"."""
    return imputer.partition(":")[0].endswith(".py")


def own_imputer(imputer: str, options: Mapping[str, Any]) -> Imputer:
    """What a file of the user's gives; the file is run, as its owner asked for.

    Args:
        imputer: "file.py:name" calls ``name(**options)``, a class or function that gives an imputer; "file.py" makes
            one of its functions ``draw`` and, if there is one, ``learn``: see ``FunctionImputer``.
        options: of the class or the functions.

    Raises:
        ConfigError: no such file, or the names are not in it.
    """
    path, _, name = imputer.partition(":")
    module = _run(Path(path))
    if not name:
        return FunctionImputer(Path(path).stem, getattr(module, "draw", None), getattr(module, "learn", None), options)
    maker: Callable[..., Imputer] | None = getattr(module, name, None)
    if maker is None:
        raise ConfigError(f"suite: imputer: {path} has no {name!r}; name a class or function of it after the colon.")
    return maker(**options)


class FunctionImputer(StandardisedPeer):
    """Two functions that know arrays only; scaling, seeds by record, shown cells and units are taken care of.

    Args:
        name: what tables call it.
        draw: ``draw(known, times, n_samples, rng, learnt, **options)`` with one record: ``known`` (K, L) standardised,
            NaN where nothing is shown; ``times`` (L,); a numpy Generator of the record's own; what ``learn`` gave. It
            gives back ``n_samples`` completed versions (S, K, L), or one answer (K, L).
        learn: ``learn(known, times, **options)`` with the training records (N, K, L) and (N, L): gives back arrays by
            name. None = there is nothing to learn.
        options: keyword arguments of both.
    """

    def __init__(
        self,
        name: str,
        draw: Callable[..., np.ndarray] | None,
        learn: Callable[..., Mapping[str, Any]] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if not callable(draw):
            raise ConfigError(
                f"suite: imputer {name!r}: expected a function draw(known, times, n_samples, rng, learnt) in the file, "
                "came none. Write one, or name a class of the file after a colon."
            )
        self.name, self.draw, self.learn, self.options = name, draw, learn, dict(options or {})  # type: ignore[misc]

    @classmethod
    def load(cls, path: Path) -> NoReturn:
        raise ConfigError(
            f"{path}: functions are not in the file. Make the imputer of their own file and fit it again."
        )

    def _settings(self) -> dict[str, Any]:
        return {"options": self.options}

    def _learn(self, known: np.ndarray, train: Windows) -> dict[str, np.ndarray]:
        learnt = {} if self.learn is None else self.learn(known, train.times, **self.options)
        if not isinstance(learnt, Mapping):
            raise DataError(f"{self.name}: learn: expected arrays by name, came {type(learnt).__name__}.")
        return {key: np.asarray(value) for key, value in learnt.items()}

    def _draw(self, known: np.ndarray, times: np.ndarray, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        draws = np.asarray(self.draw(known.copy(), times.copy(), n_samples, rng, dict(self.learnt_), **self.options))
        if draws.shape == known.shape:
            draws = np.repeat(draws[None], n_samples, 0)
        if draws.shape != (n_samples, *known.shape):
            raise DataError(
                f"{self.name}: draw: expected {(n_samples, *known.shape)} (samples, features, steps) or one answer "
                f"{known.shape}, came {draws.shape}."
            )
        if not np.isfinite(draws[:, np.isnan(known)]).all():
            raise DataError(f"{self.name}: draw: expected a number at every cell that is not shown, came NaN or inf.")
        return draws


def _run(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"_suite_{path.stem}", path) if path.is_file() else None
    if spec is None or spec.loader is None:
        raise ConfigError(
            "suite: imputer: expected a file of Python, as my_imputer.py or my_imputer.py:MyImputer; no file "
            f"{str(path)!r}."
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module
