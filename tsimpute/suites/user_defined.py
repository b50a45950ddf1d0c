"""A user's imputer by its import path: a class with the contract of an imputer, or a plain function."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from tsimpute.config.registry import imported, is_import_path, plugin
from tsimpute.core.windows import Windows
from tsimpute.errors import ConfigError, DataError, TsimputeError
from tsimpute.imputers.base import Imputer
from tsimpute.imputers.shared.standardised import StandardisedImputer

_IMPORTED: dict[str, list[bytes]] = {}
"""Contents of files when a module of them was imported, by its import path."""


class AbsentFileError(ConfigError):
    """A file that a method names does not exist."""


@dataclass(frozen=True)
class Plugin:
    """A plug-in that a task or a training names by its import path.

    Attributes:
        folder, files: see ``source_files``.
    """

    kind: str
    name: str
    folder: Path | None
    files: tuple[Path, ...]

    @property
    def digests(self) -> dict[str, str]:
        """SHA-256 of its files by their paths in the folder."""
        return {str(path.relative_to(self.folder or "")): digest_of(path) for path in self.files}


def plugins_of(names: Mapping[str, str], folder: str) -> tuple[Plugin, ...]:
    """Those of the plug-ins, named by kind, that are named by an import path.

    Raises:
        AbsentFileError: see ``source_files``.
    """
    paths = [(kind, name) for kind, name in names.items() if is_import_path(name)]
    return tuple(Plugin(kind, name, *source_files(name, folder, kind)) for kind, name in paths)


def import_plugins(plugins: Iterable[Plugin]) -> None:
    """Runs the modules of plug-ins, as the owner of the suite asked for: model files that name them can then be read.

    Raises:
        ConfigError: see ``user_imputer``.
        TsimputeError: an error of the module itself, with its line.
    """
    for one in plugins:
        try:
            _imported(one.kind, one.name, one.folder, one.files)
            plugin(one.kind, one.name)
        except TsimputeError:
            raise
        except Exception as error:
            raise with_source(error, one.files, one.name) from error


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def source_files(path: str, folder: str, kind: str = "imputer") -> tuple[Path | None, tuple[Path, ...]]:
    """Where the module of an import path is, and its files; None and () for an installed package.

    The files are the module's own, or all Python files of its package. Other modules that it imports are not followed.

    Args:
        path: "module:name" or "package.module:name".
        folder: of the suite, where the module is looked for first, then in the working folder; "" = it has none.
        kind: what is named, for the message.

    Raises:
        AbsentFileError: the module is in none of these places.
    """
    top = path.partition(":")[0].partition(".")[0]
    for place in (Path(folder), Path()):
        file, package = place / f"{top}.py", place / top
        if files := (file,) if file.is_file() else tuple(sorted(package.rglob("*.py"))):
            return place, files
    if not top.isidentifier() or (top not in sys.modules and importlib.util.find_spec(top) is None):
        raise AbsentFileError(
            f"suite: {kind}: expected a file {top}.py next to the suite, or an installed package; came {path!r}."
        )
    return None, ()


def user_imputer(
    path: str, folder: Path | None, files: Sequence[Path], options: Mapping[str, Any], seed: int = 0
) -> Imputer:
    """The imputer of an import path; its module is run, as the owner of the suite asked for.

    Args:
        path: of a class, called with the options; or of a function, see ``FunctionImputer``, whose ``learn`` is the
            function of that name in the same module, if there is one.
        folder, files: see ``source_files``.
        options: of the class or the functions.
        seed: of training, for what takes one and is not given one.

    Raises:
        ConfigError: nothing is there, it is no imputer, or another module of that name was imported before.
    """
    target = _imported("imputers", path, folder, files)
    if inspect.isfunction(target):
        name = path.partition(":")[0]
        return FunctionImputer(name, target, getattr(sys.modules[name], "learn", None), options, seed)
    seeded = {"seed": seed} if "seed" in _keywords(target)[0] else {}
    return plugin("imputers", path)(**seeded | dict(options))


def _imported(kind: str, path: str, folder: Path | None, files: Sequence[Path]) -> Any:
    """What an import path names, of a module that is made of these files."""
    name = path.partition(":")[0]
    if folder is not None and str(folder.resolve()) not in sys.path:
        sys.path.append(str(folder.resolve()))  # last: a file next to a suite must not replace an installed package
    importlib.invalidate_caches()  # the file may have been written just now
    target = imported(kind, path)
    module = sys.modules[name]
    # Results are stored with the content of ``files``: the module that Python has must be made of it.
    source, contents = module.__file__ or "", [file.read_bytes() for file in files]
    if files and Path(source).resolve() not in [file.resolve() for file in files]:
        raise ConfigError(
            f"suite: {kind}: {path!r}: expected the module in {files[0]}, Python has imported {source} under this "
            "name. Rename the file."
        )
    if files and _IMPORTED.setdefault(source, contents) != contents:
        raise ConfigError(
            f"suite: {kind}: {path!r}: {files[0]} has changed since it was imported. Start Python anew; in a notebook, "
            "the kernel."
        )
    return target


def with_source(error: BaseException, files: Sequence[Path], name: str) -> TsimputeError:
    """An error of a user's code, with the line of the file where it happened."""
    sources = {str(file.resolve()): file for file in files}
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in sources]
    where = f"{sources[frames[-1].filename]}, line {frames[-1].lineno}" if frames else f"imputer {name!r}"
    return TsimputeError(f"{where}: {type(error).__name__}: {error}")


