"""The report says what the arrays say, is one valid page whatever the names are, and stays small."""

from __future__ import annotations

import base64
import io
import re
import time
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from tsimpute.core.panel import (  # fmt: skip
    IMPUTED,
    INVALID,
    LEFT_EMPTY,
    NO_INFORMATION,
    OBSERVED,
    PROVENANCE,
    Clock,
    Filling,
    Panel,
    Series,
)
from tsimpute.core.windows import Feature
from tsimpute.errors import DataError
from tsimpute.plots import filling_gaps as gap_plots
from tsimpute.plots import fillings as plots
from tsimpute.reports import table_report as report_module
from tsimpute.reports.pages import number, png, share
from tsimpute.reports.table_report import ReportContent, report_html, write_report

VOID = {"meta", "img", "br", "link", "hr"}
FIVE = (0.05, 0.25, 0.5, 0.75, 0.95)


def filling_of(truth: np.ndarray, values: np.ndarray, levels: tuple[float, ...], provenance: np.ndarray) -> Filling:
    """A filling as a model would give it: medians near the truth, bands wider within longer gaps."""
    rng = np.random.default_rng(7)
    filled = ~np.isin(provenance, (OBSERVED, LEFT_EMPTY))
    spread = np.nanstd(truth) * np.where(provenance == NO_INFORMATION, 0.8, 0.3) + 1e-3
    middle = truth + spread * rng.normal(size=truth.shape) * 0.5
    shifts = np.array([4 * (level - 0.5) for level in levels]).reshape(-1, 1, 1)
    point = np.where(filled, middle, values)
    quantiles = np.where(filled, middle + shifts * spread, values)
    return Filling(point, levels, quantiles, provenance.astype(np.uint8))


def truth_of(n_features: int, n_steps: int, rng: np.random.Generator) -> np.ndarray:
    at = np.arange(n_steps)
    rows = []
    for k in range(n_features):
        walk = np.cumsum(rng.normal(size=n_steps)) * 0.98
        walk -= np.asarray(pd.Series(walk).rolling(200, min_periods=1, center=True).mean())
        rows.append(np.exp(3.6 + 0.3 * np.sin(at * 2 * np.pi / 24 + k) + 0.08 * walk + 0.05 * rng.normal(size=n_steps)))
    return np.array(rows).reshape(n_features, n_steps)


