"""Trains networks with everything on one GPU: records, masks and base estimates; a step is one CUDA graph.

The loop of ``tsimpute train`` prepares each batch on the CPU, which takes longer than a GPU needs for the step. Here
the records stay on the GPU, masks are drawn there, the posteriors of a Gaussian process are computed there for a pool
of masks, and several trainings replay their captured steps in turn. The number of steps is what fits into the time.

Usage: python scripts/gpu/train.py JOBS.json OUT [--seconds N] [--device cuda|cpu] [--compile]

``JOBS.json`` is a list of ``Job`` settings; each names a file of ``prepare.py``. OUT gets, for each job, ``NAME.npz``
with the averaged weights along the way and ``NAME.csv`` with its losses; ``convert.py`` makes model files of them.
"""

from __future__ import annotations

import argparse
import copy
import csv
import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from compiled import compile_parts
from loss import Levels, batch_loss
from records import residents
from torch import Tensor

from tsimpute.backbones.context_grid import ContextGrid
from tsimpute.config.registry import make

WARM_UP, TIMED = 3, 100
"""Steps before a graph is captured, and to see how long a step takes."""


@dataclass(frozen=True)
class Job:
    """One training.

    Attributes:
        name: of its files.
        data: file of ``prepare_gpu_data.py``, beside the list of jobs.
        process, process_options, network: as in a run's config.
        mask_policy: "random" or "mix".
        masks_per_record: size of the pool where there is a Gaussian process.
        steps: at most.
        batch_size, learning_rate, weight_decay, warmup_steps, clip_norm, ema: see ``TrainingConfig``.
        query_from, query_unobserved: see ``TrainingConfig``; without a base estimate only.
        keep: shares of the training after which weights are kept.
        seed: of everything drawn.
        precision: "float32" or "bfloat16".
        rounds: in every so many-th round of steps this job makes one; 1 = in each.
    """

    name: str
    data: str
    process: str = "flow_matching"
    process_options: dict[str, Any] = field(default_factory=dict)
    network: dict[str, Any] = field(default_factory=dict)
    mask_policy: str = "mix"
    masks_per_record: int = 32
    steps: int = 60_000
    batch_size: int = 16
    learning_rate: float = 1e-3
    weight_decay: float = 1e-6
    warmup_steps: int = 100
    clip_norm: float = 2.0
    ema: float = 0.999
    query_from: float = 0.75
    query_unobserved: float = 0.0
    keep: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
    seed: int = 0
    precision: str = "float32"
    rounds: int = 1


