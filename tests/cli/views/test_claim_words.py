"""What is said about claims and pods in one word or line."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.codec import view
from dray.api.core import Pod
from dray.api.resource import ResourceClaim
from dray.cli.views.claim_words import (
    claim_state,
    classes_of,
    devices_of,
    node_of,
    plugin_resources,
    why_claim_waits,
    why_pod_waits,
)

Json = dict[str, Any]
GOING = "2026-01-01T00:00:00Z"


def claim(status: Json | None = None, requests: list[Json] | None = None, **meta: Any) -> ResourceClaim:
    spec = {"devices": {"requests": requests or [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    return view({"metadata": {"name": "c", **meta}, "spec": spec, "status": status or {}}, ResourceClaim)


def pod(status: Json | None = None, spec: Json | None = None, **meta: Any) -> Pod:
    return view({"metadata": {"name": "p", **meta}, "spec": spec or {}, "status": status or {}}, Pod)


def allocated(*places: tuple[str, str]) -> Json:
    results = [{"request": "r", "driver": "d", "pool": pool, "device": device} for pool, device in places]
    return {"allocation": {"devices": {"results": results}}}


def test_states() -> None:
    given = allocated(("n", "a"))
    assert claim_state(claim()) == "pending"
    assert claim_state(claim(given)) == "allocated"
    assert claim_state(claim({**given, "reservedFor": [{"name": "p"}]})) == "reserved"
    assert claim_state(claim(given, deletionTimestamp=GOING)) == "deleting"


def test_devices_have_their_pool_where_there_are_several() -> None:
    assert devices_of(claim(allocated(("n", "gpu-10"), ("n", "gpu-9")))) == ["gpu-9", "gpu-10"]
    assert devices_of(claim(allocated(("n", "a"), ("m", "a")))) == ["m/a", "n/a"]
    assert devices_of(claim()) == []


def test_an_init_container_uses_the_devices_of_those_after_it() -> None:
    asks = {"resources": {"requests": {"example.com/gpu": "2", "cpu": "1"}}}
    spec = {"initContainers": [{"name": "i", **asks}], "containers": [{"name": "c", **asks}]}
    assert {name: str(amount) for name, amount in plugin_resources(pod(spec=spec)).items()} == {
        "example.com/gpu": "2"
    }


def test_the_node() -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    given = allocated(("n", "a"))
    given["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [term]}
    assert node_of(claim(given), [pod(spec={"nodeName": "m"})]) == "n"
    assert node_of(claim(allocated(("n", "a"))), [pod(), pod(spec={"nodeName": "m"})]) == "m"
    assert node_of(claim()) == ""


def test_alternatives_are_told_together() -> None:
    first = [{"name": "a", "deviceClassName": "big"}, {"name": "b", "deviceClassName": "small"}]
    requests: list[Json] = [
        {"name": "r", "firstAvailable": first},
        {"name": "s", "exactly": {"deviceClassName": "nic"}},
    ]
    assert classes_of(claim(requests=requests).spec) == ["big|small", "nic"]


REFUSED: Json = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}],
}


@pytest.mark.parametrize(
    ("pods", "classes", "why"),
    [
        ([], ["gpu"], "no pod uses it"),
        ([], None, "no pod uses it"),
        ([pod()], ["nic"], "no DeviceClass gpu"),
        ([pod()], ["gpu"], "scheduler default-scheduler has not looked at it yet"),
        ([pod(deletionTimestamp=GOING)], ["gpu"], "no pod uses it"),
        ([pod(REFUSED)], ["gpu"], "0/1 nodes are available"),
    ],
)
def test_why_a_claim_waits(pods: list[Pod], classes: list[str] | None, why: str) -> None:
    assert why_claim_waits(claim(), pods, classes) == why
    assert not why_claim_waits(claim(allocated(("n", "a"))), pods, classes)


def test_why_a_pod_waits() -> None:
    on_node = {"nodeName": "n"}
    creating = {
        "name": "m",
        "state": {"waiting": {"reason": "ContainerCreating", "message": "no driver a.io"}},
    }
    assert (
        why_pod_waits(pod({"phase": "Pending", "containerStatuses": [creating]}, on_node)) == "no driver a.io"
    )
    assert not why_pod_waits(pod({"phase": "Running"}, on_node))
    assert why_pod_waits(pod({"phase": "Failed", "message": "no devices left"}, on_node)) == "no devices left"
