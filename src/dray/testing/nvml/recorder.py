"""Write down what NVML and the kernel say about the NVIDIA GPUs of this machine. It only reads.

    python src/dray/testing/nvml/recorder.py > h200.json

It needs Python 3.10 and `nvidia-ml-py`, and imports nothing else of this project: machines with GPUs often have no more.
Serial numbers and running processes are left out. `dray.hardware.nvml.recorded` plays the result back.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml as nv

FORMAT = 1
PROFILES = 32
"""Numbers to ask GPU instance profiles by: more than any driver has."""
COMPUTE_PROFILES = 9
RECOVERY_ACTION = 230
EVENTS = 0x8 | 0x2 | 0x1
"""XIDs, double and single bit ECC errors."""
_LIBRARY = re.compile(r"nvidia|libcuda\.so|libcudadebugger|nvcuvid|nvoptix|nvsandbox")
_PRIVATE = re.compile(r"<(\w*serial\w*|board_id)>.*?</\1>|<processes>.*?</processes>", re.DOTALL)
_SERIAL = re.compile(r"(?m)^(.*[Ss]erial.*:).*$")
_PROC = ("/proc/driver/nvidia", "/proc/driver/nvidia-nvlink", "/proc/driver/nvidia-nvswitch")
_BROUGHT = (
    "/usr/bin",
    "/opt/bin",
    "/run/nvidia-persistenced",
    "/run/nvidia-fabricmanager",
    "/lib/firmware/nvidia",
)
_LIBRARIES = ("/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu")


def ask(name: str, *args: Any) -> Any:
    """The answer, or the error as a value; older bindings lack some functions."""
    try:
        return getattr(nv, name)(*args)
    except nv.NVMLError as error:
        return {"error": error.value, "text": str(error)}
    except (AttributeError, TypeError, ctypes.ArgumentError) as error:
        return {"error": nv.NVML_ERROR_FUNCTION_NOT_FOUND, "text": str(error)}


def is_error(value: Any) -> bool:
    """Whether NVML refused to answer."""
    return isinstance(value, dict) and "error" in value


def text(value: Any) -> Any:
    """Some versions of the bindings answer bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def fields(structure: Any) -> dict[str, Any]:
    """A ctypes structure as a mapping, without what is only an address in this process."""
    if isinstance(structure, dict):
        return structure
    found: dict[str, Any] = {}
    for name, *_ in structure._fields_:  # public, for all its name
        value = getattr(structure, name)
        if isinstance(value, ctypes.Structure):
            value = fields(value)
        if isinstance(value, int | float | str | bytes | dict):
            found[name] = text(value)
    return found


