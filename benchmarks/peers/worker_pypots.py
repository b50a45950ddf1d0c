"""The worker of PyPOTS' CSDI: its own modules, losses and sampler, under the interpreter of its own environment."""

from __future__ import annotations

import contextlib
import os
import platform
import warnings
from importlib.metadata import version
from typing import Any

from serving import Run, serve

LEVELS, CALLS = 50, 2
"""Noise levels, and the network calls of an imputation that are measured."""


def load() -> tuple[Any, dict[str, str]]:
    import arrays
    import torch

    warnings.filterwarnings("ignore", "enable_nested_tensor")  # of its own layers, at each of them
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):  # its banner
        from pypots.imputation.csdi.core import _CSDI

    def new(n_features: int, levels: int = LEVELS) -> Any:
        sizes = {"n_layers": 4, "n_heads": 8, "n_channels": 64}
        widths = {"d_time_embedding": 128, "d_feature_embedding": 16, "d_diffusion_embedding": 128}
        noise = {"n_diffusion_steps": levels, "schedule": "quad", "beta_start": 1e-4, "beta_end": 0.5}
        return _CSDI(n_features, **sizes, **widths, is_unconditional=False, **noise)

    def build(request: dict[str, Any]) -> tuple[Run, float]:
        if request["work"].startswith("impute"):
            return imputation(request)
        batches = (
            {
                "X_ori": batch["values"],
                "cond_mask": batch["cond_mask"].float(),
                "indicating_mask": (batch["observed"] & ~batch["cond_mask"]).float(),
                "observed_tp": batch["times"],
            }
            for batch in arrays.training_batches(request["folder"])
        )
        core = new(next(batches)["X_ori"].shape[1])

        @torch.no_grad()
        def forward() -> torch.Tensor:
            batch = next(batches)
            values, cond_mask = batch["X_ori"], batch["cond_mask"]
            side = core.get_side_info(batch["observed_tp"], cond_mask)
            channels = core.backbone.set_input_to_diffmodel(values, values, cond_mask)
            return core.backbone.diff_model(channels, side, torch.full((len(values),), 25))

        if request["work"] == "forward":
            core.eval()
            return forward, 1.0
        return arrays.training_step(core, lambda: core(next(batches), calc_criterion=True)["loss"]), 1.0

    def imputation(request: dict[str, Any]) -> tuple[Run, float]:
        """One draw with as many noise levels as calls are measured: its own sampler, cut short."""
        records = arrays.records_to_impute(request["folder"])
        mask = records["cond_mask"].float()
        inputs = {"X": records["values"] * mask, "cond_mask": mask, "observed_tp": records["times"]}
        core = new(mask.shape[1], CALLS).eval()
        return torch.no_grad()(lambda: core(inputs, n_sampling_times=1)), CALLS / (LEVELS * request["samples"])

    versions = {"python": platform.python_version(), "torch": torch.__version__, "pypots": version("pypots")}
    return build, versions


if __name__ == "__main__":
    serve(load)
