"""Rules about NodePrepareResources and NodeUnprepareResources, and the CDI devices that come of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from dray.cdi.registry import read_registry
from dray.errors import Error
from dray.testing.check.driver.subject import (
    REQUEST,
    Allocated,
    Driver,
    DriverSubject,
    Look,
    each,
    unknown_claim,
)
from dray.testing.check.plugin.allocate import is_qualified
from dray.testing.check.rules import Outcome, Rule, failed, passed, skipped, warned
from dray.wire.gen.dra_v1_pb2 import Claim, Device, NodePrepareResourceResponse
from dray.wire.status import Code, status_of

AT_ONCE = 4
_NO_ANSWER = (Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.UNIMPLEMENTED, Code.UNAVAILABLE)
_NO_DEVICE = skipped("no device is published, so no claim can be allocated")


def entry_faults(claims: Sequence[Claim], answered: Mapping[str, object]) -> list[str]:
    """Exactly one entry for each claim, by UID."""
    wanted = {claim.uid for claim in claims}
    faults = [f"no entry for claim {uid}" for uid in sorted(wanted - set(answered))]
    return faults + [
        f"an entry for {uid!r}, which was not asked for" for uid in sorted(set(answered) - wanted)
    ]


def prepared_faults(
    claims: Sequence[Allocated], answered: Mapping[str, NodePrepareResourceResponse]
) -> list[str]:
    """What is wrong with an answer that should have gone well."""
    faults = entry_faults([one.claim for one in claims], answered)
    for one in claims:
        entry = answered.get(one.claim.uid)
        if entry is None:
            continue
        if entry.error:
            faults.append(f"{one.device}: {entry.error}")
        faults += [fault for device in entry.devices for fault in _device_faults(one, device)]
    return faults


def _device_faults(claim: Allocated, device: Device) -> list[str]:
    faults = []
    if (device.pool_name, device.device_name) != (claim.pool, claim.device):
        faults.append(
            f"prepared {device.pool_name}/{device.device_name} where {claim.pool}/{claim.device} is allocated"
        )
    if strange := sorted(set(device.request_names) - {REQUEST}):
        faults.append(f"names requests {strange}, which the claim does not have")
    return faults


async def unknown(subject: DriverSubject, driver: Driver) -> list[str] | Outcome:
    """A claim that was deleted meanwhile, in a batch with others, must not take them with it."""
    claim = unknown_claim()
    try:
        answered = await subject.prepare(driver, [claim])
    except Error as error:
        status = status_of(error)
        if status is None or status.code in _NO_ANSWER:
            raise
        return warned(f"the call fails for all its claims: {error}")
    if faults := entry_faults([claim], answered):
        return faults
    told = answered[claim.uid].error
    return passed(told) if told else ["prepared a claim that does not exist"]


async def allocated(subject: DriverSubject, driver: Driver) -> list[str] | Outcome:
    """One claim with one device."""
    async with subject.claims(driver, 1) as claims:
        if not claims:
            return _NO_DEVICE
        answered = await subject.prepare(driver, [claims[0].claim])
        devices = answered[claims[0].claim.uid].devices if claims[0].claim.uid in answered else ()
        return prepared_faults(claims, answered) or passed(f"{claims[0].device}: {_cdi(devices)}")


def _cdi(devices: Sequence[Device]) -> str:
    return ", ".join(name for one in devices for name in one.cdi_device_ids) or "no CDI devices"


async def repeated(subject: DriverSubject, driver: Driver) -> list[str] | Outcome:
    """The kubelet repeats after any failure and after its restart."""
    async with subject.claims(driver, 1) as claims:
        if not claims:
            return _NO_DEVICE
        uid = claims[0].claim.uid
        first = await subject.prepare(driver, [claims[0].claim])
        second = await subject.prepare(driver, [claims[0].claim])
        if uid not in first or uid not in second:
            return entry_faults([claims[0].claim], second if uid in first else first)
        if second[uid].error and not first[uid].error:
            return [f"the second prepare of a claim fails: {second[uid].error}"]
        if _shape(first[uid]) != _shape(second[uid]):
            return [f"{_cdi(first[uid].devices)} first, {_cdi(second[uid].devices)} then"]
    return []


def _shape(entry: NodePrepareResourceResponse) -> list[tuple[str, str, list[str], list[str]]]:
    return sorted(
        (one.pool_name, one.device_name, sorted(one.request_names), sorted(one.cdi_device_ids))
        for one in entry.devices
    )


async def batch(subject: DriverSubject, driver: Driver) -> list[str] | Outcome:
    """Several claims in one call."""
    async with subject.claims(driver, 2) as claims:
        if len(claims) < 2:
            return skipped("fewer than two devices are published")
        return prepared_faults(claims, await subject.prepare(driver, [one.claim for one in claims]))


async def at_once(subject: DriverSubject, driver: Driver) -> list[str] | Outcome:
    """Different claims in calls of their own."""
    async with subject.claims(driver, AT_ONCE) as claims:
        if not claims:
            return _NO_DEVICE
        calls = [subject.prepare(driver, [one.claim]) for one in claims]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        faults = [str(one) for one in answers if isinstance(one, BaseException)]
        for claim, answer in zip(claims, answers, strict=True):
            if not isinstance(answer, BaseException):
                faults += prepared_faults([claim], answer)
        return faults or passed(f"{len(claims)} at once")


async def versions_agree(subject: DriverSubject, driver: Driver) -> list[str] | Outcome:
    """The same claim through each version that it says it speaks."""
    if len(driver.versions) < 2:
        return skipped("it speaks one version alone")
    async with subject.claims(driver, 1) as claims:
        if not claims:
            return _NO_DEVICE
        one = claims[0].claim
        answers = {version: await subject.prepare(driver, [one], version) for version in driver.versions}
        faults = [
            f"{version}: {fault}"
            for version, found in answers.items()
            for fault in entry_faults([one], found)
        ]
        if not faults and len({str(_shape(found[one.uid])) for found in answers.values()}) > 1:
            told = "; ".join(
                f"{version}: {_cdi(found[one.uid].devices)}" for version, found in answers.items()
            )
            return [f"the answers differ: {told}"]
        return faults


async def cdi_names(subject: DriverSubject, driver: Driver) -> list[str] | Outcome:
    """Of one prepared claim."""
    names = await _cdi_of_one(subject, driver)
    if names is None:
        return _NO_DEVICE
    return [f"{name!r} is not vendor/class=device" for name in names if not is_qualified(name)] or passed(
        ", ".join(names) or "no CDI devices"
    )


async def _cdi_of_one(subject: DriverSubject, driver: Driver) -> list[str] | None:
    async with subject.claims(driver, 1) as claims:
        if not claims:
            return None
        answered = await subject.prepare(driver, [claims[0].claim])
        return _ids(answered)


def _ids(answered: Mapping[str, NodePrepareResourceResponse]) -> list[str]:
    return sorted(
        name for entry in answered.values() for device in entry.devices for name in device.cdi_device_ids
    )


async def cdi_files(subject: DriverSubject, driver: Driver) -> list[str] | Outcome:
    """While the claim is prepared, the runtime must find every name."""
    async with subject.claims(driver, 1) as claims:
        if not claims:
            return _NO_DEVICE
        names = _ids(await subject.prepare(driver, [claims[0].claim]))
        registry = read_registry([subject.cdi_dir])
    # All files here are the driver's own: the directory is private.
    faults = [f"{one.path.name}: {one.error}" for one in registry.broken]
    faults += [
        f"{name!r}: {registry.reason(name)}"
        for name in names
        if is_qualified(name) and name not in registry.devices
    ]
    return faults or passed(f"{len(names)} names found")


async def released(subject: DriverSubject, driver: Driver) -> list[str] | Outcome:
    """After a prepare."""
    return await _released(subject, driver, times=1)


async def released_again(subject: DriverSubject, driver: Driver) -> list[str] | Outcome:
    """The kubelet repeats until it has seen a success."""
    return await _released(subject, driver, times=2)


async def _released(subject: DriverSubject, driver: Driver, *, times: int) -> list[str] | Outcome:
    async with subject.claims(driver, 1) as claims:
        if not claims:
            return _NO_DEVICE
        await subject.prepare(driver, [claims[0].claim])
        answers = [await subject.unprepare(driver, [claims[0].claim]) for _ in range(times)]
    return _release_faults(claims[0].claim, answers[-1])


async def never_prepared(subject: DriverSubject, driver: Driver) -> list[str] | Outcome:
    """A kubelet that lost its memory unprepares to be sure."""
    claim = unknown_claim()
    return _release_faults(claim, await subject.unprepare(driver, [claim]))


def _release_faults(claim: Claim, answered: Mapping[str, str]) -> list[str]:
    return entry_faults([claim], answered) + [error for error in answered.values() if error]


async def prepared_again(subject: DriverSubject, driver: Driver) -> list[str] | Outcome:
    """The same device for the next pod."""
    async with subject.claims(driver, 1) as claims:
        if not claims:
            return _NO_DEVICE
        await subject.prepare(driver, [claims[0].claim])
        await subject.unprepare(driver, [claims[0].claim])
    async with subject.claims(driver, 1) as claims:
        faults = prepared_faults(claims, await subject.prepare(driver, [claims[0].claim]))
    return failed("; ".join(faults)) if faults else passed()


def _rule(
    name: str, title: str, kubelet: str, why: str, look: Look, *, live: bool = False
) -> Rule[DriverSubject]:
    return Rule(id=name, title=title, kubelet=kubelet, why=why, check=each(look), live=live)


_REPEATS = "repeats a call after an error, and after its own restart"
_INJECTS = "hands the CDI names to the container runtime"
RULES: tuple[Rule[DriverSubject], ...] = (
    _rule(
        "prepare-unknown",
        "A claim that does not exist gets an error entry, and the call succeeds",
        "sends all claims of a pod that a driver has in one call",
        "One bad claim fails all claims of the call, and the pod's events do not name it.",
        unknown,
        live=True,
    ),
    _rule(
        "prepare",
        "An allocated claim is prepared",
        "calls before a pod starts",
        "The pod waits for ever.",
        allocated,
    ),
    _rule(
        "prepare-again",
        "Preparing again gives the same devices",
        _REPEATS,
        "The pod gets other devices, or none.",
        repeated,
    ),
    _rule(
        "prepare-batch",
        "Exactly one entry for each claim of a call",
        "counts the entries and refuses strange ones",
        "The pod waits for ever.",
        batch,
    ),
    _rule(
        "prepare-concurrent",
        "Claims are prepared at the same time",
        "starts pods in parallel",
        "Pods fail when many start at once.",
        at_once,
    ),
    _rule(
        "versions-agree",
        "All versions give the same answer",
        "speaks the version that it knows; another one after an upgrade",
        "An upgrade of the kubelet changes what containers get.",
        versions_agree,
    ),
    _rule(
        "cdi-names", "CDI names are vendor/class=device", _INJECTS, "The container does not start.", cdi_names
    ),
    _rule(
        "cdi-files",
        "CDI names are in the CDI directory while prepared",
        _INJECTS,
        "The runtime cannot resolve them, and the container does not start.",
        cdi_files,
    ),
    _rule(
        "unprepare",
        "A prepared claim is unprepared",
        "calls after the last pod ended",
        "The pod stays Terminating.",
        released,
    ),
    _rule(
        "unprepare-again", "Unpreparing again is fine", _REPEATS, "The pod stays Terminating.", released_again
    ),
    _rule(
        "unprepare-unknown",
        "Unpreparing what was never prepared is fine",
        "calls for claims of pods that never started",
        "The pod stays Terminating.",
        never_prepared,
        live=True,
    ),
    _rule(
        "prepare-next",
        "A device can be prepared for the next claim",
        "prepares the next pod's claim after the last one's was unprepared",
        "A device works once.",
        prepared_again,
    ),
)
