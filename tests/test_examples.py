"""The examples in the docstrings of public names run and give what they say."""

from __future__ import annotations

import doctest
from typing import Any

import pytest

import tsimpute as ti
from tsimpute.accessors import Accessor

GIVEN_BACK = {"Batch", "Condition", "EvaluationContext", "Imputation", "Report", "Samples"}
"""What users get and do not make."""

NEEDS_DASK = {"draw_lazily", "impute_lazily"}

CALLED: dict[str, Any] = {name: getattr(ti, name) for name in ti.__all__ if name not in GIVEN_BACK}


@pytest.mark.parametrize("name", [*CALLED, "Accessor"])
def test_the_example_of_a_public_name_gives_what_it_says(name: str) -> None:
    if name in NEEDS_DASK:
        pytest.importorskip("dask")
        pytest.importorskip("zarr")
    found = doctest.DocTestFinder(recurse=False).find(CALLED.get(name, Accessor), name)
    assert any(test.examples for test in found), f"{name}: an example is wanted"
    failures: list[str] = []
    for test in found:
        doctest.DocTestRunner(verbose=False).run(test, out=failures.append)
    assert not failures, "".join(failures)
