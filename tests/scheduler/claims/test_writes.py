from __future__ import annotations

from dray.scheduler.claims import writes
from dray.semantics.claims import consumer_of
from tests.scheduler.claims.objects import allocated, allocation, as_allocation, claim, pod


def test_a_write_says_whether_it_carries_devices() -> None:
    """While nobody knows whether such a write was stored, its devices stay held."""
    user = consumer_of(pod())
    given = writes.allocate_and_reserve(claim(), as_allocation(allocation()), user)
    assert given.carries_allocation and "allocation" in given.body["status"]
    joined = writes.allocate_and_reserve(allocated(), None, user)
    assert not joined.carries_allocation and "allocation" not in joined.body["status"]
