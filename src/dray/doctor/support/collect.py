"""What goes into the bundle, each thing redacted before it is kept."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from dray.api.codec import dump_yaml, load_documents
from dray.client.access import ClusterAccess, Secret
from dray.client.client import Client
from dray.client.http import HttpOptions, Request
from dray.doctor.examine import Report
from dray.doctor.places import Places, State, look_at, read_text
from dray.doctor.support.logs import read_logs
from dray.doctor.support.redact import hide_in_document, hide_in_text
from dray.errors import Error, InvalidError
from dray.runtime.flags import METRICS_ADDRESS
from dray.up.place import UpPlace

_OPTIONS: Final = HttpOptions(timeout=10.0, connect_timeout=4.0, retries=0)
_PAGE: Final = 500
"""Objects of a kind, the first ones."""
_METRICS_SECONDS: Final = 2.0
_LARGEST: Final = 8 << 20
_OURS: Final = ("ResourceClaim", "ResourceClaimTemplate", "Node", "DeviceTaintRule")
_SECRET_NAMES: Final = ("TOKEN", "PASSWORD", "PASSWD", "SECRET", "KEY", "CREDENTIAL", "HEADERS")
_LISTS: Final = {
    "slices": "/apis/resource.k8s.io/v1/resourceslices",
    "claims": "/apis/resource.k8s.io/v1/resourceclaims",
    "classes": "/apis/resource.k8s.io/v1/deviceclasses",
    "taint-rules": "/apis/resource.k8s.io/v1beta2/devicetaintrules",
    "nodes": "/api/v1/nodes",
    "events": "/api/v1/events",
}


class Item(msgspec.Struct, frozen=True):
    """One file of the bundle, already without secrets. `source` is where it is from."""

    name: str
    text: str
    source: str


def known_secrets(places: Places) -> frozenset[str]:
    """Secrets that we can read ourselves: they are hidden wherever they stand."""
    found = {value for name, value in os.environ.items() if any(word in name for word in _SECRET_NAMES)}
    found.add(read_text(UpPlace(places.data_dir).dashboard_token).text.strip())
    if places.access is not None:
        found.update(_of_access(places.access))
    return frozenset(one for one in found if one)


def _of_access(access: ClusterAccess) -> Iterator[str]:
    user = access.user
    yield from (user.token, user.password)
    if user.plugin is not None:
        yield from (value for _, value in user.plugin.env)
    for secret in (user.token_file, user.key):
        text = _read(secret)
        yield text.strip()
        yield base64.b64encode(text.encode()).decode()


def _read(secret: Secret | None) -> str:
    try:
        return "" if secret is None else secret.read().decode(errors="replace")
    except Error:
        return ""


async def collect(places: Places, report: Report) -> AsyncIterator[Item]:
    """Everything, in no order. What cannot be read is left out: the findings say why."""
    known = known_secrets(places)
    for item in (*_findings(report, known), *_files(places, known)):
        yield item
    async for name, text, source in read_logs(places):
        yield Item(f"logs/{name}", hide_in_text(text, known), source)
    async for item in _metrics(report, known):
        yield item
    async for item in _objects(places, known):
        yield item


def _findings(report: Report, known: Collection[str]) -> Iterator[Item]:
    facts: dict[str, Any] = msgspec.to_builtins(report.facts)
    facts["laptop"]["log"] = None  # it is a file of its own
    facts["cluster"]["claims"] = None
    yield _json("findings.json", msgspec.to_builtins(report.findings), "dray doctor", known)
    yield _json("facts.json", facts, "dray doctor", known)
    yield _json("versions.json", facts["software"], "this installation", known)
    sockets = [*report.facts.sockets.device_plugins, *report.facts.sockets.registry]
    lines = [
        f"{one.path}  {one.listener or 'nobody listens'}  {one.type} {one.name}".rstrip() for one in sockets
    ]
    yield Item("sockets.txt", hide_in_text("\n".join([*lines, ""]), known), "who listens where")


def _files(places: Places, known: Collection[str]) -> Iterator[Item]:
    place = UpPlace(places.data_dir)
    configs = {
        "containerd.toml": places.containerd_config,
        "kubelet.yaml": places.kubelet_dir / "config.yaml",
        "agent.yaml": place.agent_config,
    }
    for name, path in configs.items():
        yield from _config(f"config/{name}", path, known)
    for directory in places.cdi_dirs:
        for path in _below(directory):
            yield from _config(f"cdi/{_flat(path)}", path, known)
    for path in _checkpoints(places):
        yield from _checkpoint(path, known)


def _below(directory: Path) -> list[Path]:
    return [
        directory / name for name in look_at(directory, lists=True).names if name.endswith((".json", ".yaml"))
    ]


def _checkpoints(places: Places) -> list[Path]:
    plugins = places.kubelet_dir / "plugins"
    paths = [
        places.state_dir / name
        for name in ("devices", "holds", "mdevs", "sockets", "good-config", "node-labels")
    ]
    paths += [plugins / name / "prepared-claims" for name in look_at(plugins, lists=True).names]
    paths += [
        places.device_plugin_dir / "kubelet_internal_checkpoint",
        places.kubelet_dir / "dra_manager_state",
    ]
    return [path for path in paths if look_at(path).state is State.THERE]


def _flat(path: Path) -> str:
    return str(path).strip("/").replace("/", "_")


def _config(name: str, path: Path, known: Collection[str]) -> Iterator[Item]:
    """As a document where it is one: there fields have names. Otherwise as text."""
    read = read_text(path)
    if read.state is not State.THERE:
        return
    try:
        documents = [] if path.suffix == ".toml" else load_documents(read.text, read.path)
    except InvalidError:
        documents = []
    text = dump_yaml(*(hide_in_document(one.raw, known) for one in documents)) if documents else ""
    yield Item(name, text or hide_in_text(read.text, known), read.path)


def _checkpoint(path: Path, known: Collection[str]) -> Iterator[Item]:
    """Without the first two lines of our own format, and as JSON where it is JSON."""
    read = read_text(path)
    if read.state is not State.THERE:
        return
    text = read.text
    if text.startswith("dray-checkpoint/"):
        text = text.split("\n", 2)[-1]
    name = f"checkpoints/{_flat(path)}"
    try:
        yield _json(name, json.loads(text), read.path, known)
    except (ValueError, RecursionError):
        yield Item(name, hide_in_text(text, known), read.path)


async def _metrics(report: Report, known: Collection[str]) -> AsyncIterator[Item]:
    running = report.facts.laptop.running
    addresses = dict(running.metrics) if running else {}
    if not report.facts.is_laptop:
        addresses.setdefault("agent", METRICS_ADDRESS)
    timeout = aiohttp.ClientTimeout(total=_METRICS_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        for part, address in sorted(addresses.items()):
            host = address.removeprefix("http://").partition("/")[0]
            if not host.startswith(("127.", "[::1]", "localhost")):
                continue
            try:
                async with session.get(f"http://{host}/metrics") as answer:
                    text = (await answer.content.read(_LARGEST)).decode(errors="replace")
            except (aiohttp.ClientError, OSError, ValueError):
                continue
            yield Item(f"metrics/{part}.txt", hide_in_text(text, known), f"http://{host}/metrics")


async def _objects(places: Places, known: Collection[str]) -> AsyncIterator[Item]:
    """Secrets are never asked for, nor are pods: their events tell."""
    if places.access is None:
        return
    async with Client(places.access, _OPTIONS) as client:
        for name, path in _LISTS.items():
            query = [("limit", str(_PAGE))]
            if places.node_name and not places.is_laptop and name in ("slices", "nodes"):
                field = "spec.nodeName" if name == "slices" else "metadata.name"
                query.append(("fieldSelector", f"{field}={places.node_name}"))
            try:
                answer = await client.raw(Request("GET", path, tuple(query)))
            except Error:
                continue
            items = [one for one in answer.get("items") or () if name != "events" or _is_ours(one)]
            yield Item(
                f"cluster/{name}.yaml",
                dump_yaml(*(hide_in_document(one, known) for one in items)) if items else "",
                f"{places.access.server}{path}, the first {_PAGE}",
            )


def _is_ours(event: Mapping[str, Any]) -> bool:
    """About claims, slices and nodes, or written by a part of Dray."""
    about = event.get("involvedObject") or {}
    by = f"{event.get('reportingComponent') or ''} {(event.get('source') or {}).get('component') or ''}"
    return about.get("kind") in _OURS or "dray" in by


def _json(name: str, value: Any, source: str, known: Collection[str]) -> Item:
    text = json.dumps(hide_in_document(value, known), indent=2, sort_keys=True, default=str)
    return Item(name, f"{text}\n", source)
