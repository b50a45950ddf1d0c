"""The command line: it reads arguments, calls the library and shows what comes back; it has no logic of its own."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import ArgumentParser, Namespace

from tsimpute import __version__
from tsimpute.cli import suites as cli_suites
from tsimpute.cli import tables as cli_tables
from tsimpute.cli.parsing import WRONG_ARGUMENT, Parser, chosen, spellings
from tsimpute.cli.words import of_error
from tsimpute.config.registry import is_import_path
from tsimpute.config.settings import DataConfig, RunConfig, SamplingConfig, training_parts
from tsimpute.config.yaml_files import check_config, config_path, load_config, shipped_configs
from tsimpute.errors import ConfigError, TsimputeError
from tsimpute.system.terminal import Bar, stop_on_interrupt

if TYPE_CHECKING:
    from tsimpute.imputers.gaussian import GaussianImputer
    from tsimpute.imputers.generative import GenerativeImputer

SUITE = "Runs, checks or shows a suite: tasks, methods, folds and seeds in one file."
EXAMPLES = {
    "demo": "tsimpute demo --out demo-output",
    "fetch": "tsimpute fetch physionet2012",
    "describe": "tsimpute describe stations.csv",
    "train": "tsimpute train --config physionet2012_flow_matching --out runs/cfmi --training.epochs 20 "
    "--evaluation.at_epochs [1,5,20]",
    "impute": "tsimpute impute stations.csv -o filled.csv --quantiles 0.05,0.5,0.95",
    "draw": "tsimpute draw runs/cfmi/last.safetensors --data.name physionet2012 --records 132539,132540 "
    "--out draws.csv",
    "evaluate": "tsimpute evaluate runs/cfmi --epochs 5,20 --baselines --evaluation.n_samples 100",
    "doctor": "tsimpute doctor",
    "suite run": "tsimpute suite run tiny --out runs/tiny",
    "suite check": "tsimpute suite check tiny --out runs/tiny",
    "suite report": "tsimpute suite report tiny --out runs/tiny",
}


def main(arguments: list[str] | None = None) -> None:
    """Runs one command; an expected failure ends with its message, and exit code 2 where the command line is wrong."""
    given = sys.argv[1:] if arguments is None else arguments
    command = " ".join(["tsimpute", *given[:1]])
    names: list[str] = []
    try:
        name, options = _parse(given)
        names = list(vars(options)) if name in ("impute", "describe", "draw") else []
        code = COMMANDS[name](options)
    except ConfigError as error:
        refusal = SystemExit(f"{command}: {of_error(error, names)}")
        print(refusal, file=sys.stderr)
        refusal.code = WRONG_ARGUMENT
        raise refusal from error
    except (TsimputeError, OSError) as error:  # a folder that cannot be written to, a full disk
        sys.exit(f"{command}: {of_error(error, names)}")
    except KeyboardInterrupt:
        sys.exit(f"{command}: interrupted")
    if code:
        sys.exit(code)


# Arguments ------------------------------------------------------------------------------------------------------------


def _parse(arguments: list[str]) -> tuple[str, Any]:
    words = _with_config(arguments)
    known = {name.partition(" ")[0] for name in COMMANDS}
    parser = Parser(
        command=" ".join(["tsimpute", *(word for word in words[:1] if word in known)]), version=__version__,
        description="Fills gaps in multivariate time series with samples from a learned conditional distribution.",
    )  # fmt: skip
    parsers: dict[str, Parser] = {}
    commands, of_suites = parser.add_subcommands(dest="command"), None
    for name, add in ARGUMENTS.items():
        group, _, last = name.rpartition(" ")
        summary = (COMMANDS[name].__doc__ or "").strip()
        command = Parser(command=f"tsimpute {name}", description=f"{summary} Example: {EXAMPLES[name]}")
        add(command)
        parsers[name] = command
        if group and of_suites is None:
            suites = Parser(command="tsimpute suite", description=SUITE)
            commands.add_subcommand(group, suites, help=SUITE)
            of_suites = suites.add_subcommands(dest="command")
        place = of_suites if group and of_suites is not None else commands
        place.add_subcommand(last, command, help=summary)
    name, options = chosen(parser.parse_args(words))
    return name, parsers[name].instantiate(options)


def _with_config(arguments: list[str]) -> list[str]:
    """Names of shipped configs as paths; a run folder's config comes before what is said for ``evaluate``."""
    given = [part for word in arguments for part in (word.split("=", 1) if word.startswith("--config=") else [word])]
    given = spellings(given)
    for i in range(1, len(given)):
        if given[i - 1] == "--config":
            path = config_path(given[i])
            check_config(path)  # in the words of ``load_config``, which name the file and the place in it
            given[i] = str(path)
    if given[:1] == ["evaluate"]:
        if any(word.partition("=")[0] == "--suite" for word in given):
            raise ConfigError(
                "--suite: expected the folder of a run; suites have commands of their own. Use "
                '"tsimpute suite run SUITE --out FOLDER", "suite check" or "suite report".'
            )
        given = [word for word in given if word != "--baselines"] + ["--baselines"] * ("--baselines" in given)
        words = [word for before, word in pairwise(given) if not (before.startswith("--") and "=" not in before)]
        folders = [Path(word) for word in words if (Path(word) / "config.yaml").is_file()]
        given[1:1] = ["--config", str(folders[0] / "config.yaml")] if folders else []
    return given


