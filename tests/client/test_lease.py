from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dray.client.lease import LeaseTimes, Seen, held, released
from dray.errors import InvalidError

NOW = datetime(2030, 1, 1, 0, 0, 1, 5, tzinfo=UTC)
STAMP = "2030-01-01T00:00:01.000005Z"
BEFORE = "2029-01-01T00:00:00.000000Z"


@pytest.mark.parametrize(
    ("lease", "renew", "retry", "field"),
    [
        (15, 10, 0, "retry"),
        (15, 2.4, 2, "renew"),
        (10, 10, 2, "lease"),
        (10.9, 10.5, 2, "lease"),
        (15, 10, -1, "retry"),
    ],
)
def test_times_that_are_not_safe(lease: float, renew: float, retry: float, field: str) -> None:
    with pytest.raises(InvalidError) as caught:
        LeaseTimes(lease, renew, retry)
    assert caught.value.field == field


def test_new_renewed_and_taken() -> None:
    times = LeaseTimes()
    new = held({}, "me", times, NOW)
    assert new == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": STAMP,
        "renewTime": STAMP,
        "leaseTransitions": 0,
    }
    old = {**new, "acquireTime": BEFORE, "renewTime": BEFORE, "strategy": "kept"}
    assert held(old, "me", times, NOW) == {**old, "renewTime": STAMP}
    taken = held(old, "you", times, NOW)
    assert (taken["holderIdentity"], taken["leaseTransitions"], taken["acquireTime"]) == ("you", 1, STAMP)
    free = released(taken, NOW)
    assert "holderIdentity" not in free
    assert (free["leaseDurationSeconds"], free["leaseTransitions"], free["strategy"]) == (1, 1, "kept")
    assert held(free, "me", times, NOW)["leaseTransitions"] == 2


def test_a_record_gets_no_younger_by_being_read() -> None:
    spec = {"holderIdentity": "you", "leaseDurationSeconds": 15, "renewTime": BEFORE}
    seen = Seen().after(spec, 100.0)
    assert seen.after(dict(spec), 110.0) is seen
    assert [seen.is_valid(now) for now in (99.0, 114.9, 115.0)] == [True, True, False]
    renewed = seen.after({**spec, "renewTime": STAMP}, 110.0)
    assert renewed.is_valid(124.9)
    assert not Seen({"leaseDurationSeconds": 15}, 100.0).is_valid(100.0)
    assert not Seen({"holderIdentity": "you"}, 100.0).is_valid(100.0)
