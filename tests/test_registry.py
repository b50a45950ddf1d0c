"""Plug-ins are found by their file name, and unknown names and options are refused with what there is."""

from __future__ import annotations

import pytest

from tsimpute import registry
from tsimpute.errors import ConfigError

KINDS = {
    "backbones": {"context_cells", "dual_transformer", "present_cells"},
    "processes": {"diffusion", "flow_matching"},
    "solvers": {"heun", "midpoint", "multistep", "one_step", "runge_kutta_3"},
    "imputers": {"generative", "mean", "median", "locf", "linear"},
    "datasets": {"physionet2012", "pm25", "synthetic"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_lists_plug_ins_and_nothing_else(kind: str):
    found = registry.available(kind)
    assert KINDS[kind] <= set(found)
    assert found == sorted(found)
    assert not {"base", "embeddings", "csdi_weights", "_simple", "_checks", "__init__"} & set(found)


def test_makes_with_options():
    assert registry.make("solvers", "one_step", eta=0.5).eta == 0.5
    assert registry.make("processes", "flow_matching").name == "flow_matching"
    assert registry.options_of("solvers", "one_step") == ["eta"]
    assert registry.options_of("solvers", "heun") == []


def test_unknown_name_lists_those_there_are():
    with pytest.raises(
        ConfigError, match=r"solvers: expected one of heun, midpoint, multistep, one_step, runge_kutta_3.*'euler'"
    ):
        registry.make("solvers", "euler")


def test_unknown_option_lists_those_there_are():
    with pytest.raises(ConfigError, match=r"unknown option steps; it has n_levels, beta_first, beta_last"):
        registry.make("processes", "diffusion", steps=3)
    with pytest.raises(ConfigError, match="unknown option eta; it has none"):
        registry.make("solvers", "heun", eta=0.5)
