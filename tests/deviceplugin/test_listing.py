from __future__ import annotations

from dray.deviceplugin.listing import MESSAGE_BYTES, Catalog, listing
from dray.deviceplugin.preferred import Spot
from dray.drivers.contract import Device, Health
from dray.inventory.inventory import InventoryFeed
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


def cam(number: int) -> Device:
    return Device(f"cam{number}", "cam", "example.com/cam", Health.HEALTHY)


def test_a_change_of_another_resource_makes_nothing_anew() -> None:
    feed = InventoryFeed()
    catalog = Catalog("example.com/tape", feed)
    assert catalog.current.devices == ()
    feed.publish([tape(1), tape(2)])
    first = catalog.current
    message = first.listing.message
    for number in range(3):
        feed.publish([tape(1), tape(2), cam(number)])
        assert catalog.current is first
        assert catalog.current.listing.message is message
    feed.publish([tape(1), tape(2, Health.UNHEALTHY)])
    assert catalog.current is not first
    assert catalog.current.by_id["tape2"].health is Health.UNHEALTHY
    assert first.by_id["tape2"].health is Health.HEALTHY


def test_every_share_leads_to_its_device() -> None:
    feed = InventoryFeed()
    shared = Device("kvm", "generic", "devices.kubevirt.io/kvm", Health.HEALTHY, numa_node=1, shares=3)
    feed.publish([shared, cam(1)])
    shelf = Catalog("devices.kubevirt.io/kvm", feed).current
    assert shelf.by_id == {"kvm0": shared, "kvm1": shared, "kvm2": shared}
    assert set(shelf.spots.values()) == {Spot(1, "")}
    assert Catalog("example.com/cam", feed).current.spots == {"cam1": Spot(-1, "")}
