from __future__ import annotations

from dray.allocation.profiles import CORRECT
from dray.api.core import Namespace, Pod
from dray.api.kinds import PODS
from dray.api.meta import ObjectMeta
from dray.api.resource import ResourceClaim
from dray.client.access import ClusterAccess
from dray.client.client import Client
from dray.client.informer import Informer
from dray.client.store import Added, Deleted, Entry, Modified
from dray.runtime.clock import FakeClock
from dray.scheduler.claims.settings import Settings
from dray.scheduler.claims.tracking import Tracker
from dray.scheduler.cycle import Cycle
from dray.scheduler.decision import Placed
from dray.scheduler.feeding import BY_CLAIM, Feed, claims_of
from dray.scheduler.nodes import Nodes
from dray.scheduler.queue.device_hints import DYNAMIC_RESOURCES, claims_gate, device_hints
from dray.scheduler.queue.queue import SchedulingQueue
from dray.scheduler.queue.waiting import Place
from tests.scheduler.claims.objects import NOW, allocated, claim, device_class, pod, slice_of, template_entry
from tests.scheduler.objects import make_node, make_pod

SETTINGS = Settings.of_gates(CORRECT)


class Fed:
    """Handlers with what they feed; `news` counts how often the loop was woken."""

    def __init__(self) -> None:
        self.cycle = Cycle(Nodes(), Tracker(SETTINGS), SETTINGS)
        lookup = self.cycle.tracker.get
        self.queue = SchedulingQueue(device_hints(lookup), (claims_gate(lookup),))
        self.pods: Informer[Pod] = Informer(
            Client(ClusterAccess("http://x")), PODS, indexers={BY_CLAIM: claims_of}
        )
        self.news = 0
        self.claims: list[tuple[str, str]] = []
        self.feed = Feed(
            frozenset({"dray"}),
            self.cycle,
            self.queue,
            self.pods,
            FakeClock(),
            self._wake,
            self.claims.append,
        )

    def _wake(self) -> None:
        self.news += 1

    def place(self, uid: str) -> Place | None:
        waiting = self.queue.get(uid)
        return waiting.place if waiting else None


def entry(value: Pod) -> Entry[Pod]:
    return Entry((value.metadata.namespace, value.metadata.name), value.metadata.uid, "1", value)


def claim_entry(value: ResourceClaim) -> Entry[ResourceClaim]:
    return Entry(("default", value.metadata.name), value.metadata.uid, "1", value)


def test_whose_pods_go_where() -> None:
    fed = Fed()
    fed.feed.pod(Added(entry(make_pod("mine", schedulerName="dray"))))
    fed.feed.pod(Added(entry(make_pod("other", schedulerName="default-scheduler"))))
    fed.feed.pod(Added(entry(make_pod("there", node="n"))))
    fed.feed.pod(Added(entry(make_pod("over", node="n", status={"phase": "Failed"}))))
    assert [one.uid for one in fed.queue] == ["mine"]
    assert fed.cycle.nodes.pod("there") is not None and fed.cycle.nodes.pod("over") is None


def test_a_pod_that_is_about_to_be_bound_stays_counted() -> None:
    """Its status may change meanwhile; it looks as if it waited."""
    fed = Fed()
    fed.cycle.nodes.put_node(make_node("n"))
    waiting = make_pod("p", schedulerName="dray")
    fed.feed.pod(Added(entry(waiting)))
    assert fed.queue.pop(0.0) is not None
    decided = fed.cycle.decide(waiting, NOW)
    assert isinstance(decided, Placed)
    fed.feed.pod(Modified(entry(waiting), entry(make_pod("p", schedulerName="dray", labels={"a": "b"}))))
    assert fed.cycle.nodes.pod("p") is not None
    fed.feed.pod(Deleted(entry(waiting), "2"))
    assert fed.cycle.nodes.pod("p") is None
    fed.queue.failed("p", 0.0)
    assert fed.place("p") is None


