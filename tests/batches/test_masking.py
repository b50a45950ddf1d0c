"""Mask policies: laws that all obey, their distributions, and where historical patterns come from."""

from dataclasses import replace

import numpy as np
import pytest

from tsimpute.batches.masking import Historical, LikeGaps, MaskPolicy, Mix, RandomTargets, Varied, make_policy
from tsimpute.config.settings import MASK_POLICIES
from tsimpute.core.windows import Windows
from tsimpute.errors import ConfigError, DataError

PATTERNS = np.random.default_rng(0).random((20, 5, 12)) < 0.6


def policies() -> list[MaskPolicy]:
    three = RandomTargets(), Historical(PATTERNS), LikeGaps.of(PATTERNS)
    return [three[0], three[1], Mix(PATTERNS), three[2], Varied(three)]


@pytest.mark.parametrize("policy", policies(), ids=MASK_POLICIES)
def test_shown_within_observed_and_something_to_predict(policy: MaskPolicy):
    rng = np.random.default_rng(1)
    for n_cells in [1, 2, 7, 60] * 50:
        observed = np.zeros(60, bool)
        observed[rng.permutation(60)[:n_cells]] = True
        observed = observed.reshape(5, 12)
        before = observed.copy()
        cond_mask = policy(observed, rng)
        assert cond_mask.dtype == bool
        assert not (cond_mask & ~observed).any()
        assert (observed & ~cond_mask).any()
        np.testing.assert_array_equal(observed, before)


@pytest.mark.parametrize("policy", policies(), ids=MASK_POLICIES)
def test_record_without_observation_shows_nothing(policy: MaskPolicy):
    assert not policy(np.zeros((5, 12), bool), np.random.default_rng(0)).any()


@pytest.mark.parametrize("policy", policies(), ids=MASK_POLICIES)
def test_same_generator_state_same_mask_another_state_another_mask(policy: MaskPolicy):
    observed = PATTERNS[0]
    masks = [policy(observed, np.random.default_rng(seed)).tobytes() for seed in (*range(10), *range(10))]
    assert masks[:10] == masks[10:]
    assert len(set(masks[:10])) > 5


def test_share_of_random_targets_is_uniform_and_cells_are_alike():
    observed = np.random.default_rng(3).permutation(np.arange(200) < 100).reshape(5, 40)
    rng = np.random.default_rng(4)
    targets = np.array([observed & ~RandomTargets()(observed, rng) for _ in range(4000)])
    shares = np.sort(targets.sum((1, 2)) / 100)
    # Kolmogorov-Smirnov distance to U(0, 1): 1.95 / sqrt(n) is exceeded once in 1000; rounding to cells adds 0.005.
    assert np.abs(shares - (np.arange(4000) + 0.5) / 4000).max() < 1.95 / 4000**0.5 + 0.005
    often = targets.mean(0)[observed]
    # Each cell is a target with chance 1/2; five standard errors over 100 cells.
    assert np.abs(often - 0.5).max() < 5 * 0.5 / 4000**0.5


@pytest.mark.parametrize("k", [1, 2, 5])
def test_random_targets_of_rows_are_those_of_records_in_distribution(k: int):
    rng = np.random.default_rng(6)
    observed = np.tile(rng.random(k) < 0.8, (8000, 1))
    observed[:, 0] = True
    rows = RandomTargets().of_rows(observed, rng.random((8000, 1 + k)))
    records = np.array([RandomTargets()(one[:, None], rng)[:, 0] for one in observed])
    assert not (rows & ~observed).any()
    assert (observed & ~rows).any(1).all()
    powers = 2 ** np.arange(k)  # each set of visible cells has a number
    often = [np.bincount(masks @ powers, minlength=2**k) / 8000 for masks in (rows, records)]
    assert np.abs(often[0] - often[1]).max() < 5 * (0.5 / 8000) ** 0.5


def test_rows_without_an_observation_show_nothing():
    assert not RandomTargets().of_rows(np.zeros((3, 2), bool), np.full((3, 3), 0.5)).any()


def test_random_targets_take_round_of_share_at_least_one_at_most_all():
    class Fixed(np.random.Generator):
        share = 0.0

        def random(self, *_: object) -> float:  # type: ignore[override]
            return self.share

    observed = np.ones((2, 5), bool)
    for share, expected in ((0.0, 1), (0.04, 1), (0.26, 3), (0.74, 7), (0.96, 10), (0.9999, 10)):
        rng = Fixed(np.random.PCG64(0))
        rng.share = share
        assert (~RandomTargets()(observed, rng)).sum() == expected


def test_historical_shows_what_record_and_one_donor_both_observed():
    rng = np.random.default_rng(5)
    observed = rng.random((5, 12)) < 0.7
    possible = {(observed & pattern).tobytes() for pattern in PATTERNS}
    drawn = [Historical(PATTERNS)(observed, rng).tobytes() for _ in range(2000)]
    assert set(drawn) == possible  # every donor comes up
    counts = np.array([drawn.count(mask) for mask in possible])
    assert len(possible) == 20
    assert np.abs(counts - 100).max() < 5 * (2000 * 0.05 * 0.95) ** 0.5  # and none more often than others


def test_historical_does_not_lend_a_record_its_own_pattern():
    own_first = np.stack([PATTERNS[0]] * 3 + [PATTERNS[1]])
    rng = np.random.default_rng(6)
    expected = PATTERNS[0] & PATTERNS[1]
    same = [np.array_equal(Historical(own_first)(PATTERNS[0], rng), expected) for _ in range(500)]
    # Own pattern in 3 of 4 draws: it ends in random targets only if all 8 draws do, 0.75**8 = 0.1.
    assert 0.85 < np.mean(same) < 0.95


