"""Chunks of Dask and blocks of Zarr stores are filled as the whole table is, to the bit, by whoever computes them."""

from __future__ import annotations

import os
import pickle
import signal
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

dask = pytest.importorskip("dask")
xr = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")

import tsimpute as ti  # noqa: E402
from tsimpute.core.panel import PROVENANCE  # noqa: E402
from tsimpute.errors import DataError, MissingExtraError, NotFittedError  # noqa: E402
from tsimpute.filling.files.lazy import draw_lazily, impute_lazily  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::tsimpute.ImputationWarning")

SETTINGS = {"effort": "trial", "n_samples": 4, "missing_codes": [-999.0], "limits": {"*": (0, 50)}, "max_gap": 6}
N, T = 5, 30


def stations() -> Any:
    """Two features of five stations, in other orders of dimensions and dtypes; a code, a long gap, an outlier."""
    rng = np.random.default_rng(0)
    values = np.exp(rng.normal(size=(N, T, 2)))
    values[rng.random(values.shape) < 0.2] = np.nan
    values[1, 3, 0], values[2, 5:15, 1], values[3, 4, 1], values[4, :, 0] = -999, np.nan, 77, np.nan
    return xr.Dataset(
        {
            "x": (("station", "time"), values[..., 0].astype("f4"), {"units": "m"}),
            "y": (("time", "station"), values[..., 1].T),
            "height": ("station", np.arange(N)),
        },
        {"station": [3, 1, 4, 2, 9], "time": pd.date_range("2020", periods=T, freq="h")},
        {"title": "five stations"},
    )


@pytest.fixture(scope="module")
def fitted() -> ti.TableImputer:
    return ti.TableImputer(**SETTINGS).fit(stations())


@pytest.fixture(scope="module")
def eager(fitted: ti.TableImputer) -> ti.Imputation:
    return fitted.draw(stations())


def codes_of(words: np.ndarray) -> np.ndarray:
    return np.vectorize(PROVENANCE.index, otypes=[np.uint8])(words)


@pytest.mark.parametrize("chunks", [{"station": 1}, {"station": 2, "time": 7}, {"station": N}, {"station": (1, 3, 1)}])
def test_what_chunks_give_is_what_the_whole_table_gives(fitted, eager, chunks) -> None:
    given = stations().chunk(chunks)
    lazy = draw_lazily(given, fitted)
    assert lazy.table.chunksizes["station"] == given.chunksizes["station"]
    with dask.config.set(scheduler="sync"):
        table, quantiles, provenance = dask.compute(lazy.table, lazy.quantiles, lazy.provenance)
    xr.testing.assert_identical(table, eager.table)
    assert [table[name].dtype for name in ("x", "y")] == ["f4", "f8"]
    assert table["x"].values.tobytes() == eager.table["x"].values.tobytes()
    for k, name in enumerate(("x", "y")):
        assert quantiles[name].dims == ("quantile", *given[name].dims)
        found = quantiles[name].transpose("quantile", "station", "time").values
        wanted = np.stack([filling.quantiles[:, k] for filling in eager.fillings], 1)
        there = (provenance[name] != 0).transpose("station", "time").values
        assert (found[:, there].tobytes()) == wanted[:, there].astype(found.dtype).tobytes()
        assert (provenance[name].values == codes_of(eager.provenance[name].values)).all()
    assert list(quantiles["quantile"].values) == [0.05, 0.5, 0.95]
    assert set(np.unique(provenance["x"])) == {0, 1, 3}
    assert provenance["y"].attrs["flag_meanings"].split()[3] == "left_empty"
    assert (provenance["y"].sel(station=4)[5:15] == 3).all()


def test_codes_need_no_naming_chunk_by_chunk() -> None:
    table = stations()
    table["x"][0, 7], table["x"][4, 9] = -999, -999  # now certain, but not so in the chunk of each station
    imputer = ti.TableImputer(effort="trial", n_samples=3, calibrate=False).fit(table)
    assert imputer.codes_ == {"x": (-999.0,)}
    whole = imputer.draw(table)
    assert (whole.provenance["x"].values != "observed")[table["x"].values == -999].all()
    lazily = impute_lazily(table.chunk(station=1), imputer).compute()
    xr.testing.assert_identical(lazily, whole.table)


