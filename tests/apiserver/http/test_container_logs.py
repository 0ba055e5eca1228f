from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dray.apiserver.http.container_logs import choose_container, log_request
from dray.apiserver.writing.faults import BadRequestError
from tests.apiserver.http.asking import PODS, asking

TWO = {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "first"}]}


def pod(spec: dict[str, Any], default: str = "") -> dict[str, Any]:
    marked = {"kubectl.kubernetes.io/default-container": default}
    return {"metadata": {"name": "web", "annotations": marked}, "spec": spec}


def test_the_path_of_a_log() -> None:
    asked = log_request("/api/v1/namespaces/a%2db/pods/web/log")
    assert asked is not None
    assert (asked.verb, asked.door, asked.namespace, asked.name) == ("get", "pods/log", "a-b", "web")
    for path in (
        "/api/v1/pods/web/log",
        "/api/v1/namespaces/a/pods/web",
        "/apis/v1/namespaces/a/pods/web/log",
    ):
        assert log_request(path) is None


def test_which_container_is_meant() -> None:
    assert choose_container(pod({"containers": [{"name": "a"}]}), "") == "a"
    assert choose_container(pod(TWO), "first") == "first"
    assert choose_container(pod(TWO, default="b"), "") == "b"


def test_refusals_in_the_words_of_kubernetes() -> None:
    with pytest.raises(BadRequestError) as several:
        choose_container(pod(TWO), "")
    assert str(several.value) == (
        "a container name must be specified for pod web, choose one of: [a b] or one of the init containers: [first]"
    )
    with pytest.raises(BadRequestError) as unknown:
        choose_container(pod(TWO), "c")
    assert str(unknown.value).startswith("container c is not valid for pod web")


async def test_without_kubelets_to_ask_there_is_no_such_door(tmp_path: Path) -> None:
    async with asking(tmp_path) as api:
        code, told = await api.ask("GET", f"{PODS}/web/log")
        assert (code, told["reason"]) == (404, "NotFound")
