from __future__ import annotations

from dataclasses import replace

from dray.api.core import Pod
from dray.scheduler.claims.filter import CANNOT_ALLOCATE, Filter, NodeFilter
from dray.scheduler.claims.outcome import Code, Status, unresolvable
from dray.scheduler.claims.pod_claims import NodeAllocation
from dray.scheduler.claims.pre_filter import pre_filter
from dray.scheduler.claims.reasons import why_nowhere
from dray.scheduler.claims.tracking import Tracker
from tests.scheduler.claims.driving import DEFAULT, World
from tests.scheduler.claims.objects import (
    GPU,
    NOW,
    allocated,
    claim,
    container,
    device,
    device_class,
    exactly,
    first,
    node,
    pod,
    request,
    result,
    slice_of,
)

USER = pod("my-claim")
FREE = World([claim()], [slice_of(), slice_of("worker-2")], nodes=[node(), node("worker-2")])


def filter_of(tracker: Tracker, user: Pod = USER) -> Filter:
    found = pre_filter(user, tracker, DEFAULT)
    assert found.status.is_success, found.status
    return Filter(found.plan, tracker, DEFAULT, NOW)


def test_an_answer_follows_the_tracker() -> None:
    tracker = FREE.start().tracker
    asked = filter_of(tracker)
    assert asked.check(node()).status.is_success
    tracker.set_claim(allocated(name="other"))
    assert asked.check(node()).status == CANNOT_ALLOCATE
    assert asked.allocate(node()) == CANNOT_ALLOCATE
    assert asked.check(node("worker-2")).status.is_success
    tracker.catalogue.remove_slice("slice-worker-2")
    assert asked.check(node("worker-2")).status == CANNOT_ALLOCATE


def test_no_devices_are_chosen_for_a_pod_whose_claims_have_theirs() -> None:
    tracker = World([allocated()]).start().tracker
    made = filter_of(tracker).allocate(node())
    assert isinstance(made, NodeAllocation)
    assert made.results == {}


def test_unavailable_claims_are_told_by_their_place() -> None:
    claims = [
        allocated(result("x"), name="a"),
        allocated(result("y"), name="b", where="elsewhere"),
        claim(name="c"),
    ]
    tracker = World(claims, [slice_of()]).start().tracker
    answer = filter_of(tracker, pod("a", "b", "c")).check(node())
    assert answer == NodeFilter(unresolvable("resourceclaim not available on the node"), (1,))


def test_too_few_devices_are_said_before_unavailable_claims() -> None:
    tracker = World([allocated(where="elsewhere"), claim(name="c")]).start().tracker
    answer = filter_of(tracker, pod("my-claim", "c")).check(node())
    assert answer == NodeFilter(CANNOT_ALLOCATE)


def test_an_invalid_pool_is_named_as_the_reason() -> None:
    twice = slice_of("worker", device("instance-1"), device("instance-1"))
    tracker = World([claim(request(count=3))], [twice]).start().tracker
    reason = "invalid resource pools were encountered"
    assert filter_of(tracker).check(node()).status == unresolvable(reason)


def test_nodes_may_need_different_claims_for_extended_resources() -> None:
    world = replace(FREE, claims=[], classes=[device_class(resource=GPU)])
    asked = filter_of(world.start().tracker, pod(containers=[container("con0", gpu=1)]))
    made = asked.allocate(node())
    assert isinstance(made, NodeAllocation)
    assert made.special is not None
    plugin = asked.allocate(node("worker-2", gpu="4"))
    assert isinstance(plugin, NodeAllocation)
    assert (plugin.special, plugin.results) == (None, {})


def test_what_plugins_serve_on_one_node_is_allocated_on_another() -> None:
    """The special claim differs between the nodes, and so do its devices."""
    classes = [device_class(resource=GPU), device_class("nics", resource="example.com/nic")]
    world = replace(FREE, claims=[], classes=classes)
    asked = filter_of(world.start().tracker, pod(containers=[container("con0", gpu=1, nic=1)]))
    wanted = {}
    for one in (node(gpu="1"), node("worker-2", nic="1")):
        made = asked.allocate(one)
        assert isinstance(made, NodeAllocation) and made.special is not None
        (found,) = made.results.values()
        asks = {request.name for request in made.special.spec.devices.requests}
        assert {one.request for one in found.devices.results} == asks
        wanted[one.metadata.name] = asks
    assert wanted["worker"] != wanted["worker-2"]


def test_why_nowhere() -> None:
    taint = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
    slices = [slice_of("worker", "one", "two"), slice_of("worker-2", device("one", **taint))]
    held = allocated(result("one"), name="other")
    tracker = World([claim(request(count=2)), held], slices).start().tracker
    asked = filter_of(tracker)
    start = "claim default/my-claim, request req-1 wants 2"
    assert why_nowhere(asked, [node()]) == f"{start} of 2: 1 in use, 1 left"
    assert why_nowhere(asked, [node(), node("worker-2"), node("worker-3"), node("worker-4")]) == (
        f"2 {start}: no devices; 1 {start} of 1: 1 tainted, 0 left; 1 {start} of 2: 1 in use, 1 left"
    )


def test_why_nowhere_with_alternatives_and_many_nodes() -> None:
    claims = [claim(first(exactly(3), exactly(2)))]
    tracker = World(claims, [slice_of()]).start().tracker
    text = why_nowhere(filter_of(tracker), [node()] * 30)
    assert text == "20 claim default/my-claim, request req-1/subreq-1 wants 3 of 1: 1 left; 10 more"


def test_why_nowhere_where_devices_do_not_go_together() -> None:
    claims = [claim(request(), request("req-2"))]
    tracker = World(claims, [slice_of()]).start().tracker
    assert why_nowhere(filter_of(tracker), [node()]) != ""


def test_feasible_says_the_same_as_check() -> None:
    busy, nodes = allocated(name="other"), [node(), node("worker-2"), node("worker-3")]
    for user, claims in (
        (USER, [claim(), busy]),
        (pod("far", "my-claim"), [claim(), busy, allocated(result("x"), name="far", where="worker-2")]),
        (pod("far"), [busy, allocated(result("x"), name="far", where="worker-2")]),
        (pod("other"), [allocated(name="other", where=None)]),
        (pod("my-claim", containers=[container("con0", gpu=1)]), [claim()]),
    ):
        world = World(claims, FREE.slices, [device_class(resource=GPU)])
        asked = filter_of(world.start().tracker, user)
        good = asked.feasible(nodes)
        assert good == [one for one in nodes if asked.check(one).status.is_success]
        assert asked.feasible([]) == []


def test_feasible_ends_with_a_failure() -> None:
    broken = {"cel": {"expression": "device.attributes['x'].y"}}
    for user in (USER, pod("my-claim", containers=[container("con0", gpu=1)])):
        world = World([claim(request(selectors=[broken]))], FREE.slices, [device_class(resource=GPU)])
        status = filter_of(world.start().tracker, user).feasible([node()])
        assert isinstance(status, Status)
        assert status.code is Code.ERROR


def test_nothing_is_allocated_where_nobody_serves_a_resource() -> None:
    world = replace(FREE, claims=[], classes=[device_class(resource=GPU)])
    asked = filter_of(world.start().tracker, pod(containers=[container("con0", gpu=1, nic=1)]))
    assert asked.allocate(node()) == asked.check(node()).status == unresolvable("cannot fit resource")
    assert isinstance(asked.allocate(node(nic="1")), NodeAllocation)
