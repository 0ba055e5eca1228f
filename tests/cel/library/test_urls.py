from __future__ import annotations

import pytest

from dray.cel.library.url_parts import Url, parse
from dray.cel.library.urls import parse_url
from tests.cel.library.answers import complaints, evaluate


def test_urls_answer_as_in_kubernetes() -> None:
    assert complaints("urls") == []


@pytest.mark.parametrize(
    "text",
    [
        "https://u:p@h:80/a%2Fb?q=1#f",
        "/a:b",
        "mailto:a@b",
        "x:/y",
        "http://[fe80::1%25en0]:1/",
        "file:///etc",
        "//h/p",
        "*",
    ],
)
def test_a_url_is_written_as_it_was_read(text: str) -> None:
    assert bytes(parse(text)).decode() == text


def test_equal_is_written_the_same() -> None:
    assert parse_url("HTTP://h/") == parse_url("http://h/")
    assert parse_url("http://h/%41") != parse_url("http://h/A")
    assert hash(parse_url("HTTP://h/")) == hash(parse_url("http://h/"))


def test_a_relative_path_with_a_colon_is_kept_apart_from_a_scheme() -> None:
    assert bytes(Url(path=b"a:b")) == b"./a:b"


def test_a_query_with_too_many_parameters_has_none() -> None:
    assert parse_url("/?" + "a&" * 20_000).url.query
    assert evaluate(f"url('/?{'a&' * 10_001}').getQuery()") == {}
