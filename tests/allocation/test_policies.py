from __future__ import annotations

from dray.allocation.allocator import Allocation, Allocator, Call
from dray.allocation.cases import Case, allocator_of, read_case
from dray.allocation.cluster.situation import Situation
from dray.allocation.faults import AllocationError, NodeAllocationError
from dray.allocation.policies import BEST_SCORE, Policy, allocate, in_best_fit_order, place, score
from dray.allocation.profiles import CORRECT, KUBERNETES_1_36
from dray.allocation.selector import CompiledSelectors
from tests.allocation.brute_force import is_valid
from tests.allocation.dumps import HOLDS, claims, holding, situation, slices
from tests.allocation.generate import generate_case
from tests.allocation.random_cases import random_case
from tests.allocation.world import Json, claim, counters, device, devices, piece, request, uses
from tests.campaign import seeds

NUMA, ROOT = "resource.kubernetes.io/numaNode", "resource.kubernetes.io/pcieRoot"


def names(found: Allocation | None) -> list[str]:
    assert found is not None
    return [one.device for result in found.results for one in result.devices.results]


def picked(one: Situation, policy: Policy = Policy.BEST_FIT) -> list[str]:
    wanted = [claim for claim in one.cluster.claims if claim.status.allocation is None]
    return names(allocate(one.allocator, one.cluster.nodes[0], wanted, policy))


def parts(*, held: tuple[str, ...] = (), wanted: Json | None = None) -> Situation:
    """Two cards, each as a whole or in two halves of which one is in four quarters' place."""
    made = [
        device(f"{card}-{name}", consumesCounters=uses(amount, of=card))
        for card in ("card-1", "card-2")
        for name, amount in (("whole", "4"), ("half-1", "2"), ("half-2", "2"), ("quarter", "1"))
    ]
    sets = counters(card_1={"mem": "4"}, card_2={"mem": "4"})
    holds = [holding(f"h-{one}", one) for one in held]
    return situation(slices(piece(*made, of=2), sets), claims(wanted or claim(request()), *holds))


def test_the_smallest_part_of_the_fullest_card() -> None:
    assert picked(parts(), Policy.FIRST_FIT) == ["card-1-whole"]
    assert picked(parts()) == ["card-1-quarter"]
    assert picked(parts(held=("card-2-half-1",))) == ["card-2-quarter"]
    assert picked(parts(held=("card-2-half-1", "card-2-quarter"))) == ["card-1-quarter"]


def test_a_place_that_is_in_nobody_s_way() -> None:
    """Of five places, wide parts take the first two and the next two; the last one costs nobody anything."""

    def at(name: str, *places: int) -> Json:
        taken = {f"place-{one}": {"value": "1"} for one in places}
        return device(name, consumesCounters=[{"counterSet": "card", "counters": taken}])

    narrow = [at(f"narrow-{one}", one) for one in range(5)]
    made = [*narrow, at("wide-0", 0, 1), at("wide-2", 2, 3)]
    sets = counters(card={f"place-{one}": "1" for one in range(5)})
    one = situation(slices(piece(*made, of=2), sets), claims(claim(request(2))))
    assert picked(one, Policy.FIRST_FIT) == ["narrow-0", "narrow-1"]
    assert picked(one)[0] == "narrow-4"


def test_a_device_is_not_in_its_own_way_nor_in_that_of_one_in_use() -> None:
    """`alone` leaves no room for itself a second time, which costs nobody anything; `small` would cost `both`."""
    made = [
        device("small", consumesCounters=uses("1", of="card-1")),
        device("both", consumesCounters=uses("2", of="card-1")),
        device("alone", consumesCounters=uses("3", of="card-2")),
    ]
    sets = counters(card_1={"mem": "2"}, card_2={"mem": "4"})
    one = situation(slices(piece(*made, of=2), sets), claims(claim(request())))
    assert picked(one) == ["alone"]
    # A share of `shared` is out already: it has its counters, so `near` takes the rest of the card from nobody.
    shared = device("shared", consumesCounters=uses("2", of="card-1"), allowMultipleAllocations=True)
    near = device("near", consumesCounters=uses("2", of="card-1"))
    far = device("far", consumesCounters=uses("2", of="card-2"))
    sets = counters(card_1={"mem": "4"}, card_2={"mem": "4"})
    held = holding("h", "shared", shareID=HOLDS)
    wanted = claim(request(1, "!device.allowMultipleAllocations"))
    one = situation(slices(piece(shared, far, near, of=2), sets), claims(wanted, held))
    assert (picked(one, Policy.FIRST_FIT), picked(one)) == (["far"], ["near"])


