"""Rules about Allocate, GetPreferredAllocation and PreStartContainer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized
from contextlib import suppress

from dray.cdi.names import parse_qualified
from dray.errors import Error, InvalidError, UnavailableError
from dray.testing.check.plugin.played_kubelet import Served
from dray.testing.check.plugin.subject import Look, PluginSubject, each
from dray.testing.check.rules import Outcome, Rule, failed, passed, skipped
from dray.wire.deviceplugin import PRE_START_TIMEOUT
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    AllocateRequest,
    AllocateResponse,
    ContainerAllocateRequest,
    ContainerAllocateResponse,
    ContainerPreferredAllocationRequest,
    Empty,
    PreferredAllocationRequest,
    PreStartContainerRequest,
)
from dray.wire.status import Code, status_of

AT_ONCE = 8
_UNKNOWN = "dray-check-no-such-device"
# A process that falls over a call does so now; it takes a moment to be seen.
_DEATH_SECONDS = 0.1
_NONE = skipped("no healthy device is listed")


def is_qualified(name: str) -> bool:
    """Whether it has the form vendor/class=device."""
    try:
        parse_qualified(name)
    except InvalidError:
        return False
    return True


def path_faults(answer: ContainerAllocateResponse) -> list[str]:
    """Paths that no container runtime takes."""
    paths = [path for one in answer.devices for path in (one.host_path, one.container_path)]
    paths += [path for one in answer.mounts for path in (one.host_path, one.container_path)]
    return [
        f"{path!r} is not an absolute path" for path in sorted({p for p in paths if not p.startswith("/")})
    ]


def permission_faults(answer: ContainerAllocateResponse) -> list[str]:
    """Anything but r, w and m, each at most once."""
    words = sorted({one.permissions for one in answer.devices})
    return [
        f"permissions {word!r} are not made of r, w and m"
        for word in words
        if not word or set(word) - set("rwm") or len(set(word)) < len(word)
    ]


def cdi_faults(answer: ContainerAllocateResponse) -> list[str]:
    """Names that no CDI registry can have."""
    return [
        f"{one.name!r} is not vendor/class=device" for one in answer.cdi_devices if not is_qualified(one.name)
    ]


def environment_faults(answer: ContainerAllocateResponse) -> list[str]:
    """Names and values that cannot be in an environment."""
    return [
        f"variable {name!r} cannot be set"
        for name, value in sorted(answer.envs.items())
        if not name or "=" in name or "\0" in name + value
    ]


async def known(subject: PluginSubject, served: Served) -> list[str] | Outcome:
    """One id for one container, as most pods ask."""
    ids = await subject.healthy_ids(served)
    if not ids:
        return _NONE
    answer = await subject.allocate(served, ids[:1])
    faults = _count_faults(answer, 1)
    return faults or passed(f"{ids[0]}: {_summary(answer.container_responses[0])}")


def _count_faults(answer: AllocateResponse, wanted: int) -> list[str]:
    found = len(answer.container_responses)
    return [] if found == wanted else [f"{found} container responses to {wanted} container requests"]


def _summary(answer: ContainerAllocateResponse) -> str:
    kinds: dict[str, Sized] = {
        "device nodes": answer.devices,
        "mounts": answer.mounts,
        "CDI devices": answer.cdi_devices,
        "variables": answer.envs,
    }
    return ", ".join(f"{len(found)} {kind}" for kind, found in kinds.items() if found) or "an empty answer"


def _looking_at(faults_of: Callable[[ContainerAllocateResponse], list[str]]) -> Look:
    """A rule about what stands in the answer for all healthy ids of a small plugin, or some of a large one."""

    async def look(subject: PluginSubject, served: Served) -> list[str] | Outcome:
        ids = await subject.healthy_ids(served)
        if not ids:
            return _NONE
        answers = [await subject.allocate(served, [one]) for one in ids[:AT_ONCE]]
        faults = [fault for one in answers for part in one.container_responses for fault in faults_of(part)]
        return sorted(set(faults))

    return look


async def several(subject: PluginSubject, served: Served) -> list[str] | Outcome:
    """Different ids for two containers; one device alone for both where there is only one."""
    ids = await subject.healthy_ids(served)
    if len(ids) < 2:
        return skipped("fewer than two healthy devices are listed")
    return _count_faults(await subject.allocate(served, ids[:1], ids[1:2]), 2)


async def unknown(subject: PluginSubject, served: Served) -> list[str] | Outcome:
    """An error is best; that it lives on is what counts."""
    return await _harmless(subject, served, [_UNKNOWN], "an unknown id")


async def duplicate(subject: PluginSubject, served: Served) -> list[str] | Outcome:
    """The same id twice in one request."""
    ids = await subject.healthy_ids(served)
    return await _harmless(subject, served, [ids[0], ids[0]], "the same id twice") if ids else _NONE


async def _harmless(subject: PluginSubject, served: Served, ids: list[str], what: str) -> Outcome:
    try:
        await subject.allocate(served, ids)
        told = f"{what} was granted"
    except Error as error:
        told = f"refused: {error}"
    await subject.clock.sleep(_DEATH_SECONDS)
    if death := subject.death():
        return failed(f"{what}: {death}")
    await _still_answers(subject, served)
    return passed(told)


async def _still_answers(subject: PluginSubject, served: Served) -> None:
    async with subject.client(served, timeout=5.0) as client:
        await client.get_device_plugin_options(Empty())


async def at_once(subject: PluginSubject, served: Served) -> list[str] | Outcome:
    """The kubelet admits one pod at a time, but container restarts and several kubelet threads come on top."""
    ids = await subject.healthy_ids(served)
    if not ids:
        return _NONE
    async with subject.client(served) as client:
        calls = [client.allocate(_request([ids[number % len(ids)]])) for number in range(AT_ONCE)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
    return sorted({str(one) for one in answers if isinstance(one, BaseException)})


def _request(ids: list[str]) -> AllocateRequest:
    return AllocateRequest(container_requests=[ContainerAllocateRequest(devices_ids=ids)])


async def repeatable(subject: PluginSubject, served: Served) -> list[str] | Outcome:
    """There is no call that gives back, so the next pod allocates the same id again."""
    ids = await subject.healthy_ids(served)
    if not ids:
        return _NONE
    first, second = [await subject.allocate(served, ids[:1]) for _ in range(2)]
    if _nodes(first) != _nodes(second):
        return [f"{ids[0]} stands for {_nodes(first)} first and {_nodes(second)} then"]
    return []


def _nodes(answer: AllocateResponse) -> list[str]:
    return sorted(one.container_path for part in answer.container_responses for one in part.devices)


async def cancelled(subject: PluginSubject, served: Served) -> list[str] | Outcome:
    """Calls that their caller gave up, then one that counts."""
    ids = await subject.healthy_ids(served)
    if not ids:
        return _NONE
    request = _request(ids[:1])
    async with subject.client(served) as client:
        for _ in range(AT_ONCE):
            with suppress(UnavailableError):
                await client.allocate(request, timeout=0.001)
        started = subject.clock.monotonic()
        await client.allocate(request)
    took = subject.clock.monotonic() - started
    await subject.clock.sleep(_DEATH_SECONDS)
    return passed(f"answered in {took:.2f} s after {AT_ONCE} calls that were given up")


async def preferred(subject: PluginSubject, served: Served) -> list[str] | Outcome:
    """Three questions: one of all, all of all, and one that must be in it."""
    if not (await subject.options(served)).get_preferred_allocation_available:
        return skipped("the options do not offer it")
    ids = await subject.healthy_ids(served)
    if not ids:
        return _NONE
    questions: list[tuple[list[str], list[str], int]] = [
        (ids, [], 1),
        (ids, [], len(ids)),
        (ids, ids[-1:], 1),
    ]
    if len(ids) > 2:
        questions.append((ids[:-1], ids[:1], 2))
    try:
        return [fault for one in questions for fault in await _preferred_faults(subject, served, *one)]
    except Error as error:
        return _unless_missing(error)


async def _preferred_faults(
    subject: PluginSubject, served: Served, available: list[str], must: list[str], size: int
) -> list[str]:
    question = ContainerPreferredAllocationRequest(
        available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
    )
    async with subject.client(served) as client:
        answer = await client.get_preferred_allocation(
            PreferredAllocationRequest(container_requests=[question])
        )
    if len(answer.container_responses) != 1:
        return [f"{len(answer.container_responses)} container responses to 1 container request"]
    chosen = list(answer.container_responses[0].deviceIDs)
    faults = [f"chose {one!r}, which is not available" for one in sorted(set(chosen) - set(available))]
    faults += [f"left out {one!r}, which must be in it" for one in sorted(set(must) - set(chosen))]
    if len(chosen) != size or len(set(chosen)) != len(chosen):
        faults.append(f"chose {len(set(chosen))} different devices where {size} were asked for")
    return faults


async def pre_start(subject: PluginSubject, served: Served) -> list[str] | Outcome:
    """With the kubelet's own deadline."""
    if not (await subject.options(served)).pre_start_required:
        return skipped("the options do not require it")
    ids = (await subject.healthy_ids(served))[:1]
    if not ids:
        return _NONE
    await subject.allocate(served, ids)
    started = subject.clock.monotonic()
    try:
        async with subject.client(served, timeout=PRE_START_TIMEOUT) as client:
            await client.pre_start_container(PreStartContainerRequest(devices_ids=ids))
    except Error as error:
        return _unless_missing(error)
    return passed(f"{subject.clock.monotonic() - started:.2f} s")


