"""What the kubelet itself has noted about devices: its checkpoint file, and the pods that it has directories for.

The pod resources API leaves out plain init containers for as long as they run. The checkpoint has them, but keeps pods
that ended until the next one comes; a pod whose directory is gone has ended.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from dray.errors import Error
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.logs import get_log

CHECKPOINT: Final = "kubelet_internal_checkpoint"
_LARGEST: Final = 64 * 1024 * 1024
_log = get_log("deviceplugin")


class _Entry(msgspec.Struct, frozen=True, rename="pascal"):
    pod_uid: str = msgspec.field(default="", name="PodUID")
    resource_name: str = ""
    device_ids: dict[str, tuple[str, ...] | None] | None = msgspec.field(default=None, name="DeviceIDs")


class _Data(msgspec.Struct, frozen=True, rename="pascal"):
    pod_device_entries: tuple[_Entry, ...] | None = None


class _File(msgspec.Struct, frozen=True, rename="pascal"):
    data: _Data = _Data()


def noted_devices(device_plugin_dir: Path, kubelet_dir: Path) -> frozenset[tuple[str, str]]:
    """Resource and id of each device that is noted for a pod which has a directory still; none where nothing can be read.

    A kubelet replaces the file as a whole. Its checksum is not looked at: this only adds patience.
    """
    try:
        entries = _read(device_plugin_dir / CHECKPOINT)
    except FileNotFoundError:
        return frozenset()
    except (Error, msgspec.MsgspecError) as error:
        _log.debug("the kubelet's own notes cannot be read", error=str(error))
        return frozenset()
    uids = {entry.pod_uid for entry in entries if entry.pod_uid}
    pods = {uid for uid in uids if (kubelet_dir / "pods" / uid).is_dir()}
    return frozenset(
        (entry.resource_name, name)
        for entry in entries
        if entry.pod_uid in pods
        for names in (entry.device_ids or {}).values()
        for name in names or ()
    )


def _read(path: Path) -> tuple[_Entry, ...]:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise from_os_error(error, "read", str(path)) from error
    return msgspec.json.decode(content, type=_File).data.pod_device_entries or ()
