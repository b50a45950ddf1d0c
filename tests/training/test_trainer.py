"""The training loop: what it computes, that it goes on bit for bit, and how it stops."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from tiny_models import tiny_network, waves
from torch import nn

from tsimpute.backbones.dual_transformer import DualTransformer
from tsimpute.backbones.present_cells import PresentCells
from tsimpute.batches.loading import Loader
from tsimpute.batches.masking import RandomTargets
from tsimpute.config.settings import TrainingConfig
from tsimpute.core.windows import Windows
from tsimpute.errors import CheckpointError, ConfigError, TrainingError
from tsimpute.generative.objective import draw, loss_per_record, squared_errors
from tsimpute.models.checkpoints import read_state, write_state
from tsimpute.processes.diffusion import Diffusion
from tsimpute.scaling.standardizer import Standardizer
from tsimpute.testing._records import SIZES, random_batch
from tsimpute.training import trainer
from tsimpute.training.progress import Step, log_epoch
from tsimpute.training.trainer import Trainer

TRAIN, VALID = waves(7), waves(3, seed=1, name="v")
SETTINGS = TrainingConfig(epochs=3, batch_size=3, learning_rate=1e-2, ema=0.9, checkpoint_minutes=1e6)
Weights = dict[str, torch.Tensor]


def copied(network: nn.Module) -> Weights:
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}


def equal(a: Weights, b: Weights) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@dataclass
class Run:
    """A training with what it saved, by name."""

    trainer: Trainer
    models: dict[str, tuple[Weights, dict[str, Any]]] = field(default_factory=dict)

    def steps(self) -> list[Step]:
        return list(self.trainer.run())

    def weights(self) -> Weights:
        return copied(self.trainer.network)


def prepared(
    folder: Path | None = None,
    *,
    train: Windows = TRAIN,
    valid: Windows | None = VALID,
    network: nn.Module | None = None,
    policy: Any = None,
    should_stop: Callable[[], bool] = lambda: False,
    kind: type[Trainer] = Trainer,
    **changed: Any,
) -> Run:
    settings = replace(SETTINGS, **changed)
    scaler, policy = Standardizer.fit(train), policy or RandomTargets()
    models: dict[str, tuple[Weights, dict[str, Any]]] = {}
    trainer = kind(
        network or tiny_network(train.n_features),
        Diffusion(),
        Loader(train, scaler, policy, settings.batch_size, settings.seed),
        None if valid is None else Loader(valid, scaler, policy, settings.batch_size, 99),
        settings,
        folder,
        lambda name, kept, about: models.update({name: (copied(kept), about)}),
        should_stop,
    )
    return Run(trainer, models)


def after(n: int) -> Callable[[], bool]:
    """Asks to stop when it is asked for the n-th time."""
    left = [n]

    def asked() -> bool:
        left[0] -= 1
        return left[0] <= 0

    return asked


def log_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "epochs.csv").open() as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


# What it computes ----------------------------------------------------------------------------------------------------


def test_learns():
    torch.manual_seed(0)
    run = prepared(train=waves(16), valid=waves(8, seed=1, name="v"), network=DualTransformer(3, **SIZES), epochs=60,
                   batch_size=16, micro_batch=16)  # fmt: skip
    losses = [s.valid_loss for s in run.steps() if s.ends_epoch]
    # Predicting no noise at all has loss 1, the variance of noise.
    assert losses[-1] is not None
    assert losses[-1] < 0.5 < 0.95 < losses[0]


def test_is_adamw_on_the_mean_loss_of_records_with_clipping_and_a_moving_average():
    """The same steps written out with torch alone."""
    run = prepared(micro_batch=3, weight_decay=0.1, clip_norm=0.5, milestones=(0.5,), decay=0.1)
    network, process, loader = tiny_network(), Diffusion(), run.trainer.train
    optimiser = torch.optim.AdamW(network.parameters(), 1e-2, weight_decay=0.1)
    average: Weights = {}
    step, losses = 0, []
    for epoch in (1, 2, 3):
        for share in loader.epoch(epoch):
            optimiser.param_groups[0]["lr"] = 1e-2 if step < 4.5 else 1e-3
            optimiser.zero_grad()
            tau, noise = draw(share.batch, process)
            errors = squared_errors(network, process, share.batch, tau, noise)
            loss = loss_per_record(errors, share.batch.target_mask).mean()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 0.5)
            optimiser.step()
            step += 1
            losses.append(loss.item())
            now = copied(network)
            decay = min(0.9, step / (9 + step))
            average = {k: decay * average[k] + (1 - decay) * now[k] for k in now} if average else now
    steps = run.steps()
    assert [s.loss for s in steps[:-1]] == pytest.approx(losses, rel=1e-5)
    for name, weights in run.weights().items():
        torch.testing.assert_close(weights, network.state_dict()[name], rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(copied(run.trainer.output_network)[name], average[name], rtol=1e-4, atol=1e-6)


def test_learning_rate_falls_at_the_milestones():
    steps = prepared(epochs=4, milestones=(0.5, 0.75), decay=0.1, learning_rate=1e-3).steps()
    assert [s.learning_rate for s in steps[:-1]] == pytest.approx([1e-3] * 6 + [1e-4] * 3 + [1e-5] * 3)


def test_learning_rate_rises_and_falls_along_a_cosine():
    steps = prepared(epochs=4, schedule="cosine", warmup_steps=3, learning_rate=1e-3).steps()
    expected = [1e-3 * min(1, (i + 1) / 4) * (1 + np.cos(np.pi * i / 12)) / 2 for i in range(12)]
    assert [s.learning_rate for s in steps[:-1]] == pytest.approx(expected)


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
def test_a_number_of_steps_ends_training_within_an_epoch_and_spans_the_schedule(tmp_path: Path, steps: int):
    run = prepared(tmp_path, max_steps=steps, milestones=(), schedule="cosine")  # an epoch is of three steps
    *done, last = run.steps()
    assert [step.step for step in done] == list(range(1, steps + 1))
    assert [step.learning_rate for step in done] == pytest.approx(
        [1e-2 * (1 + np.cos(np.pi * n / steps)) / 2 for n in range(steps)]
    )
    n_epochs = -(-steps // 3)
    assert [step.ends_epoch for step in done] == [n in (3, 6, steps) for n in range(1, steps + 1)]
    assert (last.epoch, last.step, last.stop) == (n_epochs, steps, f"all {steps} steps done")
    assert [row["step"] for row in log_of(tmp_path)] == [str(steps)]  # earlier ends came too soon to be written
    assert equal(run.models["last"][0], copied(run.trainer.output_network))
    assert [step.stop for step in prepared(tmp_path, max_steps=steps, milestones=(), schedule="cosine").steps()] == [
        f"all {steps} steps done"
    ]


def test_a_number_of_steps_is_part_of_what_a_run_is(tmp_path: Path):
    prepared(tmp_path, max_steps=2).steps()
    with pytest.raises(CheckpointError, match=r"max_steps \(2 -> 4\)"):
        prepared(tmp_path, max_steps=4).steps()


@pytest.mark.parametrize("rest", [0.0, 1e6])
def test_a_stopped_run_of_steps_goes_on_bit_for_bit(tmp_path: Path, rest: float, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trainer, "_REST", rest)
    whole = prepared(max_steps=8)
    whole.steps()
    for stop, first in ((2, 1), (3, 3), (100, 6)):
        parts = prepared(tmp_path, max_steps=8, should_stop=after(stop))
        assert parts.steps()[0].step == first
    assert equal(parts.weights(), whole.weights())
    assert equal(parts.models["last"][0], copied(whole.trainer.output_network))


def test_as_many_steps_as_epochs_have_are_the_same_run():
    by_epochs, by_steps = prepared(epochs=2), prepared(max_steps=6)
    assert len(by_epochs.steps()) == len(by_steps.steps())
    assert equal(by_epochs.weights(), by_steps.weights())


@pytest.mark.parametrize("size", [1, 2, 3])
def test_computing_few_records_at_once_changes_last_bits_only(size: int):
    """Gradients, not weights: AdamW turns the last bits of a gradient near 0 into a full step."""
    gradients = []
    for micro_batch in (size, 100):
        trainer = prepared(micro_batch=micro_batch, clip_norm=1e9).trainer
        loss = next(trainer.run()).loss
        gradients.append((loss, [w.grad for w in trainer.network.parameters()]))
    assert gradients[0][0] == pytest.approx(gradients[1][0], rel=1e-5)
    for few, whole in zip(gradients[0][1], gradients[1][1], strict=True):
        torch.testing.assert_close(few, whole, rtol=1e-4, atol=1e-6)


def test_mixed_precision_keeps_weights_in_single_precision_and_losses_close():
    exact, mixed = prepared(), prepared(precision="bf16-mixed")
    losses = [s.loss for s in mixed.steps()[:-1]]
    assert losses == pytest.approx([s.loss for s in exact.steps()[:-1]], rel=0.05)
    assert losses != [s.loss for s in exact.steps()[:-1]]
    assert {w.dtype for w in mixed.weights().values()} == {torch.float32}


def test_steps_and_epochs_are_counted_from_1_and_the_end_is_said_once():
    steps = prepared().steps()
    assert [(s.epoch, s.step) for s in steps[:-1]] == [(e, 3 * (e - 1) + i) for e in (1, 2, 3) for i in (1, 2, 3)]
    assert [s.ends_epoch for s in steps[:-1]] == [False, False, True] * 3
    assert {s.n_steps for s in steps} == {9}
    assert [s.stop for s in steps] == [None] * 9 + ["all 3 epochs done"]
    assert (steps[-1].epoch, steps[-1].step) == (3, 9)


def test_what_is_kept(tmp_path: Path):
    run = prepared(tmp_path, keep_epochs=(1, 3))
    ends = [s for s in run.steps() if s.ends_epoch]
    best = min(ends, key=lambda s: s.valid_loss)
    assert set(run.models) == {"last", "best", "epoch-0001", "epoch-0003"}
    assert equal(run.models["last"][0], copied(run.trainer.output_network))
    assert equal(run.models["epoch-0003"][0], run.models["last"][0])
    assert run.models["best"][1]["epoch"] == best.epoch
    assert run.models["epoch-0001"][1] == {
        "epoch": 1,
        "step": 3,
        "train_loss": ends[0].train_loss,
        "valid_loss": ends[0].valid_loss,
    }
    rows = log_of(tmp_path)
    assert [int(r["epoch"]) for r in rows] == [1, 2, 3]
    assert [float(r["valid_loss"]) for r in rows] == [s.valid_loss for s in ends]
    assert float(rows[0]["train_loss"]) == pytest.approx(sum(s.loss for s in prepared().steps()[:3]) / 3)


def test_validation_is_the_same_for_the_same_weights_and_uses_the_kept_ones():
    run = prepared(ema=0.5)
    last = [s for s in run.steps() if s.ends_epoch][-1]
    trainer = run.trainer
    assert trainer.valid is not None
    torch.rand(5)
    assert trainer._validate(trainer.valid) == last.valid_loss
    losses = []
    for share in trainer.valid.fixed():
        tau, noise = draw(share.batch, trainer.process)
        with torch.no_grad():
            errors = squared_errors(trainer.output_network, trainer.process, share.batch, tau, noise)  # type: ignore[arg-type]
        losses += loss_per_record(errors, share.batch.target_mask).tolist()
    assert last.valid_loss == pytest.approx(np.mean(losses))


@pytest.mark.parametrize(
    ("n", "k", "length"), [(1, 3, 8), (4, 1, 8), (4, 3, 1), (1, 1, 1)], ids=["record", "feature", "step", "cell"]
)
def test_one_of_anything(n: int, k: int, length: int):
    batch = random_batch(n, k, length)
    values = np.where(batch.observed, batch.values.double(), np.nan)
    windows = Windows(values, batch.times.numpy(), TRAIN.features[:k], batch.record_ids)
    steps = prepared(train=windows, valid=None, epochs=2).steps()
    assert all(np.isfinite(s.loss) and s.loss > 0 for s in steps[:-1])
    assert steps[-1].stop == "all 2 epochs done"


def test_a_batch_without_targets_has_no_loss_and_moves_no_weight():
    run = prepared(policy=lambda observed, rng: observed, weight_decay=0.0, valid=None)
    before = run.weights()
    assert [s.loss for s in run.steps()[:-1]] == [0.0] * 9
    assert equal(run.weights(), before)


# Going on ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    folder = tmp_path_factory.mktemp("uninterrupted")
    run = prepared(folder)
    run.steps()
    return run, folder


@pytest.mark.parametrize("stops", [(1,), (4,), (3,), (2, 3, 1), (9,)], ids=str)
def test_a_stopped_run_goes_on_bit_for_bit(tmp_path: Path, uninterrupted: tuple[Run, Path], stops: tuple[int, ...]):
    done = 0
    for n in stops:
        part = prepared(tmp_path, should_stop=after(n))
        first, *_, last = part.steps()
        assert first.step == done + 1
        done = last.step
        assert last.stop == ("all 3 epochs done" if n == 9 else "asked to stop; the same command goes on from here")
        assert last.epoch == last.step // 3
    run = prepared(tmp_path)
    assert run.steps()[0].step == min(done + 1, 9)
    whole, folder = uninterrupted
    assert equal(run.weights(), whole.weights())
    assert equal(copied(run.trainer.output_network), copied(whole.trainer.output_network))
    assert log_of(tmp_path) == log_of(folder)
    assert run.trainer.at.best_epoch == whole.trainer.at.best_epoch
    if 9 not in stops:
        assert equal(run.models["last"][0], whole.models["last"][0])


def test_with_dropout_a_stopped_run_goes_on_bit_for_bit_and_validates_without(tmp_path: Path):
    """Whatever torch's own generator stands at, and with parts of a batch in threads."""
    runs = []
    for name, stops in (("whole", (100,)), ("stopped", (2, 100))):
        for n in stops:
            torch.manual_seed(n)
            run = prepared(tmp_path / name, network=tiny_network(dropout=0.3), micro_batch=1, should_stop=after(n))
            run.steps()
        runs.append(run)
    whole, stopped = runs
    assert equal(stopped.weights(), whole.weights())
    assert log_of(tmp_path / "stopped") == log_of(tmp_path / "whole")
    plain = prepared(micro_batch=1)
    plain.steps()
    assert not equal(plain.weights(), whole.weights())
    network = whole.trainer.output_network
    for seed in (0, 1):
        torch.manual_seed(seed)
        assert whole.trainer._validate(whole.trainer.valid) == float(log_of(tmp_path / "whole")[-1]["valid_loss"])
    assert not network.training


