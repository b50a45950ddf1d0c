"""Each missing cell gets the training mean of its feature."""

from __future__ import annotations

import numpy as np

from tsimpute.imputers._simple import SimpleImputer


class MeanImputer(SimpleImputer):
    """The mean of a feature's shown training cells, at every missing cell."""

    name = "mean"

    def _centre(self, known: np.ndarray) -> float:
        return float(known.mean())

    def _fill(self, known: np.ndarray, times: np.ndarray) -> np.ndarray:
        return np.broadcast_to(self.centre_[:, None], known.shape)


PLUGIN = MeanImputer
