from __future__ import annotations

from dray.api.codec import view
from dray.api.core import Node
from dray.api.resource import DeviceTaintRule
from dray.scheduler.claims.filter import CANNOT_ALLOCATE, Filter
from dray.scheduler.claims.outcome import SUCCESS, Status
from dray.scheduler.claims.pre_filter import pre_filter
from dray.scheduler.claims.tracking import Tracker
from tests.scheduler.claims.driving import World, settings_with
from tests.scheduler.claims.node_objects import taking
from tests.scheduler.claims.objects import DRIVER, GPU, NOW, claim, device_class, node, pod, slice_of

RULE = view(
    {
        "metadata": {"name": "out-of-order"},
        "spec": {
            "deviceSelector": {"driver": DRIVER, "device": "instance-1"},
            "taint": {"key": "broken", "effect": "NoSchedule"},
        },
    },
    DeviceTaintRule,
)


def answer(tracker: Tracker, gates: str, where: Node) -> Status:
    settings = settings_with(gates)
    found = pre_filter(pod("my-claim"), tracker, settings)
    return Filter(found.plan, tracker, settings, NOW).check(where).status


def test_taint_rules_come_and_go() -> None:
    gates = "DRADeviceTaintRules=true"
    tracker = World([claim()], [slice_of()], settings=settings_with(gates)).start().tracker
    assert answer(tracker, gates, node()) == SUCCESS
    tracker.catalogue.set_rule(RULE)
    assert answer(tracker, gates, node()) == CANNOT_ALLOCATE
    tracker.catalogue.set_slice(slice_of("worker-2"))
    assert answer(tracker, gates, node("worker-2")) == CANNOT_ALLOCATE
    tracker.catalogue.remove_rule("out-of-order")
    assert answer(tracker, gates, node()) == SUCCESS


def test_taint_rules_do_not_count_without_their_gate() -> None:
    tracker = World([claim()], [slice_of()]).start().tracker
    tracker.catalogue.set_rule(RULE)
    assert answer(tracker, "", node()) == SUCCESS


def test_classes_and_their_resources() -> None:
    tracker = World(classes=[]).start().tracker
    tracker.catalogue.set_class(device_class("b", resource=GPU))
    tracker.catalogue.set_class(device_class("a", resource=GPU))
    assert tracker.catalogue.class_of[GPU] == "a"
    tracker.catalogue.remove_class("a")
    assert tracker.catalogue.class_of == {GPU: "b", "deviceclass.resource.kubernetes.io/b": "b"}
    assert list(tracker.catalogue.classes) == ["b"]


def test_every_change_counts() -> None:
    tracker = World().start().tracker
    before = tracker.revision
    tracker.catalogue.set_slice(slice_of())
    tracker.catalogue.remove_slice("slice-worker")
    tracker.catalogue.remove_slice("slice-worker")
    tracker.catalogue.remove_node("worker")
    assert tracker.revision == before + 2


def test_what_devices_take_from_a_node_goes_with_their_slice() -> None:
    slices = [slice_of("worker", taking(cpu="1")), slice_of("worker-2", "plain")]
    tracker = World(slices=slices, settings=settings_with(node_resources=True)).start().tracker
    mappings = tracker.catalogue.mappings
    assert mappings is not None and not mappings.is_empty
    tracker.catalogue.remove_slice("slice-worker-2")
    assert not mappings.is_empty
    tracker.catalogue.remove_slice("slice-worker")
    assert mappings.is_empty


def test_a_rule_that_nobody_knows_changes_nothing_when_it_goes() -> None:
    tracker = (
        World([claim()], [slice_of()], settings=settings_with("DRADeviceTaintRules=true")).start().tracker
    )
    tracker.catalogue.set_rule(RULE)
    before = tracker.revision
    tracker.catalogue.remove_rule("another")
    assert tracker.revision == before
    tracker.catalogue.remove_rule("out-of-order")
    assert tracker.revision == before + 1
