"""Imputation by one Gaussian process over all features and lags: joint draws, fitted in seconds or minutes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, fields, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import torch

from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Feature, Samples, Windows
from tsimpute.errors import CheckpointError, ConfigError, DataError, NotFittedError
from tsimpute.gaussian.conditioning import Piece
from tsimpute.gaussian.curves import Curves, fit_curves
from tsimpute.gaussian.maps import Records
from tsimpute.gaussian.margins import Margins, Posterior, others_of
from tsimpute.gaussian.model import Regularisation, fit
from tsimpute.gaussian.process import LEAST_SPREAD, GaussianModel, Tails
from tsimpute.imputers.shared.hidden_errors import Networks, learn_margins
from tsimpute.imputers.shared.records import cells_asked, check_steps, collected, completed, usual_step
from tsimpute.models.checkpoints import read_model, write_model
from tsimpute.scaling.standardizer import Standardizer
from tsimpute.system.terminal import Progress, progress_bars

_Options = TypeVar("_Options", Regularisation, Networks)
_CHUNK_BYTES = 64 * 2**20
"""Of samples of a long record that are yielded at once."""


class GaussianImputer:
    """Missing cells given the visible ones under one stationary Gaussian process of K features.

    Values are standardised by a scaler, whose maps keep limits where there are some. Each feature is then mapped
    towards normality and freed of its daily, weekly and yearly profile where it has them. The covariances of all
    features at all lags up to a window's length are learnt from incomplete records by stochastic EM; how far the maps
    go and how the covariances are regularised is chosen on cells that are hidden for it. A draw is one coherent path;
    draws come in pairs that lie symmetrically about the posterior mean, so that the median of an even number of draws
    is the exact posterior median (with ``networks`` nearly). Where features tell each other by a curve and not by a
    line, ``learn_curves`` finds what the posterior mean leaves, and all draws are moved by it. With ``networks``,
    ``fit`` learns within minutes what the process leaves of hidden cells of the training records, and corrects where
    each cell's posterior lies and its shape; see ``gaussian.margins``.

    Args:
        periods: of seasons that may be there, in the unit of the records' times; day, week and year in hours.
        settings: what regularises, also as a mapping; None = chosen in ``fit``. For tables, whose rounds are cheap,
            ``{"n_rounds": 20}``: at 50 % missing, two rounds leave conditional variances up to a third too large.
        seed: of ``fit``.
        networks: how networks that correct the process are trained, also as a mapping, ``{}`` = as usual; None = the
            process alone.

    Attributes:
        features_: names and units seen in ``fit``.
        scaler_: of the scale in which the process works.
        model_: the process.
        curves_: what moves its draws where features tell each other by curves; None = nothing does.
        margins_: networks that correct the draws; None = the process alone.
        chosen_: the settings that were used; not kept in files.
        ignores_valid: ``fit`` does not look at validation records, so a fit serves all that train on the same cells.
        time_step_, time_unit_, regular_, n_steps_: see ``TableModel``.
    """

    name = "gaussian"
    sampler = "exact"
    whole_series = True
    ignores_valid = True

    features_: tuple[Feature, ...]
    scaler_: Standardizer
    model_: GaussianModel
    curves_: Curves | None = None
    margins_: Margins | None = None
    chosen_: Regularisation
    time_step_: float
    time_unit_: str | None
    regular_: bool
    n_steps_: int

    def __init__(
        self,
        periods: Sequence[float] = (24.0, 168.0, 8766.0),
        settings: Regularisation | Mapping[str, float] | None = None,
        seed: int = 0,
        networks: Networks | Mapping[str, Any] | None = None,
    ) -> None:
        if not all(period > 0 for period in periods):
            raise ConfigError(f"periods: expected positive lengths of time, came {tuple(periods)}.")
        self.settings = _options(Regularisation, "settings", settings)
        self.networks = _options(Networks, "networks", networks)
        self.periods, self.seed = tuple(map(float, periods)), seed

    @property
    def method(self) -> str:
        """What the process is of, and how many features are moved by curves."""
        n = 0 if self.curves_ is None else len(self.curves_.curves)
        corrected = f", with curves for {n} feature{'s' if n > 1 else ''}" if n else ""
        corrected += ", corrected by networks" if self.margins_ is not None else ""
        what = (
            "Gaussian process over features and lags" if len(self.model_.covariance) > 1 else "Gaussian of the features"
        )
        return f"{what}{corrected}"

    @property
    def no_data_(self) -> tuple[str, ...]:
        """Names of the features without a visible training cell; their gaps are filled around 0."""
        return tuple(f.name for f, never in zip(self.features_, self.scaler_.never_shown, strict=True) if never)

    def fit(
        self,
        train: Windows,
        valid: Windows | None = None,
        *,
        scaler: Standardizer | None = None,
        progress: Progress = "auto",
    ) -> Self:
        """Learns from the visible cells of ``train``; ``valid`` is not needed.

        Args:
            scaler: None = fitted on the visible cells of ``train``.
            progress: as of ``tsimpute.system.terminal.progress_bars``.

        Raises:
            DataError: ``train`` shows no cell at all.
        """
        if not train.visible.any():
            raise DataError("train: expected at least one visible cell, came none. Are all values missing or held out?")
        step, regular = usual_step(train)
        records = Records(tuple(train.known.astype(np.float64)), tuple(train.times.astype(np.float64)), step)
        bars = {"fitting": "round"} | ({} if self.networks is None else {"posteriors": "mask", "networks": "step"})
        with progress_bars(progress, bars) as tell:
            self.fit_records(
                records, train.features, scaler or Standardizer.fit(train), regular=regular,
                for_others=True, progress=lambda done, total: tell("fitting", done, total),
            )  # fmt: skip
            if self.networks is not None:
                networks, features = self.networks, self.features_
                del self.features_  # until all is learnt, it is not fitted
                self.margins_ = learn_margins(train, self.scaler_, self.model_, self.chosen_, networks, self.seed, tell)
                self.features_ = features
        if self.margins_ is not None:  # they have learnt the tails as well
            self.model_ = replace(self.model_, tails=Tails.normal(len(self.features_)))
        return self

    def fit_records(
        self,
        records: Records,
        features: Sequence[Feature],
        scaler: Standardizer,
        *,
        regular: bool,
        time_unit: str | None = None,
        for_others: bool = False,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Self:
        """``fit`` of records of any lengths, with times from one origin.

        Args:
            regular: whether all records keep to one step.
            for_others: see ``gaussian.model.fit``.
            progress: called with rounds done and their number.
        """
        scaled = replace(records, values=tuple(map(scaler.transform, records.values)))
        reported: list[Regularisation] = []
        model = fit(
            scaled, self.periods, self.settings, self.seed, progress, for_others=for_others,
            tell_settings=reported.append,
        )  # fmt: skip
        self.chosen_ = reported[0]
        lengths = {len(times) for times in records.times}
        self.features_, self.scaler_, self.model_ = tuple(features), scaler, model
        self.curves_ = self.margins_ = None
        self.time_step_, self.time_unit_, self.regular_ = records.step, time_unit, regular
        self.n_steps_ = lengths.pop() if len(lengths) == 1 else 0
        return self

    def learn_curves(self, records: Records) -> Self:
        """Looks for what the process leaves of the records that it was fitted to; see ``gaussian.curves``.

        Raises:
            ConfigError: networks correct the process already.
        """
        if self.margins_ is not None:
            raise ConfigError("learn_curves: expected a process alone, came one that networks correct.")
        scaled = replace(records, values=tuple(map(self.scaler_.transform, records.values)))
        self.curves_ = fit_curves(self.model_, scaled, self.seed)
        return self

    @property
    def curved(self) -> frozenset[int]:
        """The features that have a curve, by their index."""
        return frozenset() if self.curves_ is None else self.curves_.features

    def impute(
        self,
        windows: Windows,
        n_samples: int,
        seed: int = 0,
        fill: np.ndarray | None = None,
        *,
        progress: Progress = "auto",
    ) -> Samples:
        """See ``Imputer``; ``progress`` as of ``tsimpute.system.terminal.progress_bars``."""
        return collected(self.impute_records(windows, n_samples, seed, fill), windows, n_samples, progress)

    def impute_records(
        self, windows: Windows, n_samples: int, seed: int = 0, fill: np.ndarray | None = None
    ) -> Iterator[Samples]:
        """The result of ``impute``, one record after another; bad arguments are refused before any work is done."""
        cells = self._cells(windows, n_samples, fill)

        def impute_record(n: int) -> Samples:
            record = windows.select([n])
            ((_, draws),) = self._pieces(record, n_samples, seed, record.n_steps)
            return completed(record, self.scaler_, draws[:, None], cells[[n]])

        return map(impute_record, range(len(windows)))

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
        cells = self._cells(record, n_samples, fill)
        if len(record) != 1:
            raise ConfigError(f"impute_long: expected 1 record, came {len(record)}.")
        if not cells.any():
            return
        steps_at_once = max(1, _CHUNK_BYTES // (8 * n_samples * record.n_features))
        for steps, draws in self._pieces(record, n_samples, seed, steps_at_once):
            progress(steps.stop / record.n_steps)
            queried = cells[..., steps]
            if queried.any():
                yield steps, completed(record.steps(steps), self.scaler_, draws[:, None], queried)

    def save(self, path: Path, also: Mapping[str, Any] | None = None) -> None:
        """See ``TableModel``."""
        arrays, description = self.parts()
        write_model(Path(path), arrays, {**(also or {}), **description})

    def parts(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """The arrays and the description that a model file holds."""
        if not hasattr(self, "features_"):
            raise NotFittedError(f"imputer {self.name!r}: expected fit before save.")
        description = {
            "imputer": self.name,
            "settings": self._arguments(),
            "features": [astuple(feature)[: 2 + feature.given] for feature in self.features_],
            "scaler": self.scaler_.to_dict(),
            "time_step": self.time_step_,
            "time_unit": self.time_unit_,
            "regular": self.regular_,
            "n_steps": self.n_steps_,
            "versions": {name: version(name) for name in ("numpy", "scipy")},
        }
        arrays = self.model_.to_arrays()
        for part in (self.curves_, self.margins_):
            arrays |= {} if part is None else part.to_arrays()
        return {name: torch.tensor(array) for name, array in arrays.items()}, description

    def _arguments(self) -> dict[str, Any]:
        """Those of ``__init__``, for a file."""
        settings, networks = (None if x is None else asdict(x) for x in (self.settings, self.networks))
        return {"periods": self.periods, "settings": settings, "seed": self.seed, "networks": networks}

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads what ``save`` wrote; runs no code from the file."""
        weights, description = read_model(Path(path))
        return cls.from_file(Path(path), weights, description)

    @classmethod
    def from_file(cls, path: Path, weights: Mapping[str, torch.Tensor], description: Mapping[str, Any]) -> Self:
        """What ``read_model`` read from ``path``."""
        if description.get("imputer") != cls.name:
            raise CheckpointError(f"{path}: expected a model of imputer {cls.name!r}, came another one.")
        try:
            imputer = cls(**description["settings"])
            imputer.features_ = tuple(Feature(*feature) for feature in description["features"])
            imputer.scaler_ = Standardizer.from_dict(description["scaler"])
            arrays = {name: array.numpy() for name, array in weights.items()}
            imputer.model_, imputer.curves_ = GaussianModel.from_arrays(arrays), Curves.from_arrays(arrays)
            imputer.margins_ = Margins.from_arrays(arrays)
            imputer.time_step_, imputer.time_unit_ = description["time_step"], description["time_unit"]
            imputer.regular_, imputer.n_steps_ = description["regular"], description["n_steps"]
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise CheckpointError(f"{path}: the model file is damaged or of another layout ({reason}).") from error
        return imputer

    def _cells(self, windows: Windows, n_samples: int, fill: np.ndarray | None) -> np.ndarray:
        cells = cells_asked(self, windows, n_samples, fill)
        if self.regular_:
            check_steps(windows, self.time_step_)
        return cells

    def _pieces(
        self, record: Windows, n_samples: int, seed: int, steps_at_once: int
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Steps and their draws (S, K, steps), standardised, at least so many steps at once but for the last ones.

        They are pairs about the mean, and one more draw where their number is odd.
        """
        rng = np.random.default_rng(derive_seed(int(seed), record.record_ids[0]))
        times = record.times[0].astype(np.float64)
        known = self.scaler_.transform(record.known[0].astype(np.float64))
        first, parts, draws_of = 0, [], self._shaped(known, times)
        for piece in self.model_.posterior_pieces(known, times, -(-n_samples // 2), rng):
            parts.append(draws_of(piece)[:n_samples])
            steps = slice(first, piece.steps.stop)
            if steps.stop - first >= steps_at_once or steps.stop == record.n_steps:
                yield steps, self.model_.values(np.concatenate(parts, -1), times[steps])
                first, parts = steps.stop, []

    def _shaped(self, known: np.ndarray, times: np.ndarray) -> Callable[[Piece], np.ndarray]:
        """From pieces of one record (K, T) to draws in scores, pairs of which lie on either side of a centre."""
        if self.margins_ is not None:
            gaps, (mean, spread) = np.isnan(known), self.model_.marginals(known, times)
            mean = np.where(gaps, mean, self.model_.scores(known, times))
            spread = np.where(gaps, np.maximum(spread, LEAST_SPREAD), 0.0)
            posterior = Posterior(mean, spread, ~gaps, others_of(self.model_.covariance[0]))
            return partial(self.margins_.draws, posterior)
        if self.curves_ is None:
            return lambda piece: np.concatenate([piece.mean + piece.deviations, piece.mean - piece.deviations])
        moves, factors = self.curves_.moves(*self.model_.marginals(known, times), times)

        def moved(piece: Piece) -> np.ndarray:
            mean, deviations = piece.mean + moves[:, piece.steps], piece.deviations * factors[:, piece.steps]
            return np.concatenate([mean + deviations, mean - deviations])

        return moved


def _options(kind: type[_Options], name: str, given: _Options | Mapping[str, Any] | None) -> _Options | None:
    """An instance of a dataclass of options, which may be given as a mapping."""
    if given is None or isinstance(given, kind):
        return given
    known = [field.name for field in fields(kind)]
    if not isinstance(given, Mapping):
        raise ConfigError(f"{name}: expected a mapping with some of {', '.join(known)}, or None; came {given!r}.")
    if unknown := sorted(str(key) for key in set(given) - set(known)):
        raise ConfigError(f"{name}: expected some of {', '.join(known)}; came {', '.join(unknown)}.")
    return kind(**given)


PLUGIN = GaussianImputer
