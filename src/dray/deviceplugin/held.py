"""Which devices containers hold, as the kubelet tells: what has a holder is not taken away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from dray.errors import Error
from dray.runtime.logs import get_log
from dray.wire.connect import connect
from dray.wire.gen.podresources_v1_pb2 import ContainerDevices, ListPodResourcesRequest
from dray.wire.limits import MIB, Limits
from dray.wire.podresources import SOCKET, PodResourcesClient

LIMITS = Limits(receive=64 * MIB)
"""A kubelet tells of all resources at once, one entry a device."""

_log = get_log("deviceplugin")


Holders = Mapping[tuple[str, str], tuple[str, ...]]
"""Resource and id, to the pods that hold it as `namespace/name`."""


async def held_ids(kubelet_dir: Path, timeout: float = 2.0) -> Mapping[str, frozenset[str]] | None:
    """Resource name to the ids that containers hold; None where the kubelet does not say within `timeout` seconds."""
    found = await holders(kubelet_dir, timeout)
    if found is None:
        return None
    ids: dict[str, set[str]] = {}
    for resource, name in found:
        ids.setdefault(resource, set()).add(name)
    return {resource: frozenset(names) for resource, names in ids.items()}


async def holders(kubelet_dir: Path, timeout: float = 2.0) -> Holders | None:
    """Who holds what; None where the kubelet does not say within `timeout` seconds.

    Held is what the kubelet lists: containers and restartable init containers of the pods it counts as active. A plain
    init container's devices are missing while only it has run, so ask with patience before taking something away.
    """
    try:
        async with connect(kubelet_dir / SOCKET, timeout=timeout, limits=LIMITS) as channel:
            answer = await PodResourcesClient(channel).list(ListPodResourcesRequest(), timeout=timeout)
    except Error as error:
        _log.debug("the kubelet does not tell who holds what", error=str(error))
        return None
    found: dict[tuple[str, str], set[str]] = {}
    for pod in answer.pod_resources:
        for devices in (devices for container in pod.containers for devices in container.devices):
            for name in devices.device_ids:
                found.setdefault((devices.resource_name, name), set()).add(f"{pod.namespace}/{pod.name}")
    return {key: tuple(sorted(found[key])) for key in sorted(found)}


def by_resource(entries: Iterable[ContainerDevices]) -> Mapping[str, frozenset[str]]:
    """The ids of each resource; a kubelet gives one entry for each device and NUMA node."""
    found: dict[str, set[str]] = {}
    for entry in entries:
        found.setdefault(entry.resource_name, set()).update(entry.device_ids)
    return {resource: frozenset(found[resource]) for resource in sorted(found)}
