"""Each change that is told is tried here again, from scratch."""

from __future__ import annotations

from dray.allocation.cases import read_case
from dray.allocation.cluster.cluster_dump import Cluster
from dray.allocation.cluster.situation import Situation
from dray.allocation.cluster.workloads import Workload, workloads_of
from dray.allocation.explanation.explain import refuse
from dray.allocation.explanation.what_if import Change
from dray.allocation.explanation.what_if_edits import Edit
from dray.allocation.faults import AllocationError, NodeAllocationError
from dray.allocation.features import features_for
from dray.allocation.profiles import CORRECT
from dray.allocation.requests import claim_name
from dray.api.resource.claim import ResourceClaim
from tests.allocation.dumps import HOLDS, claims, held_claims, holding, situation, slices
from tests.allocation.random_cases import random_case
from tests.allocation.world import Json, claim, counters, device, devices, first, piece, request, uses, wish
from tests.campaign import seeds

SIZE = 'device.attributes["driver-a"].size'
TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}


def changes(wanted: Json, *raw: Json, held: tuple[Json, ...] = ()) -> list[str]:
    one = situation(slices(*raw), claims(wanted, *held))
    workload = workloads_of(one.cluster)[0]
    found = refuse(one, workload, one.cluster.nodes).changes
    assert all(helps(one, workload, change) for change in found)
    return [str(change) for change in found]


def helps(given: Situation, workload: Workload, change: Change) -> bool:
    """With a new allocator over a cluster that the change was made to."""
    ways = [[one] for one in change.choices] or [list(change.edits)]
    return all(_fits_after(given, workload, change.node, way) for way in ways)


def _fits_after(given: Situation, workload: Workload, node: str, edits: list[Edit]) -> bool:
    freed = frozenset[str]().union(*(edit.frees for edit in edits))
    kept = tuple(one for one in given.cluster.claims if claim_name(one) not in freed)
    cluster = _with_claims(given.cluster, kept)
    pending = workload.pending
    for edit in edits:
        pending = edit.apply(pending)
    fresh = Situation.of(cluster, given.profile, given.features)
    return fresh.allocator.allocate(cluster.node(node), pending) is not None


def _with_claims(cluster: Cluster, kept: tuple[ResourceClaim, ...]) -> Cluster:
    return Cluster(
        cluster.nodes, cluster.slices, kept, cluster.classes, (), (), cluster.taint_rules, cluster.has_nodes
    )


def sized(name: str, size: int, **fields: object) -> Json:
    return device(name, attributes={"size": {"int": size}}, **fields)


def test_free_any_one_of_several() -> None:
    held = (holding("a", "d-1", pods=("web",)), holding("b", "d-2"))
    assert changes(claim(request()), piece(*devices("d-1", "d-2")), held=held) == [
        "free any one of these: driver-a/pool-1/d-1 (claim default/a, pod web); driver-a/pool-1/d-2 (claim default/b)"
    ]


def test_free_several_but_no_more_than_needed() -> None:
    held = tuple(holding(name, f"d-{name}") for name in "abc")
    (free, *rest) = changes(claim(request(2)), piece(*devices("d-a", "d-b", "d-c")), held=held)
    assert free == "free driver-a/pool-1/d-a (claim default/a), driver-a/pool-1/d-b (claim default/b)"
    assert rest == []


def test_tolerate_lower_relax() -> None:
    tainted = sized("d-2", 4, taints=[TAINT])
    assert changes(claim(request(2, f"{SIZE} > 3")), piece(sized("d-1", 4), tainted, sized("d-3", 1))) == [
        "tolerate the taint k=v:NoSchedule in request req-0 of claim default/claim-0",
        "ask for 1 device instead of 2 in request req-0 of claim default/claim-0",
        f"leave out `{SIZE} > 3` of the selector in request req-0 of claim default/claim-0",
    ]


def test_those_that_hold_most_go_first() -> None:
    """One claim with four devices and one with two, not six of the twelve that hold one."""
    names = [f"d-{number:02}" for number in range(18)]
    singles = tuple(holding(f"a-{name}", name) for name in names[:12])
    held = (*singles, holding("four", *names[12:16]), holding("two", *names[16:]))
    (free, *_) = changes(claim(request(6)), piece(*devices(*names)), held=held)
    assert "claim default/four" in free and "claim default/two" in free and "default/a-" not in free


def test_of_nodes_that_are_alike_the_one_where_the_fewest_must_go() -> None:
    worlds = [piece(*devices("x", "y"), name=name, pool=name, nodeName=name) for name in ("n-1", "n-2")]

    def of(pool: str, made: Json) -> Json:
        for one in made["status"]["allocation"]["devices"]["results"]:
            one["pool"] = pool
        return made

    held = (of("n-1", holding("a", "x")), of("n-1", holding("b", "y")), of("n-2", holding("c", "x", "y")))
    one = situation(slices(*worlds), claims(claim(request(2)), *held))
    found = refuse(one, workloads_of(one.cluster)[0], one.cluster.nodes)
    assert [group.nodes for group in found.groups] == [("n-2", "n-1")]
    (change, *_) = found.changes
    assert (change.node, change.edits[0].claim) == ("n-2", "default/c")


def test_ask_for_what_the_policy_allows() -> None:
    policy = {"default": "1G", "validRange": {"min": "1G", "max": "8G", "step": "1G"}}
    nic = device(
        "d", allowMultipleAllocations=True, capacity={"rate": {"value": "10G", "requestPolicy": policy}}
    )
    wanted = claim(request(1, capacity={"requests": {"rate": "9G"}}))
    assert changes(wanted, piece(nic)) == [
        "ask for no more than 8G of rate in request req-0 of claim default/claim-0"
    ]