def test_only_its_own_pattern_falls_back_to_random_targets():
    rng = np.random.default_rng(7)
    policy = Historical(PATTERNS[:1])
    shares = [(PATTERNS[0] & ~policy(PATTERNS[0], rng)).sum() / PATTERNS[0].sum() for _ in range(500)]
    assert min(shares) > 0
    assert 0.4 < np.mean(shares) < 0.6


def test_mix_is_half_and_half():
    observed = np.ones((5, 12), bool)
    empty = np.zeros((1, 5, 12), bool)  # historical then shows nothing; random does so once in 120
    rng = np.random.default_rng(8)
    historical = np.mean([not Mix(empty)(observed, rng).any() for _ in range(2000)])
    assert abs(historical - (0.5 + 0.5 / 120)) < 4 * 0.5 / 2000**0.5


def test_varied_is_one_of_three_as_often_as_another():
    calls: list[int] = []

    def counted(number: int, policy: MaskPolicy) -> MaskPolicy:
        return lambda observed, rng: (calls.append(number), policy(observed, rng))[1]

    three = RandomTargets(), Historical(PATTERNS), LikeGaps.of(PATTERNS)
    policy, rng = Varied([counted(n, one) for n, one in enumerate(three)]), np.random.default_rng(10)
    for _ in range(3000):
        policy(PATTERNS[0], rng)
    assert np.abs(np.bincount(calls) - 1000).max() < 4 * (3000 * 2 / 9) ** 0.5


def test_varied_of_records_has_the_three_policies_of_that_name(small_windows: Windows):
    policy = make_policy("varied", small_windows)
    assert isinstance(policy, Varied)
    assert [type(one) for one in policy.policies] == [
        type(make_policy(n, small_windows)) for n in ("random", "historical", "gaps")
    ]


def test_patterns_come_from_shown_cells_of_lending_records_only(small_windows: Windows):
    held_out = small_windows.observed & (np.random.default_rng(9).random(small_windows.values.shape) < 0.3)
    lends = np.array([True, False, True, False, False, True])
    train = replace(small_windows, held_out=held_out, pattern_donor=lends)
    for name in ("historical", "mix"):
        policy = make_policy(name, train)
        assert isinstance(policy, Historical | Mix)
        np.testing.assert_array_equal(policy.patterns, (small_windows.observed & ~held_out)[[0, 2, 5]])
    policy = make_policy("historical", small_windows)
    assert isinstance(policy, Historical)
    np.testing.assert_array_equal(policy.patterns, small_windows.observed)
    assert make_policy("random", train) == RandomTargets()


def test_runs_are_as_long_as_the_gaps_and_of_all_features_where_gaps_are():
    alone = np.ones((4, 3, 40), bool)
    alone[0, 1, 5:9] = alone[2, 0, 20:24] = False
    policy = LikeGaps.of(alone)
    np.testing.assert_array_equal(policy.lengths, [4, 4])
    assert policy.together == 0.0
    rng = np.random.default_rng(0)
    inner = []
    for _ in range(300):
        hidden = np.pad(~policy(np.ones((3, 40), bool), rng), ((0, 0), (1, 1)))
        starts, ends = (np.nonzero(hidden[:, 1:] != hidden[:, :-1])[1][i::2] for i in (0, 1))
        inner += [int(b - a) for a, b in zip(starts, ends, strict=True) if a > 0 and b < 40]
    assert min(inner) == 4  # longer only where runs join
    assert np.mean(np.array(inner) == 4) > 0.5
    together = np.ones((2, 3, 40), bool)
    together[0, :, 7:10] = False
    policy = LikeGaps.of(together)
    assert policy.together == 1.0
    mask = policy(np.ones((3, 40), bool), np.random.default_rng(1))
    assert (mask == mask[:1]).all()


def test_where_nothing_is_missing_runs_of_one_to_eight_steps_are_hidden():
    np.testing.assert_array_equal(LikeGaps.of(np.ones((2, 3, 9), bool)).lengths, np.arange(1, 9))


def test_a_missing_cell_meets_long_gaps_more_often_than_an_even_choice_of_gaps_would():
    observed = np.ones((1, 1, 400), bool)
    observed[0, 0, 0:398:4] = False  # a hundred gaps of one step
    observed = np.concatenate([observed, np.ones((1, 1, 400), bool)])
    observed[1, 0, 50:150] = False  # and one of a hundred
    policy = LikeGaps.of(observed)
    rng = np.random.default_rng(2)
    long = [(~policy(np.ones((1, 400), bool), rng)).sum() > 60 for _ in range(300)]
    assert np.mean(long) > 0.5


@pytest.mark.parametrize("name", ["historical", "mix", "varied"])
def test_no_lending_record_is_refused(small_windows: Windows, name: str):
    with pytest.raises(ConfigError, match="lends its pattern"):
        make_policy(name, replace(small_windows, pattern_donor=np.zeros(6, bool)))


def test_unknown_policy_and_wrong_shapes_are_refused(small_windows: Windows):
    with pytest.raises(ConfigError, match="random, historical, mix, gaps, varied; came 'block'"):
        make_policy("block", small_windows)
    with pytest.raises(DataError, match=r"expected shape \(5, 12\).*came \(12, 5\)"):
        Historical(PATTERNS)(np.ones((12, 5), bool), np.random.default_rng(0))
    with pytest.raises(DataError, match="expected bool"):
        Historical(PATTERNS.astype(float))
