"""All writes to the host, and there are no others: each a frozen value, done by one executor (`executor.py`).

In: what a driver or a person wants changed (`CreateMdev`, `BindDriver`, `Chown`, …), and the host's root.
Out: the change done, its effect seen, and the change that undoes it; or an error that names the device and what to do.
Next: `docs/reference/host-changes.md` lists them with the rights they need; a test keeps that page true.
"""

from dray.hardware.change.driver import BindDriver, UnbindDriver
from dray.hardware.change.files import CONTAINER_FILE, Chmod, Chown, Relabel
from dray.hardware.change.functions import SetSriovVfs, SetVgpuProfile
from dray.hardware.change.mdev import CreateMdev, RemoveMdev
from dray.hardware.change.nvidia_mig import CreateMigDevice, DestroyMigDevice, SetMigMode, SetPersistence
from dray.hardware.change.nvidia_nodes import MakeCapabilityNode
from dray.hardware.change.nvidia_smi import SetComputeMode, SetTimeSlice
from dray.hardware.change.nvidia_unbind import SetUnbindLock
from dray.hardware.change.value import Capability, HostChange

Change = (
    CreateMdev
    | RemoveMdev
    | BindDriver
    | UnbindDriver
    | SetVgpuProfile
    | SetSriovVfs
    | Chown
    | Chmod
    | Relabel
    | SetMigMode
    | CreateMigDevice
    | DestroyMigDevice
    | MakeCapabilityNode
    | SetTimeSlice
    | SetComputeMode
    | SetPersistence
    | SetUnbindLock
)
"""One of them, as it is written in JSON: `{"change": "Chown", "path": "/dev/bus/usb/001/002", …}`."""

__all__ = [
    "CONTAINER_FILE",
    "BindDriver",
    "Capability",
    "Change",
    "Chmod",
    "Chown",
    "CreateMdev",
    "CreateMigDevice",
    "DestroyMigDevice",
    "HostChange",
    "MakeCapabilityNode",
    "Relabel",
    "RemoveMdev",
    "SetComputeMode",
    "SetMigMode",
    "SetPersistence",
    "SetSriovVfs",
    "SetTimeSlice",
    "SetUnbindLock",
    "SetVgpuProfile",
    "UnbindDriver",
]
