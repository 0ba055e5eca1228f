from __future__ import annotations

from typing import Annotated, Any

import pytest
from msgspec import Meta

from dray.errors import InvalidError
from dray.sdk import Config


class Colour(Config):
    red: int = 0


class LampConfig(Config):
    brightness: Annotated[int, Meta(ge=1, le=100)] = 50
    max_watts: int = 60
    colour: Colour | None = None
    scenes: tuple[Colour, ...] = ()

    def __post_init__(self) -> None:
        if self.brightness > self.max_watts:
            raise ValueError("brightness needs as many watts")


VERSION = "lamp.example.com/v1"


def test_defaults_where_nothing_is_said() -> None:
    assert LampConfig.read() == LampConfig() == LampConfig.read({})


def test_later_ones_count_more_field_by_field() -> None:
    found = LampConfig.read({"brightness": 10, "maxWatts": 90}, {"brightness": 80})
    assert (found.brightness, found.max_watts) == (80, 90)


def test_an_object_says_what_it_is() -> None:
    raw = {"apiVersion": VERSION, "kind": "LampConfig", "brightness": 5}
    assert LampConfig.read(raw, api_version=VERSION).brightness == 5


@pytest.mark.parametrize(
    ("raw", "field", "text"),
    [
        ({"brightness": 500}, "brightness", "<= 100"),
        ({"brightness": "5"}, "brightness", "got `str`"),
        ({"brightnes": 5}, "brightnes", 'did you mean "brightness"?'),
        ({"max_watts": 5}, "max_watts", 'did you mean "maxWatts"?'),
        ({"colour": {"green": 1}}, "colour.green", "unknown field"),
        ({"scenes": [{"red": 1}, {"green": 1}]}, "scenes[1].green", "unknown"),
        ({"brightness": 61}, "", "brightness needs as many watts"),
        ({"kind": "Lamp"}, "kind", '"LampConfig"'),
        ({"apiVersion": "v1"}, "apiVersion", VERSION),
        ({"k" * 5000: 1}, None, "unknown field"),
    ],
)
def test_what_is_wrong_is_named(raw: dict[str, Any], field: str | None, text: str) -> None:
    with pytest.raises(InvalidError) as caught:
        LampConfig.read(raw, api_version=VERSION)
    assert text in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert field is None or caught.value.field == field
