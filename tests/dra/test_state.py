from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dray.api.quantity import Quantity
from dray.api.resource.slice import Counter, DeviceAttribute, DeviceCapacity, DeviceCounterConsumption
from dray.cdi.edits import ContainerEdits, DeviceNode, Mount
from dray.dra.claims.asking import WantedDevice
from dray.dra.claims.state import STATE_FORMAT, Entry, Holding, Phase, Request, State, encode_entry
from dray.dra.claims.stored_device import store
from dray.dra.parcels import ClaimRef
from dray.drivers.contract import Device, Health
from dray.runtime.files.checkpoint_format import Format, Unreadable

CHECKPOINTS = Path(__file__).parent / "checkpoints"
SHARES = ("00000001-aaaa-4bbb-8ccc-ddddeeeeffff", "00000002-aaaa-4bbb-8ccc-ddddeeeeffff")
REF = ClaimRef("default", "web", "5e57ab1e-0000-4000-8000-000000000001")

DEVICE = Device(
    id="0000:05:00.0",
    kind="test",
    resource="example.com/gpu",
    health=Health.HEALTHY,
    label="T-1",
    numa_node=1,
    iommu_group=7,
    pcie_root="pci0000:00",
    attributes={"model": "T-1", "index": 3, "ecc": True},
    paths=("/dev/vfio/7", "/dev/vfio/vfio"),
    shares=4,
    addresses=("0000:05:00.0",),
    permissions="rw",
    open_first=True,
    name="gpu-3",
    versions={"driver": "1.2.3"},
    capacity={"memory": DeviceCapacity(value=Quantity("80Gi"))},
    consumes=(
        DeviceCounterConsumption(counter_set="gpu", counters={"slices": Counter(value=Quantity("2"))}),
    ),
    hardware=("pci:0000:05:00.0",),
)

FULL = Entry(
    REF,
    Phase.COMPLETED,
    (
        Request(
            "gpu/big",
            "gpus/gpu",
            (
                Holding(
                    WantedDevice("gpu-3", SHARES[0], {"memory": "10Gi"}),
                    store(DEVICE),
                    DEVICE.parts,
                    {"model": DeviceAttribute(string_value="T-1"), "index": DeviceAttribute(int_value=3)},
                ),
            ),
            parameters=({"mode": 1, "deep": {"list": [1, "two", None]}},),
            edits=ContainerEdits(
                env=(("A", "b=c"),),
                device_nodes=(DeviceNode("/dev/vfio/7", "/dev/vfio/7", "rw"),),
                mounts=(Mount("/a", "/b", True),),
            ),
        ),
        Request("look", "gpus/look", (), admin_access=True),
    ),
    pod_claim="gpus",
    boot="boot-1",
    passes=True,
)


def test_a_file_of_version_1_is_still_read_and_written() -> None:
    """The committed file must never change: it is what a Dray of this version left on disks."""
    content = (CHECKPOINTS / "version-1").read_bytes()
    state = STATE_FORMAT.decode(content)
    assert state.entries == (FULL,)
    assert STATE_FORMAT.encode(state) == content
    assert STATE_FORMAT.decode(STATE_FORMAT.encode(State().with_entry(FULL))).entries == (FULL,)


def test_what_a_newer_dray_wrote_is_kept() -> None:
    """Both run at once during an update, and an older one may come back."""
    content = (CHECKPOINTS / "version-1-newer").read_bytes()
    state = STATE_FORMAT.decode(content)
    assert state.entry(REF.uid) == FULL
    other = msgspec.structs.replace(FULL, claim=ClaimRef("default", "db", "other"))
    after = STATE_FORMAT.encode(state.with_entry(other).without(["other"]))
    assert after == content
    payload = Format(bytes).decode(STATE_FORMAT.encode(state.with_entry(other)))
    raw = msgspec.json.decode(payload)
    assert raw["fleet"] == {"lease": 7}
    assert raw["claims"][REF.uid]["requests"][0]["holdings"][0]["device"]["firmware"] == "9"


@pytest.mark.parametrize(
    "payload",
    [
        b"[]",
        b"{}",
        b'{"claims": 3}',
        b'{"claims": {"a": {}}}',
        b'{"claims": {"a": []}}',
        b'{"claims": {"not-its-uid": %s}}' % encode_entry(FULL),
        b"\xff",
    ],
)
def test_what_is_no_state_is_told(payload: bytes) -> None:
    with pytest.raises(Unreadable):
        STATE_FORMAT.decode(Format(bytes).encode(payload))


def test_what_a_file_leaves_out_of_an_entry_is_as_it_always_was() -> None:
    """Files omit what has its default: another default would change what they say."""
    text = b'{"claim":{"namespace":"n","name":"c","uid":"u"},"phase":"PrepareStarted","requests":[]}'
    entry = msgspec.json.decode(text, type=Entry)
    assert (entry.passes, entry.boot, entry.pod_claim) == (False, "", "")
