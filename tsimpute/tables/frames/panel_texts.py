"""What a panel holds, in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tsimpute.core.panel import PROVENANCE, Panel


def words(codes: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Codes of ``PROVENANCE`` as words."""
    return [np.array(PROVENANCE, dtype=object)[of_series] for of_series in codes]


def features_text(panel: Panel) -> str:
    """Names and units, and how much of each is missing."""
    n_cells = sum(len(series.times) for series in panel.series)
    missing = sum(np.isnan(series.values).sum(1) for series in panel.series)
    texts = [
        f"{feature.name}{f' [{unit}]' if (unit := feature.unit_beside) else ''} {count / n_cells:.1%} missing"
        for feature, count in zip(panel.features, np.asarray(missing).tolist(), strict=True)
    ]
    more = f", and {len(texts) - 20} more" if len(texts) > 20 else ""
    return f"{len(texts)}: {', '.join(texts[:20])}{more}"
