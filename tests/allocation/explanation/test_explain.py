from __future__ import annotations

from dray.allocation.cases import read_case
from dray.allocation.cluster.cluster_dump import Cluster
from dray.allocation.cluster.situation import Situation
from dray.allocation.cluster.workloads import Workload, workloads_of
from dray.allocation.explanation.explain import Explanation, explain_workload
from dray.allocation.faults import AllocationError, NodeAllocationError
from dray.allocation.features import Features
from dray.allocation.policies import Policy, allocate, score
from dray.allocation.profiles import CORRECT, KUBERNETES_1_36
from tests.allocation.dumps import as_object, claims, held_claims, holding, node, pod, situation, slices
from tests.allocation.generate import generate_case
from tests.allocation.world import Json, claim, device, devices, every, piece, request
from tests.campaign import seeds

MODEL = 'device.attributes["driver-a"].model'


def explained(one: Situation, number: int = 0, *, compare: bool = False) -> Explanation:
    workload = workloads_of(one.cluster)[number]
    return explain_workload(one, workload, one.cluster.nodes, one.other() if compare else None)


def gpus(node: str, *models: str) -> Json:
    made = [device(f"d-{number}", attributes={"model": {"string": one}}) for number, one in enumerate(models)]
    return piece(*made, name=node, pool=node, nodeName=node)


def test_equal_nodes_are_told_together_and_the_closest_first() -> None:
    one = situation(
        slices(*(gpus(f"n-{number}", "A", "A") for number in range(5)), gpus("n-5", "B", "A"), gpus("n-6")),
        claims(claim(request(2, f'{MODEL} == "B"'))),
    )
    got = explained(one)
    assert (got.verdict.fits_on, got.verdict.error, got.tried) == ((), "", 7)
    assert [group.nodes for group in got.reasons.groups] == [
        ("n-5",),
        ("n-0", "n-1", "n-2", "n-3", "n-4"),
        ("n-6",),
    ]
    assert [group.refusal.requests[0].left for group in got.reasons.groups] == [1, 0, 0]
    assert [miss.node for miss in got.reasons.misses] == ["n-5"]
    assert {change.node for change in got.reasons.changes} == {"n-5", "n-0"}


def test_where_it_fits_no_change_is_looked_for() -> None:
    one = situation(slices(gpus("n-1", "A"), gpus("n-2", "B")), claims(claim(request(1, f'{MODEL} == "B"'))))
    got = explained(one)
    assert got.verdict.fits_on == ("n-2",)
    assert [group.nodes for group in got.reasons.groups] == [("n-1",)]
    assert got.reasons.changes == () and got.reasons.misses == ()


def test_holders_of_a_whole_group() -> None:
    def held(name: str) -> Json:
        made = holding(name, "d-0")
        made["status"]["allocation"]["devices"]["results"][0]["pool"] = name
        return made

    one = situation(
        slices(gpus("n-1", "A"), gpus("n-2", "A")), claims(claim(request()), held("n-1"), held("n-2"))
    )
    (group,) = explained(one).reasons.groups
    assert [holder.claim for holder in group.refusal.requests[0].held_by] == ["default/n-1", "default/n-2"]


def test_errors_and_problems() -> None:
    gold = claim({"name": "r", "exactly": {"deviceClassName": "gold"}})
    one = situation(slices(gpus("n-1", "A")), claims(gold))
    assert "could not retrieve device class gold" in explained(one).verdict.error
    lost = situation(slices(gpus("n-1", "A")), pod("p", {"name": "c", "resourceClaimName": "c"}))
    assert explained(lost, compare=True).verdict.error == "ResourceClaim default/c is not in the files"


def test_nodes_that_are_out_of_the_question() -> None:
    one = situation(
        slices(gpus("n-1", "A"), gpus("n-2", "A")),
        claims(claim(request(), name="c")),
        pod("p", {"name": "c", "resourceClaimName": "c"}, nodeName="n-9"),
    )
    got = explained(one)
    (group,) = got.reasons.groups
    assert group.nodes == ("n-1", "n-2") and group.refusal.reason == "the pod is on node n-9"
    assert got.reasons.changes == ()


def test_pools_that_cannot_be_used() -> None:
    one = situation(slices(piece(*devices("d"), of=2)), claims(claim(request())))
    (group,) = explained(one).reasons.groups
    assert group.refusal.unusable_pools == {"driver-a/pool-1": "1 of 2 slices of generation 1 are there"}