class Training:
    """One job: its network, its records, and its step, captured where there is a GPU."""

    def __init__(self, job: Job, folder: Path, out: Path, device: torch.device) -> None:
        started = time.monotonic()
        self.job, self.out, self.device = job, out, device
        self.records, self.valid, with_spread = residents(
            folder / job.data, job.mask_policy, job.masks_per_record, device
        )
        process = make("processes", job.process, **job.process_options)
        self.levels = Levels(process, device)
        torch.manual_seed(job.seed)
        options = {"max_frequency": process.tau_frequency, "with_spread": with_spread} | job.network
        self.network = ContextGrid(self.records.values.shape[1], **options).to(device)
        self.average = copy.deepcopy(self.network).requires_grad_(False).eval()
        self.weights, self.averaged = list(self.network.parameters()), list(self.average.parameters())
        self.initial = [w.detach().clone() for w in self.weights]
        self.rate = torch.zeros((), device=device)
        on_gpu = device.type == "cuda"
        self.optimiser = torch.optim.AdamW(
            self.weights, self.rate, weight_decay=job.weight_decay, capturable=on_gpu, fused=on_gpu
        )
        self.counter = torch.zeros(1, dtype=torch.int64, device=device)
        self.summed = torch.zeros((), dtype=torch.float64, device=device)
        self.order = self._order()
        self.rates, self.keeping = (torch.zeros(job.steps, device=device) for _ in range(2))
        self.n_steps = self.done = 0
        self.kept: dict[str, np.ndarray] = {}
        self.rows: list[list[float]] = []
        self.stream = torch.cuda.Stream() if device.type == "cuda" else None
        self.plain, self.asking = self._captured(asks=False), None
        if job.query_unobserved:
            self.asking = self._captured(asks=True)
        self._reset()
        print(f"{job.name}: ready after {time.monotonic() - started:.1f} s", flush=True)

    def _order(self) -> Tensor:
        """(steps, B) records: each epoch goes through all in a new order."""
        size = self.job.batch_size
        generator = torch.Generator().manual_seed(self.job.seed)
        usable = self.records.visible.flatten(1).any(1).cpu().nonzero()[:, 0]
        epochs = -(-self.job.steps * size // len(usable))
        order = torch.cat([usable[torch.randperm(len(usable), generator=generator)] for _ in range(epochs)])
        return order[: self.job.steps * size].view(self.job.steps, size).to(self.device)

    def plan(self, n_steps: int) -> None:
        """Sets the learning rate and the average of each step for a training of that many."""
        self.n_steps, job = min(n_steps, self.job.steps), self.job
        step = np.arange(self.n_steps)
        rise = np.minimum(1.0, (step + 1) / (job.warmup_steps + 1))
        rates = job.learning_rate * rise * (1 + np.cos(np.pi * step / self.n_steps)) / 2
        weight = 1 - np.minimum(job.ema, (2 + step) / (11 + step))
        for tensor, array in ((self.rates, rates), (self.keeping, weight)):
            tensor[: self.n_steps] = torch.from_numpy(array).to(tensor)

    def step(self) -> None:
        asks = self.asking is not None and self.done >= self.job.query_from * self.n_steps > 0
        run = self.asking if asks else self.plain
        with torch.cuda.stream(self.stream) if self.stream else nullcontext():
            run()  # type: ignore[misc]
        self.done += 1

    def _step(self, asks: bool) -> None:
        job, device = self.job, self.device
        index = self.order.index_select(0, self.counter)[0]
        size = len(index)
        masks = torch.randint(job.masks_per_record, (size,), device=device)
        # One process time in each of B equal parts of the unit interval.
        uniform = (torch.rand(size, dtype=torch.float64, device=device) + torch.arange(size, device=device)) / size
        noise = torch.randn(size, *self.records.values.shape[1:], device=device)
        ask = torch.rand(size, device=device) < job.query_unobserved if asks else None
        with self._autocast():
            loss = batch_loss(self.network, self.levels, self.records, index, masks, uniform, noise, ask)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights, job.clip_norm, foreach=True)
        self.rate.copy_(self.rates.index_select(0, self.counter)[0])
        self.optimiser.step()
        away = torch._foreach_sub(self.weights, self.averaged)
        torch._foreach_mul_(away, self.keeping.index_select(0, self.counter)[0])
        torch._foreach_add_(self.averaged, away)
        self.summed.add_(loss.detach().double())
        self.counter.add_(1)

    def _autocast(self) -> Any:
        if self.job.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16, cache_enabled=False)

    def _captured(self, asks: bool) -> Callable[[], None]:
        if self.stream is None:
            return lambda: self._step(asks)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(WARM_UP):
                self._step(asks)
        torch.cuda.current_stream().wait_stream(self.stream)
        torch.cuda.synchronize()
        self.optimiser.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self._step(asks)
        return graph.replay

    @torch.no_grad()
    def _reset(self) -> None:
        """As if no step had been made."""
        for of in (self.weights, self.averaged):
            torch._foreach_copy_(of, self.initial)
        for state in self.optimiser.state.values():
            for tensor in state.values():
                tensor.zero_()
        self.counter.zero_()
        self.summed.zero_()
        self.done = 0

    @torch.no_grad()
    def note(self, seconds: float) -> None:
        """Writes the losses so far, and keeps the averaged weights."""
        if self.stream:
            torch.cuda.synchronize()
        since = self.rows[-1][0] if self.rows else 0
        loss = float(self.summed) / max(1, self.done - since)
        self.summed.zero_()
        self.rows.append([self.done, seconds, loss, self._validate()])
        state = self.average.state_dict()
        self.kept |= {f"{self.done}/{name}": w.cpu().numpy() for name, w in state.items()}
        np.savez(self.out / f"{self.job.name}.npz", job=json.dumps(asdict(self.job)), **self.kept)
        with (self.out / f"{self.job.name}.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(
                [["step", "seconds", "train_loss", "valid_loss"], *self.rows]
            )

    def _validate(self) -> float:
        """The loss of the averaged weights on validation records with fixed masks, times and noise."""
        device, losses, sizes = self.device, [], []
        generator = torch.Generator(device).manual_seed(1)
        shown = self.valid.visible.flatten(1).any(1).nonzero()[:, 0]
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(1)
            for index in shown.split(128):
                uniform = torch.rand(len(index), dtype=torch.float64, device=device, generator=generator)
                noise = torch.randn(len(index), *self.valid.values.shape[1:], device=device, generator=generator)
                masks = torch.randint(self.valid.n_masks, (len(index),), device=device, generator=generator)
                losses.append(batch_loss(self.average, self.levels, self.valid, index, masks, uniform, noise))
                sizes.append(len(index))
        return sum(float(x) * n for x, n in zip(losses, sizes, strict=True)) / sum(sizes)


def run(jobs: list[Job], folder: Path, out: Path, seconds: float, device: torch.device) -> None:
    """All jobs side by side, within the time."""
    started = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    trainings = [Training(job, folder, out, device) for job in jobs]
    for training in trainings:
        training.plan(training.job.steps)

    def rounds(first: int, last: int) -> float:
        begun = time.monotonic()
        for n in range(first, last):
            for training in trainings:
                if n % training.job.rounds == 0:
                    training.step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return (time.monotonic() - begun) / (last - first)

    timed = TIMED if device.type == "cuda" else 2
    took = rounds(0, timed)
    for training in trainings:
        training._reset()
    asking = sum((1 - job.query_from) / job.rounds for job in jobs if job.query_unobserved)
    costly = 1 + asking / sum(1 / job.rounds for job in jobs)
    left = seconds - (time.monotonic() - started) - 10
    n_rounds = max(timed, min(max(job.steps * job.rounds for job in jobs), int(0.93 * left / took / costly)))
    print(f"{1000 * took:.2f} ms for a round of {len(jobs)} jobs: {n_rounds} rounds", flush=True)
    for training in trainings:
        training.plan(-(-n_rounds // training.job.rounds))
    done, begun = 0, time.monotonic()
    for share in jobs[0].keep:
        mark = round(share * n_rounds)
        if mark <= done:
            continue
        rounds(done, mark)
        done = mark
        for training in trainings:
            training.note(time.monotonic() - begun)
            print(training.job.name, *(f"{x:.4f}" for x in training.rows[-1]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("jobs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--compile", action="store_true")
    asked = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    if asked.compile:
        compile_parts()
    jobs = [Job(**one) for one in json.loads(asked.jobs.read_text())]
    run(jobs, asked.jobs.parent, asked.out, asked.seconds, torch.device(asked.device))


if __name__ == "__main__":
    main()
