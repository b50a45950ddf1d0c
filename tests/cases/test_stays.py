"""Folders of stays in intensive care as hospitals save them: stays saved twice, files that are no stays."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd
import pytest

import tsimpute as ti
from tsimpute.errors import DataError
from tsimpute.filling.files.fill_file import prepare_file
from tsimpute.filling.files.outputs import write_cells
from tsimpute.filling.preparing.prepared import Prepared, understood

HEAD = "Time,Parameter,Value\n"


def stay(number: int, *, start: int = 70, hours: int = 6, ids: bool = True) -> str:
    about = f"00:00,RecordID,{number}\n00:00,Age,54\n" if ids else ""
    values = [f"{h:02}:07,HR,{start + h}\n{h:02}:07,GCS,15\n{h:02}:07,Temp,{36 + h / 10}\n" for h in range(hours)]
    return HEAD + about + "".join(values[h] for h in range(hours) if h % 3 != 1)


def saved(folder: Path, files: dict[str, str | bytes]) -> Path:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def prepared(folder: Path) -> Prepared:
    return prepare_file(folder, {"model": "physionet2012"})


def test_stays_with_one_line_or_descriptors_only_are_kept_and_get_nothing(tmp_path: Path) -> None:
    found = prepared(
        saved(
            tmp_path / "stays",
            {
                "1.txt": stay(1), "2.txt": stay(2, start=80), "3.txt": HEAD + "00:00,RecordID,3\n",
                "4.txt": HEAD + "00:00,RecordID,4\n00:00,Age,60\n", "5.txt": HEAD + "03:20,HR,77\n",
                "6.txt.gz": gzip.compress(stay(6, start=90).encode()), "7.txt": stay(7, hours=300),
            },
        )
    )  # fmt: skip
    assert [len(series.times) for series in found.panel.series] == [6, 6, 1, 1, 1, 6, 300]
    gaps = [int((series.values != series.values).sum()) for series in found.panel.series]
    filled = [
        int((~absent & ~series.observed).sum())
        for series, absent in zip(found.panel.series, found.table.absent, strict=True)
    ]
    assert gaps[2] == 3
    assert filled[2:5] == [0, 0, 0]
    assert filled[0] == 6


def test_a_stay_that_is_saved_twice_is_named(tmp_path: Path) -> None:
    again = saved(tmp_path / "again", {"1.txt": stay(1), "2.txt": stay(2), "2.txt.gz": gzip.compress(stay(2).encode())})
    text = prepared(again).text
    assert "1 file has the content of another one (2.txt.gz is 2.txt)" in text
    assert "RecordID: the same in several files (2 in 2.txt, 2.txt.gz)" in text
    part = saved(tmp_path / "part", {"1.txt": stay(1), "2.txt": stay(2), "3.txt": stay(2, start=90)})
    text = prepared(part).text
    assert "RecordID: the same in several files (2 in 2.txt, 3.txt)" in text
    assert "content of another" not in text
    text = prepared(saved(tmp_path / "right", {"1.txt": stay(1), "2.txt": stay(2, start=80)})).text
    assert "several files" not in text


@pytest.mark.parametrize("content", ["", HEAD, "These are stays.\nSee the manual.\n", bytes(range(256))])
def test_a_file_that_is_no_stay_is_refused_by_name_with_what_to_do(content: str | bytes, tmp_path: Path) -> None:
    folder = saved(tmp_path / "stays", {"1.txt": stay(1), "9.txt": content})
    with pytest.raises(DataError, match=r"(?s)9\.txt: expected .*if it is none of these, move it"):
        prepared(folder)


def test_features_without_rows_in_a_stay_are_said_to_get_none(tmp_path: Path) -> None:
    without_temp = "".join(line for line in stay(2, start=80).splitlines(True) if "Temp" not in line)
    found = prepare_file(
        saved(tmp_path / "stays", {"1.txt": stay(1), "2.txt": without_temp}), {"model": "physionet2012"}
    )
    text = understood(found)
    assert "Temp: never observed in 1 of 2 series (2), which hold no row of it: none is added" in text
    assert "no_information" not in text


@pytest.mark.parametrize("freq", ["D", "h", "500ms"])
@pytest.mark.filterwarnings("ignore::tsimpute.ImputationWarning")
def test_cells_are_written_in_pieces_as_they_would_be_in_one(
    freq: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tsimpute.filling.files.outputs._ROWS", 5)
    times = pd.date_range("2024-03-01", periods=12, freq=freq)
    values = [None if i % 4 == 2 else float(i % 7) for i in range(12)]
    parts = [pd.DataFrame({"site": s, "time": times, "a": values, "b": values[::-1]}) for s in "xyz"]
    imputer = ti.TableImputer(effort="trial", n_samples=2, calibrate=False, missing_codes=(), group="site")
    found = imputer.fit_draw(pd.concat(parts), progress=False)
    write_cells(found, tmp_path / "cells.csv")
    assert (tmp_path / "cells.csv").read_text() == found.cells.to_csv(index=False, float_format="%.8g")