def test_a_finished_run_has_nothing_to_do(tmp_path: Path):
    prepared(tmp_path, epochs=1).steps()
    again = prepared(tmp_path, epochs=1)
    steps = again.steps()
    assert [(s.epoch, s.step, s.stop) for s in steps] == [(1, 3, "all 1 epochs done")]
    assert again.models == {}


SCRIPT = """
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
sys.path[:0] = [{tests!r}, str(Path({tests!r}).parent)]
from test_trainer import prepared
for step in prepared(Path(sys.argv[1]), checkpoint_minutes=0.0, epochs=20).trainer.run():
    print(step.step, flush=True)
"""


def test_a_killed_run_goes_on_bit_for_bit(tmp_path: Path):
    """SIGKILL at a random moment, while a state is written after each step."""
    script, folder = tmp_path / "script.py", tmp_path / "run"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parent)))
    process = subprocess.Popen([sys.executable, str(script), str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    wait = random.Random()  # any moment must do
    for _ in range(wait.randint(1, 12)):
        process.stdout.readline()
    time.sleep(wait.uniform(0, 0.02))
    process.send_signal(signal.SIGKILL)
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL
    done = read_state(folder / "state.pt")["step"]
    assert 1 <= done < 60

    run = prepared(folder, checkpoint_minutes=0.0, epochs=20)
    assert run.steps()[0].step == done + 1
    whole = prepared(tmp_path / "whole", epochs=20)
    whole.steps()
    assert equal(run.weights(), whole.weights())
    assert equal(copied(run.trainer.output_network), copied(whole.trainer.output_network))
    assert log_of(folder) == log_of(tmp_path / "whole")
    assert sorted(p.name for p in folder.iterdir()) == [".lock", "epochs.csv", "state.pt"]


def test_the_log_of_epochs_is_written_whole_and_rows_of_a_lost_future_are_replaced(tmp_path: Path):
    prepared(tmp_path, should_stop=after(4)).steps()
    with (tmp_path / "epochs.csv").open("a") as file:
        file.write("2,6,0.1,0.1,0.01,1.0\nhalf a li")
    prepared(tmp_path).steps()
    assert [r["epoch"] for r in log_of(tmp_path)] == ["1", "2", "3"]
    assert log_of(tmp_path)[1]["train_loss"] != "0.1"

    class Full:
        def __str__(self) -> str:
            raise OSError("no space left")

    whole = log_of(tmp_path)
    with pytest.raises(OSError, match="no space left"):
        log_epoch(tmp_path / "epochs.csv", [2, cast(Any, Full())])
    assert log_of(tmp_path) == whole


def test_leavings_of_a_killed_process_are_removed(tmp_path: Path):
    (tmp_path / ".state.pt.partial77").write_text("half")
    prepared(tmp_path, epochs=1).steps()
    assert sorted(p.name for p in tmp_path.iterdir()) == [".lock", "epochs.csv", "state.pt"]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"learning_rate": 0.02}, r"learning_rate \(0\.01 -> 0\.02\)"),
        ({"batch_size": 2, "seed": 5}, r"batch_size \(3 -> 2\), seed \(0 -> 5\)"),
        ({"ema": None}, r"ema \(0\.9 -> None\)"),
        ({"train": TRAIN.select(slice(0, 6))}, r"records \(7 -> 6\)"),
        ({"network": tiny_network(width=16)}, "does not fit the network"),
        ({"network": tiny_network(n_blocks=2)}, "does not fit the network"),
    ],
)
def test_other_settings_do_not_go_on(tmp_path: Path, changed: dict[str, Any], says: str):
    prepared(tmp_path, epochs=2, should_stop=after(1)).steps()
    with pytest.raises(CheckpointError, match=says):
        prepared(tmp_path, **({"epochs": 2} | changed)).steps()


