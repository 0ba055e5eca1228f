"""What a VFIO device brings along: its node in /dev, which comes late, and the processes that hold it open."""

from __future__ import annotations

from dray.errors import ConflictError, Error, HardwareError
from dray.hardware.change.access import Access
from dray.runtime.files.safepath import Root, SafePath


def nodes_of(host: Access, directory: str) -> list[str]:
    """The nodes by which user space can hold the device of this sysfs directory; they need not exist."""
    group = host.link_name(f"{directory}/iommu_group")
    nodes = [] if group is None else [f"/dev/vfio/{group}", f"/dev/vfio/noiommu-{group}"]
    return nodes + [f"/dev/vfio/devices/{name}" for name in host.names(f"{directory}/vfio-dev")]


def wait_node(host: Access, device: str, directory: str) -> None:
    """Return when the group's node is there. A root whose /dev has no vfio at all shows no nodes: nothing to wait for."""
    nodes = nodes_of(host, directory)
    if not nodes or not host.reading.exists("/dev/vfio"):
        return
    if not host.wait(lambda: any(host.reading.exists(node) for node in nodes), host.limits.node):
        raise HardwareError(
            f"{device}: the kernel has it, but {nodes[0]} did not appear in {host.limits.node:g} s: "
            "look whether udev runs and whether the host's /dev is the one under the host root",
            device=device,
            path=nodes[0],
        )


def refuse_in_use(host: Access, device: str, directory: str) -> None:
    """ConflictError when a process holds the device. Taking it away would block, or pull it out of a running machine.

    Only processes that we can see count: without hostPID there are none, and the kernel is asked without this check.
    """
    nodes = nodes_of(host, directory)
    users = holders(host, nodes) if nodes else []
    if users:
        raise ConflictError(f"{device} is in use by {', '.join(users)}: stop it first")


def holders(host: Access, nodes: list[str]) -> list[str]:
    """The processes that have one of the nodes open, as people name them; only those that we can see."""
    pids = [name for name in host.names("/proc") if name.isdecimal()]
    with Root(host.root) as root:
        return [f"process {pid} ({_command(host, pid)})" for pid in pids if _holds(root, pid, nodes)]


def _holds(root: Root, pid: str, nodes: list[str]) -> bool:
    try:
        with root.open(f"proc/{pid}/fd") as descriptors:
            return any(_target(descriptors, name) in nodes for name in descriptors.listdir())
    except Error:  # it has ended, or is not ours to see
        return False


def _target(descriptors: SafePath, name: str) -> str:
    try:
        return descriptors.readlink(name)
    except Error:  # closed meanwhile
        return ""


def _command(host: Access, pid: str) -> str:
    try:
        return host.read(f"/proc/{pid}/comm") or "?"
    except Error:
        return "?"
