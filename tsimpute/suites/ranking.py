"""The report of a suite of tables: metrics of whole tables, average ranks of the methods, and claims held against them.

Metrics are those of ``tsimpute.evaluation.table_metrics``; a table's value is the mean over folds, its masks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd

from tsimpute.errors import DataError
from tsimpute.evaluation.table_metrics import TABLE_METRICS
from tsimpute.experiments.runs import task_of
from tsimpute.plots import ranks as draw_ranks
from tsimpute.plots import versus
from tsimpute.suites.jobs import Job, group_of
from tsimpute.suites.results import Result, samples_of, write_entry
from tsimpute.suites.scoring import TABLE, table_parts
from tsimpute.suites.settings import Claim, Suite
from tsimpute.suites.tables import grid
from tsimpute.system.files import atomic_write_text

FAILURES = "failures.txt"
"""Jobs that failed when the suite was run last, a line each."""

COLUMNS = ("table", "mechanism", "mask", "method", "metric", "value", "seconds", "rows")
"""``rows``: of the table that the metric takes; large tables are drawn from for distances between all rows."""


def render(
    suite: Suite, jobs: Sequence[Job], results: Sequence[Result], out: Path, hidden: Sequence[str]
) -> list[Path]:
    """Writes metrics.csv, tables.md, entries.json and pictures of what is done into ``out``; returns their paths.

    Args:
        hidden: sentences on what is not shown.

    Raises:
        DataError: nothing is done yet, or samples are damaged.
    """
    results = [_with_metrics(result, out) for result in results if result.job.ranked]
    if not results:
        raise DataError(f"{out}: expected results of the suite, there are none yet.")
    rows, overall, by_metric, parts = metric_rows(results), {}, {}, []
    pictures = {}
    for group, title in suite.ranking.groups.items():
        of_group = rows.loc[rows.mechanism == group]
        chosen = compared(of_group, suite.ranking.reference)
        if not len(chosen):
            parts.append(f"## {title}\n\nNothing is done yet.\n")
            continue
        ranks = average_ranks(chosen)
        if chosen.table.nunique() >= suite.ranking.fewest:
            overall[group], by_metric[group] = _over_metrics(ranks), ranks["mean"]
        parts.append(_section(title, ranks, chosen, of_group, [job for job in jobs if group_of(job.task) == group]))
        if points := by_steps(suite, of_group):
            pictures[f"{group}_steps.png"] = title, points
    parts.append(f"## Sentences of the paper\n\n{_claims(suite, overall, by_metric)}")
    failures = out / FAILURES
    failed = failures.read_text(encoding="utf-8").splitlines() if failures.is_file() else []
    parts.append("## Failures\n\n" + ("".join(f"- {line}\n" for line in failed) or "None.\n"))
    files = {
        "metrics.csv": rows.to_csv(index=False, lineterminator="\n"),
        "tables.md": f"# {suite.title}\n\n" + "\n".join([*parts, *(f"{sentence}\n" for sentence in hidden)]),
        "entries.json": json.dumps([{"entry": r.job.names} | asdict(r.record) for r in results], indent=1) + "\n",
    }
    for name, text in files.items():
        atomic_write_text(out / name, text)
    draw_ranks(_by_share(jobs, overall), out / "ranks.png")
    for name, (title, points) in pictures.items():
        versus(points, {}, "training steps", f"{title}: mean over tables that all have done", out / name)
    return [out / name for name in (*files, "ranks.png", *pictures)]


def _with_metrics(result: Result, out: Path) -> Result:
    """With the metrics of its tables, which are computed of its samples and stored where they are not there yet."""
    if any(part.kind == TABLE for part in result.parts):
        return result
    folder, windows = out / result.job.folder, task_of(result.job.scoring).test
    files = [samples_of(folder, checkpoint.epoch) for checkpoint in result.record.checkpoints]
    new = [part for file in files for part in table_parts(result.job, windows, file)]
    result = replace(result, parts=[*result.parts, *new])
    write_entry(folder, result)
    return result


def metric_rows(results: Sequence[Result]) -> pd.DataFrame:
    """The metrics of the last checkpoint of each result, by ``COLUMNS``."""
    rows = []
    for result in results:
        job, last = result.job, result.record.checkpoints[-1]
        names = (job.task.rpartition(" ")[0], group_of(job.task), job.fold, job.method)
        seconds = round((last.seconds_training or 0) + last.seconds_sampling, 3)
        for part in result.parts:
            if (part.kind, part.epoch) == (TABLE, last.epoch):
                value = np.nan if part.value is None else part.value
                rows.append((*names, part.metric, value, seconds, part.n_cells))
    return pd.DataFrame(rows, columns=list(COLUMNS)).sort_values(list(COLUMNS[:4]), kind="stable")


def compared(rows: pd.DataFrame, reference: str) -> pd.DataFrame:
    """The rows of one group that are ranked, on the tables and masks that all ranked methods have done.

    Left out are methods that have done less than half of the tables and masks of the reference.
    """
    done = {name: set(zip(of_it.table, of_it["mask"], strict=True)) for name, of_it in rows.groupby("method")}
    wanted = done.get(reference, set().union(*done.values()))
    chosen = {name: pairs for name, pairs in done.items() if len(pairs & wanted) * 2 >= len(wanted)}
    common = set.intersection(*chosen.values()) if chosen else set()
    at = [pair in common for pair in zip(rows.table, rows["mask"], strict=True)]
    return rows.loc[np.array(at, bool) & rows.method.isin(chosen)]


def average_ranks(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean rank of each method over tables, its standard error and the number of tables, by method and metric.

    Ranked are means over masks, ties get their mean rank. A value that is not defined in a table for any method leaves
    the table out; one that is not defined for some methods gives these the last ranks.
    """
    means = rows.groupby(["metric", "table", "method"]).value.agg(lambda x: x.mean(skipna=False)).unstack("method")
    ranks = means.dropna(how="all").fillna(np.inf).rank(axis=1, method="average")
    by_metric = ranks.stack().rename("rank").reset_index().groupby(["method", "metric"])["rank"]
    return by_metric.agg(mean="mean", se=lambda x: x.std(ddof=1) / np.sqrt(len(x)), n="count")


