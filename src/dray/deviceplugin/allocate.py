"""Edits as an answer to the kubelet."""

from __future__ import annotations

from dray.cdi.edits import ContainerEdits
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    CDIDevice,
    ContainerAllocateResponse,
    DeviceSpec,
    Mount,
)


def to_response(edits: ContainerEdits) -> ContainerAllocateResponse:
    """What one container gets, in the order of the edits."""
    return ContainerAllocateResponse(
        envs=dict(edits.env),
        mounts=[
            Mount(container_path=mount.container_path, host_path=mount.host_path, read_only=mount.read_only)
            for mount in edits.mounts
        ],
        devices=[
            DeviceSpec(
                container_path=node.container_path, host_path=node.host_path, permissions=node.permissions
            )
            for node in edits.device_nodes
        ],
        annotations=dict(edits.annotations),
        cdi_devices=[CDIDevice(name=name) for name in edits.cdi_devices],
    )
