"""The README is short, its examples run, and its numbers are those of the results; every module says what it is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsimpute.filling.files.fill_file import prepare_file
from tsimpute.filling.preparing.prepared import understood

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SIMPLE = ("linear", "LOCF", "PCHIP", "seasonal", "Kalman", "kNN", "chained, lags", "low rank", "missForest")


def test_every_module_says_what_it_is() -> None:
    for path in (ROOT / "tsimpute").rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        assert not source.strip() or ast.get_docstring(ast.parse(source)), f"{path} has no docstring"


def test_it_is_for_people_in_a_hurry() -> None:
    assert len(README.splitlines()) <= 150


def python_block(words: str) -> str:
    (example,) = [block for block in re.findall(r"```python\n(.*?)```", README, re.S) if words in block]
    return example


def test_research_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ten lines of Python in the README, on fewer epochs."""
    code = python_block("epochs=40")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(code.replace("epochs=40", "epochs=1"), names)
    assert names["samples"].n_samples == 100
    assert names["frame"].provenance.isin(["observed", "imputed"]).all()
    assert (tmp_path / "model.safetensors").is_file()


@pytest.mark.filterwarnings("ignore::tsimpute.errors.ImputationWarning")
def test_frame_example_runs_on_the_file_of_the_guides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    guide = (ROOT / "docs" / "howto" / "example_files.md").read_text(encoding="utf-8")
    exec(re.findall(r"```python\n(.*?)```", guide, re.S)[0], {})
    names: dict = {}
    exec(python_block("ti.impute(frame"), names)
    filled, frame = (names[name][["PM10", "NO2"]] for name in ("filled", "frame"))
    assert filled.notna().all().all()
    known = frame.notna() & (frame != -999)
    assert (filled == frame)[known].sum().sum() == known.sum().sum()
    assert (tmp_path / "stations.safetensors").is_file()


def test_the_guide_shows_what_is_said_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    guide, page = (
        (ROOT / "docs" / "howto" / name).read_text("utf-8") for name in ("example_files.md", "fill_a_file.md")
    )
    exec(re.findall(r"```python\n(.*?)```", guide, re.S)[0], {})
    said = understood(prepare_file(Path("stations.csv"), {}))
    shown = re.search(r"```text\nstations\.csv:\n(.*?) and are filled as gaps; \.\.\.\n```", page, re.S)
    assert shown is not None
    assert said.startswith(shown[1])


def test_readme_and_documentation_read_one_stations_csv() -> None:
    """In one way, and with the columns that the program of the guides writes."""
    texts = [README, *(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))]
    assert len({call for text in texts for call in re.findall(r'read_csv\("stations\.csv".*?\]\)', text)}) == 1
    commands = [line for text in texts for line in re.findall(r"(?m)^tsimpute .*stations\.csv.*", text)]
    named = {name for line in commands for name in re.findall(r"([\w.]+)=-?\d", line)}
    assert named == {"PM10", "NO2"}
    assert not [path for path in (ROOT / "notebooks").glob("*.ipynb") if "stations.csv" in path.read_text("utf-8")]


def metric(folder: str, imputer: str, rate: float | None, n_samples: int, fill: str = "scored") -> float:
    """CRPS over all features of the whole test part, in the results of a suite or run."""
    rows = pd.read_csv(ROOT / "results" / folder / "metrics.csv")
    rows = rows[(rows.metric == "crps") & (rows.feature == "all") & (rows.split == "test")]
    rows = rows[(rows.imputer == imputer) & (rows.n_samples == n_samples) & (rows.fill == fill)]
    rows = rows[(rows.protocol == "csdi") & (rows.fold == 0)]
    rows = rows[rows.dataset == ("pm25" if rate is None else "physionet2012")]
    rows = rows if rate is None else rows[rows.rate == rate]
    rows = rows[rows.epoch == rows.epoch.max()] if rows.epoch.notna().any() else rows
    values = rows.value.unique()
    assert len(values) == 1, (folder, imputer, rate, rows)
    return float(values[0])


def ratio(method: str) -> float:
    """Geometric mean over the rows of results/tables of the MAE relative to the best simple method's."""
    scores = pd.read_csv(ROOT / "results" / "tables" / "metrics.csv")
    mae = scores.pivot_table(index=["table", "holes"], columns="method", values="mae")
    return float(np.exp(np.log(mae[method] / mae[list(SIMPLE)].min(axis=1)).mean()))


def year(imputer: str) -> float:
    year_scores = pd.read_csv(ROOT / "results" / "pm25" / "filled_year" / "scores.csv")
    return float(year_scores[(year_scores.part == "test months") & (year_scores.imputer == imputer)].mae.iloc[0])


def test_its_figures_of_every_missing_cell_are_those_of_the_results() -> None:
    rows = pd.read_csv(ROOT / "results" / "every_missing_cell" / "metrics.csv")
    rows = rows[(rows.metric == "crps") & (rows.feature == "all") & (rows.n_samples == 20)]
    text = " ".join(README.split())
    stated_after = {
        "CFMI in two evaluations": "evaluations has CRPS", "Gaussian process": "process has",
        "Gaussian process with networks": "correct it,",
    }  # fmt: skip
    for method, before in stated_after.items():
        found = rows[rows.imputer == method].sort_values("rate", na_position="last").value
        *first, last, of_pm25 = (f"{value:.3f}" for value in found)
        (stated,) = re.findall(rf"{before} ([\d., and]+?) (?:on PhysioNet, |and )([\d.]+?)(?: on PM2.5)?[.:] ", text)
        assert re.findall(r"[\d.]+\d", " ".join(stated)) == [*first, last, of_pm25], method


def test_its_table_says_what_the_results_say() -> None:
    block = README.split("<!-- results -->")[1].strip().splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block]
    assert len(rows) == 6
    expected: list[list[float | None]] = []
    for rate in (0.1, 0.5, 0.9):
        simple = [metric("evidence", "linear", rate, 1), metric("gaussian", "Gaussian process", rate, 20)]
        expected.append([*simple, metric("evidence", "CSDI", rate, 20), metric("evidence", "CFMI", rate, 20)])
    names = {0.1: "Linear pool", 0.5: "Linear pool", 0.9: (name := "Gaussian process with networks"), None: name}
    best_here = [metric("every_missing_cell", name, rate, 20, fill="missing") for rate, name in names.items()]
    simple = [metric("evidence", "linear", None, 1), metric("gaussian", "Gaussian process", None, 20)]
    expected.append([*simple, metric("evidence", "CSDI", None, 20), metric("evidence", "CFMI", None, 20)])
    expected += [[ratio("linear"), ratio("gaussian"), None, None], [year("linear"), None, None, None]]
    last = [*best_here, ratio("TableImputer instant"), year("tsimpute impute")]
    for row, values, best in zip(rows, expected, last, strict=True):
        numbers = [*row[1:5], *re.findall(r", ([\d.]+)$", row[5])]
        for text, value in zip(numbers, [*values, best], strict=True):
            assert (text == "\N{EN DASH}") == (value is None), row
            if value is not None:
                digits = len(text.partition(".")[2])
                assert text == f"{value:.{digits}f}", (row, value)
