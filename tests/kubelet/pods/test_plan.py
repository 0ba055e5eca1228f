from __future__ import annotations

from collections.abc import Sequence

import pytest

from dray.api.core import Pod
from dray.kubelet.pods.plan import Plan, Stage, newest_runs, plan
from dray.kubelet.runtimes.contract import Container, Sandbox, State
from tests.kubelet.pods.pods import pod, run, sandbox

EXITED, RUNNING, CREATED, UNKNOWN = State.EXITED, State.RUNNING, State.CREATED, State.UNKNOWN


def planned(wanted: Pod, runs: Sequence[Container], *sandboxes: Sandbox) -> Plan:
    """In one sandbox that is ready, unless others are given."""
    return plan(wanted, runs, sandboxes or (sandbox(),))


def starts(found: Plan) -> list[tuple[str, int]]:
    return [(one.name, one.attempt) for one in found.start]


def test_all_main_containers_start_at_once() -> None:
    found = planned(pod("a", "b"), [])
    assert (found.stage, starts(found)) == (Stage.RUNNING, [("a", 0), ("b", 0)])


def test_what_runs_is_left_alone() -> None:
    found = planned(pod("a", "b"), [run("a"), run("b")])
    assert (found.stage, found.start, found.stop) == (Stage.RUNNING, (), ())


def test_one_that_was_made_and_never_started_is_started_not_made_again() -> None:
    assert starts(planned(pod("a"), [run("a", CREATED)])) == [("a", 0)]
    assert starts(planned(pod("a"), [run("a", EXITED, 1), run("a", CREATED, attempt=1)])) == [("a", 1)]


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
    found = planned(pod("a", policy=policy), [run("a", state, code)])
    assert starts(found) == ([("a", 1)] if again else [])
    assert found.stage is (Stage.RUNNING if again else Stage.ENDED)


def test_one_that_ended_for_good_waits_for_the_others() -> None:
    found = planned(pod("a", "b", policy="Never"), [run("a", EXITED), run("b")])
    assert (found.stage, found.start) == (Stage.RUNNING, ())


def test_init_containers_run_one_after_the_other() -> None:
    wanted = pod("a", inits=("i1", "i2"))
    assert starts(planned(wanted, [])) == [("i1", 0)]
    assert starts(planned(wanted, [run("i1")])) == []
    assert starts(planned(wanted, [run("i1", EXITED)])) == [("i2", 0)]
    assert planned(wanted, [run("i1", EXITED), run("i2")]).stage is Stage.INITIALIZING
    done = planned(wanted, [run("i1", EXITED), run("i2", EXITED)])
    assert (done.stage, starts(done)) == (Stage.RUNNING, [("a", 0)])


def test_a_failed_init_container_is_tried_again_unless_never() -> None:
    assert starts(planned(pod("a", inits=("i",)), [run("i", EXITED, 1)])) == [("i", 1)]
    assert starts(planned(pod("a", inits=("i",), policy="OnFailure"), [run("i", UNKNOWN)])) == [("i", 1)]
    found = planned(pod("a", inits=("i",), policy="Never"), [run("i", EXITED, 1)])
    assert (found.stage, found.failed_init, found.start) == (Stage.ENDED, "i", ())


def test_init_containers_whose_records_are_gone_do_not_run_again() -> None:
    found = planned(pod("a", inits=("i",)), [run("a", EXITED, 1)])
    assert starts(found) == [("a", 1)]


def test_a_sidecar_runs_before_the_next_and_is_kept_running() -> None:
    wanted = pod("a", inits=("side", "i"))
    assert starts(planned(wanted, [])) == [("side", 0)]
    assert starts(planned(wanted, [run("side")])) == [("i", 0)]
    assert starts(planned(wanted, [run("side", EXITED), run("i")])) == [("side", 1)]
    assert starts(planned(wanted, [run("side"), run("i", EXITED)])) == [("a", 0)]
    found = planned(wanted, [run("side", EXITED), run("i", EXITED), run("a")])
    assert (found.stage, starts(found)) == (Stage.RUNNING, [("side", 1)])


def test_sidecars_end_last_in_reverse_order() -> None:
    wanted = pod("a", inits=("side1", "side2"), policy="Never")
    found = planned(wanted, [run("side1"), run("side2"), run("a", EXITED)])
    assert found.stage is Stage.ENDED
    assert [one.name for one in found.stop] == ["side2", "side1"]


def test_the_two_newest_runs_are_kept() -> None:
    runs = [run("a", EXITED, 1, attempt) for attempt in range(4)]
    found = planned(pod("a"), runs)
    assert [one.attempt for one in found.remove] == [0, 1]
    assert starts(found) == [("a", 4)]
    newest, before = newest_runs(runs)["a"]
    assert before is not None
    assert (newest.attempt, before.attempt) == (3, 2)


AFTER_A_REBOOT = [run("i", EXITED), run("side", UNKNOWN), run("a", UNKNOWN), run("b", EXITED)]


def test_after_a_reboot_a_pod_starts_over_with_its_init_containers() -> None:
    wanted, gone = pod("a", "b", inits=("i", "side")), sandbox(is_ready=False)
    assert starts(planned(wanted, AFTER_A_REBOOT, gone)) == [("i", 1)]
    new = (gone, sandbox("s1"))
    assert starts(planned(wanted, AFTER_A_REBOOT, *new)) == [("i", 1)]
    runs = [*AFTER_A_REBOOT, run("i", attempt=1, sandbox="s1")]
    assert planned(wanted, runs, *new).start == ()
    runs[-1] = run("i", EXITED, attempt=1, sandbox="s1")
    assert starts(planned(wanted, runs, *new)) == [("side", 1)]
    runs.append(run("side", attempt=1, sandbox="s1"))
    done = planned(wanted, runs, *new)
    assert (done.stage, starts(done)) == (Stage.RUNNING, [("a", 1), ("b", 1)])
    runs.append(run("a", attempt=1, sandbox="s1"))
    assert starts(planned(wanted, runs, *new)) == [("b", 1)]


def test_after_a_reboot_what_ended_for_good_is_not_initialized_again() -> None:
    gone = sandbox(is_ready=False)
    succeeded = [run("i", EXITED), run("a", EXITED)]
    assert planned(pod("a", inits=("i",), policy="OnFailure"), succeeded, gone).stage is Stage.ENDED
    found = planned(pod("a", "b", inits=("i",), policy="OnFailure"), [*succeeded, run("b", UNKNOWN)], gone)
    assert starts(found) == [("i", 1)]
    runs = [*succeeded, run("b", UNKNOWN), run("i", EXITED, attempt=1, sandbox="s1")]
    found = planned(pod("a", "b", inits=("i",), policy="OnFailure"), runs, gone, sandbox("s1"))
    assert starts(found) == [("b", 1)]
    never = pod("a", inits=("i",), policy="Never")
    assert planned(never, [run("i", EXITED), run("a", UNKNOWN)], gone).stage is Stage.ENDED
    assert planned(never, [run("i", UNKNOWN)], gone).failed_init == "i"
    assert starts(planned(never, [run("i", EXITED), run("a", CREATED)], gone)) == [("i", 1)]


def test_a_sandbox_that_looks_dead_is_not_given_up_while_something_runs_in_it() -> None:
    wanted, gone = pod("a", "b", inits=("i",)), sandbox(is_ready=False)
    runs = [run("i", EXITED), run("a"), run("b", EXITED, 1)]
    assert starts(planned(wanted, runs, gone)) == [("b", 1)]
    assert starts(planned(wanted, runs, gone, sandbox("s1"))) == [("b", 1)]