def main() -> int:
    """Print the recording."""
    nv.nvmlInitWithFlags(nv.NVML_INIT_FLAG_NO_GPUS)
    try:
        found: dict[str, Any] = {
            "format": FORMAT,
            "about": "recorded on a real machine",
            "bindings": getattr(nv, "__version__", ""),
            "system": system(),
            "gpus": [gpu(index) for index in range(nv.nvmlDeviceGetCount())],
            "events": events(),
        }
    finally:
        nv.nvmlShutdown()
    found["host"] = host([one["pci"]["busId"] for one in found["gpus"] if "busId" in one.get("pci", {})])
    json.dump(found, sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")
    return 0


def system() -> dict[str, Any]:
    """The driver and its library."""
    return {
        "driverVersion": text(ask("nvmlSystemGetDriverVersion")),
        "nvmlVersion": text(ask("nvmlSystemGetNVMLVersion")),
        "cudaDriverVersion": ask("nvmlSystemGetCudaDriverVersion_v2"),
    }


def gpu(index: int) -> dict[str, Any]:
    """One card; a handle that cannot be had is recorded as the error alone."""
    handle = ask("nvmlDeviceGetHandleByIndex", index)
    if is_error(handle):
        return {"index": index, "handle": handle}
    memory = ask("nvmlDeviceGetMemoryInfo", handle)
    return {
        "index": index,
        "minor": ask("nvmlDeviceGetMinorNumber", handle),
        "uuid": text(ask("nvmlDeviceGetUUID", handle)),
        "name": text(ask("nvmlDeviceGetName", handle)),
        "brand": ask("nvmlDeviceGetBrand", handle),
        "architecture": ask("nvmlDeviceGetArchitecture", handle),
        "computeCapability": ask("nvmlDeviceGetCudaComputeCapability", handle),
        "memory": memory if is_error(memory) else memory.total,
        "pci": fields(ask("nvmlDeviceGetPciInfo_v3", handle)),
        "addressingMode": ask("nvmlDeviceGetAddressingMode", handle),
        "virtualizationMode": ask("nvmlDeviceGetVirtualizationMode", handle),
        "persistenceMode": ask("nvmlDeviceGetPersistenceMode", handle),
        "computeMode": ask("nvmlDeviceGetComputeMode", handle),
        "recoveryAction": recovery_action(handle),
        "migMode": ask("nvmlDeviceGetMigMode", handle),
        "maxMigDevices": ask("nvmlDeviceGetMaxMigDeviceCount", handle),
        "supportedEvents": ask("nvmlDeviceGetSupportedEventTypes", handle),
        "profiles": profiles(handle),
        "migDevices": mig_devices(handle),
    }


def recovery_action(handle: Any) -> Any:
    """What the driver wants to be done about the card: 0 is nothing."""
    values = ask("nvmlDeviceGetFieldValues", handle, [RECOVERY_ACTION])
    if is_error(values):
        return values
    if values[0].nvmlReturn:
        return {"error": values[0].nvmlReturn, "text": "the field is not there"}
    return values[0].value.uiVal


def profiles(handle: Any) -> list[dict[str, Any]]:
    """All GPU instance profiles, with their placements; for a number without one, the error."""
    found = []
    for number in range(PROFILES):
        entry = fields(ask("nvmlDeviceGetGpuInstanceProfileInfo", handle, number))
        if is_error(entry):
            entry = fields(ask("nvmlDeviceGetGpuInstanceProfileInfo", handle, number, 1))
        if not is_error(entry):
            entry["placements"] = placements(handle, entry["id"])
            entry["remaining"] = ask("nvmlDeviceGetGpuInstanceRemainingCapacity", handle, entry["id"])
        found.append({**entry, "index": number})
    return found


def placements(handle: Any, profile: int) -> Any:
    """`[start, size]` of each."""
    count = ctypes.c_uint(0)
    name = "nvmlDeviceGetGpuInstancePossiblePlacements"
    error = ask(name, handle, profile, None, ctypes.byref(count))
    if is_error(error):
        return error
    room = (nv.c_nvmlGpuInstancePlacement_t * max(1, count.value))()
    error = ask(name, handle, profile, room, ctypes.byref(count))
    return error if is_error(error) else [[one.start, one.size] for one in room[: count.value]]


def mig_devices(handle: Any) -> list[dict[str, Any]]:
    """The MIG devices that exist."""
    found = []
    count = ask("nvmlDeviceGetMaxMigDeviceCount", handle)
    for number in range(0 if is_error(count) else count):
        device = ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
        if is_error(device):
            continue
        gpu_id = ask("nvmlDeviceGetGpuInstanceId", device)
        compute_id = ask("nvmlDeviceGetComputeInstanceId", device)
        entry = {
            "index": number,
            "uuid": text(ask("nvmlDeviceGetUUID", device)),
            "gpuInstance": gpu_id,
            "computeInstance": compute_id,
            "attributes": fields(ask("nvmlDeviceGetAttributes_v2", device)),
        }
        found.append({**entry, **instance_infos(handle, gpu_id, compute_id)})
    return found


def instance_infos(handle: Any, gpu_id: Any, compute_id: Any) -> dict[str, Any]:
    """Profiles and placements of a MIG device, which need more rights than the rest."""
    instance = ask("nvmlDeviceGetGpuInstanceById", handle, gpu_id)
    if is_error(instance):
        return {"gpuInstanceInfo": instance}
    compute = ask("nvmlGpuInstanceGetComputeInstanceById", instance, compute_id)
    info = compute if is_error(compute) else ask("nvmlComputeInstanceGetInfo_v2", compute)
    question = "nvmlGpuInstanceGetComputeInstanceProfileInfo"
    return {
        "gpuInstanceInfo": fields(ask("nvmlGpuInstanceGetInfo", instance)),
        "computeInstanceInfo": fields(info),
        "computeProfiles": [
            {**fields(ask(question, instance, number, 0)), "index": number}
            for number in range(COMPUTE_PROFILES)
        ],
    }


def events() -> dict[str, Any]:
    """Whether errors can be waited for."""
    found: dict[str, Any] = {}
    events_set = ask("nvmlEventSetCreate")
    if is_error(events_set):
        return {"create": events_set}
    try:
        for index in range(nv.nvmlDeviceGetCount()):
            handle = nv.nvmlDeviceGetHandleByIndex(index)
            mask = ask("nvmlDeviceGetSupportedEventTypes", handle)
            asked = 0 if is_error(mask) else mask & EVENTS
            found[f"register {index}"] = ask("nvmlDeviceRegisterEvents", handle, asked, events_set)
        answer = ask("nvmlEventSetWait_v2", events_set, 100)
        found["wait"] = answer if is_error(answer) else {"xid": answer.eventData, "type": answer.eventType}
    finally:
        found["free"] = ask("nvmlEventSetFree", events_set)
    return found


def host(bus_ids: list[str]) -> dict[str, Any]:
    """What the kernel and the file system say."""
    devices, modules = content(Path("/proc/devices")), content(Path("/proc/modules"))
    return {
        "proc": {str(path): content(path) for start in _PROC for path in files(Path(start))},
        "procDevices": [line for line in devices.splitlines() if re.search("nvidia|drm|vfio", line)],
        "modules": sorted(line.split()[0] for line in modules.splitlines() if line.startswith("nvidia")),
        "nodes": [node(path) for path in nodes()],
        "sysfs": {bus_id: function(bus_id) for bus_id in bus_ids},
        "libraries": libraries(),
        "files": brought(),
        "nvidiaSmi": _PRIVATE.sub("", output("nvidia-smi", "-q", "-x")),
        "nvidiaSmiList": output("nvidia-smi", "-L"),
    }


def files(start: Path) -> list[Path]:
    """All files below, in order."""
    return sorted(Path(where) / name for where, _, names in os.walk(start) for name in names)


def content(path: Path) -> str:
    """A small file's text; an error in its place."""
    try:
        with path.open(errors="replace") as stream:
            return _SERIAL.sub(r"\1", stream.read(1 << 16))
    except OSError as error:
        return f"error: {error}"


def nodes() -> Iterator[Path]:
    """Paths that a container may need."""
    named = sorted(Path("/dev").glob("nvidia*"))
    for path in [*named, Path("/dev/dri"), Path("/dev/vfio"), Path("/dev/iommu")]:
        if path.is_dir():
            yield from files(path)
        elif os.path.lexists(path):
            yield path


def node(path: Path) -> dict[str, Any]:
    """What `stat` tells of it."""
    try:
        found = path.lstat()
        link = str(path.readlink()) if stat.S_ISLNK(found.st_mode) else None
    except OSError as error:
        return {"path": str(path), "error": str(error)}
    numbers = {"major": os.major(found.st_rdev), "minor": os.minor(found.st_rdev)}
    owner = {"uid": found.st_uid, "gid": found.st_gid}
    return {"path": str(path), "mode": oct(found.st_mode), "link": link, **numbers, **owner}


def function(bus_id: str) -> dict[str, str]:
    """Where a card sits. NVML writes eight digits of the domain, sysfs four."""
    path = Path("/sys/bus/pci/devices") / bus_id[-12:].lower()
    names = ("numa_node", "vendor", "device", "class", "local_cpulist", "uevent")
    found = {name: content(path / name).strip() for name in names}
    for name in ("", "driver", "iommu_group"):
        try:
            found[f"link {name}".strip()] = str((path / name).readlink())
        except OSError as error:
            found[f"link {name}".strip()] = f"error: {error}"
    return found


def libraries() -> dict[str, Any]:
    """What the loader's cache knows, and where its links lead."""
    lines = [line.strip() for line in output("ldconfig", "-p").splitlines() if _LIBRARY.search(line)]
    paths = sorted({line.rpartition(" => ")[2] for line in lines if " => " in line})
    return {"cache": lines, "links": {path: chain(Path(path)) for path in paths}}


def chain(path: Path) -> list[str]:
    """The path and every link on the way to the file."""
    found = [path]
    while found[-1].is_symlink() and len(found) < 16:
        found.append(found[-1].parent / found[-1].readlink())
    return [str(one) for one in found]


def brought() -> list[str]:
    """Programs, sockets, firmware and libraries that come with the driver."""
    found = [str(path) for start in _BROUGHT for path in files(Path(start)) if "nvidia" in str(path)]
    for start in _LIBRARIES:
        found += sorted(str(path) for path in Path(start).glob("*") if _LIBRARY.search(path.name))
    return found


def output(*command: str) -> str:
    """What a program printed; empty where it is not there."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


if __name__ == "__main__":
    sys.exit(main())
