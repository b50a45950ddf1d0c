"""Measures training steps, forward passes and imputations of all variants in one alternating run.

    python benchmarks/speed.py             # everything, under 10 minutes; TSIMPUTE_DATA names the folder of the data
    python benchmarks/speed.py --quick     # generated data and tiny numbers: does it run?

Another variant is another line in ``variants``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from preparing import prepare

from tsimpute.config.registry import available
from tsimpute.errors import TsimputeError
from tsimpute.system.files import atomic_write

HERE = Path(__file__).parent
PYPOTS = HERE / "peers" / ".venv" / "bin" / "python"
REFERENCE = "reference"


@dataclass(frozen=True)
class Variant:
    """One line of the comparison.

    Attributes:
        name: in the results.
        script: of its worker.
        python: its interpreter.
        options: for the package's worker: network, process, training and sampling (fields of ``TrainingConfig`` and
            ``SamplingConfig`` that differ from those shipped), draws (measured; the others count as much), all_records
            (to impute, instead of one of typical size that stands for them).
        works: beginnings of the names of the works that it takes part in.
    """

    name: str
    script: str = "worker_package.py"
    python: Path = Path(sys.executable)
    options: dict[str, Any] = field(default_factory=dict)
    works: tuple[str, ...] = ("train_step", "forward", "impute")


def variants() -> list[Variant]:
    """The reference, the peer, and every backbone of the package with the package's default sampler."""
    # Fewer draws are measured where they are slow, so that all fits into minutes; training as in the shipped configs.
    special = {name: {"training": {"micro_batch": 8}} for name in ("context_cells", "present_cells")}
    special["context_cells"]["all_records"] = True
    special["dual_transformer"] = {"draws": 32}
    ancestral = {"network": "dual_transformer", "process": "diffusion", "draws": 8}
    two = special["context_cells"] | {"network": "context_cells", "sampling": {"n_steps": 2}}
    return [
        Variant(REFERENCE, "worker_reference.py"),
        Variant("pypots", "peers/worker_pypots.py", PYPOTS),
        *(Variant(name, options={"network": name} | special.get(name, {})) for name in available("backbones")),
        Variant("context_cells, 2 evaluations", options=two, works=("impute",)),
        Variant("dual_transformer, 50 ancestral steps", options=ancestral, works=("impute",)),
    ]


