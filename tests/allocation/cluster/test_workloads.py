from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dray.allocation.cluster.workloads import (
    all_pending,
    asked_for,
    find_workload,
    from_templates,
    together,
    workloads_of,
)
from dray.api.core import Event, Node, ObjectReference
from dray.api.meta import ObjectMeta
from dray.errors import InvalidError, NotFoundError
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


def warning(reason: str, time: str, message: str = "no\n way", uid: str = "u1") -> Event:
    about = ObjectReference(kind="Pod", name="p", namespace="default", uid=uid)
    return Event(involved_object=about, type="Warning", reason=reason, message=message, event_time=time)


def test_a_pod_that_has_its_devices_and_does_not_start() -> None:
    sent = pod("p", named("has"))
    sent.raw["metadata"]["uid"], sent.raw["spec"]["nodeName"] = "u1", "node-1"
    here = cluster(claims(holding("has", "d")), sent)
    assert workloads_of(here)[0].not_started == ""
    told = (
        warning("FailedPrepare", "2026-01-01T10:00:02.500000Z"),
        warning("FailedPrepare", "2026-01-01T10:00:01.000000Z", "earlier"),
        warning("Other", "2026-01-01T10:00:09.000000Z", uid="u2"),
        warning("FailedScheduling", "2026-01-01T10:00:08.000000Z"),
    )
    (one,) = workloads_of(replace(here, warnings=told))
    assert one.not_started == "FailedPrepare: no way" and not one.waits
    waits = {"name": "c", "state": {"waiting": {"reason": "ContainerCreating", "message": "soon"}}}
    sent.raw["status"] = {"phase": "Pending", "containerStatuses": [waits]}
    (one,) = workloads_of(cluster(claims(holding("has", "d")), sent))
    assert one.not_started == "ContainerCreating: soon"
    sent.raw["status"] = {"phase": "Running"}
    (one,) = workloads_of(replace(cluster(claims(holding("has", "d")), sent), warnings=told))
    assert one.not_started == ""


def test_a_pod_whose_program_ends_again_and_again() -> None:
    sent = pod("p", named("has"))
    sent.raw["spec"]["nodeName"] = "node-1"
    loops = {
        "name": "main",
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
        "lastState": {"terminated": {"exitCode": 3}},
    }
    sent.raw["status"] = {"phase": "Running", "containerStatuses": [{"name": "side"}, loops]}
    (one,) = workloads_of(cluster(claims(holding("has", "d")), sent))
    why = "CrashLoopBackOff: the program of container main ends with exit code 3; `dray logs p -n default{} -p` shows why"
    assert one.not_started == why.format("") and not one.waits
    sent.raw["spec"]["containers"] = [{"name": name, "image": "host"} for name in ("side", "main")]
    (one,) = workloads_of(cluster(claims(holding("has", "d")), sent))
    assert one.not_started == why.format(" -c main")
    loops["state"] = {"running": {}}
    (one,) = workloads_of(cluster(claims(holding("has", "d")), sent))
    assert one.not_started == ""


def test_what_is_missing_is_a_problem_of_that_pod() -> None:
    one, two = workloads_of(cluster(pod("a", named("gone")), pod("b", FROM_T)))
    assert one.problem == "ResourceClaim default/gone is not in the files"
    assert two.problem == "ResourceClaimTemplate default/t is not in the files"
    with pytest.raises(InvalidError, match="pod default/a: ResourceClaim default/gone"):
        all_pending(cluster(pod("a", named("gone"))))


def test_what_is_being_deleted_is_no_good_any_more() -> None:
    leaving = claim(request(), name="c")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    here = cluster(claims(leaving), pod("p", named("c")))
    (one,) = workloads_of(here)
    assert one.waits and one.problem == "ResourceClaim default/c is being deleted"
    assert find_workload(here, "c", "default").problem == one.problem
    gone = pod("q", FROM_T)
    gone.raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    (one,) = workloads_of(cluster(TEMPLATE, gone))
    assert one.is_leaving and not one.waits


def test_pods_that_ended_want_nothing() -> None:
    ended = pod("a", named("gone"))
    ended.raw["status"] = {"phase": "Succeeded"}
    assert workloads_of(cluster(ended)) == ()
    with pytest.raises(InvalidError, match=r"pod default/a has ended \(Succeeded\): it wants no devices"):
        find_workload(cluster(ended), "pod/a", "default")


def test_what_the_status_says_of_a_claim_by_name_does_not_count() -> None:
    for status in ({"name": "b"}, {"name": "b", "resourceClaimName": "other"}):
        one = pod("web", named("b"))
        one.raw["status"] = {"resourceClaimStatuses": [status]}
        here = cluster(claims(claim(request(), name="b"), claim(request(), name="other")), one)
        assert [claim.metadata.name for claim in workloads_of(here)[0].pending] == ["b"]


def test_a_claim_of_the_right_name_that_was_made_for_another_pod_is_a_problem() -> None:
    own, before = (
        {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid, "controller": True}
        for uid in ("u", "v")
    )
    for owner, problem in (
        (own, ""),
        (before, "ResourceClaim default/made was not created for pod default/web"),
    ):
        one, made = pod("web", FROM_T), claim(request(), name="made")
        one.raw["metadata"]["uid"] = "u"
        one.raw["status"] = {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "made"}]}
        made["metadata"]["ownerReferences"] = [owner]
        assert workloads_of(cluster(TEMPLATE, claims(made), one))[0].problem == problem


