"""Dray's plugin lifetime beside a real kubelet: registered, allocated, and back after every kill on either side."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.testing.kubernetes.cluster import Cluster
from dray.testing.kubernetes.part import Part, wait_until
from tests.campaign import campaign
from tests.e2e.programs.kvm_plugin import RESOURCE, SHARES
from tests.e2e.test_cluster import pod, run

pytestmark = pytest.mark.skipif(not Path("/dev/kvm").exists(), reason="this machine has no /dev/kvm")


def allocatable(cluster: Cluster) -> str | None:
    node = cluster.request("GET", f"/api/v1/nodes/{cluster.node_name}")
    found = node["status"].get("allocatable", {}).get(RESOURCE)
    return None if found is None else str(found)


def wait_allocatable(cluster: Cluster, count: int, *parts: Part) -> None:
    wait_until(
        lambda: allocatable(cluster) == str(count), f"{count} of {RESOURCE} to be allocatable", 60, parts
    )


def registrations(plugin: Part) -> int:
    return plugin.log.read_text().count("msg=registered")


def wait_registered(cluster: Cluster, plugin: Part, times: int) -> None:
    """The node's status may still be the one from before; the plugin's log tells that the kubelet took it anew."""
    wait_until(lambda: registrations(plugin) == times, "the plugin to be registered again", 60, [plugin])
    wait_allocatable(cluster, SHARES, plugin)


@pytest.fixture
def plugin(cluster: Cluster) -> Iterator[Part]:
    argv = [sys.executable, "-m", "tests.e2e.programs.kvm_plugin"]
    part = cluster.spawn("dray-plugin", *argv, env={"PYTHONPATH": str(Path.cwd())})
    yield part
    part.stop()


def test_a_pod_gets_the_device_the_permissions_and_the_variable(cluster: Cluster, plugin: Part) -> None:
    wait_allocatable(cluster, SHARES, plugin)
    script = "test -c /dev/kvm && exec 3<>/dev/kvm && echo $DRAY_DEVICE opened"
    wanted = {"limits": {RESOURCE: "1"}}
    assert run(cluster, pod("with-kvm", script, hostNetwork=True, resources=wanted)) == "kvm opened\n"
    plugin.stop()
    wait_allocatable(cluster, 0)
    assert not list(cluster.dirs.kubelet.glob("device-plugins/kubevirt-*"))


def test_kills_on_either_side_lose_nothing(cluster: Cluster, plugin: Part) -> None:
    wait_allocatable(cluster, SHARES, plugin)
    holder = pod("holder", "exec sleep 1000", hostNetwork=True, resources={"limits": {RESOURCE: "1"}})
    cluster.kubectl("apply", "-f", "-", input=json.dumps(holder))
    started = cluster.wait_pod("holder")["status"]["containerStatuses"][0]["containerID"]
    before = registrations(plugin)
    for number in range(campaign(2, 20)):
        plugin.kill()
        plugin.start()
        wait_registered(cluster, plugin, before + 2 * number + 1)
        cluster.stop_kubelet()
        cluster.start_kubelet()
        wait_registered(cluster, plugin, before + 2 * number + 2)
    now = cluster.wait_pod("holder")["status"]["containerStatuses"][0]
    assert (now["containerID"], now["restartCount"]) == (started, 0)
    cluster.kubectl("delete", "pod", "holder")
