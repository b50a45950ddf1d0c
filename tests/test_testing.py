"""The laws of plug-ins name the one that a plug-in breaks, and hold for classes of another package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tsimpute.backbones.dual_transformer import DualTransformer
from tsimpute.config import registry
from tsimpute.core.containers import Condition, Prediction
from tsimpute.core.windows import Feature, Samples, Windows
from tsimpute.datasets.synthetic import SyntheticAirQuality
from tsimpute.errors import ConfigError
from tsimpute.imputers.simple import LinearImputer
from tsimpute.processes.flow_matching import FlowMatching
from tsimpute.solvers.heun import Heun
from tsimpute.solvers.one_step import OneStep
from tsimpute.testing import ContractError, cases, check_plugin, laws
from tsimpute.testing._records import SIZES

# -- solvers -------------------------------------------------------------------------------------------------------


class Crowd(OneStep):
    """Its rows depend on how many there are."""

    def solve(self, predict: Any, scales: Any, state: Tensor, grid: Tensor, draw_noise: Any) -> Tensor:
        return super().solve(predict, scales, state, grid, draw_noise) * (1 + 1e-14 * len(state))


class Nameless(OneStep):
    name = ""


class Boaster(Heun):
    order = 3


class Miscounting(OneStep):
    def n_evaluations(self, n_steps: int) -> int:
        return n_steps + 1


class Greedy(OneStep):
    """Evaluates at the end of the grid, too."""

    def solve(self, predict: Any, scales: Any, state: Tensor, grid: Tensor, draw_noise: Any) -> Tensor:
        end = super().solve(predict, scales, state, grid, draw_noise)
        if state.dtype == torch.float32:
            predict(end, grid[-1:].expand(len(end)))
        return end


class Shaky(OneStep):
    """Draws from a generator of its own."""

    def solve(self, predict: Any, scales: Any, state: Tensor, grid: Tensor, draw_noise: Any) -> Tensor:
        end = super().solve(predict, scales, state, grid, draw_noise)
        return end + 1e-10 * torch.randn(1, dtype=end.dtype) * (len(end) == 8)


# -- processes -----------------------------------------------------------------------------------------------------


class Rounded(FlowMatching):
    """Its prediction is not quite the inverse of its target."""

    def predict(self, output: Tensor, state: Tensor, tau: Tensor) -> Prediction:
        found = super().predict(output, state, tau)
        return Prediction(found.clean.float().double(), found.noise.float().double())


class Unnamed(FlowMatching):
    name = None  # type: ignore[assignment]


class Bent(FlowMatching):
    def corrupt(self, clean: Tensor, noise: Tensor, tau: Tensor) -> Tensor:
        return super().corrupt(clean, noise, tau) + 1e-3


class Obliging(FlowMatching):
    """Takes any power."""

    def grid(self, n_steps: int, power: float = 1.0) -> Tensor:
        return super().grid(n_steps, power if 1 <= power <= 2 else 1.0)


class Late(FlowMatching):
    """Trains mostly near the data."""

    def sample_tau(self, uniform: Tensor) -> Tensor:
        return super().sample_tau(uniform).sqrt()


class Dangling(FlowMatching):
    default_solver = "euler"


# -- backbones -----------------------------------------------------------------------------------------------------


class Prying(DualTransformer):
    """Looks at the state of all cells."""

    def condition_on(self, condition: Condition) -> Any:
        field = super().condition_on(condition)
        return lambda state, tau: field(state, tau) + 0.001 * state.mean((1, 2), keepdim=True)


class Social(DualTransformer):
    """Looks at the other records of the batch."""

    def condition_on(self, condition: Condition) -> Any:
        field = super().condition_on(condition)
        return lambda state, tau: field(state, tau) + condition.values.mean()


class Blind(DualTransformer):
    """Knows which cells are shown, not their values."""

    def condition_on(self, condition: Condition) -> Any:
        return super().condition_on(replace(condition, values=torch.zeros_like(condition.values)))


class Timeless(DualTransformer):
    def condition_on(self, condition: Condition) -> Any:
        return super().condition_on(replace(condition, times=torch.zeros_like(condition.times)))


class Idle(DualTransformer):
    """Has a weight that it does not use."""

    def __init__(self, n_features: int, width: int, n_heads: int, n_blocks: int) -> None:
        super().__init__(n_features, width=width, n_heads=n_heads, n_blocks=n_blocks)
        self.unused = nn.Parameter(torch.zeros(1))


# -- imputers ------------------------------------------------------------------------------------------------------


class Changed(LinearImputer):
    """What one of these adds to a copy of the draws is what is wrong with it."""

    def impute(self, windows: Windows, n_samples: int, seed: int = 0, fill: np.ndarray | None = None) -> Samples:
        samples = super().impute(windows, n_samples, seed, fill)
        values = samples.values.copy()
        for i in range(len(windows)):
            gap = np.isfinite(values[0, i]) & ~windows.visible[i]
            self._change(values[:, i], gap, windows, i)
        return replace(samples, values=values)

    def _change(self, values: np.ndarray, gap: np.ndarray, windows: Windows, i: int) -> None:
        raise NotImplementedError


class Smoothing(Changed):
    """Changes observed values by their last bit."""

    def _change(self, values: np.ndarray, gap: np.ndarray, windows: Windows, i: int) -> None:
        shown = windows.visible[i] & (windows.values[i] > 0)
        values[:, shown] = np.nextafter(values[:, shown], values.dtype.type(0))


class Peeking(Changed):
    """Looks at the held-out cells that it fills."""

    def _change(self, values: np.ndarray, gap: np.ndarray, windows: Windows, i: int) -> None:
        values[:, gap] += 1e-6 * np.nansum(np.where(windows.held_out_mask[i], windows.values[i], 0.0))


class InOrder(Changed):
    """A record's place in the batch matters."""

    def _change(self, values: np.ndarray, gap: np.ndarray, windows: Windows, i: int) -> None:
        values[:, gap] += 1e-6 * i


