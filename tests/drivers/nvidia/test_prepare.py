from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dray.cdi.edits import ContainerEdits, merge
from dray.cdi.spec import spec_edits
from dray.deviceplugin.allocate import to_response
from dray.drivers.carry_out import HostWork
from dray.drivers.contract import Asked, Device
from dray.drivers.nvidia.parameters import API_VERSION
from dray.errors import HardwareError, InvalidError
from dray.hardware.change import MakeCapabilityNode, SetComputeMode, SetTimeSlice
from dray.hardware.change.executor import AuditEntry, Executor, Outcome
from dray.runtime.threads import Threads
from tests.drivers.nvidia.cards import Watched, watched
from tests.drivers.nvidia.driver_files import DIRECTORY, install_driver

RESOURCE = "nvidia.com/gpu"
VOID = ("NVIDIA_VISIBLE_DEVICES", "void")


class Machines:
    """Machines of recordings with the driver's files, closed in the end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.made: list[Watched] = []

    def __call__(self, name: str, **config: Any) -> Watched:
        found = watched(self._directory / str(len(self.made)), name, **config)
        install_driver(found.machine.host, found.machine.cards.system["driverVersion"])
        self.made.append(found)
        return found


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machines]:
    machines = Machines(tmp_path)
    yield machines
    for one in machines.made:
        one.driver.monitor.close()


def whole(gpus: Watched, *devices: Device) -> ContainerEdits:
    """All that a container of the plugin gets."""
    prepared = gpus.driver.prepare(RESOURCE, devices)
    return merge([prepared.edits, prepared.finish(gpus.root) if prepared.finish else ContainerEdits()])


def nodes(edits: ContainerEdits) -> list[str]:
    return [node.container_path for node in edits.device_nodes]


def config(kind: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, **fields}


def sliced(interval: str) -> dict[str, Any]:
    return config(
        "GpuConfig", sharing={"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": interval}}
    )


def test_device_specs_need_neither_hook_nor_cdi(machine: Machines) -> None:
    gpus = machine("eight-h100")
    edits = whole(gpus, gpus.named("gpu-2"), gpus.named("gpu-0"))
    assert edits.env == (VOID,) and not edits.cdi_devices and not edits.annotations
    controls = ["/dev/nvidiactl", "/dev/nvidia-modeset", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"]
    assert nodes(edits) == ["/dev/nvidia2", "/dev/nvidia0", *controls]
    inside = {mount.container_path for mount in edits.mounts}
    assert {f"{DIRECTORY}/libcuda.so.1", "/usr/lib64/libcuda.so.1", "/usr/bin/nvidia-smi"} <= inside
    assert all(mount.read_only for mount in edits.mounts)
    assert len(to_response(edits).mounts) == len(edits.mounts)


def test_a_variable_for_nvidias_runtime(machine: Machines) -> None:
    gpus = machine("eight-h100", device_list_strategy=("envvar",))
    one, two = gpus.named("gpu-0"), gpus.named("gpu-5")
    prepared = gpus.driver.prepare(RESOURCE, [one, two])
    ids = f"{one.attributes['uuid']},{two.attributes['uuid']}"
    assert prepared.edits == ContainerEdits(env=(("NVIDIA_VISIBLE_DEVICES", ids),))
    assert prepared.finish is None and not prepared.changes


def test_indexes_where_the_config_wants_them(machine: Machines) -> None:
    gpus = machine("eight-h100", device_list_strategy=("envvar",), device_id_strategy="index")
    edits = gpus.driver.prepare(RESOURCE, [gpus.named("gpu-0")]).edits
    assert edits.env == (("NVIDIA_VISIBLE_DEVICES", "2"),)  # the third card on the bus has minor 0


def test_mounts_for_nvidias_runtime(machine: Machines) -> None:
    gpus = machine("h200", device_list_strategy=("volume-mounts",))
    uuid = gpus.named("gpu-0").attributes["uuid"]
    edits = gpus.driver.prepare(RESOURCE, [gpus.named("gpu-0")]).edits
    assert edits.env == (("NVIDIA_VISIBLE_DEVICES", "/var/run/nvidia-container-devices"),)
    assert [(one.host_path, one.container_path) for one in edits.mounts] == [
        ("/dev/null", f"/var/run/nvidia-container-devices/{uuid}")
    ]


def test_names_of_cdi_devices(machine: Machines) -> None:
    gpus = machine("h200", device_list_strategy=("cdi",))
    uuid = gpus.named("gpu-0").attributes["uuid"]
    edits = gpus.driver.prepare(RESOURCE, [gpus.named("gpu-0")]).edits
    assert edits == ContainerEdits(env=(VOID,), cdi_devices=(f"nvidia.com/gpu={uuid}",))
    assert [one.name for one in to_response(edits).cdi_devices] == [f"nvidia.com/gpu={uuid}"]


def test_a_variable_and_nodes_together(machine: Machines) -> None:
    """As NVIDIA's plugin with --pass-device-specs: the variable counts, not void."""
    gpus = machine("h200", device_list_strategy=("envvar", "device-specs"))
    edits = whole(gpus, gpus.named("gpu-0"))
    assert edits.env == (("NVIDIA_VISIBLE_DEVICES", gpus.named("gpu-0").attributes["uuid"]),)
    assert "/dev/nvidia0" in nodes(edits)


