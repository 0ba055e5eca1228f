from __future__ import annotations

from dray.deviceplugin.listing import MESSAGE_BYTES, listing
from dray.drivers.contract import Device, Health
from tests.deviceplugin.conftest import tape


def test_ids_health_and_numa_nodes() -> None:
    found = listing([tape(1, numa_node=1), tape(2, Health.UNHEALTHY)])
    assert [(one.ID, one.health) for one in found.message.devices] == [
        ("tape1", "Healthy"),
        ("tape2", "Unhealthy"),
    ]
    assert [[node.ID for node in one.topology.nodes] for one in found.message.devices] == [[1], []]
    assert not found.message.devices[1].HasField("topology")
    assert found.left_out == 0


def test_shares_have_ids_of_their_own() -> None:
    shared = Device("kvm", "generic", "devices.kubevirt.io/kvm", Health.HEALTHY, shares=1000)
    names = [one.ID for one in listing([shared]).message.devices]
    assert (len(names), names[0], names[-1]) == (1000, "kvm0", "kvm999")


def test_a_list_never_grows_over_what_a_kubelet_receives() -> None:
    many = Device("x" * 50, "generic", "example.com/x", Health.HEALTHY, numa_node=0, shares=100_000)
    found = listing([many])
    assert found.message.ByteSize() <= MESSAGE_BYTES
    assert found.left_out == 100_000 - len(found.message.devices) > 0
    assert found.message.devices[0].ID == "x" * 50 + "0"
