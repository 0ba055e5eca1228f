"""Objects from files as the allocator's inputs: defaulted, checked as an API server would, and found by name."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec

from dray.allocation.cluster.dump_notes import DumpNotes
from dray.allocation.cluster.versions import dicts, is_readable, raise_version
from dray.api.codec.manifest import Manifest
from dray.api.codec.unknown_fields import unknown_fields
from dray.api.core import Event, Node, Pod
from dray.api.defaults import set_defaults
from dray.api.field_errors import Path
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
from dray.api.names import is_extended_resource_name
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
CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""With a class's name: the resource that a pod may ask for to get one of its devices."""
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
    """What the files or a server hold, in their order; nodes by name.

    `has_nodes` is False where slices alone name the nodes; `source` is what messages call the place;
    `has_served_rules` says that a server has taint rules; `notes` name what was found and does not count; `warnings` are
    Events about pods that have their devices and do not start.
    """

    nodes: tuple[Node, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    claims: tuple[ResourceClaim, ...] = ()
    classes: tuple[DeviceClass, ...] = ()
    templates: tuple[ResourceClaimTemplate, ...] = ()
    pods: tuple[Pod, ...] = ()
    taint_rules: tuple[DeviceTaintRule, ...] = ()
    has_nodes: bool = True
    source: str = "the files"
    has_served_rules: bool = False
    notes: tuple[str, ...] = ()
    warnings: tuple[Event, ...] = ()

    def node(self, name: str) -> Node:
        """One node by name. Where slices alone name the nodes, any name will do."""
        for one in self.nodes:
            if one.metadata.name == name:
                return one
        if self.has_nodes:
            raise NotFoundError(f"no Node {name} in {self.source}", kind="Node", name=name)
        return _bare(name)

    def under(self, files: Cluster) -> Cluster:
        """This cluster as it would be with the files' objects in it, new ones last."""
        return replace(
            self,
            nodes=tuple(sorted(_over(self.nodes, files.nodes if files.has_nodes else ()), key=_name)),
            slices=_over(self.slices, files.slices),
            claims=_over(self.claims, files.claims),
            classes=_over(self.classes, files.classes),
            templates=_over(self.templates, files.templates),
            pods=_over(self.pods, files.pods),
            taint_rules=_over(self.taint_rules, files.taint_rules),
            source=f"{self.source} or {files.source}",
            notes=self.notes + files.notes,
        )


def read_cluster(
    manifests: Iterable[Manifest],
    check_selector: CheckSelector | None = None,
    namespace: str = DEFAULT_NAMESPACE,
) -> Cluster:
    """All objects, or one InvalidError with every fault and its file, line and field. Other kinds are passed over.

    Fields that resource.k8s.io does not have are faults, as for kubectl; in an object that a server stored they are newer
    than this program, and a note. Pods that ask for no devices only use up what nodes have: they are not checked.
    """
    reader = _Reader(check_selector, namespace)
    for manifest in manifests:
        reader.add(manifest)
    return reader.cluster()


def read_slices(manifests: Iterable[Manifest]) -> tuple[tuple[ResourceSlice, ...], tuple[str, ...]]:
    """The ResourceSlices alone and notes. Their fields must be known, what is in them is not checked."""
    reader = _Reader(None, DEFAULT_NAMESPACE)
    found = []
    for manifest in manifests:
        resource = reader.resource(manifest)
        if resource is RESOURCE_SLICES and (value := reader.value(manifest, resource)) is not None:
            found.append(value)
    reader.end()
    return tuple(found), tuple(reader.notes.lines())


@dataclass(slots=True)
class _Reader:
    check_selector: CheckSelector | None
    namespace: str
    found: dict[str, list[Any]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    places: dict[tuple[str, str, str], str] = field(default_factory=dict)
    notes: DumpNotes = field(default_factory=lambda: DumpNotes(_READ))

    def add(self, manifest: Manifest) -> None:
        resource = self.resource(manifest)
        if resource is None:
            return
        is_bystander = resource is PODS and not _wants_devices(manifest.raw)
        value = self.value(manifest, resource, is_bystander=is_bystander)
        if value is None:
            return
        for fault in () if is_bystander else self._check(resource, value):
            self._fault(manifest, fault)
        self._note(manifest, value)
        self.found.setdefault(resource.kind, []).append(value)

    def resource(self, manifest: Manifest) -> Resource[Any] | None:
        """What the object is, None where it is not read; a kind that looks like ours is noted then."""
        resource = _READ.get(manifest.kind)
        group = _group(manifest.api_version)
        if resource is not None and group == resource.group:
            return resource
        if resource is not None or group == RESOURCE_SLICES.group or not manifest.kind:
            self.notes.pass_over(manifest)
        return None

    def value(self, manifest: Manifest, resource: Resource[Any], *, is_bystander: bool = False) -> Any:
        """The typed object; None, with a fault, where it cannot be read."""
        if not is_readable(resource, manifest.api_version):
            self._fault(
                manifest,
                f"apiVersion: {manifest.api_version} is not read, {resource.api_version} is: ask a server of "
                f"Kubernetes {'1.36' if resource is DEVICE_TAINT_RULES else '1.34'} or newer with `kubectl get {resource.plural}.{resource.version}.{resource.group} "
                "-A -o yaml`, or use `kubectl convert`",
            )
            return None
        raw = _current(manifest, resource, self.namespace)
        if resource.group == RESOURCE_SLICES.group:
            self._check_names(manifest, resource, raw)
        try:
            return Manifest(raw, manifest.source).view(resource.type)
        except InvalidError as error:
            if not is_bystander:
                self.faults.append(str(error))
            return None

    def _check_names(self, manifest: Manifest, resource: Resource[Any], raw: dict[str, Any]) -> None:
        """A server drops what it does not know, so what it stored was not mistyped."""
        is_stored = bool(_child(raw, "metadata").get("uid"))
        for fault in unknown_fields(raw, resource.type, Path()):
            if is_stored:
                self.notes.leave_out(manifest, fault)
            else:
                self._fault(manifest, str(fault))

    def _check(self, resource: Resource[Any], value: Any) -> Iterator[str]:
        yield from map(str, validate(resource, value, check_selector=self.check_selector))
        if isinstance(value, ResourceClaim) and value.status != ResourceClaimStatus():
            changed = msgspec.structs.replace
            stored = changed(value, metadata=changed(value.metadata, resource_version=_STORED))
            bare = changed(stored, status=ResourceClaimStatus())
            yield from map(str, validate_status(RESOURCE_CLAIMS, stored, bare))

    def _note(self, manifest: Manifest, value: Any) -> None:
        key = (manifest.kind, value.metadata.namespace, value.metadata.name)
        if key in self.places:
            self._fault(manifest, f"metadata.name: it is there twice, first in {self.places[key]}")
        self.places[key] = manifest.source

    def _fault(self, manifest: Manifest, text: str) -> None:
        place = f"{manifest.source}: " if manifest.source else ""
        self.faults.append(f"{place}{manifest}: {text}")

    def end(self) -> None:
        """Raise all faults, if there are any."""
        if self.faults:
            raise InvalidError(
                self.faults[0]
                if len(self.faults) == 1
                else f"{len(self.faults)} faults: {self.faults[0]}, …",
                field=self.faults[0].split(": ")[0],
                causes=tuple(self.faults),
            )

    def cluster(self) -> Cluster:
        self.end()
        nodes, slices = self._of(NODES), self._of(RESOURCE_SLICES)
        shown = nodes or tuple(_bare(name) for name in _named_nodes(slices))
        return Cluster(
            nodes=tuple(sorted(shown, key=_name)),
            slices=slices,
            claims=self._of(RESOURCE_CLAIMS),
            classes=self._of(DEVICE_CLASSES),
            templates=self._of(RESOURCE_CLAIM_TEMPLATES),
            pods=self._of(PODS),
            taint_rules=self._of(DEVICE_TAINT_RULES),
            has_nodes=bool(nodes),
            notes=tuple(self.notes.lines()),
        )

    def _of(self, resource: Resource[T]) -> tuple[T, ...]:
        return tuple(self.found.get(resource.kind, ()))


def _current(manifest: Manifest, resource: Resource[Any], namespace: str) -> dict[str, Any]:
    """A copy of the document in the version that is read, with a server's defaults."""
    raw = copy.deepcopy(manifest.raw)
    raise_version(resource, raw)
    metadata = raw.get("metadata")
    if resource.namespaced and isinstance(metadata, dict) and not metadata.get("namespace"):
        metadata["namespace"] = namespace
    set_defaults(resource, raw, _LONG_AGO)
    return raw


def _wants_devices(raw: dict[str, Any]) -> bool:
    """Whether a pod has claims, or asks for a resource that is not a machine's own."""
    spec = raw.get("spec")
    if not isinstance(spec, dict):
        return True
    if spec.get("resourceClaims"):
        return True
    containers = (*dicts(spec.get("containers")), *dicts(spec.get("initContainers")))
    lists = (_child(_child(one, "resources"), key) for one in containers for key in ("requests", "limits"))
    return any(is_device_resource(name) for names in lists for name in names)


def _child(value: dict[str, Any], key: str) -> dict[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


@lru_cache(maxsize=1024)
def is_device_resource(name: str) -> bool:
    """Whether device plugins, or devices of a class, serve a resource of this name."""
    return "/" in name and (name.startswith(CLASS_PREFIX) or is_extended_resource_name(name))


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _over(below: Iterable[T], above: Iterable[T]) -> tuple[T, ...]:
    return tuple((by_name(below) | by_name(above)).values())


def _name(node: Node) -> str:
    return node.metadata.name


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