def test_a_state_of_before_a_setting_was_there_goes_on_with_its_default_alone(tmp_path: Path):
    prepared(tmp_path, epochs=2, should_stop=after(1)).steps()
    state = read_state(tmp_path / "state.pt")
    del state["settings"]["masks_per_record"]
    write_state(tmp_path / "state.pt", state)
    with pytest.raises(CheckpointError, match="masks_per_record"):
        prepared(tmp_path, epochs=2, masks_per_record=9).steps()
    prepared(tmp_path, epochs=2).steps()


@pytest.mark.parametrize(
    "changed", [{"patience": 5}, {"keep_epochs": (1,)}, {"max_minutes": 1e6}, {"checkpoint_minutes": 0.0}], ids=str
)
def test_settings_that_do_not_touch_the_weights_may_change(
    tmp_path: Path, changed: dict[str, Any], uninterrupted: tuple[Run, Path]
):
    prepared(tmp_path, should_stop=after(4)).steps()
    run = prepared(tmp_path, **changed)
    run.steps()
    assert equal(run.weights(), uninterrupted[0].weights())


def test_a_damaged_state_is_refused_in_one_sentence(tmp_path: Path):
    prepared(tmp_path, epochs=1).steps()
    path = tmp_path / "state.pt"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="Delete it to start anew") as error:
        prepared(tmp_path, epochs=1).steps()
    assert "\n" not in str(error.value)
    torch.save({"step": 1}, path)
    with pytest.raises(CheckpointError, match="came something else"):
        prepared(tmp_path, epochs=1).steps()


