"""Model files and training states. Loading runs no code from a file, and a file is written whole or not at all."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from tsimpute.errors import CheckpointError

FORMAT = "tsimpute-model-1"


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Calls ``write`` with a temporary path beside ``path``, then puts the result in its place at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial{os.getpid()}")
    try:
        write(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_model(path: Path, weights: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Writes weights and a JSON description to one safetensors file."""
    metadata = {"format": FORMAT, "about": json.dumps(about, sort_keys=True)}
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    write_whole(path, lambda partial: save_file(plain, partial, metadata=metadata))


def read_model(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The weights and the description in a model file.

    Raises:
        CheckpointError: there is no such file, or it is foreign or damaged.
    """
    if not path.is_file():
        raise CheckpointError(f"{path}: expected a model file, found none.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(
            f"{path}: expected a tsimpute model (safetensors); the file is foreign or damaged ({error})."
        ) from error
    if metadata.get("format") != FORMAT:
        raise CheckpointError(f"{path}: expected format {FORMAT!r}, came {metadata.get('format')!r}.")
    return weights, json.loads(metadata["about"])


def write_state(path: Path, state: Mapping[str, Any]) -> None:
    """Writes the state of an unfinished training: tensors, numbers and text only."""
    write_whole(path, lambda partial: torch.save(dict(state), partial))


def read_state(path: Path) -> dict[str, Any]:
    """The state of an unfinished training.

    Raises:
        CheckpointError: the file is foreign or damaged.
    """
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, zipfile.BadZipFile, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise CheckpointError(
            f"{path}: expected a training state; the file is foreign or damaged. Delete it to start anew."
        ) from error
    if not isinstance(state, dict) or "step" not in state:
        raise CheckpointError(f"{path}: expected a training state, came something else. Delete it to start anew.")
    return state
