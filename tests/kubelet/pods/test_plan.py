from __future__ import annotations

import pytest

from dray.kubelet.pods.plan import Plan, Stage, newest_runs, plan
from dray.kubelet.runtimes.contract import State
from tests.kubelet.pods.pods import pod, run

EXITED, RUNNING, CREATED, UNKNOWN = State.EXITED, State.RUNNING, State.CREATED, State.UNKNOWN


def starts(found: Plan) -> list[tuple[str, int]]:
    return [(one.name, one.attempt) for one in found.start]


def test_all_main_containers_start_at_once() -> None:
    found = plan(pod("a", "b"), [])
    assert (found.stage, starts(found)) == (Stage.RUNNING, [("a", 0), ("b", 0)])


def test_what_runs_is_left_alone() -> None:
    found = plan(pod("a", "b"), [run("a"), run("b")])
    assert (found.stage, found.start, found.stop) == (Stage.RUNNING, (), ())


def test_one_that_was_made_and_never_started_is_started_not_made_again() -> None:
    assert starts(plan(pod("a"), [run("a", CREATED)])) == [("a", 0)]
    assert starts(plan(pod("a"), [run("a", EXITED, 1), run("a", CREATED, attempt=1)])) == [("a", 1)]


@pytest.mark.parametrize(
    ("policy", "state", "code", "again"),
    [
        ("Always", EXITED, 0, True),
        ("Always", EXITED, 1, True),
        ("Always", UNKNOWN, 0, True),
        ("OnFailure", EXITED, 0, False),
        ("OnFailure", EXITED, 1, True),
        ("OnFailure", UNKNOWN, 0, True),
        ("Never", EXITED, 0, False),
        ("Never", EXITED, 1, False),
        ("Never", UNKNOWN, 0, False),
    ],
)
def test_the_restart_policy_decides(policy: str, state: State, code: int, again: bool) -> None:
    found = plan(pod("a", policy=policy), [run("a", state, code)])
    assert starts(found) == ([("a", 1)] if again else [])
    assert found.stage is (Stage.RUNNING if again else Stage.ENDED)


def test_one_that_ended_for_good_waits_for_the_others() -> None:
    found = plan(pod("a", "b", policy="Never"), [run("a", EXITED), run("b")])
    assert (found.stage, found.start) == (Stage.RUNNING, ())


def test_init_containers_run_one_after_the_other() -> None:
    wanted = pod("a", inits=("i1", "i2"))
    assert starts(plan(wanted, [])) == [("i1", 0)]
    assert starts(plan(wanted, [run("i1")])) == []
    assert starts(plan(wanted, [run("i1", EXITED)])) == [("i2", 0)]
    assert plan(wanted, [run("i1", EXITED), run("i2")]).stage is Stage.INITIALIZING
    done = plan(wanted, [run("i1", EXITED), run("i2", EXITED)])
    assert (done.stage, starts(done)) == (Stage.RUNNING, [("a", 0)])


def test_a_failed_init_container_is_tried_again_unless_never() -> None:
    assert starts(plan(pod("a", inits=("i",)), [run("i", EXITED, 1)])) == [("i", 1)]
    assert starts(plan(pod("a", inits=("i",), policy="OnFailure"), [run("i", UNKNOWN)])) == [("i", 1)]
    found = plan(pod("a", inits=("i",), policy="Never"), [run("i", EXITED, 1)])
    assert (found.stage, found.failed_init, found.start) == (Stage.ENDED, "i", ())


def test_init_containers_whose_records_are_gone_do_not_run_again() -> None:
    found = plan(pod("a", inits=("i",)), [run("a", EXITED, 1)])
    assert starts(found) == [("a", 1)]


def test_a_sidecar_runs_before_the_next_and_is_kept_running() -> None:
    wanted = pod("a", inits=("side", "i"))
    assert starts(plan(wanted, [])) == [("side", 0)]
    assert starts(plan(wanted, [run("side")])) == [("i", 0)]
    assert starts(plan(wanted, [run("side", EXITED), run("i")])) == [("side", 1)]
    assert starts(plan(wanted, [run("side"), run("i", EXITED)])) == [("a", 0)]
    found = plan(wanted, [run("side", EXITED), run("i", EXITED), run("a")])
    assert (found.stage, starts(found)) == (Stage.RUNNING, [("side", 1)])


def test_sidecars_end_last_in_reverse_order() -> None:
    wanted = pod("a", inits=("side1", "side2"), policy="Never")
    found = plan(wanted, [run("side1"), run("side2"), run("a", EXITED)])
    assert found.stage is Stage.ENDED
    assert [one.name for one in found.stop] == ["side2", "side1"]


def test_the_two_newest_runs_are_kept() -> None:
    runs = [run("a", EXITED, 1, attempt) for attempt in range(4)]
    found = plan(pod("a"), runs)
    assert [one.attempt for one in found.remove] == [0, 1]
    assert starts(found) == [("a", 4)]
    newest, before = newest_runs(runs)["a"]
    assert before is not None
    assert (newest.attempt, before.attempt) == (3, 2)
