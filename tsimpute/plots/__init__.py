"""Pictures: metrics versus epochs, imputed records with their bands, and where the gaps are.

matplotlib is imported when a picture is drawn. Figures are made without pyplot, so no display and no global state is
needed. Colours are those of Okabe and Ito, which colour-blind readers can tell apart.
"""

from tsimpute.plots._curves import curves
from tsimpute.plots._gaps import gaps
from tsimpute.plots._records import imputed_records

__all__ = ["curves", "gaps", "imputed_records"]
