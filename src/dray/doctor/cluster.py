"""The API server: reachable, of a version that fits, with DRA, the right time, and the rights an agent needs."""

from __future__ import annotations

import asyncio
import re
import ssl
from dataclasses import replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from dray.api.kinds import RESOURCE_CLAIMS
from dray.client import requests
from dray.client.access import ClusterAccess
from dray.client.client import PAGE_SIZE, Client
from dray.client.http import HttpOptions, Request, Transport
from dray.doctor.kubelet_config import GATES
from dray.doctor.places import Places
from dray.errors import DeniedError, Error, NotFoundError
from dray.runtime.clock import Clock

RIGHTS: Final = (
    ("get", "", "nodes", ""),
    ("list", "", "nodes", ""),
    ("watch", "", "nodes", ""),
    ("create", "", "events", ""),
    ("patch", "", "events", ""),
    ("get", "resource.k8s.io", "resourceclaims", ""),
    ("list", "resource.k8s.io", "resourceclaims", ""),
    ("watch", "resource.k8s.io", "resourceclaims", ""),
    ("patch", "resource.k8s.io", "resourceclaims", "status"),
    ("list", "resource.k8s.io", "resourceslices", ""),
    ("watch", "resource.k8s.io", "resourceslices", ""),
    ("create", "resource.k8s.io", "resourceslices", ""),
    ("update", "resource.k8s.io", "resourceslices", ""),
    ("delete", "resource.k8s.io", "resourceslices", ""),
)
"""Verb, group, resource and subresource: the agent's role in docs/reference/agent.md."""
_OPTIONS: Final = HttpOptions(timeout=8.0, connect_timeout=4.0, retries=0)
_METADATA: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
_CLOCK_SECONDS: Final = 4.0
_GATE: Final = re.compile(r'kubernetes_feature_enabled\{name="(\w+)",[^}]*\} ([01])')


class Cluster(msgspec.Struct, frozen=True):
    """`error` says why it did not answer. None where something could not be asked.

    `skew` is how far the server's clock is before ours, in seconds. `missing`: rights that are not there, as text.
    """

    server: str = ""
    error: str = ""
    is_denied: bool = False
    version: str = ""
    dra_versions: tuple[str, ...] | None = None
    kubelet_version: str = ""
    node: str = ""
    has_node: bool | None = None
    gates: dict[str, bool] = {}
    skew: float | None = None
    missing: tuple[str, ...] | None = None
    claims: frozenset[str] | None = None


async def look_at_cluster(places: Places, clock: Clock) -> Cluster:
    """Asks only; creates nothing but access reviews, which are not stored."""
    access = places.access
    if access is None:
        return Cluster(error=places.no_cluster)
    found = Cluster(server=access.server, node=places.node_name, skew=await clock_skew(access.server, clock))
    try:
        async with Client(access, _OPTIONS) as client:
            version = (await client.server_version()).git_version
            return msgspec.structs.replace(found, version=version, **await _asked(client, access, places))
    except Error as error:
        return msgspec.structs.replace(found, error=str(error), is_denied=isinstance(error, DeniedError))


async def _asked(client: Client, access: ClusterAccess, places: Places) -> dict[str, Any]:
    node, has_node = await _node(client, places.node_name)
    return {
        "dra_versions": await _dra_versions(client),
        "has_node": has_node,
        "kubelet_version": node,
        "gates": await _gates(access, places.node_name) if has_node else {},
        "missing": await _missing(client),
        "claims": await _claims(client),
    }


async def _dra_versions(client: Client) -> tuple[str, ...] | None:
    try:
        group = await client.raw(Request("GET", "/apis/resource.k8s.io"))
    except NotFoundError:
        return ()
    except DeniedError:
        return None
    listed = group.get("versions")
    return (
        tuple(str(one.get("version")) for one in listed if isinstance(one, dict))
        if isinstance(listed, list)
        else ()
    )


async def _node(client: Client, name: str) -> tuple[str, bool | None]:
    if not name:
        return "", None
    try:
        found = await client.raw(Request("GET", f"/api/v1/nodes/{name}"))
    except NotFoundError:
        return "", False
    except DeniedError:
        return "", None
    info = (found.get("status") or {}).get("nodeInfo") or {}
    return str(info.get("kubeletVersion") or ""), True


async def _gates(access: ClusterAccess, node: str) -> dict[str, bool]:
    """As the kubelet's own metrics tell them, through the API server; none without the right nodes/proxy."""
    request = Request("GET", f"/api/v1/nodes/{node}/proxy/metrics", accept="text/plain")
    try:
        async with Transport(access, _OPTIONS) as transport:
            text = (await transport.send(request)).decode(errors="replace")
    except Error:
        return {}
    return read_gates(text)


def read_gates(metrics: str) -> dict[str, bool]:
    """The gates that matter, of what a Kubernetes program's /metrics says."""
    found = {match[1]: match[2] == "1" for match in _GATE.finditer(metrics)}
    return {name: found[name] for name in GATES if name in found}


async def _missing(client: Client) -> tuple[str, ...] | None:
    missing = []
    for verb, group, resource, subresource in RIGHTS:
        asked = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        try:
            answer = await client.raw(Request("POST", path, body=msgspec.json.encode(body)))
        except (DeniedError, NotFoundError):
            return None
        if not (answer.get("status") or {}).get("allowed"):
            missing.append(f"{verb} {resource}{f'/{subresource}' if subresource else ''}")
    return tuple(missing)


async def _claims(client: Client) -> frozenset[str] | None:
    """The UIDs of all, page by page, without what is in them."""
    found: set[str] = set()
    token = ""
    while True:
        page = requests.page(RESOURCE_CLAIMS, limit=PAGE_SIZE, continue_token=token)
        try:
            answer = await client.raw(replace(page, accept=_METADATA))
        except (DeniedError, NotFoundError):
            return None
        items = answer.get("items")
        found.update(str(one["metadata"]["uid"]) for one in items or ())
        token = str((answer.get("metadata") or {}).get("continue") or "")
        if not token:
            return frozenset(found)


async def clock_skew(server: str, clock: Clock) -> float | None:
    """Seconds the server's clock is before ours, by the Date of any answer. Nothing secret is sent and no certificate is
    looked at: with a wrong clock it would not be valid."""
    url = urlsplit(server)
    context = None
    if url.scheme == "https":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    port = url.port or (443 if context else 80)
    try:
        async with asyncio.timeout(_CLOCK_SECONDS):
            reader, writer = await asyncio.open_connection(url.hostname, port, ssl=context)
            try:
                writer.write(
                    f"GET /version HTTP/1.1\r\nHost: {url.netloc}\r\nConnection: close\r\n\r\n".encode()
                )
                head = await reader.readuntil(b"\r\n\r\n")
            finally:
                writer.close()
    except (OSError, ValueError, EOFError, asyncio.LimitOverrunError):
        return None
    return _skew(head.decode("latin-1"), clock.now())


def _skew(head: str, now: datetime) -> float | None:
    for line in head.split("\r\n"):
        name, _, value = line.partition(":")
        if name.lower() == "date":
            try:
                return (parsedate_to_datetime(value.strip()) - now).total_seconds()
            except (ValueError, TypeError):
                return None
    return None
