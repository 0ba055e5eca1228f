"""Who is registered with a kubelet: told by ours on its page `/plugins`, or pieced together from another kubelet's directories."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from dray.api.kinds import RESOURCE_SLICES
from dray.apiserver.http.showing.ages import age
from dray.cli.tables import Column, Row, Table, listed
from dray.cli.views.fleet import fleet
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.client.requests import Selection
from dray.deviceplugin.held import LIMITS, by_resource
from dray.errors import (
    DeniedError,
    Error,
    InvalidError,
    NotFoundError,
    ProtocolError,
    UnavailableError,
)
from dray.kubelet.plugins_view import DEVICE_PLUGIN, DRA_DRIVER, PATH
from dray.runtime.files.oserrors import from_os_error
from dray.semantics.taints import DeviceHealth
from dray.up.place import RunningUp, find_running
from dray.wire.connect import connect
from dray.wire.gen.pluginregistration_v1_pb2 import InfoRequest
from dray.wire.gen.podresources_v1_pb2 import AllocatableResourcesRequest
from dray.wire.podresources import SOCKET, PodResourcesClient
from dray.wire.registration import RegistrationClient

KUBELET: Final = "http://127.0.0.1:9615"
"""Where `dray kubelet` listens unless it is told otherwise."""
KUBELET_DIR: Final = Path("/var/lib/kubelet")
_SECONDS: Final = 3.0
_TYPES: Final = {"DRAPlugin": DRA_DRIVER, "DevicePlugin": DEVICE_PLUGIN}


@dataclass(frozen=True, slots=True)
class Plugins:
    """`plugins` has the form of the page `/plugins`; `notes` say what this kubelet does not tell."""

    plugins: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...] = ()


def read_plugins(data_dir: Path | None, kubelet_dir: Path | None, token_file: Path | None = None) -> Plugins:
    """Of the kubelet that is meant: a directory's, that of a `dray up`, `dray kubelet`'s usual one, or the machine's."""
    if kubelet_dir is not None:
        return _look(kubelet_dir)
    running = find_running(data_dir)
    if running is not None:
        return _with_counts(ask_page(running.metrics.get("kubelet", KUBELET)), running)
    if data_dir is not None:
        raise NotFoundError(f"no `dray up` runs on {data_dir}; start it with `dray up --data-dir {data_dir}`")
    try:
        return ask_page(KUBELET, token_file)
    except (UnavailableError, ProtocolError):
        if KUBELET_DIR.is_dir():
            return _look(KUBELET_DIR)
    raise NotFoundError(
        f"no kubelet found: no `dray up` runs, nothing answers at {KUBELET}, and there is no {KUBELET_DIR}; "
        "start one with `dray up`, or give --kubelet-dir D",
        kind="kubelet",
    )


def _with_counts(found: Plugins, running: RunningUp) -> Plugins:
    """A kubelet does not know how many devices a driver has; the slices do. Without an answer they stay unknown."""
    try:
        counts = asyncio.run(_count(running))
    except Error as error:
        return replace(found, notes=(*found.notes, f"devices of drivers are not counted: {error}"))
    return replace(found, plugins=tuple({**one, **counts.get(_driver(one), {})} for one in found.plugins))


def _driver(one: Mapping[str, Any]) -> str:
    return str(one["name"]) if one["type"] == DRA_DRIVER and one["state"] != "refused" else ""


async def _count(running: RunningUp) -> dict[str, dict[str, int]]:
    async with Client(find_access(running.kubeconfig)) as client:
        selection = Selection(fields=f"spec.nodeName={running.node}")
        slices = (await client.list(RESOURCE_SLICES, selection)).items
    counts: dict[str, dict[str, int]] = {}
    for one in fleet(slices):
        of_driver = counts.setdefault(one.driver, {"healthy": 0, "unhealthy": 0})
        of_driver["unhealthy" if one.status.health is DeviceHealth.UNHEALTHY else "healthy"] += 1
    return counts


def ask_page(address: str, token_file: Path | None = None) -> Plugins:
    """What our kubelet says. DeniedError where it wants a token (its --metrics-token-file), and this is not it."""
    headers = {} if token_file is None else {"Authorization": f"Bearer {_token(token_file)}"}
    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=_SECONDS)
    with closing(connection):
        try:
            connection.request("GET", PATH, headers=headers)
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise UnavailableError(f"{address}{PATH}: {error}; is the kubelet up?") from error
    if answer.status == 401:
        raise DeniedError(
            f"{address}{PATH}: is for who has the kubelet's token; give the file with --metrics-token-file",
            what=f"read {PATH}",
            authenticated=False,
        )
    try:
        if answer.status != 200:
            raise ProtocolError(f"{address}{PATH}: answers {answer.status}; is this `dray kubelet`?")
        found = msgspec.json.decode(body, type=dict[str, list[dict[str, Any]]])["plugins"]
    except (msgspec.DecodeError, KeyError) as error:
        raise ProtocolError(f"{address}{PATH}: cannot be read: {error}; is this `dray kubelet`?") from error
    return Plugins(tuple(found))