def _run_config(options: Namespace) -> RunConfig:
    """The settings of a run; plug-ins that they name by import paths are looked for in the working folder, too."""
    config = RunConfig(**{field.name: options[field.name] for field in dataclasses.fields(RunConfig)})
    names = (*training_parts(config).values(), config.data.name, config.protocol.mechanism)
    if any(map(is_import_path, names)):
        sys.path.append(str(Path.cwd()))  # last: a file here must not replace an installed package
    return config


def _numbers(kind: Callable[[str], Any], text: str, name: str) -> list[Any]:
    try:
        return [kind(word) for word in text.split(",") if word]
    except ValueError as error:
        raise ConfigError(f"{name}: expected comma-separated numbers, came {text!r}.") from error


def _add_demo(parser: ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="folder for table, curves and picture")
    parser.add_argument("--epochs", type=int, default=30, help="epochs of each of the two processes")


def _add_fetch(parser: ArgumentParser) -> None:
    parser.add_argument("name", type=str, help="data set: physionet2012 or pm25")


def _add_describe(parser: ArgumentParser) -> None:
    parser.add_argument(
        "source", type=Path,
        help="a table that impute can read, or a data set, such as physionet2012 or uci; the next two options "
        "are for data sets, the others for tables",
    )  # fmt: skip
    parser.add_argument("--root", type=str | None, default=None, help="folder of a data set's raw files")
    parser.add_argument("--picture", type=Path | None, default=None, help="PNG file to write: a map of its gaps")
    cli_tables.add_reading_arguments(parser)


def _add_train(parser: ArgumentParser) -> None:
    shipped = ", ".join(shipped_configs())
    parser.add_argument("--config", action="config", help=f"a YAML file of settings, or one of {shipped}")
    parser.add_argument("--out", type=Path, required=True, help="folder of the run; an unfinished run is continued")
    parser.add_class_arguments(RunConfig, nested_key=None)


def _add_draw(parser: ArgumentParser) -> None:
    parser.add_argument(
        "model", type=Path, help="a model file, such as runs/cfmi/last.safetensors, or the name of a bundled one"
    )
    parser.add_argument("--out", type=Path, required=True, help="table to write: .csv, or .nc for all samples")
    parser.add_argument("--records", type=str, default="", help="ids of records, comma-separated. Default: all")
    parser.add_argument(
        "--n_samples", type=int, default=100, help="samples per record; 19 or more for quantiles 0.05 and 0.95"
    )
    parser.add_argument("--quantiles", type=str, default="0.05,0.5,0.95", help="levels in the table, comma-separated")
    parser.add_argument("--seed", type=int, default=0, help="seed of the samples")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    parser.add_class_arguments(DataConfig, nested_key="data")
    parser.add_class_arguments(SamplingConfig, nested_key="sampling")


