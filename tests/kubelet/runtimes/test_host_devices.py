from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dray.cdi.edits import DeviceNode
from dray.kubelet.runtimes.contract import ContainerConfig, PodIdentity, Security
from dray.kubelet.runtimes.host_devices import with_host_devices

CONFIG = ContainerConfig(PodIdentity("u", "ns", "p"), "c", "img", Path("/log"))


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/null")
    config = replace(CONFIG, device_nodes=(DeviceNode(str(tmp_path / "link"), "/dev/x", "r"),))
    assert with_host_devices(config).device_nodes == (DeviceNode("/dev/null", "/dev/x", "r"),)


def test_one_that_is_not_there_is_left_for_the_spec_to_refuse() -> None:
    config = replace(CONFIG, device_nodes=(DeviceNode("/dev/no", "/dev/no"),))
    assert with_host_devices(config) == config


def test_a_directory_is_opened_out() -> None:
    config = replace(CONFIG, device_nodes=(DeviceNode("/dev", "/dev/host", "r"),))
    nodes = with_host_devices(config).device_nodes
    assert DeviceNode("/dev/null", "/dev/host/null", "r") in nodes
    assert not any("/pts/" in node.host_path or node.host_path == "/dev/fd" for node in nodes)


def test_privileged_gets_all() -> None:
    nodes = with_host_devices(replace(CONFIG, security=Security(privileged=True))).device_nodes
    assert DeviceNode("/dev/zero", "/dev/zero", "rwm") in nodes
