"""What claims hold, claim by claim, as it would be worked out over all of them."""

from __future__ import annotations

from dray.allocation.cluster.situation import in_use
from dray.allocation.features import Features
from dray.allocation.index.holds import Holds
from dray.allocation.state import AllocatedState, DeviceID, ShareID
from dray.api.codec import view
from dray.api.quantity import Quantity
from dray.api.resource.claim import ResourceClaim
from tests.allocation.dumps import HOLDS, holding

D = DeviceID("driver-a", "pool-1", "d")
OTHER = "bbbbbbbb-bbbb-4bbb-bbbb-bbbbbbbbbbbb"


def share(name: str, share_id: str, **amounts: str) -> ResourceClaim:
    return view(holding(name, "d", shareID=share_id, consumedCapacity=amounts), ResourceClaim)


def test_shares_of_one_device_add_up() -> None:
    holds = Holds(AllocatedState(), consumable_capacity=True)
    one, two = share("one", HOLDS, memory="2Gi"), share("two", OTHER, memory="3Gi", cores="1")
    assert holds.set_claim(one) == {D} and holds.set_claim(two) == {D}
    got = holds.snapshot()
    assert got.capacity == {D: {"memory": Quantity("5Gi"), "cores": Quantity("1")}}
    assert got.shares == {ShareID(D, HOLDS), ShareID(D, OTHER)} and not got.devices
    assert got == in_use([one, two], Features(consumable_capacity=True))
    assert holds.remove_claim(one) == {D}
    assert holds.snapshot() == in_use([two], Features(consumable_capacity=True))


def test_shares_add_up_with_what_was_in_use_before() -> None:
    before = AllocatedState(shares=frozenset([ShareID(D, OTHER)]), capacity={D: {"memory": Quantity("1Gi")}})
    holds = Holds(before, consumable_capacity=True)
    one = share("one", HOLDS, memory="2Gi")
    holds.set_claim(one)
    assert holds.snapshot().capacity == {D: {"memory": Quantity("3Gi")}}
    holds.remove_claim(one)
    assert holds.snapshot() == before
