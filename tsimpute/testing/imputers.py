"""The laws of an imputer, and of a peer; each takes ``Imputers``: a factory and one that is fitted."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tsimpute.core.windows import Feature, Samples, Windows
from tsimpute.errors import CheckpointError, ConfigError, DataError, NotFittedError, TsimputeError
from tsimpute.testing._laws import DoesNotApply, Laws, expect, expect_name, expect_refused, over
from tsimpute.testing._records import FEATURES

LAWS = Laws()


def records(n: int, seed: int, dtype: type = np.float64) -> Windows:
    """Records in different units, a third missing and some held out; the second has no value of the last feature."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 3, 8)) * np.array([1.0, 20.0, 300.0])[:, None] + np.array([0.0, 80.0, -5.0])[:, None]
    values[rng.random(values.shape) < 0.33] = np.nan
    values[1 % n, 2] = np.nan
    values[0, 0, 2] = -0.0
    held_out = ~np.isnan(values) & (rng.random(values.shape) < 0.25)
    held_out[0, 0, 2] = False
    return Windows(
        values=values.astype(dtype),
        times=np.arange(8) + rng.uniform(-0.01, 0.01, size=(n, 8)),
        features=FEATURES,
        record_ids=tuple(f"{seed}-{i}" for i in range(n)),
        held_out=held_out,
    )


TRAIN, VALID, TEST = records(8, 1), records(3, 2), records(5, 3)


@dataclass(frozen=True)
class Imputers:
    """An imputer under test.

    Attributes:
        make: gives one that is not fitted.
        deterministic: whether it repeats one answer whatever the seed; None = whether its draws of one seed are alike.
    """

    make: Callable[[], Any]
    deterministic: bool | None = None

    # Each gets copies, so that an imputer that writes to its arguments spoils no other law.

    def fit(self, train: Windows = TRAIN, valid: Windows | None = VALID) -> Any:
        return self.make().fit(copy.deepcopy(train), copy.deepcopy(valid))

    def impute(self, n: int, seed: int = 0, windows: Windows = TEST, fill: np.ndarray | None = None) -> Samples:
        """``n`` draws of the fitted one."""
        return self.fitted.impute(copy.deepcopy(windows), n, seed, fill)

    @cached_property
    def fitted(self) -> Any:
        return self.fit()


subject = Imputers
"""What the laws of this kind take."""


def digest(x: object) -> str:
    """A hash of everything in an object, to the last bit."""
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu().numpy()
    if isinstance(x, np.ndarray):
        text = f"{x.dtype}{x.shape}".encode() + np.ascontiguousarray(x).tobytes()
    elif isinstance(x, torch.nn.Module):
        text = digest(dict(x.state_dict())).encode()
    elif isinstance(x, dict):
        text = "".join(f"{key}:{digest(value)}" for key, value in x.items()).encode()
    elif isinstance(x, tuple | list):
        text = "".join(map(digest, x)).encode()
    elif dataclasses.is_dataclass(x):
        text = digest({f.name: getattr(x, f.name) for f in dataclasses.fields(x)}).encode()
    elif hasattr(x, "impute"):  # an imputer among what an imputer has learnt
        text = digest(learnt(x)).encode()
    else:
        text = repr(x).encode() if isinstance(x, str | int | float | None) else type(x).__name__.encode()
    return hashlib.sha256(text).hexdigest()


def learnt(imputer: object) -> dict[str, str]:
    """Hashes of what it has learnt, by the names of the attributes, which end in ``_``."""
    return {key: digest(value) for key, value in vars(imputer).items() if key.endswith("_")}


def expect_same(values: np.ndarray, expected: np.ndarray, what: str) -> None:
    """To the bit, so that -0.0 is not 0.0."""
    if values.shape != expected.shape or values.dtype != expected.dtype:
        came = f"{values.dtype} {values.shape} in place of {expected.dtype} {expected.shape}"
        raise AssertionError(f"expected {what}; came {came}")
    if values.tobytes() != expected.tobytes():
        differ = (values != expected) & ~(np.isnan(values) & np.isnan(expected))
        first = f", the first {values[differ][0]!r} in place of {expected[differ][0]!r}" if differ.any() else ""
        raise AssertionError(f"expected {what}; came {differ.sum()} other values of {differ.size}{first}")