def holes(shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Single missing cells, and blocks whose lengths have a long tail."""
    missing = rng.random(shape) < 0.03
    for k in range(shape[0]):
        for _ in range(max(1, shape[1] // 150)):
            start, n = rng.integers(shape[1]), int(rng.pareto(1.2) * 4) + 1
            missing[k, start : start + min(n, shape[1] // 3 + 1)] = True
    return missing


def content_of(
    names: list[str],
    features: tuple[Feature, ...],
    n_steps: int,
    levels: tuple[float, ...] = FIVE,
    numeric: bool = False,
    seed: int = 0,
) -> ReportContent:
    """A table like those of air-quality stations, with every kind of cell where it is large enough."""
    rng = np.random.default_rng(seed)
    series, fillings = [], []
    for i, name in enumerate(names):
        truth = truth_of(len(features), n_steps, rng)
        provenance = np.where(holes(truth.shape, rng), IMPUTED, OBSERVED)
        long = n_steps // 5
        provenance[0, 2 * long : 2 * long + long // 2] = LEFT_EMPTY if i % 5 == 4 else provenance[0, 2 * long]
        provenance[0][(rng.random(n_steps) < 0.004) & (provenance[0] == OBSERVED)] = INVALID
        if (i == 2 and len(features) > 1) or i == 7:
            provenance[-1] = NO_INFORMATION
        values = np.where(provenance == OBSERVED, truth, np.nan)
        times = np.arange(n_steps, dtype=float)
        hours = np.datetime64("2014-05-01T00:00", "us") + np.arange(n_steps) * np.timedelta64(1, "h")
        labels = times if numeric else hours
        series.append(Series(name, times, values, labels))
        fillings.append(filling_of(truth, values, levels, provenance))
    clock = Clock("" if numeric else "hours", 1.0)
    return ReportContent(
        title="pm25.csv filled",
        understood=[("time", "column datetime, hourly"), ("groups", f"{len(names)}")],
        done=[("model", "fitted on this table: flow matching, 8 steps"), ("draws", "100"), ("time", "412 s")],
        warnings=["CO: -200 stands 1,683 times and far from all other values: a code for missing?"],
        scores=[
            {"imputer": "this model", "MAE": 9.81, "CRPS": 7.1, "coverage 50 %": 0.493, "coverage 90 %": 0.897},
            {"imputer": "linear interpolation", "MAE": 12.04},
        ],
        panel=Panel(features, tuple(series), clock),
        fillings=fillings,
    )  # fmt: skip


class Page(HTMLParser):
    """Reads a page, and refuses tags that are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.images: list[dict[str, str]] = []
        self.tables: list[list[list[str]]] = []
        self.tags: Counter[str] = Counter()
        self.sources: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        given = {name: value or "" for name, value in attrs}
        self.sources += [value for name, value in given.items() if name in ("src", "href", "srcset", "data", "action")]
        if tag == "img":
            self.images.append(given)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data
        if "style" not in self.open:
            self.words += data

    def table(self, corner: str) -> list[list[str]]:
        """The rows below the head of the one table whose first cell says ``corner``."""
        (found,) = [table for table in self.tables if table[0][0] == corner]
        return found[1:]


def content_from(
    values: object, provenance: object, levels: tuple[float, ...] = FIVE, clock: Clock | None = None
) -> ReportContent:
    """Content of one nameless series of values (K, T), with nothing told but the values."""
    truth, codes = np.asarray(values, float), np.asarray(provenance)
    times = np.arange(truth.shape[1], dtype=float)
    features = tuple(Feature(f"x{k}", "mg") for k in range(len(truth)))
    series = Series("", times, np.where(codes == OBSERVED, truth, np.nan), times)
    filling = filling_of(truth, series.values, levels, codes)
    return ReportContent("t", [], [], [], [], Panel(features, (series,), clock or Clock("hours", 1.0)), [filling])


def draw(content: ReportContent) -> Figure:
    """The picture of the first feature."""
    return plots.filled_feature(content.panel, content.fillings, 0, plots.stretches(content.fillings, 0))


STATIONS = tuple(f"10{i:02d}" for i in range(8))
THREE = (Feature("CO(GT)", "mg/m^3"), Feature("PM2.5", "µg/m³"), Feature("T", "°C"))


@pytest.fixture(scope="module")
def content() -> ReportContent:
    return content_of(list(STATIONS), THREE, 400)


@pytest.fixture(scope="module")
def text(content: ReportContent) -> str:
    return report_html(content)


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def total(content: ReportContent, code: int) -> int:
    return sum(int((filling.provenance == code).sum()) for filling in content.fillings)


def test_the_summary_counts_what_the_arrays_hold(content: ReportContent, page: Page):
    n = [total(content, code) for code in range(5)]
    assert all(n)
    cells = 8 * 3 * 400
    missing, filled = n[IMPUTED] + n[NO_INFORMATION] + n[LEFT_EMPTY], n[IMPUTED] + n[NO_INFORMATION] + n[INVALID]
    assert (
        f"Of {cells:,} cells (3 features, 8 series), {missing:,} were missing ({100 * missing / cells:.1f} %) and "
        f"{n[INVALID]:,} declared invalid ({100 * n[INVALID] / cells:.1f} %). Of these {filled:,} were filled "
        f"({n[NO_INFORMATION]:,} of them without information from their own series) and {n[LEFT_EMPTY]:,} left empty. "
        f"The {n[OBSERVED]:,} observed values are unchanged."
    ) in page.words


def test_the_marks_are_explained_and_counted(content: ReportContent, page: Page):
    rows = page.table("mark")
    assert [(row[0], row[2]) for row in rows] == [(PROVENANCE[code], f"{total(content, code):,}") for code in range(6)]


def test_the_feature_table_equals_a_count_by_pandas(content: ReportContent, page: Page):
    frames = [
        pd.DataFrame(
            {"k": k, "code": f.provenance[k], "point": f.point[k], "width": f.quantiles[-1, k] - f.quantiles[0, k]}
        )
        for f in content.fillings
        for k in range(3)
    ]
    cells = pd.concat(frames)
    for k, row in enumerate(page.table("feature")):
        mine = cells[cells["k"] == k]
        seen, filled = mine[mine["code"] == OBSERVED], mine[(mine["code"] != OBSERVED) & (mine["code"] != LEFT_EMPTY)]
        assert row[:2] == [THREE[k].name, THREE[k].unit]
        assert row[2:8] == [
            f"{len(seen):,}",
            f"{100 * (1 - len(seen) / len(mine)):.1f} %",
            f"{len(filled):,}",
            *(f"{(mine['code'] == code).sum():,}" for code in (NO_INFORMATION, INVALID, LEFT_EMPTY)),
        ]
        expected = [getattr(part["point"], name)() for part in (seen, filled) for name in ("min", "median", "max")]
        expected.append(filled["width"].mean())
        assert [float(cell.replace(",", "")) for cell in row[8:]] == pytest.approx(expected, rel=1e-3)


def test_scores_stand_as_given_and_coverage_in_percent(page: Page):
    assert page.table("imputer") == [
        ["this model", "9.81", "7.1", "49.3 %", "89.7 %"],
        ["linear interpolation", "12.04", "-", "-", "-"],
    ]
    assert "hidden from the models" in page.words


def test_without_scores_the_report_says_that_nothing_was_measured():
    words = Page(report_html(content_from([[1.0, 2.0]], [[0, 1]]))).words
    assert "This was not measured" in words
    assert "hidden from the models" not in words


def test_the_report_says_where_intervals_are_not_calibrated(content: ReportContent):
    of_few, calibrated = "The intervals are not calibrated on hidden cells", "interval holds the true value"
    assert of_few not in (text := report_html(content))
    assert calibrated in text
    assert of_few in (text := report_html(replace(content, calibrated=False)))
    assert calibrated not in text


def test_warnings_are_shown_only_where_there_are_some():
    content = content_from([[1.0, 2.0]], [[0, 1]])
    assert 'class="warnings"' not in report_html(content)
    warned = Page(report_html(replace(content, warnings=["x0: -200 stands twice"])))
    assert "Worth a look\n\nx0: -200 stands twice" in warned.words


def test_every_picture_is_a_png_of_the_size_that_is_told_and_has_words_for_it(page: Page):
    assert len(page.images) == 2 + 3
    for image in page.images:
        data = base64.b64decode(image["src"].removeprefix("data:image/png;base64,"), validate=True)
        with Image.open(io.BytesIO(data)) as decoded:
            decoded.load()
            assert decoded.format == "PNG"
            assert (str(decoded.width), str(decoded.height)) == (image["width"], image["height"])
        assert len(image["alt"]) > 20


def test_rare_colours_survive_the_palette():
    figure = Figure(figsize=(8, 6))
    axis = figure.add_axes((0, 0, 1, 1))
    mixes = np.random.default_rng(0).random((500, 500, 1)) * 0.5
    axis.imshow((1 - mixes) * (0.85, 0.85, 0.85) + mixes * (0, 0.45, 0.7), extent=(0, 1, 0, 1), aspect="auto")
    rare = np.array([[204, 121, 167], [34, 34, 34], [213, 94, 0]])
    for i, colour in enumerate(rare / 255):
        axis.add_patch(Rectangle((0.1 + 0.2 * i, 0.1), 0.01, 0.01, color=colour))
    with Image.open(io.BytesIO(png(figure))) as image:
        pixels = np.asarray(image.convert("RGB")).reshape(-1, 1, 3).astype(int)
    assert (np.abs(pixels - rare).max(-1).min(0) <= 8).all()


def test_the_page_needs_nothing_from_elsewhere_and_runs_nothing(text: str, page: Page):
    assert all(source.startswith("data:image/png;base64,") for source in page.sources)
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    assert not re.search(r"@import|url\(|https?:", text)


def test_the_same_content_gives_the_same_bytes(tmp_path: Path):
    content = content_of(["a"], THREE[:1], 100)
    write_report(content, tmp_path / "a.html")
    write_report(content, tmp_path / "new" / "b.html")
    data = (tmp_path / "a.html").read_bytes()
    assert data == (tmp_path / "new" / "b.html").read_bytes()
    assert data.decode("utf-8") == report_html(content)
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["a.html", "new"]


NASTY = [
    "<script>alert(1)</script>",
    "a\"b'c & d",
    "$\\frac{1}{0}$",
    "北京\n\t站",
    "\x00\x1b[31m",
    "\ud800",
    "${title}",
]


def test_names_are_text_whatever_they_hold():
    features = tuple(Feature(name, name) for name in NASTY)
    content = content_of(NASTY[:1], features, 10)
    content = replace(content, title="<b>", understood=[("</td>", "<i>&amp;")], done=[("<u>", "</p>")])
    content = replace(content, warnings=["<em>"], scores=[{"<th>": "<s>", "MAE": float("nan")}])
    text = report_html(content)
    page = Page(text)
    assert not {"script", "b", "i", "u", "em", "s"} & set(page.tags)
    told = [row[0] for row in page.table("feature")]
    assert told == [*NASTY[:4], "\ufffd\ufffd[31m", "\ufffd", NASTY[6]]
    assert page.table("<th>") == [["<s>", "-"]]
    assert text.encode("utf-8")


@given(st.text())
def test_any_text_reads_back_from_the_page_and_can_be_drawn(name: str):
    unreadable = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff]"
    page = Page(report_html(replace(content_from([[1.0]], [[0]]), done=[(name, name)])))
    assert page.tables[0] == [[re.sub(unreadable, "\ufffd", name)] * 2]
    assert len(plots.drawn(name)) == len(name)
    assert set(map(ord, plots.drawn(name))) <= plots._characters()


