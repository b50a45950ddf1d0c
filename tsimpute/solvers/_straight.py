"""Every path seen as the straight one of flow matching, where any method for differential equations applies."""

from __future__ import annotations

from torch import Tensor

from tsimpute.solvers.base import Predict, ScalesAt


class StraightPath:
    """A process on a grid, its states scaled so that their path is straight.

    With ``y = state / (alpha + sigma)`` and ``u = alpha / (alpha + sigma)`` every path reads
    ``y = u * clean + (1 - u) * noise``, and what a process moves by, ``d state = d alpha * clean + d sigma * noise``,
    becomes ``dy / du = clean - noise``. The log-SNR of Lu et al. (2022) is infinite at both ends; u goes from 0 for
    noise to 1 for data. One step that holds the prediction is Euler's for flow matching and DDIM's for diffusion.

    Attributes:
        u: G + 1 increasing numbers, the grid in terms of ``u``.
        y: (B, K, L) the scaled state that ``grid[0]`` begins with.
    """

    def __init__(self, predict: Predict, scales: ScalesAt, state: Tensor, grid: Tensor) -> None:
        at = scales(grid)
        self._predict, self._grid = predict, grid
        self._total: list[float] = (at.alpha + at.sigma).tolist()
        self.u: list[float] = (at.alpha / (at.alpha + at.sigma)).tolist()
        self.y = state / self._total[0]

    def slope(self, y: Tensor, i: int) -> Tensor:
        """(B, K, L) dy/du at ``grid[i]``: one network evaluation."""
        prediction = self._predict(y * self._total[i], self._grid[i].expand(len(y)))
        return prediction.clean - prediction.noise

    def state(self, y: Tensor) -> Tensor:
        """(B, K, L) the state at the end of the grid."""
        return y * self._total[-1]


def runge_kutta(path: StraightPath, y: Tensor, i: int, n_stages: int) -> Tensor:
    """One explicit step of order ``n_stages`` = 1, 2 or 3 over as many intervals, its stages at their beginnings.

    The stages stand where the grid has them, at shares ``c`` of the step; the weights follow from the conditions of
    order (Section II.1, Hairer, Norsett and Wanner 1993). The end is not evaluated: there sigma may be 0.

    Returns:
        (B, K, L) y at ``grid[i + n_stages]``.
    """
    h = path.u[i + n_stages] - path.u[i]
    first = path.slope(y, i)
    if n_stages == 1:
        return y + h * first
    c2 = (path.u[i + 1] - path.u[i]) / h
    second = path.slope(y + c2 * h * first, i + 1)
    if n_stages == 2:
        return y + h * ((1 - 0.5 / c2) * first + 0.5 / c2 * second)
    c3 = (path.u[i + 2] - path.u[i]) / h
    of_second = c3 * (c3 - c2) / (c2 * (2 - 3 * c2))
    third = path.slope(y + h * ((c3 - of_second) * first + of_second * second), i + 2)
    b2 = (3 * c3 - 2) / (6 * c2 * (c3 - c2))
    b3 = (2 - 3 * c2) / (6 * c3 * (c3 - c2))
    return y + h * ((1 - b2 - b3) * first + b2 * second + b3 * third)