# Stopping ------------------------------------------------------------------------------------------------------------


class Scripted(Trainer):
    """A trainer whose validation losses are given."""

    losses = (3.0, 2.0, 2.5, 2.4, 1.0)

    def _validate(self, valid: Loader) -> float:
        return self.losses[self.at.epoch - 1]


def test_patience_stops_and_keeps_the_best_also_when_started_again(tmp_path: Path):
    run = prepared(tmp_path, kind=Scripted, epochs=5, patience=2, keep_epochs=(2,))
    steps = run.steps()
    assert steps[-1].stop == "no better validation loss for 2 epochs; the best was epoch 2"
    assert steps[-1].epoch == 4
    assert run.models["best"][1]["epoch"] == 2
    assert equal(run.models["best"][0], run.models["epoch-0002"][0])
    again = prepared(tmp_path, kind=Scripted, epochs=5, patience=2)
    assert [s.stop for s in again.steps()] == [steps[-1].stop]
    assert equal(again.weights(), run.weights())


def test_without_patience_training_goes_on_and_the_last_weights_are_the_last(tmp_path: Path):
    run = prepared(tmp_path, kind=Scripted, epochs=4)
    assert run.steps()[-1].stop == "all 4 epochs done"
    assert equal(run.models["last"][0], copied(run.trainer.output_network))
    assert run.models["last"][1]["epoch"] == 4


