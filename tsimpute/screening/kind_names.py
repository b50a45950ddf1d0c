"""What the name of a column says of its values: a code, an id, a counter, something that does not change."""

from __future__ import annotations

import re

_CODES = ("code", "codes", "flag", "flags", "qc", "qf", "qn", "statuswort", "statusword")
_WEATHER = ("ww", "wawa", "weather", "presentweather", "pastweather", "wetter", "tempssensible")
"""Names in whole of weather as numbers of a table of codes (WMO 4677), as QN above is DWD's level of quality."""
_STATES = (
    "status", "quality", "class", "mode", "state", "type", "category", "event", "stage", "stages", "phase",
    "rhythm", "typ", "zustand", "qualität", "qualitaet",
    "qualitätsniveau", "qualitaetsniveau", "statut", "état", "etat", "qualité", "qualite", "estado", "calidad", "stato",
    "qualità", "kwaliteit", "kvalitet", "validity", "validation", "verification",
    "品質情報", "均質番号", "品質", "質控碼", "质控码", "状态", "狀態",
)  # fmt: skip
_OUTCOMES = ("label", "outcome", "death", "dead", "died", "deceased", "mortality", "survived", "diagnosis")
_DOSES = (
    "insulin", "bolus", "dose", "doses", "dosage", "carb", "carbs", "carbohydrate", "carbohydrates", "meal", "meals",
    "food", "intake", "injection", "medication", "medicine", "drug", "transfusion", "cho", "puff", "puffs", "rescue",
    "reliever", "tablet", "tablets", "pill", "pills", "dosis", "kohlenhydrate", "mahlzeit", "tabletten", "glucides",
    "insuline", "insulina", "carboidrati", "carbohidratos", "repas", "comida", "koolhydraten",
)  # fmt: skip
_DRUGS = (
    "norepinephrine", "noradrenaline", "norepi", "norad", "epinephrine", "adrenaline", "dopamine", "dobutamine",
    "vasopressin", "phenylephrine", "milrinone", "levosimendan", "vasopressor", "vasopressors", "pressor", "inotrope",
    "propofol", "midazolam", "fentanyl", "sufentanil", "remifentanil", "morphine", "ketamine", "dexmedetomidine",
    "rocuronium", "cisatracurium", "heparin", "amiodarone", "nitroglycerin", "labetalol", "nicardipine", "esmolol",
    "furosemide", "infusion", "perfusor", "noradrenalin", "adrenalin", "dobutamin", "dopamin", "arterenol",
)  # fmt: skip
_LEVELS = ("level", "levels", "conc", "concentration", "plasma", "serum", "anti", "urine")
_MEASURED_QUALITIES = ("air", "water", "sleep", "signal", "link", "sound", "image", "sperm")
_IDS = ("id", "ids", "uid", "uuid", "guid")
_SEQUENCES = (
    "index", "idx", "seq", "sequence", "seqno", "seqnum", "row", "rownum", "rowno", "rownumber", "record", "recordno",
    "recnum", "recno", "serial", "serialno", "key", "obs", "entry", "no", "nr", "num", "number", "line", "lineno",
)  # fmt: skip
_COUNTERS = (
    "counter", "cumulative", "cum", "cumul", "cumulated", "accumulated", "accum", "acc", "total", "totals", "totalizer",
    "totaliser", "odometer", "meter", "kwh", "mwh", "wh", "today", "mileage", "lifetime", "import", "export",
    "zählerstand", "zaehlerstand", "kumuliert", "gesamtertrag", "cumulé", "cumulée", "compteur", "cumulata", "cumulato",
    "contatore", "acumulado", "acumulada", "contador", "meterstand", "tellerstand", "累積", "积算", "累计", "積算",
)  # fmt: skip
_DESCRIPTORS = (
    "age", "gender", "sex", "height", "ethnicity", "race", "latitude", "lat", "longitude", "lon", "lng", "elevation",
    "elev", "altitude", "alt", "icutype", "birthyear", "yob", "bmi", "capacity",
)  # fmt: skip
_DIRECTIONS = (
    "direction", "dir", "wdir", "winddir", "winddirection", "wd", "drct", "mwd", "bearing", "heading", "azimuth",
    "richtung", "windrichtung", "windrichting", "dirvent", "dirviento", "vindretning", "direção", "direcao",
    "dirección", "direccion", "direzione", "dirwind",
)  # fmt: skip
_TEMPERATURES = (
    "t", "temp", "temps", "temperature", "tmax", "tmin", "tavg", "tmean", "tair", "dewpoint", "dew", "dewp", "atmp",
    "wtmp", "celsius", "degc", "fahrenheit", "degf", "chill", "setpoint",
)  # fmt: skip


