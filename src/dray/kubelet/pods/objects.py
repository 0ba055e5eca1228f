"""ConfigMaps and Secrets that pods use, read when a container is about to start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dray.api.core import Pod
from dray.api.kinds import CONFIG_MAPS
from dray.client.client import Client
from dray.client.http import Request
from dray.errors import NotFoundError
from dray.kubelet.pods.volumes import decoded

_CONFIG_MAP, _SECRET = "configmap", "secret"
Name = tuple[str, str, str]


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
        try:
            if kind == _CONFIG_MAP:
                return (await self._client.get(CONFIG_MAPS, name, namespace=namespace)).data
            path = f"/api/v1/namespaces/{namespace}/secrets/{name}"
            return decoded((await self._client.raw(Request("GET", path))).get("data") or {})
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
        for source in (volume, *((volume.get("projected") or {}).get("sources") or ())):
            yield from _named(pod, source or {}, {"configMap": _CONFIG_MAP, "secret": _SECRET})


def _named(pod: Pod, source: Mapping[str, Any], kinds: Mapping[str, str]) -> Iterator[Name]:
    for key, kind in kinds.items():
        reference = source.get(key)
        if reference and (name := reference.get("name") or reference.get("secretName")):
            yield kind, pod.metadata.namespace, str(name)
