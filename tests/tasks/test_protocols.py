"""The protocols: no leak in ``clean``, the original's every cell in ``csdi``, and what cannot be a task."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tsimpute.batches.masking import Historical, make_policy
from tsimpute.core.limits import Limits
from tsimpute.core.windows import Feature, Windows
from tsimpute.errors import ConfigError, DataError
from tsimpute.scaling.standardizer import Standardizer
from tsimpute.tasks.missingness import MECHANISMS
from tsimpute.tasks.protocols import NEVER_SHOWN, OUTSIDE, PROTOCOLS, clean, csdi
from tsimpute.tasks.task import REMOVED, Task

RATES = (10, 50, 90)
SPLITTING = {"clean": clean, "csdi": csdi}
"""Protocols whose parts have no record in common; ``transductive`` has a file of its own."""
LOOKS_AT_THEM = ("random", "mnar")
"""Tried already, or not to be tried: what is hidden follows from the hidden values."""


def make_windows(n: int = 40, own: bool = False, split: bool = False) -> Windows:
    """n records of 4 features and 15 steps, 40 % missing; own holes and a prescribed split where asked."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(n, 4, 15)) * [[1], [10], [100], [1000]] + 50
    values[rng.random(values.shape) < 0.4] = np.nan
    return Windows(
        values,
        np.tile(np.arange(15.0), (n, 1)),
        tuple(Feature(f"f{i}") for i in range(4)),
        tuple(f"r{i:03d}" for i in range(n)),
        held_out=~np.isnan(values) & (rng.random(values.shape) < 0.2) if own else None,
        split=np.array((["train"] * 5 + ["valid", "test"]) * n)[:n] if split else None,
    )


def arrays_of(task: Task) -> dict[str, np.ndarray]:
    """All that training and a model may see of a task."""
    out = {name: getattr(task.scaler, name) for name in ("mean", "std", "n_cells")}
    out["train"] = np.where(task.train.visible, task.train.values, np.nan)
    for part in ("valid", "test"):
        out[part] = getattr(task, part).without_held_out().values
    return out


SETTINGS = [(False, False, 0.3), (False, True, 0.3), (True, False, None), (True, True, None)]


@pytest.mark.parametrize(
    ("own", "split", "rate", "mechanism"),
    [(*setting, "random") for setting in SETTINGS]
    + [(False, False, 0.3, m) for m in MECHANISMS if m not in LOOKS_AT_THEM],
)
def test_clean_hides_held_out_values_from_everything(own: bool, split: bool, rate: float | None, mechanism: str):
    windows = make_windows(own=own, split=split)
    task = clean(windows, rate=rate, seed=1, mechanism=mechanism)
    hidden = windows.held_out_mask.copy()
    for part in (task.valid, task.test):
        at = [windows.record_ids.index(record_id) for record_id in part.record_ids]
        hidden[at] |= part.held_out_mask
    assert hidden.any()
    extreme = clean(
        replace(windows, values=np.where(hidden, 1e9, windows.values)), rate=rate, seed=1, mechanism=mechanism
    )
    assert (extreme.test.values[extreme.test.held_out_mask] == 1e9).all()
    for name, expected in arrays_of(task).items():
        np.testing.assert_array_equal(arrays_of(extreme)[name], expected, err_msg=name)


def test_csdi_scaler_does_see_them_and_says_so():
    windows = make_windows()
    task = csdi(windows, rate=0.5)
    np.testing.assert_allclose(task.scaler.mean, np.nanmean(windows.values, axis=(0, 2)))
    np.testing.assert_allclose(task.scaler.std, np.nanstd(windows.values, axis=(0, 2)))
    assert "scaler fitted on all observed cells of all records, test included, held-out cells included" in task.order
    train = clean(windows, rate=0.5, seed=1).train
    np.testing.assert_array_equal(clean(windows, rate=0.5, seed=1).scaler.mean, Standardizer.fit(train).mean)


