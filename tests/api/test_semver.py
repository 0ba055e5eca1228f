from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api.semver import SemVer, is_semver
from dray.errors import InvalidError
from tests.campaign import campaign, seeded

# The order in the examples of semver.org 2.0.0, paragraph 11.
ORDER = [
    "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1",
    "1.0.0", "2.0.0", "2.1.0", "2.1.1",
]  # fmt: skip

VALID = [
    "0.0.4", "1.2.3", "10.20.30", "1.1.2-prerelease+meta", "1.1.2+meta", "1.1.2+meta-valid", "1.0.0-alpha0.valid",
    "1.0.0-alpha.0valid", "1.0.0-rc.1+build.1", "1.2.3-SNAPSHOT-123", "2.0.1-alpha.1227", "1.0.0-0A.is.legal",
    "1.2.3----RC-SNAPSHOT.12.9.1--.12+788", "1.2.3----R-S.12.9.1--.12", "1.0.0+0.build.1-rc.10000aaa-kk-0.1",
    "1.0.0+001",
]  # fmt: skip
INVALID = [
    "", "1", "1.2", "v1.2.3", " 1.2.3", "1.2.3 ", "1.2.3\n", "1.2.3-0123", "1.2.3-0123.0123", "1.1.2+.123", "+invalid",
    "-invalid", "alpha", "1.2.3.4", "1.2.3-", "1.2.3+", "1.2.3-a..b", "01.1.1", "1.01.1", "1.1.01", "1.2-SNAPSHOT",
    "1.2.3+a+b", "1.2.3-é", "١.2.3", "-1.0.3-gamma+b7718", "1.2.31----RC-SNAPSHOT.12.09.1--..12+788",
]  # fmt: skip

versions = st.from_regex(
    r"(0|[1-9][0-9]{0,3})\.(0|[1-9])\.(0|[1-9])(-(0|[1-9]|[a-c]{1,2}|-)(\.(0|10|[a-c]))?)?(\+[0-9a-c]{1,2})?",
    fullmatch=True,
)


def test_precedence_as_in_the_specification() -> None:
    parsed = [SemVer.parse(text) for text in ORDER]
    shuffled = parsed[:]
    seeded(1).shuffle(shuffled)
    assert sorted(shuffled) == parsed
    for index, version in enumerate(parsed[:-1]):
        after = parsed[index + 1]
        assert version < after
        assert version <= after
        assert after > version
        assert after >= version
        assert version != after
        assert (version.compare(after), after.compare(version), version.compare(version)) == (-1, 1, 0)


@pytest.mark.parametrize("text", VALID)
def test_valid(text: str) -> None:
    assert is_semver(text)
    assert str(SemVer.parse(text)) == text


@pytest.mark.parametrize("text", INVALID)
def test_invalid(text: str) -> None:
    assert not is_semver(text)
    with pytest.raises(InvalidError, match=r"semver\.org spec 2\.0\.0"):
        SemVer.parse(text)


def test_build_metadata_counts_for_nothing() -> None:
    one, two = SemVer.parse("1.0.0+a"), SemVer.parse("1.0.0+b")
    assert one == two
    assert hash(one) == hash(two)
    assert one.compare(two) == 0
    assert one.build == ("a",)
    assert one != "1.0.0+a"


def test_numbers_stop_at_64_bits_although_the_api_server_lets_them_pass() -> None:
    assert SemVer.parse("18446744073709551615.0.0").major == 2**64 - 1
    for text in ("18446744073709551616.0.0", "1.0.0-18446744073709551616", "9" * 5000 + ".0.0"):
        assert is_semver(text)
        with pytest.raises(InvalidError, match="less than 2"):
            SemVer.parse(text)


@pytest.mark.parametrize(
    ("text", "strict"),
    [("v1.2.3", "1.2.3"), ("1", "1.0.0"), ("1.2", "1.2.0"), ("01.002.3", "1.2.3"), ("0", "0.0.0"), ("00.0.00", "0.0.0"),
     ("v1.02.03-rc.1+b", "1.2.3-rc.1+b")],
)  # fmt: skip
def test_lenient_reading(text: str, strict: str) -> None:
    assert str(SemVer.parse_lenient(text)) == strict


@pytest.mark.parametrize("text", ["", "v", "1-rc", "1.2+b", "a.b", "1.2.3.4", "vv1.2.3"])
def test_lenient_has_limits(text: str) -> None:
    with pytest.raises(InvalidError):
        SemVer.parse_lenient(text)


@settings(max_examples=campaign(100, 10_000))
@given(versions, versions, versions)
def test_order_is_total(one: str, two: str, three: str) -> None:
    a, b, c = SemVer.parse(one), SemVer.parse(two), SemVer.parse(three)
    assert (a < b) + (a == b) + (a > b) == 1
    if a <= b <= c:
        assert a <= c
