"""The laws of a data set; each takes the adapter and the folder of its files."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tsimpute.core.limits import Limits
from tsimpute.core.windows import Windows
from tsimpute.datasets.base import DatasetAdapter
from tsimpute.datasets.fetching import FileBased
from tsimpute.errors import ConfigError, SourceError
from tsimpute.testing._laws import DoesNotApply, Laws, expect, expect_name, expect_refused

LAWS = Laws()


@dataclass(frozen=True)
class DataSet:
    """A data set under test. ``root`` holds its files, or few of them; None where it is generated."""

    make: Callable[[], DatasetAdapter]
    root: Path | None = None

    @property
    def is_of_files(self) -> bool:
        return isinstance(self.make(), FileBased)

    def load(self) -> Windows:
        return self.make().load(self.root)

    def files(self) -> dict[Path, bytes]:
        under = [] if self.root is None else self.root.rglob("*")
        return {path: path.read_bytes() for path in under if path.is_file()}


def subject(make: Callable[[], DatasetAdapter], root: Path | str | None = None) -> DataSet:
    """What the laws of this kind take.

    Args:
        root: the folder of the data set's files, or of a small sample of them; None where it is generated.
    """
    data = DataSet(make, None if root is None else Path(root))
    if data.is_of_files and (data.root is None or not data.root.is_dir()):
        raise ConfigError(
            f"datasets: expected root=, the folder of {make().name}'s files, for its laws; came {root!r}."
        )
    return data


@LAWS.law()
def name_and_card_of_the_adapter_are_complete(data: DataSet) -> None:
    """It has a name, and a card with title, licence and citation, and sources with checksums where there are files."""
    expect_name(data.make())
    card = data.make().card
    for field in ("title", "licence", "citation"):
        expect(getattr(card, field), f"a {field} of the card", repr(getattr(card, field)))
    expect(card.synthetic != data.is_of_files, f"card.synthetic {not data.is_of_files}", card.synthetic)
    expect(bool(card.sources) == data.is_of_files, "sources where there are files, else none", card.sources)
    for one in card.sources:
        expect(one.url.startswith("https://"), f"a url of https:// for {one.name}", repr(one.url))
        expect(re.fullmatch("[0-9a-f]{64}", one.sha256), f"64 hexadecimal digits of {one.name}", repr(one.sha256))
    unknown = set(card.limits) - {feature.name for feature in data.load().features} - {"*"}
    expect(not unknown, "limits of features of the data set", sorted(unknown))
    expect(Limits() not in card.limits.values(), "limits that limit something", card.limits)


@LAWS.law()
def two_loads_are_equal(data: DataSet) -> None:
    """Two loads give the same to the bit: arrays, features, ids and counts of changes."""
    first, second = data.load(), data.load()
    for field in ("values", "times", "held_out", "split", "pattern_donor"):
        np.testing.assert_array_equal(getattr(first, field), getattr(second, field), err_msg=field)
    for field in ("features", "record_ids", "changes"):
        one, other = getattr(first, field), getattr(second, field)
        expect(one == other, f"{field} as of the first load, {one}", other)


@LAWS.law()
def records_are_whole(data: DataSet) -> None:
    """Some cells are observed, all units are named or none, changes are counts, a split has its three parts."""
    windows = data.load()
    expect(len(windows) > 1, "more than one record", len(windows))
    dtypes = (windows.values.dtype, windows.times.dtype)
    expect(dtypes == (np.float64, np.float64), "values and times of float64", dtypes)
    expect(windows.observed.any(), "an observed cell", "none")
    unnamed = [feature.name for feature in windows.features if not feature.unit]
    expect(len(unnamed) in (0, windows.n_features), "a unit of every feature", f"none of {', '.join(unnamed)}")
    counts = all(isinstance(count, int) and count > 0 for count in windows.changes.values())
    expect(counts, "counts above 0 as changes", windows.changes)
    if windows.split is not None:
        parts = set(windows.split.tolist())
        expect(parts == {"train", "valid", "test"}, "a split into train, valid and test", sorted(parts))


@LAWS.law()
def records_can_be_written_to_without_touching_each_other(data: DataSet) -> None:
    """Records are no views of one series: writing to one leaves its neighbours as they are."""
    windows = data.load()
    before = windows.values[1].copy()
    windows.values[0] = 0.0
    np.testing.assert_array_equal(windows.values[1], before)


@LAWS.law()
def loading_leaves_the_files_and_global_random_state_alone(data: DataSet) -> None:
    """Loading changes no file under the root, and does not draw from the global generator."""
    files = data.files()
    state = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    data.load()
    same = np.array_equal(np.random.get_state()[1], state)  # type: ignore[index]  # noqa: NPY002
    expect(same, "numpy's global generator as it was", "another state")
    after = data.files()
    changed = [path.name for path in files.keys() | after.keys() if files.get(path) != after.get(path)]
    expect(not changed, "files as they were", f"others: {', '.join(sorted(changed))}")


@LAWS.law()
def no_files_is_a_source_error_that_helps(data: DataSet) -> None:
    """A folder without the files is a SourceError that names the folder and says how to fetch them."""
    if not data.is_of_files:
        raise DoesNotApply("it is generated")
    adapter = data.make()
    with tempfile.TemporaryDirectory() as folder:
        expect_refused(
            SourceError,
            lambda: adapter.load(Path(folder)),
            rf"(?s){re.escape(folder)}.*tsimpute fetch {re.escape(adapter.name)}",
        )
