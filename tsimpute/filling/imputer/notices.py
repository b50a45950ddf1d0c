"""Warnings to a person who fills a table from Python: one for each kind of thing, with counts."""

from __future__ import annotations

import hashlib
import sys
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tsimpute
from tsimpute.errors import ImputationWarning
from tsimpute.filling.measuring.calibration import uncalibrated_text
from tsimpute.filling.preparing.prepare import some_of
from tsimpute.filling.preparing.prepared import Prepared
from tsimpute.filling.settings.table_settings import Settings, is_same

_PACKAGE = str(Path(tsimpute.__file__).parent)


def notices(prepared: Prepared, settings: Settings) -> list[str]:
    """What was done to a table or looks wrong in it, a sentence for each kind, unless a setting demands it."""
    findings = dict.fromkeys(finding.text for finding in prepared.findings if finding.text in prepared.warnings)
    texts = [text for text in prepared.warnings if text not in findings]
    if findings:
        texts.append("look at " + some_of(list(findings), "; "))
    table = prepared.table
    if table.n_added and settings.time_options.missing_times != "keep":
        rows = "1 row is" if table.n_added == 1 else f"{table.n_added:,} rows are"
        texts.append(f"{rows} added for times that the table does not have; to add none, set missing_times='keep'")
    names = [name for name in table.passed_through if name not in map(str, settings.spec.text or ())]
    if names and settings.spec.features is None:
        columns, one = ("column is", "it if it") if len(names) == 1 else ("columns are", "one that")
        texts.append(
            f"{len(names):,} {columns} passed through unchanged, not filled: {some_of(names, ', ')}; to fill {one} "
            "holds numbers, name all columns to fill (features)"
        )
    return texts


def ignored_settings(params: Mapping[str, Any], defaults: Mapping[str, Any], measures: bool) -> list[str]:
    """Settings that have no effect since a trained model is given, a sentence each.

    Args:
        params: all settings as given.
        measures: whether the model is measured on the table.
    """
    effort, minutes = params["effort"], params["minutes"]
    if params["model"] is None:
        return []
    if minutes is not None:
        return [f"minutes={minutes!r} has no effect, since a trained model is given"]
    if is_same(effort, defaults["effort"]):
        return []
    effect = "; it only says how much is measured to calibrate" if measures else " and has no effect"
    return [
        f"effort={effort!r} trains nothing{effect}, since a trained model is given. To learn from the table itself, "
        "give no model"
    ]


def uncalibrated(n_cells: int) -> str:
    """That there were too few hidden cells to calibrate, what that means and what to do."""
    return f"{uncalibrated_text(n_cells)}; give a longer table, or do without calibration: set calibrate=False"


class Notices:
    """The warnings of each table, so that a second call with the same table does not repeat them."""

    def __init__(self) -> None:
        self._issued: dict[str, set[str]] = {}

    def forget(self) -> None:
        """Repeats all warnings from now on, as at a new fit."""
        self._issued.clear()

    def warn(self, prepared: Prepared, texts: Iterable[str]) -> None:
        """Issues each text that was not yet issued for a table of this content as an ``ImputationWarning``.

        Texts are compared by their first sentence: the advice after it differs before and after a fit.
        """
        issued = self._issued.setdefault(_content_of(prepared), set())
        new = {text.partition(". ")[0]: text for text in texts}
        warn(text for key, text in new.items() if key not in issued)
        issued.update(new)


def _content_of(prepared: Prepared) -> str:
    """A digest of the values and times of a table as it was read."""
    digest = hashlib.blake2b(digest_size=16)
    panel = prepared.table.panel
    digest.update(repr([feature.name for feature in panel.features]).encode())
    for series in panel.series:
        digest.update(repr((series.name, *map(str, series.labels[:1]), *map(str, series.labels[-1:]))).encode())
        for array in (series.times, series.values):
            digest.update(array.tobytes())
    return digest.hexdigest()


def warn(texts: Iterable[str]) -> None:
    """Issues each text as an ``ImputationWarning``, at the line outside of this package that called it."""
    for text in dict.fromkeys(texts):
        warnings.warn(f"{text}.", ImputationWarning, stacklevel=_levels_within())


def _levels_within() -> int:
    """How many calls up the first line outside of this package stands, seen from the caller's caller."""
    frame, levels = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, levels = frame.f_back, levels + 1
    return levels