def _unless_missing(error: Error) -> Outcome:
    """That it is not implemented is for the rule about options to say."""
    status = status_of(error)
    if status is not None and status.code is Code.UNIMPLEMENTED:
        return skipped("it is not implemented")
    return failed(str(error))


def _rule(
    name: str, title: str, kubelet: str, why: str, look: Look, *, live: bool = False
) -> Rule[PluginSubject]:
    return Rule(id=name, title=title, kubelet=kubelet, why=why, check=each(look), live=live)


_ALLOCATES = "calls Allocate when it admits a pod"
_STARTS = "hands it to the container runtime"
RULES: tuple[Rule[PluginSubject], ...] = (
    _rule("allocate", "One response for each container request", _ALLOCATES, "The pod is refused.", known),
    _rule(
        "allocate-paths",
        "Paths are absolute",
        _STARTS,
        "The container does not start.",
        _looking_at(path_faults),
    ),
    _rule(
        "allocate-permissions",
        "Permissions are made of r, w and m",
        _STARTS,
        "The container does not start, or cannot open its device.",
        _looking_at(permission_faults),
    ),
    _rule(
        "allocate-cdi",
        "CDI names are vendor/class=device",
        _STARTS,
        "The container does not start.",
        _looking_at(cdi_faults),
    ),
    _rule(
        "allocate-environment",
        "Environment variables can be set",
        _STARTS,
        "The container does not start.",
        _looking_at(environment_faults),
    ),
    _rule(
        "allocate-several",
        "Several containers in one request get one response each",
        "may send more than one container request, the API says",
        "Containers get each other's devices, or none.",
        several,
    ),
    _rule(
        "allocate-unknown",
        "An unknown id does no harm",
        "may ask for a device that has just gone",
        "One late pod ends the plugin for all.",
        unknown,
    ),
    _rule(
        "allocate-duplicate",
        "The same id twice does no harm",
        "sends sets, but nothing in the API says so",
        "One odd caller ends the plugin for all.",
        duplicate,
    ),
    _rule(
        "allocate-concurrent",
        f"{AT_ONCE} calls at once are answered",
        "calls from several threads",
        "Pods fail when many start at once.",
        at_once,
    ),
    _rule(
        "allocate-again",
        "The same id can be allocated again",
        "never says that a device was given back",
        "A device works for one pod and for no other after it.",
        repeatable,
    ),
    _rule(
        "allocate-given-up",
        "Calls that were given up leave no trace",
        "gives up when it is stopped or its pod is deleted",
        "The plugin blocks or runs out of threads.",
        cancelled,
    ),
    _rule(
        "preferred",
        "GetPreferredAllocation chooses as many as asked, of those available, with those that must be",
        "asks it before each Allocate where the options say so",
        "The kubelet ignores the answer or refuses the pod.",
        preferred,
        live=True,
    ),
    _rule(
        "pre-start",
        "PreStartContainer is done within 30 s",
        "waits 30 s before each start of a container where the options say so",
        "The container does not start.",
        pre_start,
    ),
)
