"""The 35 variables of PhysioNet 2012 in the order of the original CSDI code, with the units of the challenge's page.

A median tells the units of other hospitals apart only where they lie far from each other. Where they overlap, as those
of bilirubin and urea do, whether values are whole numbers counts too: laboratories report them in one unit only.
"""

from __future__ import annotations

from tsimpute.core.limits import Limits
from tsimpute.core.windows import Feature
from tsimpute.datasets.base import OtherUnit

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

_KPA = (OtherUnit("kPa", 1, 25),)
_FRACTION = (OtherUnit("a fraction", 0.05, 1),)

SAME_UNITS = {
    "degC": ("\N{DEGREE SIGN}C", "C", "deg C", "Celsius", "degree Celsius", "degrees Celsius", "degrees C", "Cel"),
    "bpm": ("/min", "1/min", "min-1", "beats/min", "beats per minute", "breaths/min", "breaths per minute", "insp/min",
            "rpm", "per minute"),
    "mmHg": ("mm Hg", "mm[Hg]", "torr"),
    "mEq/L": ("mmol/L", "mEq per L"),
    "mg/dL": ("mg%",),
    "cells/nL": ("K/uL", "10^3/uL", "x10^3/uL", "10*3/uL", "K/mcL", "10^9/L", "x10^9/L", "10*9/L", "G/L", "K/mm3",
                 "x1000/mcL", "1000/uL", "thousand/uL"),
    "IU/L": ("U/L", "units/L"),
    "ug/L": ("ng/mL", "mcg/L"),
    "mL": ("cc", "ccm"),
    "%": ("percent", "vol%"),
    "1": ("", "points", "fraction", "units", "pH", "score", "ratio", "pH units"),
}  # fmt: skip

OTHER_UNITS = {
    "Temp": (OtherUnit("degF", 80, 115), OtherUnit("K", 290, 320)),
    "FiO2": (OtherUnit("%", 1.01, 100),),
    "Glucose": (OtherUnit("mmol/L", 1, 35),),
    "Creatinine": (OtherUnit("umol/L", 25, 2000),),
    "Bilirubin": (OtherUnit("umol/L", 3, 600, whole=True), OtherUnit("umol/L", 40, 600)),
    "BUN": (OtherUnit("mmol/L (urea)", 0.5, 12, whole=False),),
    "Cholesterol": (OtherUnit("mmol/L", 1, 20),),
    "Albumin": (OtherUnit("g/L", 9, 70),),
    "Lactate": (OtherUnit("mg/dL", 10, 300),),
    "Platelets": (OtherUnit("cells/uL", 5000, 3e6),),
    "WBC": (OtherUnit("cells/uL", 800, 1e6),),
    "TroponinT": (OtherUnit("ng/L", 12, 1e5),),
    "TroponinI": (OtherUnit("ng/L", 100, 1e6),),
    "HCT": _FRACTION,
    "SaO2": _FRACTION,
    "PaO2": _KPA,
    "PaCO2": (OtherUnit("kPa", 1, 12),),
    "DiasABP": _KPA,
    "SysABP": _KPA,
    "MAP": _KPA,
    "NIDiasABP": _KPA,
    "NISysABP": _KPA,
    "NIMAP": _KPA,
}
