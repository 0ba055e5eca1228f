from __future__ import annotations

from dray.api.resource.slice import Device as Offered
from dray.api.resource.slice import ResourcePool, ResourceSlice, ResourceSliceSpec
from dray.testing.check.driver.prepare import entry_faults, prepared_faults
from dray.testing.check.driver.subject import Allocated, free_devices
from dray.wire.gen.dra_v1_pb2 import Claim, Device, NodePrepareResourceResponse

CLAIM = Claim(namespace="ns", name="c", uid="u1")
ALLOCATED = Allocated(CLAIM, "pool", "d0")


def answer(**fields: object) -> dict[str, NodePrepareResourceResponse]:
    device = Device(**{"pool_name": "pool", "device_name": "d0", **fields})  # type: ignore[arg-type]
    return {"u1": NodePrepareResourceResponse(devices=[device])}


def test_devices_of_outdated_slices_are_not_tried() -> None:
    def offer(name: str, generation: int) -> ResourceSlice:
        pool = ResourcePool(name="pool", generation=generation)
        return ResourceSlice(spec=ResourceSliceSpec(pool=pool, devices=(Offered(name=name),)))

    assert free_devices([offer("d0", 1), offer("d1", 2)]) == [("pool", "d1")]


def test_one_entry_for_each_claim() -> None:
    assert entry_faults([CLAIM], {"u1": ""}) == []
    assert entry_faults([CLAIM], {}) == ["no entry for claim u1"]
    assert entry_faults([CLAIM], {"u1": "", "u2": ""}) == ["an entry for 'u2', which was not asked for"]


def test_what_was_prepared_is_what_was_allocated() -> None:
    assert prepared_faults([ALLOCATED], answer(request_names=["devices"])) == []
    assert prepared_faults([ALLOCATED], answer()) == []
    (fault,) = prepared_faults([ALLOCATED], answer(device_name="d1"))
    assert "pool/d1" in fault and "pool/d0" in fault
    assert prepared_faults([ALLOCATED], answer(request_names=["x"])) == [
        "names requests ['x'], which the claim does not have"
    ]
    assert prepared_faults([ALLOCATED], {"u1": NodePrepareResourceResponse(error="no")}) == ["d0: no"]
