"""Limits as texts give them."""

from __future__ import annotations

import pytest

from tsimpute.core.limits import Limits
from tsimpute.errors import ConfigError
from tsimpute.filling.preparing.model_rules import parse_limits


def test_limits_are_read_from_text() -> None:
    assert parse_limits(" PM2.5=0:, RH = 0 : 100 ,steps=0::int,T=-30:,a=b=:5,x=:,*=-1e3:") == {
        "PM2.5": Limits(0.0), "RH": Limits(0.0, 100.0), "steps": Limits(0.0, integer=True), "T": Limits(-30.0),
        "a=b": Limits(high=5.0), "x": Limits(), "*": Limits(-1000.0),
    }  # fmt: skip
    assert parse_limits(" ") == {}


@pytest.mark.parametrize(
    "text", ["RH", "RH=", "RH=0", "RH=0-100", "RH=a:1", "RH=0:1:2", "=0:1", "RH=0:,", "RH=nan:", "RH=5:1", "n=.5::int"]
)
def test_text_that_is_no_limits_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"NAME=LOW:HIGH.*such as RH|RH=0:100"):
        parse_limits(text)


def test_limits_given_twice_are_refused() -> None:
    with pytest.raises(ConfigError, match="'RH' comes twice"):
        parse_limits("RH=0:,RH=:1")
