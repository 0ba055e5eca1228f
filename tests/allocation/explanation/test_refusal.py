from __future__ import annotations

import pytest

from dray.allocation.cases import allocator_of, read_case
from dray.allocation.explanation.nearest import NearestMisses
from dray.allocation.explanation.refusal import Check, Explainer, explain, holders_of
from dray.allocation.features import Features
from dray.allocation.profiles import CORRECT
from dray.allocation.selector import CompiledSelectors
from tests.allocation.dumps import HOLDS, claims, holding, situation, slices
from tests.allocation.random_cases import random_case
from tests.allocation.world import (
    CAPACITY,
    LIST,
    PARTITIONS,
    TAINTS,
    Json,
    case,
    claim,
    counters,
    device,
    devices,
    first,
    piece,
    request,
    typed,
    uses,
    wish,
)

X = 'device.attributes["driver-a"].type == "X"'


def x(name: str, **fields: object) -> Json:
    return device(name, attributes={"type": {"string": "X"}}, **fields)


def test_each_device_is_charged_to_the_first_check_that_removes_it() -> None:
    slices = [
        piece(
            x("fits"),
            x("tainted", taints=[{"key": "k", "effect": "NoSchedule"}]),
            x("held"),
            x("small", capacity={"memory": {"value": "1Gi"}}),
            x("drawn", consumesCounters=uses("9"), capacity={"memory": {"value": "8Gi"}}),
            x("slow", bindingConditions=["ready"]),
            device("y", attributes={"type": {"string": "Y"}}),
            device("broken"),
            of=3,
        ),
        counters(set_1={"mem": "3"}, of=3),
        piece(*devices("far"), name="s3", of=3, nodeName="node-2"),
        piece(*devices("b", "c"), driver="driver-b", name="s4"),
        piece(*devices("unfinished"), pool="pool-2", name="s5", of=2),
    ]
    slices[0]["spec"]["devices"][0]["capacity"] = {"memory": {"value": "8Gi"}}
    given = case(
        slices,
        claim(request(2, X, capacity={"requests": {"memory": "2Gi"}})),
        features=(CAPACITY, TAINTS, PARTITIONS),
        allocatedDevices=["driver-a/pool-1/held"],
    )
    read, allocator, _ = typed(given)
    refusal = explain(allocator, read.node, read.claims)
    assert (refusal.node, refusal.tier, refusal.profile) == ("node-1", "experimental", "k8s-1.36")
    assert refusal.unusable_pools == {"driver-a/pool-2": "1 of 2 slices of generation 1 are there"}
    (one,) = refusal.requests
    assert (one.claim, one.request, one.wanted, one.left, one.is_short) == ("claim-0", "req-0", 2, 1, True)
    assert one.removed == {
        Check.NODE: 1,
        Check.POOL: 1,
        Check.FEATURE: 1,
        Check.CLASS: 2,
        Check.SELECTOR: 1,
        Check.ERROR: 1,
        Check.TAINT: 1,
        Check.IN_USE: 1,
        Check.CAPACITY: 1,
        Check.COUNTERS: 1,
    }
    assert one.total == sum(one.removed.values()) + one.left == 12


def test_amounts_that_cannot_be_worked_with_are_no_capacity() -> None:
    shared = device("a", allowMultipleAllocations=True, capacity={"memory": {"value": "8Gi"}})
    asked = claim(request(capacity={"requests": {"memory": "-1"}}))
    read, allocator, _ = typed(case([piece(shared)], asked, features=(CAPACITY,)), "correct")
    (one,) = explain(allocator, read.node, read.claims).requests
    assert (one.removed, one.left, one.lacking) == ({Check.CAPACITY: 1}, 0, {"memory": 1})


def test_constraints_and_combinations() -> None:
    slices = [
        piece(
            device("a", attributes={"root": {"int": 1}}),
            device("b", attributes={"root": {"int": 2}}),
            device("c"),
        )
    ]
    given = case(slices, claim(request(2), constraints=[{"matchAttribute": "driver-a/root"}]))
    read, allocator, _ = typed(given)
    assert allocator.allocate(read.node, read.claims) is None
    (one,) = explain(allocator, read.node, read.claims).requests
    assert one.removed == {Check.CONSTRAINT: 1} and one.left == 2 and not one.is_short


def test_alternatives_are_told_apart() -> None:
    given = case([piece(*devices("a"))], claim(first(wish(2), wish(1, "false"))), features=(LIST,))
    read, allocator, _ = typed(given)
    got = explain(allocator, read.node, read.claims).requests
    assert [(one.request, one.left, one.is_short) for one in got] == [
        ("req-0/sub-0", 1, True),
        ("req-0/sub-1", 0, True),
    ]


def test_a_reason_before_any_device() -> None:
    read, allocator, _ = typed(case([], claim(request(deviceClassName="gold"))))
    refusal = explain(allocator, read.node, read.claims)
    assert "device class gold" in refusal.reason and refusal.requests == ()


def test_asking_why_leaves_the_search_alone() -> None:
    read, allocator, selectors = typed(case([piece(x("a"), x("b"))], claim(request(1, X))))
    explain(allocator, read.node, read.claims)
    before = selectors.evaluations
    assert allocator.allocate(read.node, read.claims) is not None
    assert selectors.evaluations == before + 2


