"""Formats of written times: recognised from one text, parsed by pandas, accepted where they write the text again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from tsimpute.tables.time.wall_times import DAY, HOUR, MINUTE, WallTimes

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
MONTH_OF = {name[:n].lower(): i + 1 for i, name in enumerate(MONTHS) for n in (3, len(name))} | {"sept": 9}
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_HALF = r"(?:\s*(?P<half>[AaPp]\.?[Mm]\.?))?"
_MINUTES = r"(?:(?P<mark>[:./h-])(?P<minute>\d\d)(?:(?P=mark)(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?)"
_OFFSET = r"(?:\s*(?P<offset>[Zz]|UTC|GMT|[+-]\d\d(?::?\d\d)?))?"
_CLOCK = rf"(?:(?:\s*[Tt,;:_-]\s*|\s+)(?P<hour>\d{{1,2}}){_MINUTES}?{_HALF}{_OFFSET})?"
_HAN_DATE = r"(?P<year>\d{4})年\s*(?P<month>\d{1,2})月(?:\s*(?P<day>\d{1,2})日)?"
_HAN_CLOCK = r"(?P<hour>\d{1,2})[時时点](?:(?P<minute>\d\d)分(?:(?P<second>\d\d)秒)?)?"
_WEEKDAY = r"(?:(?P<weekday>(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*)[.,]?\s+)?"
_NAME = r"(?P<name>[A-Za-z]{3,9})"


def _compiled(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.ASCII) for pattern in patterns)


DATES = _compiled(
    rf"{_WEEKDAY}(?P<year>\d{{4}})(?P<dash>[-/.])(?P<month>\d{{1,2}})(?:(?P=dash)(?P<day>\d{{1,2}}))?{_CLOCK}",
    rf"{_WEEKDAY}(?P<a>\d{{1,2}})(?P<dash>[-/. ])(?P<b>\d{{1,2}})(?P=dash)(?P<c>\d{{4}}|\d\d){_CLOCK}",
    rf"(?P<a>\d{{1,2}}):(?P<b>\d{{1,2}}):(?P<c>\d{{4}}){_CLOCK}",
    rf"(?P<year>(?:19|20)\d\d):(?P<month>\d\d):(?P<day>\d\d){_CLOCK}",
    rf"{_WEEKDAY}(?P<day>\d{{1,2}})[-/. ]*{_NAME}[-/.,\s]*(?P<year>\d{{4}}|\d\d){_CLOCK}",
    rf"{_WEEKDAY}{_NAME}\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<year>\d{{4}}){_CLOCK}",
    rf"(?P<year>\d{{4}})[-/ ]{_NAME}[-/ ](?P<day>\d{{1,2}}){_CLOCK}",
    r"(?P<month>\d{1,2})[-/](?P<year>\d{4})",
    r"(?P<month>\d{1,2})\.(?P<year>(?:19|20)\d\d)",
    rf"{_NAME}[-/. ](?P<year>\d{{4}})",
    rf"(?P<year>\d{{4}})(?P<month>\d\d)(?P<day>\d\d)"
    rf"(?:[Tt _]?(?P<hour>\d\d)(?:(?P<minute>\d\d)(?P<second>\d\d)?)?{_OFFSET})?",
    rf"{_WEEKDAY}{_NAME}\s+(?P<day>\d{{1,2}})\s+(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)\s+"
    r"(?P<year>\d{4})",
    rf"(?P<year>\d{{4}})-(?P<doy>\d{{3}}){_CLOCK}",
    r"(?P<isoyear>\d{4})-?[Ww](?P<week>\d\d)(?:-?(?P<isoday>\d))?",
    r"(?P<year>\d{4})[-/ .]?[Qq](?P<quarter>\d)",
    r"[Qq](?P<quarter>\d)[-/ .]?(?P<year>\d{4})",
    rf"{_HAN_DATE}(?:\s*{_HAN_CLOCK})?",
    rf"{_HAN_DATE}{_CLOCK}",
)
_TAIL = r"(?:\s*(?:UTC|GMT|Z|Uhr|hrs|h))?"
CLOCKS = _compiled(
    rf"(?P<hour>\d{{1,2}}){_MINUTES}(?:\s*(?P<half>[AaPp]\.?[Mm]\.?|[ap]))?{_TAIL}",
    r"(?P<hour>\d{1,2})\s*(?P<half>[AaPp]\.?[Mm]\.?)",
    _HAN_CLOCK,
    rf"(?P<hour>\d\d)(?P<minute>\d\d){_TAIL}",
    r"(?P<hour>\d{1,2})",
    r"(?P<hour>\d\d)(?P<minute>\d\d)(?P<second>\d\d)",
)
"""Times of day; those after ``MARKED_CLOCKS`` are numbers, too."""
MARKED_CLOCKS = CLOCKS[:4]
ELAPSED = _compiled(  # hours and minutes since a start, which may be more than a day
    r"(?P<hours>\d{1,5}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?",
    r"(?P<hours>\d{1,5})\.(?P<minute>\d\d)\.(?P<second>\d\d)",
)
_DIRECTIVES = {
    "year": "%Y", "year2": "%y", "month": "%m", "name": " %m ", "fullname": " %m ", "day": "%d", "doy": "%j",
    "quarter": "%m", "isoyear": "%G", "week": "%V", "isoday": "%u", "weekday": "", "fullweekday": "",
    "hour": "%H", "hour12": "%I", "minute": "%M", "second": "%S", "fraction": "%f", "half": "", "offset": "",
}  # fmt: skip
"""Of ``strptime``; what it lacks is replaced in or taken off the text before."""
_NUMBERS = {
    "name": "month", "fullname": "month", "isoday": "weekday", "fullweekday": "weekday", "hours": "hour",
}  # fmt: skip
"""The parts of ``WallTimes`` that fields write where their names differ."""
_QUARTERS = {"1": "01", "2": "04", "3": "07", "4": "10"}  # Their first months
_NOT_A_TIME = np.iinfo(np.int64).min
_WORDS = ("name", "fullname", "weekday", "fullweekday")
_UNPADDED = ("day", "month", "hour", "hour12", "hours")


@dataclass(frozen=True)
class Piece:
    """A field of a text with its style, or a literal."""

    field: str  # "" for a literal
    style: str | tuple[str, ...]  # of the ``%`` operator, as "%02d"; words by number; a sample of offsets; the literal

    @property
    def width(self) -> int:
        """Number of characters, where it is the same for all times."""
        if isinstance(self.style, tuple):
            return len(self.style[-1])
        return len(self.style % 1) if self.field and self.field != "offset" else len(self.style)


@dataclass(frozen=True)
class Format:
    """A format of times, as "%d.%m.%Y %H:%M" is, with the forms that ``strptime`` and ``strftime`` lack."""

    pieces: tuple[Piece, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(piece.field for piece in self.pieces if piece.field)

    @property
    def detail(self) -> tuple[int, int]:
        return len(self.fields), self._width("fraction") if "fraction" in self.fields else 0

    def write(self, times: WallTimes) -> list[str]:
        """The texts of times."""
        template, columns = "", []
        for piece in self.pieces:
            style = piece.style
            if not piece.field:
                template += str(style).replace("%", "%%")
                continue
            numbers = times.part(_NUMBERS.get(piece.field, piece.field))
            if piece.field == "offset":
                columns.append([_offset_text(str(style), minutes) for minutes in numbers.tolist()])
            elif isinstance(style, tuple):
                columns.append([style[number] for number in numbers.tolist()])
            elif piece.field == "fraction":
                columns.append((numbers * 1000 // 10 ** (9 - piece.width)).tolist())
            else:
                columns.append(numbers.tolist())
            template += style if isinstance(style, str) and piece.field != "offset" else "%s"
        return [template % row for row in zip(*columns, strict=True)]

    def read(self, texts: Sequence[str]) -> tuple[WallTimes, np.ndarray]:
        """Times of texts (R,), and which of them this format writes again."""
        fields, plain = self.fields, texts
        if "name" in fields:
            plain = [text.replace("Sept", "Sep") for text in plain]
        if (finest := self._beyond_micros) is not None:
            plain = _replaced(plain, finest, "0" * (self._width("fraction") - 6))
        if "hours" in fields:
            mark, seconds = str(self.pieces[1].style), "" if "second" in fields else ":00"
            plain_times = [text.replace(mark, ":").replace(",", ".") + seconds for text in plain]
            micros = pd.to_timedelta(np.array(plain_times, object), errors="coerce").as_unit("us").asi8.copy()
            offset = None
        else:
            micros, offset = self._dated(plain)
        known = micros != _NOT_A_TIME
        micros[~known] = 0
        times = WallTimes.of(micros, offset)
        if "hours" in fields:
            times = WallTimes(np.zeros_like(micros), micros)
        if "hour" in fields:  # 24:00 was read as 00:00
            late = np.array([hour == "24" for hour in _sliced(plain, self._span("hour"))], bool)
            known &= ~late | (times.clock == 0)
            times = WallTimes(times.days, times.clock + DAY * late, offset)
        known &= times.part("year") > 0
        if known.any():
            known[known] = np.array(self.write(times.at(known)), object) == np.array(plain, object)[known]
        return times, known

    def is_finer(self, texts: Sequence[str]) -> bool:
        """Whether some text is finer than a microsecond."""
        finest = self._beyond_micros
        return finest is not None and any(digits.strip("0") for digits in _sliced(texts, finest))

    @property
    def _beyond_micros(self) -> tuple[int, int | None] | None:
        """Position of the digits that are finer than a microsecond, counted from the end."""
        if "fraction" not in self.fields or self._width("fraction") <= 6:
            return None
        start, stop = self._span("fraction")
        return start + 6, stop

    def _dated(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray | None]:
        """Microseconds by the wall clock, and offsets; what ``strptime`` lacks is replaced or taken off before."""
        directives, body, offset, noon = "", texts, None, 0
        for piece in self.pieces:
            directives += _DIRECTIVES[piece.field] if piece.field else str(piece.style)
            if piece.field in _WORDS:
                # Numbers stand in place of the names of months, nothing in place of those of days, which follow from
                # dates: ``strptime`` reads names in the language of the process, and these are English.
                names = re.compile("|".join(map(re.escape, piece.style[1:])))
                is_month = _NUMBERS.get(piece.field) == "month"
                number_of = {name: f" {n:02d} " if is_month else "" for n, name in enumerate(piece.style)}
                body = [names.sub(lambda match, new=number_of: new[match[0]], text, count=1) for text in body]
            if piece.field not in ("quarter", "hour", "half", "offset"):
                continue
            span = self._span(piece.field)
            words = _sliced(body, span)
            if piece.field == "quarter":
                first_months = [_QUARTERS.get(word, "99") for word in words]
                body = [_replaced([text], span, m)[0] for text, m in zip(body, first_months, strict=True)]
            elif piece.field == "hour":
                if "24" in words:
                    midnight = _replaced(body, span, "00")
                    body = [m if w == "24" else text for text, w, m in zip(body, words, midnight, strict=True)]
            else:
                body = _replaced(body, span, "")
                if piece.field == "half":
                    noon = 12 * HOUR * np.array([word.startswith(("p", "P")) for word in words], np.int64)
                else:
                    offset_of = {word: _offset(word) for word in set(words)}
                    offset = np.array([offset_of[word] for word in words], np.int64)
        if "week" in self.fields and "isoday" not in self.fields:
            body, directives = [f"{text}-1" for text in body], directives + "-%u"
        times = pd.to_datetime(np.array(body, object), format=directives, errors="coerce").as_unit("us").asi8
        return np.where(times == _NOT_A_TIME, times, times + noon), offset

    def _width(self, field: str) -> int:
        return next(piece.width for piece in self.pieces if piece.field == field)

    def _span(self, field: str) -> tuple[int, int | None]:
        """Start and end of a field, counted from the end of the text: what follows has one width."""
        place = next(i for i, piece in enumerate(self.pieces) if piece.field == field)
        behind = sum(piece.width for piece in self.pieces[place + 1 :])
        width = 2 if field in _UNPADDED else self.pieces[place].width
        return -behind - width, -behind or None


def _sliced(texts: Sequence[str], span: tuple[int, int | None]) -> list[str]:
    part = slice(*span)
    return [text[part] for text in texts]


def _replaced(texts: Sequence[str], span: tuple[int, int | None], new: str) -> list[str]:
    start, stop = span
    return [text[:start] + new + (text[stop:] if stop else "") for text in texts]


def formats_of(matches: Sequence[re.Match[str]], order: Sequence[str] = ()) -> list[Format]:
    """The formats in which texts may be written, the likely ones first; see ``format_of``.

    A number of two digits, as in 13/12/2024 or at 10:00, does not tell whether those of one digit have a zero before
    them, and each field of a text may do as it likes: 13/02/2024 5:00.
    """
    likely = [format_of(match, order) for match in matches]
    both = lambda field: field in _UNPADDED and field != "hours"  # with and without zeros before the number
    options = lambda piece: [Piece(piece.field, s) for s in ("%02d", "%d")] if both(piece.field) else [piece]
    others = [Format(pieces) for form in likely for pieces in product(*map(options, form.pieces))]
    return list(dict.fromkeys([*likely, *others]))


def format_of(match: re.Match[str], order: Sequence[str] = ()) -> Format:
    """The format in which the text of a match of one of the patterns above is written.

    ``order``: what the three numbers of a date are, where the pattern leaves it open.
    """
    meaning = dict(zip("abc", order, strict=False))
    groups = {meaning.get(name, name): name for name, text in match.groupdict().items() if text is not None}
    groups = {field: name for field, name in groups.items() if field not in ("dash", "mark")}
    if "half" in groups:
        groups = {("hour12" if field == "hour" else field): name for field, name in groups.items()}
    # 13/12/2024 may be written with or without zeros: another number of one digit decides.
    unpadded = any(field in _UNPADDED and len(match[name]) == 1 for field, name in groups.items())
    pieces, at = [], 0
    for field, name in sorted(groups.items(), key=lambda group: match.start(group[1])):
        pieces.append(Piece("", match.string[at : match.start(name)]))
        pieces.append(_piece(field, match[name], unpadded))
        at = match.end(name)
    pieces.append(Piece("", match.string[at:]))
    return Format(tuple(piece for piece in pieces if piece.style))


def _piece(field: str, sample: str, unpadded: bool) -> Piece:
    if field == "year" and len(sample) == 2:
        return Piece("year2", "%02d")
    if field in ("name", "weekday"):
        return name_piece(field, sample)
    if field == "half":
        return Piece(field, tuple(letter + sample[1:] for letter in ("AP" if sample[0].isupper() else "ap")))
    if field == "offset":
        return Piece(field, re.sub(r"\d", "0", sample).replace("-", "+"))
    if field in _UNPADDED and (len(sample) == 1 or (unpadded and sample[0] != "0")):
        return Piece(field, "%d")
    return Piece(field, "%d" if field in ("quarter", "isoday") else f"%0{2 if field == 'hours' else len(sample)}d")


def name_piece(field: str, sample: str) -> Piece:
    """Names of months ("name") or of days ("weekday"), short or in full and in the case of a sample."""
    short = len(sample) <= 3 or sample.lower() == "sept"
    words = [word[:3] if short else word for word in (MONTHS if field == "name" else WEEKDAYS)]
    case = str.upper if sample.isupper() else str.lower if sample.islower() else str.title
    return Piece(field if short else f"full{field}", ("", *map(case, words)))


def _offset(text: str) -> int:
    digits = text[1:].replace(":", "").ljust(4, "0")
    if not digits.isdigit() or not digits.isascii():
        return 0
    return (-1 if text[0] == "-" else 1) * (int(digits[:2]) * HOUR + int(digits[2:]) * MINUTE)


def _offset_text(sample: str, minutes: int) -> str:
    if sample[0] != "+":
        return sample
    hours, rest = divmod(abs(minutes), 60)
    rest_text = f"{':' * (':' in sample)}{rest:02d}" if len(sample) > 3 or rest else ""
    return f"{'-' if minutes < 0 else '+'}{hours:02d}{rest_text}"
