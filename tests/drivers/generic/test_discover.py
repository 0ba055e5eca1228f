from __future__ import annotations

from pathlib import Path

import pytest

from dray.drivers.contract import Device, Discovery, Health
from dray.drivers.generic import GenericDriver
from dray.drivers.generic.config import GenericConfig, GenericDevice
from dray.drivers.generic.discover import not_opened
from dray.hardware.host_root import HostRoot
from dray.testing.host import Host


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = Host(tmp_path)
    host.char_device("/dev/kvm", 10, 232)
    host.char_device("/dev/net/tun", 10, 200)
    return host


def find(host: Host, *devices: GenericDevice) -> Discovery:
    driver = GenericDriver(GenericConfig(devices)) if devices else GenericDriver()
    return driver.discover(HostRoot(host.root))


def look(host: Host, *devices: GenericDevice) -> dict[str, Device]:
    return {device.id: device for device in find(host, *devices).devices}


def test_names_resources_and_paths_are_kubevirts(host: Host) -> None:
    devices = look(host)
    assert {name: (device.resource, device.paths) for name, device in devices.items()} == {
        "kvm": ("devices.kubevirt.io/kvm", ("/dev/kvm",)),
        "sev": ("devices.kubevirt.io/sev", ("/dev/sev",)),
        "tun": ("devices.kubevirt.io/tun", ("/dev/net/tun",)),
        "vhost-net": ("devices.kubevirt.io/vhost-net", ("/dev/vhost-net",)),
        "vhost-vsock": ("devices.kubevirt.io/vhost-vsock", ("/dev/vhost-vsock",)),
    }
    assert {device.shares for device in devices.values()} == {1000}


def test_health_is_whether_the_node_is_there(host: Host) -> None:
    healthy = {name for name, device in look(host).items() if device.health is Health.HEALTHY}
    assert healthy == {"kvm", "tun"}
    assert look(host)["sev"].reason == "/dev/sev does not exist"
    host.vanish("/dev/kvm")
    assert look(host)["kvm"].health is Health.UNHEALTHY
    host.file("/dev/kvm", "")
    assert look(host)["kvm"].health is Health.HEALTHY


def test_one_bad_node_does_not_hide_the_others(host: Host) -> None:
    host.unreadable("/dev/kvm")
    host.link("/dev/sev", "/dev/sev")
    found = find(host)
    health = {device.id: device.health for device in found.devices}
    assert health["tun"] is Health.HEALTHY
    assert health["kvm"] is health["sev"] is Health.UNHEALTHY
    assert [problem.path for problem in found.problems] == ["/dev/kvm", "/dev/sev"]
    assert "not a device node" in found.problems[0].message


def test_other_paths_can_be_named(host: Host) -> None:
    host.char_device("/dev/fuse", 10, 229)
    found = find(host, GenericDevice("fuse", "/dev/fuse", shares=3, resource="example.com/fuse"))
    (device,) = found.devices
    assert (device.id, device.resource, device.health) == ("fuse", "example.com/fuse", Health.HEALTHY)
    assert device.share_ids == ("fuse0", "fuse1", "fuse2")
    assert found.looked_at == ("/dev/fuse",)
    assert (found.watch, device.watch) == ((), ("/dev/fuse",))


@pytest.mark.parametrize(
    ("pattern", "ids"),
    [
        ("/dev/ttyUSB*", ["tty:ttyUSB0", "tty:ttyUSB1", "tty:ttyUSB10"]),
        ("/dev/ttyUSB?", ["tty:ttyUSB0", "tty:ttyUSB1"]),
        ("/dev/ttyUSB[1-9]", ["tty:ttyUSB1"]),
        ("/dev/*SB?", ["tty:ttyUSB0", "tty:ttyUSB1"]),
        ("/dev/.tty*", ["tty:.ttyUSB2"]),
        ("/dev/*/card0", ["tty:dri/card0"]),
        ("/dev/absent/*", []),
        ("/dev/kvm/*", []),
    ],
)
def test_a_pattern_is_a_device_for_each_match(host: Host, pattern: str, ids: list[str]) -> None:
    for index in (10, 1, 0):
        host.char_device(f"/dev/ttyUSB{index}", 188, index)
    host.char_device("/dev/dri/card0", 226, 0)
    host.file("/dev/.ttyUSB2", "")
    devices = look(host, GenericDevice("tty", pattern, shares=None))
    assert list(devices) == ids
    assert {device.shares for device in devices.values()} <= {None}
    assert all(device.watch == device.paths for device in devices.values())


def test_a_pattern_watches_where_matches_appear(host: Host) -> None:
    wanted = (GenericDevice("tty", "/dev/serial/*/x*"), GenericDevice("kvm", "/dev/kvm"))
    assert find(host, *wanted).watch == ("/dev/serial",)
    host.char_device("/dev/serial/one/x0", 188, 0)
    assert find(host, *wanted).watch == ("/dev/serial", "/dev/serial/one")


def test_a_link_cannot_lead_out_of_the_root(host: Host, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.touch()
    try:
        host.link("/dev/fuse", f"../../{outside.name}")
        (device,) = find(host, GenericDevice("fuse", "/dev/fuse")).devices
        assert device.health is Health.UNHEALTHY
    finally:
        outside.unlink()


def test_root_is_not_told_to_become_root() -> None:
    assert "the agent needs root" in not_opened("/dev/kvm", is_root=False)
    forbidden = not_opened("/dev/kvm", is_root=True)
    assert forbidden.startswith(
        "this user may not open /dev/kvm, though it is root: the container's device cgroup"
    )
    assert "needs root" not in forbidden