@pytest.mark.parametrize("levels", [(), (0.1,), (0.05, 0.2), (0.05, 0.1, 0.9, 0.95)])
def test_any_levels_will_do_and_the_widest_interval_is_told(levels: tuple[float, ...]):
    step = 1.0 if levels else None
    page = Page(report_html(content_from([np.arange(8.0)], [[0, 1, 0, 0, 2, 4, 0, 3]], levels, Clock("", step))))
    widths = [row[14:] for row in page.table("feature")]
    if len(levels) < 2:
        assert widths == [[]]
        assert "No interval was asked for" in page.words
        return
    spread = float(np.std(np.arange(8))) * (0.3 + 0.8 + 0.3) / 3 + 1e-3
    assert widths == [[number(4 * (levels[-1] - levels[0]) * spread)]]


def test_nothing_missing_is_said_to_be_nothing_to_fill():
    page = Page(report_html(content_from(np.ones((2, 5)), np.zeros((2, 5), int))))
    assert "None of the 10 cells (2 features, 1 series) was missing, so there was nothing to fill." in page.words
    assert "There are no gaps." in page.words


def test_all_left_empty_has_no_pictures_of_features_and_names_them():
    page = Page(report_html(content_from(np.ones((2, 5)), np.full((2, 5), LEFT_EMPTY))))
    assert "Of these none was filled and 10 left empty." in page.words
    assert "Without a picture, as no value was observed or filled: x0, x1." in page.words
    assert page.table("feature")[0][8:] == ["-"] * 7
    assert len(page.images) == 1


