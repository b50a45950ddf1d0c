"""Draws of several imputers in one sample: a linear opinion pool (Stone 1961)."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from tsimpute.config import registry
from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Feature, Samples, Windows
from tsimpute.errors import CheckpointError, ConfigError, NotFittedError
from tsimpute.imputers.base import Imputer
from tsimpute.imputers.shared.records import cells_asked, check_features
from tsimpute.models.checkpoints import read_model, write_model


class LinearPoolImputer:
    """Of S draws of a record, each member gives its share; each draw is a whole completed record of one member.

    So the distribution of a cell is that of the members, weighted by their shares. Its CRPS is at most the weighted
    mean of theirs, and is below the best of them where their errors differ enough; its variance is at least the
    weighted mean of theirs (Gneiting and Ranjan 2013).

    Args:
        members: at least two: names of imputers, mappings as ``{"imputer": "gaussian", "options": {"seed": 1}}``, or
            instances.
        shares: of the members, positive numbers; they are divided by their sum. None = equal ones.
        seed: of the fits: members that have a seed among their options, and are given none, get this one and the next.

    Attributes:
        members_: the fitted members.
        features_: names and units seen in ``fit``.
    """

    name = "linear_pool"

    members_: tuple[Imputer, ...]
    features_: tuple[Feature, ...]

    def __init__(self, members: Sequence[Any] = (), shares: Sequence[float] | None = None, seed: int = 0) -> None:
        if not isinstance(members, list | tuple) or len(members) < 2:
            raise ConfigError(f"linear_pool: members: expected a list of at least two imputers, came {members!r}.")
        self.members, self.seed = tuple(members), seed
        self.shares = None if shares is None else _numbers(shares, len(members))

    @classmethod
    def of(cls, fitted: Sequence[Imputer], shares: Sequence[float] | None = None) -> Self:
        """The pool of imputers that are fitted already.

        Raises:
            NotFittedError: none says what it was fitted to.
            DataError: they were fitted to other features or units.
        """
        pool = cls(fitted, shares)
        known = [tuple(getattr(member, "features_", ())) for member in fitted]
        known = [features for features in known if features]
        if not known:
            raise NotFittedError(f"linear_pool: expected fitted members, came {', '.join(map(_title, fitted))}.")
        for features in known:
            check_features(known[0], features)
        pool.members_, pool.features_ = pool.members, known[0]
        return pool

    @property
    def ignores_valid(self) -> bool:
        """Whether no member's ``fit`` looks at validation records."""
        return all(getattr(member, "ignores_valid", False) for member in getattr(self, "members_", ()))

    @property
    def no_data_(self) -> tuple[str, ...]:
        """Names of the features without a visible training cell, of any member."""
        named = {name for member in self.members_ for name in getattr(member, "no_data_", ())}
        return tuple(feature.name for feature in self.features_ if feature.name in named)

    def fit(self, train: Windows, valid: Windows | None = None) -> Self:
        """Fits each member on copies of the records, so that none sees what another one does to them."""
        fitted = []
        for i, member in enumerate(self.members):
            member = _made(member, self.seed + i)
            fitted.append(member.fit(train.select(slice(None)), None if valid is None else valid.select(slice(None))))
        self.members_, self.features_ = tuple(fitted), train.features
        return self

    def impute(self, windows: Windows, n_samples: int, seed: int = 0, fill: np.ndarray | None = None) -> Samples:
        """See ``Imputer``. Any first draws are shared out as all are; a share may come to no draw."""
        cells_asked(self, windows, n_samples, fill)
        turns = self._turns(n_samples)
        values = np.repeat(windows.known[None], n_samples, 0)
        for i, member in enumerate(self.members_):
            mine = np.flatnonzero(turns == i)
            if len(mine):
                samples = member.impute(
                    windows.select(slice(None)), len(mine), derive_seed(int(seed), "member", i), fill
                )
                values[mine] = samples.values
        return Samples(values, windows.visible, windows.features, windows.record_ids)

    def save(self, path: Path) -> None:
        """See ``Imputer``; the members' own files are parts of it.

        Raises:
            ConfigError: the class of a member is not one of this package's imputers, so ``load`` would not find it.
        """
        if not hasattr(self, "members_"):
            raise NotFittedError("imputer 'linear_pool': expected fit before save.")
        names = [_plugin_name(member) for member in self.members_]
        arrays = {}
        with tempfile.TemporaryDirectory() as folder:
            for i, member in enumerate(self.members_):
                part = Path(folder) / f"{i}"
                member.save(part)
                arrays[f"member.{i}"] = torch.frombuffer(bytearray(part.read_bytes()), dtype=torch.uint8)
        write_model(Path(path), arrays, {"imputer": self.name, "members": names, "shares": self.shares})

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads what ``save`` wrote; runs no code from the file."""
        arrays, description = read_model(Path(path))
        if description.get("imputer") != cls.name:
            raise CheckpointError(f"{path}: expected a model of imputer {cls.name!r}, came another one.")
        try:
            with tempfile.TemporaryDirectory() as folder:
                members = []
                for i, name in enumerate(description["members"]):
                    part = Path(folder) / f"{i}"
                    part.write_bytes(arrays[f"member.{i}"].numpy().tobytes())
                    members.append(_class_of(name).load(part))
            return cls.of(members, description["shares"])
        except (LookupError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path}: the model file is damaged or of another layout ({error}).") from error

    def _turns(self, n_samples: int) -> np.ndarray:
        """(S,) the member of each draw: always the one that lags behind its share most."""
        shares = np.ones(len(self.members)) if self.shares is None else np.array(self.shares)
        shares = shares / shares.sum()
        turns, given = np.zeros(n_samples, int), np.zeros(len(shares))
        for s in range(n_samples):
            turns[s] = np.argmax(np.round(shares * (s + 1) - given, 9))
            given[turns[s]] += 1
        return turns


def _numbers(shares: Any, n: int) -> tuple[float, ...]:
    """Shares as numbers; a ConfigError where they are not n positive ones."""
    plain = isinstance(shares, list | tuple | np.ndarray) and len(shares) == n
    if not plain or not all(isinstance(share, int | float | np.number) and 0 < share < np.inf for share in shares):
        raise ConfigError(f"linear_pool: shares: expected {n} positive numbers, came {shares!r}.")
    return tuple(map(float, shares))


def _made(member: Any, seed: int) -> Any:
    """An imputer that is not fitted yet."""
    if isinstance(member, str):
        member = {"imputer": member}
    if not isinstance(member, Mapping):
        return registry.make("imputers", member)
    unknown = sorted(set(member) - {"imputer", "options"})
    options = member.get("options") or {}
    if unknown or "imputer" not in member or not isinstance(options, Mapping):
        raise ConfigError(f"linear_pool: members: expected imputer and options, came {dict(member)!r}.")
    return registry.make_imputer(member["imputer"], options, seed)


def _title(member: Any) -> str:
    return str(getattr(member, "name", type(member).__name__))


def _plugin_name(member: Any) -> str:
    """The name by which a file names the class of a member.

    Raises:
        ConfigError: it is not one of the package's.
    """
    for kind in registry.IMPUTER_KINDS:
        if type(member).__module__.startswith(f"tsimpute.{kind}."):
            return registry.named(kind, type(member))[0]
    raise ConfigError(
        f"linear_pool: save: expected members of this package, came {_title(member)!r} of {type(member).__module__}."
    )


def _class_of(name: Any) -> Any:
    for kind in registry.IMPUTER_KINDS:
        if name in registry.available(kind):
            return registry.plugin(kind, name)
    raise ValueError(f"no imputer {name!r}")


PLUGIN = LinearPoolImputer
