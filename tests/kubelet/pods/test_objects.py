from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from dray.api.codec import view
from dray.api.core import Pod
from dray.client.http import Request
from dray.errors import InvalidError, NotFoundError
from dray.kubelet.pods.objects import ApiObjects, names_of

SECRET = "czNjcjN0"


class Server:
    """What an API server has of Secrets: one, with the data that is given."""

    def __init__(self, data: object) -> None:
        self.paths: list[str] = []
        self._data = data

    async def raw(self, request: Request) -> dict[str, Any]:
        self.paths.append(request.path)
        if request.path != "/api/v1/namespaces/ns/secrets/s":
            raise NotFoundError("there is none")
        return {"data": self._data}


def pod(*volumes: object, container: dict[str, Any] | None = None) -> Pod:
    document = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u1"},
        "spec": {"volumes": list(volumes), "containers": [{"name": "c", **(container or {})}]},
    }
    return view(document, Pod)


def secret(name: object) -> dict[str, Any]:
    return {"name": "v", "secret": {"secretName": name}}


def objects(server: Server) -> ApiObjects:
    return ApiObjects(cast("Any", server))


async def test_a_secret_is_read() -> None:
    server = Server({"k": SECRET})
    found = objects(server)
    await found.fetch(pod(secret("s")))
    assert found.secret("ns", "s") == {"k": "s3cr3t"}


@pytest.mark.parametrize(
    "name", ["../secrets/s", "..", "s/../s", "s?x=y", "s#x", "%73", "S", "s\0", "x" * 300]
)
async def test_a_name_is_no_path(name: str) -> None:
    """It is read by the rights of the node, so it must not lead to another object of the API."""
    server = Server({"k": SECRET})
    found = objects(server)
    await found.fetch(pod(secret(name)))
    assert found.secret("ns", name) is None
    assert server.paths == []


@pytest.mark.parametrize("data", [[1], {"k": 5}, {"k": "x"}])
async def test_a_secret_of_another_form(data: object) -> None:
    with pytest.raises(InvalidError):
        await objects(Server(data)).fetch(pod(secret("s")))


@pytest.mark.parametrize(
    "volume",
    [
        {"projected": "x"},
        {"projected": {"sources": 5}},
        {"projected": {"sources": ["x", None, {"secret": "x"}, {"configMap": {"name": 7}}]}},
        {"secret": "s"},
        {"secret": {"secretName": ["s"]}},
    ],
)
def test_what_is_no_reference_names_nothing(volume: dict[str, Any]) -> None:
    """Who makes the volume says what is wrong with it."""
    env: Sequence[object] = [{"name": "A", "valueFrom": {"secretKeyRef": "s"}}]
    container = {"env": env, "envFrom": [{"configMapRef": "cm"}]}
    assert list(names_of(pod({"name": "v", **volume}, container=container))) == []
