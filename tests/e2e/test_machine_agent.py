"""The agent on real devices in a guest: what the kubelet is told when they are bound, unplugged, made and removed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dray.errors import UnavailableError
from dray.testing.machine import Machine
from dray.testing.machine.link import GuestProgram

pytest_plugins = ("dray.testing.machine.fixture",)

CHECKOUT = Path(__file__).parents[2]
PROGRAMS = CHECKOUT / "tests" / "e2e" / "programs"
CONFIG = "/run/agent.json"
ALONE, FAR, PAIR, OLD = (
    "0000:00:04.0",
    "0000:81:00.0",
    ("0000:00:05.0", "0000:00:05.1"),
    ("0000:01:01.0", "0000:01:02.0"),
)
NET, PAIRED, OLD_NET = "example.com/net", "example.com/pair", "example.com/old"
STICK, DESK, SERIAL = "example.com/stick", "example.com/desk", "example.com/serial"
FOREIGN = "11111111-2222-3333-4444-555555555555"
CARD = "/sys/class/mdev_bus/mtty"
WAIT_S = 400.0
"""The guest's one processor is emulated, and other tests run beside it: a second alone is several then."""

Devices = dict[str, tuple[str, list[int]]]
"""Id to health and NUMA nodes."""


def config(*mdev_types: str) -> str:
    keyboard_or_mouse = {"vendor": "0627", "product": "0001"}
    content = {
        "virtualMachineInstancesPerNode": 2,
        "permittedHostDevices": {
            "pciHostDevices": [
                {"pciVendorSelector": "8086:10D3", "resourceName": NET},
                {"pciVendorSelector": "10EC:8139", "resourceName": PAIRED},
                {"pciVendorSelector": "8086:100E", "resourceName": OLD_NET},
            ],
            "mediatedDevices": [{"mdevNameSelector": "Dual port serial", "resourceName": SERIAL}],
            "usb": [
                {"resourceName": STICK, "selectors": [{"vendor": "46f4", "product": "0001"}]},
                {"resourceName": DESK, "selectors": [keyboard_or_mouse, keyboard_or_mouse]},
            ],
        },
        "mediatedDevicesConfiguration": {"mediatedDeviceTypes": list(mdev_types)},
    }
    return json.dumps(content)


class Node:
    """A small kubelet and the agent in the guest. `lists` is what the kubelet has."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.lists: dict[str, Devices] = {}
        self.took: dict[str, float] = {}
        self.kubelet = self._start("machine_kubelet.py")
        self.changer = self._start("host_change.py")
        self.agent = self.start_agent()

    def _start(self, program: str) -> GuestProgram:
        return self.machine.start(["python", PROGRAMS / program], {"PYTHONPATH": str(CHECKOUT)})

    def start_agent(self) -> GuestProgram:
        self.agent = self.machine.start(["dray", "agent", "--config", CONFIG, "--metrics-address", "none"])
        return self.agent

    def stop(self) -> None:
        self.agent.stop()
        self.changer.kill()
        self.kubelet.kill()

    def change(self, kind: str, **fields: Any) -> None:
        self.changer.write(json.dumps({"change": {"change": kind, **fields}}) + "\n")
        answer = json.loads(self.changer.read_line(WAIT_S))
        assert answer == {"error": None}

    def wait(self, what: str, resource: str, wanted: Callable[[Devices], bool]) -> Devices:
        """Until the kubelet's list of the resource is as wanted; `took` has for how long that was."""
        started = time.monotonic()
        while not wanted(self.lists.get(resource, {})):
            left = started + WAIT_S - time.monotonic()
            assert left > 0, f"{what}: {self.lists.get(resource)}\n{self.agent.stderr[-4000:]}"
            assert self.agent.returncode is None, self.agent.stderr[-4000:]
            try:
                self._take(json.loads(self.kubelet.read_line(min(left, 5.0))))
            except UnavailableError:
                continue
        self.took[what] = time.monotonic() - started
        return self.lists[resource]

    def wait_health(self, what: str, resource: str, id_: str, health: str | None) -> None:
        """Until the device has this health; None: until it is not in the list."""
        self.wait(what, resource, lambda devices: devices.get(id_, (None,))[0] == health)

    def allocate(self, resource: str, *ids: str) -> tuple[dict[str, str], list[str]]:
        """Variables and nodes of the answer; each node exists and may be used."""
        self.kubelet.write(json.dumps({"resource": resource, "ids": ids}) + "\n")
        while "envs" not in (said := json.loads(self.kubelet.read_line(WAIT_S))):
            self._take(said)
        nodes = [path for path, _ in said["nodes"]]
        for path, permissions in said["nodes"]:
            assert permissions == "mrw"
            self.machine.shell(f"test -c {path}")
        return said["envs"], nodes

    def group(self, address: str) -> str:
        """The IOMMU group, as the kernel has it."""
        link = f"/sys/bus/pci/devices/{address}/iommu_group"
        return self.machine.shell(f"readlink {link}").strip().rpartition("/")[2]

    def _take(self, said: dict[str, Any]) -> None:
        assert "error" not in said, said
        if "list" in said:
            devices = {id_: (health, nodes) for id_, (health, nodes) in said["devices"].items()}
            self.lists[said["list"]] = devices