def expect_numbers(values: np.ndarray, where: str) -> None:
    expect(np.isfinite(values).all(), f"numbers at every cell {where}", f"{(~np.isfinite(values)).sum()} others")


# -- answers -------------------------------------------------------------------------------------------------------


@LAWS.law(over(dtype=(np.float32, np.float64)))
def shown_values_come_back_bit_for_bit(imputers: Imputers, dtype: type) -> None:
    """Observed values come back to the bit and in their dtype, -0.0 among them."""
    windows = records(5, 3, dtype)
    samples = imputers.impute(3, windows=windows)
    expect(samples.values.dtype == dtype, f"draws of {np.dtype(dtype)}", samples.values.dtype)
    expect(np.array_equal(samples.visible, windows.visible), "the mask of the shown cells", "another")
    for draw in samples.values:
        expect_same(draw[windows.visible], windows.values[windows.visible], "the shown values")
    expect(np.signbit(samples.values[:, 0, 0, 2]).all(), "-0.0 where it is shown", samples.values[:, 0, 0, 2])


@LAWS.law()
def every_missing_cell_is_filled_with_a_number_and_held_out_cells_are_missing(imputers: Imputers) -> None:
    """Missing cells get numbers, also in a record without values; held-out cells count as missing."""
    empty = replace(TEST, values=np.full_like(TEST.values, np.nan), held_out=None)
    expect_numbers(imputers.impute(2, windows=empty).values, "of records without values")
    samples = imputers.impute(2)
    expect_numbers(samples.values, "of TEST")
    hidden = samples.values[:, TEST.held_out_mask]
    share = (hidden != TEST.values[TEST.held_out_mask]).mean()
    expect(share > 0.9, "other values than the true ones at nine in ten held-out cells", f"{share:.0%}")


@LAWS.law()
def only_the_cells_asked_for_are_filled_and_as_if_all_were(imputers: Imputers) -> None:
    """With ``fill``, the missing cells that it does not mark stay NaN; a mask of all cells is as none."""
    fill = TEST.held_out_mask.copy()
    samples = imputers.impute(2, seed=4, fill=fill)
    filled = np.array_equal(np.isfinite(samples.values).all(0), TEST.visible | fill)
    expect(filled, "numbers at the shown cells and those of fill", f"{np.isfinite(samples.values).sum()} numbers")
    expect(np.isnan(samples.values[:, ~(TEST.visible | fill)]).all(), "NaN elsewhere", "numbers")
    nothing = imputers.impute(2, fill=np.zeros_like(fill))
    expect(np.array_equal(np.isnan(nothing.values[0]), ~TEST.visible), "no cell filled with a mask of none", "some")
    everything = imputers.impute(2, fill=np.ones_like(fill))  # shown cells are not to be filled
    expect_same(everything.values, imputers.impute(2).values, "with a mask of all cells as without one")


@LAWS.law()
def ask_seven_get_seven(imputers: Imputers) -> None:
    """As many draws as asked for, with the features and ids of the records."""
    samples, shape = imputers.impute(7), (7, *TEST.values.shape)
    expect(samples.values.shape == shape, f"draws of shape {shape}", samples.values.shape)
    expect(samples.features == TEST.features, f"features {TEST.features}", samples.features)
    expect(samples.record_ids == TEST.record_ids, f"ids {TEST.record_ids}", samples.record_ids)


@LAWS.law()
def seed_fixes_the_draws(imputers: Imputers) -> None:
    """The same seed gives the same bits; another seed, and another draw, other values, unless it is deterministic."""
    a, b, c = (imputers.impute(3, seed).values for seed in (0, 0, 1))
    expect_same(b, a, "the same draws from the same seed")
    gap = ~TEST.visible
    alike = (a == a[:1]).all()
    if alike if imputers.deterministic is None else imputers.deterministic:
        expect_same(c, a, "the same answer from every seed of a deterministic imputer")
        expect(alike, "one answer in every draw of a deterministic imputer", "others")
    else:
        of_seeds, of_draws = (a[:, gap] != c[:, gap]).mean(), (a[0, gap] != a[1, gap]).mean()
        expect(of_seeds > 0.99, "other values from another seed at 99 % of the cells", f"{of_seeds:.1%}")
        expect(of_draws > 0.99, "other values in another draw at 99 % of the cells", f"{of_draws:.1%}")