def test_one_step_is_enough():
    page = Page(report_html(content_from([[1.0], [2.0]], [[0], [1]])))
    assert "Of 2 cells (2 features, 1 series), 1 was missing (50.0 %). Of these 1 was filled." in page.words
    assert len(page.images) == 3


def test_many_features_are_named_where_they_have_no_picture(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(report_module, "MOST_FEATURES", 3)
    codes = np.zeros((200, 6), int)
    codes[[5, 77, 150], 2:4] = IMPUTED
    codes[9, 1] = IMPUTED
    page = Page(report_html(content_from(np.ones((200, 6)), codes)))
    assert len(page.table("feature")) == 200
    assert [image["alt"].split(":")[0] for image in page.images[2:]] == ["x5", "x77", "x150"]
    left_out = re.search(r"Left out, to keep this page small: (.*)\.", page.words)
    assert left_out
    assert left_out[1].split(", ") == [f"x{k}" for k in range(200) if k not in (5, 77, 150)]


def test_pictures_end_where_the_page_would_grow_too_large(monkeypatch: pytest.MonkeyPatch):
    content = content_of(["a"], THREE, 100)
    whole = Page(report_html(content))
    sizes = [len(base64.b64decode(image["src"].split(",")[1])) for image in whole.images[2:]]
    monkeypatch.setattr(report_module, "MOST_PICTURE_BYTES", sizes[0] + sizes[1])
    page = Page(report_html(content))
    assert len(page.images) == 2 + 2
    assert "Left out, to keep this page small: T." in page.words


def test_no_picture_is_so_large_that_a_page_would_exceed_five_megabytes():
    content = content_of([f"10{i:02d}" for i in range(36)], THREE[:1], 2000)
    largest = max(len(image["src"]) for image in Page(report_html(content)).images)
    assert largest < 120_000
    assert 4 / 3 * report_module.MOST_PICTURE_BYTES + 2 * largest + 200_000 < 5e6


def test_a_hundred_thousand_steps_take_seconds():
    content = content_of([""], THREE[:1], 100_000, numeric=True)
    start = time.process_time()
    page = Page(report_html(content))
    assert time.process_time() - start < 10
    assert "Each column stands for 139 steps." in page.words


def test_the_map_counts_every_cell_once_in_its_row_and_column(content: ReportContent):
    cells = gap_plots.cell_map(content.panel, content.fillings)
    assert cells.steps_per_column == 1
    assert cells.rows[:2] == ("CO(GT), 1000", "CO(GT), 1001")
    codes = np.concatenate([[f.provenance[k] for f in content.fillings] for k in range(3)])
    assert (cells.counts == (codes[:, :, None] == np.arange(6))).all()


@given(n_steps=st.integers(1, 3000), n_series=st.integers(1, 400), n_features=st.sampled_from([1, 2, 300]))
@settings(max_examples=12, deadline=None)
def test_a_map_of_any_size_loses_no_cell(n_steps: int, n_series: int, n_features: int):
    n_series = min(n_series, max(1, 300_000 // (n_steps * n_features)))
    times, rng = np.arange(n_steps, dtype=float), np.random.default_rng(n_steps)
    codes = [rng.choice(5, size=(n_features, n_steps)).astype(np.uint8) for _ in range(n_series)]
    points = [np.where(c == LEFT_EMPTY, np.nan, 1.0) for c in codes]
    fillings = [Filling(p, (), np.empty((0, *p.shape)), c) for p, c in zip(points, codes, strict=True)]
    series = tuple(Series(str(n), times, np.where(codes[n] == 0, 1.0, np.nan), times) for n in range(n_series))
    panel = Panel(tuple(Feature(str(k)) for k in range(n_features)), series, Clock("steps", 1.0))
    cells = gap_plots.cell_map(panel, fillings)
    assert cells.counts.shape[0] <= gap_plots.MOST_ROWS
    assert cells.counts.shape[1] <= gap_plots.MOST_COLUMNS
    assert cells.counts.sum((0, 1)).tolist() == np.bincount(np.ravel(codes), minlength=6).tolist()
    assert len(cells.rows) == len(cells.counts)


def test_series_stand_where_their_dates_are():
    series, fillings = [], []
    for name, start in (("a", "2024-03-30"), ("b", "2024-04-02")):
        labels = np.datetime64(start, "us") + np.arange(2) * np.timedelta64(1, "D")
        values = np.array([[1.0, np.nan]])
        series.append(Series(name, np.array([0.0, 24.0]), values, labels))
        fillings.append(filling_of(np.array([[1.0, 2.0]]), values, (0.5,), np.array([[0, 1]])))
    cells = gap_plots.cell_map(Panel((Feature("x"),), tuple(series), Clock("hours", 24.0)), fillings)
    assert cells.counts.sum(-1).tolist() == [[1, 1, 0, 0, 0], [0, 0, 0, 1, 1]]
    assert cells.counts[..., IMPUTED].tolist() == [[0, 1, 0, 0, 0], [0, 0, 0, 0, 1]]


def test_gap_lengths_are_those_of_the_runs_of_missing_cells():
    codes = [[1, 1, 0, 0, 3, 4, 1, 0, 0, 2], [0] * 10, [1] * 10, [0, 1, 0, 0, 1, 1, 0, 1, 1, 0]]
    content = content_from(np.ones((4, 10)), codes, clock=Clock("hours", 0.5))
    series = replace(content.panel.series[0], times=np.arange(10) / 2)
    gaps = gap_plots.gap_lengths(replace(content.panel, series=(series,)), content.fillings)
    assert (gaps.unit, gaps.step) == ("minutes", 30.0)
    assert gaps.lengths.tolist() == [60, 90, 30, 30, 60, 60]
    assert gaps.cells.tolist() == [2, 3, 1, 1, 2, 2]
    assert gaps.at_end.tolist() == [True, False, True, False, False, False]
    assert (gaps.n_whole, gaps.n_whole_cells) == (1, 10)


def test_on_an_irregular_clock_a_gap_lasts_until_the_next_observed_value():
    content = content_from(np.ones((1, 5)), [[0, 1, 1, 0, 1]])
    times = np.array([0.0, 1.0, 1.5, 7.0, 10.0])
    series = replace(content.panel.series[0], times=times, labels=times)
    panel = replace(content.panel, series=(series,), clock=Clock("hours", None))
    gaps = gap_plots.gap_lengths(panel, content.fillings)
    assert gaps.lengths.tolist() == [6.0, 2.0]  # the last step is taken to last as long as the median step
    assert gaps.at_end.tolist() == [False, True]


def test_bars_of_the_histogram_hold_every_gap_once(content: ReportContent):
    gaps = gap_plots.gap_lengths(content.panel, content.fillings)
    left, right = gap_plots.gap_histogram(gaps).axes
    for axis, weights in ((left, np.ones(len(gaps.cells))), (right, gaps.cells)):
        heights = [sum(bar.get_height() for bar in bars) for bars in axis.containers]
        assert heights == [weights[~gaps.at_end].sum(), weights[gaps.at_end].sum()]
    names = [label.get_text() for label in left.get_xticklabels()]
    assert names[:5] == ["1", "2", "3-4", "5-8", "9-16"]
    between = (gaps.lengths >= 5) & (gaps.lengths <= 8) & ~gaps.at_end
    assert left.containers[0][3].get_height() == between.sum() > 0


def test_pictures_show_the_series_with_most_filled_cells_and_the_part_with_most_of_them():
    codes = np.zeros((4, 2000), np.uint8)
    codes[0, 1200:1300] = IMPUTED
    codes[1, :20] = IMPUTED
    codes[2, :] = NO_INFORMATION
    series, fillings = [], []
    for n, code in enumerate(codes):
        one = content_from(np.ones((1, 2000)), code[None])
        series.append(replace(one.panel.series[0], name=str(n)))
        fillings.append(one.fillings[0])
    panel = Panel((Feature("x"),), tuple(series), Clock("hours", 1.0))
    first, second, third = plots.stretches(fillings, 0)
    assert (first.series, second.series, third.series) == (0, 1, 2)
    assert first.start < 1200 < 1300 < first.stop == first.start + 300
    assert (second.start, second.stop) == (0, 300)
    titles = [
        axis.get_title(loc="left") for axis in plots.filled_feature(panel, fillings, 0, [first, second, third]).axes
    ]
    assert titles[1] == "1: 300 of 2,000 steps, around where most is filled, 0 to 299"


def test_short_series_are_shown_whole():
    content = content_from(np.ones((1, 500)), np.arange(500)[None] % 7 == 0)
    assert plots.stretches(content.fillings, 0) == [plots.Stretch(0, 0, 500)]


def test_bands_and_lines_are_drawn_where_cells_were_filled():
    content = content_from([np.arange(10.0) ** 2], [[0, 0, 1, 1, 0, 3, 3, 0, 0, 0]], (0.05, 0.5, 0.95))
    filling = content.fillings[0]
    (axis,) = draw(content).axes
    lines = [np.asarray(line.get_ydata(), float) for line in axis.lines]
    median, *_, observed = [line for line in lines if len(line) == 10 and np.isfinite(line).any()]
    assert np.flatnonzero(np.isfinite(median)).tolist() == [1, 2, 3, 4]
    assert median[2:4].tolist() == filling.point[0, 2:4].tolist()
    assert np.array_equal(observed, content.panel.series[0].values[0], equal_nan=True)
    corners = np.concatenate([path.vertices for band in axis.collections for path in band.get_paths()])
    at_two = corners[corners[:, 0] == 2, 1]
    assert {at_two.min(), at_two.max()} == {filling.quantiles[0, 0, 2], filling.quantiles[2, 0, 2]}


def test_on_an_irregular_clock_no_band_reaches_into_the_time_between():
    content = content_from([np.arange(6.0)], [[0, 1, 1, 0, 1, 0]], clock=Clock("hours", None))
    (axis,) = draw(content).axes
    corners = np.concatenate([path.vertices for band in axis.collections for path in band.get_paths()])
    assert set(corners[:, 0].tolist()) == {1.0, 2.0, 4.0}


def test_fillings_of_another_table_are_refused(content: ReportContent):
    with pytest.raises(DataError, match="expected one for each of 8 series, came 7"):
        replace(content, fillings=content.fillings[:-1])
    other = content_from(np.ones((1, 5)), np.zeros((1, 5), int), FIVE)
    with pytest.raises(DataError, match=r"filling of '1000': expected shape \(3, 400\), came \(1, 5\)"):
        replace(content, fillings=[*other.fillings, *content.fillings[1:]])
    first = content.fillings[0]
    lone = Filling(first.point, (0.5,), first.point[None], first.provenance)
    with pytest.raises(DataError, match=r"filling of '1001': expected the quantile levels \(0.5,\) .* came \(0.05, "):
        replace(content, fillings=[lone, *content.fillings[1:]])


def test_a_changed_observed_value_is_refused_by_name():
    content = content_from([[1.0, 2.0, 3.0]], [[0, 1, 0]])
    point = content.fillings[0].point.copy()
    point[0, 2] = np.nextafter(3.0, 4)
    with pytest.raises(DataError, match=r"x0 at 2.0 is 3.0 in the table and 3.0000000000000004 in the filling"):
        replace(content, fillings=[replace(content.fillings[0], point=point)])


def test_the_arrays_of_the_caller_stay_as_they_were():
    content = content_of(["a", "b"], THREE[:1], 60)
    filling, series = content.fillings[0], content.panel.series[0]
    arrays = (filling.point, filling.quantiles, filling.provenance, series.values, series.times, series.labels)
    before = [array.tobytes() for array in arrays]
    report_html(content)
    assert [array.tobytes() for array in arrays] == before


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (12345.678, "12,346"), (0.00012346, "0.0001235"), (9.99996, "10"), (-3.4567, "-3.457"),
     (1e9, "1.000e+09"), (1000, "1,000"), (100.0, "100"), (float("nan"), "-"), (2e-7, "2.000e-07")],
)  # fmt: skip
def test_numbers_have_four_digits(value: float, text: str):
    assert number(value) == text


def test_shares_say_none_and_all_only_where_it_is_so():
    told = [share(part, 100_000) for part in (0, 1, 50, 50_000, 99_999, 100_000)]
    assert told == ["0.0 %", "< 0.1 %", "< 0.1 %", "50.0 %", "> 99.9 %", "100.0 %"]
    assert share(0, 0) == "-"