def test_patience_without_validation_records_is_refused():
    with pytest.raises(ConfigError, match=r"patience.*no validation records"):
        prepared(valid=None, patience=2)


def test_a_time_limit_stops_and_the_next_call_goes_on(tmp_path: Path, uninterrupted: tuple[Run, Path]):
    steps = prepared(tmp_path, max_minutes=1e-9).steps()
    assert len(steps) == 2
    assert steps[-1].stop == "time limit of 1e-09 minutes reached; the same command goes on from here"
    for _ in range(7):
        assert "time limit" in (prepared(tmp_path, max_minutes=1e-9).steps()[-1].stop or "")
    last = prepared(tmp_path, max_minutes=1e-9)
    # The last step ends the run: there is nothing to go on with.
    assert last.steps()[-1].stop == "all 3 epochs done"
    assert equal(last.weights(), uninterrupted[0].weights())


@pytest.mark.parametrize("ema", [None, 0.9])
@pytest.mark.parametrize("backbone", [DualTransformer, PresentCells])
def test_a_loss_that_is_not_finite_names_record_and_feature_and_keeps_the_weights_before(
    ema: float | None, backbone: type[nn.Module]
):
    run = prepared(ema=ema, network=backbone(3, **SIZES))
    good: Weights = {}
    with pytest.raises(TrainingError, match=r"epoch 2: .*record 'r4', feature 'Temp' \(.*1e\+30\)"):  # noqa: PT012
        for step in run.trainer.run():
            good = copied(run.trainer.output_network)
            if step.step == 3:
                run.trainer.train.values[4, 1][TRAIN.observed[4, 1]] = 1e30
    assert equal(run.models["last"][0], good)
    assert run.models["last"][1]["epoch"] == 1
    assert all(w.isfinite().all() for w in run.models["last"][0].values())