def test_who_holds_what_and_which_taints() -> None:
    one = situation(
        slices(
            piece(
                x("held"),
                x("shared", allowMultipleAllocations=True, capacity={"memory": {"value": "4Gi"}}),
                x("t-1", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]),
                x("t-2", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]),
                x("other"),
            )
        ),
        claims(
            claim(request(3, X, capacity={"requests": {"memory": "2Gi"}})),
            holding("a", "held", pods=("web-0", "web-1")),
            holding("b", "shared", shareID=HOLDS, consumedCapacity={"memory": "3Gi"}),
            holding("c", "other", adminAccess=True),
        ),
    )
    wanted = one.cluster.claims[:1]
    holders = holders_of(one.cluster.claims)
    (got,) = explain(one.allocator, one.cluster.nodes[0], wanted, holders).requests
    assert [str(holder) for holder in got.held_by] == [
        "driver-a/pool-1/held (claim default/a, pod web-0, web-1)",
        "driver-a/pool-1/shared (claim default/b)",
    ]
    assert got.taints == {"k=v:NoSchedule": 2}
    assert got.removed == {Check.TAINT: 2, Check.IN_USE: 1, Check.CAPACITY: 2}
    assert got.lacking == {"memory": 2}


def test_who_draws_on_the_counters() -> None:
    one = situation(
        slices(
            piece(*(x(name, consumesCounters=uses("2")) for name in ("p-1", "p-2")), of=2),
            counters(set_1={"mem": "3"}),
        ),
        claims(claim(request(1, X)), holding("a", "p-1")),
    )
    got = explain(
        one.allocator, one.cluster.nodes[0], one.cluster.claims[:1], holders_of(one.cluster.claims)
    ).requests[0]
    assert got.removed == {Check.IN_USE: 1, Check.COUNTERS: 1}
    assert [holder.claim for holder in got.held_by] == ["default/a"]
    assert got.lacking == {"mem of set-1": 1}


def test_counts_agree_with_the_search() -> None:
    """A request that is short alone never fits; where all fits, no request without alternatives is short."""
    fitting = 0
    for seed in range(300):
        case = read_case(random_case(seed, errors=False))
        allocator = allocator_of(case, CompiledSelectors, CORRECT)
        refusal = explain(allocator, case.node, case.claims)
        if refusal.reason:
            continue
        for one in refusal.requests:
            assert one.total == sum(one.removed.values()) + one.left
        fits = allocator.allocate(case.node, case.claims) is not None
        fitting += fits
        if fits:
            assert not any(one.is_short for one in refusal.requests if "/" not in one.request)
    assert fitting > 50


def test_a_class_with_a_selector_of_no_known_kind_is_an_error_of_each_device_and_of_no_term() -> None:
    """As a newer Kubernetes may have them: there is no text of which a part could be false."""
    classes = [{"metadata": {"name": "class-a"}, "spec": {"selectors": [{}]}}]
    read, allocator, _ = typed(case([piece(*devices("a", "b"))], claim(request(1, X)), classes=classes))
    explainer = Explainer(allocator, {})
    refusal = explainer.explain(read.node, read.claims)
    assert refusal.requests[0].removed == {Check.ERROR: 2}
    (miss,) = NearestMisses(allocator, CompiledSelectors(Features()), Features(), explainer).find(
        read.node, read.claims, refusal
    )
    assert miss.checks == (Check.ERROR,) and "CEL expression empty" in miss.error


def test_of_a_selector_of_no_known_kind_no_part_is_false() -> None:
    """The one before it is false on every device, so that it is never reached."""
    text = 'device.driver == "driver-b"'
    never = {"cel": {"expression": text}}
    classes = [{"metadata": {"name": "class-a"}, "spec": {"selectors": [never, {}]}}]
    read, allocator, _ = typed(case([piece(*devices("a", "b"))], claim(request()), classes=classes))
    explainer = Explainer(allocator, {})
    refusal = explainer.explain(read.node, read.claims)
    assert refusal.requests[0].removed == {Check.CLASS: 2}
    finder = NearestMisses(allocator, CompiledSelectors(Features()), Features(), explainer)
    (miss,) = finder.find(read.node, read.claims, refusal)
    assert [(term.number, term.part.text) for term in miss.false_terms] == [(0, text)]


@pytest.mark.parametrize(
    ("constraint", "left"),
    [
        ("matchAttribute", "no more than 1 of 3 devices left have the same value, 2 are wanted"),
        ("distinctAttribute", None),
    ],
)
def test_values_of_no_known_kind_are_like_no_other(constraint: str, left: str | None) -> None:
    made = [device(f"d{n}", attributes={"numa": value}) for n, value in enumerate(({}, {}, {"int": 1}))]
    classes = [{"metadata": {"name": "class-a"}, "spec": {}}]
    wanted = claim(request(2), constraints=[{constraint: "driver-a/numa"}])
    read, allocator, _ = typed(case([piece(*made)], wanted, classes=classes), "correct")
    assert (allocator.allocate(read.node, read.claims) is None) is (left is not None)
    told = explain(allocator, read.node, read.claims).obstacles
    assert told == ((f"{constraint} driver-a/numa of claim claim-0: {left}",) if left else ())