class FunctionImputer(StandardisedImputer):
    """Two functions of arrays. Scaling, seeds by record, observed cells and units are the class's work.

    Args:
        name: of the imputer in messages.
        draw: ``draw(known, times, n_samples, rng, learnt, **options)`` with one record: ``known`` (K, L) standardised,
            NaN where a cell is not observed; ``times`` (L,); a numpy Generator of the record's own; what ``learn``
            returned. It returns ``n_samples`` completed versions (S, K, L), or one (K, L).
        learn: ``learn(known, times, **options)`` with the training records (N, K, L) and (N, L), and ``rng=`` where it
            takes one. It returns arrays by name. None = nothing is learned.
        options: keyword arguments, each for the function that takes it.
        seed: of the generator of ``learn``.
    """

    def __init__(
        self,
        name: str,
        draw: Callable[..., Any],
        learn: Callable[..., Mapping[str, Any]] | None = None,
        options: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        self.name, self.draw, self.learn, self.seed = name, draw, learn, seed  # type: ignore[misc]
        self.options = dict(options or {})
        takes = [_keywords(function) for function in (draw, learn) if function is not None]
        unknown = [key for key in self.options if not any(key in names or takes_any for names, takes_any in takes)]
        if unknown:
            raise ConfigError(f"suite: imputer {name!r}: neither draw nor learn takes an option {unknown[0]!r}.")

    @classmethod
    def load(cls, path: Path) -> NoReturn:
        raise ConfigError(
            f"{path}: the file does not contain the functions. Make the imputer of them and fit it again."
        )

    def _settings(self) -> dict[str, Any]:
        return {"options": {key: repr(value) for key, value in self.options.items()}}

    def _learn(self, known: np.ndarray, train: Windows) -> dict[str, np.ndarray]:
        if self.learn is None:
            return {}
        seeded = {"rng": np.random.default_rng(self.seed)} if "rng" in _keywords(self.learn)[0] else {}
        learnt = self.learn(known, train.times.copy(), **seeded, **self._options_of(self.learn))
        if not isinstance(learnt, Mapping) or not all(isinstance(key, str) for key in learnt):
            raise DataError(f"{self.name}: learn: expected arrays by name, came {type(learnt).__name__}.")
        arrays = {f"learnt_{key}": np.array(value) for key, value in learnt.items()}
        for key, array in arrays.items():
            if array.dtype.kind not in "biufU":
                raise DataError(
                    f"{self.name}: learn: expected arrays of numbers, {key.removeprefix('learnt_')} has {array.dtype}."
                )
            array.setflags(write=False)  # a record must not leave anything for the next one
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
        names, takes_any = _keywords(function)
        return {key: value for key, value in self.options.items() if takes_any or key in names}


def _keywords(function: Callable[..., Any]) -> tuple[set[str], bool]:
    """Names that can be given by keyword, and whether any can."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return set(), False
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return {p.name for p in parameters if p.kind in kinds}, any(p.kind is p.VAR_KEYWORD for p in parameters)
