from __future__ import annotations

import msgspec
import pytest

from dray.api.core import Pod
from dray.api.core.container import Container
from dray.api.core.pod import ContainerExtendedResourceRequest, PodExtendedResourceClaimStatus, PodStatus
from dray.kubelet.devices.requests import all_containers, container_limits, handing_on, pod_limits
from tests.kubelet.devices.small_node import container, pod_of


def ask(gpu: int, nic: int | None = None, policy: str | None = None) -> Container:
    counts = {"gpu": gpu} | ({} if nic is None else {"nic": nic})
    return container(f"c{gpu}{nic}{policy}", policy, **counts)


@pytest.mark.parametrize(
    ("init", "apps", "expected"),
    [
        ([], [], {}),
        ([ask(2)], [], {"gpu": 2}),
        ([ask(0)], [], {"gpu": 0}),
        ([], [ask(0)], {"gpu": 0}),
        ([ask(2), ask(4)], [], {"gpu": 4}),
        ([], [ask(2)], {"gpu": 2}),
        ([ask(2, 2), ask(2, 2)], [ask(1, 1), ask(1, 1)], {"gpu": 2, "nic": 2}),
        ([ask(2, 1), ask(3, 2)], [ask(1, 1), ask(1)], {"gpu": 3, "nic": 2}),
        ([ask(2, 1), ask(2, 1)], [ask(3, 2), ask(3, 2)], {"gpu": 6, "nic": 4}),
        ([ask(1, policy="Always"), ask(3)], [ask(2)], {"gpu": 4}),
        ([ask(3), ask(1, policy="Always"), ask(2, policy="Always")], [ask(1)], {"gpu": 4}),
    ],
)
def test_what_a_pod_needs_at_once(
    init: list[Container], apps: list[Container], expected: dict[str, int]
) -> None:
    assert pod_limits(pod_of("pod", *apps, init=init)) == expected


def backed(pod: Pod, name: str, resource: str) -> Pod:
    mapping = ContainerExtendedResourceRequest(container_name=name, resource_name=resource, request_name="r")
    claim = PodExtendedResourceClaimStatus(request_mappings=(mapping,), resource_claim_name="claim")
    return msgspec.structs.replace(pod, status=PodStatus(extended_resource_claim_status=claim))


def test_what_a_claim_serves_is_left_out() -> None:
    one, two = container("one", gpu=1, nic=1), container("two", gpu=2)
    pod = backed(pod_of("pod", one, two), "one", "gpu")
    assert container_limits(pod, one) == {"nic": 1}
    assert container_limits(pod, two) == {"gpu": 2}
    assert pod_limits(pod) == {"gpu": 2, "nic": 1}


def test_who_hands_on() -> None:
    pod = pod_of("pod", container("c"), init=[container("i"), container("s", "Always")])
    assert handing_on(pod) == {"i"}
    assert [one.name for one in all_containers(pod)] == ["i", "s", "c"]
