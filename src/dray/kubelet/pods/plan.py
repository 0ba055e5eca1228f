"""What to do next for one pod, from what it asks for and what the runtime has. Pure: asked again after every step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from dray.api.core import Pod
from dray.api.core.container import Container as ContainerSpec
from dray.kubelet.runtimes.contract import Container, Sandbox, State

ALWAYS, ON_FAILURE, NEVER = "Always", "OnFailure", "Never"


class Stage(Enum):
    """How far a pod has come."""

    INITIALIZING = 0
    RUNNING = 1
    ENDED = 2
    """Nothing of it will be started again; sidecars may still run."""


@dataclass(frozen=True, slots=True)
class Start:
    """A container to start, as its `attempt`-th run from 0; not before its pause is over, if it ran before."""

    name: str
    attempt: int
    after: Container | None = None

    @property
    def is_made(self) -> bool:
        """Whether the runtime has already created this container, and does not report it as started."""
        return self.after is not None and self.after.attempt == self.attempt


@dataclass(frozen=True, slots=True)
class Plan:
    """`start` may be worked on at once and in any order; `stop` and `remove` likewise."""

    stage: Stage
    start: tuple[Start, ...] = ()
    stop: tuple[Container, ...] = ()
    remove: tuple[Container, ...] = ()
    failed_init: str = ""
    """The init container because of which the pod failed."""


def is_sidecar(container: ContainerSpec) -> bool:
    """Whether an init container goes on beside the others."""
    return container.restart_policy == ALWAYS


@dataclass
class _Runs:
    """The runs of each container of one pod, the newest last."""

    by_name: dict[str, list[Container]] = field(default_factory=dict)

    @classmethod
    def of(cls, containers: Iterable[Container]) -> _Runs:
        runs = cls()
        for one in sorted(containers, key=lambda one: (one.name, one.attempt)):
            runs.by_name.setdefault(one.name, []).append(one)
        return runs

    def newest(self, name: str) -> Container | None:
        found = self.by_name.get(name)
        return found[-1] if found else None

    def next_start(self, name: str) -> Start:
        newest = self.newest(name)
        if newest is None:
            return Start(name, 0)
        # One that was made and never started is started, not made again.
        return Start(name, newest.attempt + (newest.state is not State.CREATED), newest)


def plan(pod: Pod, containers: Sequence[Container], sandboxes: Sequence[Sandbox]) -> Plan:
    """For a pod that shall run. `containers` and `sandboxes` are all that the runtime has of it.

    After a reboot, or when its sandbox died, a pod starts over: what ran in another sandbox initialized nothing here.
    """
    runs = _Runs.of(containers)
    old = tuple(one for name in sorted(runs.by_name) for one in runs.by_name[name][:-2])
    here = current_sandbox(containers, sandboxes)
    if _has_begun(pod, [one for one in containers if one.sandbox == here]) or not _has_work(pod, runs):
        return _main(pod, runs, old)
    return _initializing(pod, runs, old, here)


def current_sandbox(containers: Sequence[Container], sandboxes: Sequence[Sandbox]) -> str | None:
    """The one that counts: where something runs, else the ready one. None: the pod needs a new one."""
    running = [one.sandbox for one in containers if one.state is State.RUNNING]
    ready = [one.id for one in sandboxes if one.is_ready]
    return next((one for one in ready if one in running), None) or next(iter([*running, *ready]), None)


def newest_runs(containers: Iterable[Container]) -> Mapping[str, tuple[Container, Container | None]]:
    """The newest run of each container, and the one before it."""
    runs = _Runs.of(containers).by_name
    return {name: (found[-1], found[-2] if len(found) > 1 else None) for name, found in runs.items()}


def _has_begun(pod: Pod, here: Sequence[Container]) -> bool:
    """Whether a main container was ever made: then all init containers are done, though their records may be gone."""
    mains = {one.name for one in pod.spec.containers}
    return any(one.name in mains for one in here)


def _has_work(pod: Pod, runs: _Runs) -> bool:
    """Whether a main container is still to be run: nothing is initialized for one that ended for good."""
    return any(_shall_start(pod, runs, one.name) for one in pod.spec.containers)


def _initializing(pod: Pod, runs: _Runs, old: tuple[Container, ...], here: str | None) -> Plan:
    for one in pod.spec.init_containers:
        newest = runs.newest(one.name)
        if is_sidecar(one):
            if newest is None or newest.state is not State.RUNNING:
                return Plan(Stage.INITIALIZING, (runs.next_start(one.name),), remove=old)
            continue
        if newest is not None and newest.state is State.RUNNING:
            return Plan(Stage.INITIALIZING, remove=old)
        if newest is not None and newest.sandbox == here and _has_succeeded(newest):
            continue
        is_over = newest is not None and newest.state in (State.EXITED, State.UNKNOWN)
        if is_over and not _has_succeeded(newest) and pod.spec.restart_policy == NEVER:
            return _ended(pod, runs, old, failed_init=one.name)
        return Plan(Stage.INITIALIZING, (runs.next_start(one.name),), remove=old)
    starts = [runs.next_start(one.name) for one in pod.spec.containers if _shall_start(pod, runs, one.name)]
    return Plan(Stage.RUNNING, tuple(starts), remove=old)


def _main(pod: Pod, runs: _Runs, old: tuple[Container, ...]) -> Plan:
    starts = [runs.next_start(one.name) for one in pod.spec.containers if _shall_start(pod, runs, one.name)]
    lives = any(_is_running(runs, one.name) for one in pod.spec.containers)
    if not starts and not lives:
        return _ended(pod, runs, old)
    sidecars = [
        runs.next_start(one.name)
        for one in pod.spec.init_containers
        if is_sidecar(one) and not _is_running(runs, one.name)
    ]
    return Plan(Stage.RUNNING, (*sidecars, *starts), remove=old)


def _ended(pod: Pod, runs: _Runs, old: tuple[Container, ...], failed_init: str = "") -> Plan:
    """Sidecars end last, in the reverse order of their start."""
    running = [
        newest
        for one in reversed(pod.spec.init_containers)
        if (newest := runs.newest(one.name)) is not None and newest.state is State.RUNNING
    ]
    return Plan(Stage.ENDED, stop=tuple(running), remove=old, failed_init=failed_init)


def _shall_start(pod: Pod, runs: _Runs, name: str) -> bool:
    newest = runs.newest(name)
    if newest is None or newest.state is State.CREATED:
        return True
    if newest.state is State.RUNNING:
        return False
    if pod.spec.restart_policy == ON_FAILURE:
        return newest.state is State.UNKNOWN or newest.exit_code != 0
    return pod.spec.restart_policy != NEVER


def _has_succeeded(run: Container | None) -> bool:
    return run is not None and run.state is State.EXITED and run.exit_code == 0


def _is_running(runs: _Runs, name: str) -> bool:
    newest = runs.newest(name)
    return newest is not None and newest.state is State.RUNNING
