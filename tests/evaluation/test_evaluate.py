"""The harness: what the imputer gets to see, what is scored, in which units, and what is written."""

from __future__ import annotations

import csv
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from tsimpute.config import registry
from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Feature, Samples, Windows
from tsimpute.errors import ConfigError, DataError
from tsimpute.evaluation.ensembles import crps
from tsimpute.evaluation.evaluate import evaluate, rescore
from tsimpute.evaluation.metrics import METRICS, OVER_FEATURES
from tsimpute.evaluation.reporting import EvaluationContext, Report, Row
from tsimpute.scaling.standardizer import Standardizer

FEATURES = (Feature("HR", "bpm"), Feature("Temp", "degC"), Feature("Urine", "mL"))
CONTEXT = EvaluationContext(
    dataset="made up", split="test", protocol="clean", fold=2, mechanism="random", rate=0.1, process="noise",
    solver="none", n_steps=4, epoch=7, run="a, \"b\"",
)  # fmt: skip


@pytest.fixture
def windows() -> Windows:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(11, 3, 8)) * np.array([10.0, 1.0, 300.0])[:, None] + np.array([80.0, 37.0, 0.0])[:, None]
    values[rng.random(values.shape) < 0.3] = np.nan
    held_out = ~np.isnan(values) & (rng.random(values.shape) < 0.3)
    held_out[[2, 5]] = False  # records without a scored cell
    return Windows(values, np.tile(np.arange(8.0), (11, 1)), FEATURES, tuple(f"r{i}" for i in range(11)), held_out)


@dataclass
class Noise:
    """Draws N(centre, 1) in units of spread, from the seed and the record's own id; remembers what it was given."""

    name: str = "noise"
    dtype: type = np.float64
    seen: list[Windows] = field(default_factory=list)
    fills: list[np.ndarray | None] = field(default_factory=list)

    def impute(self, windows: Windows, n_samples: int, seed: int = 0, fill: np.ndarray | None = None) -> Samples:
        self.seen.append(windows)
        self.fills.append(fill)
        drawn = np.stack(
            [np.random.default_rng(derive_seed(seed, r)).normal(size=(n_samples, 3, 8)) for r in windows.record_ids], 1
        )
        drawn = drawn * np.array([10.0, 1.0, 300.0])[:, None] + np.array([80.0, 37.0, 0.0])[:, None]
        asked = ~windows.visible if fill is None else fill
        values = np.where(windows.visible, windows.values, np.where(asked, drawn, np.nan))
        return Samples(values, windows.visible, windows.features, windows.record_ids)


SCALER = Standardizer(np.array([80.0, 37.0, 0.0]), np.array([10.0, 1.0, 300.0]), np.array([9, 9, 9]))


def values_of(report: Report) -> dict[tuple[str, str], float | None]:
    return {(r.metric, r.feature): r.value for r in report.rows}


# -- what the imputer sees -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fill", ["scored", "missing"])
def test_the_imputer_sees_no_held_out_value(windows: Windows, fill: str) -> None:
    noise = Noise()
    evaluate(noise, windows, n_samples=3, fill=fill, records_at_once=4)
    place = {name: i for i, name in enumerate(windows.record_ids)}
    for chunk, mask in zip(noise.seen, noise.fills, strict=True):
        assert chunk.held_out is None
        index = [place[r] for r in chunk.record_ids]
        np.testing.assert_array_equal(chunk.values, np.where(windows.held_out_mask, np.nan, windows.values)[index])
        if fill == "scored":
            assert mask is not None
            np.testing.assert_array_equal(mask, windows.held_out_mask[index])
        else:
            assert mask is None
    seen = [r for chunk in noise.seen for r in chunk.record_ids]
    skipped = {"r2", "r5"} if fill == "scored" else set()
    assert seen == [r for r in windows.record_ids if r not in skipped]


@pytest.mark.parametrize("name", ["mean", "median", "locf", "linear"])
def test_held_out_values_reach_only_the_scores(windows: Windows, name: str) -> None:
    imputer = registry.make("imputers", name).fit(windows)
    clean = evaluate(imputer, windows, n_samples=2)
    poison = replace(windows, values=np.where(windows.held_out_mask, 1e9, windows.values))
    spoilt = evaluate(registry.make("imputers", name).fit(poison), poison, n_samples=2)
    # The imputer's answers are the same, so every error is that of the same answer to 1e9.
    answers = imputer.impute(windows, 1).values[0][windows.held_out_mask]
    assert spoilt.value("mae_median") == pytest.approx(np.abs(answers - 1e9).mean(), rel=1e-12)
    assert clean.value("mae_median") == pytest.approx(
        np.abs(answers - windows.values[windows.held_out_mask]).mean(), rel=1e-12
    )


