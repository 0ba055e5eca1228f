"""Which kinds there are and where an API server keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote

from dray.api.core import ConfigMap, Event, Lease, Namespace, Node, Pod
from dray.api.meta import Model
from dray.api.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from dray.errors import InvalidError, NotFoundError

T = TypeVar("T", bound=Model)


@dataclass(frozen=True)
class Resource(Generic[T]):
    """A kind with its place in the API; the constants below are all there are. Compare them by identity or value."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    type: type[T]
    has_status: bool = False
    """Whether `/status` is a door of its own: a write through the main door then keeps the old status."""

    @property
    def api_version(self) -> str:
        """As in a document: `v1` or `resource.k8s.io/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The URL path of one object, of a collection, or (namespaced kind, no namespace) of all namespaces' objects."""
        if namespace and not self.namespaced:
            raise InvalidError(f"{self.plural} are not in a namespace; leave out {namespace!r}")
        if self.namespaced and name and not namespace:
            raise InvalidError(f"{self.plural} {name!r}: a namespace is needed to name one")
        if subresource and not name:
            raise InvalidError(f"{self.plural}/{subresource}: a name is needed")
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


PODS: Final = Resource("", "v1", "pods", "Pod", True, Pod, has_status=True)
NODES: Final = Resource("", "v1", "nodes", "Node", False, Node, has_status=True)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", False, Namespace, has_status=True)
EVENTS: Final = Resource("", "v1", "events", "Event", True, Event)
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", True, ConfigMap)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", True, Lease)
RESOURCE_SLICES: Final = Resource(
    "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False, ResourceSlice
)
DEVICE_CLASSES: Final = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False, DeviceClass)
RESOURCE_CLAIMS: Final = Resource(
    "resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True, ResourceClaim, has_status=True
)
RESOURCE_CLAIM_TEMPLATES: Final = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True, ResourceClaimTemplate
)
DEVICE_TAINT_RULES: Final = Resource(
    "resource.k8s.io",
    "v1beta2",
    "devicetaintrules",
    "DeviceTaintRule",
    False,
    DeviceTaintRule,
    has_status=True,
)

ALL_RESOURCES: Final[tuple[Resource[Any], ...]] = (
    PODS,
    NODES,
    NAMESPACES,
    EVENTS,
    CONFIG_MAPS,
    LEASES,
    RESOURCE_SLICES,
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_CLAIM_TEMPLATES,
    DEVICE_TAINT_RULES,
)

_BY_KIND: Final = {(resource.api_version, resource.kind): resource for resource in ALL_RESOURCES}
_BY_PLURAL: Final = {(resource.api_version, resource.plural): resource for resource in ALL_RESOURCES}


def by_kind(api_version: str, kind: str) -> Resource[Any]:
    """The resource a document with this `apiVersion` and `kind` belongs to."""
    found = _BY_KIND.get((api_version, kind))
    if found is None:
        raise InvalidError(f'no matches for kind "{kind}" in version "{api_version}"', field="kind")
    return found


def by_plural(api_version: str, plural: str) -> Resource[Any]:
    """The resource at this place in the API."""
    found = _BY_PLURAL.get((api_version, plural))
    if found is None:
        raise NotFoundError(f'no resource "{plural}" in version "{api_version}"', kind=plural)
    return found