@pytest.mark.parametrize("labelled", [True, False])
def test_data_arrays_with_and_without_labels_give_what_the_whole_gives(labelled) -> None:
    dataset = stations()
    array = xr.concat([dataset["x"].astype("f8"), dataset["y"].T], "feature").transpose("station", "feature", "time")
    array = array.assign_coords(feature=["x", "y"]).rename("q") if labelled else array.drop_vars("station").rename("q")
    imputer = ti.TableImputer(**SETTINGS, feature="feature", calibrate=False).fit(array)
    with dask.config.set(scheduler="sync"):
        found = impute_lazily(array.chunk(station=2), imputer).compute()
    xr.testing.assert_identical(found, imputer.impute(array))


@pytest.mark.parametrize("chunks", [{"lat": 1, "lon": 2}, {"lat": 2, "lon": 1}])
def test_groups_of_two_dimensions_are_named_as_in_the_whole(chunks) -> None:
    values = np.random.default_rng(1).normal(size=(3, T, 2))
    values[:, ::4] = np.nan
    times = pd.date_range("2020", periods=T, freq="h")
    grid = xr.Dataset({"u": (("lon", "time", "lat"), values)}, {"lon": [10.5, 11, 11.5], "time": times})
    grid["v"] = grid["u"].transpose("lat", "lon", "time") ** 2
    imputer = ti.TableImputer(effort="trial", n_samples=3, missing_codes=[], calibrate=False).fit(grid)
    with dask.config.set(scheduler="sync"):
        xr.testing.assert_identical(impute_lazily(grid.chunk(chunks), imputer).compute(), imputer.impute(grid))


@pytest.mark.parametrize("timed", [True, False])
def test_one_record_without_groups_and_one_without_times_are_filled(timed) -> None:
    one = stations().isel(station=0, drop=True)
    one = one if timed else one.drop_vars("time")
    imputer = ti.TableImputer(**SETTINGS, calibrate=False).fit(one)
    with dask.config.set(scheduler="sync"):
        xr.testing.assert_identical(impute_lazily(one.chunk(time=4), imputer).compute(), imputer.impute(one))


@pytest.mark.threads(2)
def test_threads_that_fill_side_by_side_change_nothing(fitted, eager) -> None:
    with dask.config.set(scheduler="threads", num_workers=3):
        found = impute_lazily(stations().chunk(station=1), fitted).compute()
    xr.testing.assert_identical(found, eager.table)
    assert torch.get_num_threads() == 2


class Source:
    """Chunks that are made when asked for; counts them, and how many are there at once."""

    def __init__(self) -> None:
        self.made, self.alive, self.most = 0, 0, 0

    def table(self) -> Any:
        source, dataset = self, stations()
        dataset["x"] = dataset["x"].astype("f8")

        def make(values: np.ndarray) -> np.ndarray:
            out = values.copy()
            source.made, source.alive = source.made + 1, source.alive + 1
            source.most = max(source.most, source.alive)
            weakref.finalize(out, source.gone)
            return out

        for name in ("x", "y"):
            dataset[name] = dataset[name].chunk(station=1)
            dataset[name].data = dataset[name].data.map_blocks(make, meta=np.empty((0, 0)))
        return dataset

    def gone(self) -> None:
        self.alive -= 1


def test_nothing_is_read_before_it_is_asked_for_and_then_each_chunk_once_and_few_at_a_time(fitted) -> None:
    source = Source()
    lazy = draw_lazily(source.table(), fitted)
    assert source.made == 0
    with dask.config.set(scheduler="sync"):
        dask.compute(lazy.table, lazy.quantiles, lazy.provenance)
    assert source.made == 2 * N
    assert source.most <= 4


