"""The 35 variables of PhysioNet 2012 in the order of the original CSDI code, with the units of the challenge's page."""

from __future__ import annotations

from tsimpute.core.limits import Limits
from tsimpute.core.windows import Feature

# Name, unit, and the range outside of which a value is a mistake of notation or of the instrument, not a sick patient.
_TABLE = (
    ("DiasABP", "mmHg", 1, 300),
    ("HR", "bpm", 1, 300),
    ("Na", "mEq/L", 80, 200),
    ("Lactate", "mmol/L", 0, 50),
    ("NIDiasABP", "mmHg", 1, 300),
    ("PaO2", "mmHg", 10, 700),
    ("WBC", "cells/nL", 0, 500),
    ("pH", "1", 6, 8.5),
    ("Albumin", "g/dL", 0.3, 10),
    ("ALT", "IU/L", 0, 30000),
    ("Glucose", "mg/dL", 5, 2500),
    ("SaO2", "%", 1, 100),
    ("Temp", "degC", 25, 45),
    ("AST", "IU/L", 0, 40000),
    ("Bilirubin", "mg/dL", 0, 80),
    ("HCO3", "mmol/L", 1, 60),
    ("BUN", "mg/dL", 1, 300),
    ("RespRate", "bpm", 1, 120),
    ("Mg", "mmol/L", 0.1, 15),
    ("HCT", "%", 5, 75),
    ("SysABP", "mmHg", 1, 350),
    ("FiO2", "1", 0.21, 1),
    ("K", "mEq/L", 1, 12),
    ("GCS", "1", 3, 15),
    ("Cholesterol", "mg/dL", 10, 1500),
    ("NISysABP", "mmHg", 1, 350),
    ("TroponinT", "ug/L", 0, 100),
    ("MAP", "mmHg", 1, 300),
    ("TroponinI", "ug/L", 0, 1000),
    ("PaCO2", "mmHg", 5, 250),
    ("Platelets", "cells/nL", 0, 3000),
    ("Urine", "mL", 0, 5000),
    ("NIMAP", "mmHg", 1, 300),
    ("Creatinine", "mg/dL", 0.05, 40),
    ("ALP", "IU/L", 0, 10000),
)

FEATURES = tuple(Feature(name, unit) for name, unit, *_ in _TABLE)
LIMITS = {name: Limits(float(low), float(high), integer=name == "GCS") for name, _, low, high in _TABLE}