def test_a_validation_loss_that_is_not_finite_names_record_and_feature():
    run = prepared()
    assert run.trainer.valid is not None
    run.trainer.valid.values[1, 2][VALID.observed[1, 2]] = 1e30
    with pytest.raises(TrainingError, match="validation loss is not finite at record 'v1', feature 'Urine'"):
        run.steps()


class Steep(DualTransformer):
    """A network with a finite output whose gradient is not."""

    def forward(self, *args: Any) -> torch.Tensor:
        return super().forward(*args) + (self.leave.bias * 0).abs().sqrt()


def test_a_gradient_that_is_not_finite_stops_before_the_step():
    run = prepared(network=Steep(3, **SIZES))
    before = run.weights()
    with pytest.raises(TrainingError, match=r"gradient of step 1 is not finite \(records r\d, r\d, r\d\)"):
        run.steps()
    assert equal(run.weights(), before)
    assert equal(run.models["last"][0], before)


# Several processes ---------------------------------------------------------------------------------------------------

TWO_PROCESSES = """
import json, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
sys.path[:0] = [{tests!r}, str(Path({tests!r}).parent)]
from test_trainer import after, copied, prepared
from tsimpute.errors import TrainingError

out, said = Path(sys.argv[1]), {{}}
run = prepared(out / "run", devices=2, learning_rate=1e-3)
steps = run.steps()
rank = run.trainer.fabric.global_rank
said["losses"] = [s.loss for s in steps[:-1]]
said["valid"] = [s.valid_loss for s in steps if s.ends_epoch]
said["world"], said["models"] = run.trainer.fabric.world_size, sorted(run.models)
torch.save(copied(run.trainer.network), out / f"weights{{rank}}.pt")

# Only the first process is asked to stop; both do.
said["stop"] = [s.stop for s in prepared(devices=2, should_stop=after(2) if rank == 0 else (lambda: False)).steps()]

# One process meets a loss that is not finite; both stop, and both can say where.
bad = prepared(devices=2)
bad.trainer.train.values[4, 1][bad.trainer.train.visible[4, 1]] = 1e30
try:
    bad.steps()
except TrainingError as error:
    said["error"] = str(error)
(out / f"said{{rank}}.json").write_text(json.dumps(said))
"""