@pytest.mark.parametrize("protocol", SPLITTING.values(), ids=SPLITTING)
@pytest.mark.parametrize(("own", "split", "rate"), SETTINGS)
def test_parts_are_disjoint_train_shows_all_it_has_and_input_is_unchanged(
    protocol: Callable[..., Task], own: bool, split: bool, rate: float | None
):
    windows = make_windows(own=own, split=split)
    before = windows.values.copy(), windows.held_out_mask.copy()
    task = protocol(windows, rate=rate, seed=1)
    ids = [record_id for part in (task.train, task.valid, task.test) for record_id in part.record_ids]
    assert sorted(ids) == list(windows.record_ids)
    assert task.train.held_out is None
    assert (task.mechanism, task.rate) == (("prescribed", None) if own else ("random", 0.3))
    np.testing.assert_array_equal(windows.values, before[0])
    np.testing.assert_array_equal(windows.held_out_mask, before[1])
    if split:
        for part in ("train", "valid", "test"):
            assert set(getattr(task, part).split) == {part}
    if own:
        at = [windows.record_ids.index(record_id) for record_id in task.test.record_ids]
        np.testing.assert_array_equal(task.test.held_out_mask, windows.held_out_mask[at])


def test_own_holes_of_training_records_are_gone_in_clean_and_filled_in_csdi():
    windows = make_windows(own=True, split=True)
    in_train = windows.split == "train"
    task, original = clean(windows, rate=None, seed=1), csdi(windows, rate=None)
    np.testing.assert_array_equal(task.train.observed, windows.visible[in_train])
    assert task.changes[REMOVED] == windows.held_out_mask[in_train].sum()
    np.testing.assert_array_equal(original.train.observed, windows.observed[in_train])
    seen = windows.values[windows.split != "test"]
    np.testing.assert_allclose(original.scaler.mean, np.nanmean(seen, axis=(0, 2)))
    np.testing.assert_allclose(original.scaler.std, np.nanstd(seen, axis=(0, 2)))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_clean_scores_the_same_cells_of_a_record_in_every_fold(mechanism: str):
    windows = make_windows()
    tasks = [clean(windows, rate=0.4, seed=1, fold=fold, mechanism=mechanism) for fold in range(5)]
    assert sorted(r for task in tasks for r in task.test.record_ids) == list(windows.record_ids)
    everywhere = MECHANISMS[mechanism](windows, rate=0.4, seed=1)
    for task in tasks:
        at = [windows.record_ids.index(record_id) for record_id in task.test.record_ids]
        np.testing.assert_array_equal(task.test.held_out_mask, everywhere[at])


@pytest.mark.parametrize("protocol", SPLITTING.values(), ids=SPLITTING)
def test_order_of_the_records_does_not_matter(protocol: Callable[..., Task]):
    windows = make_windows()
    task, other = (protocol(w, rate=0.4, seed=1) for w in (windows, windows.select(np.arange(40)[::-1])))
    for part in ("train", "valid", "test"):
        one, two = getattr(task, part), getattr(other, part)
        assert set(one.record_ids) == set(two.record_ids)
        at = [two.record_ids.index(record_id) for record_id in one.record_ids]
        np.testing.assert_array_equal(one.held_out_mask, two.held_out_mask[at])


def test_a_mask_that_holds_nothing_out_counts_as_none():
    windows = make_windows()
    none = replace(windows, held_out=np.zeros(windows.values.shape, bool))
    for protocol in SPLITTING.values():
        task, other = protocol(none, rate=0.3, seed=1), protocol(windows, rate=0.3, seed=1)
        assert task.train.held_out is None
        np.testing.assert_array_equal(task.test.held_out_mask, other.test.held_out_mask)


def test_holes_in_named_features_only():
    task = clean(make_windows(), rate=1, seed=1, mechanism="dead_sensor", features=["f2"])
    np.testing.assert_array_equal(task.test.held_out_mask, task.test.observed & (np.arange(4) == 2)[:, None])
    assert "in f2 hidden (dead_sensor, rate 1 asked, 1.0000 reached" in task.order


def test_one_table_tells_removed_shown_and_scored_apart():
    windows = make_windows(own=True, split=True)
    task = clean(windows, rate=None, seed=1)
    for counts in task.summary():
        mine = windows.split == counts.part
        scored = int(windows.held_out_mask[mine].sum())
        removed, scored = (scored, 0) if counts.part == "train" else (0, scored)
        assert (counts.records, counts.cells) == (mine.sum(), mine.sum() * 60)
        assert (counts.observed, counts.shown) == (windows.observed[mine].sum(), windows.visible[mine].sum())
        assert (counts.removed, counts.scored) == (removed, scored)
    lines = task.summary_text().splitlines()
    assert lines[0] == "| part | records | cells | observed | removed | shown | scored |"
    assert [len(line.split("|")) for line in lines[:5]] == [9] * 5
    assert task.order in task.summary_text()
    assert task.order.index("split") < task.order.index("hidden") < task.order.index("scaler")


