"""The five densities: samplers, log-densities and conditionals agree with each other and with closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import tsimpute as ti
from tsimpute.datasets.densities import DENSITIES, conditional
from tsimpute.errors import ConfigError

every_density = pytest.mark.parametrize("name", list(DENSITIES))


def points(name: str, n: int, seed: int = 0) -> np.ndarray:
    return ti.load_windows("densities", density=name, n_records=n, seed=seed).values[..., 0]


def on_grid(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Middles of the cells of an even grid within the bounds, and the chance of each cell."""
    n = 200 if name == "spiral" else 400  # that of the spiral takes long, the funnel is narrow
    x1, x2 = ((np.arange(n) + 0.5) / n * (high - low) + low for low, high in DENSITIES[name].bounds)
    area = (x1[1] - x1[0]) * (x2[1] - x2[0])
    return x1, x2, np.exp(DENSITIES[name].log(x1[:, None], x2)) * area


@every_density
def test_the_density_integrates_to_one(name: str) -> None:
    assert on_grid(name)[2].sum() == pytest.approx(1, abs=2e-4)


@every_density
def test_the_sampler_has_the_log_density(name: str) -> None:
    """Chi-squared of 100,000 points in cells of a coarse grid, and both marginals by Kolmogorov and Smirnov."""
    x, chances = points(name, 100_000), on_grid(name)[2]
    edges = [np.linspace(low, high, 26) for low, high in DENSITIES[name].bounds]
    counts = np.histogram2d(*x.T, edges)[0].ravel()
    expected = chances.reshape(25, len(chances) // 25, 25, -1).sum((1, 3)).ravel() * len(x)
    often = expected > 20
    total = ((counts - expected)[often] ** 2 / expected[often]).sum()
    assert stats.chi2.sf(total, often.sum() - 1) > 1e-3
    for axis in (0, 1):
        low, high = DENSITIES[name].bounds[axis]
        grid, cdf = np.linspace(low, high, len(chances) + 1), np.concatenate([[0.0], np.cumsum(chances.sum(1 - axis))])
        assert stats.kstest(x[:, axis], lambda at, g=grid, c=cdf: np.interp(at, g, c)).statistic < 1.95 / 100_000**0.5


@every_density
@pytest.mark.parametrize("unknown", [0, 1])
def test_conditionals_are_those_of_points_near_a_slice(name: str, unknown: int) -> None:
    x = points(name, 400_000, seed=1)
    for known in np.quantile(x[:, 1 - unknown], [0.1, 0.5, 0.9]):
        near = x[np.abs(x[:, 1 - unknown] - known) < 0.01, unknown]
        grid, density = conditional(name, unknown, known)
        cdf = np.cumsum(density) * (grid[1] - grid[0])
        assert cdf[-1] == pytest.approx(1)
        assert stats.kstest(near, lambda at, g=grid, c=cdf: np.interp(at, g, c)).pvalue > 1e-3


@pytest.mark.parametrize("x1", [-3.0, 0.4, 2.5])
def test_conditionals_of_x2_have_closed_forms(x1: float) -> None:
    normal = {
        "cosine": (3 * np.cos(2 * x1), 1.0),
        "banana": (0.2 * (x1**2 - 4), 1.0),
        "funnel": (0.0, min(np.exp(-x1), 10.0) ** 0.5),
    }
    for name, (mean, sd) in normal.items():
        grid, density = conditional(name, 1, x1)
        np.testing.assert_allclose(density, stats.norm.pdf(grid, mean, sd), atol=1e-5)


def test_the_ring_is_that_of_its_sampler() -> None:
    """Radius and angle are independent, so its density is theirs divided by the length of the circle."""
    radius = np.array([4.6, 5.0, 5.3])
    expected = stats.norm.pdf(radius, 5, 0.2) / (2 * np.pi * radius)
    np.testing.assert_allclose(np.exp(DENSITIES["ring"].log(radius * 0.6, radius * 0.8)), expected)
    assert DENSITIES["ring"].log(np.array(0.0), np.array(0.0)) < -200


@every_density
def test_points_are_seeded_and_in_no_order(name: str) -> None:
    assert np.array_equal(points(name, 100), points(name, 100))
    assert not np.isclose(points(name, 100), points(name, 100, seed=1)).any()
    first, last = np.split(points(name, 20_000), 2)
    for axis in (0, 1):
        assert stats.ks_2samp(first[:, axis], last[:, axis]).pvalue > 1e-3


def test_other_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="density: expected one of cosine, banana, funnel, ring, spiral; came 'box'"):
        ti.load_windows("densities", density="box")
    with pytest.raises(ConfigError, match="n_records: expected a whole number from 1"):
        ti.load_windows("densities", n_records=0)
