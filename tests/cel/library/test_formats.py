from __future__ import annotations

from dray.cel.library.formats import FORMATS
from tests.cel.library.answers import complaints, evaluate


def test_formats_answer_as_in_kubernetes() -> None:
    assert complaints("formats") == []


def test_every_format_has_a_function_and_a_name() -> None:
    for name in FORMATS:
        assert evaluate(f"format.named('{name}').value() == format.{name}()") is True
