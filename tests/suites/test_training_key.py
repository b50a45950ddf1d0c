"""A training of a suite is found again by what it depends on, and by nothing else."""

from __future__ import annotations

from dataclasses import replace

from tsimpute.config.settings import DataConfig, NetworkConfig, RunConfig, TrainingConfig
from tsimpute.experiments.runs import task_of
from tsimpute.suites.checkpoints import training_key


def test_settings_of_the_gaussian_base_count_with_it_alone() -> None:
    config = RunConfig(data=DataConfig(options={"n_records": 20}))
    task = task_of(config)

    def keys(base: str) -> set[str]:
        network = NetworkConfig(base=base)  # type: ignore[arg-type]
        changed = TrainingConfig(), TrainingConfig(masks_per_record=9), TrainingConfig(base_folds=3)
        return {training_key(replace(config, network=network, training=training), task) for training in changed}

    assert [len(keys(base)) for base in ("none", "linear", "gaussian")] == [1, 1, 3]
