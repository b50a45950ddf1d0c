"""One run from a config: raw files -> records -> task -> trained imputer -> metrics, each step by itself.

What a run writes lies in one folder: ``config.yaml``, ``run.json`` (what was done with which data and versions),
``state.pt`` (to go on from), ``epochs.csv`` (losses), ``last``, ``best`` and ``epoch-NNNN.safetensors`` (models), and
of its evaluations ``metrics.csv``, ``tables.md``, ``curves.png`` and ``records_*.png``.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tsimpute.config.registry import make, plugin
from tsimpute.config.settings import ProtocolConfig, RunConfig, named_parts
from tsimpute.config.yaml_files import load_config, save_config, to_dict
from tsimpute.core.limits import Limits
from tsimpute.core.windows import Samples, Windows
from tsimpute.datasets.base import DatasetAdapter
from tsimpute.errors import CheckpointError, ConfigError
from tsimpute.evaluation.evaluate import evaluate
from tsimpute.evaluation.reporting import EvaluationContext, Report
from tsimpute.imputers.base import Imputer, TableModel
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.imputers.shared.records import check_features
from tsimpute.system.files import atomic_write_text
from tsimpute.tasks.protocols import PROTOCOLS, csdi
from tsimpute.tasks.task import Task
from tsimpute.training.progress import Step

BASELINES = ("mean", "median", "locf", "linear")
Progress = Callable[[int, int], None]


def load_windows(name: str | DatasetAdapter, root: str | Path | None = None, **options: Any) -> Windows:
    """The records of a data set.

    Example:
        >>> windows = load_windows("synthetic", n_records=3)
        >>> windows.values.shape, windows.features[0]
        ((3, 8, 24), Feature(name='Temp', unit='degC', given=False))

    Args:
        name: of a data set, as "pm25" or "uci", an import path, or an adapter, which is given ``root`` as it is.
        root: folder of its raw files; None = TSIMPUTE_DATA, then the user cache.
        options: the adapter's own, such as ``within_hour="mean"`` or ``valid_month=2``.

    Raises:
        SourceError: the raw files are in none of these places; the message says how to get them.
        ConfigError: no such data set, or no such option.
    """
    from tsimpute.datasets.fetching import find_root

    if not isinstance(name, str):
        return make("datasets", name).load(None if root is None else Path(root))
    return make("datasets", name, **options).load(find_root(name, None if root is None else Path(root)))


def fill_gaps(imputer: TableModel, windows: Windows, n_samples: int, seed: int) -> tuple[Iterator[Samples], int]:
    """Draws for the missing cells of records whose values may lie outside the limits that a model has learnt.

    Such a value is hidden from the model, and stays as it is: it was observed.

    Returns:
        One record after another, and how many values lie outside.

    Raises:
        DataError: other features, units or order than those learnt.
    """
    check_features(imputer.features_, windows.features)
    outside = imputer.scaler_.outside(windows.values) & windows.visible
    within_limits = dataclasses.replace(
        windows, values=np.where(outside, np.nan, windows.values).astype(windows.values.dtype)
    )
    drawn = imputer.impute_records(within_limits, n_samples, seed, fill=~windows.visible)

    def whole(n: int, record: Samples) -> Samples:
        values = np.where(outside[[n]], windows.values[[n]], record.values)
        return dataclasses.replace(record, values=values, visible=record.visible | outside[[n]])

    return (whole(n, record) for n, record in enumerate(drawn)), int(outside.sum())


def make_task(windows: Windows, protocol: ProtocolConfig, limits: Mapping[str, Limits] | None = None) -> Task:
    """Split, holes and scaler as the protocol says; ``limits`` are those of the data set's card."""
    limits = limits if protocol.limits == "card" else None
    if protocol.name == "csdi":
        if protocol.mechanism != "random":
            raise ConfigError(f"protocol: csdi has random holes only, came mechanism {protocol.mechanism!r}.")
        return csdi(windows, rate=protocol.rate, fold=protocol.fold, seed=protocol.seed, limits=limits)
    given = {"rate": protocol.rate, "fold": protocol.fold, "seed": protocol.seed, "mechanism": protocol.mechanism}
    return PROTOCOLS[protocol.name](windows, **given, limits=limits)