def test_a_claim_that_the_pod_turned_out_not_to_need_is_none_of_it() -> None:
    """Its status says so: the entry has no name of a claim."""
    one = pod("web", FROM_T, named("b"))
    one.raw["status"] = {"resourceClaimStatuses": [{"name": "x"}, {"name": "b", "resourceClaimName": "b"}]}
    (got,) = workloads_of(cluster(TEMPLATE, claims(claim(request(), name="b")), one))
    assert [claim.metadata.name for claim in got.pending] == ["b"] and got.problem == ""


def test_all_pending_claims_in_the_order_of_the_files() -> None:
    got = all_pending(
        cluster(
            TEMPLATE, pod("web", FROM_T, named("b")), claims(*(claim(request(), name=one) for one in "ba"))
        )
    )
    assert got.name == "default/b, default/a, default/web-x"
    assert from_templates(cluster(TEMPLATE)).name == "default/t"


def test_several_workloads_together_have_the_claims_of_all() -> None:
    here = cluster(
        TEMPLATE,
        claims(claim(request(), name="mine"), claim(request(), name="alone")),
        pod("web", named("mine"), FROM_T),
    )
    web, alone = workloads_of(here)
    both = together([web, alone])
    assert [one.metadata.name for one in both.pending] == ["mine", "web-x", "alone"]
    assert together([web]) is web
    assert together([]).pending == ()
    lost = replace(web, problem="ResourceClaim default/x is not in the files")
    for workloads in ([lost], [alone, lost]):
        with pytest.raises(InvalidError, match=r"^pod default/web: ResourceClaim default/x"):
            together(workloads)


def test_a_workload_by_name() -> None:
    every = cluster(
        TEMPLATE,
        claims(claim(request(), name="a"), claim(request(), name="b"), holding("h", "d")),
        pod("p", named("b")),
        pod("plain"),
    )
    assert str(find_workload(every, "a", "default")) == "claim default/a"
    assert str(find_workload(every, "b", "default")) == "pod default/p"
    assert str(find_workload(every, "pod/p", "default")) == "pod default/p"
    assert find_workload(every, "template/t", "default").name == "default/t"
    assert not find_workload(every, "h", "default").waits
    for word in ("c", "pod/a", "template/a"):
        with pytest.raises(NotFoundError, match=f"default/{word[-1]} in the files"):
            find_workload(every, word, "default")
    for word, text in (
        ("node/a", "none of CLAIM"),
        ("pod/plain", "asks for no devices"),
        ("pod/", "none of"),
    ):
        with pytest.raises(InvalidError, match=text):
            find_workload(every, word, "default")


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


def test_the_files_over_a_cluster_are_what_is_asked_for() -> None:
    live = cluster(claims(claim(request(), name="a"), claim(request(), name="b")), pod("p", named("b")))
    files = cluster(claims(claim(request(2), name="a"), claim(request(), name="c")))
    both = live.under(files)
    assert [str(one) for one in asked_for(both, files)] == ["claim default/a", "claim default/c"]
    got = all_pending(both, files)
    assert got.name == "default/a, default/c"
    exactly = got.pending[0].spec.devices.requests[0].exactly
    assert exactly is not None and exactly.count == 2
    assert together(workloads_of(both)[:1]).kind == "pod"


@pytest.mark.parametrize(
    ("spec", "node", "why"),
    [
        ({}, {}, ""),
        ({"schedulingGates": [{"name": "g"}]}, {}, "the pod has scheduling gates: g"),
        ({}, {"unschedulable": True}, "the node is cordoned"),
        ({"tolerations": [{"operator": "Exists"}]}, {"unschedulable": True}, ""),
        (
            {},
            {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]},
            "does not tolerate the node's taint k=v",
        ),
        ({}, {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}, ""),
        ({"nodeSelector": {"zone": "b"}}, {}, "the pod's nodeSelector wants zone=b"),
        ({"nodeSelector": {"zone": "a"}}, {}, ""),
        ({"nodeSelector": {"zone": "a", "zones": "b"}}, {}, "the pod's nodeSelector wants zones=b"),
        ({"affinity": "a"}, {}, ""),
        ({"affinity": "b"}, {}, "the pod's node affinity does not match"),
        ({"affinity": "b", "nodeName": "node-1"}, {"unschedulable": True}, ""),
        ({"nodeName": "node-2"}, {}, "the pod is on node node-2"),
    ],
)
def test_what_keeps_a_pod_off_a_node(spec: dict[str, Any], node: dict[str, Any], why: str) -> None:
    if "affinity" in spec:
        match = {"key": "zone", "operator": "In", "values": [spec["affinity"]]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [match]}]}
        spec = spec | {
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        }
    (one,) = workloads_of(cluster(claims(claim(request(), name="c")), pod("p", named("c"), **spec)))
    raw = {"metadata": {"name": "node-1", "labels": {"zone": "a"}}, "spec": node}
    (here,) = cluster(as_object("Node", raw, "v1")).nodes
    assert why in one.barred_from(here) and bool(why) == bool(one.barred_from(here))
