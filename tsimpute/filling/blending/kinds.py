"""The kinds of models that fill tables, by their files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tsimpute.filling.blending.mixture import Mixture
from tsimpute.imputers.base import TableModel
from tsimpute.imputers.gaussian import GaussianImputer
from tsimpute.imputers.generative import GenerativeImputer

KINDS = (GenerativeImputer, GaussianImputer, Mixture)


def model_from_file(path: Path, weights: Mapping[str, Any], about: Mapping[str, Any]) -> TableModel:
    """The model in what ``checkpoints.read_model`` read from ``path``.

    Raises:
        CheckpointError: the file is damaged, of another layout, or holds no model.
    """
    if about.get("imputer") == "mixture":
        return Mixture.from_file(path, weights, about)
    if about.get("imputer") == GaussianImputer.name:
        return GaussianImputer.from_file(path, weights, about)
    return GenerativeImputer.from_file(path, dict(weights), dict(about))
