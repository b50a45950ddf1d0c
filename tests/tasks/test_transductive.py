"""Training and test records are the same: no leak, exact counts, missing at random in the strict sense, odd tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import chisquare

from tsimpute.config.settings import NetworkConfig, ProtocolConfig, TrainingConfig
from tsimpute.core.limits import Limits
from tsimpute.core.windows import Feature, Windows
from tsimpute.errors import ConfigError, DataError
from tsimpute.experiments.leakage import NO_LEAK, leakage_of, scaler_moves
from tsimpute.experiments.runs import make_task
from tsimpute.imputers.generative import GenerativeImputer
from tsimpute.imputers.simple import MeanImputer
from tsimpute.scaling.standardizer import Standardizer
from tsimpute.tasks.protocols import LEFT_EMPTY, NEVER_SHOWN, OUTSIDE, transductive
from tsimpute.tasks.table_missingness import TABLE_MECHANISMS, ampute, mar_logistic, mcar_exact
from tsimpute.tasks.task import REMOVED


def table(rows: int = 400, columns: int = 6, missing: float = 0.0, seed: int = 0) -> Windows:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, columns, 1)) * 10.0 ** np.arange(columns)[:, None] + 7
    values[rng.random(values.shape) < missing] = np.nan
    ids = tuple(f"row {n}" for n in range(rows))
    return Windows(values, np.zeros((rows, 1)), tuple(Feature(f"c{k}") for k in range(columns)), ids)


@pytest.mark.parametrize("mechanism", [*TABLE_MECHANISMS, "random", "mcar", "mar", "mnar"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_hidden_values_reach_neither_training_nor_scaler(mechanism: str, missing: float):
    windows = table(missing=missing)
    task = transductive(windows, rate=0.3, seed=1, mechanism=mechanism)
    hidden = task.test.held_out_mask
    assert hidden.any()
    assert task.test.record_ids == windows.select(windows.observed.any((1, 2))).record_ids
    at = [task.test.record_ids.index(record_id) for record_id in task.train.record_ids]
    np.testing.assert_array_equal(task.train.values, task.test.without_held_out().values[at])
    np.testing.assert_array_equal(task.scaler.mean, Standardizer.fit(task.test).mean)
    assert task.train.held_out is None
    assert (len(task.valid), task.valid_or_none) == (0, None)
    train, test = (counts for counts in task.summary() if counts.part != "valid")
    assert (train.observed, train.removed, test.scored) == (windows.observed.sum(), hidden.sum(), hidden.sum())
    if mechanism in ("mcar_exact", "mar_logistic", "ampute"):
        assert not scaler_moves(task, lambda w: transductive(w, rate=0.3, seed=1, mechanism=mechanism), windows)


@pytest.mark.parametrize("hide", TABLE_MECHANISMS.values(), ids=TABLE_MECHANISMS)
def test_order_of_the_rows_does_not_matter_and_the_seed_does(hide):
    windows = table(missing=0.1)
    hidden, turned = (hide(w, rate=0.3, seed=1) for w in (windows, windows.select(slice(None, None, -1))))
    np.testing.assert_array_equal(turned[::-1], hidden)
    assert (hide(windows, rate=0.3, seed=2) != hidden).any()
    assert not (hidden & ~windows.observed).any()
    steps = replace(
        windows,
        values=windows.values.reshape(100, 4, 6).swapaxes(1, 2),
        times=np.tile(np.arange(4.0), (100, 1)),
        record_ids=tuple(f"{n:03d}" for n in range(100)),
    )
    ordered = replace(windows, record_ids=tuple(f"{n:03d}" for n in range(400)))
    np.testing.assert_array_equal(
        hide(steps, rate=0.3, seed=1).swapaxes(1, 2).reshape(400, 6), hide(ordered, rate=0.3, seed=1)[..., 0]
    )


def test_counts_are_exact_over_the_whole_table_and_even_over_its_cells():
    windows = table(50, 4, missing=0.3)
    n = int(windows.observed.sum())
    drawn = np.stack([mcar_exact(windows, rate=0.29, seed=seed) for seed in range(400)])
    assert set(drawn.sum((1, 2, 3))) == {n * 29 // 100}
    assert chisquare(drawn.sum(0)[windows.observed]).pvalue > 0.01
    assert len(set(drawn[0].sum((1, 2)))) > 2  # no share of each row
    named = mcar_exact(windows, rate=0.5, seed=1, features=["c2"])
    assert named.sum() == windows.observed[:, 2].sum() // 2 == named[:, 2].sum()


@pytest.mark.parametrize(("columns", "deciding"), [(2, 1), (4, 1), (10, 3), (34, 10)])
def test_mar_logistic_follows_its_formula(columns: int, deciding: int):
    windows = table(3000, columns)
    hidden = mar_logistic(windows, rate=0.25, seed=3)[..., 0]
    whole = ~hidden.any(0)
    assert whole.sum() == deciding
    np.testing.assert_allclose(hidden[:, ~whole].mean(0), 0.25, atol=0.035)
    # Fitted on the deciding columns, a logistic regression finds weights whose score has variance 1.
    from sklearn.linear_model import LogisticRegression

    seen = Standardizer.fit(windows).transform(windows.values)[:, whole, 0]
    model = LogisticRegression(C=1e6).fit(seen, hidden[:, ~whole][:, 0])
    assert (seen @ model.coef_[0]).std() == pytest.approx(1, abs=0.25)
    assert expit(model.decision_function(seen)).mean() == pytest.approx(0.25, abs=0.03)


def test_ampute_hides_half_of_the_columns_together_in_rows_with_a_high_sum():
    windows = table(4000, 6)
    hidden = ampute(windows, rate=0.2, seed=1)[..., 0]
    lost = hidden.any(0)
    assert lost.sum() == 3
    assert (hidden[:, lost].sum(1) % 3 == 0).all()
    assert hidden.mean() == pytest.approx(0.2, abs=0.01)
    score = Standardizer.fit(windows).transform(windows.values)[:, ~lost, 0].sum(1)
    assert score[hidden.any(1)].mean() > score[~hidden.any(1)].mean() + 0.4
    with pytest.raises(
        ConfigError, match=r"expected a rate below 0.5, as 3 of 6 features are hidden together; came 0.6"
    ):
        ampute(windows, rate=0.6, seed=1)


def test_odd_tables():
    constant = replace(table(200, 2), values=np.repeat(table(200, 2).values[:1], 200, axis=0))
    for name in TABLE_MECHANISMS:
        task = transductive(constant, rate=0.3, seed=1, mechanism=name)
        assert task.test.held_out_mask.sum() in range(40, 140), name
    one_column = table(40, 1)
    assert transductive(one_column, rate=0.5, seed=1).changes == {REMOVED: 20, LEFT_EMPTY: 20}
    for name in ("mar_logistic", "ampute"):
        with pytest.raises(ConfigError, match=f"{name}: expected at least one feature that decides"):
            transductive(one_column, rate=0.5, seed=1, mechanism=name)
    assert len(transductive(table(1, 4), rate=0.5, seed=1).train) == 1
    with pytest.raises(DataError, match=r"expected at least one record in each part.*came 0 train, 1 test"):
        transductive(table(1, 1), rate=0.999, seed=1, mechanism="mcar")
    with pytest.raises(DataError, match="expected cells to score in the test records"):
        transductive(table(1, 1), rate=0.5, seed=1)
    empty = table(30, 3)
    empty.values[4] = np.nan
    empty.values[:, 1] = np.nan
    task = transductive(empty, rate=0.3, seed=1)
    assert (len(task.test), task.changes[NEVER_SHOWN]) == (29, 1)
    within = transductive(table(30, 3), rate=0.3, seed=1, limits={"c1": Limits(low=0)})
    assert within.changes[OUTSIDE] == (table(30, 3).values[:, 1] < 0).sum()


def test_settings():
    windows = table(60, 3)
    masks = [
        make_task(windows, ProtocolConfig("transductive", 0.5, "mcar_exact", fold)).test.held_out for fold in (0, 1)
    ]
    assert (masks[0] != masks[1]).any()
    own = replace(windows, held_out=masks[0])
    task = make_task(own, ProtocolConfig("transductive", None))
    assert task.mechanism == "prescribed"
    np.testing.assert_array_equal(task.test.held_out_mask, masks[0])
    with pytest.raises(ConfigError, match="expected one of mcar_exact, mar_logistic, ampute, random"):
        transductive(windows, rate=0.1, seed=1, mechanism="no_such")
    with pytest.raises(ConfigError, match="expected one of random, mcar, blocks"):
        make_task(windows, ProtocolConfig("clean", 0.1, "mcar_exact"))
    with pytest.raises(ConfigError, match="0 to 4"):
        transductive(windows, rate=0.1, seed=1, fold=5)


def test_methods_learn_without_validation_and_fill_rows_that_show_nothing():
    task = transductive(table(40, 2), rate=0.6, seed=1)
    assert task.changes[LEFT_EMPTY] > 5
    network = NetworkConfig(options={"width": 8, "n_heads": 1, "n_blocks": 1})
    make = lambda: GenerativeImputer(network=network, training=TrainingConfig(epochs=1, micro_batch=16))
    samples = make().fit(task.train, task.valid_or_none).impute(task.test, 3)
    assert np.isfinite(samples.values).all()
    assert leakage_of(make, task) == leakage_of(MeanImputer, task) == NO_LEAK
