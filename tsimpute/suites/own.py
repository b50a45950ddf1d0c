"""A user's own imputer out of one file: a class, something that gives one, or two plain functions."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import random
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import numpy as np
import torch

from tsimpute.core.windows import Windows
from tsimpute.errors import ConfigError, DataError, TsimputeError
from tsimpute.imputers.base import Imputer
from tsimpute.imputers.shared.standardised import StandardisedImputer
from tsimpute.tasks.missingness import global_generators_kept


def is_own(imputer: str) -> bool:
    """Whether a name is that of a file, as "my_imputer.py" or "my_imputer.py:MyImputer"."""
    return imputer.partition(":")[0].endswith(".py")


def own_imputer(path: Path, name: str, options: Mapping[str, Any], seed: int = 0) -> Imputer:
    """What a file of the user's gives; the file is run, as its owner asked for.

    Args:
        path: of the file; modules beside it can be imported by it, and are loaded anew each time.
        name: of a class or function of it that gives an imputer, called with the options; "" makes one of its
            functions ``draw`` and, if there is one, ``learn``: see ``FunctionImputer``.
        options: of the class or the functions.
        seed: of training, for what takes one and is not given one.

    Raises:
        ConfigError: no such file, the names are not in it, or what it gives is no imputer.
    """
    module = _run(path)
    if not name:
        return FunctionImputer(path.stem, getattr(module, "draw", None), getattr(module, "learn", None), options, seed)
    maker: Callable[..., Imputer] | None = getattr(module, name, None)
    if not callable(maker):
        raise ConfigError(f"suite: imputer: {path} has no {name!r}; name a class or function of it after the colon.")
    seeded = {"seed": seed} if "seed" in _keywords(maker)[0] else {}
    made = maker(**seeded | dict(options))
    lacks = [attribute for attribute in ("name", "fit", "impute", "save") if not hasattr(made, attribute)]
    if lacks:
        raise ConfigError(f"suite: imputer: {path}, {name}: expected an imputer, this one has no {', '.join(lacks)}.")
    return made


class FunctionImputer(StandardisedImputer):
    """Two functions that know arrays only; scaling, seeds by record, shown cells and units are taken care of.

    Args:
        name: what tables call it.
        draw: ``draw(known, times, n_samples, rng, learnt, **options)`` with one record: ``known`` (K, L) standardised,
            NaN where nothing is shown; ``times`` (L,); a numpy Generator of the record's own; what ``learn`` gave. It
            gives back ``n_samples`` completed versions (S, K, L), or one answer (K, L).
        learn: ``learn(known, times, **options)`` with the training records (N, K, L) and (N, L), and ``rng=`` where it
            takes one: gives back arrays by name. None = there is nothing to learn.
        options: keyword arguments, each for the function that takes it.
        seed: of the generator of ``learn``.
    """

    def __init__(
        self,
        name: str,
        draw: Callable[..., Any] | None,
        learn: Callable[..., Mapping[str, Any]] | None = None,
        options: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        if not callable(draw):
            raise ConfigError(
                f"suite: imputer {name!r}: expected a function draw(known, times, n_samples, rng, learnt) in the file, "
                "came none. Write one, or name a class of the file after a colon."
            )
        self.name, self.draw, self.learn, self.seed = name, draw, learn, seed  # type: ignore[misc]
        self.options = dict(options or {})
        takes = [_keywords(function) for function in (draw, learn) if function is not None]
        unknown = [key for key in self.options if not any(key in names or all_of_them for names, all_of_them in takes)]
        if unknown:
            raise ConfigError(f"suite: imputer {name!r}: neither draw nor learn takes an option {unknown[0]!r}.")

    @classmethod
    def load(cls, path: Path) -> NoReturn:
        raise ConfigError(
            f"{path}: functions are not in the file. Make the imputer of their own file and fit it again."
        )

    def _settings(self) -> dict[str, Any]:
        return {"options": {key: repr(value) for key, value in self.options.items()}}

    def _learn(self, known: np.ndarray, train: Windows) -> dict[str, np.ndarray]:
        if self.learn is None:
            return {}
        given: dict[str, Any] = {"rng": np.random.default_rng(self.seed)} if "rng" in _keywords(self.learn)[0] else {}
        learnt = self.learn(known, train.times.copy(), **given, **self._options_of(self.learn))
        if not isinstance(learnt, Mapping) or not all(isinstance(key, str) for key in learnt):
            raise DataError(f"{self.name}: learn: expected arrays by name, came {type(learnt).__name__}.")
        arrays = {f"learnt_{key}": np.array(value) for key, value in learnt.items()}
        for key, array in arrays.items():
            if array.dtype.kind not in "biufU":
                raise DataError(
                    f"{self.name}: learn: expected arrays of numbers, {key.removeprefix('learnt_')} has {array.dtype}."
                )
            array.setflags(write=False)  # a record must not leave anything behind for the next one
        return arrays

    def _draw(self, known: np.ndarray, times: np.ndarray, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        learnt = {key.removeprefix("learnt_"): array for key, array in self.learnt_.items()}
        options = self._options_of(self.draw)
        draws = np.asarray(self.draw(known.copy(), times.copy(), n_samples, rng, learnt, **options))
        if draws.shape == known.shape:
            draws = np.repeat(draws[None], n_samples, 0)
        if draws.shape != (n_samples, *known.shape) or draws.dtype.kind not in "biuf":
            raise DataError(
                f"{self.name}: draw: expected numbers {(n_samples, *known.shape)} (samples, features, steps) or one "
                f"answer {known.shape}, came {draws.dtype} {draws.shape}."
            )
        if not np.isfinite(draws[:, np.isnan(known)]).all():
            raise DataError(f"{self.name}: draw: expected a number at every cell that is not shown, came NaN or inf.")
        return np.where(np.isnan(known), draws, known)

    def _options_of(self, function: Callable[..., Any]) -> dict[str, Any]:
        names, all_of_them = _keywords(function)
        return {key: value for key, value in self.options.items() if all_of_them or key in names}


@contextmanager
def global_seeds(seed: int) -> Iterator[None]:
    """Global generators begin at ``seed`` and are put back afterwards: what draws from them repeats itself.

    So are torch's default dtype, numpy's handling of errors and the working folder.
    """
    python, dtype, errors, folder = random.getstate(), torch.get_default_dtype(), np.geterr(), os.getcwd()
    try:
        with global_generators_kept():
            random.seed(seed)
            np.random.seed(seed % 2**32)  # noqa: NPY002
            torch.default_generator.manual_seed(seed)
            yield
    finally:
        random.setstate(python)
        torch.set_default_dtype(dtype)
        np.seterr(**errors)
        os.chdir(folder)


def with_source(error: BaseException, path: Path) -> TsimputeError:
    """An error of a user's own code, with the line of the file where it happened."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).resolve() == path.resolve()]
    where = f"{path}, line {lines[-1]}" if lines else str(path)
    return TsimputeError(f"{where}: {type(error).__name__}: {error}")


