"""The HTML report of a filled table: what it was understood to be, what was filled, and how well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tsimpute.core.panel import IMPUTED, INVALID, LEFT_EMPTY, NO_INFORMATION, OBSERVED, PROVENANCE, RULE, Filling, Panel
from tsimpute.core.shapes import check_shape
from tsimpute.errors import DataError
from tsimpute.reports.pages import Picture, number, png, render, several, share
from tsimpute.system.files import atomic_write

MOST_FEATURES = 40
"""At most so many features have a picture; the report names the others."""
MOST_PICTURE_BYTES = 3_300_000
"""Of all pictures together; in base64 they are a third larger. Features whose pictures do not fit are named, too."""

MEANINGS = {
    OBSERVED: "The value of the table, unchanged.",
    IMPUTED: "Missing in the table; filled with the median of the draws.",
    NO_INFORMATION: "Filled although its series shows no value of this feature; its interval should be wide.",
    LEFT_EMPTY: "Missing in the table and not filled: as asked, or since its column is no measurement.",
    INVALID: "A value stood there and was declared invalid; filled as a gap is.",
    RULE: "Missing in the table; filled without a model, as a constant or between the neighbours of a counter.",
}


Range = tuple[float, float, float]
"""Smallest value, median and largest value; NaN where there is none."""


@dataclass(frozen=True)
class FeatureCounts:
    """One feature over all series.

    Attributes:
        unit: "" where the name says it.
        cells: how many cells are what, in the order of ``PROVENANCE``.
        observed, filled: of the values, in the feature's unit.
        width: mean over filled cells of the distance between the outermost two quantiles; NaN where there are none.
    """

    name: str
    unit: str
    cells: tuple[int, ...]
    observed: Range
    filled: Range
    width: float

    @property
    def n_cells(self) -> int:
        return sum(self.cells)

    @property
    def n_observed(self) -> int:
        return self.cells[OBSERVED]

    @property
    def n_filled(self) -> int:
        return self.n_cells - self.cells[OBSERVED] - self.cells[LEFT_EMPTY]


@dataclass(frozen=True, eq=False)
class ReportContent:
    """The content of a report. The same content gives the same bytes.

    Attributes:
        title: such as "in.csv filled".
        understood: name and value of what the file was taken to be, such as ("time", "hourly, ...").
        done: name and value of what was done: model, steps, draws, seconds, files written.
        warnings: one sentence each.
        scores: rows of a table of what was measured on cells hidden from the model, the imputer's name first; columns
            that start with "coverage" hold shares of 1. Empty = not measured.
        panel: the table as it was understood.
        fillings: one per series of the panel, in its order, all of the same quantile levels.
        calibrated: whether the quantiles are calibrated on hidden cells.

    Raises:
        DataError: the fillings are not the panel's, or an observed value was changed.
    """

    title: str
    understood: Sequence[tuple[str, str]]
    done: Sequence[tuple[str, str]]
    warnings: Sequence[str]
    scores: Sequence[Mapping[str, str | float]]
    panel: Panel
    fillings: Sequence[Filling]
    calibrated: bool = True

    def __post_init__(self) -> None:
        if len(self.fillings) != len(self.panel.series):
            raise DataError(
                f"fillings: expected one for each of {len(self.panel.series)} series, came {len(self.fillings)}."
            )
        for series, filling in zip(self.panel.series, self.fillings, strict=True):
            check_shape(f"filling of {series.name!r}", filling.point, series.values.shape)
            levels = self.fillings[0].levels
            if filling.levels != levels:
                raise DataError(
                    f"filling of {series.name!r}: expected the quantile levels {levels} of the first series, "
                    f"came {filling.levels}."
                )
            if (filling.provenance >= len(PROVENANCE)).any():
                raise DataError(
                    f"provenance of {series.name!r}: expected codes 0 to {len(PROVENANCE) - 1}, "
                    f"came {filling.provenance.max()}."
                )
            changed = (filling.provenance == OBSERVED) & (filling.point != series.values)
            if changed.any():
                k, t = (int(axis[0]) for axis in np.nonzero(changed))
                raise DataError(
                    f"filling of {series.name!r}: expected observed values unchanged, {self.panel.features[k].name} at "
                    f"{series.labels[t]} is {series.values[k, t]} in the table and {filling.point[k, t]} in the "
                    "filling."
                )


def write_report(content: ReportContent, path: Path) -> None:
    """Writes the page in UTF-8, whole or not at all."""
    page = report_html(content)
    atomic_write(path, lambda partial: partial.write_text(page, encoding="utf-8", newline="\n"))


def report_html(content: ReportContent) -> str:
    """One page without anything from elsewhere: its pictures are inside, at most about 5 MB of them."""
    panel, levels = content.panel, content.fillings[0].levels
    features = [_count(panel, content.fillings, k) for k in range(len(panel.features))]
    cells = np.sum([feature.cells for feature in features], axis=0)
    has_interval = len(levels) > 1
    return render(
        "table_report.html",
        title=content.title,
        summary=_summary(panel, cells),
        warnings=content.warnings,
        understood=content.understood,
        done=content.done,
        provenance=[
            (PROVENANCE[code], meaning, f"{cells[code]:,}", share(int(cells[code]), int(cells.sum())))
            for code, meaning in MEANINGS.items()
        ],
        interval=f"{100 * levels[0]:g} to {100 * levels[-1]:g} %" if has_interval else "",
        calibrated=content.calibrated,
        n_inside=f"{100 * (levels[-1] - levels[0]):g}" if has_interval else "",
        feature_table=_feature_table(features, levels),
        **_scores(content.scores),
        **_gap_pictures(content),
        **_feature_pictures(content, features),
    )


def _count(panel: Panel, fillings: Sequence[Filling], k: int) -> FeatureCounts:
    feature = panel.features[k]
    codes = np.concatenate([filling.provenance[k] for filling in fillings])
    is_filled = (codes != OBSERVED) & (codes != LEFT_EMPTY)
    values = np.concatenate([series.values[k] for series in panel.series])[codes == OBSERVED]
    filled = np.concatenate([filling.point[k] for filling in fillings])[is_filled]
    widths = np.empty(0)
    if len(fillings[0].levels) > 1:
        low, high = (np.concatenate([filling.quantiles[i, k] for filling in fillings]) for i in (0, -1))
        widths = (high - low)[is_filled]
    cells = tuple(np.bincount(codes, minlength=len(PROVENANCE)).tolist())
    width = float(widths.mean()) if len(widths) else float("nan")
    return FeatureCounts(feature.name, feature.unit_beside, cells, _range(values), _range(filled), width)


def _range(values: np.ndarray) -> Range:
    if not len(values):
        return float("nan"), float("nan"), float("nan")
    return float(values.min()), float(np.median(values)), float(values.max())


def _summary(panel: Panel, cells: np.ndarray) -> str:
    total, observed, empty = int(cells.sum()), int(cells[OBSERVED]), int(cells[LEFT_EMPTY])
    invalid, blind, ruled = int(cells[INVALID]), int(cells[NO_INFORMATION]), int(cells[RULE])
    gaps, filled = total - observed, total - observed - empty
    size = f"{several(total, 'cell')} ({several(len(panel.features), 'feature')}, {len(panel.series):,} series)"
    if not gaps:
        return f"None of the {size} was missing, so there was nothing to fill."
    missing = f"{several(gaps - invalid, 'was', 'were')} missing ({share(gaps - invalid, total)})"
    if invalid:
        missing += f" and {invalid:,} declared invalid ({share(invalid, total)})"
    result = f"{several(filled, 'was', 'were')} filled" if filled else "none was filled"
    if blind:
        result += f" ({blind:,} of them without information from their own series)"
    if ruled:
        result += f" ({ruled:,} of them by a rule)"
    if empty:
        result += f" and {empty:,} left empty"
    unchanged = f"The {several(observed, 'observed value is', 'observed values are')} unchanged."
    return f"Of {size}, {missing}. Of these {result}. {unchanged}"


def _scores(scores: Sequence[Mapping[str, str | float]]) -> dict[str, object]:
    """The table of scores; what is the same in all its rows is in the text instead."""
    head = list(dict.fromkeys(name for row in scores for name in row))
    same = [name for name in ("units", "cells") if name in head and len({row.get(name) for row in scores}) == 1]
    head = [name for name in head if name not in same]
    known = {name: _score(name, scores[0][name]) for name in same}
    return {
        "scores": (head, [[_score(name, row.get(name, "-")) for name in head] for row in scores]) if scores else (),
        "hidden_cells": f"{known['cells']} observed cells" if "cells" in known else "observed cells",
        "score_units": known.get("units", ""),
    }


def _score(name: str, value: str | float) -> str:
    if isinstance(value, str):
        return value
    if name.lower().startswith("coverage") and np.isfinite(value):
        return f"{100 * value:.1f} %"
    return number(value)


def _gap_pictures(content: ReportContent) -> dict[str, object]:
    from tsimpute.plots import filling_gaps as gap_plots

    panel, fillings = content.panel, content.fillings
    cells = gap_plots.cell_map(panel, fillings)
    per_column, note = cells.steps_per_column, cells.note
    step = "row" if panel.independent_rows else "step"
    caption = [f"Each column is one {step}."] if per_column == 1 else ["Each column stands for a stretch of time."]
    if per_column and per_column > 1:
        caption = [f"Each column stands for {per_column:,} {step}s."]
    if note:
        caption.append(f"Here {note}.")
    if per_column != 1 or note:
        caption.append("Colours mix by the shares of the cells.")
    if (cells.counts.sum(-1) == 0).any():
        caption.append("White: no row at that time.")
    caption.append("Features and series stand in the table's order.")
    alt = "Map of the table: time from left to right, features or series from top to bottom, coloured by what a cell is"
    cell_map = Picture(png(gap_plots.filled_map(panel, cells)), alt, " ".join(caption))
    if panel.independent_rows:  # a gap is one cell
        return {"map": cell_map, "independent_rows": True}
    gaps = gap_plots.gap_lengths(panel, fillings)
    empty_series = gaps.n_whole and (
        f"{several(gaps.n_whole, 'series of a feature shows', 'series of a feature show')} no value at all "
        f"({several(gaps.n_whole_cells, 'cell')}) and {'is' if gaps.n_whole == 1 else 'are'} not counted as a gap."
    )
    histogram = None
    if len(gaps.lengths):
        n_gaps = several(len(gaps.lengths), "gap")
        of_gaps = "A gap is a run of missing steps of one feature in one series."
        histogram = Picture(
            png(gap_plots.gap_histogram(gaps)),
            f"Two histograms of the lengths of {n_gaps}: their number, and the cells in them",
            f"{of_gaps} {empty_series}" if empty_series else of_gaps,
        )
    return {"map": cell_map, "independent_rows": False, "gaps": histogram, "empty_series": empty_series}


def _feature_table(features: Sequence[FeatureCounts], levels: Sequence[float]) -> tuple[list[str], list[list[str]]]:
    wide = f"mean width of the {100 * levels[0]:g} to {100 * levels[-1]:g} % interval" if len(levels) > 1 else ""
    head = [
        "feature", "unit", "observed", "missing", "filled", "of these without information", "of these invalid",
        "left empty", "observed: min", "median", "max", "filled: min", "median", "max", *([wide] * bool(wide)),
    ]  # fmt: skip
    rows = [
        [
            f.name, f.unit, f"{f.n_observed:,}", share(f.n_cells - f.n_observed, f.n_cells),
            f"{f.n_filled:,}", f"{f.cells[NO_INFORMATION]:,}",
            f"{f.cells[INVALID]:,}", f"{f.cells[LEFT_EMPTY]:,}", *map(number, f.observed), *map(number, f.filled),
            *([number(f.width)] * bool(wide)),
        ]
        for f in features
    ]  # fmt: skip
    return head, rows


def _feature_pictures(content: ReportContent, features: Sequence[FeatureCounts]) -> dict[str, object]:
    """Pictures of the features with most filled cells, as many as the page can hold, in the order of the table."""
    from tsimpute.plots import fillings as plots

    filled = np.array([f.n_filled for f in features])
    is_empty = np.array([f.n_observed == 0 for f in features]) & (filled == 0)
    candidates = np.sort(np.lexsort((-filled, is_empty))[:MOST_FEATURES]).tolist()
    pictures: dict[int, Picture] = {}
    size = 0
    for k in (k for k in candidates if not is_empty[k]):
        if content.panel.independent_rows:
            figure, names, over = plots.distribution(content.panel, content.fillings, k), [], "histograms"
        else:
            stretches = plots.stretches(content.fillings, k)
            figure, over = plots.filled_feature(content.panel, content.fillings, k, stretches), "over time, with bands"
            names = [content.panel.series[stretch.series].name for stretch in stretches]
        data = png(figure)
        size += len(data)
        if size > MOST_PICTURE_BYTES:
            break
        where = f" in {', '.join(names)}" if any(names) else ""
        alt = f"{features[k].name}{where}: observed and filled values, {over}"
        unit = f" in {features[k].unit}" if features[k].unit not in ("", "1") else ""
        cells, which = several(int(filled[k]), "cell"), "the series" if len(names) == 1 else "series"
        what = f"{cells} filled." if filled[k] else "Nothing was filled."
        if filled[k] and any(names):
            what = f"{cells} filled in all; shown: {', '.join(names)} ({which} in which most was filled)."
        pictures[k] = Picture(data, alt, f"{features[k].name}{unit}. {what}")
    return {
        "features": [(features[k].name, picture) for k, picture in pictures.items()],
        "empty_features": [features[k].name for k in np.flatnonzero(is_empty).tolist()],
        "left_out": [f.name for k, f in enumerate(features) if k not in pictures and not is_empty[k]],
    }
