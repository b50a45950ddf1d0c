"""Reads a weights file of the original CSDI into ``DualTransformer``."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from tsimpute.backbones.dual_transformer import DualTransformer
from tsimpute.errors import CheckpointError

_NAMES = {
    "embed_layer": "feature",
    "diffmodel.diffusion_embedding.projection1": "of_tau.first",
    "diffmodel.diffusion_embedding.projection2": "of_tau.second",
    "diffmodel.input_projection": "enter",
    "diffmodel.output_projection1": "gather",
    "diffmodel.output_projection2": "leave",
}
_BLOCK_NAMES = {"diffusion_projection": "of_tau", "mid_projection": "mid", "output_projection": "out"}
_AXIS_NAMES = {
    "self_attn.in_proj_": "qkv.",
    "self_attn.out_proj.": "merge.",
    "linear1.": "expand.",
    "linear2.": "contract.",
    "norm1.": "norm_attention.",
    "norm2.": "norm_feedforward.",
}
_WIDTH_TIME = 128


def load_csdi_weights(path: Path) -> DualTransformer:
    """The network of an original CSDI weights file, ready to use as the denoiser of ``Diffusion()``.

    Its sizes are read from the weights; heads are taken as 8 wide, as in every configuration of the original.

    Raises:
        CheckpointError: the file is not a CSDI weights file.
    """
    try:
        original = torch.load(path, map_location="cpu", weights_only=True)
        weights = {name: tensor for old, t in original.items() for name, tensor in _renamed(old, t).items()}
        n_features, width_feature = weights["feature.weight"].shape
        width = len(weights["enter.weight"])
        n_blocks = sum(name.endswith(".mid.weight") for name in weights)
        network = DualTransformer(n_features, width, width // 8, n_blocks, _WIDTH_TIME, width_feature)
        network.load_state_dict(weights)
    except Exception as error:  # whatever bytes of any kind make torch raise
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(f"{path}: expected a weights file of the original CSDI; {reason}") from error
    return network


def _renamed(old: str, tensor: Tensor) -> dict[str, Tensor]:
    """One original tensor under our name, or names; 1x1 convolutions become linear maps."""
    stem, kind = old.rsplit(".", 1)
    flat = tensor.squeeze(-1) if tensor.ndim == 3 else tensor
    if stem in _NAMES:
        return {f"{_NAMES[stem]}.{kind}": flat}
    _, _, number, rest = old.split(".", 3)
    block = f"blocks.{number}"
    part = rest.rsplit(".", 1)[0]
    if part in _BLOCK_NAMES:
        return {f"{block}.{_BLOCK_NAMES[part]}.{kind}": flat}
    if part == "cond_projection":
        if kind == "bias":
            return {f"{block}.side.of_time.bias": flat}
        return {
            f"{block}.side.of_time.weight": flat[:, :_WIDTH_TIME],
            f"{block}.side.of_feature.weight": flat[:, _WIDTH_TIME:-1],
            f"{block}.side.of_mask": flat[:, -1],
        }
    axis, _, _, inner = rest.split(".", 3)
    for theirs, ours in _AXIS_NAMES.items():
        if inner.startswith(theirs):
            return {f"{block}.{axis.replace('layer', 'axis')}.{inner.replace(theirs, ours)}": flat}
    raise KeyError(f"unknown tensor {old!r}")