def test_a_claim_is_told_to_those_who_use_it() -> None:
    fed = Fed()
    user, stranger = pod("a", name="user", schedulerName="dray"), pod("b", name="b", schedulerName="dray")
    for one in (user, stranger):
        fed.pods._take(Added(entry(one)))
        fed.feed.pod(Added(entry(one)))
        assert fed.place(one.metadata.uid) is Place.UNSCHEDULABLE  # its claim is not there
    fed.feed.claim(Added(claim_entry(claim(name="a"))))
    assert fed.place(user.metadata.uid) is Place.ACTIVE
    assert fed.place(stranger.metadata.uid) is Place.UNSCHEDULABLE
    assert fed.claims == [("default", "a")]


def test_free_devices_are_told_to_all_who_wait_for_some() -> None:
    fed = Fed()
    fed.cycle.tracker.catalogue.set_class(device_class())
    fed.cycle.nodes.put_node(make_node("worker"))
    fed.cycle.tracker.catalogue.set_slice(slice_of())
    held = allocated(name="held")
    fed.feed.claim(Added(claim_entry(held)))
    fed.feed.claim(Added(claim_entry(claim(name="a"))))
    waits = pod("a", name="p", schedulerName="dray")
    fed.feed.pod(Added(entry(waits)))
    assert fed.queue.pop(0.0) is not None
    fed.queue.failed(waits.metadata.uid, 0.0, [DYNAMIC_RESOURCES])
    assert fed.place(waits.metadata.uid) is Place.UNSCHEDULABLE
    fed.feed.claim(Deleted(claim_entry(held), "2"))
    assert fed.place(waits.metadata.uid) is Place.BACKOFF


def test_what_was_in_flight_for_a_pod_that_is_not_bound() -> None:
    fed = Fed()
    fed.cycle.tracker.catalogue.set_class(device_class())
    fed.cycle.nodes.put_node(make_node("worker"))
    fed.cycle.tracker.catalogue.set_slice(slice_of())
    for name in ("a", "b"):
        fed.feed.claim(Added(claim_entry(claim(name=name))))
    first, second = (pod(name, name=name, schedulerName="dray") for name in ("a", "b"))
    for one in (first, second):
        fed.feed.pod(Added(entry(one)))
        assert fed.queue.pop(0.0) is not None
    decided = fed.cycle.decide(first, NOW)
    assert isinstance(decided, Placed) and not isinstance(fed.cycle.decide(second, NOW), Placed)
    fed.queue.failed(second.metadata.uid, 0.0, [DYNAMIC_RESOURCES])
    fed.feed.released(decided)
    assert fed.place(second.metadata.uid) is Place.BACKOFF


def test_heartbeats_and_labels_of_namespaces() -> None:
    fed = Fed()
    node = make_node("n")
    fed.feed.node(Added(Entry(("", "n"), "u", "1", node)))
    generation = fed.cycle.nodes.generation
    fed.feed.node(Modified(Entry(("", "n"), "u", "1", node), Entry(("", "n"), "u", "2", make_node("n"))))
    assert fed.cycle.nodes.generation == generation
    fed.feed.node(Deleted(Entry(("", "n"), "u", "2", node), "3"))
    assert not len(fed.cycle.nodes)
    space = Namespace(metadata=ObjectMeta(name="a", labels={"x": "y"}))
    fed.feed.namespace(Added(Entry(("", "a"), "u", "1", space)))
    assert fed.cycle.namespaces == {"a": {"x": "y"}}
    fed.feed.namespace(Deleted(Entry(("", "a"), "u", "1", space), "2"))
    assert fed.cycle.namespaces == {}


def test_the_claims_of_a_pod() -> None:
    both = pod("named", template_entry("made"), made={"made": "generated"})
    assert list(claims_of(both)) == ["default/generated", "default/named"]
    assert list(claims_of(make_pod("p", node="n", resourceClaims=[{"resourceClaimName": "x"}]))) == []
