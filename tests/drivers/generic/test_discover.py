from __future__ import annotations

from pathlib import Path

import pytest

from dray.drivers.contract import Device, Driver, Health
from dray.drivers.generic.discover import GenericDriver
from dray.hardware.host_root import HostRoot
from dray.testing.host import Host


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = Host(tmp_path)
    host.char_device("/dev/kvm", 10, 232)
    host.char_device("/dev/net/tun", 10, 200)
    return host


def look(host: Host) -> dict[str, Device]:
    driver: Driver = GenericDriver()
    return {device.id: device for device in driver.discover(HostRoot(host.root)).devices}


def test_names_resources_and_paths_are_kubevirts(host: Host) -> None:
    devices = look(host)
    assert {name: (device.resource, device.paths) for name, device in devices.items()} == {
        "kvm": ("devices.kubevirt.io/kvm", ("/dev/kvm",)),
        "sev": ("devices.kubevirt.io/sev", ("/dev/sev",)),
        "tun": ("devices.kubevirt.io/tun", ("/dev/net/tun",)),
        "vhost-net": ("devices.kubevirt.io/vhost-net", ("/dev/vhost-net",)),
        "vhost-vsock": ("devices.kubevirt.io/vhost-vsock", ("/dev/vhost-vsock",)),
    }


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
    found = GenericDriver().discover(HostRoot(host.root))
    health = {device.id: device.health for device in found.devices}
    assert health["tun"] is Health.HEALTHY
    assert health["kvm"] is health["sev"] is Health.UNHEALTHY
    assert [problem.path for problem in found.problems] == ["/dev/kvm", "/dev/sev"]
    assert "not a device node" in found.problems[0].message


def test_other_paths_can_be_named(host: Host) -> None:
    host.char_device("/dev/fuse", 10, 229)
    found = GenericDriver({"fuse": "/dev/fuse"}).discover(HostRoot(host.root))
    assert [(device.id, device.health) for device in found.devices] == [("fuse", Health.HEALTHY)]
    assert found.looked_at == ("/dev/fuse",)