@pytest.mark.parametrize("protocol", SPLITTING.values(), ids=SPLITTING)
def test_empty_records_are_dropped_and_counted(protocol: Callable[..., Task]):
    windows = make_windows()
    values = windows.values.copy()
    values[[3, 17]] = np.nan
    task = protocol(replace(windows, values=values, changes={"rows merged": 5}), rate=0.4, seed=1)
    assert sum(counts.records for counts in task.summary()) == 38
    assert task.changes["records without any observation (dropped by the protocol)"] == 2
    assert task.changes["rows merged"] == 5
    with pytest.raises(DataError, match="40 without any observation"):
        protocol(replace(windows, values=np.full_like(values, np.nan)), rate=0.4, seed=1)


def test_training_record_whose_cells_are_all_held_out_is_dropped_and_counted():
    windows = make_windows(own=True, split=True)
    held_out = windows.held_out | (windows.observed & (np.arange(40) == 0)[:, None, None])
    task = clean(replace(windows, held_out=held_out), rate=None, seed=1)
    assert "r000" not in task.train.record_ids
    assert task.changes["training records all of whose cells are held out (dropped by the protocol)"] == 1


def test_feature_never_shown_in_training_is_counted():
    windows = make_windows()
    values = windows.values.copy()
    values[:, 1] = np.nan
    task = clean(replace(windows, values=values), rate=0.4, seed=1)
    assert task.changes[NEVER_SHOWN] == 1
    np.testing.assert_array_equal(task.scaler.never_shown, [False, True, False, False])
    assert NEVER_SHOWN not in clean(windows, rate=0.4, seed=1).changes


@pytest.mark.parametrize("protocol", SPLITTING.values(), ids=SPLITTING)
@pytest.mark.parametrize(
    ("own", "split", "arguments", "says"),
    [
        (False, False, {"rate": None}, "holds out no cells; came None"),
        (True, False, {"rate": 0.1}, r"data set itself holds out .* Set it to None \(--protocol\.rate null\)"),
        (False, False, {"rate": 0}, "rate"),
        (False, False, {"rate": 1}, "rate"),
        (False, False, {"rate": float("nan")}, "rate"),
        (False, False, {"rate": "0.1"}, "rate"),
        (False, False, {"rate": 0.1, "fold": 5}, "0 to 4, came 5"),
        (True, True, {"rate": None, "fold": 1}, "prescribes its one split; came 1"),
    ],
)
def test_settings_out_of_range(
    protocol: Callable[..., Task], own: bool, split: bool, arguments: dict[str, float], says: str
):
    with pytest.raises(ConfigError, match=says):
        protocol(make_windows(own=own, split=split), **({"seed": 1} | arguments))


@pytest.mark.parametrize(
    "arguments",
    [{"rate": 0.1, "mechanism": "no_such"}, {"rate": 0.1, "mechanism": "prescribed"}, {"rate": 0.1, "features": ["x"]}],
)
def test_unknown_mechanism_or_feature(arguments: dict):
    with pytest.raises(ConfigError, match="expected"):
        clean(make_windows(), seed=1, **arguments)


@pytest.mark.parametrize("arguments", [{"mechanism": "blocks"}, {"features": ["f1"]}])
def test_a_mechanism_is_not_silently_overridden_by_own_holes(arguments: dict):
    with pytest.raises(ConfigError, match="own held-out cells are scored"):
        clean(make_windows(own=True), rate=None, seed=1, **arguments)


@pytest.mark.parametrize("protocol", SPLITTING.values(), ids=SPLITTING)
def test_too_few_records(protocol: Callable[..., Task]):
    for n in (1, 2, 4):
        with pytest.raises(DataError, match=r"records?.*at least"):
            protocol(make_windows(n), rate=0.5, seed=1)
    assert [counts.records for counts in protocol(make_windows(5), rate=0.5, seed=1).summary()] == [3, 1, 1]


