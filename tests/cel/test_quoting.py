from __future__ import annotations

import sys

import pytest

from dray.api import quoting
from dray.cel.quoting import quote, quote_start


def test_every_character_is_written_as_in_errors_of_the_api() -> None:
    for start in range(0, sys.maxunicode + 1, 4096):
        text = "".join(map(chr, range(start, start + 4096)))
        assert quote(text) == quoting.quote(text)


@pytest.mark.parametrize("data", [b"", b"plain", b"\xff\xc3\xa9\x00", b'"\\'])
def test_bytes(data: bytes) -> None:
    assert quote(data) == quoting.quote(data)


def test_the_beginning_of_what_is_long() -> None:
    assert quote_start("x" * 5000) == '"' + "x" * 4096 + '"…'
    assert quote_start(b"x" * 5000) == '"' + "x" * 4096 + '"…'
