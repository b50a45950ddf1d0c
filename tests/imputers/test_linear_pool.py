"""A pool of imputers: whose draws there are, and what a file of it gives back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tsimpute.config import registry
from tsimpute.core.seeding import derive_seed
from tsimpute.core.windows import Feature, Windows
from tsimpute.errors import CheckpointError, ConfigError, DataError, NotFittedError
from tsimpute.imputers.linear_pool import LinearPoolImputer
from tsimpute.imputers.simple import SimpleImputer
from tsimpute.testing.imputers import TEST, TRAIN

nan = np.nan
GAUSSIAN = {"imputer": "gaussian", "options": {"settings": {"n_rounds": 2}}}


class Own(SimpleImputer):
    """Of no package that a file could name."""

    name = "own"


def constants(*shares: float, n_samples: int) -> list[float]:
    """The draws at one cell of a pool of the mean 5 and the median 1.5, and further ones of the mean."""
    train = Windows(np.array([[[0.0, 1.0, 2.0, 17.0]]]), np.arange(4.0)[None], (Feature("x"),), ("r",))
    members = ["mean", "median", "mean"][: len(shares)]
    pool = LinearPoolImputer(members, shares).fit(train)
    gap = Windows(np.array([[[nan, 3.0, nan, nan]]]), np.arange(4.0)[None], (Feature("x"),), ("r",))
    return pool.impute(gap, n_samples).values[:, 0, 0, 0].tolist()


def test_each_member_gives_its_share_of_any_first_draws() -> None:
    assert constants(1, 1, n_samples=5) == [5.0, 1.5, 5.0, 1.5, 5.0]
    assert constants(1, 3, n_samples=4) == [1.5, 5.0, 1.5, 1.5]
    assert constants(0.1, 0.9, n_samples=1) == [1.5]
    drawn = constants(0.2, 0.7, 0.1, n_samples=100)
    assert drawn.count(1.5) == 70
    assert abs(constants(2, 1, n_samples=50).count(5.0) - 100 / 3) < 1


def test_draws_are_those_of_the_members() -> None:
    pool = LinearPoolImputer([GAUSSIAN, "linear"]).fit(TRAIN)
    process, linear = pool.members_
    draws = pool.impute(TEST, 6, seed=3).values
    expected = process.impute(TEST, 3, derive_seed(3, "member", 0)).values
    np.testing.assert_array_equal(draws[::2], expected)
    np.testing.assert_array_equal(draws[1::2], linear.impute(TEST, 3).values)
    assert expected.std(0).max() > 0


def test_two_members_of_one_kind_draw_differently() -> None:
    draws = LinearPoolImputer([GAUSSIAN, GAUSSIAN]).fit(TRAIN).impute(TEST, 2).values
    gaps = ~TEST.visible
    assert (draws[0][gaps] != draws[1][gaps]).all()


def test_a_pool_has_at_most_the_mean_crps_of_its_members() -> None:
    from tsimpute.evaluation.evaluate import evaluate

    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 2, 12)).cumsum(2)
    records = Windows(
        values, np.tile(np.arange(12.0), (40, 1)), (Feature("a"), Feature("b")), tuple(map(str, range(40))),
        rng.random(values.shape) < 0.3,
    )  # fmt: skip
    members = [registry.make("imputers", name).fit(records) for name in ("mean", "locf")]
    crps = [evaluate(m, records, n_samples=2).value("crps") for m in (*members, LinearPoolImputer.of(members))]
    assert crps[2] < (crps[0] + crps[1]) / 2


def test_a_file_gives_back_shares_and_members(tmp_path: Path) -> None:
    pool = LinearPoolImputer([GAUSSIAN, "mean", "knn"], [3, 1, 1]).fit(TRAIN)
    pool.save(tmp_path / "pool")
    again = LinearPoolImputer.load(tmp_path / "pool")
    assert [member.name for member in again.members_] == ["gaussian", "mean", "knn"]
    np.testing.assert_array_equal(again.impute(TEST, 7, 1).values, pool.impute(TEST, 7, 1).values)
    with pytest.raises(CheckpointError, match="another one"):
        registry.plugin("imputers", "gaussian").load(tmp_path / "pool")


def test_a_file_of_members_that_no_package_names_is_refused(tmp_path: Path) -> None:
    fitted = registry.make("imputers", "mean").fit(TRAIN)
    own = Own.__new__(Own)
    own.__dict__ |= fitted.__dict__
    with pytest.raises(ConfigError, match="members of this package, came 'own'"):
        LinearPoolImputer.of([fitted, own]).save(tmp_path / "pool")
    assert not list(tmp_path.iterdir())


def test_a_file_that_names_code_elsewhere_runs_none(tmp_path: Path) -> None:
    from tsimpute.models.checkpoints import read_model, write_model

    LinearPoolImputer(["mean", "median"]).fit(TRAIN).save(tmp_path / "pool")
    arrays, description = read_model(tmp_path / "pool")
    write_model(tmp_path / "other", arrays, description | {"members": ["mean", "antigravity:Imputer"]})
    with pytest.raises(CheckpointError, match="no imputer 'antigravity:Imputer'"):
        LinearPoolImputer.load(tmp_path / "other")


@pytest.mark.parametrize(
    ("members", "shares", "message"),
    [
        ([], None, "at least two"),
        (["mean"], None, "at least two"),
        ("mean", None, "at least two"),
        ({"mean": 1, "median": 3}, None, "a list of at least two"),
        (5, None, "a list of at least two"),
        (["mean", "median"], [1.0], "2 positive numbers"),
        (["mean", "median"], 1, "2 positive numbers"),
        (["mean", "median"], ["1", "2"], "2 positive numbers"),
        (["mean", "median"], [1.0, 0.0], "2 positive numbers"),
        (["mean", "median"], [1.0, nan], "2 positive numbers"),
    ],
)
def test_too_few_members_and_wrong_shares_are_refused(members: list[str], shares: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LinearPoolImputer(members, shares)  # type: ignore[arg-type]


def test_members_are_fitted_and_alike() -> None:
    mean, other = (registry.make("imputers", "mean") for _ in range(2))
    with pytest.raises(NotFittedError, match="came mean, mean"):
        LinearPoolImputer.of([mean, other])
    other.fit(TRAIN.select(slice(None)))
    smaller = Windows(TRAIN.values[:, :1], TRAIN.times, TRAIN.features[:1], TRAIN.record_ids)
    with pytest.raises(DataError, match="not learnt"):
        LinearPoolImputer.of([mean.fit(smaller), other])
    for wrong in ({"name": "mean"}, {"imputer": "mean", "options": [1]}):
        with pytest.raises(ConfigError, match="expected imputer and options"):
            LinearPoolImputer(["mean", wrong]).fit(TRAIN)


def test_members_are_fitted_with_the_seed_of_the_pool_and_the_next_ones() -> None:
    members = ["gaussian", {"imputer": "gaussian", "options": {"seed": 9}}, "gaussian", "mean"]
    assert [one.seed for one in LinearPoolImputer(members, seed=3).fit(TRAIN).members_[:3]] == [3, 9, 5]


def test_a_member_that_does_not_tell_its_features_takes_part() -> None:
    class Plain:
        name = "plain"
        impute = registry.plugin("imputers", "mean").impute

    mean, plain = registry.make("imputers", "mean").fit(TRAIN), Plain()
    plain.impute = mean.impute
    draws = LinearPoolImputer.of([plain, mean]).impute(TEST, 2).values
    np.testing.assert_array_equal(draws[0], draws[1])
