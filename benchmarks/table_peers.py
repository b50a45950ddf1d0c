"""Methods of other libraries, under interpreters of environments of their own: see ``peers/install_*``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from table_answers import Answer

from tsimpute.core.windows import Feature, Windows
from tsimpute.peers.pypots import PypotsImputer

_PEERS = Path(__file__).parent / "peers"
PEER_PYTHONS = {"pypots": _PEERS / ".venv/bin/python", "imputegap": _PEERS / "imputegap/.venv/bin/python"}
"""Where ``peers/install_*`` puts them; TSIMPUTE_PYPOTS_PYTHON and TSIMPUTE_IMPUTEGAP_PYTHON name others."""
LENGTH, HOP, EPOCHS = 48, 24, 100
"""Steps of SAITS' windows and from one to the next; of each window the middle is taken. Passes over all windows."""


def _python(peer: str) -> str:
    given = Path(os.environ.get(f"TSIMPUTE_{peer.upper()}_PYTHON", PEER_PYTHONS[peer]))
    if not given.is_file():
        raise FileNotFoundError(f"no environment of {peer} (benchmarks/peers/install_{peer} makes one)")
    return str(given)


def cdrec(frame: pd.DataFrame) -> Answer:
    """ImputeGAP's CDRec with the library's own parameters, on features scaled by their known cells."""
    if frame.shape[1] < 2:
        raise ValueError("CDRec needs two features or more")
    known = frame.to_numpy(float)
    centre, spread = np.nanmean(known, 0), np.nanstd(known, 0)
    spread = np.where(spread > 0, spread, 1.0)
    with tempfile.TemporaryDirectory(prefix="tsimpute_cdrec_") as name:
        folder = Path(name)
        worker = shutil.copy(_PEERS / "worker_imputegap.py", folder)  # beside others, it would find their modules
        np.save(folder / "matrix.npy", (known - centre) / spread)
        without = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
        done = subprocess.run(
            [_python("imputegap"), worker, name], env=without, cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"ImputeGAP ended with code {done.returncode}: {done.stderr[-150:].strip()}")
        filled = np.load(folder / "filled.npy") * spread + centre
        seconds = json.loads((folder / "seconds.json").read_text(encoding="utf-8"))
    point = np.where(np.isnan(known), filled, known)
    return Answer(point, point, seconds=(seconds["wall_s"], seconds["cpu_s"]))


def saits(frame: pd.DataFrame) -> Answer:
    """PyPOTS' SAITS, in the size of its paper, trained on windows of the table and asked to fill them."""
    known = frame.to_numpy(float)
    length = min(LENGTH, len(known))
    starts = sorted({*range(0, len(known) - length, HOP), len(known) - length})
    windows = Windows(
        np.stack([known[start : start + length].T for start in starts]),
        np.repeat(np.arange(float(length))[None], len(starts), 0),
        tuple(Feature(str(column)) for column in frame.columns),
        tuple(map(str, starts)),
    )
    imputer = PypotsImputer("saits", epochs=EPOCHS, batch_size=16, device="cpu", python=_python("pypots"))
    filled = imputer.fit(windows).impute(windows, 1).values[0]
    point = known.copy()
    ends = [0, *((a + length + b) // 2 for a, b in pairwise(starts)), len(known)]
    for of_one, start, (first, last) in zip(filled, starts, pairwise(ends), strict=True):
        point[first:last] = of_one.T[first - start : last - start]
    point = np.where(np.isnan(known), point, known)
    return Answer(point, point)
