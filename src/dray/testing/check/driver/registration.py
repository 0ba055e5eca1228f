"""Rules about how a driver comes to its kubelet, and what it publishes."""

from __future__ import annotations

from collections.abc import Sequence

from dray.api.kinds import RESOURCE_SLICES
from dray.api.names import driver_name
from dray.api.resource import ResourceSlice
from dray.api.validation import validate
from dray.errors import Error
from dray.semantics.pools import current
from dray.testing.check.driver.subject import Driver, DriverSubject, each
from dray.testing.check.program import NODE_NAME
from dray.testing.check.registry import get_info, notify
from dray.testing.check.rules import Outcome, Rule, passed, skipped
from dray.testing.check.subject import registers
from dray.wire import dra, health
from dray.wire.connect import connect
from dray.wire.registration import DRA_PLUGIN

RETURN_FACTOR = 5
"""Kubernetes' own Go library waits 30 s before it publishes again."""
_NO_INFO = skipped("this is not the registration socket")


async def info_type(subject: DriverSubject, driver: Driver) -> list[str] | Outcome:
    """Decides which part of the kubelet takes it."""
    if driver.info is None:
        return _NO_INFO
    return [] if driver.info.type == DRA_PLUGIN else [f'type "{driver.info.type}" is not "{DRA_PLUGIN}"']


async def info_name(subject: DriverSubject, driver: Driver) -> list[str] | Outcome:
    """The kubelet does not look, but no claim can name a driver with a bad name."""
    if driver.info is None:
        return _NO_INFO
    return [f'"{driver.name}": {fault}' for fault in driver_name(driver.name)] or passed(driver.name)


async def info_versions(subject: DriverSubject, driver: Driver) -> list[str] | Outcome:
    """The kubelet takes the first that it knows, so the best stands first."""
    if driver.info is None:
        return _NO_INFO
    told = list(driver.info.supported_versions)
    if not driver.versions:
        return [f"none of {told} is known; a kubelet knows {list(dra.VERSIONS)}"]
    ordered = sorted(driver.versions, key=dra.VERSIONS.index)
    if list(driver.versions) != ordered:
        return [f"{list(driver.versions)}: the kubelet takes the first, so the newest must stand first"]
    strange = [one for one in told if one not in (*dra.VERSIONS, *health.VERSIONS)]
    return passed(", ".join(told) + (f" (unknown: {', '.join(strange)})" if strange else ""))


async def endpoint(subject: DriverSubject, driver: Driver) -> list[str] | Outcome:
    """Whoever answers there must at least accept a connection."""
    async with connect(driver.endpoint):
        return passed(driver.endpoint.name)


async def notified(subject: DriverSubject, driver: Driver) -> list[str] | Outcome:
    """A failure here undoes the registration."""
    if driver.registration is None:
        return _NO_INFO
    await notify(driver.registration)
    return passed()


async def kubelet_restart(subject: DriverSubject, driver: Driver) -> list[str] | Outcome:
    """A new kubelet finds the socket where it was, and asks and tells again."""
    if driver.registration is None:
        return _NO_INFO
    for _ in range(3):
        again = await get_info(driver.registration)
        if driver.info is not None and (again.name, again.endpoint) != (
            driver.info.name,
            driver.info.endpoint,
        ):
            return [f"GetInfo now tells {again.name} at {again.endpoint}"]
        await notify(driver.registration)
    async with connect(driver.endpoint):
        return passed("asked and told three times")


async def slices(subject: DriverSubject, driver: Driver) -> list[str] | Outcome:
    """Those of this node; a driver of devices that are not on a node may have none."""
    if subject.client is None:
        return skipped("without --kubeconfig the slices cannot be read")
    found = await subject.slices(driver) if subject.is_live else await subject.wait_slices(driver)
    api = subject.private.api if subject.private else None
    if api is not None and api.refused:
        return [f"the API server refused: {api.refused[0]}"]
    if not found:
        return [f"no ResourceSlice of {driver.name} for this node"]
    faults = [f"{one.metadata.name}: {fault}" for one in found for fault in validate(RESOURCE_SLICES, one)]
    devices = sum(len(one.spec.devices or ()) for one in found)
    return faults or passed(f"{len(found)} slices, {devices} devices")


