"""The laws of every data set, on its sample files, and its card; each file in tsimpute/datasets is under test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tsimpute.config.registry import available, make
from tsimpute.core.windows import Windows
from tsimpute.datasets.base import DatasetAdapter
from tsimpute.datasets.fetching import FileBased, find_root
from tsimpute.testing import Case, DoesNotApply, cases, subject

CARDS = Path(__file__).parents[2] / "datasets"
SAMPLES = CARDS / "samples"
HEADINGS = ["Licence", "Citation", "Sources", "Shape", "Units", "Caveats"]

pytestmark = pytest.mark.parametrize("name", available("datasets"))


def sample_root(adapter: DatasetAdapter) -> Path | None:
    return SAMPLES / adapter.name if isinstance(adapter, FileBased) else None


def load(name: str) -> Windows:
    adapter = make("datasets", name)
    return adapter.load(sample_root(adapter))


def card_text(name: str) -> str:
    return (CARDS / f"{name}.md").read_text()


def section(name: str, heading: str) -> str:
    return re.split(r"^## ", card_text(name).split(f"\n## {heading}\n")[1], flags=re.MULTILINE)[0].strip()


@pytest.mark.parametrize("case", cases("datasets"), ids=str)
def test_law(name: str, case: Case) -> None:
    data = subject("datasets", name, root=sample_root(make("datasets", name)))
    try:
        case.check(data)
    except DoesNotApply:
        assert not data.is_of_files


def test_name_is_the_file_name(name: str) -> None:
    assert make("datasets", name).name == name


def test_card_file_has_every_heading_filled(name: str) -> None:
    headings = re.findall(r"^## (.+)$", card_text(name), flags=re.MULTILINE)
    assert [heading for heading in headings if heading in HEADINGS] == HEADINGS
    assert all(len(section(name, heading)) > 10 for heading in HEADINGS)


def test_card_file_agrees_with_the_adapter(name: str) -> None:
    card, text = make("datasets", name).card, card_text(name)
    assert text.startswith(f"# {card.title}\n")
    assert card.licence in section(name, "Licence")
    assert ("SYNTHETIC" in text) == card.synthetic
    for source in card.sources:
        assert source.name in section(name, "Sources")
        assert source.url in section(name, "Sources")
        assert source.sha256 in section(name, "Sources")


def test_units_of_the_card_file_are_those_of_the_features(name: str) -> None:
    windows, units = load(name), section(name, "Units")
    rows = dict(re.findall(r"^\| ([^|]+?) +\| ([^|]+?) +\|", units, flags=re.MULTILINE))
    if rows.get("every feature") == "unknown":
        assert {feature.unit for feature in windows.features} == {""}
    elif "every station" in rows:
        assert {feature.unit for feature in windows.features} == {rows["every station"]}
    else:
        assert {feature.name: feature.unit for feature in windows.features} == {
            feature: unit for feature, unit in rows.items() if feature not in ("feature", "---")
        }


def test_loading_leaves_the_files_of_all_data_sets_alone(name: str) -> None:
    files = {path: path.read_bytes() for path in SAMPLES.rglob("*") if path.is_file()}
    load(name)
    assert {path: path.read_bytes() for path in SAMPLES.rglob("*") if path.is_file()} == files


def test_samples_are_found_by_name_in_a_folder_of_data_sets(name: str) -> None:
    root = find_root(name, SAMPLES)
    assert len(make("datasets", name).load(root)) == len(load(name))