class Worker:
    """A process that runs pieces of work of one variant, each when asked to."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        # PyPOTS writes a file into the home folder when it is imported: not into the user's.
        home = {} if variant.python != PYPOTS else {"HOME": str(PYPOTS.parent.parent)}
        self.process = subprocess.Popen(
            [str(variant.python), str(HERE / variant.script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(HERE)} | home,
        )

    @cached_property
    def versions(self) -> dict[str, Any]:
        """What it imported; waits until it has."""
        return self._answer()

    def run(self, **request: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request | {"options": self.variant.options}) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        self.process.communicate()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": f"the worker of {self.variant.name} has ended"}


def main(arguments: Sequence[str] | None = None) -> int:
    asked = parse(arguments)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        turns = prepared_turns(asked, Path(folder))
        workers = started_workers(asked.variants)
        answers: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
        longest = 0.0
        for turn in range(asked.rounds + 1):
            begun = time.monotonic()
            if turn > 1 and begun - started + longest > 60 * asked.minutes:
                say(f"time is up after {turn - 1} of {asked.rounds} rounds")
                break
            for request in turns:
                measure(workers, request, answers, counted=turn > 0)
            longest = time.monotonic() - begun
            say(f"{'first round, not counted' if turn == 0 else f'round {turn}'}: {longest:.0f} s")
        versions = {worker.variant.name: worker.versions for worker in workers}
        for worker in workers:
            worker.close()
    rows = as_rows(answers, versions, asked)
    if rows:
        write(rows, asked.out)
    say(f"{len(rows)} rows in {time.monotonic() - started:.0f} s")
    return 0 if rows else 1


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Speed and memory of all variants, side by side.")
    parser.add_argument("--data", nargs="+", default=["physionet2012", "pm25"])
    parser.add_argument("--variants", nargs="+", help="names of those to measure; default: all")
    parser.add_argument("--records", type=int, default=16, help="of a batch, and to impute")
    parser.add_argument("--samples", type=int, default=100, help="draws of an imputation")
    parser.add_argument("--rounds", type=int, default=3, help="that are counted, after one that is not")
    parser.add_argument("--minutes", type=float, default=9.0, help="no further round is begun that would end later")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=HERE, help="folder of results.json and results.md")
    parser.add_argument("--quick", action="store_true", help="generated data, 2 records, 2 draws, 1 round")
    asked = parser.parse_args(arguments)
    if asked.quick:
        asked.data, asked.records, asked.samples, asked.rounds = ["synthetic"], 2, 2, 1
    return asked


def prepared_turns(asked: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """The requests of one round; data sets that are not there are named and left out."""
    turns = []
    for data in asked.data:
        try:
            prepare(data, asked.records, folder / data)
        except TsimputeError as error:
            say(f"{data} is left out: {error}")
            continue
        common = {"data": data, "folder": str(folder / data), "threads": asked.threads, "samples": asked.samples}
        draws = f"impute_{asked.samples}"
        turns += [common | {"work": work} for work in (f"{draws}_missing", draws, "train_step", "forward")]
    return turns


def started_workers(names: Sequence[str] | None) -> list[Worker]:
    """Workers of the variants of those names; the ones that cannot run are named and left out."""
    workers = []
    for variant in variants():
        if names and variant.name not in names:
            continue
        if not variant.python.exists():
            say(f"{variant.name} is left out: {variant.python} is not there; benchmarks/peers/install_pypots makes it")
            continue
        workers.append(Worker(variant))  # all are started before one is waited for
    for worker in workers:
        if "error" in worker.versions:
            say(f"{worker.variant.name} is left out: {worker.versions['error']}")
    return [worker for worker in workers if "error" not in worker.versions]


def measure(workers: list[Worker], request: dict[str, Any], answers: dict[Any, Any], counted: bool) -> None:
    """Lets every worker run ``request`` once, one after the other, and keeps what they answer."""
    told = []
    for worker in workers:
        variant = worker.variant
        if not request["work"].startswith(variant.works):
            continue
        answer = worker.run(**request)
        told.append(
            f"{variant.name} {answer.get('error') or format(answer['seconds'] / answer['fraction'], '.3g') + ' s'}"
        )
        if counted and "error" not in answer:
            answers[request["data"], request["work"], variant.name].append(answer)
    say(f"{request['data']}, {request['work']}: {'; '.join(told)}")


def as_rows(answers: dict[Any, Any], versions: dict[str, Any], asked: argparse.Namespace) -> list[dict[str, Any]]:
    """One row per (data, work, variant); seconds are those of the whole work."""
    whole = {key: [a["seconds"] / a["fraction"] for a in found] for key, found in answers.items()}
    median = {key: statistics.median(seconds) for key, seconds in whole.items()}
    rows = []
    for (data, work, variant), found in answers.items():
        key, reference = (data, work, variant), median.get((data, work, REFERENCE))
        rows.append(
            {
                "work": work,
                "variant": variant,
                "data": data,
                "seconds": median[key],
                "ratio_to_reference": None if reference is None else reference / median[key],
                "peak_mib": max(a["peak_mib"] for a in found),
                "spread": [min(whole[key]), max(whole[key])],
                "measured_fraction": found[0]["fraction"],
                "rounds": len(found),
                "records": asked.records,
                "machine": machine(),
                "threads": asked.threads,
                "versions": versions[variant],
            }
        )
    return rows


def machine() -> str:
    """Processor and number of cores."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return f"{model}, {os.cpu_count()} cores"


def write(rows: list[dict[str, Any]], folder: Path) -> None:
    """``results.json`` and ``results.md`` in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    first = rows[0]
    lines = [
        f"{first['machine']}, {first['threads']} threads, torch {first['versions']['torch']}; medians of "
        f"{first['rounds']} alternating rounds, {first['records']} records. What is measured how: README.md.",
        "",
        "| data | work | variant | seconds | range | times faster than reference | peak MiB | share measured |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        low, high = row["spread"]
        ratio = "" if row["ratio_to_reference"] is None else f"{row['ratio_to_reference']:.3g}"
        cells = [row["data"], row["work"], row["variant"], f"{row['seconds']:.3g}", f"{low:.3g} to {high:.3g}", ratio]
        cells += [f"{row['peak_mib']:.0f}", f"{row['measured_fraction']:.2g}"]
        lines.append(f"| {' | '.join(cells)} |")
    texts = {"results.json": json.dumps(rows, indent=1), "results.md": "\n".join(lines)}
    for name, text in texts.items():
        atomic_write(folder / name, lambda partial, text=text: partial.write_text(text + "\n", encoding="utf-8"))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