def test_several_shares_of_a_card_are_the_card_once(machine: Machines) -> None:
    gpus = machine("h200")
    card = gpus.named("gpu-0")
    assert whole(gpus, card, card) == whole(gpus, card)


def test_all_gpus_gone_is_an_error(machine: Machines) -> None:
    with pytest.raises(HardwareError, match=r"nvidia\.com/gpu: the GPUs are gone"):
        machine("h200").driver.prepare(RESOURCE, [])


def test_a_mig_device_that_exists(machine: Machines) -> None:
    """Its card's node and its own two, which are made where nobody made them."""
    gpus = machine("a100-mig", mig_strategy="mixed")
    device = next(one for one in gpus.devices if one.attributes["type"] == "mig")
    prepared = gpus.driver.prepare(device.resource, [device])
    assert len(device.paths) == 3 and device.paths[0] == "/dev/nvidia0"
    assert [type(change) for change in prepared.changes] == [MakeCapabilityNode, MakeCapabilityNode]
    assert [change.target for change in prepared.changes] == list(device.paths[1:])
    assert nodes(whole(gpus, device))[:3] == list(device.paths)
    by_claim = gpus.driver.prepare_claim(Asked("uid", "claim/part", (device,)))
    assert nodes(by_claim.edits) == list(device.paths) and by_claim.changes == prepared.changes
    assert gpus.driver.release_claim(Asked("uid", "claim/part", (device,))) == ()


def test_a_claim_for_cards(machine: Machines) -> None:
    gpus = machine("eight-h100")
    claim = Asked("uid", "claim/gpus", (gpus.named("gpu-1"), gpus.named("gpu-7")))
    prepared = gpus.driver.prepare_claim(claim)
    assert prepared.changes == () and gpus.driver.release_claim(claim) == ()
    assert prepared.finish is not None
    edits = merge([prepared.edits, prepared.finish(gpus.root)])
    assert edits.env == (VOID,) and nodes(edits)[:2] == ["/dev/nvidia1", "/dev/nvidia7"]
    assert spec_edits(edits).env == ("NVIDIA_VISIBLE_DEVICES=void",)  # it can be a CDI file
    assert gpus.driver.prepare_claim(claim) == prepared  # the same after a restart


