"""The whole agent on a machine of files, with a small kubelet on real sockets."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from dray.errors import Error, InvalidError
from dray.processes.agent import run_agent
from dray.runtime.clock import FakeClock
from dray.runtime.tasks import running
from dray.testing.host import MdevType
from dray.wire.gen.deviceplugin_v1beta1_pb2 import ContainerAllocateResponse
from tests.processes.conftest import Node

ALL = """
permittedHostDevices:
  pciHostDevices:
  - {pciVendorSelector: "10DE:2330", resourceName: nvidia.com/GPU}
  - {pciVendorSelector: "10DE:2335", resourceName: nvidia.com/VGPU}
  - {pciVendorSelector: "8086:10d3", resourceName: intel.com/nic}
  mediatedDevices:
  - {mdevNameSelector: "GRID T4-1Q", resourceName: nvidia.com/GRID_T4-1Q}
  usb:
  - resourceName: kubevirt.io/storage
    selectors: [{vendor: "46f4", product: "0001"}]
  - resourceName: kubevirt.io/pair
    selectors: [{vendor: "1050", product: "0407"}, {vendor: "0951", product: "1666"}]
mediatedDevicesConfiguration: {enabled: false}
virtualMachineInstancesPerNode: 3
persistentReservationConfiguration: {enabled: true}
developerConfiguration: {featureGates: [WorkloadEncryptionTDX, IOMMUFD]}
dray:
  generic:
  - {name: disk, glob: "/dev/nvme*n1"}
  sim:
    devices: [{name: gpu, shape: gpu, count: 2, resourceName: x.io/sim}]
