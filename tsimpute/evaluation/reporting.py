"""The result of an evaluation: typed rows, kept as CSV that reads back equal, and as a Markdown table for people."""

from __future__ import annotations

import csv
import io
import itertools
import math
import typing
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from tsimpute.config.registry import make
from tsimpute.errors import DataError
from tsimpute.system.files import atomic_write_text

if typing.TYPE_CHECKING:
    import pandas as pd

HEADLINES = (
    "crps", "crps_fair", "crps_mean_over_features", "ncrps", "mae_median", "rmse_mean",
    "coverage_50", "coverage_90", "coverage_95",
)  # fmt: skip
"""Metrics of the Markdown table."""


@dataclass(frozen=True)
class EvaluationContext:
    """What was evaluated, in words and numbers that the evaluation itself cannot know; "" or None where not given.

    Attributes:
        protocol: how splits, held-out cells and scaling were made, such as "csdi" or "clean".
        mechanism, rate: how the held-out cells were chosen, and their share of the observed cells.
        imputer: taken from the imputer where "".
        n_steps: solver steps per sample.
        epoch: passes over the training set so far; None for a method that is not trained so.
        run: name of the training run, such as its seed; values of several runs are shown as a band.
    """

    dataset: str = ""
    split: str = ""
    protocol: str = ""
    fold: int | None = None
    mechanism: str = ""
    rate: float | None = None
    imputer: str = ""
    process: str = ""
    solver: str = ""
    n_steps: int | None = None
    epoch: int | None = None
    run: str = ""

    def __post_init__(self) -> None:
        for name, kind in typing.get_type_hints(type(self)).items():
            kinds, value = typing.get_args(kind) or (kind,), getattr(self, name)
            if not isinstance(value, (*kinds, int) if float in kinds else kinds) or isinstance(value, bool):
                raise DataError(f"context: {name} expects {kinds[0].__name__}, came {value!r}.")


@dataclass(frozen=True)
class Row:
    """One value, and all that must be known to compare it with another. See EvaluationContext and metrics.Scores.

    Attributes:
        fill: "scored" if only the held-out cells were asked for, "missing" if every missing cell was.
        feature: a feature's name, or "all".
        units: the unit of ``value``; "standardised" for z-scores, "1" for pure numbers, "mixed" for a mean over
            features of different units, "" where unknown.
        value: None where undefined; the note says why.
        seconds: time spent in the imputer for the whole evaluation.
    """

    dataset: str
    split: str
    protocol: str
    fold: int | None
    mechanism: str
    rate: float | None
    imputer: str
    process: str
    solver: str
    n_steps: int | None
    n_samples: int
    fill: str
    epoch: int | None
    run: str
    metric: str
    feature: str
    units: str
    value: float | None
    n_cells: int
    n_records: int
    seed: int
    seconds: float
    note: str = ""

    @property
    def nfe(self) -> int | None:
        """Network evaluations per sample; None for a method without a solver."""
        if self.n_steps is None:
            return None
        return make("solvers", self.solver.split(",")[0]).n_evaluations(self.n_steps)


_COLUMNS = tuple(f.name for f in fields(Row))
_TYPES = typing.get_type_hints(Row)
_MEASURED = ("metric", "feature", "units", "value", "n_cells", "n_records", "seconds", "note")
_ASKED = tuple(name for name in _COLUMNS if name not in _MEASURED)
"""The columns that say which evaluation a row belongs to."""
_MOST_PRINTED = 4
"""Evaluations that are printed one by one; more are lines of one table."""


