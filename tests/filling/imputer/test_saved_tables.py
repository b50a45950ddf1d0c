"""All that a table imputer learnt is kept in one file, and fills the next table as the first one was filled."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tsimpute as ti
from tsimpute.cli.commands import main
from tsimpute.core.limits import Limits
from tsimpute.errors import CheckpointError, ConfigError, DataError, NotFittedError
from tsimpute.filling.files.fill_file import fill_file
from tsimpute.models.checkpoints import read_model
from tsimpute.system.run import Run

pytestmark = pytest.mark.filterwarnings("ignore::tsimpute.ImputationWarning")
TRIAL: dict[str, Any] = {"effort": "trial", "n_samples": 5}


def month(number: int, stations: tuple[str, ...] = ("x", "y"), n_hours: int = 150, codes: bool = True) -> pd.DataFrame:
    """Hours of a month at some stations, with gaps, an id, and a code for missing."""
    rng = np.random.default_rng(number)
    parts = []
    for station in stations:
        times = pd.date_range(f"2024-{number:02d}-01", periods=n_hours, freq="h")
        wave = 20 + 5 * np.sin(np.arange(n_hours) / 4) + rng.normal(size=n_hours)
        part = pd.DataFrame({"when": times, "station": station, "a": wave, "b": 2 * wave + rng.normal(size=n_hours)})
        part.loc[rng.random(n_hours) < 0.2, "a"] = np.nan
        part.loc[rng.random(n_hours) < 0.1, "b"] = np.nan
        if codes:
            part.loc[[5, 9], "b"] = -999.0
        parts.append(part.assign(note="ok"))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module")
def fitted() -> ti.TableImputer:
    settings = {"limits": {"a": (-100, 200), "b": (-2000, 400)}, "quantiles": (0.1, 0.9), "group": "station"}
    return ti.TableImputer(**TRIAL, **settings, keep_samples=True, max_gap=30).fit(month(1, n_hours=400))


@pytest.fixture(scope="module")
def saved(fitted: ti.TableImputer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "whatever.name"
    fitted.save(path)
    return path


def same(one: ti.Imputation, two: ti.Imputation) -> None:
    pd.testing.assert_frame_equal(one.table, two.table, check_exact=True)
    pd.testing.assert_frame_equal(one.provenance, two.provenance)
    pd.testing.assert_frame_equal(one.cells, two.cells, check_exact=True)
    for first, second in zip(one.fillings, two.fillings, strict=True):
        assert first.quantiles.tobytes() == second.quantiles.tobytes()
        assert first.samples is not None
        assert second.samples is not None
        assert first.samples.tobytes() == second.samples.tobytes()


def test_what_is_loaded_draws_what_was_saved_to_the_bit(fitted: ti.TableImputer, saved: Path, tmp_path: Path) -> None:
    loaded = ti.TableImputer.load(str(saved))
    assert loaded.calibration_ == fitted.calibration_
    assert loaded.calibration_.n_cells >= 100
    assert (loaded.codes_, loaded.scores_) == (fitted.codes_, fitted.scores_)
    assert loaded.codes_ == {"b": (-999.0,)}
    assert loaded.table_.clock == fitted.table_.clock
    assert loaded.table_.limits == {"a": Limits(-100, 200), "b": Limits(-2000, 400)}
    assert loaded.get_params() == fitted.get_params()
    for table in (month(1), month(2, ("z",), 80)):
        same(loaded.draw(table), fitted.draw(table))
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == saved.read_bytes()


def test_settings_of_all_kinds_come_back(fitted: ti.TableImputer, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "limits": {"a": Limits(0, integer=True), "*": (None, 1e6)}, "missing_codes": {"b": [-1, 0.5], "*": "certain"},
        "quantiles": np.array([0.1, 0.9]), "features": ("a", "b"), "time": ["when"], "group": pd.Index(["station"]),
        "units": {"a": "m"}, "dayfirst": np.bool_(True), "seed": np.int64(3), "duplicates": "mean",
    }  # fmt: skip
    imputer = ti.TableImputer(**TRIAL, **given, calibrate=False)
    prepared = imputer.prepared(month(1))
    imputer.fit_first(prepared, Run())
    imputer.save(tmp_path / "file")
    assert ti.TableImputer.load(tmp_path / "file").settings == imputer.settings


def test_it_is_one_file_without_code_and_a_model_file_too(fitted: ti.TableImputer, saved: Path) -> None:
    model = ti.GenerativeImputer.load(saved)
    for one, two in zip(model.network_.parameters(), fitted.imputer_.network_.parameters(), strict=True):
        assert one.equal(two)
    assert set(read_model(saved)[1]["table"]) >= {"settings", "calibration", "codes", "limits", "roles", "clock"}


def test_a_model_counts_as_fitted(fitted: ti.TableImputer, saved: Path) -> None:
    table = month(2)
    filled = ti.TableImputer(fitted.imputer_, group="station", n_samples=5, missing_codes=-999).impute(table)
    assert filled[["a", "b"]].notna().all(axis=None)
    empty = pd.DataFrame(np.nan, pd.date_range("2024", periods=48, freq="h"), ["HR"]).reset_index()
    with pytest.raises(DataError, match="features: expected at least 3 of the model's 35"):
        ti.TableImputer(model="physionet2012").impute(empty)
    with pytest.raises(NotFittedError, match="expected fit"):
        ti.TableImputer().save("nowhere")


def test_the_next_table_is_filled_as_the_first_was_understood(fitted: ti.TableImputer, saved: Path) -> None:
    new = month(2, ("z",), 80)
    new.loc[:, "a"] = np.nan  # alone it would hold nothing, and be passed through
    new.loc[[3], "b"] = -999.0  # alone it would not be certain
    new.loc[[5, 9], "b"] = 41.0
    new = new[["b", "note", "station", "a", "when"]]
    found = ti.TableImputer(saved).draw(new)
    assert found.provenance.loc[3, "b"] == "imputed"
    assert found.table[["a", "b"]].notna().all(axis=None)
    assert list(found.cells.columns)[-2:] == ["q0.1", "q0.9"]
    assert found.fillings[0].levels == (0.1, 0.9)
    kept = ti.TableImputer(saved, n_samples=5, missing_codes="none").draw(new)
    assert kept.table.loc[3, "b"] == -999.0


def test_its_calibration_holds_unless_a_new_one_is_asked_for(saved: Path, fitted: ti.TableImputer) -> None:
    table = month(3)
    told: list[str] = []
    settings = {"n_samples": 5, "progress": lambda what, done, total: told.append(what)}
    first = ti.impute(table, model=saved, **settings)
    assert set(told) == {"imputing"}
    again = ti.TableImputer(saved, n_samples=5)
    pd.testing.assert_frame_equal(first, again.impute(table))
    assert again.calibration_ == fitted.calibration_
    told.clear()
    ti.impute(table, model=saved, recalibrate=True, **settings)
    assert set(told) == {"fitting", "imputing", "measuring"}
    plain = ti.TableImputer(saved, n_samples=5, calibrate=False)
    plain.impute(table)
    assert plain.calibration_.n_cells == 0
    other = ti.TableImputer(saved, n_samples=5, quantiles=(0.2, 0.8))
    with pytest.raises(ConfigError, match=r"levels that fit has calibrated, came 0\.2.*recalibrate"):
        other.impute(table)


def test_a_table_of_another_step_or_with_other_columns_is_refused(saved: Path) -> None:
    daily = month(2).assign(when=lambda f: pd.Timestamp("2024-01-01") + (f["when"] - f["when"].min()) * 24)
    for table, message in (
        (daily, "expected a step of 1 hour, as in a table .* came 1 day"),
        (month(2).drop(columns="b"), "absent from the table: b"),
        (month(2).assign(c=np.arange(300) % 7 + 0.5), "not known to the model: c"),
        (month(2).rename(columns={"a": "A"}), "absent from the table: a; not known to the model: A"),
    ):
        with pytest.raises(DataError, match=message):
            ti.TableImputer(saved, n_samples=5).impute(table)
        with pytest.raises(DataError, match=message):
            ti.TableImputer.load(saved).impute(table)
    named = ti.TableImputer(saved, n_samples=5, features=["a", "b"]).impute(month(2).assign(c=0.5))
    assert (named["c"] == 0.5).all()


def test_foreign_and_damaged_files_are_refused(fitted: ti.TableImputer, saved: Path, tmp_path: Path) -> None:
    fitted.imputer_.save(tmp_path / "model")
    with pytest.raises(CheckpointError, match=r"a model alone. Use TableImputer\(model="):
        ti.TableImputer.load(tmp_path / "model")
    content = saved.read_bytes()
    (tmp_path / "cut").write_bytes(content[: len(content) // 2])
    (tmp_path / "text").write_text("a,b\n")
    for name in ("cut", "text", "absent"):
        with pytest.raises(CheckpointError):
            ti.TableImputer.load(tmp_path / name)


def test_a_folder_is_no_file_to_save_in(fitted: ti.TableImputer, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected the name of a file to write, came the folder"):
        fitted.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_a_model_has_not_learnt_to_predict_is_refused(tmp_path: Path) -> None:
    table = month(1, ("x",), codes=False).assign(c=7.0)
    table.loc[3, "c"] = np.nan
    imputer = ti.TableImputer(**TRIAL, calibrate=False, limits=(-500, 500)).fit(table)
    imputer.save(tmp_path / "model")
    for name, why in (("nothing", "expected features of the table"), ("c", "which it knows as 'constant'. Fit on")):
        with pytest.raises(ConfigError, match=f"predict: .*{why}"):
            ti.impute(table, model=tmp_path / "model", predict=[name], n_samples=3)
    assert ti.impute(table, model=tmp_path / "model", predict=["a"], n_samples=3)["c"].eq(7).all()


def test_columns_that_have_no_plain_name_cannot_be_saved(tmp_path: Path) -> None:
    table = month(1)[["a", "b"]].rename(columns={"a": pd.Timestamp("2024-01-01")})
    imputer = ti.TableImputer(**TRIAL, calibrate=False).fit(table)
    with pytest.raises(ConfigError, match=r"save: expected .* names of columns that are texts or numbers"):
        imputer.save(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_the_next_file_is_filled_with_the_file_that_the_first_one_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (1, 2):
        month(number, n_hours=700, codes=False).to_csv(tmp_path / f"m{number}.csv", index=False, float_format="%.2f")
    limits = {"limits": {"*": (-100, 500)}, "quantiles": (0.1, 0.5, 0.9)}
    fill_file(tmp_path / "m1.csv", tmp_path / "o1.csv", TRIAL | limits)
    (tmp_path / "o1.model.safetensors").rename(tmp_path / "march.safetensors")
    model = ["--model", str(tmp_path / "march.safetensors")]
    main(["impute", str(tmp_path / "m2.csv"), "-o", str(tmp_path / "o2.csv"), *model])
    said = capsys.readouterr().out
    assert "5 draws a cell" in said  # as many as it was calibrated with
    date = ti.TableImputer.load(tmp_path / "march.safetensors").table_.date
    assert f"hidden cells of m1.csv, learnt on {date}" in said
    assert "limits: * -100:500" in said
    assert "measured on" not in said
    page = (tmp_path / "o2.report.html").read_text(encoding="utf-8")
    assert "of m1.csv, learnt on" in page
    assert list(pd.read_csv(tmp_path / "o2.cells.csv"))[-3:] == ["q0.1", "q0.5", "q0.9"]
    expected = ti.TableImputer.load(tmp_path / "march.safetensors").draw(pd.read_csv(tmp_path / "m2.csv"))
    found = pd.read_csv(tmp_path / "o2.cells.csv")
    np.testing.assert_allclose(found["value"], expected.cells["value"], rtol=1e-6)
    main(["impute", str(tmp_path / "m2.csv"), "-o", str(tmp_path / "o3.csv"), *model, "--recalibrate"])
    said = capsys.readouterr().out
    assert "measured on" in said
    assert "of m1.csv" not in said
    with warnings.catch_warnings(action="error"):
        ti.TableImputer.load(tmp_path / "march.safetensors")


def test_an_imputer_that_needs_no_model_is_saved_too(tmp_path: Path) -> None:
    hours = pd.date_range("2024-01-01", periods=90, freq="h")
    table = pd.DataFrame({"a": 7.5, "b": 3.0}, hours).mask(np.arange(180).reshape(90, 2) % 7 == 0)
    imputer = ti.TableImputer(**TRIAL).fit(table)
    assert imputer.imputer_ is None
    imputer.save(tmp_path / "rules")
    loaded = ti.TableImputer.load(tmp_path / "rules")
    assert loaded.kinds_ == imputer.kinds_
    expected = pd.DataFrame({"a": 7.5, "b": 3.0}, hours)
    for filled in (loaded.impute(table), ti.impute(table, model=tmp_path / "rules")):
        pd.testing.assert_frame_equal(filled, expected, check_freq=False)
    with pytest.raises(CheckpointError, match="a table imputer without a network"):
        ti.GenerativeImputer.load(tmp_path / "rules")


def small(n_hours: int = 120) -> pd.DataFrame:
    """So small that nothing is calibrated."""
    return month(3, ("x",), n_hours, codes=False)[["when", "a", "b"]]


def said(call: Any) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return "; ".join(str(one.message) for one in caught)


def test_a_model_is_not_measured_on_the_cells_that_it_has_learnt(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"effort": "instant", "n_samples": 20}
    first = ti.TableImputer(**settings).fit(small(), progress=False)
    assert not first.calibration_.n_cells
    first.save(tmp_path / "m.safetensors")
    same_table, other, anew = (ti.TableImputer(model=tmp_path / "m.safetensors") for _ in range(3))
    known = said(lambda: same_table.fit_draw(small(), progress=False))
    assert "learnt from this very table: the errors are those that were measured when it was learnt" in known
    assert same_table.scores_ == first.scores_
    assert "this very table" not in said(lambda: other.fit_draw(small().assign(a=small()["a"] + 1), progress=False))
    assert other.scores_ != first.scores_
    anew.set_params(recalibrate=True)
    text = said(lambda: anew.fit_draw(small(), progress=False))
    assert "the errors are of cells that it has learnt, and are larger elsewhere" in text
    assert float(anew.scores_[-1]["MAE"]) < float(first.scores_[-1]["MAE"])
