"""Writes what ``train.py`` needs: standardised training records, and the Gaussian processes they start from.

Usage: python scripts/gpu/prepare.py OUT.npz pm25|physionet2012 [--root DIR] [--fold N] [--rate R]
       [--all_records true] [--base gaussian|none] [--base_folds N]

With ``all_records`` the validation records are trained on as well. Runs on a CPU; for PM2.5 with a Gaussian process
some minutes.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from jsonargparse import auto_cli

import tsimpute as ti
from tsimpute.batches.loading import Loader
from tsimpute.batches.masking import make_policy
from tsimpute.core.windows import Windows
from tsimpute.gaussian.process import Scores
from tsimpute.imputers.network.starting import base_process
from tsimpute.imputers.shared.cross_fitting import cross_fitted


def joined(first: Windows, second: Windows) -> Windows:
    """The records of both, in the order of their names."""
    order = np.argsort(np.array(first.record_ids + second.record_ids), kind="stable")
    both = {name: np.concatenate([getattr(first, name), getattr(second, name)])[order] for name in ("values", "times")}
    names = np.array(first.record_ids + second.record_ids)[order]
    lends = None
    if first.pattern_donor is not None and second.pattern_donor is not None:
        lends = np.concatenate([first.pattern_donor, second.pattern_donor])[order]
    return replace(first, **both, record_ids=tuple(names.tolist()), held_out=None, split=None, pattern_donor=lends)


def prepare(
    out: Path,
    data: str,
    root: Path | None = None,
    fold: int = 0,
    rate: float | None = None,
    all_records: bool = False,
    base: str = "none",
    base_folds: int = 1,
    seed: int = 0,
) -> None:
    """See the head of this file.

    Args:
        out: the file to write.
        data: name of the data set.
        root: its folder.
        fold, rate: of the csdi protocol.
        all_records: whether validation records are trained on.
        base: "gaussian" or "none".
        base_folds: see ``TrainingConfig``.
        seed: of the processes.
    """
    task = ti.csdi(ti.load_windows(data, root=root), rate=rate, fold=fold)
    train = joined(task.train, task.valid) if all_records else task.train
    process = base_process(train, task.scaler, base, None, seed, base_folds)
    scale = task.scaler if process is None else Scores(task.scaler, process)
    policy = make_policy("mix", train)
    arrays: dict[str, np.ndarray] = {"patterns": policy.patterns}
    for name, windows in (("train", train), ("valid", task.valid)):
        loader = Loader(windows, scale, policy, 16)
        arrays |= {f"{name}_values": loader.values, f"{name}_shown": loader.visible, f"{name}_times": loader.times}
        arrays[f"{name}_ids"] = np.array(loader.record_ids)
    if process is not None:
        arrays |= {f"base.{name}": x for name, x in process.to_arrays().items()}
        if base_folds > 1:
            arrays["fold_of"] = np.arange(len(train)) * base_folds // len(train)
            base_of_record = cross_fitted(train, task.scaler, process, base_folds, seed)
            for n in range(base_folds):
                apart = base_of_record(int(np.flatnonzero(arrays["fold_of"] == n)[0])).apart
                arrays |= {f"apart{n}.{name}": x for name, x in apart.to_arrays().items()}
    np.savez_compressed(out, **arrays)
    print(f"{out}: {len(train)} records, {out.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    auto_cli(prepare)
