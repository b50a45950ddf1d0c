"""Numbers with signs: percent signs, units, currencies and thousands signs, read and written back alike.

Flags, bounds such as <0.5 and other texts that look like numbers are recognised, too; they are never read as numbers.
The decimal mark of a file follows from the numbers of all its columns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tsimpute.errors import DataError

UNITS = frozenset(
    ("degC", "degF", "degT", "deg", "C", "F", "K", "ppm", "ppb", "ppt", "Pa", "hPa", "kPa", "mbar", "bar", "mmHg",
     "cmH2O", "m", "mm", "cm", "km", "in", "ft", "s", "sec", "min", "h", "hr", "d", "V", "mV", "A", "mA", "W",
     "kW", "MW", "Wh", "kWh", "MWh", "J", "kJ", "MJ", "Hz", "kHz", "g", "mg", "ug", "ng", "kg", "t", "L", "l",
     "mL", "ml", "dL", "mol", "mmol", "bpm", "pH", "dB", "lx", "lux", "NTU", "PSU", "IU", "mEq", "kt", "kn",
     "knots", "nmi", "EUR", "USD", "GBP", "CHF", "cfs", "gpm", "psi", "mph", "inHg", "Torr", "rpm", "VA", "kVA", "kvar",
     "var", "Ah", "ppmv", "ppbv", "MPa", "GWh", "kN", "cd", "dBA", "mSv", "uSv", "deg C", "deg F")
)  # fmt: skip
"""Units that are known without a sign such as % or / in them."""

NUMBER = r"[+\-\u2212]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?"
THOUSANDS = ",.'\u2019 \u00a0\u202f\u2009"  # Signs between groups of three digits; the first two are also decimal marks

_GROUPED = rf"[+\-\u2212]?\d{{1,3}}([{THOUSANDS}])\d{{3}}(?:\1\d{{3}})*(?:[.,]\d+)?(?!\d)"
_DRESSED = re.compile(
    rf"(?P<before>[<>\u2264\u2265~\u2248=]{{1,2}} ?|[$\u20ac\u00a3\u00a5] ?|)"
    rf"(?P<core>{_GROUPED}|{NUMBER})(?P<blank>[ \u00a0\u202f]?)(?P<after>.*)",
    re.ASCII,
)
_AFTER = re.compile(
    r"[^\W\d_]{1,7}[23]?|[*#!?%\u2030\u00b0\u00b5\u2020\u2021^+&$\u20ac\u00a3]{1,3}[A-Za-z]?"
    r"|[^\W\d_%]*[%/\u00b0\u00b2\u00b3\u00b5\u03bc\u00b7.^*-][^\s]{0,11}|[(\[][^()\[\]]{1,24}[)\]]"
)
_UNCERTAIN = re.compile(rf"(?:\u00b1|\+/-) ?{NUMBER}", re.ASCII)
_OTHER = re.compile(
    rf"\({NUMBER}\)|{NUMBER}-|{NUMBER}[dD][+-]?\d{{1,3}}|[+-]?\d{{1,2}}(?:,\d\d)+,\d{{3}}(?:\.\d+)?", re.ASCII
)
"""In brackets or with the sign behind, as accounts have them, with an exponent of Fortran, and in lakhs and crores."""
_PAIR = re.compile(r"\d{2,3} ?/ ?\d{2,3}|\d{1,3}(?:[.,]\d+)? ?[-\u2013] ?\d{1,3}(?:[.,]\d+)?")
_NO_UNITS = frozenset(("st", "nd", "rd", "th", "am", "pm", "a.m.", "p.m.", "x"))
_FLAG_LETTERS = frozenset("AEJP")  # Letters that say approved, estimated or provisional as often as they are units

_BOUNDS = "<>\u2264\u2265~\u2248="
_SIGNED_UNIT = re.compile(
    r"[^\d\s/]*[%\u00b0\u00b2\u00b3\u00b5\u03bc\u2030]\S*|(?:[^\d\s/][^\s/]*)?/[A-Za-z\u00b0\u00b5\u03bc]\S*|[x*]?10\^\d+/[A-Za-z\u00b5\u03bc]\S*"
)
LOOKS = 0.25  # A column of texts with at least this share of numbers that wear something looks like one of numbers
_MANY, _MOSTLY = 8, 0.8
LEAST = 3  # At least so many of them


_COMMA_NUMBER = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?", re.ASCII)
_POINT_NUMBER = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?", re.ASCII)
_TWO_POINTS = re.compile(r"\.[^.\n]*\.")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+", re.ASCII)
_PACKED = re.compile(r"[+-]?\d{3,},\d")  # of NOAA: "+0028,5" is 2.8 degrees, and a code
_SOME_PACKED = 3


@dataclass(frozen=True)
class NumberForm:
    """The signs that all numbers of a column have besides their digits."""

    before: str = ""  # with its blank, as "$"
    after: str = ""  # with its blank, as " %"
    thousands: str = ""  # the sign between groups of three digits, or ""
    minus: str = "-"  # the sign of numbers below 0

    @property
    def unit(self) -> str:
        return self.after.strip("()[] \u00a0\u202f") or self.before.strip()

    @property
    def text(self) -> str:
        """The signs in words, or "" where there are none."""
        parts = [f"{self.unit!r} beside every number"] * bool(self.unit)
        parts += [f"{self.thousands!r} between thousands"] * bool(self.thousands)
        parts += [f"{self.minus!r} as the minus sign"] * (self.minus != "-")
        return " and ".join(parts)

    def dressed(self, texts: Sequence[str], decimal: str) -> list[str]:
        """Plain numbers as the column writes them."""
        if self == NumberForm():
            return list(texts)
        dressed = []
        for text in texts:
            sign, digits = (self.minus, text[1:]) if text.startswith("-") else ("", text)
            integer, mark, fraction = digits.partition(decimal)
            if self.thousands:
                integer = f"{int(integer):,}".replace(",", self.thousands)
            dressed.append(f"{self.before}{sign}{integer}{mark}{fraction}{self.after}")
        return dressed


PLAIN = NumberForm()


def read_form(texts: Sequence[str], decimal: str, *, sure: bool) -> tuple[NumberForm, list[str]] | None:
    """The form that all texts share, and their plain numbers; None where they share none or it can be read in two ways.

    ``texts`` are stripped, none of them missing; ``sure``: the decimal mark was given by the user, so that the other
    mark can only separate thousands.
    """
    parts: list[re.Match[str]] = []
    for text in texts:
        match = _DRESSED.fullmatch(text)
        if match is None:
            return None
        parts.append(match)
    if not parts:
        return None
    befores, afters = {f["before"] for f in parts}, {f["after"] for f in parts}
    before, after = next(iter(befores)), next(iter(afters))
    if len(befores) > 1 or before[:1] in tuple(_BOUNDS) or len(afters) > 1:
        return None
    if after and (not is_unit(after) or after in _FLAG_LETTERS):
        return None
    cores = [f["core"] for f in parts]
    minus = "\u2212" if any(core[0] == "\u2212" for core in cores) else "-"
    cores = [core.replace("\u2212", "-") for core in cores]
    thousands = _thousands(cores, decimal, sure)
    if thousands is None:
        return None
    blank = Counter(f["blank"] for f in parts).most_common(1)[0][0] if after else ""
    return NumberForm(before, blank + after, thousands, minus), [core.replace(thousands, "") for core in cores]


def is_unit(text: str) -> bool:
    """Whether a text is a unit: one of ``UNITS``, or with a sign such as % or / in it."""
    if text in UNITS or (len(text) > 2 and text.casefold() in {unit.casefold() for unit in UNITS}):
        return True
    return _SIGNED_UNIT.fullmatch(text) is not None or text in tuple("$\u20ac\u00a3\u00a5")


def core_of(text: str) -> str:
    """The digits of a number with signs; the text itself where it is none."""
    match = _DRESSED.fullmatch(text)
    return match["core"] if match is not None and (not match["after"] or _AFTER.fullmatch(match["after"])) else text


def looks_like_number(text: str) -> bool:
    """Whether a text is a number, alone or with a sign, unit, flag or bound."""
    match = _DRESSED.fullmatch(text)
    if _OTHER.fullmatch(text):
        return True
    if match is None:
        return False
    after = match["after"]
    if not after or _UNCERTAIN.fullmatch(after) or _PAIR.fullmatch(text):
        return True
    is_word = after.casefold() in _NO_UNITS or (after[0] in "-/.:" and any(map(str.isdigit, after)))
    return _AFTER.fullmatch(after) is not None and not is_word


def share_a_tail(texts: Sequence[str]) -> bool:
    """Whether most of many different texts are numbers with the same words behind them."""
    tails = Counter(match["after"] for match in map(_DRESSED.fullmatch, texts) if match is not None)
    return len(set(texts)) >= _MANY and bool(tails) and tails.most_common(1)[0][1] >= _MOSTLY * len(texts)


def decimal_of(text: str) -> str:
    """The decimal mark that a number with both marks, or with two signs of thousands, must have; "" where none must."""
    core = core_of(text)
    for mark, sign in ((".", ","), (",", ".")):
        grouped = rf"[+-]?[1-9]\d{{0,2}}(?:{re.escape(sign)}\d{{3}})"
        if re.fullmatch(rf"{grouped}+{re.escape(mark)}\d+|{grouped}{{2,}}", core):
            return mark
    return ""


NO_NUMBER, TRACE = "no number", "a trace, too little to measure"
BOUND = "a bound or an estimate, no measured number"


def nature(text: str) -> str:
    """What a text is that is no plain number, in words."""
    match = _DRESSED.fullmatch(text)
    if text.casefold() in ("t", "tr", "trace"):
        return TRACE
    if _OTHER.fullmatch(text):
        return "a number that is written in another way"
    if match is None or not looks_like_number(text):
        return NO_NUMBER
    if match["before"][:1] in tuple(_BOUNDS):
        return BOUND
    after = match["after"]
    if _UNCERTAIN.fullmatch(after):
        return "a number with its uncertainty"
    if _PAIR.fullmatch(text):
        return "two numbers"
    if not after:
        return "a number whose signs can be read in two ways, or differ within the column"
    if is_unit(after) and after not in _FLAG_LETTERS:
        return f"a number with the unit {after!r}, which not every number has"
    return f"a number with the flag {after!r}"


def _thousands(cores: Sequence[str], decimal: str, sure: bool) -> str | None:
    """The sign of thousands, "" where there is none, None where numbers do not agree or it is ambiguous."""
    characters = set("".join(cores))
    signs = [sign for sign in THOUSANDS if sign != decimal and sign in characters]
    mark = re.escape(decimal)
    if not signs:
        plain = re.compile(rf"[+-]?(?:\d+{mark}?\d*|{mark}\d+)(?:[eE][+-]?\d+)?", re.ASCII)
        return "" if all(map(plain.fullmatch, cores)) else None
    if len(signs) > 1:
        return None
    sign = signs[0]
    grouped = re.compile(rf"[+-]?[1-9]\d{{0,2}}(?:{re.escape(sign)}\d{{3}})+(?:{mark}\d+)?", re.ASCII)
    plain = re.compile(rf"[+-]?\d+(?:{mark}\d+)?", re.ASCII)
    if not all((grouped if sign in core else plain).fullmatch(core) for core in cores):
        return None
    is_plain_sign = sign not in ".,"
    return sign if is_plain_sign or sure or any(map(decimal_of, cores)) else None


def find_decimal(columns: Sequence[Sequence[str]]) -> str:
    """The decimal mark, "." or ",", of columns of stripped texts.

    Refused where all numbers with a comma may as well have a separator of thousands, or be a value and a code.
    """
    doubtful = ""
    for column in columns:
        joined = "\n".join(column)
        if "," not in joined and not _TWO_POINTS.search(joined):
            continue
        with_comma = [text for text in column if "," in text]
        packed = [text for text in with_comma if _PACKED.fullmatch(text)]
        if len(packed) >= max(_SOME_PACKED, len(with_comma)) and len({text.index(",") for text in packed}) == 1:
            padded = next((text for text in packed if text.lstrip("+-").startswith("0")), None)
            if padded is not None:
                raise DataError(
                    f"expected one number in each field, {padded!r} looks like a value and a code behind it, as in "
                    "files of NOAA. Write them into two columns; if the comma is a decimal one, "
                    + ("write all numbers of the file with it." if has_points(columns) else 'pass decimal=",".')
                )
        with_comma = [text if _COMMA_NUMBER.fullmatch(text) else core_of(text) for text in with_comma]
        with_point = [core_of(text) for text in column if text.count(".") > 1] if not with_comma else []
        marks = {decimal_of(text) for text in with_comma or with_point} - {""}
        if marks == {","}:
            return ","
        commas = [text for text in with_comma if _COMMA_NUMBER.fullmatch(text)]
        n_points = sum(_POINT_NUMBER.fullmatch(core_of(text)) is not None for text in column if "." in text)
        if 2 * len(commas) <= len(with_comma) or len(commas) <= n_points or marks:
            continue
        if any(not _THOUSANDS.fullmatch(text) for text in commas):
            return ","
        doubtful = doubtful or commas[0]
    if doubtful and not has_points(columns):
        raise DataError(
            f'expected numbers whose decimal mark can be told, {doubtful!r} can be read in two ways. Pass decimal="," '
            f'for a decimal comma, decimal="." where the comma separates thousands.'
        )
    return "."


def has_points(columns: Sequence[Sequence[str]]) -> bool:
    """Whether some column holds numbers with a decimal point."""
    pointed = (core_of(text) for column in columns for text in column if "." in text)
    return any(_POINT_NUMBER.fullmatch(text) or decimal_of(text) == "." for text in pointed)