class Swinging(Changed):
    """Some draws are another answer, whatever the seed."""

    def _change(self, values: np.ndarray, gap: np.ndarray, windows: Windows, i: int) -> None:
        if len(values) == 3:
            values[2, gap] += 1.0


class Scribbling(LinearImputer):
    """Fills what it was given, too."""

    def impute(self, windows: Windows, n_samples: int, seed: int = 0, fill: np.ndarray | None = None) -> Samples:
        samples = super().impute(windows, n_samples, seed, fill)
        windows.values[np.isnan(windows.values)] = 0.0
        return samples


class LearningFromAll(LinearImputer):
    """Learns from held-out cells."""

    def fit(self, train: Windows, valid: Windows | None = None) -> LearningFromAll:
        super().fit(train, valid)
        self.last_ = np.nanmax(np.where(np.isnan(train.values), -np.inf, train.values))
        return self


class Tolerant(LinearImputer):
    """Loads anything."""

    @classmethod
    def load(cls, path: Path) -> Any:
        try:
            return super().load(path)
        except Exception:
            return cls()


# -- data sets -----------------------------------------------------------------------------------------------------


class Few(SyntheticAirQuality):
    def __init__(self) -> None:
        super().__init__(n_records=5, n_steps=6)


class Views(Few):
    """Its records overlap in one series."""

    def load(self, root: Path | None = None) -> Windows:
        windows = super().load(root)
        series = np.concatenate(list(windows.values), -1)
        views = np.lib.stride_tricks.sliding_window_view(series, 6, -1, writeable=True)[:, ::3].transpose(1, 0, 2)
        windows = windows.select(range(5))
        object.__setattr__(windows, "values", views[:5])
        return windows


class Fresh(Few):
    """Another draw at each load."""

    def load(self, root: Path | None = None) -> Windows:
        windows = super().load(root)
        return replace(windows, values=windows.values + np.random.default_rng().normal())


class Unitless(Few):
    def load(self, root: Path | None = None) -> Windows:
        windows = super().load(root)
        return replace(windows, features=(Feature(windows.features[0].name), *windows.features[1:]))


SMALL = {key: SIZES[key] for key in ("width", "n_heads", "n_blocks")}
BROKEN = [
    ("solvers", Nameless, "it_has_a_name_and_an_order"),
    ("processes", Unnamed, "it_has_a_name"),
    ("solvers", Crowd, "a_row_does_not_depend_on_the_others"),
    ("solvers", Boaster, "order_on_a_flow_that_is_not_linear_is_the_declared_one"),
    ("solvers", Miscounting, "declared_evaluations_are_those_made"),
    ("solvers", Greedy, "evaluates_at_times_of_the_grid_before_its_end_and_in_order"),
    ("solvers", Shaky, "same_seed_same_result_another_seed_another"),
    ("processes", Rounded, "the_target_predicts_clean_data_and_noise"),
    ("processes", Bent, "corrupt_gives_the_state_that_the_scales_say"),
    ("processes", Obliging, "a_grid_that_a_process_does_not_have_is_refused"),
    ("processes", Late, "training_times_cover_the_way_evenly"),
    ("processes", Dangling, "default_sampler_is_one_it_can_run"),
    ("backbones", Prying, "state_matters_at_the_cells_to_fill_and_nowhere_else"),
    ("backbones", Social, "a_record_does_not_depend_on_its_neighbours_in_the_batch"),
    ("backbones", Blind, "hidden_values_cannot_matter"),
    ("backbones", Timeless, "process_time_clock_and_mask_matter"),
    ("backbones", Idle, "gradient_reaches_every_parameter"),
    ("imputers", Smoothing, "shown_values_come_back_bit_for_bit"),
    ("imputers", Peeking, "held_out_values_change_nothing"),
    ("imputers", LearningFromAll, "held_out_values_change_nothing"),
    ("imputers", InOrder, "a_record_is_imputed_the_same_alone_in_a_batch_and_in_another_order"),
    ("imputers", Swinging, "seed_fixes_the_draws"),
    ("imputers", Scribbling, "the_callers_arrays_are_not_changed"),
    ("imputers", Tolerant, "a_foreign_or_damaged_file_is_refused"),
    ("datasets", Views, "records_can_be_written_to_without_touching_each_other"),
    ("datasets", Fresh, "two_loads_are_equal"),
    ("datasets", Unitless, "records_are_whole"),
]


