"""The objects of a live cluster, read and never written: what `dray explain` and its like decide on without files."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from dray.allocation.cluster.cluster_dump import Cluster
from dray.allocation.cluster.versions import raise_version
from dray.allocation.cluster.workloads import is_starting
from dray.api.codec import Manifest, view
from dray.api.core import Event
from dray.api.kinds import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    EVENTS,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dray.api.meta import Model
from dray.api.resource import DeviceTaintRule
from dray.cli.cluster import Say
from dray.cli.views.objects import list_raw
from dray.client.access import ClusterAccess
from dray.client.client import Client, Listing, ServerVersion
from dray.client.http import Request
from dray.client.requests import ALL, Selection
from dray.errors import DeniedError, InvalidError, NotFoundError

_VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
"""Of resource.k8s.io, the best first. Servers before 1.34 have no v1."""
_RULE_VERSIONS: Final = ("v1", "v1beta2")

T = TypeVar("T", bound=Model)


@dataclass(frozen=True, slots=True)
class Live:
    """What was read. `namespace` is the context's own; `notes` say what could not be read and what that means."""

    cluster: Cluster
    server: str
    version: ServerVersion
    namespace: str
    notes: tuple[str, ...] = ()


async def read_live(access: ClusterAccess, namespace: str | None, say: Say) -> Live:
    """One list of each kind, in pages. Lists are of different moments, so a claim may be newer than its slices."""
    async with Client(access) as client:
        say(f"asking {access.server} for its version")
        version = await client.server_version()
        reader = _Reader(client, namespace or access.namespace, say)
        cluster = await reader.cluster()
    return Live(cluster, access.server, version, namespace or access.namespace, tuple(reader.notes))


@dataclass(slots=True)
class _Reader:
    client: Client
    namespace: str
    say: Say
    notes: list[str] = field(default_factory=list)
    version: str = ""

    async def cluster(self) -> Cluster:
        self.version = await self._served()
        found = Cluster(
            nodes=tuple(sorted(await self._list(NODES), key=lambda node: node.metadata.name)),
            slices=await self._list(RESOURCE_SLICES),
            claims=await self._list(RESOURCE_CLAIMS),
            classes=await self._list(DEVICE_CLASSES),
            templates=await self._at_least_here(
                RESOURCE_CLAIM_TEMPLATES, "so pods of others may be said to lack theirs"
            ),
            pods=await self._at_least_here(PODS, "so what pods of others take from nodes is not counted"),
            taint_rules=await self._taint_rules(),
            source="the cluster",
        )
        is_any_starting = any(map(is_starting, found.pods))
        return replace(
            found,
            has_served_rules=bool(found.taint_rules),
            warnings=await self._warnings() if is_any_starting else (),
        )

    async def _warnings(self) -> tuple[Event, ...]:
        """Those about pods; none where they may not be read: then pods' own statuses must do."""
        try:
            return await self._at_least_here(
                EVENTS,
                "so what happened to pods of others is not told",
                "involvedObject.kind=Pod,type=Warning",
            )
        except DeniedError as error:
            self.notes.append(f"may not list events, so why pods do not start may be missing: {error}")
            return ()

    async def _served(self) -> str:
        """The version of resource.k8s.io to read."""
        try:
            group = await self.client.raw(Request("GET", "/apis/resource.k8s.io"))
        except NotFoundError:
            group = {}
        listed = group.get("versions")
        entries = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        served = {one.get("version") for one in entries}
        for version in _VERSIONS:
            if version in served:
                return version
        raise InvalidError(
            f"the server serves none of resource.k8s.io/{', '.join(_VERSIONS)}: it is older than Kubernetes 1.32, or "
            "dynamic resource allocation is off there",
            field="resource.k8s.io",
        )

    async def _list(self, resource: Resource[T], selection: Selection = ALL) -> tuple[T, ...]:
        """All of them; an object that cannot be read is left out and named."""
        self.say(f"reading {resource}")
        try:
            if resource.group == RESOURCE_SLICES.group and self.version != RESOURCE_SLICES.version:
                return await self._list_older(resource, selection)
            found = await self.client.list(resource, selection)
        except DeniedError as error:
            if not error.authenticated:
                raise
            where = f"in namespace {selection.namespace}" if selection.namespace else "cluster-wide"
            raise DeniedError(
                f"may not list {resource} {where}; ask for a role with the verb list on it: {error}"
            ) from error
        return self._readable(resource, found)

    def _readable(self, resource: Resource[T], found: Listing[T]) -> tuple[T, ...]:
        for one in found.unreadable:
            self._left_out(resource, "/".join(filter(None, one.key)), one.reason)
        return found.items

    async def _list_older(self, resource: Resource[T], selection: Selection) -> tuple[T, ...]:
        """Objects of a beta version, with their fields moved to where v1 has them."""
        older = replace(resource, version=self.version)
        found = []
        for raw in await list_raw(self.client, older, selection):
            raise_version(resource, raw)
            try:
                found.append(view(raw, resource.type))
            except InvalidError as error:
                self._left_out(resource, Manifest(raw).name, str(error))
        return tuple(found)

    async def _at_least_here(self, resource: Resource[T], otherwise: str, fields: str = "") -> tuple[T, ...]:
        """Of all namespaces; with the right for one namespace only, of that one, and a note."""
        try:
            return await self._list(resource, Selection(fields=fields))
        except DeniedError as error:
            if not error.authenticated:
                raise
            found = await self._list(resource, Selection(namespace=self.namespace, fields=fields))
            self.notes.append(
                f"may not list {resource} cluster-wide; only those of namespace {self.namespace} were read, {otherwise}"
            )
            return found

    async def _taint_rules(self) -> tuple[DeviceTaintRule, ...]:
        """None where the server has no such kind: then there are no rules either."""
        for version in _RULE_VERSIONS:
            resource = replace(DEVICE_TAINT_RULES, version=version)
            self.say(f"reading {resource}")
            try:
                found = await self.client.list(resource)
            except NotFoundError:
                continue
            except DeniedError as error:
                if not error.authenticated:
                    raise
                self.notes.append(
                    f"may not list {resource}, so the taints of such rules do not count: {error}"
                )
                break
            return self._readable(resource, found)
        return ()

    def _left_out(self, resource: Resource[Any], name: str, reason: str) -> None:
        self.notes.append(f"{resource.kind} {name} cannot be read and is left out: {reason}")
