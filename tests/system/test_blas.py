"""Linear algebra takes one thread where that is asked for, and as many as before afterwards."""

from __future__ import annotations

import threading

import pytest
import scipy.linalg  # noqa: F401
from threadpoolctl import ThreadpoolController, threadpool_info

from tsimpute.gaussian.maps import Records
from tsimpute.gaussian.model import fit
from tsimpute.system import blas
from tsimpute.system.blas import one_blas_thread


def threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def several(monkeypatch: pytest.MonkeyPatch):
    for name in blas._CHOICES:
        monkeypatch.delenv(name, raising=False)
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        yield


def test_one_thread_inside_and_as_before_afterwards() -> None:
    before = threads()
    with one_blas_thread():
        assert threads() == {1}
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == {1}
    assert threads() == before
    with pytest.raises(ValueError, match="of the work"), one_blas_thread():
        raise ValueError("of the work")
    assert threads() == before


def test_of_several_threads_the_first_one_limits_and_lifts() -> None:
    before, inside, leave = threads(), threading.Event(), threading.Event()

    def work() -> None:
        with one_blas_thread():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=work)
    with one_blas_thread():
        thread.start()
        assert inside.wait(10)
        assert threads() == {1}
    assert threads() == before
    leave.set()
    thread.join()
    assert threads() == before
    with one_blas_thread():
        assert threads() == {1}


def test_the_choice_of_the_user_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    before = threads()
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    with one_blas_thread():
        assert threads() == before


def test_the_gaussian_process_is_fitted_in_one_thread() -> None:
    import numpy as np

    seen = set[int]()
    values = np.random.default_rng(0).normal(size=(2, 200)).cumsum(1)
    records = Records((values,), (np.arange(200.0),), 1.0)
    fit(records, progress=lambda done, total: seen.update(threads()))
    assert seen == {1}