"""
PERMANENT = {
    "devices.kubevirt.io/kvm",
    "devices.kubevirt.io/tun",
    "devices.kubevirt.io/vhost-net",
    "devices.kubevirt.io/sev",
}
BARE = "virtualMachineInstancesPerNode: 2\n"


def nodes_of(answer: ContainerAllocateResponse) -> list[str]:
    return [device.host_path for device in answer.devices]


async def test_every_kind_is_served(node: Node) -> None:
    wanted = {
        "devices.kubevirt.io/kvm": 3,
        "devices.kubevirt.io/tun": 3,
        "devices.kubevirt.io/sev": 3,
        "devices.kubevirt.io/vhost-net": 3,
        "devices.kubevirt.io/iommufd": 3,
        "devices.kubevirt.io/pr-helper": 3,
        "devices.kubevirt.io/tdx": 10,
        "nvidia.com/GPU": 2,
        "nvidia.com/VGPU": 1,
        "intel.com/nic": 1,
        "nvidia.com/GRID_T4-1Q": 2,
        "kubevirt.io/storage": 2,
        "kubevirt.io/pair": 1,
        "dray.internal/disk": 2,
        "x.io/sim": 2,
    }
    async with node.serving(ALL) as kubelet:
        await node.wait(
            lambda: {name: len(found) for name, found in kubelet.lists.items()} == wanted, "every resource"
        )
        gpu = await kubelet.allocate("nvidia.com/GPU", "5")
        assert dict(gpu.envs) == {"PCI_RESOURCE_NVIDIA_COM_GPU": "0000:05:00.0"}
        assert nodes_of(gpu)[:2] == ["/dev/vfio/vfio", "/dev/vfio/5"]
        mdev = await kubelet.allocate("nvidia.com/GRID_T4-1Q", "71", "72")
        assert len(mdev.envs["MDEV_PCI_RESOURCE_NVIDIA_COM_GRID_T4-1Q"].split(",")) == 2
        assert nodes_of(await kubelet.allocate("devices.kubevirt.io/kvm", "kvm0", "kvm2")) == ["/dev/kvm"]
        assert [
            mount.host_path for mount in (await kubelet.allocate("devices.kubevirt.io/tdx", "tdx9")).mounts
        ] == ["/var/run/tdx-qgs"]
    assert not list(kubelet.directory.glob("kubevirt-*"))
    assert {len(found) for found in kubelet.lists.values()} == {0}  # it said goodbye


async def test_devices_that_come_and_go_are_followed(node: Node) -> None:
    async with node.serving(ALL):
        both = {"5": "Healthy", "12": "Healthy"}
        await node.wait_list("nvidia.com/GPU", both)
        node.machine.gpus[0].unbind()
        await node.wait_list("nvidia.com/GPU", {**both, "5": "Unhealthy"})
        node.machine.gpus[0].bind("vfio-pci")
        await node.wait_list("nvidia.com/GPU", both)
        stick = node.machine.sticks[0]
        stick.unplug()
        await node.wait_list("kubevirt.io/storage", {"kubevirt.io/storage-1-2": "Healthy"})
        stick.replug()
        await node.wait_list(
            "kubevirt.io/storage", {f"kubevirt.io/storage-1-{port}": "Healthy" for port in (1, 2)}
        )
        assert node.kubelet.registered.count("nvidia.com/GPU") == 1


async def test_an_edit_disturbs_only_what_it_is_about(node: Node) -> None:
    async with node.serving(ALL) as kubelet:
        await node.wait_list("nvidia.com/GPU", {"5": "Healthy", "12": "Healthy"})
        await node.wait(lambda: "dray.internal/disk" in kubelet.lists, "the disks")
        before = list(kubelet.registered)
        edited = ALL.replace('"/dev/nvme*n1"', '"/dev/nvme0n*"').replace("nvidia.com/GPU", "nvidia.com/OTHER")
        node.configure(edited)
        await node.wait_list("nvidia.com/OTHER", {"5": "Healthy", "12": "Healthy"})
        await node.wait_list("nvidia.com/GPU", {})
        await node.wait_list("dray.internal/disk", {"disk:nvme0n1-0": "Healthy"})
        assert kubelet.registered[len(before) :] == ["nvidia.com/OTHER"]
        node.configure(ALL)
        await node.wait_list("nvidia.com/GPU", {"5": "Healthy", "12": "Healthy"})
        await node.wait_list("nvidia.com/OTHER", {})


async def test_a_bad_edit_changes_nothing(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dray")
    async with node.serving(BARE) as kubelet:
        await node.wait(lambda: set(kubelet.lists) == PERMANENT, "the permanent ones")
        node.configure(BARE + "dray:\n  rolle: replace\n")
        await node.wait(lambda: "refused" in caplog.text, "the refusal")
        (line,) = [record for record in caplog.records if "refused" in record.message]
        assert (
            'agent.yaml:3: dray.rolle: unknown field: did you mean "role"?'
            in line.__dict__["fields"]["error"]
        )
        node.config.unlink()
        await node.wait(lambda: caplog.text.count("refused") == 2, "the second refusal")
        assert {len(found) for found in kubelet.lists.values()} == {2}
        node.configure("virtualMachineInstancesPerNode: 4\n")
        await node.wait(lambda: {len(found) for found in kubelet.lists.values()} == {4}, "the next good one")
        assert sorted(kubelet.registered) == sorted(PERMANENT)


async def test_an_edit_in_place_is_seen(node: Node) -> None:
    async with node.serving(BARE) as kubelet:
        await node.wait(lambda: set(kubelet.lists) == PERMANENT, "the permanent ones")
        node.config.write_text("virtualMachineInstancesPerNode: 4\n")
        await node.wait(lambda: {len(found) for found in kubelet.lists.values()} == {4}, "the new number")


async def test_a_bad_config_at_the_start_is_an_error(node: Node) -> None:
    node.configure("dray: {rolle: x}\n")
    with pytest.raises(InvalidError, match="rolle"):
        await run_agent(node.options)
    node.config.unlink()
    with pytest.raises(Error, match="does not exist"):
        await run_agent(node.options)


async def test_a_kubelet_that_comes_late_or_again(node: Node) -> None:
    """Its coming is enough: no time passes for the agent."""
    node.configure(BARE)
    async with running(run_agent(node.options, FakeClock()), name="agent"):
        await node.wait(lambda: len(list(node.kubelet.directory.glob("*.sock"))) == len(PERMANENT), "sockets")
        for _ in range(2):
            node.kubelet.registered.clear()
            async with node.kubelet.running():
                await node.wait(lambda: set(node.kubelet.registered) == PERMANENT, "the registrations")


async def test_a_torn_usb_set_stays_together_over_a_restart(node: Node) -> None:
    """Else what is left of it would be handed out in another set, while a container has it."""
    host, name = node.machine.host, "x.io/set-3-1+3-2"
    host.usb("3-1", vendor="aaaa", product="0001")
    lost = host.usb("3-2", vendor="bbbb", product="0001")
    config = """
permittedHostDevices:
  usb:
  - resourceName: x.io/set
    selectors: [{vendor: aaaa, product: "0001"}, {vendor: bbbb, product: "0001"}]