@dataclass(frozen=True)
class Report:
    """Rows of one or many evaluations.

    ``print`` shows a short table; ``to_frame`` has all rows, those of each feature included.
    """

    rows: tuple[Row, ...]

    def __str__(self) -> str:
        evaluations: dict[tuple, list[Row]] = {}
        for row in self.rows:
            evaluations.setdefault(_values(row, _ASKED), []).append(row)
        if len(evaluations) > _MOST_PRINTED:
            return self.markdown()
        return "\n\n".join(map(_text_table, evaluations.values())) or "no rows"

    __repr__ = __str__

    def to_frame(self) -> pd.DataFrame:
        """One line for each row."""
        import pandas as pd

        return pd.DataFrame([asdict(row) for row in self.rows], columns=list(_COLUMNS))

    @classmethod
    def concat(cls, reports: Iterable[Report]) -> Report:
        """The rows of all reports, in order."""
        return cls(tuple(row for report in reports for row in report.rows))

    def where(self, **wanted: object) -> Report:
        """The rows whose columns have the given values, such as ``where(metric="crps", feature="all")``.

        Raises:
            DataError: there is no such column.
        """
        unknown = sorted(set(wanted) - set(_COLUMNS))
        if unknown:
            raise DataError(f"report: no column {unknown[0]!r}; columns are {', '.join(_COLUMNS)}.")
        return Report(tuple(r for r in self.rows if all(getattr(r, name) == x for name, x in wanted.items())))

    def value(self, metric: str, feature: str = "all", **wanted: object) -> float | None:
        """The one value of a metric; None where it is undefined.

        Raises:
            DataError: no row or more than one row fits.
        """
        rows = self.where(metric=metric, feature=feature, **wanted).rows
        if len(rows) != 1:
            raise DataError(
                f"report: expected one row for {metric!r} of {feature!r} {wanted or ''}, there are {len(rows)}."
            )
        return rows[0].value

    def updated(self, newer: Report) -> Report:
        """These rows, those of ``newer`` in the place of any of the same evaluation, metric and feature."""
        rows = {_values(row, (*_ASKED, "metric", "feature")): row for row in (*self.rows, *newer.rows)}
        return Report(tuple(rows.values()))

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Writes ``metrics.csv`` and ``tables.md`` into ``folder``, each whole or not at all; returns their paths."""
        table, text = Path(folder) / "metrics.csv", Path(folder) / "tables.md"
        atomic_write_text(table, self.csv())
        atomic_write_text(text, self.markdown())
        return table, text

    @classmethod
    def read(cls, path: Path) -> Report:
        """The rows of a ``metrics.csv``, or of the one in a folder, equal to those written.

        Raises:
            DataError: no such file, other columns, or a cell of the wrong kind; the message names the line.
        """
        path = Path(path)
        path = path / "metrics.csv" if path.is_dir() else path
        if not path.is_file():
            raise DataError(f"{path}: expected a metrics.csv as Report.write makes it; there is none.")
        with path.open(newline="", encoding="utf-8") as file:
            lines = csv.reader(file)
            header = next(lines, [])
            if tuple(header) != _COLUMNS:
                places = enumerate(itertools.zip_longest(_COLUMNS, header), 1)
                at, (expected, came) = next((n, pair) for n, pair in places if pair[0] != pair[1])
                raise DataError(
                    f"{path}: expected the columns that Report.write makes, as column {at} {expected or 'none'}; came "
                    f"{came or 'none'}."
                )
            rows = []
            for line in lines:
                where = f"{path}, line {lines.line_num}"
                if len(line) != len(_COLUMNS):
                    raise DataError(f"{where}: expected {len(_COLUMNS)} cells, came {len(line)}.")
                rows.append(Row(*(_typed(name, text, where) for name, text in zip(_COLUMNS, line, strict=True))))
            return cls(tuple(rows))

    @classmethod
    def kept_in(cls, folder: Path) -> Report:
        """What was written into ``folder``; no rows where nothing was."""
        path = Path(folder) / "metrics.csv"
        return cls.read(path) if path.exists() else cls(())

    def alike(self, row: Row) -> Report:
        """The rows scored in the same way as ``row``, on the same cells: those that belong into one picture."""
        names = ("dataset", "split", "protocol", "fold", "mechanism", "rate", "fill", "units", "seed")
        return self.where(**{name: getattr(row, name) for name in names})

    def csv(self) -> str:
        """One line per row; floats with all digits, None as an empty cell."""
        return csv_text(_COLUMNS, (_values(row) for row in self.rows))

    def markdown(self) -> str:
        """A table of the headline metrics over all features, one line per evaluation.

        What is the same everywhere stands above the table; what is undefined or needs a word has a footnote.
        """
        groups: dict[tuple, dict[str, Row]] = {}
        for row in self.rows:
            if row.feature == "all" and row.metric in HEADLINES:
                groups.setdefault(_values(row, _ASKED), {})[row.metric] = row
        if not groups:
            return "No headline metric was measured.\n"
        metrics = [m for m in HEADLINES if any(m in rows for rows in groups.values())]
        first = [next(iter(rows.values())) for rows in groups.values()]
        columns: dict[str, list[object]] = {name: [key[i] for key in groups] for i, name in enumerate(_ASKED)}
        columns["n_records"], columns["n_cells"] = [r.n_records for r in first], [r.n_cells for r in first]
        columns["units"] = [next((r.units for r in rows.values() if r.units != "1"), "") for rows in groups.values()]
        fixed = {name: x[0] for name, x in columns.items() if len(set(x)) == 1 and name not in ("imputer", "n_cells")}
        shown = [name for name in columns if name not in fixed]
        notes: list[str] = []
        body = [
            [_label(columns[name][i]) for name in shown]
            + [_cell(rows.get(m), notes) for m in metrics]
            + [f"{first[i].seconds:.3g}"]
            for i, rows in enumerate(groups.values())
        ]
        title = "; ".join(f"{name}: {_label(x)}" for name, x in fixed.items() if x not in ("", None))
        lines = [f"{title}.", ""] if title else []
        lines += ["| " + " | ".join([*shown, *metrics, "seconds"]) + " |"]
        lines += ["|" + "|".join(["---"] * len(shown) + ["---:"] * (len(metrics) + 1)) + "|"]
        lines += ["| " + " | ".join(line) + " |" for line in body]
        lines += [
            "",
            "CRPS, MAE and RMSE are in the units given and better when lower, as is ncrps (a pure number); "
            "coverage_c is best at c %. Seconds are the imputer's.",
        ]
        lines += [f"{'' if i else chr(10)}[{i + 1}] {note}." for i, note in enumerate(notes)]
        return "\n".join(lines) + "\n"


def _text_table(evaluation: Sequence[Row]) -> str:
    """A line for each metric of one evaluation."""
    first, metrics = evaluation[0], {}
    for row in evaluation:
        metrics.setdefault(row.metric, {})[row.feature] = row
    lines = [f"{'metric':<24}{'all cells':>12}{'mean over features':>22}"]
    for metric, rows in metrics.items():
        values = [row.value for name, row in rows.items() if name != "all" and row.value is not None]
        alike = len({row.units for name, row in rows.items() if name != "all"}) == 1
        mean = f"{math.fsum(values) / len(values):.4g}" if values and alike else "-"
        if "all" in rows and not metric.endswith("_mean_over_features"):
            value = rows["all"].value
            lines.append(f"{metric:<24}{'undefined' if value is None else f'{value:.4g}':>12}{mean:>22}")
    units = next((row.units for row in evaluation if row.feature == "all" and row.units != "1"), "") or "unknown"
    sampler = "" if first.n_steps is None else f": {first.solver}, {first.n_steps} steps, {first.nfe} NFE per sample"
    epoch = "" if first.epoch is None else f", epoch {first.epoch}"
    samples = "1 sample" if first.n_samples == 1 else f"{first.n_samples} samples"
    cells = f"{first.n_cells:,} cells of {first.n_records:,} records, units: {units}"
    return "\n".join([f"{first.imputer}{sampler}{epoch}, {samples}", cells, "", *lines])


def _cell(row: Row | None, notes: list[str]) -> str:
    if row is None:
        return "-"
    text = "undefined" if row.value is None else f"{row.value:.4g}"
    if not row.note:
        return text
    if row.note not in notes:
        notes.append(row.note)
    return f"{text} [{notes.index(row.note) + 1}]"


def _label(value: object) -> str:
    return "-" if value in ("", None) else str(value).replace("|", "\\|").replace("\n", " ")


def csv_text(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as CSV; floats with all digits, None as an empty cell."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([head, *rows])
    return out.getvalue()


def _values(row: Row, names: Sequence[str] = _COLUMNS) -> tuple[typing.Any, ...]:
    return tuple(getattr(row, name) for name in names)


def _typed(name: str, text: str, where: str) -> typing.Any:
    kinds = typing.get_args(_TYPES[name]) or (_TYPES[name],)
    if text == "" and type(None) in kinds:
        return None
    try:
        return kinds[0](text)
    except ValueError as error:
        raise DataError(f"{where}: column {name!r} expects {kinds[0].__name__}, came {text!r}.") from error
