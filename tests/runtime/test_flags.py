from __future__ import annotations

import pytest

from dray.errors import InvalidError
from dray.runtime.flags import parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9614", ("127.0.0.1", 9614)),
        ("[::1]:0", ("::1", 0)),
        (":80", ("0.0.0.0", 80)),
        ("none", None),
    ],
)
def test_addresses(text: str, address: tuple[str, int] | None) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "localhost", "x:", "x:y", "x:65536", "x:-1", "x:²"])
def test_bad_addresses(text: str) -> None:
    with pytest.raises(InvalidError, match="--metrics-address"):
        parse_address(text)
