"""The queue: who is tried when, and what wakes whom. Times are numbers."""

from __future__ import annotations

import pytest

from dray.api.core import Pod
from dray.errors import InvariantError
from dray.scheduler.fit.filters import gated
from dray.scheduler.fit.rejection import Rejection
from dray.scheduler.queue.happenings import TIME_TO_TRY, Action, Happening, node_happening
from dray.scheduler.queue.hints import Interest, fit_hints
from dray.scheduler.queue.queue import SchedulingQueue
from dray.scheduler.queue.waiting import Place, QueueOptions
from tests.scheduler.objects import make_node, make_pod

FIT = ["NodeResourcesFit"]
STRICT = QueueOptions(is_eager=False)


def make_queue(options: QueueOptions | None = None) -> SchedulingQueue:
    return SchedulingQueue(fit_hints(), options=options)


def names(queue: SchedulingQueue, now: float) -> list[str]:
    found = []
    while (pod := queue.pop(now)) is not None:
        found.append(pod.metadata.name)
    return found


def place(queue: SchedulingQueue, uid: str) -> Place | None:
    waiting = queue.get(uid)
    return None if waiting is None else waiting.place


def new_node() -> Happening:
    happening = node_happening(None, make_node(cpu="8"))
    assert happening is not None
    return happening


def test_important_pods_first_then_those_that_wait_longer() -> None:
    queue = make_queue()
    for now, (name, priority) in enumerate([("a", 0), ("b", 5), ("c", 5), ("d", -1)]):
        queue.put(make_pod(name, priority=priority), now)
    queue.put(make_pod("e"), 9)
    assert names(queue, 10) == ["b", "c", "a", "e", "d"]


def test_a_refused_pod_waits_until_something_helps_it() -> None:
    queue = make_queue(STRICT)
    queue.put(make_pod("a", requests={"cpu": "1"}), 0)
    assert names(queue, 0) == ["a"]
    queue.failed("a", 0, FIT)
    assert place(queue, "a") is Place.UNSCHEDULABLE and names(queue, 100) == []
    small = node_happening(None, make_node(cpu="100m"))
    assert small is not None
    queue.happened(small, 100)
    assert place(queue, "a") is Place.UNSCHEDULABLE
    queue.happened(new_node(), 100)
    assert names(queue, 100) == ["a"]


def test_backoff_doubles_up_to_its_limit() -> None:
    queue, now, waits = make_queue(STRICT), 0.0, []
    queue.put(make_pod("a"), now)
    for _ in range(6):
        assert names(queue, now) == ["a"]
        queue.failed("a", now, FIT)
        queue.happened(new_node(), now)
        due = queue.next_due()
        assert place(queue, "a") is Place.BACKOFF and due is not None
        assert names(queue, due - 0.01) == []
        waits.append(due - now)
        now = due
    assert waits == [1, 2, 4, 8, 10, 10]


def test_an_eager_queue_ends_backoffs_on_whole_seconds_and_does_not_wait_when_idle() -> None:
    queue = make_queue()
    for name, priority in (("a", 0), ("b", 9)):
        queue.put(make_pod(name, priority=priority), 0)
    assert names(queue, 0) == ["b", "a"]
    queue.failed("a", 0.1, FIT)
    queue.failed("b", 0.7, FIT)
    queue.happened(new_node(), 0.7)
    assert queue.next_due() == 2.0
    assert names(queue, 0.8) == ["b", "a"]


def test_errors_back_off_without_being_woken_and_are_not_hurried() -> None:
    queue = make_queue()
    queue.put(make_pod("a"), 0)
    for now in (0, 2):
        assert names(queue, now) == ["a"]
        queue.failed("a", now)
        assert place(queue, "a") is Place.BACKOFF and names(queue, now) == []
    assert queue.next_due() == 5.0 and names(queue, 5.0) == ["a"]
    queue.failed("a", 5, FIT)
    waiting = queue.get("a")
    assert waiting is not None and (
        waiting.attempts.errors,
        waiting.attempts.refusals,
        waiting.attempts.tries,
    ) == (0, 1, 3)


def test_what_nothing_helps_is_tried_again_after_five_minutes() -> None:
    queue = make_queue(STRICT)
    queue.put(make_pod("a"), 0)
    assert names(queue, 0) == ["a"]
    queue.failed("a", 7, FIT)
    assert queue.next_due() == 307 and names(queue, 306.9) == []
    assert names(queue, 307) == ["a"]


def test_news_during_a_try_is_not_lost() -> None:
    queue = make_queue(STRICT)
    queue.put(make_pod("a"), 0)
    queue.put(make_pod("b"), 1)
    assert queue.pop(2) is not None
    queue.happened(new_node(), 2)
    assert queue.pop(2) is not None
    queue.failed("a", 3, FIT)
    queue.failed("b", 3, FIT)
    assert place(queue, "a") is Place.BACKOFF
    assert place(queue, "b") is Place.UNSCHEDULABLE


def test_a_pod_that_changes_during_a_try_comes_back_changed() -> None:
    queue = make_queue(STRICT)
    queue.put(make_pod("a"), 0)
    assert queue.pop(0) is not None
    queue.put(make_pod("a", tolerations=[{"operator": "Exists"}]), 0)
    queue.failed("a", 0, ["TaintToleration"])
    assert place(queue, "a") is Place.BACKOFF
    pod = queue.pop(1)
    assert pod is not None and len(pod.spec.tolerations) == 1


