from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from dray.api.codec.json_codec import view
from dray.api.core import Pod
from dray.apiserver.http.showing.pod_cells import pod_cells

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
RUNNING: dict[str, Any] = {"running": {}}
DONE = {"terminated": {"exitCode": 0, "reason": "Completed"}}


def run(name: str, state: Any = RUNNING, ready: bool = True, **more: Any) -> dict[str, Any]:
    return {"name": name, "state": state, "ready": ready, **more}


def cells(
    *runs: Any, init: Any = (), inits: Any = (), meta: Any = (), spec: Any = (), **status: Any
) -> list[Any]:
    names = [one["name"] for one in runs] or ["a"]
    document = {
        "metadata": {"name": "p", "creationTimestamp": "2026-11-15T11:59:00Z", **dict(meta)},
        "spec": {"containers": [{"name": one} for one in names], "initContainers": [*init], **dict(spec)},
        "status": {
            "phase": "Running",
            "containerStatuses": [*runs],
            "initContainerStatuses": [*inits],
            **status,
        },
    }
    return pod_cells(view(document, Pod), NOW)


READY = [{"type": "Ready", "status": "True"}]
INITIALIZED = [{"type": "Initialized", "status": "True"}]
SIDECAR = {"name": "s", "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("found", "ready", "status"),
    [
        (cells(phase="Pending"), "0/1", "Pending"),
        (cells(run("a"), run("b", ready=False)), "1/2", "Running"),
        (cells(phase="Failed", reason="Evicted"), "0/1", "Evicted"),
        (
            cells(phase="Pending", conditions=[{"type": "PodScheduled", "reason": "SchedulingGated"}]),
            "0/1",
            "SchedulingGated",
        ),
        (cells(run("a", {"waiting": {"reason": "ErrImagePull"}}, False)), "0/1", "ErrImagePull"),
        (cells(run("a", {"terminated": {"exitCode": 3}}, False)), "0/1", "ExitCode:3"),
        (cells(run("a", {"terminated": {"exitCode": 137, "signal": 9}}, False)), "0/1", "Signal:9"),
        (cells(run("a", {"terminated": {"exitCode": 1, "reason": "Error"}}, False)), "0/1", "Error"),
        (cells(run("a", DONE, False), phase="Succeeded"), "0/1", "Completed"),
        (cells(run("a", DONE, False), run("b"), conditions=READY), "1/2", "Running"),
        (cells(run("a", DONE, False), run("b")), "1/2", "NotReady"),
        (
            cells(run("a", DONE, False), run("b", {"terminated": {"exitCode": 2, "reason": "Error"}}, False)),
            "0/2",
            "Error",
        ),
        (
            cells(
                init=[{"name": "i"}, {"name": "j"}], inits=[run("i", DONE, False), run("j")], phase="Pending"
            ),
            "0/1",
            "Init:1/2",
        ),
        (
            cells(init=[{"name": "i"}], inits=[run("i", {"terminated": {"exitCode": 4}})], phase="Pending"),
            "0/1",
            "Init:ExitCode:4",
        ),
        (
            cells(init=[{"name": "i"}], inits=[run("i", {"waiting": {"reason": "CrashLoopBackOff"}})]),
            "0/1",
            "Init:CrashLoopBackOff",
        ),
        (
            cells(init=[{"name": "i"}], inits=[run("i", {"waiting": {"reason": "PodInitializing"}})]),
            "0/1",
            "Init:0/1",
        ),
        (cells(run("a"), init=[SIDECAR], inits=[run("s", started=True)]), "2/2", "Running"),
        (
            cells(run("a"), init=[SIDECAR], inits=[run("s", started=False)], conditions=INITIALIZED),
            "1/2",
            "Init:0/1",
        ),
        (cells(run("a"), meta={"deletionTimestamp": "2026-11-15T12:00:00Z"}.items()), "1/1", "Terminating"),
        (cells(phase="Failed", meta={"deletionTimestamp": "2026-11-15T12:00:00Z"}.items()), "0/1", "Failed"),
        (
            cells(reason="NodeLost", meta={"deletionTimestamp": "2026-11-15T12:00:00Z"}.items()),
            "0/1",
            "Unknown",
        ),
    ],
)
def test_ready_and_status(found: list[Any], ready: str, status: str) -> None:
    assert (found[1], found[2]) == (ready, status)


def test_restarts_count_what_matters_now() -> None:
    ended = {"terminated": {"exitCode": 1, "finishedAt": "2026-11-15T11:55:00Z"}}
    later = {"terminated": {"exitCode": 1, "finishedAt": "2026-11-15T11:58:00Z"}}
    initializing = cells(
        init=[{"name": "i"}], inits=[run("i", {"running": {}}, restartCount=2, lastState=ended)]
    )
    assert initializing[3] == "2 (5m ago)"
    both = cells(
        run("a", restartCount=1, lastState=later),
        init=[{"name": "i"}, SIDECAR],
        inits=[
            run("i", DONE, restartCount=7, lastState=later),
            run("s", started=True, restartCount=3, lastState=ended),
        ],
    )
    assert both[3] == "4 (2m ago)"
    assert cells(run("a", restartCount=1))[3] == "1"


def test_wide_columns() -> None:
    assert cells()[5:] == ["<none>"] * 4
    spec = {"nodeName": "n", "readinessGates": [{"conditionType": "x"}, {"conditionType": "y"}]}
    wide = cells(
        spec=spec.items(),
        podIPs=[{"ip": "10.0.0.1"}],
        nominatedNodeName="m",
        conditions=[{"type": "x", "status": "True"}, {"type": "y", "status": "False"}],
    )
    assert wide[4:] == ["60s", "10.0.0.1", "n", "m", "1/2"]
