"""The jobs of a suite: one method on one task, fold and seed, with all that its numbers depend on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tsimpute.config.registry import is_import_path, make
from tsimpute.config.settings import EvaluationConfig, ProcessConfig, RunConfig, training_parts
from tsimpute.config.yaml_files import config_path, load_config, to_dict, with_settings
from tsimpute.errors import CheckpointError, ConfigError, TsimputeError
from tsimpute.experiments.runs import new_imputer
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.processes.base import takes
from tsimpute.suites.settings import MethodConfig, Suite, TaskConfig, no_such
from tsimpute.suites.user_defined import (
    AbsentFileError,
    Plugin,
    digest_of,
    import_plugins,
    plugins_of,
    source_files,
)  # fmt: skip

LAST = ("last", "model")
"""Names of the file of a run's last model."""

_RUN_FILES = ("config.yaml", "last.safetensors", "model.safetensors", "epoch-*.safetensors")
_WITHOUT_NUMBERS = ("at_epochs", "n_cells", "n_steps", "folds", "seeds")
"""Settings of a task that change which numbers there are, and none of them."""


@dataclass(frozen=True, eq=False)
class Job:
    """One method on one task, fold and seed.

    Attributes:
        task, method: their names in the suite.
        task_config, method_config: their settings.
        n_cells: expected number of scored cells of all test records; None = any.
        device, leakage_test: see ``Suite``.
        ranked: scored by metrics of whole tables too.
        conditionals: see ``Suite``.
        scoring: its data, protocol and evaluation; nothing else of it counts.
        source: file of weights, folder of a finished run or of a user's module, or None.
        files: all that its numbers depend on, beside settings and data: weights, a run's files, a user's modules.
        plugins: that its task, its training or the run name by an import path; their files count, too.
        members: jobs of the members of a pool, on the same task, fold and seed.
        config: of its training; None = it is not trained here.
        epochs: after which it is scored, the last at the end; None for a method that is not trained in epochs, or for
            ``training.max_steps`` of them.
        n_steps: further numbers of solver steps with which its last checkpoint is scored.
        key: of settings and files. Results with another key belong to another job. "" where ``problem`` is set.
        problem: why it can neither be run nor shown, or None.
    """

    task: str
    method: str
    fold: int
    seed: int
    task_config: TaskConfig
    method_config: MethodConfig
    n_cells: int | None
    device: str
    leakage_test: bool
    ranked: bool
    conditionals: int
    scoring: RunConfig
    source: Path | None = None
    files: tuple[Path, ...] = ()
    plugins: tuple[Plugin, ...] = ()
    members: tuple[Job, ...] = ()
    config: RunConfig | None = None
    epochs: tuple[int | None, ...] = (None,)
    n_steps: tuple[int, ...] = ()
    key: str = ""
    problem: TsimputeError | None = None

    def __str__(self) -> str:
        return f"{self.task}, {self.method}, fold {self.fold}, seed {self.seed}"

    @property
    def title(self) -> str:
        """For progress: its task and method."""
        return f"{self.task}, {self.method}"

    @property
    def names(self) -> dict[str, Any]:
        """Task, method, fold and seed by name, as they are stored."""
        return {"task": self.task, "method": self.method, "fold": self.fold, "seed": self.seed}

    @property
    def folder(self) -> Path:
        """Of its results, under the folder of the suite."""
        return Path("entries", self.task, self.method, f"fold{self.fold}-seed{self.seed}")


def plan(suite: Suite) -> list[Job]:
    """All jobs of a suite, task by task, resolved: settings and files are read here and nowhere else."""
    return [
        _job(suite, task, method, fold, seed)
        for task in suite.tasks
        for fold in suite.folds_of(task)
        for method, method_config in suite.methods.items()
        if method_config.takes_part(task)
        for of_fold, seed in suite.runs_of(task, method)
        if of_fold == fold
    ]


def group_of(task: str) -> str:
    """The group of a ranking that a task is of: the last word of its name."""
    return task.rpartition(" ")[2]


def in_order(suite: Suite, jobs: Iterable[Job]) -> list[Job]:
    """The order in which jobs of a suite are run: shorter trainings first, and as ``run_last`` says."""
    late = suite.run_last
    return sorted(jobs, key=lambda job: (job.fold if late else 0, job.method in late, job.method_config.at_step or 0))


def select(jobs: Sequence[Job], tasks: Sequence[str] = (), methods: Sequence[str] = ()) -> list[Job]:
    """The jobs of some tasks and methods; none named = all.

    Raises:
        ConfigError: an unknown name, or no job has both.
    """
    for kind, names in (("task", tasks), ("method", methods)):
        known = list(dict.fromkeys(getattr(job, kind) for job in jobs))
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ConfigError(f"suite: {no_such(kind, unknown[0], known)}")
    chosen = [job for job in jobs if job.task in (tasks or (job.task,)) and job.method in (methods or (job.method,))]
    if not chosen:
        raise ConfigError(f"suite: nothing to do: methods {', '.join(methods)} with tasks {', '.join(tasks)}.")
    return chosen


