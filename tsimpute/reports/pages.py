"""Pieces of a page of HTML: text made safe, tables, pictures, and the style that reads well on screens and paper."""

from __future__ import annotations

import base64
import html
import io
import math
import re
from collections.abc import Sequence
from string import Template
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI, COLOURS = 96, 128
# What HTML does not allow as a character, and halves of surrogate pairs, which no file in UTF-8 can hold.
_UNREADABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")

PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root { color-scheme: light dark; --ink: #222; --soft: #5c5c5c; --line: #d4d4d4; --paper: #fff; --band: #f5f5f5;
  --warn: #fff3c4; --warnline: #c99700; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --soft: #a8a8a8; --line: #4a4a4a;
  --paper: #1b1b1b; --band: #262626; --warn: #453a12; --warnline: #d9a800; } }
body { margin: 0 auto; padding: 1.5rem; max-width: 62rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem; border-bottom: 1px solid var(--line); padding-bottom: .2rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; overflow-wrap: anywhere; }
p, figcaption { max-width: 46rem; }
.lead { font-size: 1.08rem; }
.warnings { background: var(--warn); border-left: .35rem solid var(--warnline); padding: .2rem 1rem .6rem;
  margin-top: 1.5rem; overflow-wrap: anywhere; }
.warnings h2 { border: 0; margin: .6rem 0 .2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .5rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
thead th { vertical-align: bottom; border-bottom: 2px solid var(--line); }
tbody tr:nth-child(even) { background: var(--band); }
th[scope=row] { font-weight: 600; overflow-wrap: break-word; min-width: 5rem; max-width: 16rem; }
td.n, th.n { text-align: right; white-space: nowrap; }
thead th.n { white-space: normal; }
figure { margin: .5rem 0 1rem; break-inside: avoid; }
img { max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
figcaption { font-size: .85rem; color: var(--soft); }
summary { cursor: pointer; margin: .8rem 0; }
@media print { body { max-width: none; padding: 0; font-size: 10pt; } .wide { overflow: visible; }
  table { font-size: 7pt; } th, td { padding: .1rem .3rem; } h2, h3 { break-after: avoid; } tr { break-inside: avoid; }
  .warnings { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
</style>
</head>
<body>
$body
</body>
</html>
""")


def safe(text: object) -> str:
    """The text as HTML shows it: its own ``<`` and ``&`` are no markup."""
    return html.escape(_UNREADABLE.sub("\ufffd", str(text)))


def paragraph(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{safe(text)}</p>' if kind else f"<p>{safe(text)}</p>"


def section(title: str, *parts: str) -> str:
    return "\n".join(["<section>", f"<h2>{safe(title)}</h2>", *parts, "</section>"])


def folded(title: str, *parts: str) -> str:
    """Parts that are shown on demand."""
    return "\n".join([f"<details><summary>{safe(title)}</summary>", *parts, "</details>"])


def pairs_table(rows: Sequence[tuple[str, str]]) -> str:
    """Two columns without a head: what, and how it is."""
    lines = [f'<tr><th scope="row">{safe(name)}</th><td>{safe(value)}</td></tr>' for name, value in rows]
    return "\n".join(['<div class="wide"><table><tbody>', *lines, "</tbody></table></div>"])


def table(head: Sequence[str], rows: Sequence[Sequence[str]], n_words: int = 1) -> str:
    """A table whose first column names the row; columns from number ``n_words`` on hold numbers."""
    kinds = ["" if i < n_words else ' class="n"' for i in range(len(head))]
    top = "".join(f'<th scope="col"{kind}>{safe(name)}</th>' for name, kind in zip(head, kinds, strict=True))
    lines = [
        f'<tr><th scope="row">{safe(row[0])}</th>'
        + "".join(f"<td{kind}>{safe(cell)}</td>" for cell, kind in zip(row[1:], kinds[1:], strict=True))
        + "</tr>"
        for row in rows
    ]
    return "\n".join(
        [f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>', *lines, "</tbody></table></div>"]
    )


def png(figure: Figure) -> bytes:
    """The figure as the bytes of a PNG, the same each time.

    With a palette it has a third of the size. Chosen by coverage no colour moves by more than about 8 of 255; chosen
    by median cut, the colours of a few cells alone would become grey.
    """
    from PIL import Image

    whole, small = io.BytesIO(), io.BytesIO()
    figure.savefig(whole, format="png", dpi=DPI)
    figure.clear()
    with Image.open(whole) as image:
        colours = image.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    colours.save(small, format="png", optimize=True)
    return small.getvalue()


def picture(data: bytes, alt: str, caption: str) -> str:
    """A figure that carries its PNG in itself."""
    width, height = (int.from_bytes(data[i : i + 4], "big") for i in (16, 20))  # where a PNG says its size
    source = base64.b64encode(data).decode("ascii")
    return (
        f'<figure>\n<img width="{width}" height="{height}" alt="{safe(alt)}" src="data:image/png;base64,{source}">\n'
        f"<figcaption>{safe(caption)}</figcaption>\n</figure>"
    )


def number(value: float, digits: int = 4) -> str:
    """Four digits, never fewer than a whole number has; "-" where there is none."""
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return "-"
    if value == 0 or 1e-4 <= abs(value) < 1e7:
        decimals = max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0
        text = f"{value:,.{decimals}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.{digits - 1}e}"


def share(part: int, whole: int) -> str:
    """Percent with one decimal, which says 0.0 or 100.0 % only where none or all is meant."""
    if not whole:
        return "-"
    percent = 100 * part / whole
    if part > 0 and percent < 0.1:
        return "< 0.1 %"
    if part < whole and percent > 99.9:
        return "> 99.9 %"
    return f"{percent:.1f} %"


def several(n: int, one: str, many: str = "") -> str:
    """Such as "1 cell", "2,000 cells"."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"
