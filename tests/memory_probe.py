"""Run as a program: prints, as JSON, by how many MiB the memory of this process grew at its peak during pieces of work.

Linux only. A process of its own, so that what other tests left in memory does not hide or blur a peak.
"""

from __future__ import annotations

import ctypes
import gc
import json
import resource
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tiny_models import waves
from torch import Tensor, nn

from tsimpute.backbones.base import VectorField
from tsimpute.config import registry
from tsimpute.config.settings import NetworkConfig, SamplingConfig, TrainingConfig
from tsimpute.core.containers import Condition
from tsimpute.core.windows import Samples, Windows
from tsimpute.evaluation.evaluate import evaluate
from tsimpute.generative import sampling
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.tables.sources.records import write_table
from tsimpute.testing._records import random_condition, shaken

TINY = {"width": 8, "n_heads": 1, "n_blocks": 1, "width_time": 8, "width_feature": 4, "width_tau": 8}
WIDER = TINY | {"width": 32, "n_heads": 4, "n_blocks": 3}


class Nothing(nn.Module):
    """A network that costs neither time nor memory: what is measured is what draws are kept in."""

    def condition_on(self, condition: Condition) -> VectorField:
        return lambda state, tau: torch.zeros(()).expand_as(state)

    def bytes_per_row(self, condition: Condition) -> int:
        return 2**24  # four draws at once

    def bytes_once(self, condition: Condition) -> int:
        return 0


def status(name: str) -> float:
    text = Path("/proc/self/status").read_text().split(f"{name}:")[1]
    return int(text.split()[0]) / 1024


def growth(work: Callable[[], object], n_readings: int = 3) -> float:
    """MiB that ``work`` needed at its peak beyond what the process held before: the median of some readings.

    A single one can be off by tens of MiB, to both sides: the system takes idle pages back while the work runs, or has
    taken them before and the work fetches them again.
    """
    return statistics.median(_one_reading(work) for _ in range(n_readings))


def _one_reading(work: Callable[[], object]) -> float:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # freed memory that the allocator keeps would serve the work unseen
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak
    work()
    return status("VmHWM") - before


def imputer() -> GenerativeImputer:
    made = GenerativeImputer(
        network=NetworkConfig(options=TINY),
        training=TrainingConfig(epochs=1),
        sampling=SamplingConfig(n_steps=1),
    ).fit(waves(2))
    made.model_.network = Nothing()
    return made


def records(n: int) -> Windows:
    """n records of 3 x 800 cells, a tenth of the observed ones held out."""
    windows = waves(n, 800)
    held_out = windows.observed & (np.random.default_rng(0).random(windows.values.shape) < 0.1)
    return replace(windows, held_out=held_out)


def of_streaming() -> dict[str, dict[str, float]]:
    """What ways of using an imputer need, for few and many draws and records."""
    model = imputer()
    folder = Path(tempfile.mkdtemp())

    def quantiles(windows: Windows, s: int) -> None:
        for samples in model.impute_records(windows, s):
            samples.quantile([0.05, 0.5, 0.95])

    def table(windows: Windows, s: int) -> None:
        write_table(model.impute_records(windows, s), windows, folder / "table.csv", force=True)

    def scores(windows: Windows, s: int) -> None:
        evaluate(model, windows, n_samples=s, fill="missing", keep_samples=folder / "kept.npz")

    def all_at_once(windows: Windows, s: int) -> Samples:
        return model.impute(windows, s)

    out = {}
    few, many = records(8), records(40)
    sizes = {"few_draws": (few, 8), "few_records": (few, 128), "many_records": (many, 128)}
    for way in (quantiles, table, scores, all_at_once):
        way(records(1), 2)  # what is set up at the first use does not count
        out[way.__name__] = {name: growth(partial(way, *size)) for name, size in sizes.items()}
    return out


def of_networks() -> list[dict[str, Any]]:
    """What drawing for one record needs, what that was estimated to be, and the budget."""
    process, solver = registry.make("processes", "flow_matching"), registry.make("solvers", "one_step")
    out = []
    names = ("context_cells", "dual_transformer", "present_cells")
    for k, length, memory_mib, n_samples, options in (
        (35, 48, 40, 10, WIDER), (370, 48, 50, 4, TINY), (12, 5000, 100, 2, TINY)
    ):  # fmt: skip
        for name in names:
            network = shaken(registry.make("backbones", name, n_features=k, **options))
            draw = partial(sampling.sample, network, process, solver, n_samples=n_samples, n_steps=1, seeds=[0])
            draw(random_condition(1, k, 4), rows_at_once=1)  # what is set up at the first use does not count
            record = random_condition(1, k, length)
            rows = min(sampling.rows_within(memory_mib, network, record), n_samples)
            out.append({
                "backbone": name, "shape": (k, length), "memory_mib": memory_mib, "rows": rows,
                "estimate": (rows * network.bytes_per_row(record) + network.bytes_once(record)) / 2**20,
                "growth": growth(partial(draw, record, memory_mib=memory_mib)),
            })  # fmt: skip
    return out


class Quick(Nothing):
    def bytes_per_row(self, condition: Condition) -> int:
        return 1


def of_long_records() -> dict[int, float]:
    """What filling one record needs beyond it, by its steps; pieces are some 40 thousand steps long."""
    model = imputer()
    clock = replace(model.model_.clock, n_steps=64)
    model.model_ = replace(model.model_, network=Quick(), base_name="linear", clock=clock)
    model.sampling = replace(model.sampling, memory_mib=8)

    def fill(record: Windows) -> None:
        for _ in model.impute_long(record, 2):
            pass

    fill(waves(1, 1000))  # what is set up at the first use does not count
    return {n_steps: growth(partial(fill, waves(1, n_steps))) for n_steps in (100_000, 400_000)}


def with_little_memory(mib: int) -> dict[str, Any]:
    """Draws of a process that the system gives only ``mib`` more: rows of each try, and how far off the numbers are."""
    network = registry.make("backbones", "dual_transformer", n_features=12, **(TINY | {"width": 16}))
    process, solver = registry.make("processes", "flow_matching"), registry.make("solvers", "one_step")
    draw = partial(sampling.sample, shaken(network), process, solver, random_condition(1, 12, 40),
                   n_samples=600, n_steps=2, seeds=[1])  # fmt: skip
    expected = draw(rows_at_once=7)
    tried: list[int] = []
    solved = sampling._solved

    def noted(*arguments: Any) -> Tensor:
        tried.append(len(arguments[-1]))
        return solved(*arguments)

    sampling._solved = noted
    ctypes.CDLL(None).malloc_trim(0)
    resource.setrlimit(resource.RLIMIT_AS, (int((status("VmSize") + mib) * 2**20),) * 2)
    return {"tried": tried, "off": float((draw(rows_at_once=600) - expected).abs().max())}


if __name__ == "__main__":
    torch.set_num_threads(1)
    readings = {"networks": of_networks(), "streaming": of_streaming(), "long": of_long_records()}
    readings |= {"little": with_little_memory(100)}
    json.dump(readings, sys.stdout, indent=1)
