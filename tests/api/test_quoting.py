from __future__ import annotations

import pytest

from dray.api.quoting import quote


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ('a"b\\\n', r'"a\"b\\\n"'),
        ("é\u200b\x01\x7f", r'"é\u200b\x01\x7f"'),
        ("\U000e0001", r'"\U000e0001"'),
        (b"a\xff\xc3\xa9", r'"a\xffé"'),
    ],
)
def test_as_go_quotes(text: str | bytes, quoted: str) -> None:
    assert quote(text) == quoted
