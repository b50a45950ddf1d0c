"""The sample files are ours: what lies in ``datasets/samples`` is what the functions here write, and nothing else.

To renew them: ``write_samples(Path("datasets/samples"))``.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

SAMPLES = Path(__file__).parents[2] / "datasets" / "samples"

# Mean and spread of what a made-up stay measures every hour, and of what it measures now and then.
HOURLY = {"HR": (85, 9), "SysABP": (120, 12), "DiasABP": (60, 7), "MAP": (80, 8), "Urine": (90, 40), "Temp": (37, 0.4)}
RARE = {"Na": (139, 4), "K": (4.1, 0.4), "pH": (7.4, 0.05), "Glucose": (130, 25), "GCS": (13, 1), "Lactate": (2, 0.6)}


def stay(record_id: int) -> str:
    """A made-up stay in the original format, with the oddities of real ones."""
    rng = np.random.default_rng(record_id)
    height, weight = (-1, -1) if record_id % 2 else (172.5, 80)
    rows = [f"00:00,{name},{value}" for name, value in zip(
        ("RecordID", "Age", "Gender", "Height", "ICUType", "Weight"), (record_id, 54, 1, height, 3, weight), strict=True
    )]  # fmt: skip
    if record_id == 900003:  # nothing but descriptors
        return "\n".join(["Time,Parameter,Value", *rows, ""])
    for hour in range(49):
        for name, (mean, sd) in HOURLY.items():
            if rng.random() < 0.7:
                rows.append(f"{hour:02}:00,{name},{mean + sd * rng.normal():.1f}")
        rows += [f"{hour:02}:00,MechVent,1"] * (hour == 5) + [f"{hour:02}:00,Temp,-1"] * (hour == 7)
        if hour < 48 and hour % 12 == 3:
            rows += [f"{hour:02}:30,{name},{mean + sd * rng.normal():.2f}" for name, (mean, sd) in RARE.items()]
            rows += [f"{hour:02}:45,HR,{85 + 9 * rng.normal():.0f}"] * 2
    return "\n".join(["Time,Parameter,Value", *rows, ""])


def pm25_tables(n_stations: int = 5) -> dict[str, str]:
    """Ground and holed table: stretches of a training, a validation and a test month, in the original format."""
    rng = np.random.default_rng(36)
    stretches = ((datetime(2014, 5, 1, 1), 60), (datetime(2014, 6, 1), 85), (datetime(2015, 1, 30), 48 + 20))
    header = ",".join(["datetime", *(f"{1001 + i:06}" for i in range(n_stations))])
    ground, missing = [header], [header]
    for start, hours in stretches:
        city = 60 * np.exp(0.4 * np.cumsum(rng.normal(size=hours)) / np.sqrt(hours))
        for hour in range(hours):
            stamp = f"{start + timedelta(hours=hour):%Y/%m/%d %H:%M:%S}"
            cells = [f"{value:.0f}" for value in city[hour] * np.exp(0.15 * rng.normal(size=n_stations))]
            cells = [cell if rng.random() > 0.1 else "" for cell in cells]
            holed = [cell if rng.random() > 0.2 else "" for cell in cells]
            ground.append(",".join([stamp, *cells]))
            missing.append(",".join([stamp, *holed]))
    return {"pm25_ground.txt": "\n".join([*ground, ""]), "pm25_missing.txt": "\n".join([*missing, ""])}


def uci_table() -> str:
    """Made-up flowers in the layout of the 24 tables: numbers, and the class last."""
    rng, rows = np.random.default_rng(24), []
    for kind in ("a", "b"):
        size = rng.normal(5 + 2 * (kind == "b"), 1, 12)
        rows += [",".join([f"{x:.1f}" for x in (s, s / 2 + 0.2, s - 1, 0.3 * s)] + [kind]) for s in size]
    return "\n".join(["sepal_length,sepal_width,petal_length,petal_width,target", *rows, ""])


def sample_files() -> dict[str, str]:
    stays = {f"physionet2012/set-a/{record_id}.txt": stay(record_id) for record_id in range(900001, 900007)}
    return stays | {f"pm25/{name}": text for name, text in pm25_tables().items()} | {"uci/iris.csv": uci_table()}


def write_samples(folder: Path) -> None:
    for name, text in sample_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, newline="\n")


def test_committed_samples_are_the_generated_ones() -> None:
    found = {path.relative_to(SAMPLES).as_posix(): path.read_text() for path in SAMPLES.rglob("*.*")}
    assert found == sample_files()
