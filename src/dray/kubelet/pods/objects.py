"""ConfigMaps and Secrets that pods use, read when a container is about to start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from msgspec import field

from dray.api.codec import view
from dray.api.core import Pod
from dray.api.kinds import CONFIG_MAPS
from dray.api.meta import Model
from dray.api.names import dns_subdomain
from dray.client.client import Client
from dray.client.http import Request
from dray.errors import NotFoundError
from dray.kubelet.pods.volumes import decoded

_CONFIG_MAP, _SECRET = "configmap", "secret"
Name = tuple[str, str, str]


class _Secret(Model, frozen=True, kw_only=True):
    data: dict[str, str] = field(default_factory=dict)


class NoObjects:
    """Without an API server there are none."""

    async def fetch(self, pod: Pod) -> None:
        """Nothing to do."""

    def config_map(self, namespace: str, name: str) -> Mapping[str, str] | None:
        """None."""
        return None

    def secret(self, namespace: str, name: str) -> Mapping[str, str] | None:
        """None."""
        return None


class ApiObjects:
    """`fetch` first: it reads what the pod names anew; then the rest answers from memory."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[Name, Mapping[str, str] | None] = {}

    async def fetch(self, pod: Pod) -> None:
        """Errors other than a missing object are raised: the start is tried again."""
        for name in sorted(set(names_of(pod))):
            self._known[name] = await self._read(*name)

    async def _read(self, kind: str, namespace: str, name: str) -> Mapping[str, str] | None:
        if dns_subdomain(name):  # no object can have this name, and it could be another path of the API
            return None
        try:
            if kind == _CONFIG_MAP:
                return (await self._client.get(CONFIG_MAPS, name, namespace=namespace)).data
            path = f"/api/v1/namespaces/{quote(namespace, safe='')}/secrets/{quote(name, safe='')}"
            return decoded(view(await self._client.raw(Request("GET", path)), _Secret).data)
        except NotFoundError:
            return None

    def config_map(self, namespace: str, name: str) -> Mapping[str, str] | None:
        """See `Sources`."""
        return self._known.get((_CONFIG_MAP, namespace, name))

    def secret(self, namespace: str, name: str) -> Mapping[str, str] | None:
        """See `Sources`."""
        return self._known.get((_SECRET, namespace, name))


def names_of(pod: Pod) -> Iterator[Name]:
    """All ConfigMaps and Secrets that a pod's variables and volumes name."""
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        for source in container.env_from:
            yield from _named(pod, source, {"configMapRef": _CONFIG_MAP, "secretRef": _SECRET})
        for variable in container.env:
            found = variable.value_from or {}
            yield from _named(pod, found, {"configMapKeyRef": _CONFIG_MAP, "secretKeyRef": _SECRET})
    for volume in pod.spec.volumes:
        for source in (volume, *_sources(volume.get("projected"))):
            yield from _named(pod, source, {"configMap": _CONFIG_MAP, "secret": _SECRET})


def _sources(projected: Any) -> Sequence[Any]:
    found = projected.get("sources") if isinstance(projected, dict) else None
    return found if isinstance(found, list) else ()


def _named(pod: Pod, source: Any, kinds: Mapping[str, str]) -> Iterator[Name]:
    """A malformed reference is skipped here; it is reported when the volume or variable is made."""
    for key, kind in kinds.items():
        reference = source.get(key) if isinstance(source, dict) else None
        if isinstance(reference, dict):
            name = reference.get("name") or reference.get("secretName")
            if isinstance(name, str):
                yield kind, pod.metadata.namespace, name
