"""A page of HTML that is filed beside a filled table: what it was understood to be, what was filled and how well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tsimpute.core.panel import IMPUTED, INVALID, LEFT_EMPTY, NO_INFORMATION, OBSERVED, PROVENANCE, RULE, Filling, Panel
from tsimpute.reports.pages import (  # fmt: skip
    PAGE,
    number,
    pairs_table,
    paragraph,
    picture,
    png,
    safe,
    section,
    several,
    share,
    table,
)
from tsimpute.reports.table_counts import FeatureCounts, check_fillings, count_features
from tsimpute.system.files import write_whole

MOST_FEATURES = 40
"""So many features get a picture; the report names the others."""
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


@dataclass(frozen=True, eq=False)
class ReportContent:
    """All that a report says. The same content gives the same bytes.

    Attributes:
        title: such as "in.csv filled".
        understood: name and value of what the file was taken to be, such as ("time", "hourly, ...").
        done: name and value of what was done: model, steps, draws, seconds, files written.
        warnings: one sentence each.
        scores: rows of a table of what was measured on cells hidden from the model, the imputer's name first; columns
            that start with "coverage" hold shares of 1. Empty = not measured.
        panel: the table as it was understood.
        fillings: one per series of the panel, in its order, all of the same quantile levels.

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

    def __post_init__(self) -> None:
        check_fillings(self.panel, self.fillings)


def write_report(content: ReportContent, path: Path) -> None:
    """Writes the page in UTF-8, whole or not at all."""
    page = report_html(content)
    write_whole(path, lambda partial: partial.write_text(page, encoding="utf-8", newline="\n"))


def report_html(content: ReportContent) -> str:
    """One page without anything from elsewhere: its pictures are inside, at most about 5 MB of them."""
    features = count_features(content.panel, content.fillings)
    cells = np.sum([feature.cells for feature in features], axis=0)
    parts = [
        f"<h1>{safe(content.title)}</h1>",
        paragraph(_summary(content.panel, cells), "lead"),
        _warnings(content.warnings),
        section("What the file was understood to be", pairs_table(content.understood)) if content.understood else "",
        section("What was done", pairs_table(content.done)) if content.done else "",
        section("What the cells are", _legend(cells)),
        _scores(content.scores),
        section("Where values were missing", *_gap_pictures(content)),
        section("The features in numbers", *_feature_table(features, content.fillings[0].levels)),
        section("The features in pictures", *_feature_pictures(content, features)),
        section("How to read this", *_how_to_read(content.fillings[0].levels)),
    ]
    return PAGE.substitute(title=safe(content.title), body="\n".join(part for part in parts if part))


def _summary(panel: Panel, cells: np.ndarray) -> str:
    total, observed, empty = int(cells.sum()), int(cells[OBSERVED]), int(cells[LEFT_EMPTY])
    invalid, blind, ruled = int(cells[INVALID]), int(cells[NO_INFORMATION]), int(cells[RULE])
    gaps, filled = total - observed, total - observed - empty
    size = f"{several(total, 'cell')} ({several(len(panel.features), 'feature')}, {len(panel.series):,} series)"
    if not gaps:
        return f"None of the {size} was missing, so there was nothing to fill."
    lacking = f"{several(gaps - invalid, 'was', 'were')} missing ({share(gaps - invalid, total)})"
    lacking += f" and {invalid:,} declared invalid ({share(invalid, total)})" * bool(invalid)
    done = f"{several(filled, 'was', 'were')} filled" if filled else "none was filled"
    done += f" ({blind:,} of them without information from their own series)" * bool(blind)
    done += f" ({ruled:,} of them by a rule)" * bool(ruled)
    done += f" and {empty:,} left empty" * bool(empty)
    kept = f"The {several(observed, 'observed value is', 'observed values are')} unchanged."
    return f"Of {size}, {lacking}. Of these {done}. {kept}"


