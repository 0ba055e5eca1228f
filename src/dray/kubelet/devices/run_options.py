"""What the plugins' answers add to a container. Pure: resources in sorted order, and the first one wins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError

from dray.cdi.edits import ContainerEdits, DeviceNode, Mount
from dray.errors import InvalidError, ProtocolError
from dray.kubelet.devices.grants import Grant
from dray.kubelet.pods.contract import RunOptions
from dray.runtime.logs import get_log
from dray.wire.gen.deviceplugin_v1beta1_pb2 import ContainerAllocateResponse
from dray.wire.status import cut

_log = get_log("kubelet.devices.run_options")


def merge_responses(grants: Iterable[Grant]) -> RunOptions:
    """All grants of one container as one; what is said twice counts once, and what contradicts is logged.

    ProtocolError where an answer cannot be used: it is not readable, or names what no container can have.
    """
    merged = _Merged()
    for grant in grants:
        try:
            merged.add(grant, _decoded(grant))
        except InvalidError as error:
            raise ProtocolError(
                f"device plugin {grant.resource} answered Allocate wrongly: {error}"
            ) from error
    edits = ContainerEdits(
        tuple(merged.env.items()),
        tuple(merged.nodes.values()),
        tuple(merged.mounts.values()),
        tuple(merged.annotations.items()),
    )
    return RunOptions(edits, tuple(merged.cdi_devices))


def _decoded(grant: Grant) -> ContainerAllocateResponse:
    try:
        return ContainerAllocateResponse.FromString(grant.response or b"")
    except DecodeError as error:
        raise ProtocolError(
            f"the saved answer of device plugin {grant.resource} for container {grant.container} of pod "
            f"{grant.pod_uid} cannot be read: delete the pod and create it again"
        ) from error


@dataclass(slots=True)
class _Merged:
    env: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, DeviceNode] = field(default_factory=dict)
    mounts: dict[str, Mount] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    cdi_devices: dict[str, None] = field(default_factory=dict)

    def add(self, grant: Grant, response: ContainerAllocateResponse) -> None:
        for name, value in sorted(response.envs.items()):
            _check_variable(name, value)
            _tell(grant, name, self.env.setdefault(name, value), value)
        for device in response.devices:
            node = DeviceNode(device.host_path, device.container_path, device.permissions)
            kept = self.nodes.setdefault(node.container_path, node)
            _tell(grant, node.container_path, kept.host_path, node.host_path)
        for each in response.mounts:
            mount = Mount(each.host_path, each.container_path, each.read_only)
            before = self.mounts.setdefault(mount.container_path, mount)
            _tell(grant, mount.container_path, before.host_path, mount.host_path)
        for name, value in sorted(response.annotations.items()):
            _tell(grant, name, self.annotations.setdefault(name, value), value)
        for cdi in response.cdi_devices:
            self.cdi_devices.setdefault(cdi.name)


def _check_variable(name: str, value: str) -> None:
    """No program can be started with others."""
    if not name or "=" in name or "\0" in name + value:
        raise InvalidError(
            f"environment variable {cut(name)!r} must have a name without '=', and no zero byte", field="envs"
        )


def _tell(grant: Grant, name: str, kept: str, dropped: str) -> None:
    if kept != dropped:
        _log.warning(
            "two device plugins contradict in one container, the first one counts",
            pod_uid=grant.pod_uid,
            container=grant.container,
            resource=grant.resource,
            name=name,
            kept=kept,
            dropped=dropped,
        )
