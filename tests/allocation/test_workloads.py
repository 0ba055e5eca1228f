from __future__ import annotations

import pytest

from dray.allocation.workloads import all_pending, find_workload, from_templates, workloads_of
from dray.api.core import Node
from dray.api.meta import ObjectMeta
from dray.errors import InvalidError
from tests.allocation.dumps import as_object, claims, cluster, holding, pod
from tests.allocation.world import claim, request

TEMPLATE = as_object(
    "ResourceClaimTemplate", {"metadata": {"name": "t"}, "spec": {"spec": claim(request(2))["spec"]}}
)
FROM_T = {"name": "x", "resourceClaimTemplateName": "t"}


def named(name: str) -> dict[str, str]:
    return {"name": name, "resourceClaimName": name}


def test_pods_come_with_their_claims_and_other_claims_alone() -> None:
    got = workloads_of(
        cluster(
            TEMPLATE,
            claims(claim(request(), name="mine"), claim(request(), name="alone"), holding("has", "d")),
            pod("web", named("mine"), named("has"), FROM_T),
            pod("plain"),
        )
    )
    assert [str(one) for one in got] == ["pod default/web", "claim default/alone"]
    assert [one.metadata.name for one in got[0].pending] == ["mine", "web-x"]
    assert [one.metadata.name for one in got[0].allocated] == ["has"]
    exactly = got[0].pending[1].spec.devices.requests[0].exactly
    assert exactly is not None and exactly.count == 2


def test_what_is_missing_is_a_problem_of_that_pod() -> None:
    one, two = workloads_of(cluster(pod("a", named("gone")), pod("b", FROM_T)))
    assert one.problem == "ResourceClaim default/gone is not in the files"
    assert two.problem == "ResourceClaimTemplate default/t is not in the files"
    with pytest.raises(InvalidError, match="pod default/a: ResourceClaim default/gone"):
        all_pending(cluster(pod("a", named("gone"))))


def test_pods_that_ended_want_nothing() -> None:
    ended = pod("a", named("gone"))
    ended.raw["status"] = {"phase": "Succeeded"}
    assert workloads_of(cluster(ended)) == ()


def test_all_pending_claims_in_the_order_of_the_files() -> None:
    got = all_pending(
        cluster(
            TEMPLATE, pod("web", FROM_T, named("b")), claims(*(claim(request(), name=one) for one in "ba"))
        )
    )
    assert got.name == "default/b, default/a, default/web-x"
    assert from_templates(cluster(TEMPLATE)).name == "default/t"


def test_a_workload_by_name() -> None:
    every = workloads_of(
        cluster(claims(claim(request(), name="a"), claim(request(), name="b")), pod("p", named("b")))
    )
    assert str(find_workload(every, "a", "default")) == "claim default/a"
    assert str(find_workload(every, "b", "default")) == "pod default/p"
    assert str(find_workload(every, "pod/p", "default")) == "pod default/p"
    for word in ("c", "pod/a", "node/a"):
        with pytest.raises(InvalidError):
            find_workload(every, word, "default")
    with pytest.raises(InvalidError, match="device plugins are not explained yet"):
        find_workload(every, "pod/q", "default")


def test_devices_that_a_pod_has_already_tie_it_to_their_nodes() -> None:
    has = holding("has", "d")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
    has["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [term]}
    (one,) = workloads_of(cluster(claims(has), pod("p", named("has"))))
    here, there = (Node(metadata=ObjectMeta(name=name)) for name in ("node-1", "node-2"))
    assert one.barred_from(here) == ""
    assert one.barred_from(there) == "claim default/has has its devices on other nodes"
    (placed,) = workloads_of(
        cluster(claims(claim(request(), name="c")), pod("p", named("c"), nodeName="node-2"))
    )
    assert placed.barred_from(here) == "the pod is on node node-2" and placed.barred_from(there) == ""
