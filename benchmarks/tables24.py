"""The study of 24 tables: imputers on tables with hidden cells, scored by metrics of whole tables.

    python benchmarks/tables24.py run OUT           every job that is not done yet; the same command continues
    python benchmarks/tables24.py report OUT DIR    metrics.csv, tables.md and pictures of what is done

Under TSIMPUTE_DATA lies the folder uci/ (card: datasets/uci.md). Jobs, samples and their keys are those of a suite, in
OUT; metrics.csv there gets the metrics of each table as it is done. Methods that this version of the package lacks are
left out. Masks come one after another, and of each mask the mechanisms, small tables first: what is done at any time
can be compared.
"""

from __future__ import annotations

import argparse
import csv
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from table_imputers import interpreter

from tsimpute.config.registry import is_known
from tsimpute.config.settings import DataConfig, ProtocolConfig
from tsimpute.datasets.fetching import find_root
from tsimpute.datasets.uci import TABLES, UCI
from tsimpute.evaluation.kept_samples import read_cells
from tsimpute.evaluation.table_metrics import MAX_ROWS, table_metrics
from tsimpute.suites.jobs import Job, plan
from tsimpute.suites.results import samples_of, stored
from tsimpute.suites.running import run_suite
from tsimpute.suites.settings import MethodConfig, Suite, TaskConfig
from tsimpute.system.files import atomic_write_text

MECHANISMS = {
    "mcar25": ("mcar_exact", 0.25), "mar25": ("mar_logistic", 0.25), "mcar50": ("mcar_exact", 0.5),
    "mcar75": ("mcar_exact", 0.75),
}  # fmt: skip
TITLES = {"mcar25": "MCAR 25 %", "mar25": "MAR 25 % (logistic)", "mcar50": "MCAR 50 %", "mcar75": "MCAR 75 %"}
FIRST = (
    "mean", "softimpute", "gaussian", "mice", "flow_matching", "flow_matching_default", "diffusion", "missforest"
)  # fmt: skip
"""Methods that are run on every table of a mechanism before those that take long."""
METRICS = (
    "w2", "rmse", "crps", "mmd_energy", "mmd_gaussian", "mmd_laplacian", "auroc_loss", "prediction_crps",
    "percent_bias", "coverage_loss", "width",
)  # fmt: skip
BASELINES = ("softimpute", "mice", "missforest", "gain", "sinkhorn", "hyperimpute", "forestdiffusion")
"""Methods of the paper other than flow matching and diffusion that this study has."""
COLUMNS = ("table", "mechanism", "mask", "method", "metric", "value", "seconds", "rows")
"""``rows``: of the table that the metric takes; large tables are drawn from for distances between all rows."""
NETWORK = {
    "network.name": "residual_mlp", "training.batch_size": 64, "training.micro_batch": 64,
    "training.learning_rate": 1e-3, "training.schedule": "cosine", "training.weight_decay": 1e-5,
    "training.clip_norm": 2.0,
}  # fmt: skip
FOREST = {
    "n_trees": 100, "max_depth": None, "min_samples_leaf": 1, "max_features": 1.0, "n_nearest_features": 1000,
    "max_iter": 10,
}  # fmt: skip
"""scikit-learn's forests, which the paper used; it allowed 200 rounds."""
PEERS = {
    "hyperimpute": MethodConfig("table_imputers:HyperImpute", n_samples=1),
    "forestdiffusion": MethodConfig("table_imputers:ForestDiffusion"),
}
"""Other packages, where their environments are there: see ``table_imputers``."""
FEWEST = 5
"""Tables of a mechanism from which sentences are judged and pictures drawn."""
EULER = {"sampling.solver": "one_step", "sampling.eta": 0.0, "sampling.n_steps": 100}


def methods(n_steps: int) -> dict[str, MethodConfig]:
    """By name; one imputation of methods without randomness says all."""
    trained = NETWORK | {"training.max_steps": n_steps}
    few = tuple(f"{table} mcar25" for table in ("iris", "yacht_hydrodynamics", "glass"))
    cells = trained | {"network.name": "context_cells", "training.micro_batch": 16}
    imputers = {
        "mean": MethodConfig("mean", n_samples=1),
        "softimpute": MethodConfig("softimpute", n_samples=1),
        "gaussian": MethodConfig("gaussian"),
        "mice": MethodConfig("mice"),
        "missforest": MethodConfig("miss_forest", options=FOREST, n_samples=1),
        "gain": MethodConfig("gain", n_samples=1),
        "sinkhorn": MethodConfig("sinkhorn", n_samples=1),
    }
    known = {
        name: method
        for name, method in imputers.items()
        if any(is_known(kind, method.imputer) for kind in ("imputers", "peers"))
    }
    known |= {name: method for name, method in PEERS.items() if interpreter(name).is_file()}
    return known | {
        "flow_matching": MethodConfig(config="default", settings=trained | EULER),
        "flow_matching_default": MethodConfig(config="default", settings=trained),
        "diffusion": MethodConfig(config="default", settings=trained | {"process.name": "diffusion"}),
        "context_cells": MethodConfig(config="default", settings=cells | EULER, tasks=few),
    }