@pytest.mark.parametrize("protocol", SPLITTING.values(), ids=SPLITTING)
def test_rate_that_hides_nothing(protocol: Callable[..., Task]):
    with pytest.raises(DataError, match="raise it, or take the mechanism 'mcar'"):
        protocol(make_windows(), rate=0.001, seed=1)


def test_training_records_without_a_cell():
    windows = make_windows(own=True, split=True)
    held_out = windows.held_out | (windows.observed & (windows.split == "train")[:, None, None])
    with pytest.raises(DataError, match="at least one record in each part"):
        clean(replace(windows, held_out=held_out), rate=None, seed=1)


def test_training_records_of_nothing_but_gaps():
    windows = make_windows(own=True, split=True)
    in_train = (windows.split == "train")[:, None, None]
    gaps = replace(windows, values=np.where(in_train, np.nan, windows.values), held_out=windows.held_out & ~in_train)
    with pytest.raises(DataError, match="expected cells to train on"):
        csdi(gaps, rate=None)


# --- the original's numbers -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def original(reference_root: Path) -> dict[str, np.ndarray]:
    with np.load(reference_root / "csdi_protocol.npz") as stored:
        return {name: stored[name] for name in stored.files}


def grid(packed: np.ndarray) -> np.ndarray:
    """(N, K, L) bool of a mask that is stored as bits over the flattened (48, 35) grid."""
    return np.unpackbits(packed, axis=1).astype(bool).reshape(len(packed), 48, 35).transpose(0, 2, 1)


def assert_is_original(task: Task, original: dict[str, np.ndarray], per_cent: int, fold: int):
    ids = np.array([str(i) for i in original["ids"]])
    for part in ("train", "valid", "test"):
        windows, index = getattr(task, part), original[f"{part}_fold{fold}"]
        assert windows.record_ids == tuple(ids[index])
        assert np.array_equal(windows.observed, grid(original["obs"][index]))
        if part == "train":
            assert windows.held_out is None
        else:
            assert np.array_equal(windows.visible, grid(original[f"shown_{per_cent}"][index]))


@pytest.mark.parametrize("per_cent", RATES)
def test_csdi_equals_the_original_cell_by_cell(original: dict[str, np.ndarray], per_cent: int):
    """From its own masks; an empty stay is slipped in, for which the original consumed no draw."""
    obs = grid(original["obs"])
    values = np.where(np.concatenate([obs, np.zeros((1, 35, 48), bool)]), np.float32(1), np.float32(np.nan))
    names = (*(str(i) for i in original["ids"]), "140501")
    windows = Windows(
        values, np.tile(np.arange(48.0), (len(values), 1)), tuple(Feature(f"f{i}") for i in range(35)), names
    )
    assert "140501" not in names[:-1]
    for fold in range(5):
        assert_is_original(csdi(windows, rate=per_cent / 100, fold=fold), original, per_cent, fold)


@pytest.fixture(scope="module")
def stays(data_root: Path) -> Windows:
    from tsimpute.datasets.physionet2012 import PhysioNet2012

    return PhysioNet2012().load(data_root)


def test_csdi_from_the_raw_files(stays: Windows, original: dict[str, np.ndarray], reference_root: Path):
    task = csdi(stays, rate=0.5, fold=1)
    assert_is_original(task, original, 50, 1)
    assert task.summary()[2].scored == 130_694  # the count that an independent published run reports
    with np.load(reference_root / "csdi_parity.npz") as stored:
        np.testing.assert_allclose(task.scaler.mean, stored["mean"], rtol=1e-10)
        np.testing.assert_allclose(task.scaler.std, stored["std"], rtol=1e-10)


