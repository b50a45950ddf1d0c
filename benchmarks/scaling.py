"""How the cost of an imputation grows in records, features, steps and samples: seconds, memory and one figure.

    python benchmarks/scaling.py             # scaling.json and scaling.png
    python benchmarks/scaling.py --quick     # the two smallest sizes of each axis

One axis is varied and the others stay at ``BASE``. Records are random; a fifth of their cells is shown.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from serving import Run, ask, start
from speed import HERE, machine, say
from worker_package import load, untrained

from tsimpute.system.files import write_whole

BASE = {"records": 2, "features": 35, "steps": 48, "samples": 8}
AXES = {
    "records": (1, 2, 4, 8, 16, 32, 64),
    "features": (9, 18, 35, 70, 140, 370),
    "steps": (12, 24, 48, 96, 192, 384, 768, 1536, 5000),
    "samples": (1, 2, 4, 8, 16, 32, 64, 128, 256),
}
EVALUATIONS = 2
SHOWN, ASKED = 0.2, 0.1
LINES = (
    ("dual_transformer", "scored", "dense"),
    ("context_cells", "scored", "context cells, 10 % to fill"),
    ("context_cells", "missing", "context cells, all to fill"),
    ("present_cells", "scored", "present cells, 10 % to fill"),
    ("present_cells", "missing", "present cells, all to fill"),
)
"""Network, what is filled, and the name in the figure. The dense network computes every cell, whatever is asked for."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="How the cost of an imputation grows.")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", type=float, default=30.0, help="seconds; a line ends before a point that needs more")
    parser.add_argument("--out", type=Path, default=HERE, help="folder of scaling.json and scaling.png")
    parser.add_argument("--quick", action="store_true", help="the two smallest sizes of each axis")
    asked = parser.parse_args(arguments)
    _, versions = load()
    rows = []
    for axis, sizes in AXES.items():
        for network, fill, _ in LINES:
            chosen = sizes[:2] if asked.quick else sizes
            rows += line(axis, chosen, network, fill, asked.threads, asked.limit, versions)
    asked.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(rows, indent=1) + "\n"
    write_whole(asked.out / "scaling.json", lambda partial: partial.write_text(text, encoding="utf-8"))
    draw(rows, asked.out / "scaling.png")
    return 0


def line(
    axis: str, sizes: Sequence[int], network: str, fill: str, threads: int, limit: float, versions: dict[str, str]
) -> list[dict[str, Any]]:
    """The rows of one line; it ends where, growing as it did last, a point would take longer than ``limit``."""
    rows: list[dict[str, Any]] = []
    for size in sizes:
        if rows and rows[-1]["seconds"] * (size / rows[-1][axis]) ** max(1.0, slope(rows, axis, "seconds")) > limit:
            say(f"{axis}, {network}, {fill}: ends before {size}, which would take more than {limit:g} s")
            break
        point = BASE | {axis: size}
        request = {"data": "", "work": "", "threads": threads, "network": network, "fill": fill} | point
        answer = best(request)
        if "error" in answer:
            say(f"{axis} {size}, {network}, {fill}: {answer['error']}")
            break
        row = {"axis": axis, "network": network, "fill": fill, **point, "evaluations": EVALUATIONS}
        measured = {"seconds": answer["seconds"], "peak_mib": answer["peak_mib"]}
        rows.append(row | measured | {"machine": machine(), "threads": threads, "versions": versions})
        say(f"{axis} {size}, {network}, {fill}: {answer['seconds']:.3g} s, {answer['peak_mib']:.0f} MiB")
    return rows


def best(request: dict[str, Any]) -> dict[str, Any]:
    """The fastest of up to three runs in a process of its own, as many as fit into a few seconds."""
    child = start(build, request)
    begun, answers = time.monotonic(), [ask(child)]
    while "error" not in answers[-1] and len(answers) < 3 and time.monotonic() - begun < 3:
        answers.append(ask(child))
    child.close()
    failed = [answer for answer in answers if "error" in answer]
    return failed[0] if failed else min(answers, key=lambda answer: answer["seconds"])