def _add_evaluate(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="folder of a run")
    parser.add_argument(
        "--config", action="config", help="a YAML file of settings. Default: the config.yaml of the run"
    )
    parser.add_argument(
        "--epochs",
        type=str,
        default="",
        help="stored epochs to score, as 1,5. Default: evaluation.at_epochs where it is not as in the run, else "
        "the last",
    )
    parser.add_argument("--baselines", action="store_true", help="score the simple imputers too")
    parser.add_argument(
        "--out", type=Path | None, default=None,
        help="folder of the results, which runs may share. Default: the folder of the run",
    )  # fmt: skip
    parser.add_class_arguments(RunConfig, nested_key=None)


# Commands -------------------------------------------------------------------------------------------------------------


def demo(options: Namespace) -> None:
    """Fills a generated table in seconds, then trains both processes in minutes: metric table, curves, pictures."""
    from tsimpute.cli.demo import fill_demo_table, run_demo

    print("1. A table with gaps is filled. The same on a file of yours: tsimpute impute FILE -o OUT\n")
    compared = fill_demo_table(options.out / "table", partial(print, flush=True))
    print(f"\nThe table is generated, so the truth at its gaps is known:\n{compared.round(3).to_string()}")
    print(f"Wrote sensors.csv, filled.csv, filled.report.html, filled.png and more to {options.out / 'table'}/\n")
    print("2. Flow matching (CFMI) and diffusion (CSDI) are trained on one network and scored on held-out cells.\n")

    print(run_demo(options.out, options.epochs).markdown())
    print(f"The data are synthetic. Wrote metrics.csv, tables.md, curves.png, records.png and models to {options.out}/")


def fetch(options: Namespace) -> None:
    """Downloads the raw files of a data set into the user cache and verifies them."""
    from tsimpute.datasets.fetching import fetch as fetch_files

    print(f"{options.name}: verified files in {fetch_files(options.name)}")


def describe(options: Namespace) -> None:
    """Shows how a table is read, without training; or the content of a data set."""
    from tsimpute.config.registry import available, plugin
    from tsimpute.tables.sources.files import is_table

    name = str(options.source)
    if name not in available("datasets") or options.source.is_file():
        if not (options.source.exists() or is_table(options.source)):
            known = ", ".join(available("datasets"))
            raise ConfigError(f"{name}: expected the file of a table, or a data set ({known}); there is no such file.")
        cli_tables.describe(options)
        return
    cli_tables.refuse_reading_arguments(options, name)
    from tsimpute.datasets.describing import describe as describe_windows
    from tsimpute.experiments.runs import load_windows

    windows = load_windows(name, options.root)
    print(describe_windows(windows, plugin("datasets", name).card).to_text())
    if options.picture is not None:
        from tsimpute.plots import gaps

        gaps(windows, options.picture)
        print(f"wrote {options.picture}")


def train(options: Namespace) -> None:
    """Trains a model; the same command continues a training that was stopped."""
    from tsimpute.experiments import runs

    config = _run_config(options)
    imputer = runs.new_imputer(config)
    imputer.check_start()  # before the data are read, which may take minutes
    task = runs.task_of(config)
    first = runs.is_first_process()
    if first:
        print(task.summary_text())
    step = None
    with stop_on_interrupt() as should_stop, Bar("training", 1, "step", hidden=not first) as bar:
        for step in runs.train(config, task, imputer, options.out, should_stop=should_stop):
            if step.stop is None:
                bar.update(step.step, step.n_steps, f"epoch {step.epoch} loss {step.loss:.3f}")
    if first and step is not None:
        print(f"training ended: {step.stop}")
        written = sorted(path.name for path in options.out.iterdir() if not path.name.startswith("."))
        print(f"wrote {', '.join(written)} to {options.out}/")