# -- numbers -------------------------------------------------------------------------------------------------------


def test_scores_are_those_of_the_held_out_cells_in_each_unit(windows: Windows) -> None:
    samples = Noise().impute(windows.without_held_out(), 40, 3)
    per_cell = crps(samples.values, windows.values)
    std = SCALER.std[:, None]
    own, z = (evaluate(Noise(), windows, n_samples=40, seed=3, scaler=s) for s in (None, SCALER))
    assert own.value("crps") == pytest.approx(per_cell[windows.held_out_mask].mean(), rel=1e-12)
    assert z.value("crps") == pytest.approx((per_cell / std)[windows.held_out_mask].mean(), rel=1e-9)
    for k, feature in enumerate(FEATURES):
        expected = per_cell[:, k][windows.held_out_mask[:, k]].mean()
        assert own.value("crps", feature.name) == pytest.approx(expected, rel=1e-12)
    assert z.value("coverage_90", n_samples=40) == pytest.approx(0.9, abs=0.1)


def test_units_stand_in_every_row_and_mixed_ones_are_flagged(windows: Windows) -> None:
    own, z = (evaluate(Noise(), windows, n_samples=20, scaler=s) for s in (None, SCALER))
    assert {r.units for r in z.rows} == {"standardised", "1"}
    assert not any("different units" in r.note for r in z.rows)
    for row in own.rows:
        pure = row.metric == "ncrps" or row.metric.startswith("coverage")
        if pure:
            assert row.units == "1"
        elif row.feature == "all":
            assert row.units == "mixed"
        else:
            assert row.units == {f.name: f.unit for f in FEATURES}[row.feature]
        mixed = row.feature == "all" and not row.metric.startswith("coverage")
        assert ("different units" in row.note) == mixed
    same = replace(windows, features=tuple(Feature(n, "m") for n in "abc"))
    assert {r.units for r in evaluate(Noise(), same, n_samples=2).rows} == {"m", "1"}
    unknown = replace(windows, features=tuple(Feature(n) for n in "abc"))
    row = evaluate(Noise(), unknown, n_samples=2).where(metric="crps", feature="all").rows[0]
    assert (row.units, row.note) == ("", "over features of unknown units")


@pytest.mark.parametrize("scaler", [None, SCALER])
@pytest.mark.parametrize("fill", ["scored", "missing"])
def test_the_size_of_chunks_and_the_order_of_records_change_nothing(
    windows: Windows, scaler: Standardizer | None, fill: str
) -> None:
    expected = values_of(evaluate(Noise(), windows, n_samples=5, fill=fill, scaler=scaler, records_at_once=1))
    for size in (2, 3, 100):
        found = evaluate(Noise(), windows, n_samples=5, fill=fill, scaler=scaler, records_at_once=size)
        assert values_of(found) == expected
    turned = windows.select(np.random.default_rng(1).permutation(11))
    assert values_of(evaluate(Noise(), turned, n_samples=5, fill=fill, scaler=scaler)) == expected