def _keywords(function: Callable[..., Any]) -> tuple[set[str], bool]:
    """Names that can be given by keyword, and whether any can."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return set(), False
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return {p.name for p in parameters if p.kind in kinds}, any(p.kind is p.VAR_KEYWORD for p in parameters)


def files_of(path: Path) -> list[Path]:
    """A file and what stands beside it and is imported by name in it or in these: what its numbers depend on."""
    found, left = [], [path]
    while left:
        file = left.pop()
        if file in found:
            continue
        found.append(file)
        for name in _imported(file):
            if (beside := path.parent / f"{name}.py").is_file():
                left.append(beside)
            elif (path.parent / name / "__init__.py").is_file():
                left += sorted((path.parent / name).rglob("*.py"))
    return found


def _imported(file: Path) -> list[str]:
    """First parts of the names of imported modules; none where the file is no Python, which is told when it is run."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return []
    found = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    found += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    return sorted({name.partition(".")[0] for name in found})


_BESIDE: set[str] = set()
"""Names of modules that own files have imported from beside them."""


def _run(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"_suite_{path.stem}", path) if path.is_file() else None
    if spec is None or spec.loader is None:
        raise ConfigError(
            "suite: imputer: expected a file of Python, as my_imputer.py or my_imputer.py:MyImputer; no file "
            f"{str(path)!r}."
        )
    module = importlib.util.module_from_spec(spec)
    beside = path.resolve().parent
    for name in _BESIDE:  # another file may have helpers of the same names
        sys.modules.pop(name, None)
    _BESIDE.clear()
    before = set(sys.modules)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    sys.path.insert(0, str(beside))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise with_source(error, path) from error
    finally:
        sys.path.remove(str(beside))
        _BESIDE.update(name for name in set(sys.modules) - before if _stands_in(beside, name))
    return module


def _stands_in(folder: Path, name: str) -> bool:
    """Whether a module is a file of the folder, or of a package there."""
    file, top = getattr(sys.modules[name], "__file__", None), name.partition(".")[0]
    return file is not None and (Path(file) == folder / f"{top}.py" or folder / top in Path(file).parents)
