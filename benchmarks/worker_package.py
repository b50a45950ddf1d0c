"""The worker of the package itself: its training loop, its networks, its imputer."""

from __future__ import annotations

import dataclasses
import pickle
import platform
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from serving import Run, serve


def untrained(windows: Any, scaler: Any, network: str, process: str, sampling: dict[str, Any]) -> Any:
    """An imputer that costs what a trained one costs: its learnt state is set, its weights are the initial ones."""
    from tsimpute.config.registry import make
    from tsimpute.config.settings import NetworkConfig, SamplingConfig
    from tsimpute.imputers.generative import GenerativeImputer
    from tsimpute.imputers.network.fitted import FittedModel, RecordClock

    imputer = GenerativeImputer(process, NetworkConfig(network), sampling=SamplingConfig(**sampling))
    backbone = make("backbones", network, n_features=windows.n_features)
    imputer.model_ = FittedModel(backbone, scaler, windows.features, RecordClock.of(windows))
    return imputer


def load() -> tuple[Any, dict[str, str]]:
    import torch

    from tsimpute.config.registry import available, make, plugin
    from tsimpute.config.settings import NetworkConfig
    from tsimpute.imputers.generative import GenerativeImputer

    # Else these would be imported, and counted as memory, within the work.
    import_module("torchcfm.conditional_flow_matching")
    for kind in ("backbones", "processes", "solvers"):
        for name in available(kind):
            plugin(kind, name)

    def build(request: dict[str, Any]) -> tuple[Run, float]:
        prepared = pickle.loads((Path(request["folder"]) / "prepared.pickle").read_bytes())
        options = request["options"]
        network, process = options["network"], options.get("process", "flow_matching")
        if request["work"] == "train_step":
            training = dataclasses.replace(prepared.training, **options.get("training", {}))
            imputer = GenerativeImputer(process, NetworkConfig(network), training)
            steps = imputer.fit_steps(prepared.train, scaler=prepared.scaler)
            return lambda: next(steps), 1.0
        if request["work"] == "forward":
            backbone = make("backbones", network, n_features=prepared.train.n_features).eval()
            return forward(backbone, prepared.batches), 1.0
        return imputation(prepared, request, network, process)

    def forward(backbone: torch.nn.Module, batches: Any) -> Run:
        """A condition is made anew for each call, so that nothing kept with it is used twice."""
        tau = torch.full((len(batches[0]),), 0.5, dtype=torch.float64)
        turn = iter(range(10**9))

        @torch.inference_mode()
        def run() -> torch.Tensor:
            batch = batches[next(turn) % len(batches)]
            return backbone(batch.values, tau, batch.condition)

        return run

    def imputation(prepared: Any, request: dict[str, Any], network: str, process: str) -> tuple[Run, float]:
        typical = not request["options"].get("all_records")
        records = prepared.test.select([prepared.typical]) if typical else prepared.test
        imputer = untrained(records, prepared.scaler, network, process, request["options"].get("sampling", {}))
        draws = min(request["options"].get("draws", request["samples"]), request["samples"])
        hidden = records.without_held_out()
        fill = None if request["work"].endswith("_missing") else records.held_out_mask
        fraction = draws * len(records) / (request["samples"] * len(prepared.test))
        return lambda: imputer.impute(hidden, draws, seed=0, fill=fill), fraction

    versions = {"python": platform.python_version(), "torch": torch.__version__, "tsimpute": version("tsimpute-cfmi")}
    return build, versions


if __name__ == "__main__":
    serve(load)