def decided(name: str, weights: torch.Tensor) -> torch.Tensor:
    """The weights without the bias of attention keys: no loss depends on it, so AdamW follows rounding errors there."""
    return torch.cat([weights[:8], weights[16:]]) if name.endswith("qkv.bias") else weights


def test_two_processes_give_the_weights_of_one(tmp_path: Path):
    """Batches of 3, 3 and 1 records: a process has two, one or none of them."""
    script = tmp_path / "script.py"
    script.write_text(TWO_PROCESSES.format(tests=str(Path(__file__).parent)))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    said = [json.loads((tmp_path / f"said{rank}.json").read_text()) for rank in (0, 1)]
    assert [s["world"] for s in said] == [2, 2]
    assert (said[0]["models"], said[1]["models"]) == (["best", "last"], [])

    whole = prepared(learning_rate=1e-3)
    steps = whole.steps()
    for rank in (0, 1):
        weights = torch.load(tmp_path / f"weights{rank}.pt", weights_only=True)
        for name, expected in whole.weights().items():
            torch.testing.assert_close(decided(name, weights[name]), decided(name, expected), rtol=0, atol=1e-6)
        assert said[rank]["valid"] == pytest.approx([s.valid_loss for s in steps if s.ends_epoch], rel=1e-5)
        assert said[rank]["losses"] == pytest.approx([s.loss for s in steps[:-1]], rel=1e-5)
        assert said[rank]["stop"] == [None, None, "asked to stop; the same command goes on from here"]
        assert "record 'r4', feature 'Temp'" in said[rank]["error"]
