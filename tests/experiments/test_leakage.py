"""An imputer that peeks is found out, wherever it peeks; those that do not, pass."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tsimpute.config.settings import NetworkConfig, ProcessConfig, TrainingConfig
from tsimpute.core.windows import Samples, Windows
from tsimpute.errors import DataError
from tsimpute.experiments.leakage import NO_LEAK, leakage_of, leakage_of_filling, scaler_moves
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.imputers.simple import LinearImputer, MeanImputer
from tsimpute.tasks.protocols import clean, csdi
from tsimpute.tasks.task import Task


@pytest.fixture
def task(small_windows: Windows) -> Task:
    n = 5
    many = Windows(
        np.concatenate([small_windows.values + i for i in range(n)]),
        np.tile(small_windows.times, (n, 1)),
        small_windows.features,
        tuple(f"{i}-{name}" for i in range(n) for name in small_windows.record_ids),
    )
    return clean(many, rate=0.3, seed=0)


class PeeksInTraining(MeanImputer):
    """Learns from all values that are there, held out or not."""

    def fit(self, train: Windows, valid: Windows | None = None) -> PeeksInTraining:
        super().fit(train, valid)
        self.centre_ = np.nanmean(train.values, (0, 2))
        return self


class PeeksAtValidation(MeanImputer):
    def fit(self, train: Windows, valid: Windows | None = None) -> PeeksAtValidation:
        super().fit(train, valid)
        assert valid is not None
        self.centre_ = self.centre_ + np.nanmean(valid.values)
        return self


class PeeksInFilling(LinearImputer):
    def impute(self, windows: Windows, n_samples: int, seed: int = 0, fill: np.ndarray | None = None) -> Samples:
        return super().impute(replace(windows, held_out=None), n_samples, seed, fill)


class PeeksAtWhatIsPlausible(LinearImputer):
    """Looks at hidden values, but for those that a filter of outliers would take away."""

    def impute(self, windows: Windows, n_samples: int, seed: int = 0, fill: np.ndarray | None = None) -> Samples:
        samples = super().impute(windows, n_samples, seed, fill)
        peeked = np.where(windows.held_out_mask & (np.abs(windows.values) < 2000), windows.values, samples.values)
        return replace(samples, values=peeked)


class NeverTheSame(LinearImputer):
    """Draws that differ at each call."""

    calls = 0

    def impute(self, windows: Windows, n_samples: int, seed: int = 0, fill: np.ndarray | None = None) -> Samples:
        samples = super().impute(windows, n_samples, seed, fill)
        type(self).calls += 1
        noise = np.random.default_rng(self.calls).normal(scale=0.01, size=samples.values.shape)
        return replace(samples, values=np.where(samples.visible, samples.values, samples.values + noise))


class NeverTheSameAndPeeks(NeverTheSame):
    def impute(self, windows: Windows, n_samples: int, seed: int = 0, fill: np.ndarray | None = None) -> Samples:
        samples = super().impute(windows, n_samples, seed, fill)
        peeked = np.where(windows.held_out_mask, windows.values, samples.values)
        return replace(samples, values=peeked)


class SavesNothing(LinearImputer):
    def save(self, path: Path) -> None:
        pass


def test_one_that_saves_no_file_is_told_so(task: Task) -> None:
    with pytest.raises(DataError, match=r"^save\(path\) wrote no file at path; expected one file there") as error:
        leakage_of(SavesNothing, task)
    assert str(error.value).count("wrote no file") == 1


@pytest.mark.parametrize("kind", [MeanImputer, LinearImputer])
def test_honest_imputers_pass(kind: type, task: Task) -> None:
    assert leakage_of(kind, task) == NO_LEAK


@pytest.mark.parametrize("process", ["flow_matching", "diffusion"])
def test_what_is_trained_passes_with_its_scaler_and_epoch(process: str, task: Task) -> None:
    def make() -> GenerativeImputer:
        small = NetworkConfig(options={"width": 8, "n_heads": 1, "n_blocks": 1, "width_time": 8, "width_tau": 8})
        return GenerativeImputer(ProcessConfig(process), small, TrainingConfig(epochs=2, patience=1))

    assert leakage_of(make, task) == NO_LEAK


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (PeeksInTraining, "moved: draws, what is learnt"),
        (PeeksAtValidation, "moved: draws, what is learnt"),
        (PeeksInFilling, "moved: draws"),
        (PeeksAtWhatIsPlausible, "moved: draws"),
        (NeverTheSameAndPeeks, "moved: draws"),
    ],
)
def test_one_that_peeks_is_found_out(kind: type, what: str, task: Task) -> None:
    assert leakage_of(kind, task) == what


def test_one_that_does_not_repeat_itself_is_told_apart_from_one_that_peeks(task: Task) -> None:
    assert leakage_of(NeverTheSame, task).startswith("cannot be told: draws are not the same twice")


def test_a_fitted_imputer_is_judged_by_what_it_draws(task: Task) -> None:
    assert leakage_of_filling(LinearImputer().fit(task.train), task.test) == f"{NO_LEAK} (filling only)"
    assert leakage_of_filling(PeeksInFilling().fit(task.train), task.test) == "moved: draws (filling only)"
    assert leakage_of_filling(NeverTheSame().fit(task.train), task.test).startswith("cannot be told")
    assert leakage_of_filling(NeverTheSameAndPeeks().fit(task.train), task.test) == "moved: draws (filling only)"


class Remembers(LinearImputer):
    """Adds up what it has seen, so that a record's answer depends on those before it."""

    total = 0.0

    def impute(self, windows: Windows, n_samples: int, seed: int = 0, fill: np.ndarray | None = None) -> Samples:
        samples = super().impute(windows, n_samples, seed, fill)
        values = samples.values.copy()
        for n in range(len(windows)):
            values[:, n][:, ~windows.visible[n]] += self.total
            self.total += 1.0
        return replace(samples, values=values)


