"""Units of PhysioNet 2012's variables: other ways to write them, and units that other hospitals use.

A median tells two units apart only where they lie far from each other. Where they overlap, as those of bilirubin and
urea do, it counts too whether values are whole numbers, as laboratories report them in one unit and not in the other.
"""

from __future__ import annotations

from tsimpute.datasets.base import OtherUnit

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
