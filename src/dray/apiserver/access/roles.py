"""Whether somebody may do something: admin, node, read-only. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dray.apiserver.access.identity import ANONYMOUS, Identity
from dray.errors import DeniedError

Document = Mapping[str, Any]
READS = ("get", "list", "watch")
_OPEN_PATHS = ("/healthz", "/livez", "/readyz", "/version")
_SHARED_PATHS = ("/api", "/apis", "/openapi")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request wants. `resource` as the store names it: `resourceclaims.resource.k8s.io`."""

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    fields: Mapping[str, str] | None = None
    """The field selector's terms that must be equal, where it is a list."""

    @property
    def door(self) -> str:
        """The resource with its subresource."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Cluster(Protocol):
    """What the rules about nodes must know. Asked inside the transaction for writes, so it is as new as can be."""

    def pods_of(self, node: str) -> Iterable[Document]:
        """The pods bound to it."""
        ...

    def publishers_of(self, driver: str, pool: str) -> Collection[str]:
        """The nodes of which the pool has slices; "" stands for slices of no single node."""
        ...

    def get(self, resource: str, namespace: str, name: str) -> Document | None:
        """One object."""
        ...


def is_open(path: str) -> bool:
    """Whether it is answered without a token: whether the server lives, and which version it is."""
    return path in _OPEN_PATHS or path.startswith(tuple(f"{one}/" for one in _OPEN_PATHS))


def check_path(identity: Identity, path: str) -> None:
    """For what is no resource. Whether the server lives is for everybody, what it serves for all it knows."""
    if is_open(path):
        return
    known = identity != ANONYMOUS
    if identity.is_admin or identity.is_reader:
        return
    if known and (path in _SHARED_PATHS or path.startswith(tuple(f"{one}/" for one in _SHARED_PATHS))):
        return
    raise DeniedError(
        f'forbidden: User "{identity.name}" cannot get path "{path}"', who=identity.name, what=path
    )


def denied(identity: Identity, asked: Asked, why: str = "") -> DeniedError:
    """In the words of an API server."""
    plural, _, group = asked.resource.partition(".")
    shown = f"{asked.resource} " + (f'"{asked.name}" ' if asked.name else "")
    door = f"{plural}/{asked.subresource}" if asked.subresource else plural
    where = f' in the namespace "{asked.namespace}"' if asked.namespace else " at the cluster scope"
    text = f'{shown}is forbidden: User "{identity.name}" cannot {asked.verb} resource "{door}" in API group "{group}"{where}'
    return DeniedError(
        f"{text}: {why}" if why else text, who=identity.name, what=f"{asked.verb} {asked.door}"
    )
