"""What every data set keeps, on its sample files; a new file in ``tsimpute/datasets`` is under test at once."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tsimpute.containers import Windows
from tsimpute.datasets import available, make
from tsimpute.datasets.base import DatasetAdapter
from tsimpute.datasets.fetching import FileBased, find_root
from tsimpute.errors import SourceError
from tsimpute.limits import Limits

CARDS = Path(__file__).parents[2] / "datasets"
SAMPLES = CARDS / "samples"
HEADINGS = ["Licence", "Citation", "Sources", "Shape", "Units", "Caveats"]

pytestmark = pytest.mark.parametrize("name", available())


def sample_root(adapter: DatasetAdapter) -> Path | None:
    return SAMPLES / adapter.name if isinstance(adapter, FileBased) else None


def load(name: str) -> Windows:
    adapter = make(name)
    return adapter.load(sample_root(adapter))


def card_text(name: str) -> str:
    return (CARDS / f"{name}.md").read_text()


def section(name: str, heading: str) -> str:
    return re.split(r"^## ", card_text(name).split(f"\n## {heading}\n")[1], flags=re.MULTILINE)[0].strip()


def test_name_is_the_file_name(name: str) -> None:
    assert make(name).name == name


def test_card_of_the_adapter_is_complete(name: str) -> None:
    card = make(name).card
    assert card.title
    assert card.licence
    assert card.citation
    assert card.synthetic != isinstance(make(name), FileBased)
    assert bool(card.sources) == isinstance(make(name), FileBased)
    for source in card.sources:
        assert source.url.startswith("https://")
        assert re.fullmatch("[0-9a-f]{64}", source.sha256)
    assert set(card.limits) <= {feature.name for feature in load(name).features} | {"*"}
    assert Limits() not in card.limits.values()


def test_card_file_has_every_heading_filled(name: str) -> None:
    headings = re.findall(r"^## (.+)$", card_text(name), flags=re.MULTILINE)
    assert [heading for heading in headings if heading in HEADINGS] == HEADINGS
    assert all(len(section(name, heading)) > 10 for heading in HEADINGS)


def test_card_file_agrees_with_the_adapter(name: str) -> None:
    card, text = make(name).card, card_text(name)
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
    if "every station" in rows:
        assert {feature.unit for feature in windows.features} == {rows["every station"]}
    else:
        assert {feature.name: feature.unit for feature in windows.features} == {
            feature: unit for feature, unit in rows.items() if feature not in ("feature", "---")
        }


def test_two_loads_are_equal(name: str) -> None:
    first, second = load(name), load(name)
    for field in ("values", "times", "held_out", "split", "lends_pattern"):
        np.testing.assert_array_equal(getattr(first, field), getattr(second, field))
    assert (first.features, first.record_ids, first.changes) == (second.features, second.record_ids, second.changes)


def test_records_are_whole(name: str) -> None:
    """Beyond what ``Windows`` checks itself: something is observed, units are named, changes are counts."""
    windows = load(name)
    assert len(windows) > 1
    assert windows.values.dtype == windows.times.dtype == np.float64
    assert windows.observed.any()
    assert np.isnan(windows.values).any()
    assert all(feature.unit for feature in windows.features)
    assert all(isinstance(count, int) and count > 0 for count in windows.changes.values())
    if windows.split is not None:
        assert set(windows.split.tolist()) == {"train", "valid", "test"}


def test_records_can_be_written_to_without_touching_each_other(name: str) -> None:
    """No views of one series: filling one record must not fill its neighbours."""
    windows = load(name)
    before = windows.values[1].copy()
    windows.values[0] = 0.0
    np.testing.assert_array_equal(windows.values[1], before)


def test_loading_leaves_the_files_and_global_random_state_alone(name: str) -> None:
    files = {path: path.read_bytes() for path in SAMPLES.rglob("*") if path.is_file()}
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    load(name)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert {path: path.read_bytes() for path in SAMPLES.rglob("*") if path.is_file()} == files


def test_samples_are_found_by_name_in_a_folder_of_data_sets(name: str) -> None:
    root = find_root(name, SAMPLES)
    assert len(make(name).load(root)) == len(load(name))


def test_no_files_is_a_source_error_that_helps(name: str, tmp_path: Path) -> None:
    adapter = make(name)
    if isinstance(adapter, FileBased):
        with pytest.raises(SourceError, match=rf"(?s){re.escape(str(tmp_path))}.*tsimpute fetch {name}"):
            adapter.load(tmp_path)
