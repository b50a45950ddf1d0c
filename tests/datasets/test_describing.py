"""``describe``: its numbers against closed forms and a naive count, and what it remarks on and what not."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tsimpute.config.registry import make
from tsimpute.core.limits import Limits
from tsimpute.core.windows import Feature, Windows
from tsimpute.datasets.base import Card
from tsimpute.datasets.describing import Description, describe, suspicious_codes

LIMITS = {"pH": Limits(6.0, 8.5)}
CARD = Card(title="A title", licence="CC0", citation="", sources=(), limits=LIMITS)


def windows_of(values: np.ndarray, **more: object) -> Windows:
    n, k, length = values.shape
    names = ("pH", "Temp", "Urine", "Na")[:k]
    return Windows(
        values.astype(float), np.tile(np.arange(float(length)), (n, 1)), tuple(Feature(name, "u") for name in names),
        tuple(f"r{i}" for i in range(n)), **more,  # type: ignore[arg-type]
    )  # fmt: skip


def remarks(values: list[float], name: str = "Temp", card: Card | None = CARD) -> tuple[str, ...]:
    """What is said of one feature whose values are these, in records of 5 steps."""
    table = np.full(-(-len(values) // 5) * 5, np.nan)
    table[: len(values)] = values
    windows = windows_of(np.zeros((len(table) // 5, 1, 5)))
    windows = Windows(table.reshape(-1, 1, 5), windows.times, (Feature(name),), windows.record_ids)
    return describe(windows, card).features[0].remarks


def test_numbers_of_a_known_table() -> None:
    nan = np.nan
    values = np.array([[[7.0, nan, nan, 8.0], [1.0, 2.0, nan, 4.0]], [[nan] * 4, [nan, nan, 5.0, nan]]])
    held_out = np.zeros(values.shape, bool)
    held_out[1, 1, 2] = True
    windows = windows_of(values, held_out=held_out, split=np.array(["test", "train"]), changes={"rows dropped": 3})
    found = describe(windows)
    ph, temp = found.features
    assert (ph.n_observed, ph.missing, ph.n_records_without) == (2, 0.75, 1)
    assert (ph.minimum, ph.median, ph.maximum, ph.mean, ph.sd) == (7, 7.5, 8, 7.5, 0.5)
    assert (temp.n_observed, temp.median, temp.mean, temp.unit) == (4, 3, 3, "u")
    assert [(p.split, p.n_records, p.n_cells, p.n_observed, p.n_held_out, p.n_shown) for p in found.parts] == [
        ("train", 1, 8, 1, 1, 0), ("test", 1, 8, 5, 0, 5),
    ]  # fmt: skip
    assert found.gaps == {"1": 2, "2": 2, "3-4": 0, "5-8": 0, "9-16": 0, "17-32": 0, "33+": 0, "whole record": 1}
    assert (found.n_records_without_value, found.n_steps_without_value) == (0, 4)
    assert found.changes == {"rows dropped": 3}


@settings(max_examples=50, deadline=None)
@given(missing=arrays(bool, st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 40))))
def test_gaps_equal_a_naive_count(missing: np.ndarray) -> None:
    windows = windows_of(np.where(missing, np.nan, 1.0))
    expected = dict.fromkeys(describe(windows).gaps, 0)
    for row in missing.reshape(-1, missing.shape[-1]):
        lengths = [len(run) for run in "".join("x" if m else " " for m in row).split()]
        for length in lengths:
            whole = length == len(row)
            for label in expected:
                low, _, high = label.rstrip("+").partition("-")
                if label == "whole record":
                    expected[label] += whole
                elif not whole and int(low) <= length <= (10**9 if "+" in label else int(high or low)):
                    expected[label] += 1
    assert describe(windows).gaps == expected


def test_limits_of_the_card_by_name_for_all_or_not_at_all() -> None:
    values = [7.3, 7.4, 7.35, 1.0, 94.0, 735.0]
    assert remarks(values, "pH") == ("implausible, below 6: 1 (1)", "implausible, above 8.5: 2 (94, 735)")
    assert remarks(values, "Na") == ()
    assert remarks(values, "pH", card=None) == ()
    everywhere = Card("", "", "", (), limits={"*": Limits(0.0, 100.0)})
    assert remarks(values, "pH", everywhere) == ("implausible, above 100: 1 (735)",)


@pytest.mark.parametrize("code", [-1, -99, -200, -999, 9999])
def test_codes_far_from_all_values_are_named(code: float) -> None:
    values = [*np.linspace(20, 40, 30), code, code]
    assert remarks(values) == (f"a code for unknown? {code:g}: 2",)


@pytest.mark.parametrize("ends", [(0.0, 1e308), (-1.7e308, 0.0), (-1.7e308, 1.7e308)])
def test_numbers_at_the_end_of_the_range_are_no_codes_and_no_warning(ends: tuple[float, float]) -> None:
    low, high = ends
    assert suspicious_codes(np.array([low, low / 2, high / 2, high])) == {}


def test_codes_among_other_values_are_not() -> None:
    assert remarks([*np.linspace(-5, 30, 40), -1.0]) == ()
    assert remarks([*np.linspace(200, 2000, 40), 999.0]) == ()
    assert remarks([*np.linspace(0, 100, 40), -1e-9]) == ()


def test_a_top_that_looks_cut_is_named_unless_it_is_the_limit() -> None:
    values = [*np.linspace(1, 9, 50), *[10.0] * 12]
    assert remarks(values) == ("cut off at the top? exactly 10: 12",)
    assert remarks(values, card=Card("", "", "", (), limits={"Temp": Limits(0.0, 10.0)})) == ()
    assert remarks([*np.linspace(1, 9, 50), *[10.0] * 9]) == ()


def test_never_observed_and_constant_features_are_named() -> None:
    assert remarks([np.nan]) == ("never observed",)
    assert remarks([3.0] * 4) == ("all 4 values are 3",)
    assert remarks([3.0] * 4, "pH") == ("implausible, below 6: 4 (3)", "all 4 values are 3")
    assert np.isnan(describe(windows_of(np.full((1, 1, 3), np.nan))).features[0].mean)


def test_stuck_sensors_are_named_where_mostly_observed() -> None:
    values = np.random.default_rng(0).normal(size=(4, 2, 40))
    values[1, 0, 5:17] = 0.0
    values[2, 0, 5:16] = 0.0
    assert describe(windows_of(values)).features[0].remarks == (
        "stuck? records with one value for 12 steps or more: 1 (longest 12 steps)",
    )
    assert describe(windows_of(values)).features[1].remarks == ()
    values[:, 0, 17:] = np.nan
    assert describe(windows_of(values)).features[0].remarks == ()


def test_one_step_one_record_one_feature_and_none() -> None:
    assert describe(windows_of(np.ones((1, 1, 1)))).features[0].median == 1
    empty = describe(windows_of(np.ones((0, 2, 3))))
    assert empty.parts == ()
    assert "0 records x 2 features" in empty.to_text()


def test_text_and_frame_hold_what_was_found() -> None:
    values = np.array([[[7.0, np.nan, 735.0], [1.5, 2.0, np.nan]]])
    found = describe(windows_of(values, changes={"rows dropped": 3}), CARD)
    text = found.to_text()
    for line in (
        "A title [licence: CC0]",
        "1 records x 2 features x 3 steps, 33.33% missing",
        "pH: implausible, above 8.5: 1 (735)",
        "        3 rows dropped",
        "held out for scoring",
    ):
        assert line in text
    frame = found.to_frame()
    assert frame["name"].tolist() == ["pH", "Temp"]
    assert frame.loc[0, "remarks"] == "implausible, above 8.5: 1 (735)"
    assert frame.loc[1, "median"] == 1.75


def test_synthetic_data_say_so() -> None:
    adapter = make("datasets", "synthetic", n_records=2)
    assert "SYNTHETIC" in describe(adapter.load(None), adapter.card).to_text()


def test_the_data_are_not_changed() -> None:
    windows = make("datasets", "synthetic", n_records=5).load(None)
    before = hashlib.sha256(windows.values.tobytes()).hexdigest()
    describe(windows, CARD).to_text()
    assert hashlib.sha256(windows.values.tobytes()).hexdigest() == before


def test_bad_codes_of_the_real_stays_are_found(real_stays: Windows) -> None:
    found: Description = describe(real_stays, make("datasets", "physionet2012").card)
    by_name = {feature.name: feature for feature in found.features}
    assert "implausible, above 8.5: 8 (94, 95, 96, ..., 735)" in by_name["pH"].remarks
    assert by_name["Temp"].remarks == ("implausible, below 25: 73 (-17.8, -12.5, 0, ..., 24.2)",)
    zeros = [r for name in by_name if name.endswith(("ABP", "MAP")) for r in by_name[name].remarks if "(0" in r]
    assert len(zeros) == 6
    assert found.n_records_without_value == 3
