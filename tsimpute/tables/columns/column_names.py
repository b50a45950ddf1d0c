"""What the name of a column says: series, quantities, values, units, instruments, offsets, record ids, remarks."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence

from tsimpute.tables.columns.time_names import plain

GROUP_NAMES = (
    "group", "id", "station", "stationid", "site", "siteid", "location", "locationid", "sensor", "sensorid", "device",
    "deviceid", "patient", "patientid", "record", "recordid", "subject", "subjectid", "stay", "stayid", "icustayid",
    "hadmid", "series", "seriesid", "unitid", "uniqueid", "participant", "participantid", "caseid", "encounterid",
    "meterid", "buoy", "patientunitstayid", "stationcode", "stationname", "sitecode", "sitename", "sitenum",
    "sitenumber", "siteno", "stationno", "stationnumber", "samplingpoint", "samplingpointid", "locationname",
    "monitorid", "personid", "mrn", "wban", "usaf", "admissionid", "turbine", "turbineid", "asset", "assetid",
    "machineid", "householdid", "userid", "uniquepid", "icustay", "usubjid", "subjid", "patid", "patno", "patnr",
    "ptid", "ptno", "patientno", "patientnr", "patientnumber", "patientennummer", "patientennr", "fallnummer", "fallnr",
    "subjectno", "subjectnumber", "participantno", "respondent", "respondentid", "childid", "animalid",
    "stationsid", "messstelle", "messstellennummer", "numposte",
)  # fmt: skip
_GROUP_ENDS = (
    "subjectreference", "patientreference", "stationid", "siteid", "locationid", "deviceid", "patientid", "stayid",
    "subjectid", "personid", "sensorid",
)  # fmt: skip
STAY_NAMES = (
    "stayid", "icustayid", "icustay", "patientunitstayid", "stay", "hadmid", "admissionid", "visitid", "caseid",
)  # fmt: skip
"""One person has several of these, and each is a record of its own."""
SITE_PARTS = (("statecode",), ("countycode",), ("sitenum", "sitenumber", "siteid", "siteno"))
"""Columns that name a station only together, as in air quality data of the US EPA."""
FEATURE_NAMES = (
    "feature", "parameter", "variable", "pollutant", "analyte", "item", "itemid", "measurement", "signal", "channel",
    "metric", "kpi", "tag", "tagname", "element", "quantity", "observable", "species", "determinand", "characteristic",
    "vital", "measure", "test", "lab", "sensortype", "field", "entityid", "indicator", "attribute", "property",
    "concept", "conceptid", "measurementconceptid", "loinc", "loinccode", "airpollutant", "observationtype",
    "observationidentifier", "observationname", "observationcode",
    "component", "komponente", "schadstoff", "stoff", "messgroesse", "messgre", "magnitud", "contaminante", "parametro",
    "parmetro", "parametre", "paramtre", "polluant", "inquinante", "grandeur", "grandezza",
)  # fmt: skip
_NUMBERED = ("feature", "parameter", "variable", "pollutant", "analyte", "item", "signal", "channel", "tag", "test")
QUANTITY_WORDS = (
    "parameter", "param", "pollutant", "analyte", "variable", "vital", "vitals", "vitalsign", "lab", "labtest",
    "kpi", "metric", "observable", "element", "determinand", "characteristic", "species", "component", "komponente",
    "schadstoff", "messgroesse", "messgre", "magnitud", "contaminante", "parametro", "parmetro", "parametre",
    "paramtre", "polluant", "inquinante",
)  # fmt: skip
"""Words that mean a quantity and nothing else, in contrast to a channel or an item, which may be an instrument."""
VALUE_NAMES = ("value", "val", "result", "reading", "valuenum", "y")
"""Values of any quantity, in the order of ``_VALUES``; each may also end a longer name."""
UNIT_NAMES = ("unit", "units", "uom", "valueuom", "einheit", "unidad", "unite", "unita", "eenheid")

_VALUES = (
    "valuenum", "valuenumeric", "numericvalue", "valueasnumber", "resultnumeric", "value", "val", "labresult", "result",
    "reading", "samplemeasurement", "datavalue", "measuredvalue", "obsvalue", "concentration", "amount", "observation",
    "measurement", "arithmeticmean", "wert", "messwert", "valeur", "valor", "valore", "waarde", "state", "y",
)  # fmt: skip
_VALUE_ENDS = ("stresn", "valuenum", "value", "result", "reading")
_RESULT_TEXTS = (
    "resulttext", "resulttxt", "valuetext", "valuetxt", "textvalue", "textresult", "stringvalue", "valuestr",
    "valuestring", "valueasstring", "orres", "stresc", "wertstring",
)  # fmt: skip
_BOUNDS = ("min", "max", "limit", "lower", "upper", "ref", "threshold", "std", "mean", "p", "missing", "target", "set")
_ENDS = (
    "parameter", "analyte", "pollutant", "observable", "labtest", "sensortype", "vitalsign", "variable", "testcd",
)  # fmt: skip
_LAST_WORDS = ("param", "test", "tag", "kpi", "measure", "vital", "metric", "quantity", "element", "field", "species")
_LABELS = ("name", "label", "code", "display", "description", "shortname", "longname", "id", "num", "nr")
_PLACES = (
    "station", "site", "location", "city", "town", "country", "county", "state", "region", "patient", "person",
    "subject", "user", "file", "device", "host", "network", "area", "zone", "building", "room", "plant", "vessel",
    "buoy", "river", "lake", "first", "last", "sur", "operator", "owner", "provider", "hospital", "ward", "street",
    "project", "study", "sheet", "table", "source", "instrument", "sensor", "logger", "farm", "well", "store",
    "customer", "company", "monitor", "place", "village", "catchment", "basin", "province", "district", "municipality",
    "asset", "machine", "turbine", "meter", "participant", "household", "time", "timezone", "tz", "stay", "unit", "",
)  # fmt: skip
_PLACE_WORDS = tuple(word for word in _PLACES if word not in ("", "unit", "time", "first", "last", "sur"))
_THINGS = ("sensor", "device", "meter", "logger", "instrument", "machine", "asset", "probe", "host", "node", "point")
_RECORDS = (
    "lab", "stay", "patient", "record", "row", "event", "note", "item", "order", "admission", "encounter",
    "visit", "specimen", "measurement", "vital", "chart", "nurs", "treatment", "infusion", "message",
    "observation", "sample", "test", "meter", "device", "customer", "user", "transaction", "caregiver",
    "provider",
)  # fmt: skip
_INSTRUMENTS = (
    "poc", "instrument", "channel", "replicate", "repeat", "rep", "height", "depth", "probe", "method",
    "methodcode", "sensor", "sensorid", "sensorheight", "sensordepth", "serial", "serialnumber", "samplingheight",
    "logger", "device", "deviceid", "layer", "duplicate", "sampleid", "specimenid", "position", "port", "side",
)  # fmt: skip
_SINCE = re.compile(
    r"cycles?|cycle(number|index|no)|(measured|recorded|observed|charted)at"
    r"|(min|mins|minutes|sec|seconds|hrs|hours|days)since\w*"
)
_OFFSET = re.compile(
    r".*offset(min|mins|minutes|sec|seconds|hours|hr|hrs)?"
    r"|(time|min|mins|minutes|sec|seconds|hrs|hours|days)since(adm\w*|icu\w*|hosp\w*|start|intime|birth|onset|entry)"
    r"|(hours|hrs|minutes|mins|days)(in|from|after|into)(icu|hospital|hosp|admission"
    r"|admit|intime|start|icuadmission|stay)?|(icu|stay|hosp|hospital|rel|relative|elapsed)(hour|hours|hr|hrs|minute"
    r"|minutes|mins|min|sec|seconds|time)|icula?os|iculos|trel|reltime|relt|(chart|obs|rel)t(ime)?(min|h|hr|s)"
)
_LATER = (
    "entry", "revised", "store", "verified", "update", "created", "creation", "modified", "ingest", "received",
    "lastchange", "resulttime", "issued", "upload", "imported", "inserted", "processed", "registered", "published",
    "deleted",
)  # fmt: skip
_REMARKS = (
    "flag", "flags", "qual", "quality", "qualifier", "qualifiers", "qc", "qa", "status", "valid", "validity",
    "verified", "verification", "verify", "warning", "error", "remark", "remarks", "comment", "comments", "note",
    "notes", "text", "result", "value", "symbol", "datacapture", "uncertainty", "stop", "stopped", "edited",
    "censored", "reason", "event", "alarm", "count", "obs", "nobs", "samples", "message", "lastupdated",
    "lastchanged", "priority", "sequence", "attribute", "attributes",
)  # fmt: skip
_GLUED_REMARKS = (
    "flag", "quality", "qualifier", "comment", "comments", "remark", "remarks", "text", "status", "by", "readtype",
    "readingtype",
)  # fmt: skip


def words(name: Hashable) -> list[str]:
    """A name in words, small letters: "Station ID", "stationId" and "station_id" are station, id."""
    parts = re.split(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])", str(name))
    return [word.lower() for word in parts if word]


def is_group_name(name: Hashable) -> bool:
    """Named as what tells series apart: in whole, or with a word before it, as "monitoring_location_id"."""
    bare = plain(name)
    return bare in GROUP_NAMES or bare.endswith(_GROUP_ENDS)


def is_sure_group_name(name: Hashable) -> bool:
    """Named as the number of a person, a stay or a place, and not as a sensor or a site, which may hold readings."""
    bare = plain(name)
    ends = ("id", "code", "num", "number", "patno", "ptno", "patientno", "subjectno", "participantno")
    return is_group_name(name) and (bare in STAY_NAMES or bare == "mrn" or bare.endswith(ends))


def is_feature_name(name: Hashable) -> bool:
    """Named as the column of a long table that holds the names of quantities."""
    bare, of_name = plain(name), words(name)
    if bare in FEATURE_NAMES or bare.endswith(_ENDS):
        return True
    return names_quantity(name) or (bool(of_name) and of_name[-1] in _LAST_WORDS)


def may_be_numbered(name: Hashable) -> bool:
    """Whether numbers in a column of that name may stand for quantities, as item 211 or parameter 44201 do."""
    bare = plain(name)
    return bare in _NUMBERED or bare.endswith(("id", "code", "num", "nr", "loinc"))


def names_quantity(name: Hashable) -> bool:
    """Named as quantities and nothing else: "labname", "Parameter Code", "vital", "pollutant_id"."""
    bare = plain(name)
    if bare in ("entityid", "measurementconceptid"):
        return True
    stem = next((bare.removesuffix(end) for end in sorted(_LABELS, key=len, reverse=True) if bare.endswith(end)), bare)
    return any(plain_stem in QUANTITY_WORDS for plain_stem in (bare, stem, *words(name)[-1:]))


def may_name_quantities(name: Hashable) -> bool:
    """Named as a name or a label of something that is no place: it may be one of quantities."""
    bare = plain(name)
    end = next((end for end in ("name", "label") if bare.endswith(end)), None)
    return bare in ("code", "display", "description", "label") or (
        end is not None and bare.removesuffix(end) not in _PLACES
    )


def is_place_name(name: Hashable) -> bool:
    """Named as a place, a person or a thing that has records of its own."""
    return is_group_name(name) or any(word in _PLACE_WORDS for word in words(name))


def is_thing_name(name: Hashable) -> bool:
    """Named as sensors, devices and the like: each may measure one quantity, or all of them the same."""
    return any(word in _THINGS for word in words(name))


def is_id_name(name: Hashable) -> bool:
    """Named as what tells records apart: "Station ID", "patient_id", "ICUSTAY_ID", "recordId", "labid", "Site"."""
    of_name = words(name)
    glued = re.fullmatch(rf"({'|'.join(_RECORDS)})\w*id", plain(name)) is not None
    return plain(name) in GROUP_NAMES or is_group_name(name) or glued or "id" in (of_name[:1] + of_name[-1:])


def value_rank(name: Hashable) -> int | None:
    """How plainly a name says that it holds the values of a long table, 0 = most plainly; None = it does not."""
    bare = plain(name)
    if bare in _VALUES:
        return _VALUES.index(bare)
    end = next((end for end in _VALUE_ENDS if bare.endswith(end)), None)
    if end is None or bare.removesuffix(end) in _BOUNDS:
        return None
    return len(_VALUES) + _VALUE_ENDS.index(end)


def is_result_text_name(name: Hashable) -> bool:
    """Named as the result of a measurement in words, as "value", "labresulttext", "VSORRES" or "stringvalue"."""
    bare = plain(name)
    return value_rank(name) is not None or bare.endswith(_RESULT_TEXTS)


def is_row_number_name(name: Hashable) -> bool:
    """Named as a running number, as "lfd_nr" or "Sequence No"."""
    running = ("nr", "no", "num", "number", "lfd", "lfdnr", "seq", "sequence", "idx", "index", "row", "line", "rec")
    return any(word in running for word in words(name))


def value_of_long(names: Sequence[Hashable]) -> Hashable | None:
    """Of the names of a table that looks long the one of its values; None where it does not, or several are alike."""
    if not any(map(is_feature_name, names)):
        return None
    ranked = [(rank, name) for name in names if (rank := value_rank(name)) is not None and not names_quantity(name)]
    best = [name for rank, name in ranked if rank == min(rank for rank, _ in ranked)]
    return best[0] if len(best) == 1 else None


def is_unit_name(name: Hashable) -> bool:
    """Named as the units of values: "unit", "valueuom", "Units of Measure"."""
    bare = plain(name)
    stem = next((bare.removesuffix(end) for end in ("units", "unit", "uom") if bare.endswith(end)), None)
    of_measure = re.fullmatch(r"units?ofmeasure(ment)?s?|measurementunits?|\w*measureunitcode", bare)
    of_value = stem in ("value", "result", "valuequantity", "pollutant", "parameter", "lab", "test")
    return bare in UNIT_NAMES or bare.endswith("stresu") or bool(of_measure) or of_value


def is_instrument_name(name: Hashable) -> bool:
    """Named as one of several instruments or positions at a place."""
    return plain(name) in _INSTRUMENTS or any(word in _INSTRUMENTS for word in words(name))


def is_offset_name(name: Hashable) -> bool:
    """Named as a time that counts from the start of a record: "labresultoffset", "minutes_since_admission"."""
    bare = plain(name)
    return bool(_OFFSET.fullmatch(bare)) and not re.match(r"(utc|gmt|tz|timezone|zero|bias|calibration)", bare)


def may_be_offset_name(name: Hashable) -> bool:
    """The same, or since something that may come again and again, as "minutes_since_rain"; or a count of cycles."""
    return is_offset_name(name) or bool(_SINCE.fullmatch(plain(name)))


def is_later_time(name: Hashable) -> bool:
    """Named as the time at which a value was entered, stored or changed, and not that at which it was measured."""
    return any(word in plain(name) for word in _LATER) and plain(name) not in ("lastchanged", "lastupdated")


def is_remark_name(name: Hashable) -> bool:
    """Named as what is said of one row: a flag, a status, a comment, a text of the result."""
    of_name = words(re.sub(r"(?i)(air|water)[ _]?quality", "", str(name)))
    starts = ("valid", "verif", "qualif", "flag", "comment", "remark", "status")
    is_remark = any(word in _REMARKS or word.startswith(starts) for word in of_name)
    return is_remark or plain(name).endswith(_GLUED_REMARKS)