def test_ask_for_a_part_where_all_would_be_taken() -> None:
    """Without an amount a request takes the whole capacity; a name with the driver in it is told as well."""
    nic = device("d", allowMultipleAllocations=True, capacity={"driver-a/rate": {"value": "10G"}})
    held = holding("held", "d", shareID=HOLDS, consumedCapacity={"driver-a/rate": "3G"})
    told = changes(claim(request(1)), piece(nic), held=(held,))
    assert any("ask for no more than 7G of driver-a/rate" in one for one in told), told


def test_the_fewest_claims_are_freed() -> None:
    """Two that hold a device each, not one of them and two that share the third."""
    cards = piece(
        sized("whole-1", 8),
        sized("whole-2", 8),
        sized("whole-3", 8, consumesCounters=uses("2")),
        sized("half-1", 1, consumesCounters=uses("1")),
        sized("half-2", 1, consumesCounters=uses("1")),
        of=2,
    )
    held = (holding("a", "whole-1"), holding("b", "whole-2"), holding("c", "half-1"), holding("d", "half-2"))
    (free, *_) = changes(claim(request(2, f"{SIZE} == 8")), cards, counters(set_1={"mem": "2"}), held=held)
    assert free == "free driver-a/pool-1/whole-1 (claim default/a), driver-a/pool-1/whole-2 (claim default/b)"


def test_all_taints_at_once_where_one_is_not_enough() -> None:
    taints = [{"key": key, "effect": "NoSchedule"} for key in "abc"]
    assert changes(claim(request()), piece(device("d", taints=taints))) == [
        "tolerate the taints a:NoSchedule, b:NoSchedule, c:NoSchedule in request req-0 of claim default/claim-0"
    ]
    pair = piece(device("d", taints=taints[:1]), device("e", taints=taints[1:]))
    assert changes(claim(request()), pair) == [
        "tolerate the taint a:NoSchedule in request req-0 of claim default/claim-0"
    ]


def test_ask_for_less_capacity() -> None:
    shared = device("d", allowMultipleAllocations=True, capacity={"memory": {"value": "4Gi"}})
    held = (holding("a", "d", shareID=HOLDS, consumedCapacity={"memory": "3Gi"}),)
    wanted = claim(request(1, capacity={"requests": {"memory": "2Gi"}}))
    assert changes(wanted, piece(shared), held=held) == [
        "free driver-a/pool-1/d (claim default/a)",
        "ask for no more than 1Gi of memory in request req-0 of claim default/claim-0",
    ]


def test_counters_and_constraints() -> None:
    parts = piece(*(device(name, consumesCounters=uses("2")) for name in ("p-1", "p-2")), of=2)
    assert changes(claim(request()), parts, counters(set_1={"mem": "3"}), held=(holding("a", "p-1"),)) == [
        "free driver-a/pool-1/p-1 (claim default/a)"
    ]
    wanted = claim(request(2), constraints=[{"matchAttribute": "driver-a/size"}])
    assert changes(wanted, piece(sized("a", 1), sized("b", 2))) == [
        "ask for 1 device instead of 2 in request req-0 of claim default/claim-0",
        "leave out the constraint matchAttribute driver-a/size of claim default/claim-0",
    ]


def test_an_alternative_is_changed_alone() -> None:
    wanted = claim(first(wish(1, f"{SIZE} == 8"), wish(1, f"{SIZE} == 9")))
    assert changes(wanted, piece(sized("a", 1))) == [
        f"leave out `{SIZE} == 8` of the selector in request req-0/sub-0 of claim default/claim-0",
        f"leave out `{SIZE} == 9` of the selector in request req-0/sub-1 of claim default/claim-0",
    ]


def test_two_changes_where_one_is_not_enough() -> None:
    (one,) = changes(claim(request(1, f"{SIZE} == 2")), piece(sized("d", 1, taints=[TAINT])))
    assert one == (
        "tolerate the taint k=v:NoSchedule in request req-0 of claim default/claim-0, and "
        f"leave out `{SIZE} == 2` of the selector in request req-0 of claim default/claim-0"
    )


def test_nothing_helps_where_there_are_no_devices() -> None:
    assert changes(claim(request()), piece(*devices("d"), driver="driver-b")) == []


def test_every_change_of_random_cases_helps() -> None:
    told = refused = 0
    for seed in seeds(200, 6_000):
        case = read_case(random_case(seed, errors=False))
        cluster = Cluster((case.node,), case.slices, (*held_claims(case), *case.claims), case.classes)
        given = Situation.of(cluster, CORRECT, features_for(CORRECT))
        workload = Workload("claim", "all", case.claims)
        try:
            if given.allocator.allocate(case.node, case.claims) is not None:
                continue
        except (AllocationError, NodeAllocationError):
            continue
        refused += 1
        for change in refuse(given, workload, cluster.nodes).changes:
            told += 1
            assert helps(given, workload, change), (seed, str(change))
    assert refused > 40 and told > 10


def test_more_holders_than_three_must_go_and_those_that_may_stay_do() -> None:
    held = tuple(holding(name, f"d-{name}") for name in "abcde")
    every = piece(*devices(*(f"d-{name}" for name in "abcdef")))
    (free, *_) = changes(claim(request(5)), every, held=held)
    gone = ", ".join(f"driver-a/pool-1/d-{name} (claim default/{name})" for name in "abcd")
    assert free == f"free {gone}"
    two = (*held[:3], holding("big", "d-d", "d-e"))
    (free, *_) = changes(claim(request(6)), every, held=two)
    assert free.count("(claim default/big)") == 2 and free.count("driver-a/") == 5
