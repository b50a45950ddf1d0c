"""HTML pages from the templates of this folder, their pictures, and numbers as people read them."""

from __future__ import annotations

import base64
import io
import math
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from jinja2 import Environment, FunctionLoader, StrictUndefined

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI, COLOURS = 96, 128
# What HTML does not allow as a character, and halves of surrogate pairs, which no file in UTF-8 can hold.
_UNREADABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def render(template: str, **values: object) -> str:
    """A page from ``templates/``; every value is text, and never markup."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    templates = resources.files("tsimpute").joinpath("reports", "templates")
    return Environment(
        loader=FunctionLoader(lambda name: templates.joinpath(name).read_text(encoding="utf-8")),
        autoescape=True,
        finalize=lambda value: value if hasattr(value, "__html__") else _UNREADABLE.sub("\ufffd", str(value)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


@dataclass(frozen=True)
class Picture:
    """A PNG for a page, the text in its place for those who cannot see it, and the caption below it."""

    png: bytes
    alt: str
    caption: str

    @property
    def width(self) -> int:
        return int.from_bytes(self.png[16:20], "big")

    @property
    def height(self) -> int:
        return int.from_bytes(self.png[20:24], "big")

    @property
    def source(self) -> str:
        return f"data:image/png;base64,{base64.b64encode(self.png).decode('ascii')}"


def png(figure: Figure) -> bytes:
    """The figure as the bytes of a PNG, the same each time.

    With a palette it has a third of the size. Chosen by coverage no colour moves by more than about 8 of 255; chosen
    by median cut, the colours of a few cells alone would become grey.
    """
    from PIL import Image

    full, reduced = io.BytesIO(), io.BytesIO()
    figure.savefig(full, format="png", dpi=DPI)
    figure.clear()
    with Image.open(full) as image:
        colours = image.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    colours.save(reduced, format="png", optimize=True)
    return reduced.getvalue()


def number(value: float) -> str:
    """Four digits, never fewer than a whole number has; "-" where there is none."""
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return "-"
    if value == 0 or 1e-4 <= abs(value) < 1e7:
        decimals = max(0, 3 - math.floor(math.log10(abs(value)))) if value else 0
        text = f"{value:,.{decimals}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{value:.3e}"


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