def task_of(config: RunConfig, windows: Windows | None = None) -> Task:
    """The records of a config, or others in their place, split and with their holes."""
    data = config.data
    if windows is None:
        windows = load_windows(data.name, data.root, **data.options)
    return make_task(windows, config.protocol, plugin("datasets", data.name).card.limits)


def new_imputer(config: RunConfig) -> GenerativeImputer:
    """The imputer of a config, not yet fitted."""
    return GenerativeImputer(config.process, config.network, config.training, config.sampling)


def train(
    config: RunConfig,
    task: Task,
    imputer: GenerativeImputer,
    folder: Path,
    *,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Step]:
    """Trains ``imputer`` on ``task`` with everything on disk in ``folder``, going on from a state found there.

    After each epoch of ``config.evaluation.at_epochs`` its kept model is scored; a score that a stopped run left out is
    made up for. Only the first of several processes scores.
    """
    at_epochs, training = config.evaluation.at_epochs, config.training
    keep = tuple(sorted({*training.keep_epochs, *at_epochs}))
    imputer.training = dataclasses.replace(training, keep_epochs=keep)
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"output: expected a folder, {folder} is a file. Choose another name.")
    recorded = not is_first_process()
    for step in imputer.fit_steps(
        task.train, task.valid_or_none, scaler=task.scaler, folder=folder, should_stop=should_stop
    ):
        if not recorded:  # not before a state that lies there has been accepted
            folder.mkdir(parents=True, exist_ok=True)
            save_config(config, folder / "config.yaml")
            write_run_record(config, task, folder)
            recorded = True
        yield step
        due = (step.ends_epoch or step.stop) and is_first_process()
        if due:
            done = {row.epoch for row in Report.kept_in(folder).rows}
            if epochs := [epoch for epoch in at_epochs if epoch <= step.epoch and epoch not in done]:
                score_run(config, task, folder, epochs)


def is_first_process() -> bool:
    """True in a run of one process, and in the first of several."""
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))) == 0


def split_of(config: RunConfig) -> tuple[Any, ...]:
    """What decides which records a run trains on: data, options, protocol, fold and seed."""
    data, protocol = config.data, config.protocol
    return data.name, data.options, protocol.name, protocol.fold, protocol.seed


def check_same_split(config: RunConfig, folder: Path) -> None:
    """Makes sure that the run in ``folder`` was trained on the split of ``config``: its test records are then unseen.

    Raises:
        ConfigError: there is no run, or it was trained on other data, another fold or another seed of the split.
    """
    path = folder / "config.yaml"
    if not path.is_file():
        raise ConfigError(
            f"run: expected a folder with a config.yaml, as `tsimpute train` makes it; {folder} has none."
        )
    trained, wanted = split_of(load_config(path)), split_of(config)
    if trained != wanted:
        raise ConfigError(
            f"run: {folder} was trained on {trained}, asked to score {wanted} (data, options, protocol, "
            "fold, seed). Records that the model has seen would be scored; use the split of the run."
        )


def score_run(
    config: RunConfig,
    task: Task,
    folder: Path,
    epochs: Iterable[int],
    *,
    out: Path | None = None,
    progress: Progress | None = None,
) -> GenerativeImputer:
    """Scores models of the run in ``folder`` with ``config.sampling``, adding each to the results at once.

    Args:
        epochs: kept epochs; none = the last weights.
        out: folder of the results; None = that of the run. Several runs may share one: their curves are drawn together.
        progress: called with (records done, records in all).

    Returns:
        The last imputer that was scored.

    Raises:
        CheckpointError: an epoch was not kept.
    """
    names = [f"epoch-{epoch:04d}" for epoch in epochs] or ["last"]
    models = sorted(path.stem for path in folder.glob("*.safetensors"))
    absent = [name for name in names if name not in models]
    if absent:
        raise CheckpointError(
            f"{folder}: no model {absent[0]!r}; kept are {', '.join(models) or 'none'}. Epochs are kept that "
            "training.keep_epochs or evaluation.at_epochs names."
        )
    for kind, part in named_parts(config.process, config.network, config.sampling).items():
        plugin(kind, part)  # imported, unlike what a model file names: the run's owner wrote these settings
    for name in names:
        imputer = GenerativeImputer.load(folder / f"{name}.safetensors", config.sampling)
        add_results(score(config, task, imputer, progress), out or folder)
    return imputer