async def test_what_is_known_only_after_the_changes_reaches_the_container(machine: Machines) -> None:
    """By the way that both doors go."""
    gpus = machine("h200", dynamic_mig=True)
    claim = Asked("uid", "claim/part", (gpus.named("gpu-0-mig-1g18gb-19-2"),))
    entries: list[AuditEntry] = []
    executor = Executor(gpus.root.path, entries.append, nvml=gpus.machine.cards.open)
    edits = await HostWork(gpus.root, executor, Threads())(gpus.driver.prepare_claim(claim))
    assert nodes(edits)[0] == "/dev/nvidia0"
    assert len([path for path in nodes(edits) if path.startswith("/dev/nvidia-caps/")]) == 2
    assert "/usr/lib64/libcuda.so.1" in {mount.container_path for mount in edits.mounts}
    assert [entry.outcome for entry in entries] == [Outcome.STARTED, Outcome.CHANGED] * 2


def test_time_slices_are_set_and_reset(machine: Machines) -> None:
    gpus = machine("h200")
    card = gpus.named("gpu-0")
    claim = Asked("uid", "claim/gpu", (card,), (sliced("Short"), sliced("Long")))
    assert gpus.driver.prepare_claim(claim).changes == (
        SetComputeMode("0000:00:06.0", 0),
        SetTimeSlice("0000:00:06.0", 0, "Long"),
    )
    assert gpus.driver.release_claim(claim) == (SetTimeSlice("0000:00:06.0", 0, "Default"),)
    usual = Asked("uid", "claim/gpu", (card,), (sliced("Default"),))
    assert gpus.driver.release_claim(usual) == ()
    admin = Asked("uid", "claim/gpu", (card,), (sliced("Long"),), admin_access=True)
    assert gpus.driver.prepare_claim(admin).changes == () and gpus.driver.release_claim(admin) == ()


@pytest.mark.parametrize(("recorded", "kind"), [("h200", "GpuConfig"), ("a100-mig", "MigDeviceConfig")])
def test_mps_is_checked_and_then_refused_with_the_reason(machine: Machines, recorded: str, kind: str) -> None:
    gpus = machine(recorded)
    wanted = "mig" if kind == "MigDeviceConfig" else "gpu"
    device = next(one for one in gpus.devices if one.attributes["type"] == wanted)
    good = config(kind, sharing={"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 50}})
    gpus.driver.check_parameters(good)
    with pytest.raises(HardwareError, match="MPS is not possible here: it needs a control daemon"):
        gpus.driver.prepare_claim(Asked("uid", "claim/gpu", (device,), (good,)))
    bad = config(kind, sharing={"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 500}})
    with pytest.raises(InvalidError, match="between 0 and 100"):
        gpus.driver.check_parameters(bad)
    assert gpus.driver.release_claim(Asked("uid", "claim/gpu", (device,), (bad,))) == ()


def test_without_the_drivers_libraries_nothing_is_handed_out(machine: Machines) -> None:
    gpus = machine("h200")
    for path in (gpus.root.path / DIRECTORY.lstrip("/")).iterdir():
        path.unlink()
    with pytest.raises(HardwareError, match=r"no libcuda\.so\.1 of that version"):
        whole(gpus, gpus.named("gpu-0"))


def test_nodes_for_graphics_where_the_config_wants_them(machine: Machines) -> None:
    for wanted in (False, True):
        gpus = machine("h200", graphics=wanted)
        (gpus.root.path / "sys/bus/pci/devices/0000:00:06.0/drm/renderD128").mkdir(parents=True)
        gpus.machine.host.char_device("/dev/dri/renderD128", 226, 128)
        assert ("/dev/dri/renderD128" in nodes(whole(gpus, gpus.named("gpu-0")))) is wanted


def test_a_device_of_another_kind_is_refused(machine: Machines) -> None:
    gpus = machine("h200")
    stranger = Device("x", "nvidia", RESOURCE, gpus.named("gpu-0").health)
    with pytest.raises(InvalidError, match="x is neither a GPU nor a part of one"):
        gpus.driver.prepare_claim(Asked("uid", "claim/gpu", (stranger,)))
