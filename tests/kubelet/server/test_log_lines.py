from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dray.errors import InvalidError
from dray.kubelet.server.log_lines import LogOptions, Shown, log_options

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
LOG = (
    b"""\
2030-01-01T11:59:00.123456789Z stdout F one
2030-01-01T11:59:30.000000000Z stderr F two
2030-01-01T11:59:58.000000000Z stdout P thr
2030-01-01T11:59:58.500000000Z stdout F ee
2030-01-01T11:59:59.000000000Z stdout F%s
"""
    % b" "
)


def shown(options: LogOptions, data: bytes = LOG, size: int = 7) -> bytes:
    """Read in small pieces, as a file that grows."""
    found = Shown(options)
    pieces = [found.take(data[at : at + size]) for at in range(0, len(data), size)]
    return b"".join([*pieces, found.end()])


def test_pieces_of_a_line_are_joined() -> None:
    assert shown(LogOptions()) == b"one\ntwo\nthree\n\n"


def test_times_stand_before_lines_not_before_pieces() -> None:
    assert shown(LogOptions(timestamps=True)).split(b"\n")[1:3] == [
        b"2030-01-01T11:59:30.000000000Z two",
        b"2030-01-01T11:59:58.000000000Z three",
    ]


def test_since_a_moment_on() -> None:
    assert shown(LogOptions(since=NOW - timedelta(seconds=30))) == b"two\nthree\n\n"
    assert shown(LogOptions(since=NOW)) == b""


def test_one_of_the_streams() -> None:
    assert shown(LogOptions(stream=b"stderr")) == b"two\n"


@pytest.mark.parametrize("limit", [1, 3, 4, 6, 100])
def test_a_limit_is_kept_to_the_byte(limit: int) -> None:
    whole = b"one\ntwo\nthree\n\n"
    assert shown(LogOptions(limit=limit)) == whole[:limit]


def test_what_is_no_line_hides_nothing_and_a_cut_one_is_shown() -> None:
    broken = b"\0\0\0\n" + LOG + b"2030-01-01T12:00:00Z stdout F cut of"
    assert shown(LogOptions(), broken).endswith(b"three\n\ncut of\n")
    assert shown(LogOptions(), LOG + b"2030-01-01T12") == b"one\ntwo\nthree\n\n"


def test_options_by_the_names_of_kubectl() -> None:
    query = {"follow": "true", "tailLines": "0", "sinceSeconds": "60", "limitBytes": "5", "previous": "false"}
    assert log_options(query, NOW) == LogOptions(
        follow=True, tail=0, since=NOW - timedelta(seconds=60), limit=5
    )
    assert log_options({"sinceTime": "2030-01-01T12:00:00Z", "stream": "Stderr"}, NOW) == LogOptions(
        since=NOW, stream=b"stderr"
    )


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"follow": "maybe"}, "follow"),
        ({"tailLines": "-1"}, "tailLines"),
        ({"tailLines": "²"}, "tailLines"),
        ({"limitBytes": "0"}, "limitBytes"),
        ({"sinceSeconds": "0"}, "sinceSeconds"),
        ({"sinceTime": "noon"}, "sinceTime"),
        ({"sinceTime": "2030-01-01T12:00:00"}, "sinceTime"),
        ({"sinceTime": "2030-01-01T12:00:00Z", "sinceSeconds": "1"}, "sinceTime"),
        ({"stream": "both"}, "stream"),
    ],
)
def test_options_that_make_no_sense(query: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidError) as caught:
        log_options(query, NOW)
    assert caught.value.field == field
