"""A suite's settings as frozen dataclasses, and their YAML files. Imports nothing heavy."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Any, Literal

from tsimpute.config.settings import DataConfig, ProtocolConfig
from tsimpute.config.yaml_files import from_dict, read_settings
from tsimpute.errors import ConfigError
from tsimpute.system.files import packaged, packaged_names

_LONGEST = 80
_SHOWN, _NEAREST = 8, 4
"""Names that a message lists at most, and of more of them."""
_OF_THE_SUITE = ("data", "protocol", "evaluation", "training.seed", "training.keep_epochs")
"""Settings of a training that the suite and its tasks set."""


@dataclass(frozen=True)
class TaskConfig:
    """Records, split and held-out cells that every method is scored on.

    Attributes:
        data, protocol: see ``tsimpute.config.settings``; the suite's folds take the place of ``protocol.fold``.
        units: "standardised" (features of different units) or "data".
        n_cells: expected number of scored cells of all test records, by fold; another number is an error. None = any.
        max_records: score only the first so many test records that have held-out cells; None = all.
        folds, seeds, n_samples, at_epochs: None = as in the suite.
        n_steps: further numbers of solver steps with which the last checkpoint of a method with a solver is scored.
    """

    data: DataConfig = field(default_factory=DataConfig)
    protocol: ProtocolConfig = field(default_factory=ProtocolConfig)
    units: Literal["standardised", "data"] = "standardised"
    n_cells: tuple[int, ...] | None = None
    max_records: int | None = None
    folds: tuple[int, ...] | None = None
    seeds: tuple[int, ...] | None = None
    n_samples: int | None = None
    at_epochs: tuple[int, ...] | None = None
    n_steps: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("folds", "seeds"):
            if getattr(self, name) == ():
                raise ConfigError(f"suite: {name} of a task: expected at least one, or none for those of the suite.")
        _check_numbers(self, {"folds": 0, "seeds": 0, "at_epochs": 1, "n_steps": 1, "max_records": 1, "n_samples": 1})


@dataclass(frozen=True)
class MethodConfig:
    """An imputer of the suite.

    One of five: ``config`` names a training, ``run`` the folder of a finished one, ``weights`` a file of the original
    CSDI, ``members`` a linear pool of other methods, and ``imputer`` with its ``options`` anything else that has
    ``fit`` and ``impute``.

    Attributes:
        imputer: name of an imputer or peer; "my_module:MyImputer", the import path of a class; or "my_module:draw",
            that of a function: see ``tsimpute.suites.user_defined.FunctionImputer``. The module is looked for in the
            folder of the suite, in the working folder, and among the installed packages.
        options: of the imputer.
        leakage_options: options of the imputer that are others in the leakage test, which fits it several times.
        config: settings of a training, one for all data sets or by data set: a file, the name of a shipped one, or
            "default".
        settings: values that replace those of the config, as {"training.epochs": 40, "process.name": "diffusion"}.
        run: folder of a finished run, one for all data sets or by data set; the epochs that it kept are scored. A list
            has one folder for each fold of a task, or for each seed where there is one fold.
        weights: file of weights of the original CSDI; $NAMES of the environment are replaced by their values.
        members: other methods of the suite and their shares of the draws, as {"CFMI": 1, "Gaussian process": 1}; see
            ``tsimpute.imputers.linear_pool``. Of a training, its last model.
        tasks: names of its tasks; none = all.
        n_samples: samples per record; None = as in the suite; 1 for methods without randomness.
        fill: None = as in the suite. The original CSDI samples every missing cell, so its weights need "missing".
        seeds: False = the method has no randomness: only the first seed is run.
        at_step: scored after so many optimiser steps of its ``training.max_steps``; the training goes on from there for
            a method with the same settings and a later step. None = at its end.
        optional: left out with a sentence where a file or module that it names does not exist.
    """

    imputer: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    leakage_options: dict[str, Any] = field(default_factory=dict)
    config: str | dict[str, Any] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    run: str | tuple[str, ...] | dict[str, Any] | None = None
    weights: str | None = None
    members: dict[str, float] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    n_samples: int | None = None
    fill: Literal["scored", "missing"] | None = None
    seeds: bool = True
    at_step: int | None = None
    optional: bool = False

    def __post_init__(self) -> None:
        kinds = [name for name in ("imputer", "config", "run", "weights", "members") if getattr(self, name)]
        if len(kinds) != 1:
            raise ConfigError(
                "suite: a method needs one of imputer, config, run, weights or members; came "
                f"{', '.join(kinds) or 'none'}."
            )
        if self.members and (len(self.members) < 2 or not all(0 < share < 1e9 for share in self.members.values())):
            raise ConfigError(
                f"suite: members: expected at least two methods with positive shares, came {dict(self.members)}."
            )
        if self.imputer.partition(":")[0].endswith(".py"):
            raise ConfigError(
                "suite: imputer: expected a name or an import path, as my_module:MyImputer or my_module:draw; came the "
                f"file {self.imputer!r}."
            )
        of_kind = {"options": "imputer", "leakage_options": "imputer", "settings": "config", "at_step": "config"}
        for name, kind in of_kind.items():
            if getattr(self, name) and kinds != [kind]:
                raise ConfigError(f"suite: {name}: only for a method with {kind}; this one has {kinds[0]}.")
        for name in ("options", "leakage_options", "settings"):
            if not all(isinstance(key, str) for key in getattr(self, name)):
                raise ConfigError(f"suite: {name}: expected values by name, came {getattr(self, name)}.")
        reserved = [path for path in self.settings if path.startswith(_OF_THE_SUITE)]
        if reserved:
            raise ConfigError(f"suite: settings: {reserved[0]} is set by the suite and its tasks. Leave it out here.")
        _check_numbers(self, {"n_samples": 1, "at_step": 1})

    def takes_part(self, task: str) -> bool:
        return not self.tasks or task in self.tasks


@dataclass(frozen=True)
class Published:
    """A published result, shown next to those of the suite; None = not published.

    Attributes:
        task: name of the task.
        method: its name in the table.
        source: the publication.
        crps, ncrps, mae, rmse: the published values.
        differs: what is not the same there (protocol, units, cells).
    """

    task: str
    method: str
    source: str
    crps: float | None = None
    ncrps: float | None = None
    mae: float | None = None
    rmse: float | None = None
    differs: str = ""


@dataclass(frozen=True)
class Claim:
    """A sentence that is held against average ranks; "ahead" is a lower one.

    Attributes:
        text: the sentence.
        groups: in each of these the method must be ahead.
        method: the one that is ahead.
        others: of these; those that are not ranked are left out.
        metric: by the ranks of this one; "" = by their mean over all; "most" = at least as good on most of them.
    """

    text: str
    groups: tuple[str, ...]
    method: str
    others: tuple[str, ...]
    metric: str = ""


@dataclass(frozen=True)
class Ranking:
    """Methods are scored by metrics of whole tables, see ``tsimpute.evaluation.table_metrics``, and ranked by them.

    Attributes:
        groups: titles of groups of tasks, which are ranked together, by the last word of their tasks' names; none = no
            ranking. The rest of such a name is that of the table.
        reference: a method that has done less than half of the tables of this one is not ranked.
        fewest: tables of a group from which claims are judged and pictures drawn.
        claims: see ``Claim``.
    """

    groups: Mapping[str, str] = field(default_factory=dict)
    reference: str = ""
    fewest: int = 5
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True)
class Suite:
    """Tasks, methods, and how often each is run.

    Attributes:
        title: heading of the tables and of the page.
        tasks, methods: by name, in the order of the tables.
        folds, seeds: each method is run once for each pair; the seed is that of training and sampling.
        n_samples: samples per record.
        at_epochs: epochs after which a training is scored, in addition to its last.
        fill: see ``EvaluationConfig``.
        leakage_test: fits and asks each method again with changed hidden values; its results must not change.
        device: where networks are trained and sampled: "cpu", "cuda" or "mps".
        published: results of others.
        run_last: methods that take long. Where any are named, all of a fold is run before any of the next, they last.
        ranking: see ``Ranking``.
        conditionals: draws of each conditional of a density that are compared with the exact one; 0 = none. Only with
            the data set ``densities``.
        sampling_seed: None = that of training.
        folder: of the suite's file. Files and modules of methods are looked for there, then in the working folder.
    """

    title: str = ""
    tasks: Mapping[str, TaskConfig] = field(default_factory=dict)
    methods: Mapping[str, MethodConfig] = field(default_factory=dict)
    folds: tuple[int, ...] = (0,)
    seeds: tuple[int, ...] = (0,)
    n_samples: int = 20
    at_epochs: tuple[int, ...] = ()
    fill: Literal["scored", "missing"] = "scored"
    leakage_test: bool = True
    device: Literal["cpu", "cuda", "mps"] = "cpu"
    published: tuple[Published, ...] = ()
    run_last: tuple[str, ...] = ()
    ranking: Ranking = field(default_factory=Ranking)
    conditionals: int = 0
    sampling_seed: int | None = None
    folder: str = ""

    def __post_init__(self) -> None:
        least = {"folds": 0, "seeds": 0, "at_epochs": 1, "n_samples": 1, "conditionals": 0, "sampling_seed": 0}
        _check_numbers(self, least)
        for row in self.published:
            if row.task not in self.tasks:
                raise ConfigError(f"suite: published: {no_such('task', row.task, self.tasks)}")
        for name in ("tasks", "methods", "folds", "seeds"):
            if not getattr(self, name):
                raise ConfigError(f"suite: expected at least one of {name}, came none.")
        for method, config in self.methods.items():
            unknown = [task for task in config.tasks if task not in self.tasks]
            if unknown:
                raise ConfigError(f"suite: method {method!r}: {no_such('task', unknown[0], self.tasks)}")
            for member in config.members:
                if member not in self.methods:
                    raise ConfigError(f"suite: method {method!r}: {no_such('method', member, self.methods)}")
                if self.methods[member].members:
                    raise ConfigError(f"suite: method {method!r}: member {member!r} is a pool itself.")
        named = [*self.run_last, *filter(None, [self.ranking.reference])]
        for method in (*named, *(name for claim in self.ranking.claims for name in (claim.method, *claim.others))):
            if method not in self.methods:
                raise ConfigError(f"suite: {no_such('method', method, self.methods)}")
        for task, config in self.tasks.items():
            if config.n_cells is not None and len(config.n_cells) != len(self.folds_of(task)):
                raise ConfigError(
                    f"suite: task {task!r}: expected one n_cells for each of {len(self.folds_of(task))} folds, came "
                    f"{len(config.n_cells)}."
                )

    def folds_of(self, task: str) -> tuple[int, ...]:
        """The folds that a task is run for."""
        return self.tasks[task].folds or self.folds

    def seeds_of(self, task: str) -> tuple[int, ...]:
        """The seeds that a task is run for."""
        return self.tasks[task].seeds or self.seeds

    def runs_of(self, task: str, method: str) -> list[tuple[int, int]]:
        """(fold, seed) of each run of a method on a task."""
        seeds = self.seeds_of(task)[: None if self.methods[method].seeds else 1]
        return [*product(self.folds_of(task), seeds)]

    def path(self, name: str) -> Path:
        """A file or folder that a method names; $NAMES of the environment are replaced by their values."""
        path = Path(os.path.expandvars(name))
        in_folder = Path(self.folder) / path
        return in_folder if self.folder and in_folder.exists() else path

    def n_cells(self, task: str, fold: int) -> int | None:
        """How many cells must be scored in all test records of a fold; None = any."""
        expected = self.tasks[task].n_cells
        return None if expected is None else expected[self.folds_of(task).index(fold)]


def no_such(kind: str, name: str, known: Collection[str]) -> str:
    """That there is no task or method of a name, and which there are: all where these are few, else the nearest."""
    if len(known) <= _SHOWN:
        return f"no {kind} {name!r}; {kind}s are {', '.join(known)}."
    nearest = ", ".join(get_close_matches(name, known, _NEAREST, cutoff=0))
    return f"no {kind} {name!r}; of the {len(known)} {kind}s the nearest by name are {nearest}."


def shipped_suites() -> list[str]:
    """Names of the suites that come with the package."""
    return packaged_names(".yaml", "suites", "shipped")


def load_suite(name: str | Path) -> Suite:
    """The suite in a YAML file, or a shipped one.

    Raises:
        ConfigError: no such file, no YAML, or a key or value that is not as expected; the message names it.
    """
    path = packaged("suites", "shipped", f"{name}.yaml") if str(name) in shipped_suites() else Path(name)
    if not path.is_file():
        raise ConfigError(f"suite: expected a file or one of {', '.join(shipped_suites())}; came {str(name)!r}.")
    values = read_settings(path)
    if "folder" in values:
        raise ConfigError(f"{path}: unknown key folder: it is that of the file.")
    for name_of_part, kind in (("tasks", TaskConfig), ("methods", MethodConfig)):
        named = values.get(name_of_part)
        if not isinstance(named, dict):
            raise ConfigError(f"{path}: {name_of_part}: expected settings by name, came {named!r}.")
        named = _for_each(named, f"{path}: {name_of_part}")
        wrong = [key for key in named if not (isinstance(key, str) and _is_plain(key))]
        if wrong:
            raise ConfigError(
                f"{path}: {name_of_part}: expected names as text, up to {_LONGEST} letters, digits, spaces, - . _, "
                f"came {wrong[0]!r}."
            )
        values[name_of_part] = {
            key: from_dict(kind, settings, f"{name_of_part}.{key}.", str(path)) for key, settings in named.items()
        }
    ranking = values.get("ranking", {})
    lists = [(values, "published", Published, ""), (ranking, "claims", Claim, "ranking.")]
    for parent, name_of_part, kind, where in lists if isinstance(ranking, dict) else lists[:1]:
        rows = parent.get(name_of_part, [])
        if not isinstance(rows, list):
            raise ConfigError(f"{path}: {where}{name_of_part}: expected a list, came {type(rows).__name__}.")
        parent[name_of_part] = [from_dict(kind, row, f"{where}{name_of_part}.", str(path)) for row in rows]
    folder = path.parent if path == Path(name) else Path()
    return replace(from_dict(Suite, values, source=str(path)), folder=str(folder))


def _for_each(named: dict[Any, Any], where: str) -> dict[Any, Any]:
    """Settings by name; those with ``each: {word: [values]}`` once for each value in place of {word}, or combination.

    Example:
        >>> _for_each({"{n} steps": {"each": {"n": [1, 2]}, "at": "{n}"}}, "tasks")
        {'1 steps': {'at': 1}, '2 steps': {'at': 2}}

    Raises:
        ConfigError: ``each`` holds something else, or two get one name.
    """
    expanded: dict[Any, Any] = {}
    for name, settings in named.items():
        each = settings.get("each", {}) if isinstance(settings, dict) else {}
        if not isinstance(each, dict) or not all(isinstance(values, list) for values in each.values()):
            raise ConfigError(f"{where}.{name}: each: expected lists of values by name, came {each!r}.")
        rest = {k: v for k, v in settings.items() if k != "each"} if each else settings
        for values in product(*each.values()):
            chosen = dict(zip(each, values, strict=True))
            new = str(_with_values(name, chosen)) if each else name
            if new in expanded:
                raise ConfigError(f"{where}: two have the name {new!r}. Put what each differs in into the name.")
            expanded[new] = _with_values(rest, chosen)
    return expanded


def _with_values(setting: Any, values: Mapping[str, Any]) -> Any:
    """A setting with values in place of {their names}, in its texts at any depth."""
    if isinstance(setting, dict):
        return {key: _with_values(value, values) for key, value in setting.items()}
    if isinstance(setting, list):
        return [_with_values(value, values) for value in setting]
    for name, value in values.items() if isinstance(setting, str) else ():
        setting = value if setting == f"{{{name}}}" else str(setting).replace(f"{{{name}}}", str(value))
    return setting


def _check_numbers(settings: Any, least: Mapping[str, int]) -> None:
    """Refuses numbers that are too small, and lists that name one twice: it would count twice."""
    for name, bound in least.items():
        value = getattr(settings, name)
        numbers = value if isinstance(value, tuple) else () if value is None else (value,)
        if any(not bound <= number < 2**63 for number in numbers) or len(set(numbers)) < len(numbers):
            shown = list(value) if isinstance(value, tuple) else value
            raise ConfigError(
                f"suite: {name}: expected numbers of at least {bound} and below 2^63, each once; came {shown}."
            )


def _is_plain(name: str) -> bool:
    ends_plain = name == name.strip(" .") != ""
    return len(name.encode()) <= _LONGEST and ends_plain and all(c.isalnum() or c in " -._" for c in name)