async def slices_return(subject: DriverSubject, driver: Driver) -> list[str] | Outcome:
    """Deleted one by one, as a kubelet deletes those of its node when it starts."""
    if subject.client is None:
        return skipped("without --kubeconfig the slices cannot be read")
    # Others belong to the cluster, not to this node.
    before = [one for one in await subject.wait_slices(driver) if one.spec.node_name == NODE_NAME]
    if not before:
        return skipped("it has no slices for this node")
    for one in before:
        await subject.client.delete(RESOURCE_SLICES, one.metadata.name)
    started = subject.clock.monotonic()
    wanted = _devices_of(before)
    seconds = RETURN_FACTOR * subject.pace.within
    while subject.clock.monotonic() - started < seconds:
        try:
            if _devices_of(await subject.slices(driver)) >= wanted:
                return passed(f"published again after {subject.clock.monotonic() - started:.1f} s")
        except Error as error:
            return [str(error)]
        await subject.clock.sleep(0.05)
    return [f"not published again within {seconds:g} s"]


def _devices_of(found: Sequence[ResourceSlice]) -> set[tuple[str, str]]:
    return {(one.spec.pool.name, device.name) for one in current(found) for device in one.spec.devices or ()}


RULES: tuple[Rule[DriverSubject], ...] = (
    Rule(
        id="registers",
        title="Registers in time",
        kubelet="watches plugins_registry and calls GetInfo on each socket, with 1 s to answer",
        why="Until it registers, no pod with its claims starts on the node.",
        check=registers,
        bare=True,
    ),
    Rule(
        id="info-type",
        title="GetInfo says DRAPlugin",
        kubelet="chooses the handler by type",
        why="The kubelet refuses the registration.",
        check=each(info_type),
        live=True,
    ),
    Rule(
        id="info-name",
        title="The driver name is valid",
        kubelet="finds the driver of an allocated device by this name",
        why="No claim can name the driver.",
        check=each(info_name),
        live=True,
    ),
    Rule(
        id="info-versions",
        title="Versions are known and the newest stands first",
        kubelet="takes the first of the driver's list that it knows",
        why="The kubelet refuses the registration, or speaks an old version.",
        check=each(info_versions),
        live=True,
    ),
    Rule(
        id="endpoint",
        title="The endpoint can be connected to",
        kubelet="connects there for prepare and unprepare",
        why="Every prepare fails.",
        check=each(endpoint),
        live=True,
    ),
    Rule(
        id="notify",
        title="NotifyRegistrationStatus is answered",
        kubelet="tells the outcome, with 5 s to answer; a failure undoes the registration",
        why="The kubelet registers and drops it in a loop.",
        check=each(notified),
    ),
    Rule(
        id="slices",
        title="ResourceSlices are published and valid",
        kubelet="leaves publishing to the driver; the scheduler reads them",
        why="The scheduler sees no devices.",
        check=each(slices),
        live=True,
    ),
)
LAST_RULES: tuple[Rule[DriverSubject], ...] = (
    Rule(
        id="kubelet-restart",
        title="Answers a new kubelet",
        kubelet="calls GetInfo and NotifyRegistrationStatus again after its restart",
        why="After a restart of the kubelet no pod with its claims starts.",
        check=each(kubelet_restart),
    ),
    Rule(
        id="slices-return",
        title="Publishes again what was deleted",
        kubelet="deletes all slices of its node when it starts",
        why="After a restart of the kubelet the scheduler sees no devices.",
        check=each(slices_return),
    ),
)
