"""Pictures: metrics versus epochs and network evaluations, imputed records with their bands, where the gaps are.

matplotlib is imported when a picture is drawn. Figures are made without pyplot, so no display and no global state is
needed. Colours are those of Okabe and Ito, which colour-blind readers can tell apart.
"""

from tsimpute.plots._curves import curves, steps
from tsimpute.plots._records import gaps, imputed_records
from tsimpute.plots._suite import by_gap, calibration, ranks, versus

__all__ = ["by_gap", "calibration", "curves", "gaps", "imputed_records", "ranks", "steps", "versus"]