def build(request: dict[str, Any]) -> tuple[Run, float]:
    """An imputation of random records, of which only the asked cells are scored."""
    from tsimpute.core.windows import Feature, Windows
    from tsimpute.scaling.standardizer import Standardizer

    rng = np.random.default_rng(0)
    shape = request["records"], request["features"], request["steps"]
    lot = rng.random(shape)
    windows = Windows(
        values=np.where(lot < SHOWN + ASKED, rng.normal(size=shape), np.nan),
        times=np.tile(np.arange(float(request["steps"])), (request["records"], 1)),
        features=tuple(Feature(f"feature {k}") for k in range(request["features"])),
        record_ids=tuple(f"record {n}" for n in range(request["records"])),
        held_out=(lot >= SHOWN) & (lot < SHOWN + ASKED),
    )
    scaler = Standardizer.fit(windows)
    imputer = untrained(windows, scaler, request["network"], "flow_matching", {"n_steps": EVALUATIONS})
    hidden, fill = windows.without_held_out(), windows.scored if request["fill"] == "scored" else None
    return lambda: imputer.impute(hidden, request["samples"], fill=fill), 1.0


def slope(rows: list[dict[str, Any]], axis: str, quantity: str) -> float:
    """d log(quantity) / d log(size) over the last three points; 1 where there is one."""
    if len(rows) < 2:
        return 1.0
    sizes, found = (np.log([row[name] for row in rows[-3:]]) for name in (axis, quantity))
    return float(np.polyfit(sizes, found, 1)[0])


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Seconds above, memory below, one column per axis; the numbers in a panel are the slopes of its lines."""
    from tsimpute.plots._style import BLUE, GREEN, ORANGE, PURPLE, VERMILION, finish, new_figure

    colours = dict(zip(LINES, (BLUE, VERMILION, ORANGE, GREEN, PURPLE), strict=True))
    figure = new_figure(13.5, 6.6)
    panels = figure.subplots(2, len(AXES), sharey="row", sharex="col")
    for column, axis in enumerate(AXES):
        for panel, quantity in zip(panels[:, column], ("seconds", "peak_mib"), strict=True):
            panel.set(xscale="log", yscale="log", ymargin=0.15)
            panel.yaxis.set_major_formatter("{x:g}")
            draw_lines(panel, rows, axis, quantity, colours)
        at = sorted({row[axis] for row in rows if row["axis"] == axis})
        panels[1, column].set_xticks(at, [f"{size}" for size in at], fontsize=8)
        panels[1, column].minorticks_off()
        panels[1, column].set_xlabel(axis)
    for panel, label in zip(panels[:, 0], ("seconds", "peak memory, MiB"), strict=True):
        panel.set_ylabel(label)
    handles = [figure.axes[0].plot([], [], "o-", color=colour)[0] for colour in colours.values()]
    names = [name for _, _, name in LINES]
    figure.legend(handles, names, loc="outside upper center", ncols=len(names), frameon=False)
    finish(figure, path)


def draw_lines(panel: Any, rows: list[dict[str, Any]], axis: str, quantity: str, colours: dict[Any, str]) -> None:
    """The lines of one panel, with the place of ``BASE`` and their slopes."""
    height = 0.95
    for (network, fill, _), colour in colours.items():
        points = [row for row in rows if (row["axis"], row["network"], row["fill"]) == (axis, network, fill)]
        if points:
            panel.plot([row[axis] for row in points], [row[quantity] for row in points], "o-", color=colour, ms=4)
            # Adding 0 makes -0.0 read 0.0.
            text = f"slope {round(slope(points, axis, quantity), 1) + 0:.1f}"
            panel.text(0.04, height, text, color=colour, fontsize=9, transform=panel.transAxes)
            height -= 0.06
    panel.axvline(BASE[axis], color="#767676", lw=0.8, ls=":")


if __name__ == "__main__":
    sys.exit(main())