def healthy(count: int) -> Callable[[Devices], bool]:
    """So many devices, and nothing wrong with any: on their way they may be without driver or node for a moment."""
    return lambda devices: [health for health, _ in devices.values()] == ["Healthy"] * count


@pytest.fixture(scope="module")
def node(machine: Machine) -> Iterator[Node]:
    machine.write(CONFIG, config())
    node = Node(machine)
    try:
        for address in (ALONE, FAR, *PAIR, *OLD):
            node.change("BindDriver", address=address, driver="vfio-pci")
        yield node
    finally:
        node.stop()
        print("\n".join(f"{what}: {seconds:.2f} s" for what, seconds in node.took.items()))


def test_what_is_on_vfio_is_offered_with_its_numa_node(node: Node) -> None:
    alone, far = node.group(ALONE), node.group(FAR)
    devices = node.wait("agent start", NET, healthy(2))
    assert devices == {alone: ("Healthy", []), far: ("Healthy", [1])}


def test_two_functions_in_one_group_are_one_device(node: Node) -> None:
    group = node.group(PAIR[0])
    assert node.group(PAIR[1]) == group
    assert node.wait("pair", PAIRED, healthy(1)) == {group: ("Healthy", [])}
    envs, nodes = node.allocate(PAIRED, group)
    assert envs == {"PCI_RESOURCE_EXAMPLE_COM_PAIR": PAIR[0]}
    assert sorted(nodes) == sorted(["/dev/vfio/vfio", f"/dev/vfio/{group}"])


def test_a_group_that_the_host_uses_in_part_is_unhealthy(node: Node) -> None:
    group = node.group(OLD[0])
    assert node.wait("bridge", OLD_NET, healthy(1)) == {group: ("Healthy", [])}
    node.change("BindDriver", address=OLD[1], driver="e1000")
    node.wait_health("half of a group back to its host driver", OLD_NET, group, "Unhealthy")
    node.change("BindDriver", address=OLD[1], driver="vfio-pci")
    node.wait_health("half of a group on vfio-pci again", OLD_NET, group, "Healthy")
    envs, _ = node.allocate(OLD_NET, group)
    assert envs == {"PCI_RESOURCE_EXAMPLE_COM_OLD": OLD[0]}


def test_unbound_is_unhealthy_and_bound_again_is_healthy(node: Node) -> None:
    group = node.group(ALONE)
    node.change("UnbindDriver", address=ALONE)
    node.wait_health("vfio-pci unbind", NET, group, "Unhealthy")
    node.change("BindDriver", address=ALONE, driver="vfio-pci")
    node.wait_health("vfio-pci bind", NET, group, "Healthy")
    envs, nodes = node.allocate(NET, group)
    assert envs == {"PCI_RESOURCE_EXAMPLE_COM_NET": ALONE}
    assert f"/dev/vfio/{group}" in nodes


def test_a_function_plugged_in_appears_once_it_is_bound_and_goes(node: Node) -> None:
    before = set(node.lists[NET])
    node.machine.plug("e1000e", "late", "hot0", romfile="")
    address = node.machine.shell(
        "cd /sys/bus/pci/devices/0000:00:08.0; for n in $(seq 200); do ls -d 0000:*.0 2>&- && break; sleep 0.05; done"
    ).strip()
    node.change("BindDriver", address=address, driver="vfio-pci")
    devices = node.wait("hot-added PCI function", NET, healthy(3))
    [group] = set(devices) - before
    assert group == node.group(address)
    assert node.allocate(NET, group)[0] == {"PCI_RESOURCE_EXAMPLE_COM_NET": address}
    node.machine.unplug("late")
    node.wait("hot-removed PCI function", NET, lambda devices: set(devices) == before)


