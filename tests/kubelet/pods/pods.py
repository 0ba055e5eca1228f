"""Pods and runs of containers for the tests of this room."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from dray.api.codec import view
from dray.api.core import Pod
from dray.kubelet.runtimes.contract import Container, PodIdentity, Sandbox, State

START = datetime(2030, 1, 1, tzinfo=UTC)


def pod(*containers: str, inits: tuple[str, ...] = (), policy: str = "Always", **spec: Any) -> Pod:
    """Init containers whose name begins with "side" are sidecars."""
    document = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u1"},
        "spec": {
            "restartPolicy": policy,
            "initContainers": [
                {"name": name, "image": "i"}
                | ({"restartPolicy": "Always"} if name.startswith("side") else {})
                for name in inits
            ],
            "containers": [{"name": name, "image": "i"} for name in containers],
            **spec,
        },
    }
    return view(document, Pod)


def run(
    name: str,
    state: State = State.RUNNING,
    code: int = 0,
    attempt: int = 0,
    seconds: float = 5,
    sandbox: str = "s0",
) -> Container:
    """One run, that began at START and took some seconds if it ended."""
    ended = state in (State.EXITED, State.UNKNOWN)
    return Container(
        id=f"{name}-{attempt}",
        pod=PodIdentity("u1", "ns", "p"),
        name=name,
        attempt=attempt,
        state=state,
        sandbox=sandbox,
        exit_code=code,
        started_at=None if state is State.CREATED else START,
        finished_at=START + timedelta(seconds=seconds) if ended else None,
    )


def sandbox(name: str = "s0", *, is_ready: bool = True) -> Sandbox:
    """Its number is its attempt."""
    return Sandbox(name, PodIdentity("u1", "ns", "p"), int(name[1:]), is_ready)
