from __future__ import annotations

from typing import Any

import pytest

from dray.api.codec import view
from dray.api.core import Pod
from dray.semantics.requests import is_pod_level, needed_at_once, pod_requests

GPU = "example.com/gpu"
Json = dict[str, Any]


def container(amount: int, *, stays: bool = False, kind: str = "requests") -> Json:
    policy = {"restartPolicy": "Always"} if stays else {}
    return {"name": "c", "resources": {kind: {GPU: str(amount)}}, **policy}


def pod(*containers: Json, inits: list[Json] | None = None, **spec: Any) -> Pod:
    return view({"spec": {"containers": list(containers), "initContainers": inits or [], **spec}}, Pod)


def shown(one: Pod) -> dict[str, str]:
    return {name: str(amount) for name, amount in pod_requests(one).items()}


@pytest.mark.parametrize(
    ("init", "main", "total"),
    [
        ([], [1, 2], 3),
        ([(5, False)], [1, 2], 5),
        ([(5, False), (4, False)], [9], 9),
        ([(4, False), (2, False)], [1], 4),
        ([(2, True)], [1, 2], 5),
        ([(2, True), (4, False)], [1], 6),
        ([(1, True), (2, False)], [1], 3),
        ([(4, False), (2, True)], [1], 4),
        ([(2, False), (1, True)], [1], 2),
        ([(1, True), (1, True), (3, False)], [2], 5),
        ([(3, False), (1, True), (2, True)], [1], 4),
    ],
)
def test_init_containers_run_one_by_one_and_sidecars_stay(
    init: list[tuple[int, bool]], main: list[int], total: int
) -> None:
    inits = [container(amount, stays=stays) for amount, stays in init]
    one = pod(*map(container, main), inits=inits)
    assert shown(one) == {GPU: str(total)}
    assert needed_at_once(one, lambda each: {"n": each.resources.requests[GPU].value()}) == {"n": total}


def test_a_limit_is_no_request() -> None:
    """Where it stands for one, defaulting has written the request."""
    assert shown(pod(container(2, kind="limits"))) == {}


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        ({"overhead": {"cpu": "250m"}}, {GPU: "1", "cpu": "250m"}),
        ({"resources": {"requests": {"cpu": "7", GPU: "99"}}}, {GPU: "1", "cpu": "7"}),
        ({"resources": {"limits": {"cpu": "7"}}}, {GPU: "1"}),
        (
            {"resources": {"requests": {"cpu": "2", "memory": "1Gi"}}, "overhead": {"cpu": "100m"}},
            {GPU: "1", "cpu": "2100m", "memory": "1Gi"},
        ),
        ({"resources": {"requests": {"hugepages-2Mi": "4Mi"}}}, {GPU: "1", "hugepages-2Mi": "4Mi"}),
        ({"overhead": {GPU: "1"}}, {GPU: "2"}),
    ],
)
def test_the_pod_as_a_whole(spec: Json, requests: dict[str, str]) -> None:
    assert shown(pod(container(1), **spec)) == requests


def test_requests_of_the_whole_pod_stand_for_those_of_its_containers() -> None:
    parts = [{"name": name, "resources": {"requests": {"cpu": "3"}}} for name in "ab"]
    assert shown(pod(*parts)) == {"cpu": "6"}
    assert shown(pod(*parts, resources={"requests": {"cpu": "4"}})) == {"cpu": "4"}


@pytest.mark.parametrize(
    ("resource", "answer"),
    [
        ("cpu", True),
        ("memory", True),
        ("hugepages-1Gi", True),
        ("cpus", False),
        ("memory-x", False),
        (GPU, False),
    ],
)
def test_what_a_pod_may_request_as_a_whole(resource: str, answer: bool) -> None:
    assert is_pod_level(resource) is answer