def test_a_stick_plugged_again_is_the_same_device_with_another_node(node: Node) -> None:
    [id_] = node.wait("stick", STICK, healthy(1))
    envs, [old] = node.allocate(STICK, id_)
    assert envs == {"USB_RESOURCE_EXAMPLE_COM_STICK": "2:2"}
    node.machine.unplug("stick")
    node.wait("USB unplugged", STICK, lambda devices: devices.get(id_, ("",))[0] != "Healthy")
    node.machine.plug("usb-storage", "stick", "usb.0", port="2", drive="stickdata", serial="STICK-1")
    node.wait_health("USB plugged again", STICK, id_, "Healthy")
    envs, [new] = node.allocate(STICK, id_)
    assert new != old
    bus, number = new.split("/")[-2:]
    assert envs == {"USB_RESOURCE_EXAMPLE_COM_STICK": f"{int(bus)}:{int(number)}"}


def test_a_set_with_one_device_unplugged_stays_unhealthy_until_it_is_back(node: Node) -> None:
    [id_] = node.wait("set", DESK, healthy(1))
    assert id_ == f"{DESK}-1-1+1-3.1"
    node.machine.unplug("mouse")
    node.wait_health("one of a USB set unplugged", DESK, id_, "Unhealthy")
    node.machine.plug("usb-mouse", "mouse", "usb.0", port="3.1", serial="MOUSE-1")
    node.wait_health("USB set complete again", DESK, id_, "Healthy")
    envs, nodes = node.allocate(DESK, id_)
    assert len(nodes) == 2
    assert envs["USB_RESOURCE_EXAMPLE_COM_DESK"].count(":") == 2


def test_another_stick_appears_and_goes(node: Node) -> None:
    before = set(node.wait("stick", STICK, healthy(1)))
    node.machine.add_disk("second")
    node.machine.plug("usb-storage", "second", "usb.0", port="5", drive="second", serial="STICK-2")
    [id_] = set(node.wait("hot-added USB device", STICK, healthy(2))) - before
    _, [path] = node.allocate(STICK, id_)
    assert path.startswith("/dev/bus/usb/")
    node.machine.unplug("second")
    node.wait("hot-removed USB device", STICK, lambda devices: set(devices) == before)


def mdevs(node: Node) -> set[str]:
    return set(node.machine.shell("ls /sys/bus/mdev/devices").split())


def test_mdevs_follow_the_config_over_kills(node: Node) -> None:
    most = int(node.machine.shell(f"cat {CARD}/mdev_supported_types/mtty-2/available_instances"))
    assert most > 2
    pid = node.agent.pid
    killer = node.machine.start(["sh", "-c", f"until [ -e {CARD}/*-*-*-*-* ]; do :; done; kill -9 {pid}"])
    node.machine.write(CONFIG, config("mtty-2"))
    assert killer.wait(WAIT_S) == 0
    half = mdevs(node)
    assert half
    node.start_agent()
    node.wait("all mdevs after a kill and a start", SERIAL, healthy(most))
    assert len(mdevs(node)) == most
    assert mdevs(node) >= half


def test_a_foreign_mdev_stays_when_the_config_drops_the_type(node: Node) -> None:
    node.agent.kill()
    ours = min(mdevs(node))
    node.machine.shell(
        f"echo 1 > /sys/bus/mdev/devices/{ours}/remove; echo {FOREIGN} > {CARD}/mdev_supported_types/mtty-2/create"
    )
    node.machine.write(CONFIG, config())
    node.start_agent()
    devices = node.wait("mdevs removed after a kill and a start", SERIAL, healthy(1))
    assert mdevs(node) == {FOREIGN}
    [group] = devices
    envs, nodes = node.allocate(SERIAL, group)
    assert envs == {"MDEV_PCI_RESOURCE_EXAMPLE_COM_SERIAL": FOREIGN}
    assert sorted(nodes) == sorted(["/dev/vfio/vfio", f"/dev/vfio/{group}"])
    node.machine.shell(f"echo 1 > /sys/bus/mdev/devices/{FOREIGN}/remove")
    node.wait("mdev removed by hand", SERIAL, lambda devices: not devices)
