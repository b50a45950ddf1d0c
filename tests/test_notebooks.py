"""Every notebook runs from top to bottom, on less work than a reader gives it."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
LESS = {
    "01_quickstart": {"epochs=40": "epochs=5"},
    "02_fill_my_file": {"minutes=0.5": "minutes=0.2"},
    "03_icu_stays": {"n_samples=40": "n_samples=10"},
    "04_own_imputer": {"n_records: 160": "n_records: 60", "epochs: 30": "epochs: 4", "[2, 4, 8, 16]": "[2]"},
    "05_densities": {"n_steps = 3_000": "n_steps = 50", "n_records=5_000": "n_records=500"},
}
"""By notebook, what is replaced in its code: the cells are the same, and training and sampling take less time."""


def test_there_are_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == list(LESS)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*:RuntimeWarning:zmq")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for whole, less in LESS[path.stem].items():
        assert any(whole in cell.source for cell in cells), whole
        for cell in cells:
            cell.source = cell.source.replace(whole, less)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in cells for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs)