def test_chunks_hold_fewer_records_where_samples_are_large(windows: Windows, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = values_of(evaluate(Noise(), windows, n_samples=5))
    of_record = 5 * 3 * 8 * 8
    for budget, most in ((3 * of_record, 3), (of_record - 1, 1), (10**9, 4)):
        monkeypatch.setattr("tsimpute.evaluation.evaluate._CHUNK_BYTES", budget)
        noise = Noise()
        assert values_of(evaluate(noise, windows, n_samples=5, records_at_once=4)) == expected
        assert max(len(chunk) for chunk in noise.seen) == most


def test_an_imputer_that_pays_for_each_call_gets_as_many_records_as_it_asks_for(
    windows: Windows, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Starts(Noise):
        records_at_once = 9

    expected = values_of(evaluate(Noise(), windows, n_samples=5))
    of_record = 5 * 3 * 8 * 8
    for budget, asked, most in ((10**9, None, 9), (10**9, 2, 2), (of_record // 4, None, 4), (of_record // 4, 3, 1)):
        monkeypatch.setattr("tsimpute.evaluation.evaluate._CHUNK_BYTES", budget)
        imputer = Starts()
        assert values_of(evaluate(imputer, windows, n_samples=5, records_at_once=asked)) == expected
        assert max(len(chunk) for chunk in imputer.seen) == most


def test_every_row_says_what_it_is(windows: Windows) -> None:
    report = evaluate(Noise(), windows, n_samples=6, seed=11, fill="missing", context=CONTEXT)
    assert len(report.rows) == len(METRICS) * 4 + len(OVER_FEATURES)
    for row in report.rows:
        for name, value in vars(CONTEXT).items():
            assert getattr(row, name) == (value or "noise")
        assert (row.n_samples, row.fill, row.seed) == (6, "missing", 11)
        assert row.seconds > 0
    row = report.where(metric="crps", feature="all").rows[0]
    assert (row.n_cells, row.n_records) == (windows.held_out_mask.sum(), 9)


def test_a_feature_that_the_imputer_never_saw_is_noted(windows: Windows) -> None:
    values = windows.values.copy()
    values[:, 2] = np.nan
    train = replace(windows, values=values, held_out=windows.held_out_mask & ~np.isnan(values))
    report = evaluate(registry.make("imputers", "mean").fit(train), windows, n_samples=2)
    noted = {r.feature for r in report.rows if "no training data for Urine" in r.note}
    assert noted == {"Urine"}


def test_progress_is_told(windows: Windows) -> None:
    told: list[tuple[int, int]] = []
    evaluate(Noise(), windows, n_samples=2, records_at_once=4, progress=lambda done, total: told.append((done, total)))
    assert told == [(4, 9), (8, 9), (9, 9)]


def test_simple_imputers_beat_nothing_but_run_in_the_same_harness(windows: Windows) -> None:
    for name in ("mean", "median", "locf", "linear"):
        report = evaluate(registry.make("imputers", name).fit(windows), windows, n_samples=3, scaler=SCALER)
        row = report.where(metric="crps", feature="all").rows[0]
        assert row.imputer == name
        assert row.value == pytest.approx(report.value("mae_median"), rel=1e-12)  # equal draws


# -- what is refused -----------------------------------------------------------------------------------------------


def test_windows_without_a_scored_cell_are_refused(windows: Windows) -> None:
    for empty in (replace(windows, held_out=None), replace(windows, held_out=np.zeros_like(windows.held_out_mask))):
        with pytest.raises(DataError, match="held-out cells"):
            evaluate(Noise(), empty, n_samples=2)


@pytest.mark.parametrize(
    "wrong", [{"n_samples": 0}, {"records_at_once": 0}, {"fill": "all"}, {"keep_samples": Path("samples.csv")}]
)
def test_senseless_requests_are_refused(windows: Windows, wrong: dict) -> None:
    with pytest.raises(ConfigError, match="expected"):
        evaluate(Noise(), windows, **{"n_samples": 2, **wrong})


def test_a_scaler_of_other_features_is_refused(windows: Windows) -> None:
    with pytest.raises(DataError, match="expected 3 features, came 2"):
        evaluate(Noise(), windows, n_samples=2, scaler=Standardizer(np.zeros(2), np.ones(2), np.ones(2, int)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: replace(s, values=s.values[:1]), "asked for 2 samples, it gave 1"),
        (lambda s: replace(s, values=s.values + 1), "shown cell"),
        (lambda s: replace(s, values=np.where(s.visible, s.values, np.nan)), "finite.*record 'r0'"),
        (lambda s: replace(s, record_ids=s.record_ids[::-1]), "record_ids"),
        (lambda s: replace(s, visible=~s.visible), "shown cells are not those"),
    ],
)
def test_an_imputer_that_breaks_its_contract_fails(windows: Windows, change, message: str, tmp_path: Path) -> None:
    class Broken(Noise):
        def impute(self, *args, **kwargs) -> Samples:
            return change(super().impute(*args, **kwargs))

    with pytest.raises(DataError, match=message):
        evaluate(Broken(), windows, n_samples=2, keep_samples=tmp_path / "samples.npz")
    assert not list(tmp_path.iterdir())  # nothing half written stays


# -- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scaler", [None, SCALER])
def test_numbers_are_recomputed_from_kept_samples_to_the_bit(
    windows: Windows, scaler: Standardizer | None, tmp_path: Path
) -> None:
    path = tmp_path / "kept" / "samples.npz"
    report = evaluate(
        Noise(), windows, n_samples=9, scaler=scaler, context=CONTEXT, records_at_once=2, keep_samples=path
    )
    assert rescore(path) == report
    assert [p.name for p in path.parent.iterdir()] == ["samples.npz"]
    with np.load(path, allow_pickle=False) as file:  # and they are the samples, in the data's units, where they belong
        draws = np.concatenate([file[f"draws_{i}"] for i in range(5)])
        truth = np.concatenate([file[f"truth_{i}"] for i in range(5)])
        ids = np.concatenate([file[f"record_ids_{i}"][file[f"record_{i}"]] for i in range(5)])
    n, k, step = np.nonzero(windows.held_out_mask)
    np.testing.assert_array_equal(truth, windows.values[n, k, step])
    assert ids.tolist() == [windows.record_ids[i] for i in n]
    expected = Noise().impute(windows.without_held_out(), 9).values[:, windows.held_out_mask].T
    np.testing.assert_array_equal(draws, expected)


def test_kept_samples_that_are_foreign_or_damaged_are_refused(windows: Windows, tmp_path: Path) -> None:
    path = tmp_path / "samples.npz"
    evaluate(Noise(), windows, n_samples=2, keep_samples=path)
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 3] ^= 0xFF
    for content in (b"", b"metric,value\n", whole[: len(whole) // 2], bytes(flipped)):
        path.write_bytes(content)
        with pytest.raises(DataError, match="kept by evaluate"):
            rescore(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("other.npy", b"")
    with pytest.raises(DataError, match="kept by evaluate"):
        rescore(path)
    with pytest.raises(DataError, match="kept by evaluate"):
        rescore(tmp_path / "absent.npz")


def many(windows: Windows) -> Report:
    """Two epochs of one method and a baseline, in one report; one metric undefined."""
    reports = [
        evaluate(Noise(), windows, n_samples=2, scaler=SCALER, seed=e, context=replace(CONTEXT, epoch=e))
        for e in (1, 2)
    ]
    baseline = replace(CONTEXT, process="", solver="", n_steps=None, epoch=None, rate=1 / 3, run="")
    reports += [
        evaluate(registry.make("imputers", "mean").fit(windows), windows, n_samples=1, context=baseline, scaler=SCALER)
    ]
    return Report.concat(reports)


def test_a_report_reads_back_equal(windows: Windows, tmp_path: Path) -> None:
    report = many(windows)
    csv_path, table_path = report.write(tmp_path / "results")
    assert Report.read(csv_path) == report
    assert Report.read(tmp_path / "results") == report
    assert sorted(p.name for p in (tmp_path / "results").iterdir()) == ["metrics.csv", "tables.md"]
    assert table_path.read_text(encoding="utf-8") == report.markdown()
    with csv_path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(report.rows)
    undefined = [line for line in lines if line["metric"] == "crps_fair" and line["imputer"] == "mean"]
    assert undefined
    assert all(line["value"] == "" and "undefined" in line["note"] for line in undefined)


def test_floats_are_written_with_all_digits(windows: Windows, tmp_path: Path) -> None:
    row = evaluate(Noise(), windows, n_samples=2).rows[0]
    odd = [0.1 + 0.2, 1e-300, 123456789.123456789, float(np.float64(1) / 3), np.float64(2) / 3]
    report = Report(tuple(replace(row, value=x) for x in odd))
    path, _ = report.write(tmp_path)
    assert [r.value for r in Report.read(path).rows] == odd


def test_concat_keeps_every_row_and_where_and_value_choose(windows: Windows) -> None:
    report = many(windows)
    assert len(report.rows) == 3 * (len(METRICS) * 4 + len(OVER_FEATURES))
    assert {r.epoch for r in report.where(imputer="noise").rows} == {1, 2}
    assert report.value("crps", epoch=2) == report.where(metric="crps", feature="all", epoch=2).rows[0].value
    with pytest.raises(DataError, match="there are 3"):
        report.value("crps")
    with pytest.raises(DataError, match="there are 0"):
        report.value("crps", epoch=99)
    with pytest.raises(DataError, match="no column 'epochs'"):
        report.where(epochs=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("dataset,", "data set,", 1), "expected the columns"),
        (lambda text: "", "expected the columns"),
        (lambda text: text.replace("\nmade up,test,clean,2", "\nmade up,test,clean,two", 1), "line 2: column 'fold'"),
        (lambda text: text + "a,b\n", "expected 23 cells, came 2"),
    ],
)
def test_a_damaged_table_is_refused_with_its_line(windows: Windows, change, message: str, tmp_path: Path) -> None:
    path, _ = many(windows).write(tmp_path)
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(DataError, match=message):
        Report.read(path)
    path.unlink()
    with pytest.raises(DataError, match="there is none"):
        Report.read(tmp_path)


def test_the_table_shows_each_evaluation_once_with_footnotes(windows: Windows) -> None:
    report = many(windows)
    text = report.markdown()
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 3
    assert text.startswith("dataset: made up; split: test; protocol: clean; fold: 2; mechanism: random")
    header = [cell.strip() for cell in lines[0].strip("|").split("|")]
    for line, (imputer, epoch) in zip(lines[2:], (("noise", 1), ("noise", 2), ("mean", None)), strict=True):
        cells = dict(zip(header, (cell.strip() for cell in line.strip("|").split("|")), strict=True))
        assert cells["imputer"] == imputer
        assert cells["epoch"] == ("-" if epoch is None else str(epoch))
        assert cells["rmse_mean"] == f"{report.value('rmse_mean', imputer=imputer, epoch=epoch):.4g}"
        assert cells["n_cells"] == str(windows.held_out_mask.sum())
        if imputer == "mean":
            assert cells["crps_fair"].startswith("undefined [")
            assert cells["crps"].endswith("]")
    assert text.count("one sample: equals the mean absolute error.") == 1
    assert "units: standardised" in text
    assert Report(()).markdown() == "No headline metric was measured.\n"


def test_a_context_of_wrong_kind_is_refused() -> None:
    assert EvaluationContext(rate=1).rate == 1
    for wrong in ({"fold": "0"}, {"run": 3}, {"process": None}, {"epoch": 1.5}, {"epoch": True}):
        with pytest.raises(DataError, match=f"{next(iter(wrong))} expects"):
            EvaluationContext(**wrong)


def test_the_columns_are_those_promised() -> None:
    assert ",".join(Row.__dataclass_fields__) == (
        "dataset,split,protocol,fold,mechanism,rate,imputer,process,solver,n_steps,n_samples,fill,epoch,run,metric,"
        "feature,units,value,n_cells,n_records,seed,seconds,note"
    )


def test_a_printed_report_is_a_short_table_with_method_sampler_and_samples(windows: Windows) -> None:
    context = replace(CONTEXT, solver="heun", n_steps=4)
    report = evaluate(Noise(), windows, n_samples=6, scaler=SCALER, context=context)
    text = str(report)
    assert text.splitlines()[0] == "noise: heun, 4 steps, 7 NFE per sample, epoch 7, 6 samples"
    row = report.where(metric="crps", feature="all").rows[0]
    assert f"{row.n_cells:,} cells of {row.n_records:,} records, units: standardised" in text
    of_features = [report.value("mae_median", feature.name) for feature in FEATURES]
    (line,) = [line for line in text.splitlines() if line.startswith("mae_median")]
    assert line.split()[1:] == [f"{report.value('mae_median'):.4g}", f"{sum(of_features) / 3:.4g}"]  # type: ignore[arg-type]
    assert len(text.splitlines()) == 4 + len(METRICS)
    frame = report.to_frame()
    assert frame.value.tolist() == pytest.approx([r.value for r in report.rows])
    in_data_units = str(evaluate(Noise(), windows, n_samples=1))
    assert in_data_units.splitlines()[0] == "noise, 1 sample"
    assert [line.split()[-1] for line in in_data_units.splitlines() if line.startswith("mae_median")] == ["-"]
    many = Report.concat(evaluate(Noise(), windows, n_samples=2, seed=seed) for seed in range(5))
    assert str(many) == many.markdown()


def test_rows_of_an_imputer_with_a_solver_name_it(windows: Windows) -> None:
    noise = Noise()
    noise.sampler_context = {"process": "p", "solver": "one_step, eta 0", "n_steps": 3, "epoch": 2}  # type: ignore[attr-defined]
    row = evaluate(noise, windows, n_samples=2).rows[0]
    assert (row.process, row.solver, row.n_steps, row.epoch, row.nfe) == ("p", "one_step, eta 0", 3, 2, 3)