def _warnings(warnings: Sequence[str]) -> str:
    if not warnings:
        return ""
    items = [f"<li>{safe(warning)}</li>" for warning in warnings]
    return "\n".join(['<section class="warnings">', "<h2>Worth a look</h2>", "<ul>", *items, "</ul>", "</section>"])


def _legend(cells: np.ndarray) -> str:
    total = int(cells.sum())
    rows = [
        (PROVENANCE[code], meaning, f"{cells[code]:,}", share(int(cells[code]), total))
        for code, meaning in MEANINGS.items()
    ]
    return table(("mark", "meaning", "cells", "share"), rows, n_words=2)


def _scores(scores: Sequence[Mapping[str, str | float]]) -> str:
    title = "How good the filling is"
    if not scores:
        return section(title, paragraph("This was not measured: no observed cells were hidden to compare with."))
    head = list(dict.fromkeys(name for row in scores for name in row))
    # What is the same for all needs no column.
    same = [name for name in ("units", "cells") if name in head and len({row.get(name) for row in scores}) == 1]
    head = [name for name in head if name not in same]
    rows = [[_score(name, row.get(name, "-")) for name in head] for row in scores]
    known = {name: _score(name, scores[0][name]) for name in same}
    cells = f"{known['cells']} observed cells" if "cells" in known else "observed cells"
    units = f" MAE, RMSE and CRPS are in {known['units']}." if "units" in known else ""
    text = (
        f"Measured on {cells} of this table that were hidden from the models: each filled them without seeing them, "
        f"and the result was compared with the true values. Errors (MAE, RMSE, CRPS) are better when smaller.{units} "
        "Coverage is the share of the hidden values that lie inside the interval: a 90 % interval that holds covers "
        "about 90 % of them, one that covers fewer is too narrow, one that covers more too wide. Real gaps may be "
        "longer or come at other times than the hidden cells, and be harder to fill."
    )
    return section(title, table(head, rows), paragraph(text))


def _score(name: str, value: str | float) -> str:
    if isinstance(value, str):
        return value
    if name.lower().startswith("coverage") and np.isfinite(value):
        return f"{100 * value:.1f} %"
    return number(value)


def _gap_pictures(content: ReportContent) -> list[str]:
    from tsimpute.plots import filling_gaps as gap_plots

    panel, fillings = content.panel, content.fillings
    cells = gap_plots.cell_map(panel, fillings)
    per_column, note = cells.steps_per_column, cells.note
    caption = ["Each column is one step."] if per_column == 1 else ["Each column stands for a stretch of time."]
    if per_column and per_column > 1:
        caption = [f"Each column stands for {per_column:,} steps."]
    caption += [f"Here {note}."] * bool(note)
    caption += ["Colours mix by the shares of the cells."] * (per_column != 1 or bool(note))
    caption += ["White: no row at that time."] * bool((cells.counts.sum(-1) == 0).any())
    caption += ["Features and series stand in the table's order."]
    alt = "Map of the table: time from left to right, features or series from top to bottom, coloured by what a cell is"
    parts = [picture(png(gap_plots.filled_map(panel, cells)), alt, " ".join(caption))]
    gaps = gap_plots.gap_lengths(panel, fillings)
    whole = (
        f"{several(gaps.n_whole, 'series of a feature shows', 'series of a feature show')} no value at all "
        f"({several(gaps.n_whole_cells, 'cell')}) and {'is' if gaps.n_whole == 1 else 'are'} not counted as a gap."
    )
    if len(gaps.lengths):
        caption = ["A gap is a run of missing steps of one feature in one series."] + [whole] * bool(gaps.n_whole)
        alt = (
            f"Two histograms of the lengths of {several(len(gaps.lengths), 'gap')}: their number, and the cells in them"
        )
        parts.append(picture(png(gap_plots.gap_histogram(gaps)), alt, " ".join(caption)))
    else:
        parts.append(paragraph(whole if gaps.n_whole else "There are no gaps."))
    return parts