class ChangesItsRecords(MeanImputer):
    """Looks at hidden values, and hides the traces in the records themselves."""

    def fit(self, train: Windows, valid: Windows | None = None) -> ChangesItsRecords:
        super().fit(train, valid)
        self.centre_ = np.nanmean(train.values, (0, 2))
        assert train.held_out is not None
        train.values[train.held_out] = np.nan
        train.held_out[:] = False
        return self


def test_draws_that_depend_on_other_records_are_told(task: Task) -> None:
    assert leakage_of(Remembers, task) == f"{NO_LEAK} (draws depend on the other records)"


def test_what_a_method_does_to_its_records_hides_nothing(task: Task) -> None:
    assert leakage_of(ChangesItsRecords, task) == "moved: draws, what is learnt"


def test_the_scaler_of_csdi_has_seen_what_it_hides_that_of_clean_has_not(task: Task, small_windows: Windows) -> None:
    parts = [task.train, task.valid, task.test]
    whole = Windows(
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.times for part in parts]),
        small_windows.features,
        tuple(name for part in parts for name in part.record_ids),
    )
    make_clean = lambda windows: clean(windows, rate=0.3, seed=0)
    make_csdi = lambda windows: csdi(windows, rate=0.3, seed=1)
    assert not scaler_moves(make_clean(whole), make_clean, whole)
    assert scaler_moves(make_csdi(whole), make_csdi, whole)


def test_nothing_is_left_on_disk(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen = []
    save = MeanImputer.save
    monkeypatch.setattr(MeanImputer, "save", lambda self, path: (save(self, path), seen.append(path)))
    leakage_of(MeanImputer, task)
    assert all(tmp_path in path.parents for path in seen)
    assert seen
    assert not list(tmp_path.iterdir())


class Keeps(LinearImputer):
    """Keeps what it has once seen of a record, hidden values too, and answers with it."""

    seen: dict[str, np.ndarray] = {}  # noqa: RUF012

    def impute(self, windows: Windows, n_samples: int, seed: int = 0, fill: np.ndarray | None = None) -> Samples:
        samples = super().impute(windows, n_samples, seed, fill)
        for n, name in enumerate(windows.record_ids):
            kept = self.seen.setdefault(name, windows.values[n].copy())
            samples.values[:, n] = np.where(np.isnan(kept), samples.values[:, n], kept)
        return samples


def test_the_truth_is_not_among_what_is_shown_to_a_method_that_keeps_it(task: Task) -> None:
    Keeps.seen.clear()
    leakage_of(Keeps, task)
    hidden = {name: (values, scored) for name, values, scored in zip(
        task.test.record_ids, task.test.values, task.test.held_out_mask, strict=True)}  # fmt: skip
    assert Keeps.seen
    same = [Keeps.seen[name][hidden[name][1]] == hidden[name][0][hidden[name][1]] for name in Keeps.seen]
    assert np.concatenate(same).mean() < 0.5