def study(tables: Sequence[str], masks: Sequence[int] = (0, 1, 2), n_steps: int = 5000) -> Suite:
    """The tables by size, the mechanisms and the methods; the mask is the fold of the protocol."""
    root = find_root("uci")
    sizes = {table: UCI(table).load(root).values.size for table in tables}
    tasks = {
        f"{table} {name}": TaskConfig(
            DataConfig("uci", options={"table": table}), ProtocolConfig("transductive", rate, mechanism)
        )
        for name, (mechanism, rate) in MECHANISMS.items()
        for table in sorted(sizes, key=lambda table: sizes[table])
    }
    of_tables = {
        name: replace(method, tasks=tuple(task for task in method.tasks if task in tasks))
        for name, method in methods(n_steps).items()
        if not method.tasks or any(task in tasks for task in method.tasks)
    }
    return Suite("24 tables", tasks, of_tables, tuple(masks), n_samples=5, leakage_test=False)


def in_order(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Jobs of one table, mechanism and mask together; see the module for the order."""
    late = {job.method for job in jobs} - set(FIRST)
    for mask in sorted({job.fold for job in jobs}):
        for chosen in (set(FIRST), late):
            for task in dict.fromkeys(job.task for job in jobs):
                yield [job for job in jobs if (job.task, job.fold) == (task, mask) and job.method in chosen]


def run(out: Path, jobs: Sequence[Job]) -> None:
    """Runs what is not done, and writes the metrics of each job as it is done; what fails is named and left out."""
    out.mkdir(parents=True, exist_ok=True)
    path, failures = out / "metrics.csv", out / "failures.txt"
    done = {tuple(row) for row in read_metrics(path)[list(COLUMNS[:4])].itertuples(index=False)}
    failures.unlink(missing_ok=True)
    for group in in_order(jobs):
        for job in group:
            if (*job.task.split(), job.fold, job.method) in done and stored(job, out):
                continue
            try:
                for finished in run_suite([job], out):
                    append(path, rows_of(finished, out))
                    print(finished, flush=True)
            except Exception as error:  # the other jobs are run
                with failures.open("a", encoding="utf-8") as file:
                    file.write(f"{job}: {type(error).__name__}: {error}\n")
                print(f"FAILED {job}: {error}", flush=True)
        shutil.rmtree(out / "models", ignore_errors=True)  # its methods have their samples


def rows_of(job: Job, out: Path) -> list[list[Any]]:
    """The metrics of a finished job: samples put into the table, beside the truth and the outcome."""
    adapter, root, record = UCI(job.task_config.data.options["table"]), find_root("uci"), stored(job, out)
    assert record is not None
    truth = adapter.load(root).values[:, :, 0]
    hidden, imputed = np.zeros(truth.shape, bool), np.repeat(truth[None], record.checkpoints[-1].n_samples, 0)
    _, chunks = read_cells(samples_of(out / job.folder, job.epochs[-1]))
    for cells in chunks:
        row = np.array([int(name.rpartition("-")[2]) for name in cells.record_ids])[cells.record]
        hidden[row, cells.feature] = True
        imputed[:, row, cells.feature] = cells.draws.T
    values = table_metrics(truth, hidden, imputed, adapter.target(root))
    last = record.checkpoints[-1]
    seconds = round((last.seconds_training or 0) + last.seconds_sampling, 3)
    names = (*job.task.split(), job.fold, job.method)
    few = {name: min(len(truth), MAX_ROWS) for name in METRICS if name.startswith(("w2", "mmd"))}
    return [
        [*names, name, repr(values[name]), seconds, few.get(name, len(truth))] for name in METRICS if name in values
    ]


def append(path: Path, rows: Sequence[Sequence[Any]]) -> None:
    new = not path.is_file()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([COLUMNS] * new + [list(row) for row in rows])


def read_metrics(path: Path) -> pd.DataFrame:
    """The rows of a file, none where there is no file; of a job that was done again with other settings the last."""
    rows = pd.read_csv(path) if path.is_file() else pd.DataFrame(columns=list(COLUMNS))
    return rows.drop_duplicates(list(COLUMNS[:5]), keep="last")


def compared(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of one mechanism that are ranked, on the tables and masks that all ranked methods have done.

    Left out are methods that have done less than half of the tables and masks of flow matching.
    """
    done = {name: set(zip(of_it.table, of_it["mask"], strict=True)) for name, of_it in rows.groupby("method")}
    network = done.get("flow_matching", set().union(*done.values()))
    chosen = {name: pairs for name, pairs in done.items() if len(pairs & network) * 2 >= len(network)}
    common = set.intersection(*chosen.values()) if chosen else set()
    at = [pair in common for pair in zip(rows.table, rows["mask"], strict=True)]
    return rows[np.array(at, bool) & rows.method.isin(chosen)]


def average_ranks(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean rank of each method over tables, its standard error and the number of tables, by method and metric.

    Ranked are means over masks, ties get their mean rank. A value that is not defined in a table for any method leaves
    the table out; one that is not defined for some methods gives these the last ranks.
    """
    means = rows.groupby(["metric", "table", "method"]).value.agg(lambda x: x.mean(skipna=False)).unstack("method")
    ranks = means.dropna(how="all").fillna(np.inf).rank(axis=1, method="average")
    by_metric = ranks.stack().rename("rank").reset_index().groupby(["method", "metric"])["rank"]
    return by_metric.agg(mean="mean", se=lambda x: x.std(ddof=1) / np.sqrt(len(x)), n="count")


def report(out: Path, folder: Path) -> None:
    """Tables and pictures of what is done."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = read_metrics(out / "metrics.csv").sort_values(list(COLUMNS[:4]), kind="stable")
    rows.to_csv(folder / "metrics.csv", index=False, lineterminator="\n")
    parts, overall, by_metric = [], {}, {}
    for mechanism in MECHANISMS:
        chosen = compared(rows[rows.mechanism == mechanism])
        if not len(chosen):
            parts.append(f"## {TITLES[mechanism]}\n\nNothing is done yet.\n")
            continue
        ranks = average_ranks(chosen)
        if chosen.table.nunique() >= FEWEST:
            overall[mechanism], by_metric[mechanism] = ranks["mean"].groupby("method").mean(), ranks["mean"]
        parts.append(section(TITLES[mechanism], ranks, chosen, rows[rows.mechanism == mechanism]))
    parts.append("## Sentences of the paper\n\n" + sentences(overall, by_metric))
    failures = out / "failures.txt"
    failed = failures.read_text(encoding="utf-8") if failures.is_file() else ""
    parts.append("## Failures\n\n" + ("".join(f"- {line}\n" for line in failed.splitlines()) or "None.\n"))
    atomic_write_text(folder / "tables.md", "# 24 tables\n\n" + "\n".join(parts))
    picture(overall, folder / "ranks.png")


def section(title: str, ranks: pd.DataFrame, chosen: pd.DataFrame, rows: pd.DataFrame) -> str:
    """Average ranks of one mechanism, best first, and what is done and what is not."""
    names = ranks["mean"].groupby("method").mean().sort_values()
    present = [metric for metric in METRICS if metric in ranks.index.get_level_values("metric")]
    lines = [["method", "all", *present, "seconds"], ["---"] + ["---:"] * (len(present) + 2)]
    for name, mean in names.items():
        cells = [f"{ranks.loc[(name, m), 'mean']:.2f} ± {ranks.loc[(name, m), 'se']:.2f}" for m in present]
        cells = [cell.removesuffix(" ± nan") for cell in cells]
        seconds = chosen[chosen.method == name].groupby(["table", "mask"]).seconds.first().median()
        lines.append([str(name), f"{mean:.2f}", *cells, f"{seconds:.1f}"])
    n_tables, n_pairs = chosen.table.nunique(), len(chosen[["table", "mask"]].drop_duplicates())
    counts = rows.drop_duplicates(["table", "mask", "method"]).groupby("method").size()
    done = ", ".join(f"{name} {n}" for name, n in counts.items())
    tables = ", ".join(sorted(chosen.table.unique()))
    return (
        f"## {title}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)
        + f"\n\nRanked on {n_pairs} pairs of table and mask, {n_tables} of {len(TABLES)} tables: {tables}.\n"
        + f"Done, of {3 * len(TABLES)} a method: {done}.\n"
    )  # fmt: skip


def sentences(overall: dict[str, pd.Series], by_metric: dict[str, pd.Series]) -> str:
    """What the paper claims, and whether the average ranks so far agree; lower is better."""
    ours, rest = "flow_matching", [name for name in BASELINES if name != "missforest"]

    def leads(mechanism: str, name: str, others: Sequence[str], metric: str | None = None) -> bool:
        ranks = overall[mechanism] if metric is None else by_metric[mechanism].xs(metric, level="metric")
        present = [other for other in others if other in ranks] or others  # none: a KeyError, not measured
        return bool(ranks[name] < ranks[list(present)].min())

    def most(mechanism: str, name: str, other: str) -> bool:
        ranks = by_metric[mechanism].unstack("method")
        return bool((ranks[name] <= ranks[other]).mean() > 0.5)

    high = ("mcar50", "mcar75")
    claims = {
        "MCAR 25 %: missForest is ahead of the other baselines": lambda: leads("mcar25", "missforest", rest),
        "MCAR 25 %: flow matching is as good as missForest or better on most metrics": lambda: most(
            "mcar25", ours, "missforest"
        ),
        "MCAR 25 %: missForest is ahead of flow matching on W2": lambda: leads("mcar25", "missforest", [ours], "w2"),
        "MCAR 25 %: the same on RMSE": lambda: leads("mcar25", "missforest", [ours], "rmse"),
        "MCAR 25 %: flow matching is ahead of the other baselines on W2": lambda: leads("mcar25", ours, rest, "w2"),
        "MCAR 25 %: the same on RMSE ": lambda: leads("mcar25", ours, rest, "rmse"),
        "MCAR 50 and 75 %: MICE is ahead of missForest": lambda: all(leads(m, "mice", ["missforest"]) for m in high),
        "MCAR 25, 50 and 75 %: flow matching is first on average": lambda: all(
            leads(m, ours, [*BASELINES, "diffusion"]) for m in ("mcar25", *high)
        ),
        **{
            f"{TITLES[m]}: flow matching is ahead of diffusion at 5,000 steps": lambda m=m: leads(
                m, ours, ["diffusion"]
            )
            for m in MECHANISMS
        },
        "75,000 steps are usually better than 5,000": lambda: {}["not run"],
    }
    lines = ["| sentence | by the average ranks above |", "| --- | --- |"]
    for claim, holds in claims.items():
        try:
            answer = "confirmed so far" if holds() else "contradicted so far"
        except KeyError:
            answer = "not measured yet"
        lines.append(f"| {claim.strip()} | {answer} |")
    return "\n".join(lines) + "\n"


def picture(overall: dict[str, pd.Series], path: Path) -> None:
    """Mean of the average ranks over all metrics against the share of cells missing completely at random."""
    from matplotlib.figure import Figure

    shares = {25: "mcar25", 50: "mcar50", 75: "mcar75"}
    wide = pd.DataFrame({share: overall[name] for share, name in shares.items() if name in overall})
    figure = Figure(figsize=(6.4, 4.2), layout="constrained", dpi=130)
    axis = figure.add_subplot()
    for mark, (name, line) in zip("osD^vPX*<>hd" * 2, wide.iterrows(), strict=False):
        axis.plot(wide.columns, line, marker=mark, label=str(name))
    axis.set(xlabel="cells missing completely at random, %", ylabel="average rank (1 is best)", xticks=list(shares))
    if len(wide):
        axis.legend(fontsize=8, ncols=2)
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    runs, reports = commands.add_parser("run"), commands.add_parser("report")
    for one in (runs, reports):
        one.add_argument("out", type=Path, help="folder of jobs, samples and metrics.csv")
    reports.add_argument("folder", type=Path, help="folder that gets tables and pictures")
    runs.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    runs.add_argument("--mechanisms", nargs="+", default=list(MECHANISMS), choices=list(MECHANISMS))
    runs.add_argument("--masks", nargs="+", type=int, default=[0, 1, 2])
    runs.add_argument("--methods", nargs="+", default=None, help="only these; default: all that this version has")
    runs.add_argument("--steps", type=int, default=5000, help="optimiser steps of the networks")
    options = parser.parse_args(arguments)
    if options.command == "report":
        report(options.out, options.folder)
        return
    import torch

    torch.set_num_threads(1)
    jobs = plan(study(options.tables, options.masks, options.steps))
    chosen = [job for job in jobs if job.task.split()[1] in options.mechanisms]
    chosen = [job for job in chosen if options.methods is None or job.method in options.methods]
    if not chosen:
        sys.exit(f"nothing to do: methods are {', '.join(dict.fromkeys(job.method for job in jobs))}")
    run(options.out, chosen)


if __name__ == "__main__":
    main()
