from __future__ import annotations

import hashlib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.errors import InvalidError, InvariantError
from dray.runtime.files.checkpoint_format import Format, Unreadable
from tests.campaign import campaign


class Holds(msgspec.Struct, frozen=True):
    holders: dict[str, str] = {}
    count: int = 0


HOLDS = Format(Holds)


def test_the_same_state_gives_the_same_bytes() -> None:
    assert HOLDS.encode(Holds({"a": "2", "b": "1"}, 2)) == HOLDS.encode(Holds({"b": "1", "a": "2"}, 2))


def test_the_checksum_is_over_the_bytes_as_stored() -> None:
    first, rest = HOLDS.encode(Holds(count=1)).split(b"\n", 1)
    assert first == b"dray-checkpoint/1 sha256:" + hashlib.sha256(rest).hexdigest().encode()
    # Other bytes with the same meaning and their own checksum are as good: nothing is encoded again to compare.
    spaced = rest.replace(b":", b" : ")
    stored = b"dray-checkpoint/1 sha256:%s\n%s" % (hashlib.sha256(spaced).hexdigest().encode(), spaced)
    assert HOLDS.decode(stored) == Holds(count=1)


@pytest.mark.parametrize(
    "line", [b"version 0", b"version -1", b"version x", b"version", b"", b"version 1234567890", b"Version 1"]
)
def test_a_bad_version_line_is_unreadable_even_with_a_good_checksum(line: bytes) -> None:
    covered = line + b"\n{}"
    stored = b"dray-checkpoint/1 sha256:%s\n%s" % (hashlib.sha256(covered).hexdigest().encode(), covered)
    with pytest.raises(Unreadable, match="version line"):
        HOLDS.decode(stored)


def test_a_migration_that_leads_nowhere_is_our_own_bug() -> None:
    for version, migrations in ((2, {2: bytes}), (2, {0: bytes}), (0, {})):
        with pytest.raises(InvariantError):
            Format(Holds, version=version, migrations=migrations)


def test_a_state_larger_than_the_limit_is_refused() -> None:
    with pytest.raises(InvalidError, match="limit of 150"):
        Format(bytes, max_size=150).encode(b"x" * 100)


@settings(max_examples=campaign(200, 50_000))
@given(st.binary(max_size=300))
def test_bytes_come_back_as_they_went_in(payload: bytes) -> None:
    assert Format(bytes).decode(Format(bytes).encode(payload)) == payload


@settings(max_examples=campaign(200, 50_000))
@given(st.binary(max_size=300) | st.binary(max_size=100).map(Format(bytes).encode))
def test_any_bytes_are_a_state_or_unreadable(content: bytes) -> None:
    try:
        assert isinstance(HOLDS.decode(content), Holds)
    except Unreadable as unreadable:
        assert str(unreadable)