@LAWS.law()
def a_record_is_imputed_the_same_alone_in_a_batch_and_in_another_order(imputers: Imputers) -> None:
    """A record's draws depend on the seed and its id alone, not on its batch, its order or its neighbours."""
    whole = imputers.impute(2, seed=5).values
    backwards = imputers.impute(2, 5, TEST.select([4, 3, 2, 1, 0])).values
    for i in range(len(TEST)):
        alone = imputers.impute(2, 5, TEST.select([i])).values
        np.testing.assert_array_equal(alone[:, 0], whole[:, i], err_msg=f"record {i} alone and in a batch")
        np.testing.assert_array_equal(backwards[:, 4 - i], whole[:, i], err_msg=f"record {i} in the reverse order")


@LAWS.law()
def the_callers_arrays_are_not_changed(imputers: Imputers) -> None:
    """Neither fitting nor imputing writes to what it is given."""
    train, valid, test = records(8, 1), records(3, 2), records(5, 3)
    fill = test.held_out_mask.copy()
    arguments = {"train": train, "valid": valid, "windows": test, "fill": fill}
    before = {name: digest(value) for name, value in arguments.items()}
    imputers.make().fit(train, valid).impute(test, 2, fill=fill)
    changed = [name for name, value in arguments.items() if digest(value) != before[name]]
    expect(not changed, "that the arguments stay as they are", f"changes of {', '.join(changed)}")


# -- leakage -------------------------------------------------------------------------------------------------------


def poisoned(windows: Windows) -> Windows:
    return replace(windows, values=np.where(windows.held_out_mask, 1e9, windows.values))


@LAWS.law()
def held_out_values_change_nothing(imputers: Imputers) -> None:
    """Held-out values change nothing, neither what is learnt nor a draw."""
    clean, poison = imputers.fitted, imputers.fit(poisoned(TRAIN), poisoned(VALID))
    of_clean, of_poison = learnt(clean), learnt(poison)
    changed = [key for key in of_clean | of_poison if of_clean.get(key) != of_poison.get(key)]
    expect(not changed, "the same learnt from other held-out values", f"others: {', '.join(changed)}")
    draws = imputers.impute(3, 1).values
    expect_same(poison.impute(poisoned(TEST), 3, 1).values, draws, "the same draws with other held-out values")
    without = imputers.impute(3, 1, TEST.without_held_out()).values
    expect_same(without, draws, "the same draws without held-out values")


@LAWS.law()
def shown_values_do_change_something(imputers: Imputers) -> None:
    """Shown values change what is learnt; an imputer that looks at nothing could not leak."""
    other = learnt(imputers.fit(replace(TRAIN, values=TRAIN.values + 1)))
    expect(other != learnt(imputers.fitted), "attributes ending in _ that change with the training values", list(other))


# -- odd data ------------------------------------------------------------------------------------------------------


@LAWS.law()
def a_feature_that_was_never_observed_keeps_its_place_and_is_flagged(imputers: Imputers) -> None:
    """A feature without a training value keeps its place, is filled, and stands in ``no_data_``."""
    values = TRAIN.values.copy()
    values[:, 1] = np.nan
    imputer = imputers.fit(replace(TRAIN, values=values, held_out=TRAIN.held_out_mask & ~np.isnan(values)))
    expect(imputer.no_data_ == ("Temp",), "no_data_ ('Temp',)", imputer.no_data_)
    samples = imputer.impute(copy.deepcopy(TEST), 2)
    expect_numbers(samples.values, "of TEST")
    expect(samples.features == FEATURES, f"features {FEATURES}", samples.features)
    no_data = imputers.fitted.no_data_
    expect(no_data == (), "no_data_ () where each feature has values", no_data)


@LAWS.law()
def one_record_one_feature_one_step(imputers: Imputers) -> None:
    """It learns from one record of one feature and one step, and fills another."""
    one = Windows(np.full((1, 1, 1), 4.0), np.zeros((1, 1)), FEATURES[:1], ("a",))
    gap = Windows(np.full((1, 1, 1), np.nan), np.zeros((1, 1)), FEATURES[:1], ("b",))
    expect_numbers(imputers.fit(one, None).impute(gap, 1).values, "of a record of one cell")


