"""Model files and training states. Loading runs no code from a file."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from tsimpute.errors import CheckpointError
from tsimpute.system.files import atomic_write

Array = TypeVar("Array")
FORMAT = "tsimpute-model-1"


def write_model(path: Path, weights: Mapping[str, Tensor], description: Mapping[str, Any]) -> None:
    """Writes weights and a JSON description to one safetensors file."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    text = json.dumps(description, sort_keys=True)
    metadata = {"format": FORMAT, "about": text, "digest": _digest(plain, text)}
    # As bytes, since safetensors' own writer makes files that no one but their owner can read.
    content = save(plain, metadata=metadata)
    # The header in order of names, since safetensors writes metadata in any order.
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8:end]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)  # weights begin at a multiple of 8 bytes
    content = len(header).to_bytes(8, "little") + header + content[end:]
    atomic_write(path, lambda partial: partial.write_bytes(content))


def part_of(arrays: Mapping[str, Array], name: str) -> dict[str, Array]:
    """The arrays of one part of a model: those whose names begin with the part's name and a dot."""
    start = f"{name}."
    return {key.removeprefix(start): array for key, array in arrays.items() if key.startswith(start)}


def read_model(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The weights and the description in a model file.

    Raises:
        CheckpointError: there is no such file, or it is foreign, damaged or of another layout.
    """
    if not path.is_file():
        raise CheckpointError(f"{path}: expected a model file, found none.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            # Copies: the tensors are views of the mapped file, and reading them after it changed kills the process.
            weights = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 - not a mapping
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(
            f"{path}: expected a tsimpute model (safetensors); the file is foreign or damaged ({error})."
        ) from error
    if metadata.get("format") != FORMAT:
        raise CheckpointError(f"{path}: expected format {FORMAT!r}, came {metadata.get('format')!r}.")
    text = metadata.get("about", "")
    if metadata.get("digest", _digest(weights, text)) != _digest(weights, text):
        raise CheckpointError(f"{path}: the file is damaged: its content does not match its checksum.")
    try:
        return weights, json.loads(text)
    except ValueError as error:
        raise CheckpointError(f"{path}: the file is damaged: its description is not JSON.") from error


def write_state(path: Path, state: Mapping[str, Any]) -> None:
    """Writes the state of an unfinished training: tensors, numbers and text only."""
    atomic_write(path, lambda partial: torch.save(dict(state), partial))


def read_state(path: Path) -> dict[str, Any]:
    """The state of an unfinished training.

    Raises:
        CheckpointError: the file is foreign or damaged.
    """
    try:
        with zipfile.ZipFile(path) as file:  # torch.load does not compare checksums
            if file.testzip() is not None:
                raise zipfile.BadZipFile
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever bytes of any kind make zipfile and torch raise
        raise CheckpointError(
            f"{path}: expected a training state; the file is foreign or damaged. Delete it to start anew."
        ) from error
    if not isinstance(state, dict) or "step" not in state:
        raise CheckpointError(f"{path}: expected a training state, came something else. Delete it to start anew.")
    return state


def _digest(weights: Mapping[str, Tensor], text: str) -> str:
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for name in sorted(weights):
        digest.update(f"{name} {weights[name].dtype} {tuple(weights[name].shape)}".encode())
        if weights[name].numel():  # what is empty has no bytes to be viewed
            digest.update(weights[name].contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
