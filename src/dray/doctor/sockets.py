"""Sockets of plugins and drivers: who listens, what they say they are, and which are left over."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from dray.deviceplugin.held import LIMITS
from dray.doctor.finding import Finding, cannot_look, fault, note, ok, warning
from dray.doctor.places import Places, State, look_at, read_bytes
from dray.errors import Error
from dray.runtime.files.checkpoint_format import Format, Unreadable
from dray.wire.connect import connect
from dray.wire.deviceplugin import KUBELET_SOCKET
from dray.wire.gen.pluginregistration_v1_pb2 import InfoRequest
from dray.wire.gen.podresources_v1_pb2 import AllocatableResourcesRequest, ListPodResourcesRequest
from dray.wire.neighbour import who_listens
from dray.wire.podresources import SOCKET, PodResourcesClient
from dray.wire.registration import GET_INFO_TIMEOUT, RegistrationClient

_SECONDS: Final = 3.0
_LEDGER_BYTES: Final = 1 << 20
_MANY: Final = 500
"""Sockets of a directory that are asked; more are not looked at."""


class Socket(msgspec.Struct, frozen=True):
    """`listener` is empty where nobody listens. The rest is what a DRA driver or plugin in the registry says of itself."""

    path: str
    listener: str = ""
    pid: int = 0
    type: str = ""
    name: str = ""
    versions: tuple[str, ...] = ()
    error: str = ""


class Kubelet(msgspec.Struct, frozen=True):
    """What its pod-resources socket tells. `holders`: resource and id of what pods have, with the pod."""

    state: State = State.MISSING
    error: str = ""
    resources: tuple[str, ...] = ()
    holders: dict[str, str] = {}
    claims: tuple[str, ...] = ()


class Sockets(msgspec.Struct, frozen=True):
    """`denied` are directories that may not be read; `own` the names of sockets that an agent of ours made."""

    device_plugins: tuple[Socket, ...] = ()
    registry: tuple[Socket, ...] = ()
    kubelet: Kubelet = Kubelet()
    denied: tuple[str, ...] = ()
    own: tuple[str, ...] = ()


async def look_at_sockets(places: Places) -> Sockets:
    """Each is connected to; those in the registry are asked who they are, as a kubelet asks after each of its restarts."""
    denied: list[str] = []
    plugins = _paths(places.device_plugin_dir, denied)
    registry = _paths(places.kubelet_dir / "plugins_registry", denied)
    return Sockets(
        tuple([await _look(path) for path in plugins]),
        tuple([await _ask(path) for path in registry]),
        await _ask_kubelet(places.kubelet_dir / SOCKET),
        tuple(denied),
        _own(places.state_dir / "sockets"),
    )


def _own(path: Path) -> tuple[str, ...]:
    """As the agent remembers them over a kill."""
    content = read_bytes(path, _LEDGER_BYTES)
    try:
        known = Format(_Ledger).decode(content) if isinstance(content, bytes) else _Ledger()
    except Unreadable:
        return ()
    return known.sockets


class _Ledger(msgspec.Struct, frozen=True):
    sockets: tuple[str, ...] = ()


def _paths(directory: Path, denied: list[str]) -> list[Path]:
    entry = look_at(directory, lists=True)
    if entry.state is State.DENIED:
        denied.append(str(directory))
    paths = [directory / name for name in entry.names[:_MANY]]
    return [path for path in paths if look_at(path).is_socket]


async def _look(path: Path) -> Socket:
    found = await who_listens(path)
    if found is None:
        return Socket(str(path))
    return Socket(str(path), str(found), found.pid)


async def _ask(path: Path) -> Socket:
    found = await _look(path)
    if not found.listener:
        return found
    try:
        async with connect(path, timeout=GET_INFO_TIMEOUT) as channel:
            info = await RegistrationClient(channel).get_info(InfoRequest(), timeout=GET_INFO_TIMEOUT)
    except Error as error:
        return msgspec.structs.replace(found, error=str(error))
    return msgspec.structs.replace(
        found, type=info.type, name=info.name, versions=tuple(info.supported_versions)
    )


async def _ask_kubelet(path: Path) -> Kubelet:
    entry = look_at(path)
    if entry.state is not State.THERE or not entry.is_socket:
        return Kubelet(
            entry.state if entry.state is not State.THERE else State.BROKEN, f"{path} is no socket"
        )
    if not entry.is_writable:
        return Kubelet(State.DENIED)
    try:
        async with connect(path, timeout=_SECONDS, limits=LIMITS) as channel:
            client = PodResourcesClient(channel)
            listed = await client.list(ListPodResourcesRequest(), timeout=_SECONDS)
            all_of_them = await client.get_allocatable_resources(
                AllocatableResourcesRequest(), timeout=_SECONDS
            )
    except Error as error:
        return Kubelet(State.BROKEN, str(error))
    holders: dict[str, str] = {}
    claims: set[str] = set()
    for pod in listed.pod_resources:
        for container in pod.containers:
            for devices in container.devices:
                for one in devices.device_ids:
                    holders[f"{devices.resource_name} {one}"] = f"{pod.namespace}/{pod.name}"
            claims.update(f"{one.claim_namespace}/{one.claim_name}" for one in container.dynamic_resources)
    resources = tuple(sorted({devices.resource_name for devices in all_of_them.devices}))
    return Kubelet(State.THERE, "", resources, holders, tuple(sorted(claims)))


def check_sockets(facts: Sockets) -> Iterator[Finding]:
    """The kubelet, then what nobody listens on, then who is there twice."""
    for path in facts.denied:
        yield cannot_look("sockets", path)
    yield _check_kubelet(facts.kubelet)
    yield from _check_registration(facts)
    yield from _check_stale(facts)
    yield from _check_twice(facts)


def _check_kubelet(kubelet: Kubelet) -> Finding:
    why = "the agent learns there who holds which device"
    if kubelet.state is State.DENIED:
        return cannot_look("kubelet-reachable", "the kubelet's pod-resources socket")
    if kubelet.state is State.MISSING:
        fix = (
            "start the kubelet; give --kubelet-dir where its root is elsewhere; in a pod mount pod-resources"
        )
        return fault("kubelet-reachable", "no kubelet listens on pod-resources/kubelet.sock", why, fix)
    if kubelet.state is State.BROKEN:
        fix = "look at the kubelet's log; restart it where it does not run"
        return fault("kubelet-reachable", f"the kubelet does not answer: {kubelet.error}", why, fix)
    held = len(kubelet.holders)
    return ok(
        "kubelet-reachable", f"the kubelet answers: {len(kubelet.resources)} resources, {held} devices held"
    )


def _check_registration(facts: Sockets) -> Iterator[Finding]:
    """Where plugins register: only a directory with other sockets tells that a kubelet should be there."""
    own = next((one for one in facts.device_plugins if _is_kubelets(one)), None)
    if own is not None and not own.listener:
        why = "no device plugin can register; pods that ask for devices stay Pending"
        yield fault("kubelet-registration", f"nobody listens on {own.path}", why, "start the kubelet")
    elif own is not None:
        yield ok("kubelet-registration", f"{own.listener} takes registrations")


def _check_stale(facts: Sockets) -> Iterator[Finding]:
    stale = [one for one in facts.device_plugins if not one.listener and not _is_kubelets(one)]
    for one in stale:
        who = "dray agent" if Path(one.path).name in facts.own else "its plugin"
        why = f"{who} died without cleaning up; the kubelet counts its devices as gone"
        yield warning("stale-socket", f"nobody listens on {one.path}", why, f"start {who}, or rm {one.path}")
    for one in facts.registry:
        if not one.listener:
            why = "the kubelet tries it for ever, and each try takes it a second"
            fix = f"start its driver, or rm {one.path}"
            yield warning("stale-socket", f"nobody listens on {one.path}", why, fix)
        elif one.error:
            why = "the kubelet cannot register it"
            yield warning("silent-socket", f"{one.path}: {one.error}", why, f"restart {one.listener}")
    if not stale and (facts.device_plugins or facts.registry):
        count = len(facts.device_plugins) + len(facts.registry)
        yield ok("stale-socket", f"{count} sockets of plugins and drivers were looked at")


def _check_twice(facts: Sockets) -> Iterator[Finding]:
    """A plugin does not tell its resource, so its socket's name must."""
    named: dict[str, list[Socket]] = {}
    for one in facts.registry:
        if one.name:
            named.setdefault(f"{one.type} {one.name}", []).append(one)
    for name, found in sorted(named.items()):
        pids = {one.pid for one in found}
        if len(found) > 1 and len(pids) > 1:
            why = "the kubelet asks whichever came last; right during a rolling update, wrong for long"
            fix = "stop all but one"
            yield note("driver-twice", f"{name} is served by {_who(found)}", why, fix)
    for resource in facts.kubelet.resources:
        word = _plain(resource.rpartition("/")[2])
        live = [one for one in facts.device_plugins if one.listener and word in _plain(Path(one.path).name)]
        if len({one.pid for one in live}) > 1:
            why = "a kubelet takes both, and lists whichever spoke last"
            yield warning(
                "plugin-twice", f"{resource} may be served by {_who(live)}", why, "stop all but one"
            )


def _is_kubelets(one: Socket) -> bool:
    return Path(one.path).name == KUBELET_SOCKET


def _who(found: list[Socket]) -> str:
    return " and by ".join(f"{one.listener} on {Path(one.path).name}" for one in found)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower())
