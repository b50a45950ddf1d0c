"""Tables and pictures of ``results`` and ``benchmarks`` as parts of pages."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

SUITES = ("every_missing_cell", "evidence", "folds", "gaussian", "densities")
"""Folders of results that a suite wrote: one section of ``tables.md`` for each task."""
RUNS = (
    "gpu/pm25", "gpu/pm25_all_months", "gpu/physionet2012", "physionet2012/bounded", "physionet2012/bundled",
    "physionet2012/bundled_process",
    "physionet2012/few_steps", "physionet2012/few_steps_diffusion", "physionet2012/two_evaluations",
    "physionet2012/two_evaluations_crps", "physionet2012/laptop_present_cells", "physionet2012/cpu_8_epochs",
    "pm25/two_evaluations", "pm25/laptop", "pm25/cpu_2_epochs",
)  # fmt: skip
"""Folders of single runs, with a ``tables.md`` each."""
OPTIONAL = ("other-libraries-and-efforts-against-instant", "without-scores")
"""Sections on real tables that are left out where nothing would stand in them."""
INTERVALS = ("physionet2012/laptop", "pm25/laptop")


def fragments(root: Path) -> Iterator[tuple[str, str]]:
    """(name under ``docs/generated``, Markdown) of each table."""
    results, benchmarks = root / "results", root / "benchmarks"
    for suite in SUITES:
        for task, text in sections(results / suite / "tables.md").items():
            yield f"evidence/{suite}-{_slug(task)}.md", _with_pictures(text, suite)
    for run in RUNS:
        yield f"evidence/{run.replace('/', '-')}.md", _with_pictures(_read(results / run / "tables.md"), run)
    of_tables = {_slug(title): text for title, text in sections(results / "tables" / "tables.md").items()}
    for title, text in (dict.fromkeys(OPTIONAL, "None.\n") | of_tables).items():
        yield f"evidence/tables-{title}.md", _with_pictures(text, "tables")
    for title, text in sections(results / "tables24" / "tables.md").items():
        yield f"evidence/tables24-{_slug(title)}.md", text
    yield "evidence/filled-year.md", table(results / "pm25" / "filled_year" / "scores.csv")
    yield "evidence/intervals.md", table(*(results / run / "intervals.csv" for run in INTERVALS))
    yield "evidence/steps.md", by_steps(results / "evidence" / "steps.csv")
    yield "evidence/speed.md", _read(benchmarks / "results.md")
    yield "evidence/speed-every-missing-cell.md", _read(benchmarks / "every_missing_cell" / "results.md")
    yield "evidence/own-gaps.md", table(results / "physionet2012" / "bundled_process" / "own_gaps.csv")
    yield "evidence/time-to-level.md", table(benchmarks / "time_to_level.csv")
    yield "evidence/busy-neighbour.md", table(benchmarks / "busy_neighbour.csv")


def pictures(root: Path) -> Iterator[tuple[Path, str]]:
    """(picture, name under ``docs/generated/pictures``)."""
    results = root / "results"
    for path in sorted(results.rglob("*.png")):
        yield path, _flat(str(path.relative_to(results)))
    yield root / "benchmarks" / "scaling.png", "scaling.png"


def sections(path: Path) -> dict[str, str]:
    """The text below each heading of the second level."""
    parts = re.split(r"(?m)^## (.*)\n", _read(path))
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def table(*paths: Path) -> str:
    """CSV files with the same columns as one table; numbers with four digits that count."""
    rows = [row for path in paths for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines())]
    head = list(rows[0])
    body = [[_short(row[name]) for name in head] for row in rows]
    numeric = [all(re.fullmatch(r"[-\d.e+]*", line[i]) for line in body) for i in range(len(head))]
    return _lines([head, ["---:" if right else "---" for right in numeric], *body])


def by_steps(path: Path) -> str:
    """A row for each data set, share held out, method and number of evaluations; all records of the test part."""
    metrics = ("crps", "crps_fair", "mae_median", "rmse_mean", "coverage_90")
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
        if row["feature"] == "all" and row["metric"] in metrics:
            key = tuple(row[name] or "-" for name in ("dataset", "split", "rate", "imputer", "n_steps"))
            rows.setdefault(key, {})[row["metric"]] = _short(row["value"])
    head = ["data", "records", "held out", "method", "evaluations", *metrics]
    ordered = sorted(rows, key=lambda key: (*key[:4], int(key[4])))
    body = [[*key, *(rows[key].get(metric, "-") for metric in metrics)] for key in ordered]
    return _lines([head, ["---"] * 4 + ["---:"] * (len(head) - 4), *body])


def _lines(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def _short(text: str) -> str:
    return f"{float(text):.4g}" if re.fullmatch(r"-?\d+\.\d+", text) else text or "-"


def _with_pictures(text: str, folder: str) -> str:
    """Links of pictures beside the text as those below ``docs/generated/pictures``."""
    return re.sub(r"\]\(([\w.]+\.png)\)", lambda m: f"](/generated/pictures/{_flat(f'{folder}/{m[1]}')})", text)


def _flat(path: str) -> str:
    return path.replace("/", "-")


def _slug(title: str) -> str:
    return re.sub(r"\W+", "-", title.lower()).strip("-")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
