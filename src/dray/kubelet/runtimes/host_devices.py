"""The device nodes that a container names, as the host has them: links followed, directories and all of /dev opened out."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from dray.cdi.edits import DeviceNode
from dray.kubelet.runtimes.contract import ContainerConfig

# Made by the runtime in every container, or of no use there.
_NOT_OF_HOST = {"/dev/pts", "/dev/shm", "/dev/fd", "/dev/mqueue", "/dev/console", "/dev/ptmx", "/dev/.udev"}  # noqa: S108


def with_host_devices(config: ContainerConfig) -> ContainerConfig:
    """With every node on its own. A privileged container gets all that the host has, below what it names itself."""
    nodes = list(_opened(DeviceNode("/dev", "/dev", "rwm"))) if config.security.privileged else []
    for node in config.device_nodes:
        nodes += _opened(node)
    return replace(config, device_nodes=tuple(nodes))


def _opened(node: DeviceNode) -> Iterator[DeviceNode]:
    path = Path(node.host_path).resolve()
    if not path.is_dir():
        yield DeviceNode(str(path), node.container_path, node.permissions)
        return
    for entry in sorted(path.iterdir()):
        if str(entry) in _NOT_OF_HOST or entry.is_symlink():
            continue
        mode = entry.lstat().st_mode
        if stat.S_ISDIR(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            yield from _opened(
                DeviceNode(str(entry), f"{node.container_path}/{entry.name}", node.permissions)
            )
