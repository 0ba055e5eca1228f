"""A container of a real runc gets a GPU of a recording through a CDI file: its loader finds the libraries, without a hook.

The GPU's nodes are stand-ins, and the libraries are copies of one that any machine has; how they are found is real.
"""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from dray.cdi.edits import ContainerEdits, DeviceNode, Mount, merge
from dray.cdi.spec import spec_edits, to_document
from dray.drivers.contract import Asked
from dray.hardware.host_root import HostRoot
from dray.hardware.shared_libraries import read_loader_cache
from dray.kubelet.runtimes.contract import ContainerConfig, PodIdentity, SandboxConfig, State
from dray.kubelet.runtimes.runc import RuncRuntime, RuncSettings
from dray.testing.kubernetes.tools import Tools
from tests.drivers.nvidia.cards import Watched, watched
from tests.kubelet.runtimes.conformance import wait_state

DEVICE = "k8s.gpu.nvidia.com/claim=uid-request"
ASKED = """
import ctypes, os
for name in ("libcuda.so.1", "libnvidia-ml.so.1", "libcuda.so"):
    ctypes.CDLL(name)
    print(name)
maps = {line.split()[-1] for line in open("/proc/self/maps") if "libcuda" in line or "libnvidia-ml" in line}
print(*sorted(maps))
print(os.environ["NVIDIA_VISIBLE_DEVICES"], os.environ.get("LD_LIBRARY_PATH"))
print(*sorted(name for name in os.listdir("/dev") if name.startswith("nvidia")))
print(os.system("/usr/bin/nvidia-smi"))
"""


@pytest.fixture
def gpus(tmp_path: Path) -> Iterator[Watched]:
    """The H200 of the recording, with libraries in a directory that no container searches."""
    found = watched(tmp_path / "host", "h200")
    version = found.machine.cards.system["driverVersion"]
    this = HostRoot(Path("/"))
    small = next(entry.path for entry in read_loader_cache(this) if entry.name.startswith("libutil.so"))
    directory = found.root.path / "usr/local/nvidia/lib64"
    directory.mkdir(parents=True)
    for name in ("libcuda", "libnvidia-ml"):
        shutil.copy(small, directory / f"{name}.so.{version}")
        (directory / f"{name}.so.1").symlink_to(f"{name}.so.{version}")
        (directory / f"{name}.so").symlink_to(f"{name}.so.1")
    program = found.root.path / "usr/local/nvidia/bin/nvidia-smi"
    program.parent.mkdir(parents=True)
    shutil.copy("/bin/true", program)
    yield found
    found.driver.monitor.close()


def on_this_machine(edits: ContainerEdits, root: Path) -> ContainerEdits:
    """The same, with the paths of the host's tree as this machine has them; every node is /dev/null."""
    return msgspec.structs.replace(
        edits,
        device_nodes=tuple(
            DeviceNode("/dev/null", node.container_path, node.permissions) for node in edits.device_nodes
        ),
        mounts=tuple(
            Mount(f"{root}{mount.host_path}", mount.container_path, mount.read_only) for mount in edits.mounts
        ),
    )


def write_spec(directory: Path, edits: ContainerEdits) -> None:
    kind, _, name = DEVICE.partition("=")
    device = {"name": name, "containerEdits": to_document(spec_edits(edits))}
    directory.mkdir()
    spec = {"cdiVersion": "0.6.0", "kind": kind, "devices": [device]}
    (directory / "claim.json").write_bytes(msgspec.json.encode(spec))


async def test_the_loader_of_a_container_finds_libcuda(gpus: Watched, tools: Tools, tmp_path: Path) -> None:
    prepared = gpus.driver.prepare_claim(Asked("uid", "claim/request", (gpus.named("gpu-0"),)))
    assert prepared.finish is not None
    edits = merge([prepared.edits, prepared.finish(gpus.root)])
    write_spec(tmp_path / "cdi", on_this_machine(edits, gpus.root.path))
    settings = RuncSettings(
        tmp_path / "state",
        runc=tools.path("runc"),
        allow_host_image=True,
        cdi_directories=(tmp_path / "cdi",),
    )
    pod = PodIdentity("u1", "ns", "pod")
    config = ContainerConfig(
        pod,
        "c",
        "host",
        tmp_path / "logs/c.log",
        command=(sys.executable, "-c", ASKED),
        cdi_devices=(DEVICE,),
    )
    lines = await ran(settings, SandboxConfig(pod, "host", tmp_path / "logs", 0), config)
    directory = f"/usr/lib/{platform.machine()}-linux-gnu"
    assert lines == [
        "libcuda.so.1",
        "libnvidia-ml.so.1",
        "libcuda.so",
        f"{directory}/libcuda.so.1 {directory}/libnvidia-ml.so.1",
        "void None",
        "nvidia-modeset nvidia-uvm nvidia-uvm-tools nvidia0 nvidiactl",
        "0",
    ]
    without = replace(config, name="d", log_path=tmp_path / "logs/d.log", cdi_devices=())
    lines = await ran(settings, SandboxConfig(pod, "host", tmp_path / "logs", 1), without)
    assert "libcuda.so.1: cannot open shared object file" in lines[-1]


async def ran(settings: RuncSettings, sandbox: SandboxConfig, config: ContainerConfig) -> list[str]:
    """What the container printed, to its end; nothing is left of it."""
    async with RuncRuntime(settings) as runtime:
        made = await runtime.run_sandbox(sandbox)
        try:
            container = await runtime.create(made, config)
            await runtime.start(container)
            await wait_state(runtime, container, State.EXITED)
            return [line.split(" ", 3)[3] for line in config.log_path.read_text().splitlines()]
        finally:
            await runtime.remove_sandbox(made)
