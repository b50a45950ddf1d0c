"""What a suite asks for, as frozen dataclasses, and the YAML files that say it. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from tsimpute.config import DataConfig, ProtocolConfig
from tsimpute.config_files import from_dict, read_settings
from tsimpute.errors import ConfigError


@dataclass(frozen=True)
class TaskConfig:
    """Records, split and held-out cells that every method is scored on.

    Attributes:
        data, protocol: see ``tsimpute.config``; the suite's folds take the place of ``protocol.fold``.
        units: "standardised" (features of different units) or "data".
        n_cells: how many cells must be scored in all test records, by fold; another number ends the run. None = any.
        max_records: score only the first so many test records that have held-out cells; None = all.
        n_samples, at_epochs: None = as the suite says.
    """

    data: DataConfig = field(default_factory=DataConfig)
    protocol: ProtocolConfig = field(default_factory=ProtocolConfig)
    units: Literal["standardised", "data"] = "standardised"
    n_cells: tuple[int, ...] | None = None
    max_records: int | None = None
    n_samples: int | None = None
    at_epochs: tuple[int, ...] | None = None


@dataclass(frozen=True)
class MethodConfig:
    """An imputer of the suite.

    One of four: ``config`` names a training of our own, ``run`` a folder of one that is done, ``weights`` a file of the
    original CSDI, and else ``imputer`` with its ``options`` makes one that has ``fit`` and ``impute``.

    Attributes:
        imputer: name of an imputer or peer of the package, or "file.py:name", a class or function that gives one.
        options: of the imputer.
        config: settings of a training, one for all data sets or by data set: a file, the name of a shipped one, or
            "default".
        settings: what is set instead of what the config says, as {"training.epochs": 40, "process.name": "diffusion"}.
        run: folder of a finished run, one for all data sets or by data set; its kept epochs are scored.
        weights: file of weights of the original CSDI, $NAMES of the environment filled in.
        tasks: names of the tasks it takes part in; none = all.
        n_samples: draws per record; None = as the suite says; 1 for methods that give one answer.
        fill: None = as the suite says. The original CSDI draws every missing cell, so its weights want "missing".
        seeds: False = nothing random is in it: the first seed speaks for all.
    """

    imputer: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    config: str | dict[str, Any] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    run: str | dict[str, Any] | None = None
    weights: str | None = None
    tasks: tuple[str, ...] = ()
    n_samples: int | None = None
    fill: Literal["scored", "missing"] | None = None
    seeds: bool = True

    def __post_init__(self) -> None:
        given = [name for name in ("imputer", "config", "run", "weights") if getattr(self, name)]
        if len(given) != 1:
            raise ConfigError(
                f"suite: a method needs one of imputer, config, run or weights; came {', '.join(given) or 'none'}."
            )


@dataclass(frozen=True)
class Published:
    """A result that others printed, shown beside ours; None = not given.

    Attributes:
        task: name of the task; differs: what is not the same there (protocol, units, cells).
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
class Suite:
    """All of a suite.

    Attributes:
        tasks, methods: by name, in the order of the tables.
        folds, seeds: each method is run once for each pair; a seed is that of training and draws.
        n_samples: draws per record.
        at_epochs: epochs after which a training is scored, beside its last.
        fill: see ``EvaluationConfig``.
        sabotage: changes hidden values and sees that nothing moves, for each method.
        published: results of others.
    """

    title: str = ""
    tasks: Mapping[str, TaskConfig] = field(default_factory=dict)
    methods: Mapping[str, MethodConfig] = field(default_factory=dict)
    folds: tuple[int, ...] = (0,)
    seeds: tuple[int, ...] = (0,)
    n_samples: int = 20
    at_epochs: tuple[int, ...] = ()
    fill: Literal["scored", "missing"] = "scored"
    sabotage: bool = True
    published: tuple[Published, ...] = ()

    def __post_init__(self) -> None:
        for name in ("tasks", "methods", "folds", "seeds"):
            if not getattr(self, name):
                raise ConfigError(f"suite: expected at least one of {name}, came none.")
        for method, of_one in self.methods.items():
            unknown = [task for task in of_one.tasks if task not in self.tasks]
            if unknown:
                raise ConfigError(
                    f"suite: method {method!r}: no task {unknown[0]!r}; tasks are {', '.join(self.tasks)}."
                )
        for task, of_one in self.tasks.items():
            if of_one.n_cells is not None and len(of_one.n_cells) != len(self.folds):
                raise ConfigError(
                    f"suite: task {task!r}: expected one n_cells for each of {len(self.folds)} folds, came "
                    f"{len(of_one.n_cells)}."
                )


@dataclass(frozen=True)
class Entry:
    """One method on one task, fold and seed."""

    task: str
    method: str
    fold: int
    seed: int

    @property
    def folder(self) -> str:
        """Where its results lie, under the folder of the suite."""
        return f"entries/{self.task}/{self.method}/fold{self.fold}-seed{self.seed}"


def entries(suite: Suite) -> list[Entry]:
    """All there is to do, task by task."""
    return [
        Entry(task, method, fold, seed)
        for task in suite.tasks
        for fold in suite.folds
        for method, of_one in suite.methods.items()
        if not of_one.tasks or task in of_one.tasks
        for seed in (suite.seeds if of_one.seeds else suite.seeds[:1])
    ]


def shipped_suites() -> list[str]:
    """Names of the suites that come with the package."""
    folder = resources.files("tsimpute") / "suites" / "shipped"
    return sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml"))


def load_suite(name: str | Path) -> Suite:
    """The suite in a YAML file, or a shipped one.

    Raises:
        ConfigError: no such file, no YAML, or a key or value that is not as expected; the message names it.
    """
    path = Path(str(resources.files("tsimpute") / "suites" / "shipped" / f"{name}.yaml"))
    path = path if str(name) in shipped_suites() else Path(name)
    if not path.is_file():
        raise ConfigError(f"suite: expected a file or one of {', '.join(shipped_suites())}; came {str(name)!r}.")
    values = read_settings(path)
    for name_of_part, kind in (("tasks", TaskConfig), ("methods", MethodConfig)):
        part = values.get(name_of_part)
        if not isinstance(part, dict) or not all(isinstance(key, str) and _is_plain(key) for key in part):
            raise ConfigError(
                f"{path}: {name_of_part}: expected settings by name (letters, digits, spaces, - . _), came {part!r}."
            )
        values[name_of_part] = {key: from_dict(kind, of_one, f"{name_of_part}.{key}.") for key, of_one in part.items()}
    rows = values.get("published", [])
    if not isinstance(rows, list):
        raise ConfigError(f"{path}: published: expected a list, came {type(rows).__name__}.")
    values["published"] = [from_dict(Published, row, "published.") for row in rows]
    return from_dict(Suite, values)


def _is_plain(name: str) -> bool:
    return name == name.strip(" .") != "" and all(c.isalnum() or c in " -._" for c in name)
