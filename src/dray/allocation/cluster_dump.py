"""Objects from files as the allocator's inputs: defaulted, checked as an API server would, and found by name."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import msgspec

from dray.api.codec.manifest import Manifest
from dray.api.core import Node, Pod
from dray.api.defaults import set_defaults
from dray.api.kinds import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dray.api.meta import Model, ObjectMeta
from dray.api.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from dray.api.resource.claim_status import ResourceClaimStatus
from dray.api.validation import CheckSelector, validate, validate_status
from dray.errors import InvalidError, NotFoundError

DEFAULT_NAMESPACE: Final = "default"
_READ: Final[dict[str, Resource[Any]]] = {
    one.kind: one
    for one in (
        NODES,
        PODS,
        RESOURCE_SLICES,
        DEVICE_CLASSES,
        RESOURCE_CLAIMS,
        RESOURCE_CLAIM_TEMPLATES,
        DEVICE_TAINT_RULES,
    )
}
_STORED: Final = "1"
"""Files written by hand have no resourceVersion; a status is only ever written to what has one."""
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""Dates taints that have no date; no decision here depends on it."""

T = TypeVar("T", bound=Model)


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the files hold, in their order; nodes by name. `has_nodes` is False where slices alone name the nodes."""

    nodes: tuple[Node, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    claims: tuple[ResourceClaim, ...] = ()
    classes: tuple[DeviceClass, ...] = ()
    templates: tuple[ResourceClaimTemplate, ...] = ()
    pods: tuple[Pod, ...] = ()
    taint_rules: tuple[DeviceTaintRule, ...] = ()
    has_nodes: bool = True

    def node(self, name: str) -> Node:
        """One node by name. Where slices alone name the nodes, any name will do."""
        for one in self.nodes:
            if one.metadata.name == name:
                return one
        if self.has_nodes:
            raise NotFoundError(f"no Node {name} in the files", kind="Node", name=name)
        return _bare(name)


def read_cluster(manifests: Iterable[Manifest], check_selector: CheckSelector | None = None) -> Cluster:
    """All objects, or one InvalidError with every fault and its file, line and field. Other kinds, and pods without claims, are passed over."""
    reader = _Reader(check_selector)
    for manifest in manifests:
        reader.add(manifest)
    return reader.cluster()


@dataclass(slots=True)
class _Reader:
    check_selector: CheckSelector | None
    found: dict[str, list[Any]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    places: dict[tuple[str, str, str], str] = field(default_factory=dict)

    def add(self, manifest: Manifest) -> None:
        resource = _READ.get(manifest.kind)
        if resource is None or _group(manifest.api_version) != resource.group or _has_no_claims(manifest):
            return
        if manifest.api_version != resource.api_version:
            self._fault(
                manifest,
                f"apiVersion: {manifest.api_version} is not read, {resource.api_version} is: ask the server with "
                f"`kubectl get {resource.plural}.{resource.version}.{resource.group}`",
            )
            return
        try:
            value = _view(manifest, resource)
        except InvalidError as error:
            self.faults.append(str(error))
            return
        for fault in self._check(resource, value):
            self._fault(manifest, fault)
        self._note(manifest, value)
        self.found.setdefault(resource.kind, []).append(value)

    def _check(self, resource: Resource[Any], value: Any) -> Iterator[str]:
        yield from map(str, validate(resource, value, check_selector=self.check_selector))
        if isinstance(value, ResourceClaim) and value.status != ResourceClaimStatus():
            replace = msgspec.structs.replace
            stored = replace(value, metadata=replace(value.metadata, resource_version=_STORED))
            bare = replace(stored, status=ResourceClaimStatus())
            yield from map(str, validate_status(RESOURCE_CLAIMS, stored, bare))

    def _note(self, manifest: Manifest, value: Any) -> None:
        key = (manifest.kind, value.metadata.namespace, value.metadata.name)
        if key in self.places:
            self._fault(manifest, f"metadata.name: it is there twice, first in {self.places[key]}")
        self.places[key] = manifest.source

    def _fault(self, manifest: Manifest, text: str) -> None:
        place = f"{manifest.source}: " if manifest.source else ""
        self.faults.append(f"{place}{manifest}: {text}")

    def cluster(self) -> Cluster:
        if self.faults:
            raise InvalidError(
                self.faults[0]
                if len(self.faults) == 1
                else f"{len(self.faults)} faults: {self.faults[0]}, …",
                field=self.faults[0].split(": ")[0],
                causes=tuple(self.faults),
            )
        nodes, slices = self._of(NODES), self._of(RESOURCE_SLICES)
        shown = nodes or tuple(_bare(name) for name in _named_nodes(slices))
        return Cluster(
            nodes=tuple(sorted(shown, key=lambda node: node.metadata.name)),
            slices=slices,
            claims=self._of(RESOURCE_CLAIMS),
            classes=self._of(DEVICE_CLASSES),
            templates=self._of(RESOURCE_CLAIM_TEMPLATES),
            pods=self._of(PODS),
            taint_rules=self._of(DEVICE_TAINT_RULES),
            has_nodes=bool(nodes),
        )

    def _of(self, resource: Resource[T]) -> tuple[T, ...]:
        return tuple(self.found.get(resource.kind, ()))


def _view(manifest: Manifest, resource: Resource[Any]) -> Any:
    raw = copy.deepcopy(manifest.raw)
    metadata = raw.get("metadata")
    if resource.namespaced and isinstance(metadata, dict) and not metadata.get("namespace"):
        metadata["namespace"] = DEFAULT_NAMESPACE
    set_defaults(resource, raw, _LONG_AGO)
    return Manifest(raw, manifest.source).view(resource.type)


def _has_no_claims(manifest: Manifest) -> bool:
    """Most pods of a cluster want no devices, and nothing about them matters here."""
    spec = manifest.raw.get("spec")
    return manifest.kind == PODS.kind and isinstance(spec, dict) and not spec.get("resourceClaims")


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _bare(name: str) -> Node:
    return Node(metadata=ObjectMeta(name=name))


def _named_nodes(slices: Iterable[ResourceSlice]) -> set[str]:
    names = set[str]()
    for one in slices:
        names |= {one.spec.node_name or "", *(device.node_name or "" for device in one.spec.devices or ())}
    return names - {""}


def by_name(objects: Iterable[Any]) -> dict[tuple[str, str], Any]:
    """Objects by namespace and name."""
    return {(one.metadata.namespace, one.metadata.name): one for one in objects}