def settings_that_count(config: RunConfig) -> dict[str, Any]:
    """The settings that the numbers of a training depend on. A later setting is left out at its default."""
    values = to_dict(config)
    idle = [] if config.network.base == "gaussian" else ["masks_per_record", "base_folds"]
    for name in ("keep_epochs", *idle):
        del values["training"][name]
    if config.training.max_steps is None:
        del values["training"]["max_steps"]
    if config.training.objective == "regression":
        del values["training"]["objective"]
    if config.training.start_from is None:
        del values["training"]["start_from"]
    if not config.sampling.antithetic:
        del values["sampling"]["antithetic"]
    return values


def model_file(folder: Path, names: Sequence[str]) -> Path:
    """The first of these models that exists.

    Raises:
        CheckpointError: none does.
    """
    paths = [folder / f"{name}.safetensors" for name in names]
    if not any(path.is_file() for path in paths):
        raise CheckpointError(
            f"{folder}: {names[0]} was not kept when this was trained, as it was not asked for then. Ask for other "
            "epochs (at_epochs), or remove the folder to train anew."
        )
    return next(path for path in paths if path.is_file())


def _job(suite: Suite, task: str, method: str, fold: int, seed: int) -> Job:
    task_config, method_config = suite.tasks[task], suite.methods[method]
    n_samples = method_config.n_samples or task_config.n_samples or suite.n_samples
    evaluation = EvaluationConfig(
        n_samples, task_config.max_records, fill=method_config.fill or suite.fill, units=task_config.units,
        seed=seed if suite.sampling_seed is None else suite.sampling_seed,
    )  # fmt: skip
    scoring = RunConfig(task_config.data, replace(task_config.protocol, fold=fold), evaluation=evaluation)
    n_cells = suite.n_cells(task, fold)
    job = Job(
        task, method, fold, seed, task_config, method_config, n_cells, suite.device, suite.leakage_test,
        group_of(task) in suite.ranking.groups, suite.conditionals, scoring,
    )  # fmt: skip
    try:
        job = _resolved(suite, job)
        return replace(job, key=_key(suite, job))
    except TsimputeError as error:
        return replace(job, problem=error)


def _training_config(suite: Suite, job: Job) -> RunConfig:
    """The whole of a training on a task.

    Raises:
        ConfigError: no such config, none for this data set, or an unknown setting.
    """
    task, method = job.task_config, job.method_config
    name = str(_of_data_set(method.config, task))
    config = with_settings(RunConfig() if name == "default" else load_config(config_path(name)), method.settings)
    if config.training.patience is not None:
        raise ConfigError(
            "suite: training.patience: expected none, as a suite scores fixed epochs, the last among them; came "
            f"{config.training.patience}."
        )
    training, sampling = replace(config.training, seed=job.seed), config.sampling
    if suite.device != "cpu":
        training = replace(training, accelerator={"cuda": "gpu"}.get(suite.device, suite.device))
        sampling = replace(sampling, device=suite.device)
    # The epochs of all tasks: those that train on the same cells, and methods with the same settings, share a training.
    alike = [one for one in suite.methods.values() if (one.config, one.settings) == (method.config, method.settings)]
    epochs = {
        epoch
        for name, other in suite.tasks.items()
        if other.data == task.data and any(one.takes_part(name) for one in alike)
        for epoch in _at_epochs(suite, other)
        if epoch < training.epochs
    }
    return replace(
        config,
        data=job.scoring.data,
        protocol=job.scoring.protocol,
        training=replace(training, keep_epochs=() if training.max_steps else (*sorted(epochs), training.epochs)),
        sampling=sampling,
        evaluation=replace(config.evaluation, at_epochs=()),
    )


def _at_epochs(suite: Suite, task: TaskConfig) -> tuple[int, ...]:
    return suite.at_epochs if task.at_epochs is None else task.at_epochs


def _of_data_set(value: Any, task: TaskConfig) -> Any:
    """A setting that is one for all data sets, or one for each."""
    if not isinstance(value, dict):
        return value
    if task.data.name not in value:
        raise ConfigError(f"suite: nothing for data set {task.data.name!r}, only for {', '.join(value)}.")
    return value[task.data.name]


def _run_folder(suite: Suite, job: Job) -> Path:
    """The folder of the finished run that is scored: one for all folds and seeds, or one for each.

    Raises:
        ConfigError: other than one folder for each fold, or for each seed where there is one fold.
    """
    folders = _of_data_set(job.method_config.run, job.task_config)
    if not isinstance(folders, list | tuple):
        return suite.path(str(folders))
    folds, seeds = suite.folds_of(job.task), suite.seeds_of(job.task)
    kind, each, of_job = ("fold", folds, job.fold) if len(folds) > 1 else ("seed", seeds, job.seed)
    if len(folders) != len(each):
        raise ConfigError(
            f"suite: method {job.method!r}: run: expected one folder, or one for each of the {len(each)} {kind}s of "
            f"task {job.task!r}; came {len(folders)}."
        )
    return suite.path(folders[each.index(of_job)])