def _token(file: Path) -> str:
    try:
        text = file.read_text("latin-1").strip()
    except OSError as error:
        raise from_os_error(error, "read the token in", str(file)) from error
    if not text.isprintable():
        raise InvalidError(
            f"{file}: a token is one line of printable characters", field="--metrics-token-file"
        )
    return text


def _look(directory: Path) -> Plugins:
    if not directory.is_dir():
        raise NotFoundError(f"no kubelet directory {directory}; give another one with --kubelet-dir D")
    return asyncio.run(look(directory))


async def look(directory: Path) -> Plugins:
    """By the directories of any kubelet. Asks registration sockets who they are, and the kubelet what it can give."""
    notes: list[str] = []
    found = [await _introduced(path, notes) for path in _sockets(directory / "plugins_registry", notes)]
    found += [
        _told(DEVICE_PLUGIN, "?", str(path), note="its socket does not tell for which resource")
        for path in _sockets(directory / "device-plugins", notes)
        if path.name != "kubelet.sock"
    ]
    found += await _resources(directory, notes)
    notes.append(
        f"by the files in {directory}: this kubelet does not tell which socket serves a resource, nor of unhealthy devices, "
        "last messages and grace"
    )
    return Plugins(tuple(sorted(found, key=lambda one: (one["type"], one["name"]))), tuple(notes))


def _sockets(directory: Path, notes: list[str]) -> list[Path]:
    try:
        return sorted(path for path in directory.iterdir() if path.is_socket())
    except FileNotFoundError:
        return []
    except OSError as error:
        notes.append(f"cannot look into {directory}: {error.strerror}; run this as root")
        return []


async def _introduced(path: Path, notes: list[str]) -> dict[str, Any]:
    try:
        async with connect(path, timeout=_SECONDS) as channel:
            info = await RegistrationClient(channel).get_info(InfoRequest(), timeout=_SECONDS)
    except Error as error:
        return _told("?", path.name, str(path), state="lost", note=str(error))
    kind = _TYPES.get(info.type, info.type)
    return _told(kind, info.name, info.endpoint or str(path), list(info.supported_versions), state="listens")


async def _resources(directory: Path, notes: list[str]) -> list[dict[str, Any]]:
    try:
        async with connect(directory / SOCKET, timeout=_SECONDS, limits=LIMITS) as channel:
            client = PodResourcesClient(channel)
            answer = await client.get_allocatable_resources(AllocatableResourcesRequest(), timeout=_SECONDS)
    except Error as error:
        notes.append(f"the kubelet does not tell what it can give ({error}); run this as root")
        return []
    return [
        _told(DEVICE_PLUGIN, name, None, state="listed") | {"healthy": len(ids)}
        for name, ids in by_resource(answer.devices).items()
    ]


def _told(
    kind: str,
    name: str,
    socket: str | None,
    versions: list[str] | None = None,
    *,
    state: str = "",
    note: str = "",
) -> dict[str, Any]:
    unknown = dict.fromkeys(("healthy", "unhealthy", "since", "lastMessage", "graceLeft"))
    head = {"type": kind, "name": name, "socket": socket, "versions": versions or [], "state": state}
    return {**head, **unknown, "note": note}


def plugins_table(found: Plugins, now: datetime, *, notes: bool = False) -> Table:
    """One row a plugin; `notes`: with that column also where it is empty."""
    rows = []
    for one in found.plugins:
        left = one.get("graceLeft")
        rows.append(
            Row(
                (str(one["type"]), str(one["name"]), str(one["socket"])),
                (
                    str(one["type"]),
                    str(one["name"]),
                    str(one["state"]),
                    listed(one["versions"]),
                    _number(one.get("healthy")),
                    _number(one.get("unhealthy")),
                    _since(one.get("lastMessage"), now),
                    "" if left is None else f"{left:.0f}s",
                    str(one["socket"] or ""),
                    str(one.get("note") or ""),
                ),
            )
        )
    columns = (
        Column("TYPE"),
        Column("RESOURCE OR DRIVER"),
        Column("STATE", state=True),
        Column("API"),
        Column("HEALTHY"),
        Column("UNHEALTHY"),
        Column("LAST MESSAGE", moves=True),
        Column("GRACE LEFT", moves=True),
        Column("SOCKET", cut=True),
        Column("NOTE", cut=True),
    )
    table = Table(columns, tuple(rows))
    return table if notes or any(row.cells[-1] for row in rows) else table.without("NOTE")


def _number(value: Any) -> str:
    return "" if value is None else str(value)


def _since(text: Any, now: datetime) -> str:
    return age(datetime.fromisoformat(text), now) if text else ""
