from __future__ import annotations

from typing import Any

import pytest

from dray.errors import InvalidError
from dray.sdk import CONTRACT, Config, Driver
from dray.sdk.driver import check_driver, overrides
from tests.sdk.lamps import Lamps, PlainLamps


class NeedsMore(Config):
    level: int


class TakesKind(Config):
    kind: str = ""


@pytest.mark.parametrize(
    ("attribute", "value", "text"),
    [
        ("name", "", "must be non-empty"),
        ("name", "lamp", "in a domain of yours"),
        ("name", "Lamp.example.com", "lower case"),
        ("name", "lamp_x.example.com", "RFC 1123"),
        ("name", "l" * 60 + ".example.com", "63"),
        ("resource", "lamp", "domain-prefixed"),
        ("resource", "kubernetes.io/lamp", "kubernetes.io"),
        ("contract", CONTRACT + 1, f"needs contract {CONTRACT + 1}, this Dray has {CONTRACT}: update dray"),
        ("contract", 0, "must be a number"),
        ("contract", "1", "must be a number"),
        ("poll", 0, "more than 0"),
        ("poll", "1s", "more than 0"),
        ("config", dict, "subclass of dray.sdk.Config"),
        ("config", NeedsMore, "NeedsMore.level needs a default"),
        ("config", TakesKind, "Kubernetes' own"),
    ],
)
def test_what_cannot_be_served_is_refused_by_attribute(attribute: str, value: Any, text: str) -> None:
    class Faulty(PlainLamps):
        pass

    setattr(Faulty, attribute, value)
    with pytest.raises(InvalidError) as caught:
        check_driver(Faulty())
    assert str(caught.value).startswith(f"Faulty.{attribute}: ") and text in str(caught.value)
    assert caught.value.field == attribute


def test_a_class_is_no_driver() -> None:
    with pytest.raises(InvalidError, match="PlainLamps is not an instance"):
        check_driver(PlainLamps)  # type: ignore[arg-type]


def test_a_driver_without_discover_cannot_be_made() -> None:
    class Empty(Driver):
        name = "x.example.com"

    with pytest.raises(TypeError, match="discover"):
        Empty()  # type: ignore[abstract]


def test_what_the_author_wrote() -> None:
    assert not overrides(PlainLamps(), "prepare")
    assert overrides(Lamps(), "prepare")
    check_driver(PlainLamps())
    check_driver(Lamps())