def test_clean_on_the_raw_files(stays: Windows):
    task = clean(stays, rate=0.1, seed=1)
    assert [counts.records for counts in task.summary()] == [2798, 400, 799]
    observed = task.test.observed.sum((1, 2))
    np.testing.assert_array_equal(task.test.held_out_mask.sum((1, 2)), observed // 10)


@pytest.mark.parametrize("protocol", SPLITTING.values(), ids=SPLITTING)
def test_pm25_scores_the_prescribed_cells(data_root: Path, protocol: Callable[..., Task]):
    from tsimpute.datasets.pm25 import PM25

    windows = PM25().load(data_root)
    task = protocol(windows, rate=None, seed=1)
    assert (len(task.test), task.summary()[2].scored, task.mechanism) == (82, 20_434, "prescribed")
    policy = make_policy("historical", task.train)
    assert isinstance(policy, Historical)
    months = {
        record_id[5:7]
        for record_id, lends in zip(task.train.record_ids, task.train.pattern_donor, strict=True)
        if lends
    }
    assert months == {"02", "05", "08", "11"}
    assert len(policy.patterns) == task.train.pattern_donor.sum()


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("protocol", ["clean", "csdi"])
def test_what_lies_outside_its_limits_is_made_missing_counted_and_neither_shown_nor_scored(protocol: str, own: bool):
    windows = make_windows(own=own)
    limits = {"f0": Limits(49, 51), "*": Limits(0)}
    x = windows.values.copy()
    outside = np.stack([(x[:, 0] < 49) | (x[:, 0] > 51), x[:, 1] < 0, x[:, 2] < 0, x[:, 3] < 0], axis=1)
    task = SPLITTING[protocol](windows, rate=None if own else 0.3, seed=1, limits=limits)
    assert task.changes[OUTSIDE] == outside.sum() > 0
    for part in (task.train, task.valid, task.test):
        at = [windows.record_ids.index(record_id) for record_id in part.record_ids]
        assert not ((part.visible | part.held_out_mask) & outside[at]).any()
        assert np.isnan(part.values[outside[at]]).all()
    draws = task.scaler.inverse(np.random.default_rng(0).normal(size=(50, 4, 15)) * 5)
    assert (draws[:, 0] >= 49).all()
    assert (draws[:, 0] <= 51).all()
    assert (draws >= 0).all()
    assert (windows.values == x)[~np.isnan(x)].all()


@pytest.mark.parametrize("own", [False, True])
def test_with_limits_csdi_scores_the_same_cells_in_the_same_units(own: bool):
    windows, limits = make_windows(own=own), {"*": Limits(-20, 150)}
    rate = None if own else 0.3
    with_limits, without = (csdi(windows, rate=rate, seed=1, limits=of) for of in (limits, None))
    assert with_limits.units is not None
    assert with_limits.units.to_dict() == without.scaler.to_dict()
    inside = (without.test.values >= -20) & (without.test.values <= 150)
    assert without.test.held_out_mask.sum() > with_limits.test.held_out_mask.sum() > 0
    np.testing.assert_array_equal(with_limits.test.held_out_mask, without.test.held_out_mask & inside)


def test_with_limits_clean_scores_in_units_of_the_shown_training_cells():
    task = clean(make_windows(), rate=0.3, seed=1, limits={"*": Limits(-20, 150)})
    assert task.units is not None
    assert task.units.to_dict() == Standardizer.fit(task.train).to_dict()


def other_names(windows: Windows, share: float, generator: object) -> np.ndarray:
    raise AssertionError


def nothing(windows: Windows, *, rate: float, seed: int, features: object = None) -> None:
    pass


def numbers(windows: Windows, *, rate: float, seed: int, features: object = None) -> np.ndarray:
    return windows.observed.astype("int64")


def first_step(windows: Windows, *, rate: float, seed: int, features: object = None) -> np.ndarray:
    return windows.observed[..., 0]


def all_cells(windows: Windows, *, rate: float, seed: int, features: object = None) -> np.ndarray:
    return np.ones(windows.values.shape, bool)


@pytest.mark.parametrize("protocol", ["clean", "transductive"])
def test_a_mechanism_of_ones_own_is_told_what_it_has_to_be(protocol: str) -> None:
    windows = make_windows()
    signature = r"\(windows, \*, rate, seed, features=None\) -> \(N, K, L\) bool"

    def made(name: str) -> None:
        PROTOCOLS[protocol](windows, rate=0.2, seed=0, mechanism=f"{__name__}:{name}")

    with pytest.raises(
        ConfigError,
        match=rf"other_names': expected a function {signature}; called so: .*unexpected keyword argument 'rate'",
    ):
        made("other_names")
    for name, came in (("nothing", "NoneType"), ("numbers", r"int64 \(.*\)"), ("first_step", r"bool \(\d+, 4\)")):
        with pytest.raises(DataError, match=rf"expected {signature}, here bool \(.*\); came {came}\."):
            made(name)
    with pytest.raises(DataError, match=r"within windows\.observed; \d+ cells hold no value"):
        made("all_cells")