def test_own_change_wakes_only_for_a_check_that_it_helps() -> None:
    queue = make_queue(STRICT)
    queue.put(make_pod("a"), 0)
    assert names(queue, 0) == ["a"]
    queue.failed("a", 0, FIT)
    queue.put(make_pod("a", tolerations=[{"operator": "Exists"}]), 50)
    assert place(queue, "a") is Place.UNSCHEDULABLE
    waiting = queue.get("a")
    assert waiting is not None and waiting.pod.spec.tolerations


def test_gates_hold_a_pod_until_they_are_gone() -> None:
    queue = make_queue()
    queue.put(make_pod("a", schedulingGates=[{"name": "x"}, {"name": "y"}]), 0)
    queue.happened(new_node(), 1)
    queue.happened(TIME_TO_TRY, 1)
    queue.activate("a", 1)
    queue.flush(1000)
    waiting = queue.get("a")
    assert names(queue, 1000) == [] and waiting is not None
    assert str(waiting.gate) == "waiting for scheduling gates: [x y]"
    queue.put(make_pod("a", schedulingGates=[{"name": "x"}]), 1000)
    assert names(queue, 1000) == []
    queue.put(make_pod("a"), 1001)
    assert names(queue, 1001) == ["a"] and waiting.gate is None


def test_a_gate_of_another_check_opens_by_its_own_news() -> None:
    exists = set[str]()

    def claims(pod: Pod) -> Rejection | None:
        return None if exists else Rejection(check="Claims", reasons=("waiting for claim",))

    hints = {**fit_hints(), "Claims": [Interest("ResourceClaim", Action.ADD)]}
    queue = SchedulingQueue(hints, [gated, claims])
    queue.put(make_pod("a"), 0)
    queue.happened(new_node(), 0)
    queue.happened(Happening("ResourceClaim", Action.ADD), 0)
    assert names(queue, 0) == []
    exists.add("c")
    queue.happened(new_node(), 0)
    assert names(queue, 0) == []
    queue.happened(Happening("ResourceClaim", Action.ADD), 0)
    assert names(queue, 0) == ["a"]


def test_the_answer_that_a_pod_waited_for_ends_its_backoff() -> None:
    hints = {**fit_hints(), "Claims": [Interest("ResourceClaim", Action.ADD)]}
    queue = SchedulingQueue(hints, options=STRICT)
    queue.put(make_pod("a"), 0)
    assert names(queue, 0) == ["a"]
    queue.failed("a", 0, FIT, pending=["Claims"])
    queue.happened(new_node(), 0)
    assert place(queue, "a") is Place.BACKOFF
    assert names(queue, 1) == ["a"]
    queue.failed("a", 1, FIT, pending=["Claims"])
    queue.happened(Happening("ResourceClaim", Action.ADD), 1)
    assert names(queue, 1) == ["a"]


def test_activation() -> None:
    queue = make_queue(STRICT)
    for name in ("a", "b"):
        queue.put(make_pod(name), 0)
    assert names(queue, 0) == ["a", "b"]
    queue.activate("a", 0)
    queue.failed("a", 0, FIT)
    queue.failed("b", 0, FIT)
    assert place(queue, "a") is Place.BACKOFF and place(queue, "b") is Place.UNSCHEDULABLE
    queue.activate("b", 0)
    queue.activate("unknown", 0)
    assert names(queue, 0) == ["b"]


def test_a_bound_pod_does_not_come_back() -> None:
    queue = make_queue()
    queue.put(make_pod("a"), 0)
    assert names(queue, 0) == ["a"]
    queue.bound("a")
    queue.put(make_pod("a", labels={"late": "news"}), 1)
    queue.happened(TIME_TO_TRY, 1)
    assert names(queue, 1000) == [] and place(queue, "a") is Place.BOUND
    queue.delete("a")
    queue.delete("a")
    assert queue.get("a") is None


@pytest.mark.parametrize("is_bound", [True, False])
def test_a_pod_that_goes_during_its_try_is_forgotten(is_bound: bool) -> None:
    queue = make_queue()
    queue.put(make_pod("a"), 0)
    assert names(queue, 0) == ["a"]
    queue.delete("a")
    assert place(queue, "a") is Place.IN_FLIGHT
    queue.bound("a") if is_bound else queue.failed("a", 0, FIT)
    assert queue.get("a") is None and names(queue, 1000) == []


def test_a_try_that_never_began_cannot_end() -> None:
    queue = make_queue()
    queue.put(make_pod("a"), 0)
    with pytest.raises(InvariantError):
        queue.bound("a")
    with pytest.raises(InvariantError):
        queue.failed("b", 0)


def test_counts() -> None:
    queue = make_queue(STRICT)
    for name in "abcd":
        queue.put(make_pod(name), 0)
    for _ in "abc":
        assert queue.pop(0) is not None
    queue.failed("a", 0, FIT)
    queue.failed("b", 0)
    assert queue.counts() == {
        Place.ACTIVE: 1,
        Place.BACKOFF: 1,
        Place.UNSCHEDULABLE: 1,
        Place.IN_FLIGHT: 1,
    }
    assert len(list(queue)) == 4
