"""ImputeGAP's CDRec under the interpreter of its own environment: ``python worker_imputegap.py FOLDER``.

Reads ``matrix.npy`` there, steps x series with NaN where a cell is missing, and writes ``filled.npy`` and
``seconds.json``: wall and CPU seconds of the filling alone.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np


def main(folder: Path) -> None:
    from imputegap.recovery.imputation import Imputation  # type: ignore[import-not-found]

    matrix = np.load(folder / "matrix.npy")
    imputer = Imputation.MatrixCompletion.CDRec(matrix)
    imputer.verbose = imputer.logs = False
    wall, cpu = time.perf_counter(), time.process_time()
    imputer.impute()  # the library's default parameters
    seconds = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    np.save(folder / "filled.npy", imputer.recov_data)
    (folder / "seconds.json").write_text(json.dumps(seconds), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