@pytest.mark.parametrize(("kind", "plug", "law"), BROKEN, ids=lambda x: getattr(x, "__name__", x))
def test_the_law_that_is_broken_is_named_and_no_other(kind: str, plug: type, law: str):
    lines: list[str] = []
    with pytest.raises(ContractError, match=f"{plug.__name__} breaks 1 of the laws") as error:
        check_plugin(kind, plug, SMALL if kind == "backbones" else None, report=lines.append)
    assert list(error.value.broken) == [law]
    assert laws(kind)[law].statement in error.value.broken[law]
    assert law in str(error.value)
    assert [line.partition(":")[0] for line in lines] == list(laws(kind))
    assert [line for line in lines if "BROKEN" in line] == [f"{law}: BROKEN   {error.value.broken[law]}"]


@pytest.mark.parametrize(
    ("kind", "plug", "options"),
    [
        ("solvers", "heun", None),
        ("processes", FlowMatching("trigonometric"), None),
        ("backbones", DualTransformer, SIZES),
        ("imputers", "tsimpute.imputers.simple:LinearImputer", None),
        ("datasets", Few(), None),
    ],
    ids=["name", "instance", "class", "import path", "instance of another package"],
)
def test_names_import_paths_classes_and_instances_pass(kind: str, plug: Any, options: dict | None):
    check_plugin(kind, plug, options)


def test_a_message_says_the_law_what_was_expected_and_what_came():
    with pytest.raises(ContractError) as error:
        check_plugin("solvers", Miscounting)
    (why,) = error.value.broken.values()
    assert why == (
        "``n_evaluations`` is how often the network is called. Expected 2 calls of the network, as n_evaluations(1) "
        "declares; came 1 [declared_evaluations_are_those_made(process_name=diffusion, n_steps=1)] (and 11 more)"
    )


@pytest.mark.parametrize("kind", ["solvers", "processes", "backbones", "imputers", "peers", "datasets"])
def test_every_law_is_stated_in_one_sentence(kind: str):
    assert len(laws(kind)) > 5
    for law in laws(kind).values():
        assert law.statement.endswith("."), law.name
    assert len({str(case) for case in cases(kind)}) == len(cases(kind))


def test_what_cannot_be_checked_is_refused():
    with pytest.raises(ConfigError, match=r"kind: expected one of peers, solvers.*came 'mask_policies'"):
        laws("mask_policies")
    with pytest.raises(ConfigError, match="expected root=, the folder of pm25's files"):
        check_plugin("datasets", "pm25")
    with pytest.raises(ConfigError, match="it has no solve"):
        check_plugin("solvers", FlowMatching)
    with pytest.raises(ConfigError, match="unknown option pace"):
        check_plugin("solvers", "heun", {"pace": 1})


def test_plug_ins_never_import_the_laws():
    for kind in ("solvers", "processes", "backbones", "imputers", "peers", "datasets"):
        for path in Path(registry.__file__).with_name(kind).glob("*.py"):
            assert "tsimpute.testing" not in path.read_text(), path


def draw(known: Any, times: Any, n_samples: int, rng: Any, learnt: Any) -> Any:
    """A function, as suites take it, and no imputer with the whole contract."""


def test_what_is_no_plug_in_is_refused_once_and_not_by_every_law() -> None:
    with pytest.raises(ConfigError, match="it has no fit, impute, save, load") as error:
        check_plugin("imputers", f"{__name__}:draw")
    assert str(error.value).count("expected") == 1


class SavesElsewhere(LinearImputer):
    def save(self, path: Path) -> None:
        super().save(path.with_suffix(".model"))


def test_a_file_that_is_saved_elsewhere_is_told_once() -> None:
    with pytest.raises(ContractError) as error:
        check_plugin("imputers", SavesElsewhere)
    assert list(error.value.broken) == ["saved_and_loaded_is_the_same"]
    assert "expected one file, model; came model.model" in str(error.value).lower()