def test_the_model_stands_in_the_graph_once_and_tasks_are_small(fitted) -> None:
    lazy = impute_lazily(stations().chunk(station=1), fitted)
    model = len(pickle.dumps(fitted))
    sizes = sorted(len(pickle.dumps(task)) for task in dict(lazy.__dask_graph__()).values())
    assert sizes[-1] > model / 2
    assert sizes[-2] < model / 20


def test_what_is_given_is_not_changed(fitted) -> None:
    given = stations()
    before, settings = given.copy(deep=True), fitted.get_params()
    impute_lazily(given, fitted).compute()
    xr.testing.assert_identical(given, before)
    assert fitted.get_params() == settings
    assert given.chunks == {}


def test_what_cannot_be_told_from_chunks_is_refused_before_anything_is_read(fitted) -> None:
    table = Source().table()
    with pytest.raises(NotFittedError, match="expected fit"):
        impute_lazily(table, ti.TableImputer())
    with pytest.raises(DataError, match="1 are missing"):
        impute_lazily(table.isel(time=[n for n in range(T) if n != 4]), fitted)
    with pytest.raises(DataError, match="absent from the table: y"):
        impute_lazily(table[["x"]], fitted)
    with pytest.raises(DataError, match="'3' comes more than once"):
        impute_lazily(table.assign_coords(station=[3, 1, 3, 2, 9]), fitted)
    with pytest.raises(DataError, match="Rename it"):
        impute_lazily(table.assign_coords(quantile=1), fitted)


def test_whole_numbers_stay_whole_and_are_refused_by_name_where_one_would_have_to_hold_nothing(fitted) -> None:
    whole = stations().fillna(-999).astype("i8")
    wholly = pickle.loads(pickle.dumps(fitted)).set_params(max_gap=None)
    xr.testing.assert_identical(impute_lazily(whole.chunk(station=2), wholly).compute(), wholly.impute(whole))
    emptying = pickle.loads(pickle.dumps(fitted)).set_params(drop_invalid=True, max_gap=0)
    for leaving_gaps in (fitted, emptying):
        with pytest.raises(DataError, match=r"[xy]: expected that int64 holds .* takes float64"):
            impute_lazily(whole.chunk(station=5), leaving_gaps).compute(scheduler="sync")


# ----------------------------------------------------------------------------------------------------------------------


def test_without_dask_the_message_says_what_to_install(fitted, monkeypatch) -> None:
    monkeypatch.setattr("tsimpute.tables.sources.files.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r'pip install "dask\[distributed\]" zarr'):
        impute_lazily(stations(), fitted)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_store_is_filled_into_another_chunk_by_chunk(fitted, eager, zarr_format, tmp_path) -> None:
    plain: dict[str, Any] = {"consolidated": False}
    stations().chunk(station=1).to_zarr(tmp_path / "in.zarr", zarr_format=zarr_format, **plain)
    with dask.config.set(scheduler="sync"):
        found = draw_lazily(xr.open_zarr(tmp_path / "in.zarr", **plain), fitted)
        found.table.drop_encoding().to_zarr(tmp_path / "out.zarr", **plain)
        found.quantiles.drop_encoding().to_zarr(tmp_path / "out.zarr", group="quantiles", mode="a", **plain)
    xr.testing.assert_equal(xr.open_zarr(tmp_path / "out.zarr", **plain).load(), eager.table)
    quantiles = xr.open_zarr(tmp_path / "out.zarr", group="quantiles", **plain).load()
    with dask.config.set(scheduler="sync"):
        xr.testing.assert_equal(quantiles, found.quantiles.compute())


# ----------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster) as client:
        yield client


def test_a_worker_killed_in_the_middle_changes_nothing(client, fitted, eager, tmp_path) -> None:
    flag = tmp_path / "killed"

    def read(values: np.ndarray, block_id: tuple[int, ...] = ()) -> np.ndarray:
        if block_id == (3, 0) and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return values

    table = stations().chunk(station=1)
    table["x"].data = table["x"].data.map_blocks(read, dtype="f4", meta=np.empty((0, 0), "f4"))
    found = impute_lazily(table, fitted).compute()
    assert flag.exists()
    xr.testing.assert_identical(found, eager.table)
