from __future__ import annotations

from pathlib import Path

import pytest

from dray.drivers.contract import Device, Discovery, Health
from dray.drivers.socket import SocketDriver
from dray.drivers.socket.config import PR_HELPER, TDX, SocketConfig, SocketService
from dray.errors import InvalidError
from dray.hardware.change import Chown, Relabel
from dray.hardware.host_root import HostRoot
from dray.testing.host import Host

PR_DIRECTORY = "/var/run/kubevirt/daemons/pr"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = Host(tmp_path)
    host.file(PR_HELPER.path, "")
    host.misc_capacity(tdx=10, sev=5)
    return host


def find(host: Host, *services: SocketService) -> Discovery:
    return SocketDriver(SocketConfig(services)).discover(HostRoot(host.root))


def look(host: Host, service: SocketService) -> Device:
    (device,) = find(host, service).devices
    return device


def test_a_required_socket_is_healthy_while_it_is_there(host: Host) -> None:
    assert look(host, PR_HELPER).health is Health.HEALTHY
    host.vanish(PR_HELPER.path)
    assert look(host, PR_HELPER).reason == f"{PR_HELPER.path} does not exist"
    host.vanish(PR_DIRECTORY)
    assert look(host, PR_HELPER).health is Health.UNHEALTHY
    host.file(PR_HELPER.path, "")
    assert look(host, PR_HELPER).health is Health.HEALTHY


def test_an_optional_socket_is_always_healthy_and_not_watched(host: Host) -> None:
    found = find(host, TDX)
    assert (found.devices[0].health, found.devices[0].watch, found.watch) == (Health.HEALTHY, (), ())
    enforced = SocketService("tdx", TDX.path, capacity="tdx")
    assert look(host, enforced).health is Health.UNHEALTHY


def test_shares_are_the_capacity(host: Host) -> None:
    assert look(host, TDX).share_ids == tuple(f"tdx{index}" for index in range(10))
    assert look(host, PR_HELPER).shares == 1000


@pytest.mark.parametrize("text", ["sev 5\n", "tdx\n", "tdx many\n", "tdx 0\n", ""])
def test_without_capacity_it_is_left_out_and_told(host: Host, text: str) -> None:
    host.garbage("/sys/fs/cgroup/misc.capacity", text.encode())
    found = find(host, PR_HELPER, TDX)
    assert [device.id for device in found.devices] == ["pr-helper"]
    assert "devices.kubevirt.io/tdx is left out" in found.problems[0].message


def test_pr_helpers_files_are_given_to_qemu_whenever_they_are_there(host: Host) -> None:
    owned = (Chown(PR_DIRECTORY, 107, 107), Chown(PR_HELPER.path, 107, 107))
    assert look(host, PR_HELPER).upkeep == owned
    assert look(host, TDX).upkeep == ()
    host.selinux("enforcing")
    assert look(host, PR_HELPER).upkeep == (*owned, Relabel(PR_DIRECTORY), Relabel(PR_HELPER.path))
    host.selinux("permissive")
    labels = [change for change in look(host, PR_HELPER).upkeep if isinstance(change, Relabel)]
    assert [change.enforcing for change in labels] == [False, False]
    host.vanish(PR_HELPER.path)
    assert look(host, PR_HELPER).upkeep == ()


def test_an_optional_sockets_files_are_left_alone(host: Host) -> None:
    """They need not be there, and nobody is told when they come."""
    service = SocketService("a", PR_HELPER.path, optional=True, owner=(107, 107))
    assert look(host, service).upkeep == ()


@pytest.mark.parametrize("path", ["a.sock", "/a.sock", "/var/../a.sock", "/var//a.sock"])
def test_the_socket_lies_in_a_directory(path: str) -> None:
    with pytest.raises(InvalidError, match="directory"):
        SocketService("a", path)
