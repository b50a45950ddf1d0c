"""The laws of every backbone: each file in tsimpute/backbones that is a plug-in is under test."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tsimpute.backbones.dual_transformer import DualTransformer
from tsimpute.config import registry
from tsimpute.errors import ConfigError
from tsimpute.testing import Case, DoesNotApply, cases, subject
from tsimpute.testing._records import SIZES

OPTIONS = {
    "context_cells": SIZES,
    "dual_transformer": SIZES,
    "present_cells": SIZES,
    "residual_mlp": {"width": 8, "width_tau": 8},
}


@pytest.mark.parametrize("name", registry.available("backbones"))
@pytest.mark.parametrize("case", cases("backbones"), ids=str)
def test_law(name: str, case: Case):
    with suppress(DoesNotApply):
        case.check(subject("backbones", name, OPTIONS.get(name)))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"width": 10, "n_heads": 4}, "divisor of width 10"),
        ({"n_blocks": 0}, "at least 1"),
        ({"n_heads": 0}, "at least 1"),
        ({"width_tau": 2}, "width_tau of at least 4"),
        ({"width_time": 7}, "even width_time"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(options: dict[str, int], says: str):
    with pytest.raises(ConfigError, match=says):
        DualTransformer(3, **(SIZES | options))
