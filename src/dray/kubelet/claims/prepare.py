"""Prepare all claims of a pod, in four steps: look without touching anything, note it on the disk, call, mark it done.

A pod that fails in the first step leaves no trace, so it can be deleted where its driver never came. From the second
step on every claim has the pod's reference on the disk before a driver hears of it: whatever happens then, an
unprepare will follow. A failed pod is tried again from the start; drivers answer repeated calls alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dray.api.core import Pod
from dray.errors import (
    ConflictError,
    Error,
    NotFoundError,
    ProtocolError,
    UnavailableError,
)
from dray.kubelet.claims.api import ClaimApi
from dray.kubelet.claims.batches import by_driver, check, succeeded
from dray.kubelet.claims.cache import ClaimCache
from dray.kubelet.claims.claim_info import ClaimDevice, ClaimInfo, from_claim
from dray.kubelet.claims.drivers import Drivers
from dray.kubelet.claims.resolve import check_may_use, claims_of, resolve
from dray.kubelet.failure import prefixed, rpc_text
from dray.wire.gen.dra_v1_pb2 import NodePrepareResourceResponse

METHOD = "NodePrepareResources"
LARGEST = 256 * 1024
"""Bytes of the answer for one claim. It is in the record from then on, which is written with every change."""


async def prepare(
    pod: Pod, cache: ClaimCache, drivers: Drivers, api: ClaimApi, *, pod_groups: bool = False
) -> None:
    """Return when every claim of the pod is prepared. Drivers are called one after the other; the first error ends it."""
    uid = pod.metadata.uid
    wanted = await _looked_at(pod, drivers, api, pod_groups)
    todo = _enlist(cache, uid, wanted)
    with cache.preparing([claim.key for claim, _ in todo]):
        for driver, claims in by_driver(todo).items():
            await _call(cache, drivers, driver, claims)
        _finish(cache, uid, [claim for claim, _ in todo])


def unknown_claim(namespace: str, name: str) -> NotFoundError:
    """A claim that must be in the record and is not."""
    return NotFoundError(
        f"internal error: unable to get claim info for ResourceClaim {name} in namespace {namespace}",
        kind="ResourceClaim",
        name=name,
    )


async def _looked_at(pod: Pod, drivers: Drivers, api: ClaimApi, pod_groups: bool) -> list[ClaimInfo]:
    """The claims as they should be, each allocated, allowed and with drivers that are here."""
    found: list[ClaimInfo] = []
    for pod_claim in claims_of(pod):
        name = resolve(pod, pod_claim)
        if name is None:
            continue
        try:
            claim = await api.get_claim(pod.metadata.namespace, name.name)
        except Error as error:
            raise prefixed(f"fetch ResourceClaim {name.name}", error) from error
        check_may_use(pod, claim, name, pod_groups=pod_groups)
        info = from_claim(claim)
        for driver in sorted(info.drivers):
            drivers.pick(driver)
        found.append(info)
    return found


def _enlist(
    cache: ClaimCache, uid: str, wanted: Sequence[ClaimInfo]
) -> list[tuple[ClaimInfo, tuple[str, ...]]]:
    """Put the pod's references on the disk; gives the claims to prepare with the drivers to ask."""
    noted = {fresh.key: (_noted(cache, fresh).with_pod(uid), fresh) for fresh in wanted}
    if noted:
        cache.reached("claims read")
    cache.commit(changed=[info for info, _ in noted.values()])
    return [(info, tuple(fresh.drivers)) for info, fresh in noted.values() if not info.is_prepared]


def _noted(cache: ClaimCache, fresh: ClaimInfo) -> ClaimInfo:
    known = cache.get(*fresh.key)
    if known is None:
        return fresh
    if known.uid != fresh.uid:
        raise ConflictError(
            f"old ResourceClaim with same name {fresh.name} and different UID {known.uid} "
            "still exists (previous pod force-deleted?!)"
        )
    if cache.is_unpreparing(fresh.key):
        raise UnavailableError(f"ResourceClaim {fresh.name} is being unprepared")
    return known.with_drivers(fresh.drivers)


async def _call(cache: ClaimCache, drivers: Drivers, driver: str, claims: Sequence[ClaimInfo]) -> None:
    """One call; what it gave is on the disk before anything else happens, also where another claim failed."""
    endpoint = drivers.pick(driver)
    cache.reached("claims noted")
    try:
        response = await endpoint.prepare(claims)
    except Error as error:
        raise prefixed(METHOD, error, rpc_text(error)) from error
    cache.reached("prepare answered")
    good = succeeded(claims, response.claims)
    sizes = {claim.name: response.claims[claim.uid].ByteSize() for claim in good}
    cache.commit(
        changed=[
            _known(cache, claim).with_devices(driver, _devices(response.claims[claim.uid]))
            for claim in good
            if sizes[claim.name] <= LARGEST
        ]
    )
    cache.reached("prepare kept")
    check(METHOD, claims, response.claims)
    _check_sizes(sizes)


def _check_sizes(sizes: Mapping[str, int]) -> None:
    for name, size in sorted(sizes.items()):
        if size > LARGEST:
            raise ProtocolError(
                f"{METHOD} answered with {size} bytes for ResourceClaim {name}: at most {LARGEST} are kept"
            )


def _finish(cache: ClaimCache, uid: str, claims: Sequence[ClaimInfo]) -> None:
    done = [replace(_known(cache, claim), is_prepared=True) for claim in claims]
    for claim in done:
        if uid not in claim.pods:  # the pod was given up meanwhile
            raise unknown_claim(claim.namespace, claim.name)
    cache.commit(changed=done)


def _known(cache: ClaimCache, claim: ClaimInfo) -> ClaimInfo:
    """The claim as it is after a call: others may have changed it meanwhile."""
    known = cache.get(*claim.key)
    if known is None or known.uid != claim.uid:
        raise unknown_claim(claim.namespace, claim.name)
    return known


def _devices(result: NodePrepareResourceResponse) -> list[ClaimDevice]:
    return [
        ClaimDevice(
            device.pool_name,
            device.device_name,
            device.share_id if device.HasField("share_id") else None,
            tuple(device.request_names),
            tuple(device.cdi_device_ids),
        )
        for device in result.devices
    ]