def test_groups_that_are_broken_already_go_first() -> None:
    made = [
        device(f"d-{number}", attributes={NUMA: {"int": number // 2}, ROOT: {"string": f"r-{number // 2}"}})
        for number in range(6)
    ]
    one = situation(slices(piece(*made)), claims(claim(request()), holding("h", "d-2")))
    assert picked(one, Policy.FIRST_FIT) == ["d-0"]
    assert picked(one) == ["d-3"]
    pair = claim(request(2), constraints=[{"matchAttribute": NUMA}])
    both = situation(slices(piece(*made)), claims(pair, holding("h", "d-2")))
    assert picked(both) == ["d-0", "d-1"]


def test_shares_are_packed() -> None:
    made = [
        device(name, allowMultipleAllocations=True, capacity={"memory": {"value": "8Gi"}}) for name in "ab"
    ]
    held = holding("h", "b", shareID=HOLDS, consumedCapacity={"memory": "2Gi"})
    wanted = claim(request(1, capacity={"requests": {"memory": "2Gi"}}))
    one = situation(slices(piece(*made)), claims(wanted, held))
    assert (picked(one, Policy.FIRST_FIT), picked(one)) == (["a"], ["b"])


def scored(one: Situation, policy: Policy) -> int:
    node, wanted = one.cluster.nodes[0], one.cluster.claims[:1]
    found = allocate(one.allocator, node, wanted, policy)
    assert found is not None
    return score(one.allocator, node, found)


def test_scores() -> None:
    assert scored(
        situation(slices(piece(*devices("a", "b"))), claims(claim(request()))), Policy.FIRST_FIT
    ) == (BEST_SCORE)
    # The whole card takes its three parts along, of seven other devices; a quarter only the whole.
    assert scored(parts(), Policy.FIRST_FIT) == 100 - 100 * 3 // 7
    assert scored(parts(), Policy.BEST_FIT) == 100 - 100 * 1 // 7


def test_best_fit_takes_the_node_that_loses_least() -> None:
    def group(node: str, *numa: int) -> Json:
        made = [device(f"d-{number}", attributes={NUMA: {"int": one}}) for number, one in enumerate(numa)]
        return piece(*made, name=node, pool=node, nodeName=node)

    one = situation(slices(group("n-1", 0, 0), group("n-2", 0, 1)), claims(claim(request())))
    got = {policy: place(one.allocator, one.cluster.nodes, one.cluster.claims, policy) for policy in Policy}
    assert {policy: found and found.node.metadata.name for policy, found in got.items()} == {
        Policy.FIRST_FIT: "n-1",
        Policy.BEST_FIT: "n-2",
    }
    assert place(one.allocator, (), one.cluster.claims, Policy.BEST_FIT) is None
    # In the other order too; of equal ones the first; and what does not fit is passed over.
    more = situation(
        slices(group("n-0"), group("n-1", 0, 1), group("n-2", 0, 1), group("n-3", 0, 0)),
        claims(claim(request())),
    )
    for policy in Policy:
        best = place(more.allocator, more.cluster.nodes, more.cluster.claims, policy)
        assert best is not None and best.node.metadata.name == "n-1"


def test_best_fit_finds_a_fit_whenever_first_fit_does() -> None:
    """In its own right where the profile makes no mistakes, and the fit is a valid one."""
    fitting = 0
    for seed in seeds(300, 20_000):
        case = read_case(random_case(seed, errors=False))
        allocator = allocator_of(case, CompiledSelectors, CORRECT)
        plain = outcome(allocator, case)
        best = outcome(in_best_fit_order(allocator), case)
        assert (plain is None) == (best is None), seed
        if best is None:
            continue
        fitting += 1
        call = Call(allocator, case.node, case.claims)
        by_id = {one.id: one for one in call.candidates.devices}
        requests = {
            (one.claim, one.full_name): one
            for planned in call.plan
            for alternatives in planned.requests
            for one in alternatives
        }
        assignment = [
            (requests[number, one.request], by_id[one.driver, one.pool, one.device])  # type: ignore[index]
            for number, result in enumerate(best.results)
            for one in result.devices.results
        ]
        assert is_valid(call, allocator.rules, assignment), seed
        assert 0 <= score(allocator, case.node, best) <= BEST_SCORE
    assert fitting > 50


def outcome(allocator: Allocator, case: Case) -> Allocation | None:
    try:
        return allocator.allocate(case.node, case.claims)
    except (AllocationError, NodeAllocationError):
        return None


def test_first_fit_decides_in_profiles_with_mistakes() -> None:
    """In case 3662 first fit misses a fit that another order of devices finds."""
    cases = [random_case(seed) for seed in range(100)]
    cases.append(generate_case(3662, tier="experimental"))
    for number, given in enumerate(cases):
        case = read_case(given)
        allocator = allocator_of(case, CompiledSelectors, KUBERNETES_1_36)
        try:
            plain = allocator.allocate(case.node, case.claims)
        except (AllocationError, NodeAllocationError):
            continue
        best = allocate(allocator, case.node, case.claims, Policy.BEST_FIT)
        assert (plain is None) == (best is None), number