def _resolved(suite: Suite, job: Job) -> Job:
    """With its training, the files that its numbers depend on, and the checkpoints that are scored.

    Raises:
        AbsentFileError: a file does not exist.
        ConfigError, CheckpointError: see ``GenerativeImputer.check_start`` and ``import_plugins``.
    """
    method, at_epochs, n_steps = job.method_config, _at_epochs(suite, job.task_config), job.task_config.n_steps
    process, protocol = None, job.scoring.protocol
    of_task = plugins_of({"datasets": job.scoring.data.name, "mechanisms": protocol.mechanism}, suite.folder)
    job = replace(job, plugins=of_task)
    if method.config is not None:
        config = _training_config(suite, job)
        job = replace(job, plugins=(*of_task, *plugins_of(training_parts(config), suite.folder)))
        process, training = config.process, config.training
        epochs = (*(epoch for epoch in at_epochs if epoch < training.epochs), training.epochs)
        job = replace(job, config=config, epochs=epochs if training.max_steps is None else (None,))
        if (method.at_step or 0) > (training.max_steps or 0):
            raise ConfigError(
                f"suite: at_step: expected at most training.max_steps, which is {training.max_steps}; came "
                f"{method.at_step}."
            )
        if training.start_from is not None:
            job = replace(job, files=(_existing(Path(training.start_from)),))
            import_plugins(job.plugins)
            new_imputer(config).check_start()
    elif method.members:
        return replace(job, members=tuple(_member(suite, job, name) for name in method.members))
    elif is_import_path(method.imputer):
        folder, files = source_files(method.imputer, suite.folder)
        job = replace(job, source=folder, files=files)
    elif method.weights is not None:
        path, process = _existing(suite.path(method.weights)), ProcessConfig("diffusion")
        job = replace(job, source=path, files=(path,))
    elif method.run is not None:
        folder = _run_folder(suite, job)
        path = _existing(folder / "config.yaml")
        files = tuple(path for name in _RUN_FILES for path in sorted(folder.glob(name)))
        job = replace(job, plugins=(*of_task, *plugins_of(training_parts(load_config(path)), suite.folder)))
        import_plugins(job.plugins)
        last = int(GenerativeImputer.load(model_file(folder, LAST)).fitted_["epoch"])
        stored = (e for e in at_epochs if e < last and (folder / f"epoch-{e:04d}.safetensors").is_file())
        job = replace(job, source=folder, files=files, epochs=(*stored, last))
        process = load_config(path).process if n_steps else None
    if process is None or not n_steps:
        return job
    import_plugins(job.plugins)
    path_of_states = make("processes", process.name, **process.options)
    return replace(job, n_steps=tuple(n for n in n_steps if takes(path_of_states, n)))


def _member(suite: Suite, job: Job, name: str) -> Job:
    """The job of a member of a pool; only its last model takes part.

    Raises:
        TsimputeError: it cannot be run.
    """
    member = _job(
        suite, job.task, name, job.fold, job.seed if suite.methods[name].seeds else suite.seeds_of(job.task)[0]
    )
    if member.problem is not None:
        raise member.problem
    return replace(member, epochs=member.epochs[-1:], n_steps=())


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise AbsentFileError(f"suite: expected a file {path}, as a method names it; there is none.")
    return path


def _key(suite: Suite, job: Job) -> str:
    # Of a training the content of its settings counts, and not the name of their file.
    skipped = ["tasks", "optional", "leakage_options", *([] if job.config is None else ["config", "settings"])]
    skipped += [] if job.members else ["members"]
    skipped += [] if job.method_config.at_step else ["at_step"]
    draws = [suite.n_samples, suite.fill, suite.leakage_test]
    if suite.conditionals or suite.sampling_seed is not None:
        draws += [suite.conditionals, suite.sampling_seed]
    files = {}  # by path from the folder of the first one, where it is in it; else by name
    for path in job.files:
        folder = job.files[0].parent
        name = path.relative_to(folder) if folder in path.parents else path.name
        files[str(name)] = digest_of(path)
    depends: dict[str, Any] = {
        "task": {k: v for k, v in to_dict(job.task_config).items() if k not in _WITHOUT_NUMBERS},
        "method": {k: v for k, v in to_dict(job.method_config).items() if k not in skipped},
        "entry": job.names,
        "draws": draws,
        "files": files,
    }
    if job.device != "cpu" and not job.method_config.imputer:
        depends["device"] = job.device
    if any(one.files for one in job.plugins):
        depends["plugins"] = {one.kind: one.digests for one in job.plugins}
    if job.members:
        depends["members"] = [member.key for member in job.members]
    if job.config is not None:
        depends["training"] = settings_that_count(job.config)
    return hashlib.sha256(json.dumps(_with_text_keys(depends), sort_keys=True, default=str).encode()).hexdigest()[:16]


def _with_text_keys(value: Any) -> Any:
    """YAML has numbers and dates as names too."""
    if isinstance(value, Mapping):
        return {str(key): _with_text_keys(item) for key, item in value.items()}
    return [_with_text_keys(item) for item in value] if isinstance(value, list | tuple) else value
