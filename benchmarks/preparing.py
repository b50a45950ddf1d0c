"""The records that every variant works on: the same batches, with the same cells shown and hidden."""

from __future__ import annotations

import dataclasses
import pickle
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tsimpute.batches.loading import Loader, condition_of
from tsimpute.batches.masking import make_policy
from tsimpute.config.settings import RunConfig, TrainingConfig
from tsimpute.config.yaml_files import config_path, load_config, shipped_configs
from tsimpute.core.containers import Batch
from tsimpute.core.windows import Windows
from tsimpute.experiments.runs import load_windows, scored_records
from tsimpute.scaling.standardizer import Standardizer
from tsimpute.tasks.protocols import csdi

N_BATCHES = 4
ENDLESS = 10**6


@dataclass(frozen=True)
class Prepared:
    """What the package's own worker reads; the arrays of the others are made from it.

    Attributes:
        train: the records of the training batches, N of them.
        test: N records with held-out cells, to be imputed.
        typical: which of ``test`` has the number of cells (shown or to fill) nearest to their mean.
        scaler: of the protocol.
        training: the settings that come with the package for this data set.
        batches: training batches of all of ``train``, differing in which cells are shown.
    """

    train: Windows
    test: Windows
    typical: int
    scaler: Standardizer
    training: TrainingConfig
    batches: tuple[Batch, ...]


def prepare(data: str, n_records: int, folder: Path) -> Prepared:
    """Reads ``data``, takes records by the csdi protocol (fold 0), and writes what the workers read into ``folder``.

    Raises:
        SourceError: the data set is not there.
    """
    windows = load_windows(data)
    task = csdi(windows, rate=None if windows.held_out_mask.any() else 0.1)
    chosen = np.random.default_rng(0).choice(len(task.train), min(n_records, len(task.train)), replace=False)
    train, test = task.train.select(chosen), scored_records(task, n_records)
    name = f"{data}_flow_matching"
    training = load_config(config_path(name)).training if name in shipped_configs() else RunConfig().training
    training = dataclasses.replace(training, epochs=ENDLESS, batch_size=len(train), keep_epochs=(), patience=None)
    loader = Loader(train, task.scaler, make_policy(training.mask_policy, train), len(train), training.seed)
    batches = tuple(share.batch for epoch in range(1, N_BATCHES + 1) for share in loader.epoch(epoch))
    n_cells = test.observed.sum((1, 2))
    typical = int(np.abs(n_cells - n_cells.mean()).argmin())
    found = Prepared(train, test, typical, task.scaler, training, batches)
    folder.mkdir(parents=True)
    (folder / "prepared.pickle").write_bytes(pickle.dumps(found))
    names = ("values", "observed", "cond_mask", "times")
    np.savez(folder / "training.npz", **{name: np.stack([getattr(b, name) for b in batches]) for name in names})
    condition = condition_of(test, task.scaler, test.held_out_mask)
    names = ("values", "cond_mask", "times")
    np.savez(folder / "impute.npz", **{name: getattr(condition, name).numpy() for name in names})
    return found