def scored_records(task: Task, max_records: int | None) -> Windows:
    """The test records that are scored: all, or the first ``max_records`` that have a held-out cell, in order."""
    with_cells = np.flatnonzero(task.test.held_out_mask.any((1, 2)))
    return task.test.select(with_cells[:max_records])


def score(
    config: RunConfig,
    task: Task,
    imputer: Imputer,
    progress: Progress | None = None,
    keep_samples: Path | None = None,
    stated: Mapping[str, Any] | None = None,
) -> Report:
    """The metrics of one imputer, at the epoch it stands at, on the test part of ``task``.

    Args:
        keep_samples: see ``evaluate``.
        stated: what the rows say in place of what the imputer and the task do, see ``EvaluationContext``.
    """
    settings, test = config.evaluation, scored_records(task, config.evaluation.max_records)
    whole = len(test) == int(task.test.held_out_mask.any((1, 2)).sum())
    context = {
        "dataset": config.data.name,
        "split": "test" if whole else f"test[:{len(test)}]",
        "protocol": task.protocol,
        "fold": task.fold,
        "mechanism": task.mechanism,
        "rate": task.rate,
    }
    return evaluate(
        imputer,
        test,
        n_samples=settings.n_samples,
        seed=settings.seed,
        fill=settings.fill,
        scaler=(task.units or task.scaler) if settings.units == "standardised" else None,
        context=EvaluationContext(**context | getattr(imputer, "sampler_context", {}) | dict(stated or {})),
        progress=progress,
        keep_samples=keep_samples,
    )


def score_baselines(config: RunConfig, task: Task) -> Report:
    """The metrics of simple imputers on the same cells; they give one answer, so one draw says all."""
    once = dataclasses.replace(config, evaluation=dataclasses.replace(config.evaluation, n_samples=1))
    return Report.concat(
        score(once, task, make("imputers", name).fit(task.train, task.valid_or_none)) for name in BASELINES
    )


def add_results(report: Report, folder: Path) -> Report:
    """Writes ``report`` into the results in ``folder``: the same evaluations are replaced, others stay.

    The curves show what was scored in the same way as the first row of ``report``.
    """
    from tsimpute.plots import curves

    whole = Report.kept_in(folder).updated(report)
    whole.write(folder)
    alike = whole.alike(report.rows[0])
    if any(row.epoch is not None for row in alike.rows):
        curves(alike, path=folder / "curves.png")
    return whole


def draw_records(config: RunConfig, task: Task, imputer: Imputer, path: Path) -> None:
    """A picture of the two scored records with most held-out cells: observed, held out, median and bands."""
    from tsimpute.plots import imputed_records

    test = scored_records(task, config.evaluation.max_records)
    most = np.argsort(-test.held_out_mask.sum((1, 2)), kind="stable")[:2]
    chosen = test.select(most)
    samples = imputer.impute(chosen.without_held_out(), max(config.evaluation.n_samples, 20), config.evaluation.seed)
    imputed_records(samples, chosen, path=path, time_label="hours")


def write_run_record(config: RunConfig, task: Task, folder: Path) -> None:
    """``run.json``: settings, data, what was done in which order, counts, versions and machine."""
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    record = {
        "config": to_dict(config),
        "protocol": task.protocol,
        "order": task.order,
        "parts": [vars(counts) for counts in task.summary()],
        "changes": dict(task.changes),
        "versions": {name: version(name) for name in ("torch", "torchcfm", "numpy", "lightning-fabric")},
        "machine": machine,
    }
    atomic_write_text(folder / "run.json", json.dumps(record, indent=1))
