from __future__ import annotations

from typing import Any

from dray.allocation.state import AllocatedState, DeviceID, ShareID
from dray.api.codec.json_codec import view
from dray.api.quantity import Quantity
from dray.api.resource.claim import ResourceClaim


def held(*results: dict[str, Any]) -> ResourceClaim:
    given = [{"request": "r", "driver": "d", "pool": "p", **one} for one in results]
    return view({"status": {"allocation": {"devices": {"results": given}}}}, ResourceClaim)


def test_what_claims_hold() -> None:
    claims = [
        held({"device": "whole"}, {"device": "watched", "adminAccess": True}),
        held({"device": "part", "shareID": "s1", "consumedCapacity": {"memory": "1Gi", "cores": "2"}}),
        held({"device": "part", "shareID": "s2", "consumedCapacity": {"memory": "2Gi"}}),
        held({"device": "bare", "shareID": "s3"}),
        view({}, ResourceClaim),
    ]
    state = AllocatedState.of(claims)
    part, bare = DeviceID("d", "p", "part"), DeviceID("d", "p", "bare")
    assert state.devices == {DeviceID("d", "p", "whole")}
    assert state.shares == {ShareID(part, "s1"), ShareID(part, "s2"), ShareID(bare, "s3")}
    assert state.capacity == {part: {"memory": Quantity("3Gi"), "cores": Quantity("2")}}
    assert state.shared_devices() == {part, bare}
    assert str(part) == "d/p/part"


def test_without_the_feature_a_share_is_a_whole_device() -> None:
    state = AllocatedState.of([held({"device": "part", "shareID": "s1"})], consumable_capacity=False)
    assert state.devices == {DeviceID("d", "p", "part")} and not state.shares