def test_another_profile_may_decide_otherwise() -> None:
    """Q9: newer slices elsewhere go unseen in 1.36."""
    elsewhere = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gone", "operator": "Exists"}]}]}
    newer = piece(*devices("e"), name="s2", generation=2, nodeSelector=elsewhere)
    world = slices(piece(*devices("d")), newer)
    parts = (world, claims(claim(request())), node("node-1"))
    correct = explained(situation(*parts, profile=CORRECT), compare=True)
    assert correct.verdict.fits_on == () and correct.difference is not None
    assert (correct.difference.profile, correct.difference.verdict.fits_on) == ("k8s-1.36", ("node-1",))
    old = explained(situation(*parts, profile=KUBERNETES_1_36), compare=True)
    assert old.verdict.fits_on == ("node-1",) and old.difference is not None
    assert (old.tier, old.difference.profile) == ("incubating", "correct")
    same = explained(situation(slices(piece(*devices("d"))), claims(claim(request()))), compare=True)
    assert same.difference is None


def test_a_pod_that_has_its_devices() -> None:
    template = as_object(
        "ResourceClaimTemplate", {"metadata": {"name": "t"}, "spec": {"spec": claim(request())["spec"]}}
    )
    has = pod("p", {"name": "c", "resourceClaimTemplateName": "t"})
    has.raw["status"] = {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "h"}]}
    has.raw["metadata"]["uid"] = "u"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    made = holding("h", "d")
    made["metadata"]["ownerReferences"] = [owner]
    one = situation(slices(piece(*devices("d"))), claims(made), template, has)
    got = explained(one)
    assert got.workload.pending == () and got.verdict.fits_on == ("node-1",)


def test_of_nodes_that_lack_as_many_the_one_with_the_right_devices_comes_first() -> None:
    held = holding("h", "d-0")
    held["status"]["allocation"]["devices"]["results"][0]["pool"] = "n-2"
    one = situation(
        slices(gpus("n-1", "A"), gpus("n-2", "B")), claims(claim(request(1, f'{MODEL} == "B"')), held)
    )
    assert [group.nodes for group in explained(one).reasons.groups] == [("n-2",), ("n-1",)]


def test_a_node_that_cannot_be_judged_comes_last() -> None:
    """The pool of n-1 is being updated, so nobody knows what all of its devices are; n-2 has none that match."""
    unfinished = gpus("n-1", "B")
    unfinished["spec"]["pool"]["resourceSliceCount"] = 2
    one = situation(slices(unfinished, gpus("n-2", "A")), claims(claim(every(f'{MODEL} == "B"'))))
    first, last = explained(one).reasons.groups
    assert (first.nodes, first.refusal.reason, first.refusal.requests[0].left) == (("n-2",), "", 0)
    assert (last.nodes, last.refusal.requests) == (("n-1",), ())
    assert "resource pool driver-a/n-1 is currently being updated" in last.refusal.reason


def test_odd_clusters_are_explained_too() -> None:
    """Objects that no API server would take, features that are off, other profiles: there is always an answer, and it
    is the allocator's."""
    refused = 0
    for seed in (2408, *seeds(120, 8_000)):
        case = read_case(generate_case(seed, tier=("stable", "incubating", "experimental")[seed % 3]))
        cluster = Cluster((case.node,), case.slices, (*held_claims(case), *case.claims), case.classes)
        features = Features.named(case.features)
        for profile in (CORRECT, KUBERNETES_1_36):
            one = Situation.of(cluster, profile, features)
            got = explain_workload(one, Workload("claim", "all", case.claims), cluster.nodes)
            try:
                found = one.allocator.allocate(case.node, case.claims)
                best = allocate(one.allocator, case.node, case.claims, Policy.BEST_FIT)
                assert (found is None) == (best is None)
                assert bool(got.verdict.fits_on) == (found is not None)
                assert best is None or 0 <= score(one.allocator, case.node, best) <= 100
            except NodeAllocationError:
                assert got.reasons.groups[0].refusal.reason
            except AllocationError as error:
                assert got.verdict.error.endswith(str(error).partition(": ")[2])
            refused += bool(got.reasons.groups)
    assert refused > 20