def draw(options: Namespace) -> None:
    """Samples records of a known data set with a trained model and writes a table of quantiles, or all samples."""
    from tsimpute.core.quantiles import few_draws_text
    from tsimpute.experiments import runs
    from tsimpute.tables.sources.records import check_output, write_table

    quantiles = _numbers(float, options.quantiles, "--quantiles")
    check_output(options.out, options.force, quantiles)
    imputer = _model_of(options.model, options.sampling)
    data, wanted = options.data, [word.strip() for word in options.records.split(",") if word.strip()]
    # Here every value that is known is kept: cells that a data set holds out for scoring are no gaps.
    windows = dataclasses.replace(runs.load_windows(data.name, data.root, **data.options), held_out=None)
    windows = windows.named(wanted or None)
    records, n_outside = runs.fill_gaps(imputer, windows, options.n_samples, options.seed)
    if n_outside:
        print(f"{n_outside:,} values lie outside the model's limits: they are hidden from it and stay as they are")
    with Bar("imputing", len(windows), "record") as bar:
        write_table(bar.over(records), windows, options.out, quantiles, options.force)
    n_missing = int((~windows.visible).sum())
    print(f"filled {n_missing:,} cells of {len(windows)} records, {options.n_samples} draws each; wrote {options.out}")
    if options.out.suffix == ".csv" and (note := few_draws_text(quantiles, options.n_samples)):
        print(f"note: {note}")


def _model_of(name: Path, sampling: SamplingConfig) -> GaussianImputer | GenerativeImputer:
    """The model of a file, or a bundled one.

    Raises:
        ConfigError: settings of a sampler for a model that has none.
    """
    from tsimpute.imputers.gaussian import GaussianImputer
    from tsimpute.imputers.generative import GenerativeImputer
    from tsimpute.models.checkpoints import read_model
    from tsimpute.models.pretrained import model_path, names

    path = model_path(name) if str(name) in names() else name
    weights, description = read_model(path)
    if description.get("imputer") != GaussianImputer.name:
        return GenerativeImputer.from_file(path, weights, description, sampling)
    if sampling != SamplingConfig():
        raise ConfigError(f"--sampling: expected none, as {name} is a Gaussian process, whose samples are exact.")
    return GaussianImputer.from_file(path, weights, description)


def evaluate(options: Namespace) -> None:
    """Scores epochs of a run on held-out cells and adds to its metrics.csv, table and curves."""
    from tsimpute.experiments import runs

    config, out = _run_config(options), options.out or options.run
    runs.check_same_split(config, options.run)
    task = runs.task_of(config)
    epochs, at_epochs = _numbers(int, options.epochs, "--epochs"), config.evaluation.at_epochs
    if not epochs and at_epochs != load_config(options.run / "config.yaml").evaluation.at_epochs:
        epochs = list(at_epochs)  # asked for in another way; those of the run itself have been scored in training
    if options.baselines:
        runs.add_results(runs.score_baselines(config, task), out)
    with Bar("scoring", 1, "record") as bar:
        imputer = runs.score_run(config, task, options.run, epochs, out=out, progress=bar.update)
    runs.draw_records(config, task, imputer, out / f"records_{imputer.name}.png")
    print((out / "tables.md").read_text(encoding="utf-8"))
    print(f"wrote metrics.csv, tables.md, curves.png and records_{imputer.name}.png to {out}/")


def doctor(options: Namespace) -> None:
    """Shows what is installed and used here: versions, compiled code, threads, devices, caches."""
    from tsimpute.cli.doctor import report

    for name, value in report():
        print(f"{name + ':':20}{value}")


COMMANDS: dict[str, Callable[[Namespace], int | None]] = {
    "demo": demo, "impute": cli_tables.fill, "describe": describe, "fetch": fetch, "train": train, "evaluate": evaluate,
    "draw": draw, "suite run": cli_suites.run, "suite check": cli_suites.check, "suite report": cli_suites.report,
    "doctor": doctor,
}  # fmt: skip
ARGUMENTS: dict[str, Callable[[ArgumentParser], None]] = {
    "demo": _add_demo, "impute": cli_tables.add_arguments, "describe": _add_describe, "fetch": _add_fetch,
    "train": _add_train, "evaluate": _add_evaluate, "draw": _add_draw, "suite run": cli_suites.add_run_arguments,
    "suite check": cli_suites.add_arguments, "suite report": partial(cli_suites.add_arguments, part=False),
    "doctor": lambda parser: None,
}  # fmt: skip