"""
    async with node.serving(config):
        await node.wait_list("x.io/set", {name: "Healthy"})
    lost.unplug()
    host.usb("3-3", vendor="bbbb", product="0001")
    async with node.serving(config):
        await node.wait_list("x.io/set", {name: "Unhealthy"})
        lost.replug()
        await node.wait_list("x.io/set", {name: "Healthy"})


async def test_tdx_is_reconfigured_in_place(node: Node) -> None:
    gate = "developerConfiguration: {featureGates: [WorkloadEncryptionTDX]}\n"
    attestation = "confidentialCompute: {{tdx: {{attestation: {{enforced: {}, qgsSocketPath: {}}}}}}}\n"
    tdx = "devices.kubevirt.io/tdx"
    async with node.serving(gate) as kubelet:
        await node.wait(lambda: len(kubelet.lists.get(tdx, [])) == 10, "tdx")
        node.configure(gate + attestation.format("true", "/run/qgs/qgs.socket"))
        await node.wait(
            lambda: {health for _, health in kubelet.lists[tdx]} == {"Unhealthy"}, "tdx without its socket"
        )
        node.machine.host.file("/run/qgs/qgs.socket", "")
        await node.wait(
            lambda: {health for _, health in kubelet.lists[tdx]} == {"Healthy"}, "tdx with its socket"
        )
        assert [mount.host_path for mount in (await kubelet.allocate(tdx, "tdx0")).mounts] == ["/run/qgs"]
        assert kubelet.registered.count(tdx) == 1


MDEVS = """
permittedHostDevices:
  mediatedDevices:
  - {mdevNameSelector: "GRID T4-1Q", resourceName: nvidia.com/GRID_T4-1Q}
  - {mdevNameSelector: "GRID T4-2Q", resourceName: nvidia.com/GRID_T4-2Q}
mediatedDevicesConfiguration:
  mediatedDeviceTypes: [nvidia-300]
  nodeMediatedDeviceTypes:
  - {nodeSelector: {gpu: big}, mediatedDeviceTypes: [nvidia-301]}
"""


async def test_mediated_devices_follow_the_config_and_spare_those_in_use(node: Node) -> None:
    owner = node.machine.host.pci(
        "0000:07:00.0", vendor="10de", device="1eb8", driver="nvidia", iommu_group=4
    )
    types = {"nvidia-300": MdevType(2, "GRID T4-1Q"), "nvidia-301": MdevType(1, "GRID T4-2Q")}
    card = node.machine.host.mdev_parent(owner, types)
    labels = node.path / "labels"
    labels.write_text("gpu=small\n")
    node.options = replace(node.options, node_labels_file=labels)
    with node.machine.host.active():
        async with node.serving(MDEVS) as kubelet:
            await node.wait(
                lambda: len(kubelet.lists.get("nvidia.com/GRID_T4-1Q", [])) == 4, "2 made, 2 of another"
            )
            mine = {name for name, _ in kubelet.lists["nvidia.com/GRID_T4-1Q"]} - {"71", "72"}
            held = min(mine)
            kubelet.pods["vm"] = {"nvidia.com/GRID_T4-1Q": [held]}
            labels.write_text("gpu=big\n")
            await node.wait_list("nvidia.com/GRID_T4-1Q", {"71": "Healthy", "72": "Healthy", held: "Healthy"})
            assert card.available("nvidia-301") == 0
            del kubelet.pods["vm"]
            labels.write_text("# none\n")
            await node.wait(lambda: len(kubelet.lists["nvidia.com/GRID_T4-1Q"]) == 4, "the first type again")


async def test_vgpu_profiles_are_written_and_the_function_is_served(node: Node) -> None:
    host = node.machine.host
    card = host.pci(
        "0000:42:00.0", vendor="10de", device="2336", driver="nvidia", iommu_group=21, sriov_total=4
    )
    function = card.vf(driver="nvidia", vgpu_types={1414: "NVIDIA H200X-1-18C"}, iommu_group=62)
    config = f"""
permittedHostDevices:
  pciHostDevices: [{{pciVendorSelector: "10de:{function.facts.device}", resourceName: nvidia.com/H200X-1-18C}}]
dray:
  vgpuProfiles: [{{address: "{function.address}", profile: NVIDIA H200X-1-18C}}]
"""
    with host.active():
        async with node.serving(config):
            await node.wait_list("nvidia.com/H200X-1-18C", {"62": "Healthy"})
    assert (function.path / "nvidia" / "current_vgpu_type").read_text().strip() == "1414"
