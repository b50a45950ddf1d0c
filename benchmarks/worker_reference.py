"""The worker of the reference arithmetic."""

from __future__ import annotations

import platform
from importlib import import_module
from typing import Any

from serving import Run, serve

CALLS = 2
"""Network calls of an imputation that are measured."""


def load() -> tuple[Any, dict[str, str]]:
    import arrays
    import torch
    from reference import N_LEVELS, ReferenceNetwork

    import_module("torch._dynamo")  # the first optimiser imports it: not to be counted as memory of a training step

    def build(request: dict[str, Any]) -> tuple[Run, float]:
        if request["work"].startswith("impute"):
            records = arrays.records_to_impute(request["folder"])
            network = ReferenceNetwork(records["values"].shape[1]).eval()
            return lambda: network.draw(**records, n_calls=CALLS), CALLS / (N_LEVELS * request["samples"])
        batches = arrays.training_batches(request["folder"])
        network = ReferenceNetwork(next(batches)["values"].shape[1])

        def loss() -> torch.Tensor:
            batch = next(batches)
            target_mask = batch["observed"] & ~batch["cond_mask"]
            return network.loss(batch["values"], batch["cond_mask"], target_mask, batch["times"])

        @torch.no_grad()
        def forward() -> torch.Tensor:
            batch = next(batches)
            values, cond_mask, level = batch["values"], batch["cond_mask"], torch.full((len(batch["values"]),), 25)
            return network(values, level, values, cond_mask, network.side_information(batch["times"], cond_mask))

        if request["work"] == "forward":
            network.eval()
            return forward, 1.0
        return arrays.training_step(network, loss), 1.0

    return build, {"python": platform.python_version(), "torch": torch.__version__}


if __name__ == "__main__":
    serve(load)