def words_of_name(name: str) -> list[str]:
    """The words of a name in lower case, without units in brackets and without numbers at the end.

    Example:
        >>> words_of_name("SensorStatus_2"), words_of_name("Energy total (kWh)"), words_of_name("TA_F_QC")
        (['sensor', 'status'], ['energy', 'total'], ['ta', 'f', 'qc'])
    """
    bare = re.sub(r"[(\[{].*?[)\]}]", " ", name)
    words = re.split(r"[\W_]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", bare)
    words = [word.lower() for word in words if word]
    while len(words) > 1 and words[-1].isdigit():
        words.pop()
    return words


def named_code(name: str) -> bool:
    """Named as codes are, however many there are: temp_flag, QC_temp, WMO code, windqc, FC_SSITC_TEST."""
    words = words_of_name(name)
    if not words:
        return False
    ends = [re.sub(r"\d+$", "", words[0]), re.sub(r"\d+$", "", words[-1])]
    coded = any(end in _CODES for end in ends) or ends[1].endswith(("flag", "flags", "code", "codes", "qc"))
    return coded or "ssitc" in words or "".join(words) in _WEATHER


def named_state(name: str) -> bool:
    """Named as states and classes are, which have few values: pump_status, quality, hvac mode, door state."""
    words = words_of_name(name)
    if not words or (words[-1] == "quality" and words[-2:-1] and words[-2] in _MEASURED_QUALITIES):
        return False
    return words[-1] in _STATES or words[-1].endswith(("status", "quality"))


def named_outcome(name: str) -> bool:
    """Named as what is to be foretold and was never measured: SepsisLabel, outcome, death."""
    words = words_of_name(name)
    return bool(words) and words[-1] in _OUTCOMES


def named_dose(name: str) -> bool:
    """Named as what is given or taken now and then: insulin_u, Carbs (g), bolus, dose."""
    return any(word in _DOSES for word in words_of_name(name))


def named_drug(name: str) -> bool:
    """Named as a drug that runs for hours, and not as its level in blood: norepinephrine_rate, Propofol (mg/h)."""
    words = words_of_name(name)
    return any(word in _DRUGS for word in words) and not any(word in _LEVELS for word in words)


def scale_of_name(name: str) -> tuple[int, int] | None:
    """The lowest and highest grade of a scale that a name gives: "Mood (1-5)", "pain 0-10"; None = it gives none."""
    match = re.search(r"(?:^|[\s(\[_])([01])\s?(?:-|\u2013|to|bis)\s?(\d{1,2})(?:$|[)\]])", name)
    return (int(match[1]), int(match[2])) if match and int(match[2]) > 1 else None


def named_id(name: str) -> bool:
    """Named as ids are: RecordID, id_patient."""
    words = words_of_name(name)
    return bool(words) and (words[0] in _IDS or words[-1] in _IDS)


def named_sequence(name: str) -> bool:
    """Named as what numbers rows: index, seq, Record No."""
    words = words_of_name(name)
    return bool(words) and len(words) <= 2 and words[-1] in _SEQUENCES


def named_counter(name: str) -> bool:
    """Named as counters are: energy_total, odometer, rain_today, kWh."""
    return any(word in _COUNTERS for word in [*words_of_name(name), *re.split(r"[\W_]+", name.lower())])


def named_descriptor(name: str) -> bool:
    """Named as what does not change in a series: Age, Gender, latitude."""
    words = words_of_name(name)
    return bool(words) and (words[-1] in _DESCRIPTORS or "".join(words) in _DESCRIPTORS)


def named_temperature(name: str, unit: str) -> bool:
    """Named as what may fall below 0 although it has not: temp, TMAX, dew point."""
    plain = [re.sub(r"\d+$", "", word) for word in words_of_name(name)]
    return any(word in _TEMPERATURES for word in plain) or unit.strip("° ").lower() in ("c", "f", "degc", "degf")


def named_direction(name: str) -> bool:
    """Named as directions are: WDIR, wind_direction_deg, heading, 风向."""
    return any(word in _DIRECTIONS for word in words_of_name(name)) or "风向" in name or "風向" in name


def named_tens_of_direction(name: str) -> bool:
    """Named as weather services name the wind's direction in tens of degrees: D, DD."""
    return name.strip().lower() in ("d", "dd")
