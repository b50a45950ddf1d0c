"""Names and phrases for which the field has a standard term stay out of the package: see docs/reference/glossary.md."""

from __future__ import annotations

import io
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "tsimpute"

STANDARD_NAMES = {
    "Told": "ColumnSpec", "told": "spec", "_told": "_spec", "Clockwork": "TimeOptions", "clockwork": "time_options",
    "Placement": "RowAlignment", "placement": "alignment", "LeftOut": "ExcludedCells", "fill_mask": "query_mask",
    "lends_pattern": "pattern_donor", "Scales": "PathCoefficients", "Meeting": "RaggedAttention",
    "lowered": "logit_bias", "crowded": "dense_records", "_crowded": "_dense_records", "sides": "side_information",
    "through": "forward_tokens", "bind": "condition_on", "only_say": "append_kv",
    "_states_in_use": "_rollout_unobserved", "Joined": "WindowAveraging", "hop": "stride", "_Way": "_SamplingPlan",
    "_Bound": "_ConditionedRecord", "Done": "WindowProgress", "Learnt": "FittedModel", "Warp": "SupportBijection",
    "Share": "RankShard", "Brief": "ShortRepr", "write_whole": "atomic_write",
    "write_whole_folder": "atomic_write_folder", "Calls": "CallableModule", "end_in_peace": "wait_for_gloo",
    "verdict": "leakage_result", "_verdict": "_result_text", "PASSES": "NO_LEAK", "Scored": "CheckpointScore",
    "Found": "EntryRecord", "State": "Checkpoint", "Ways": "Wording", "Material": "FittingData",
    "Budget": "TimeBudget", "Delivered": "DeliveredModel", "ask_unobserved": "query_unobserved",
    "ask_from": "query_from", "Guess": "BaseMethod", "Guessed": "BaseEstimate", "guesses_apart": "cross_fitted",
}  # fmt: skip
"""Names without a meaning of their own in the field, and what they are called instead."""

IN_BACKBONES = {"Layout": "Grid", "Field": "VectorField", "said": "kv_cache"}
"""Names that are right elsewhere: a text file has a layout and fields."""

ATTRIBUTES = {"shown": "visible"}

PHRASES = ("told its condition", "drown what is known", "draws have no seams", "where there is no crowd",
    "hole-maker", "Hole-maker", "pile at the edge", "is found out")  # fmt: skip
"""Of docstrings, comments and messages."""

EMPTY_NAMES = ("found", "own", "kept", "beside", "told", "said", "of_one", "about", "seen", "made", "there",
    "asked")  # fmt: skip
"""Names of variables that say nothing of what they hold: none is left."""

CEILINGS = {"apart": 19, "left": 16, "which": 11, "unseen": 9}
"""More of them, and how often each may occur. Lower a number when you can; never raise one."""


@cache
def names() -> tuple[tuple[str, str, str], ...]:
    """(place, name before a dot or "", name) of every name in the package."""
    return tuple(walk())


def walk() -> Iterator[tuple[str, str, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        before = ""
        for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
            if token.type == tokenize.NAME:
                yield f"{path.relative_to(ROOT).as_posix()}:{token.start[0]}", before, token.string
            before = token.string


def test_identifiers_are_standard_terms() -> None:
    wrong = []
    for place, before, name in names():
        in_backbones = IN_BACKBONES if place.startswith("tsimpute/backbones/") else {}
        of_attributes = ATTRIBUTES if before == "." else {}
        if better := (STANDARD_NAMES | in_backbones | of_attributes).get(name):
            wrong.append(f"{place}: {name}; expected {better}, or another term of the field")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("phrase", PHRASES)
def test_phrases_stay_out_of_the_texts(phrase: str) -> None:
    texts = [*PACKAGE.rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    assert [str(path) for path in texts if phrase in " ".join(path.read_text(encoding="utf-8").split())] == []


@pytest.mark.parametrize("name", EMPTY_NAMES)
def test_names_are_those_of_things(name: str) -> None:
    assert [place for place, _, word in names() if word == name] == [], "name the thing instead"


@pytest.mark.parametrize("name", CEILINGS)
def test_empty_names_become_fewer(name: str) -> None:
    count = Counter(word for _, _, word in names())[name]
    assert count <= CEILINGS[name], f"{name}: {count} times; name the thing instead, and lower the ceiling when you can"