@LAWS.law()
def training_data_without_a_shown_cell_is_refused(imputers: Imputers) -> None:
    """Training data without a shown cell is refused."""
    blank = replace(TRAIN, values=np.full_like(TRAIN.values, np.nan), held_out=None)
    expect_refused(TsimputeError, lambda: imputers.fit(blank))


# -- what is refused -----------------------------------------------------------------------------------------------


@LAWS.law()
def the_constructor_does_nothing_and_fit_comes_first(imputers: Imputers) -> None:
    """It has a name and has learnt nothing; imputing and saving before fitting are refused, and no file is written."""
    imputer = imputers.make()
    expect_name(imputer)
    early = [key for key in vars(imputer) if key.endswith("_")]
    expect(not early, "no attribute ending in _ before fit", ", ".join(early))
    expect_refused(NotFittedError, lambda: imputer.impute(TEST, 1))
    with tempfile.TemporaryDirectory() as folder:
        expect_refused(NotFittedError, lambda: imputer.save(Path(folder) / "model"))
        files = [path.name for path in Path(folder).iterdir()]
        expect(not files, "no file", ", ".join(files))


OTHERS = {
    "another order": ((FEATURES[1], FEATURES[0], FEATURES[2]), "order"),
    "another unit": ((FEATURES[0], Feature("Temp", "degF"), FEATURES[2]), "Temp.*degC.*degF"),
    "another feature": ((*FEATURES[:2], Feature("pH")), "Urine.*pH"),
    "fewer features": (FEATURES[:2], "Urine"),
}
"""By what is other: features, and what the message says."""


@LAWS.law(over(what=OTHERS))
def other_features_than_those_learnt_are_refused(imputers: Imputers, what: str) -> None:
    """Features of another order, unit, name or number than those learnt are refused; the message names both."""
    features, says = OTHERS[what]
    other = Windows(TEST.values[:, : len(features)], TEST.times, features, TEST.record_ids)
    expect_refused(DataError, lambda: imputers.impute(1, windows=other), says)


@LAWS.law()
def senseless_requests_are_refused(imputers: Imputers) -> None:
    """Fewer than one draw, and a mask ``fill`` of another shape or dtype, are refused by name."""
    for n_samples in (0, -1):
        expect_refused(ConfigError, lambda n=n_samples: imputers.impute(n), "n_samples")
    for fill in (TEST.held_out_mask[:, :2], TEST.held_out_mask.astype(int)):
        expect_refused(DataError, lambda fill=fill: imputers.impute(1, fill=fill), "fill")


# -- files ---------------------------------------------------------------------------------------------------------


@LAWS.law()
def saved_and_loaded_is_the_same(imputers: Imputers) -> None:
    """``save`` writes one file; ``load`` reads an imputer that gives the same bits and refuses the same data."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        imputers.fitted.save(path)
        written = [one.name for one in Path(folder).iterdir()]
        expect(written == ["model"], "one file, model", ", ".join(sorted(written)) or "none")
        loaded = type(imputers.fitted).load(path)
        again = loaded.impute(copy.deepcopy(TEST), 3, 2).values
        expect_same(again, imputers.impute(3, 2).values, "the same draws of what was saved and loaded")
        backwards = replace(TEST, features=FEATURES[::-1])
        expect_refused(DataError, lambda: loaded.impute(backwards, 1), "order")


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "absent": lambda whole: None,
    "empty": lambda whole: b"",
    "text": lambda whole: b"Time,Parameter,Value\n",
    "bytes": lambda whole: bytes(range(256)) * 40,
    "truncated": lambda whole: whole[: len(whole) * 2 // 3],
    "json": lambda whole: b'{"format": "another", "layout": 1}',
    "folder": lambda whole: None,
}
"""What stands in a file's place, from its whole content; None = no file."""


@LAWS.law(over(damage=DAMAGES))
def a_foreign_or_damaged_file_is_refused(imputers: Imputers, damage: str) -> None:
    """A file that is absent, damaged or foreign is a CheckpointError that names it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        imputers.fitted.save(path)
        if not path.is_file():
            raise DoesNotApply("save(path) wrote no file at path")  # another law says so
        content = DAMAGES[damage](path.read_bytes())
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        elif damage == "folder":
            path.mkdir()
        expect_refused(CheckpointError, lambda: type(imputers.fitted).load(path), "model")