def _over_metrics(ranks: pd.DataFrame) -> pd.Series:
    return pd.Series(ranks["mean"].groupby("method").mean())


def _section(title: str, ranks: pd.DataFrame, chosen: pd.DataFrame, rows: pd.DataFrame, jobs: Sequence[Job]) -> str:
    """Average ranks of one group, best first, and what is done and what is not."""
    present = [metric for metric in TABLE_METRICS if metric in ranks.index.get_level_values("metric")]
    lines = []
    for name, mean in _over_metrics(ranks).sort_values().items():
        cells = [f"{ranks.loc[(name, m), 'mean']:.2f} ± {ranks.loc[(name, m), 'se']:.2f}" for m in present]
        cells = [cell.removesuffix(" ± nan") for cell in cells]
        seconds = chosen.loc[chosen.method == name].groupby(["table", "mask"]).seconds.first().median()
        lines.append([str(name), f"{mean:.2f}", *cells, f"{seconds:.1f}"])
    n_pairs, n_tables = len(chosen[["table", "mask"]].drop_duplicates()), len({job.task for job in jobs})
    counts = rows.drop_duplicates(["table", "mask", "method"]).groupby("method").size()
    done = ", ".join(f"{name} {n}" for name, n in counts.items())
    tables = ", ".join(sorted(chosen.table.unique()))
    return (
        f"## {title}\n\n{grid(['method', 'all', *present, 'seconds'], lines)}\n\n"
        f"Ranked on {n_pairs} pairs of table and mask, {chosen.table.nunique()} of {n_tables} tables: {tables}.\n"
        f"Done, of {len({(job.task, job.fold) for job in jobs})} a method: {done}.\n"
    )


def _claims(suite: Suite, overall: dict[str, pd.Series], by_metric: dict[str, pd.Series]) -> str:
    """The claims of the suite, and whether the average ranks so far agree."""

    def holds(claim: Claim, group: str) -> bool:
        if claim.metric == "most":
            ranks = by_metric[group].unstack("method")
            return bool((ranks[claim.method] <= ranks[list(claim.others)].min(axis=1)).mean() > 0.5)
        ranks = by_metric[group].xs(claim.metric, level="metric") if claim.metric else overall[group]
        present = [other for other in claim.others if other in ranks] or claim.others  # none: a KeyError, not measured
        return bool(ranks[claim.method] < ranks[list(present)].min())

    lines = []
    for claim in suite.ranking.claims:
        try:
            answer = "confirmed so far" if all(holds(claim, group) for group in claim.groups) else "contradicted so far"
        except KeyError:
            answer = "not measured yet"
        lines.append([claim.text, answer])
    return grid(["sentence", "by the average ranks above"], lines, words=1) + "\n"


def _by_share(jobs: Sequence[Job], overall: dict[str, pd.Series]) -> dict[str, list[tuple[float, float]]]:
    """By method: (percent of cells missing completely at random, mean of the average ranks over all metrics)."""
    protocols = {group_of(job.task): job.scoring.protocol for job in jobs}
    points: dict[str, list[tuple[float, float]]] = {}
    for group, ranks in overall.items():
        if protocols[group].mechanism.startswith("mcar"):
            for name, rank in ranks.items():
                points.setdefault(str(name), []).append((100 * (protocols[group].rate or 0), float(rank)))
    return {name: sorted(curve) for name, curve in sorted(points.items())}


def by_steps(suite: Suite, rows: pd.DataFrame) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """By metric and training: (its steps, mean over tables) of methods that differ in their number of steps alone.

    Tables and masks are those that all of these have done; nothing where no training has two numbers of steps.
    """
    alike: dict[str, dict[str, int]] = {}
    for name, method in suite.methods.items():
        rest = {key: value for key, value in method.settings.items() if key != "training.max_steps"}
        if len(rest) < len(method.settings) and name in set(rows.method):
            first = repr((method.config, rest))
            alike.setdefault(first, {})[name] = method.settings["training.max_steps"]
    several = [budgets for budgets in alike.values() if len(budgets) > 1]
    chosen = rows.loc[rows.method.isin([name for budgets in several for name in budgets])]
    n_done = chosen.groupby(["table", "mask"]).method.transform("nunique")
    means = chosen.loc[n_done == chosen.method.nunique()].groupby(["metric", "method"]).value.mean().dropna()
    return {
        metric: {
            next(iter(budgets)): sorted((n, means[metric, name]) for name, n in budgets.items()) for budgets in several
        }
        for metric in TABLE_METRICS
        if metric in means.index.get_level_values("metric")
    }
