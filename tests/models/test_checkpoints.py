"""Files come back exactly, and a foreign, damaged or half-written one is refused in one sentence."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tsimpute.errors import CheckpointError
from tsimpute.models.checkpoints import read_model, read_state, write_model, write_state
from tsimpute.system.files import remove_partial, write_whole

WEIGHTS = {
    "a.weight": torch.randn(30, 40, generator=torch.Generator().manual_seed(0)),
    "a.bias": torch.tensor([-0.0, 1e-45, float("inf")]),
    "n": torch.tensor(3),
}
ABOUT = {"features": [["HR", "bpm"], ["température", ""]], "mean": [0.1 + 0.2, -0.0, 1e-300], "fitted": {"epoch": 3}}
STATE = {"step": 7, "settings": {"epochs": 2, "milestones": (0.75, 0.9)}, "network": WEIGHTS, "losses": [0.1]}


def one_sentence(error: pytest.ExceptionInfo[CheckpointError], path: Path) -> bool:
    text = str(error.value)
    return text.startswith(str(path)) and "\n" not in text and len(text) < len(str(path)) + 350


def test_model_comes_back_exactly(tmp_path: Path):
    write_model(tmp_path / "sub" / "m.safetensors", WEIGHTS, ABOUT)
    weights, about = read_model(tmp_path / "sub" / "m.safetensors")
    assert about == ABOUT
    assert str(about["mean"][1]) == "-0.0"
    assert weights.keys() == WEIGHTS.keys()
    for name, tensor in WEIGHTS.items():
        assert weights[name].numpy().tobytes() == tensor.numpy().tobytes()


def test_model_may_be_a_view_or_need_a_gradient(tmp_path: Path):
    wide = torch.randn(4, 6, requires_grad=True)
    write_model(tmp_path / "m", {"w": wide.T, "v": wide[:, ::2]}, {})
    weights, _ = read_model(tmp_path / "m")
    assert torch.equal(weights["w"], wide.T)
    assert torch.equal(weights["v"], wide[:, ::2])


def test_state_comes_back_exactly_and_runs_no_code(tmp_path: Path):
    write_state(tmp_path / "state.pt", STATE)
    for state in (read_state(tmp_path / "state.pt"), torch.load(tmp_path / "state.pt", weights_only=True)):
        assert {k: v for k, v in state.items() if k != "network"} == {k: v for k, v in STATE.items() if k != "network"}
        assert all(torch.equal(state["network"][name], WEIGHTS[name]) for name in WEIGHTS)


class Harmful:
    def __reduce__(self) -> tuple:
        return (Path.write_text, (Path("harmful_was_here"), ""))


def test_a_file_that_would_run_code_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"step": Harmful()}, tmp_path / "state.pt")
    with pytest.raises(CheckpointError):
        read_state(tmp_path / "state.pt")
    assert not (tmp_path / "harmful_was_here").exists()


@pytest.mark.parametrize("content", [b"", b"hello\n" * 30, bytes(range(256)), b"PK\x03\x04" + bytes(60)])
@pytest.mark.parametrize("read", [read_model, read_state])
def test_foreign_files_are_refused(tmp_path: Path, content: bytes, read):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="foreign or damaged") as error:
        read(path)
    assert one_sentence(error, path)


def test_absent_files_and_folders_are_refused(tmp_path: Path):
    with pytest.raises(CheckpointError, match="found none"):
        read_model(tmp_path / "none")
    with pytest.raises(CheckpointError):
        read_state(tmp_path / "none")
    with pytest.raises(CheckpointError):
        read_state(tmp_path)


def test_files_of_the_right_kind_but_another_content_are_refused(tmp_path: Path):
    path = tmp_path / "file"
    save_file({"w": torch.zeros(3)}, path)
    with pytest.raises(CheckpointError, match="format") as error:
        read_model(path)
    assert one_sentence(error, path)
    save_file({"w": torch.zeros(3)}, path, metadata={"format": "tsimpute-model-99", "about": "{}"})
    with pytest.raises(CheckpointError, match="tsimpute-model-99"):
        read_model(path)
    save_file({"w": torch.zeros(3)}, path, metadata={"format": "tsimpute-model-1"})
    with pytest.raises(CheckpointError, match="damaged"):
        read_model(path)
    for other in ([1, 2], {"network": {}}):
        torch.save(other, path)
        with pytest.raises(CheckpointError, match="came something else"):
            read_state(path)


@pytest.mark.parametrize(
    ("write", "read"),
    [
        (lambda path: write_model(path, WEIGHTS, ABOUT), read_model),
        (lambda path: write_state(path, STATE), read_state),
    ],
    ids=["model", "state"],
)
def test_truncated_files_and_files_with_one_wrong_byte_are_refused(tmp_path: Path, write, read):
    path = tmp_path / "whole"
    write(path)
    whole = path.read_bytes()
    damaged = tmp_path / "damaged"
    for cut in range(0, len(whole), 311):
        damaged.write_bytes(whole[:cut])
        with pytest.raises(CheckpointError) as error:
            read(damaged)
        assert one_sentence(error, damaged)
    middle = len(whole) // 2  # within the weights
    damaged.write_bytes(whole[:middle] + bytes([whole[middle] ^ 16]) + whole[middle + 1 :])
    with pytest.raises(CheckpointError, match="damaged"):
        read(damaged)
    # Anywhere else it is refused, or changes nothing (padding, names of members).
    rng = random.Random(0)
    for _ in range(60):
        at = rng.randrange(len(whole))
        damaged.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(8))]) + whole[at + 1 :])
        try:
            found = read(damaged)
        except CheckpointError:
            continue
        weights = found[0] if isinstance(found, tuple) else found["network"]
        assert all(weights[name].numpy().tobytes() == WEIGHTS[name].numpy().tobytes() for name in WEIGHTS)


def test_a_model_without_checksum_is_still_read(tmp_path: Path):
    metadata = {"format": "tsimpute-model-1", "about": json.dumps(ABOUT)}
    save_file(WEIGHTS, tmp_path / "old", metadata=metadata)
    assert read_model(tmp_path / "old")[1] == ABOUT


def test_a_writer_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path):
    path = tmp_path / "file"
    path.write_text("old")

    def fails(partial: Path) -> None:
        partial.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(path, fails)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_leavings_of_killed_processes_are_removed_and_nothing_else(tmp_path: Path):
    for name in (".state.pt.partial123", "state.pt", ".other.pt.partial123"):
        (tmp_path / name).write_text("")
    remove_partial(tmp_path / "state.pt")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".other.pt.partial123", "state.pt"]
