from __future__ import annotations

from dray.apiserver.http.answers import json_answer


def warned(*warnings: str) -> list[str]:
    return json_answer(b"{}", 200, warnings).headers.getall("Warning", [])


def test_a_warning_is_quoted() -> None:
    assert warned('unknown field "a"', "é\\") == [
        '299 - "unknown field \\"a\\""',
        '299 - "\\\\xe9\\\\"',
    ]


def test_a_warning_begins_no_line_of_its_own() -> None:
    for told in warned("a\r\nSet-Cookie: b", "\x00", "\x7f\u2028"):
        assert told.isprintable() and told.isascii()


def test_warnings_have_an_end() -> None:
    """Names in them are a client's, and other clients do not read headers of any length."""
    told = warned(*("x" * 100_000 for _ in range(100)))
    assert 1 < len(told) < 20 and sum(map(len, told)) < 5000
