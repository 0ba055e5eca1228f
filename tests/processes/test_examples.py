"""The manifests under examples/03 to 05 run on a `--sim` cluster, each pod with the device that it asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.api.codec import load_documents, view
from dray.api.core import Pod
from dray.api.kinds import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, by_kind
from dray.api.resource.slice import Device
from dray.api.validation.entry import validate
from dray.client.client import Client
from dray.drivers.sim.profile import HOLLOW_LABEL
from dray.up.fleet.profile_file import load_profile
from tests.up.fleet.fleet_cluster import NS, apply, in_phase, sim_cluster
from tests.waiting import until

EXAMPLES = sorted(Path("examples").glob("0[345]-*"))


async def given(client: Client, pod: Pod) -> tuple[str, Device]:
    """Node and device of the pod's only claim."""
    (status,) = pod.status.resource_claim_statuses
    assert status.resource_claim_name is not None
    claim = await client.get(RESOURCE_CLAIMS, status.resource_claim_name, namespace=NS)
    assert claim.status.allocation is not None
    (result,) = claim.status.allocation.devices.results
    assert [(one.device, one.conditions[0].type) for one in claim.status.devices] == [
        (result.device, "Ready")
    ]
    slices = (await client.list(RESOURCE_SLICES)).items
    (device,) = (
        device
        for one in slices
        if (one.spec.driver, one.spec.pool.name) == (result.driver, result.pool)
        for device in one.spec.devices or ()
        if device.name == result.device
    )
    return result.pool, device


async def a_gpu_through_dra(cluster: Client) -> None:
    await apply(cluster, *sorted(Path("examples/03-dra").glob("*.yaml")))
    pod = await in_phase(cluster, "gpu-test-pod", "Running")
    node, device = await given(cluster, pod)
    assert node == pod.spec.node_name
    assert device.attributes["type"].string_value == "gpu"
    assert device.attributes["simulated"].bool_value is True


async def a_class_for_a100_alone(cluster: Client) -> None:
    await apply(cluster, *sorted(Path("examples/04-a100-selector").glob("*.yaml")))
    pod = await in_phase(cluster, "a100-test-pod", "Running")
    node, device = await given(cluster, pod)
    assert device.attributes["productName"].string_value == "NVIDIA A100"
    assert device.taints == ()
    assert node.startswith("a100-")


async def a_gpu_through_a_device_plugin(cluster: Client) -> None:
    await apply(cluster, Path("examples/05-device-plugin/pod.yaml"))
    pod = await in_phase(cluster, "gpu-plugin-pod", "Running")
    node = await cluster.get(NODES, pod.spec.node_name)
    assert str(node.status.allocatable["nvidia.com/gpu"]) == "8"
    assert node.metadata.labels[HOLLOW_LABEL] == "true"
    assert pod.status.resource_claim_statuses == ()


async def deleted_pods_give_their_devices_back(cluster: Client) -> None:
    for name in ("gpu-test-pod", "a100-test-pod", "gpu-plugin-pod"):
        await in_phase(cluster, name, "Running")
        await cluster.delete(PODS, name, namespace=NS)

    async def is_empty() -> bool:
        pods, claims = await cluster.list(PODS), await cluster.list(RESOURCE_CLAIMS)
        return not pods.items and not claims.items

    assert await until(is_empty)


async def test_each_pod_runs_with_the_device_that_it_asks_for(tmp_path: Path) -> None:
    async with sim_cluster(tmp_path, load_profile("100-nodes")) as cluster:
        await a_gpu_through_dra(cluster)
        await a_class_for_a100_alone(cluster)
        await a_gpu_through_a_device_plugin(cluster)
        await deleted_pods_give_their_devices_back(cluster)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_every_manifest_is_valid_and_explained(example: Path) -> None:
    files = sorted(example.glob("*.yaml"))
    text = (example / "README.md").read_text()
    assert files and all(file.name in text for file in files)
    for file in files:
        for one in load_documents(file.read_text(), str(file)):
            resource = by_kind(one.api_version, one.kind)
            if resource.group:
                metadata = one.raw["metadata"] | ({"namespace": NS} if resource.namespaced else {})
                assert validate(resource, view(one.raw | {"metadata": metadata}, resource.type)) == []
