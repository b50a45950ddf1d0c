"""Progress of a training: its steps, the counters that a resumed run needs, and the log of its epochs."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tsimpute.config.settings import TrainingConfig
from tsimpute.core.seeding import derive_seed
from tsimpute.errors import CheckpointError
from tsimpute.system.files import atomic_write

COLUMNS = ("epoch", "step", "train_loss", "valid_loss", "learning_rate", "seconds")
"""Columns of ``epochs.csv``."""

_FREE = {
    "checkpoint_minutes", "keep_epochs", "max_minutes", "accelerator", "devices", "precision", "patience",
    "micro_batch", "start_from",
}  # fmt: skip
_START = "start_from"
_IN_OPTIONS = re.compile(r", from ([0-9a-f]{16})(?=,|$)")
"""What identifies the start file in the texts of older states."""


@dataclass(frozen=True)
class Step:
    """The state of training after an optimiser step.

    Attributes:
        epoch, step: counted from 1; ``step`` over all epochs. Where training ends: the epochs that are finished.
        n_steps: steps of the whole run.
        loss: mean over the records of the batch.
        learning_rate: that was used.
        valid_loss: after the last step of an epoch with validation records, else None.
        stop: why training ends here, else None.
    """

    epoch: int
    step: int
    n_steps: int
    loss: float
    learning_rate: float
    ends_epoch: bool = False
    train_loss: float | None = None
    valid_loss: float | None = None
    stop: str | None = None


@dataclass
class Progress:
    """Counters that a resumed run needs."""

    epoch: int = 1
    batch: int = 0
    step: int = 0
    losses: list[float] = field(default_factory=list)
    best_loss: float = math.inf
    best_epoch: int = 0
    seconds: float = 0.0


def settings_key(
    settings: TrainingConfig, process: str, record_ids: Sequence[str], also: str, started_from: str | None
) -> dict[str, Any]:
    """The settings that must not change when a run resumes.

    Args:
        also: a text for those of network and process.
        started_from: a text that identifies the weights of ``start_from``; None = there are none.
    """
    fixed = {name: value for name, value in vars(settings).items() if name not in _FREE}
    records = {"records": len(record_ids), "record ids": derive_seed(*record_ids)}
    return fixed | records | {"process": process, _START: started_from, "network and options": also}


def check_same(path: Path, state: Mapping[str, Any], key: Mapping[str, Any]) -> None:
    """Refuses, with a CheckpointError, a state in ``path`` of other settings; what it does not name had its default."""
    stored = state.get("settings")
    if not isinstance(stored, Mapping):
        raise CheckpointError(f"{path}: expected a training state, came something else. Delete it to start anew.")
    stored = vars(TrainingConfig()) | _with_start(stored)
    changed = [_change(name, stored.get(name), key[name]) for name in key if stored.get(name) != key[name]]
    if changed:
        raise CheckpointError(
            f"{path}: this run was started with other settings: {', '.join(changed)}. "
            "Use the same settings to go on, or another folder."
        )


def _with_start(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Stored settings with what identifies the start file, which older states name among the network's options."""
    if _START in stored:
        return dict(stored)
    text = str(stored.get("network and options"))
    match = _IN_OPTIONS.search(text)
    return {**stored, "network and options": _IN_OPTIONS.sub("", text), _START: match and match[1]}


def _change(name: str, before: Any, now: Any) -> str:
    """A setting that is another one than before, in words."""
    if name == _START:
        weights = "new weights" if before is None else "the weights of a file" if now is None else "another file"
        return f"{name} (the run began with {weights})"
    return name if name == "record ids" else f"{name} ({before} -> {now})"


def log_epoch(path: Path, row: Sequence[float | None]) -> None:
    """Adds ``row`` to the log of epochs, in the place of any row that a stopped run left after its last state."""
    rows: list[Sequence[Any]] = [COLUMNS]
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            rows += [r for r in csv.reader(file) if r and r[0].isdigit() and int(r[0]) < row[0]]  # type: ignore[operator]

    def write(partial: Path) -> None:
        with partial.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([*rows, row])

    atomic_write(path, write)
