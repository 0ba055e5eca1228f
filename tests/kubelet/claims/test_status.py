from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from dray.api.core import Pod
from dray.api.core.container import (
    Container,
    ContainerClaim,
    ResourceHealth,
    ResourceRequirements,
    ResourceStatus,
)
from dray.api.core.pod import PodResourceClaim, PodResourceClaimStatus
from dray.kubelet.claims.claim_info import ClaimDevice, ClaimInfo
from dray.kubelet.claims.health_record import DeviceHealth
from dray.kubelet.claims.status import allocated_status
from tests.kubelet.claims.world import direct, pod_of

WORDS = {"sick": "Unhealthy", "new": "Unknown"}
TEMPLATE = PodResourceClaim(name="c", resource_claim_template_name="t")


def health(driver: str, pool: str, device: str) -> DeviceHealth:
    message = "hot" if device == "sick" else ""
    word = WORDS.get(device, "Healthy")
    return DeviceHealth(pool, device, word, datetime(2030, 1, 1, tzinfo=UTC), message=message)


def shown(pod: Pod, *devices: ClaimDevice, name: str = "C") -> dict[str, list[tuple[str, str]]]:
    claim = ClaimInfo("ns", name, "u", drivers={"a.io": devices})
    found = allocated_status(
        pod,
        pod.spec.containers[0],
        lambda namespace, wanted: claim if (namespace, wanted) == claim.key else None,
        health,
    )
    return {status.name: [(one.resource_id, one.health) for one in status.resources] for status in found}


GOOD = ClaimDevice("p", "good", None, ("req",), ("v/c=good", "v/c=more"))
SICK = ClaimDevice("p", "sick", "share", ("other",), ())


def test_a_direct_and_renamed_claim() -> None:
    pod = pod_of("pod", direct("c", "C"), uses=[("c", "")])
    assert shown(pod, GOOD, SICK) == {"claim:c": [("v/c=good", "Healthy"), ("a.io/p/sick", "Unhealthy")]}


def test_a_claim_from_a_template() -> None:
    status = PodResourceClaimStatus(name="c", resource_claim_name="C")
    pod = pod_of("pod", TEMPLATE, uses=[("c", "")], statuses=[status])
    assert shown(pod, GOOD) == {"claim:c": [("v/c=good", "Healthy")]}


def test_what_the_status_says_of_a_direct_claim_does_not_count() -> None:
    status = PodResourceClaimStatus(name="c", resource_claim_name="X")
    pod = pod_of("pod", direct("c", "C"), uses=[("c", "")], statuses=[status])
    assert shown(pod, GOOD) == {"claim:c": [("v/c=good", "Healthy")]}


def test_each_claim_has_the_name_that_the_status_says_of_it() -> None:
    statuses = [
        PodResourceClaimStatus(name="another", resource_claim_name="X"),
        PodResourceClaimStatus(name=str(b"c", "ascii"), resource_claim_name="C"),
    ]
    pod = pod_of("pod", TEMPLATE, uses=[("c", "")], statuses=statuses)
    assert shown(pod, GOOD) == {"claim:c": [("v/c=good", "Healthy")]}


def test_a_container_is_found_by_its_name_not_by_its_identity() -> None:
    pod = pod_of("pod", direct("c", "C"), uses=[("c", "")])
    again = msgspec.structs.replace(pod.spec.containers[0], name=str(b"main", "ascii"))
    claim = ClaimInfo("ns", "C", "u", drivers={"a.io": (GOOD,)})
    assert allocated_status(pod, again, lambda namespace, name: claim, health)


@pytest.mark.parametrize(
    ("request_name", "ids"),
    [
        ("req", ["v/c=good", "v/c=any"]),
        ("req/sub", ["v/c=good", "v/c=any"]),
        ("other", ["a.io/p/sick", "v/c=any"]),
        ("none", ["v/c=any"]),
    ],
)
def test_one_request(request_name: str, ids: list[str]) -> None:
    pod = pod_of("pod", direct("c", "C"), uses=[("c", request_name)])
    (found,) = shown(pod, GOOD, SICK, ClaimDevice("p", "any", None, (), ("v/c=any",))).items()
    assert found[0] == f"claim:c/{request_name}"
    assert [name for name, _ in found[1]] == ids


def test_several_requests_of_one_claim() -> None:
    pod = pod_of("pod", direct("c", "C"), uses=[("c", "req"), ("c", "other")])
    assert list(shown(pod, GOOD, SICK)) == ["claim:c/req", "claim:c/other"]


def test_one_id_is_told_once() -> None:
    pod = pod_of("pod", direct("c", "C"), uses=[("c", "")])
    alike = ClaimDevice("p", "sick", None, (), GOOD.cdi_ids)
    assert shown(pod, GOOD, alike) == {"claim:c": [("v/c=good", "Healthy")]}


def test_what_is_left_out() -> None:
    pod = pod_of("pod", direct("c", "C"), uses=[("c", "")])
    assert shown(pod) == {}, "no devices"
    assert shown(pod, GOOD, name="X") == {}, "not known here"
    assert shown(pod_of("pod", TEMPLATE, uses=[("c", "")]), GOOD) == {}, "not made yet"
    assert shown(pod_of("pod", uses=[("c", "")]), GOOD) == {}, "not a claim of the pod"


def test_only_app_containers() -> None:
    pod = pod_of("pod", direct("c", "C"))
    used = ResourceRequirements(claims=(ContainerClaim(name="c"),))
    claim = ClaimInfo("ns", "C", "u", drivers={"a.io": (GOOD,)})
    init = Container(name="init", resources=used)
    assert allocated_status(pod, init, lambda namespace, name: claim, health) == ()


def test_the_message() -> None:
    pod = pod_of("pod", direct("c", "C"), uses=[("c", "")])
    claim = ClaimInfo("ns", "C", "u", drivers={"a.io": (SICK, GOOD)})
    assert allocated_status(pod, pod.spec.containers[0], lambda namespace, name: claim, health) == (
        ResourceStatus(
            name="claim:c",
            resources=(
                ResourceHealth(resource_id="a.io/p/sick", health="Unhealthy", message="hot"),
                ResourceHealth(resource_id="v/c=good", health="Healthy"),
            ),
        ),
    )
