"""Fill gaps in multivariate time series with samples from a learnt conditional distribution.

Names are loaded when they are first used, so importing the package is fast and loads no heavy library.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

# torch's threads wait for each other in spin loops, unless this is said before torch is loaded: beside another busy
# process a loop costs a whole time slice, at every small operation. A choice of the user's own stays.
if "torch" not in sys.modules and not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"} & set(os.environ):
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

if TYPE_CHECKING:
    from tsimpute.config.settings import (
        EvaluationConfig,
        NetworkConfig,
        ProcessConfig,
        ProtocolConfig,
        RunConfig,
        SamplingConfig,
        TrainingConfig,
    )
    from tsimpute.core.containers import Batch, Condition
    from tsimpute.core.limits import Limits
    from tsimpute.core.windows import Feature, Samples, Windows
    from tsimpute.datasets.describing import describe
    from tsimpute.errors import ImputationWarning
    from tsimpute.evaluation.evaluate import evaluate
    from tsimpute.evaluation.pooling import pool
    from tsimpute.evaluation.reporting import EvaluationContext, Report
    from tsimpute.experiments.runs import load_windows
    from tsimpute.filling.files.fill_file import fill_file
    from tsimpute.filling.files.lazy import draw_lazily, impute_lazily
    from tsimpute.filling.imputer.imputation import Imputation
    from tsimpute.filling.imputer.table_imputer import TableImputer, impute
    from tsimpute.imputers.generative import GenerativeImputer
    from tsimpute.imputers.simple import LinearImputer, LocfImputer, MeanImputer, MedianImputer
    from tsimpute.tables.sources.records import to_dataset, to_frame
    from tsimpute.tasks.protocols import clean, csdi, transductive

_HOME = {
    "config.settings": (
        "EvaluationConfig", "NetworkConfig", "ProcessConfig", "ProtocolConfig", "RunConfig",
        "SamplingConfig", "TrainingConfig",
    ),
    "core.containers": ("Batch", "Condition"),
    "core.limits": ("Limits",),
    "core.windows": ("Feature", "Samples", "Windows"),
    "datasets.describing": ("describe",),
    "errors": ("ImputationWarning",),
    "evaluation.evaluate": ("evaluate",),
    "evaluation.pooling": ("pool",),
    "evaluation.reporting": ("EvaluationContext", "Report"),
    "experiments.runs": ("load_windows",),
    "filling.files.fill_file": ("fill_file",),
    "filling.imputer.imputation": ("Imputation",),
    "filling.imputer.table_imputer": ("TableImputer", "impute"),
    "filling.files.lazy": ("draw_lazily", "impute_lazily"),
    "imputers.generative": ("GenerativeImputer",),
    "imputers.simple": ("LinearImputer", "LocfImputer", "MeanImputer", "MedianImputer"),
    "tables.sources.records": ("to_dataset", "to_frame"),
    "tasks.protocols": ("clean", "csdi", "transductive"),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
__all__ = [  # in full: type checkers read it
    "Batch", "Condition", "EvaluationConfig", "EvaluationContext", "Feature", "GenerativeImputer", "Imputation",
    "ImputationWarning", "Limits", "LinearImputer", "LocfImputer", "MeanImputer", "MedianImputer", "NetworkConfig",
    "ProcessConfig", "ProtocolConfig", "Report", "RunConfig", "Samples", "SamplingConfig", "TableImputer",
    "TrainingConfig", "Windows", "clean", "csdi", "describe", "draw_lazily", "evaluate", "fill_file", "impute",
    "impute_lazily", "load_windows", "pool", "to_dataset", "to_frame", "transductive",
]  # fmt: skip
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'tsimpute' has no attribute {name!r}")
    return getattr(import_module(f"tsimpute.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