def _feature_table(features: Sequence[FeatureCounts], levels: Sequence[float]) -> list[str]:
    wide = f"mean width of the {100 * levels[0]:g} to {100 * levels[-1]:g} % interval" if len(levels) > 1 else ""
    head = [
        "feature", "unit", "observed", "missing", "filled", "of these without information", "of these invalid",
        "left empty", "observed: min", "median", "max", "filled: min", "median", "max", *([wide] * bool(wide)),
    ]  # fmt: skip
    rows = [
        [
            f.name, f.unit, f"{f.n_observed:,}", share(f.n_cells - f.n_observed, f.n_cells),
            f"{f.n_cells - f.n_observed - f.cells[LEFT_EMPTY]:,}", f"{f.cells[NO_INFORMATION]:,}",
            f"{f.cells[INVALID]:,}", f"{f.cells[LEFT_EMPTY]:,}", *map(number, f.observed), *map(number, f.filled),
            *([number(f.width)] * bool(wide)),
        ]
        for f in features
    ]  # fmt: skip
    note = (
        "Missing includes cells declared invalid. Filled values are the medians of the draws, or what a rule says, in "
        "the feature's unit."
    )
    return [table(head, rows, n_words=2), paragraph(note)]


def _feature_pictures(content: ReportContent, features: Sequence[FeatureCounts]) -> list[str]:
    from tsimpute.plots import fillings as plots

    filled = np.array([f.n_cells - f.n_observed - f.cells[LEFT_EMPTY] for f in features])
    nothing = np.array([f.n_observed == 0 for f in features]) & (filled == 0)
    shown = np.sort(np.lexsort((-filled, nothing))[:MOST_FEATURES]).tolist()
    shown = [k for k in shown if not nothing[k]]
    parts, size, done = [], 0, set()
    for k in shown:
        chosen = plots.stretches(content.fillings, k)
        data = png(plots.filled_feature(content.panel, content.fillings, k, chosen))
        size += len(data)
        if size > MOST_PICTURE_BYTES:
            break
        names = [content.panel.series[stretch.series].name for stretch in chosen]
        where = f" in {', '.join(names)}" if any(names) else ""
        alt = f"{features[k].name}{where}: observed and filled values over time, with bands"
        parts += [
            f"<h3>{safe(features[k].name)}</h3>",
            picture(data, alt, _caption(features[k], names, int(filled[k]))),
        ]
        done.add(k)
    empty = [features[k].name for k in np.flatnonzero(nothing).tolist()]
    rest = [f.name for k, f in enumerate(features) if k not in done and not nothing[k]]
    parts += [paragraph(f"Without a picture, as no value was observed or filled: {', '.join(empty)}.")] * bool(empty)
    parts += [paragraph(f"Left out, to keep this page small: {', '.join(rest)}.")] * bool(rest)
    return parts


def _caption(feature: FeatureCounts, names: Sequence[str], filled: int) -> str:
    unit = f" in {feature.unit}" if feature.unit not in ("", "1") else ""
    if not filled:
        return f"{feature.name}{unit}. Nothing was filled."
    if not any(names):
        return f"{feature.name}{unit}. {several(filled, 'cell')} filled."
    which = "the series in which most was filled" if len(names) == 1 else "series in which most was filled"
    return f"{feature.name}{unit}. {several(filled, 'cell')} filled in all; shown: {', '.join(names)} ({which})."


def _how_to_read(levels: Sequence[float]) -> list[str]:
    wide = f"{100 * levels[0]:g} to {100 * levels[-1]:g} %" if len(levels) > 1 else ""
    texts = [
        "Filled values are no measurements. For each gap many values were drawn from a learnt distribution, given what "
        "was observed; the table holds their median, the value that is too high as often as too low.",
        f"The {wide} interval holds the true value in about {100 * (levels[-1] - levels[0]):g} of 100 filled cells, as "
        "far as the scores above bear it out. A wide interval means that the table says little about that cell."
        if wide
        else "No interval was asked for, so this page cannot say how sure a filled value is.",
        "Medians are smoother than what was not seen. For sums, extremes, or how often a limit was passed, use the "
        "draws or the quantiles, not the medians alone.",
    ]
    return [paragraph(text) for text in texts]
