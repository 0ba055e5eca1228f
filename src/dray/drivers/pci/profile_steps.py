"""Write vGPU profiles to the host: look, plan (`profiles.py`), carry out, until nothing is left to do."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from dray.drivers.contract import Problem
from dray.drivers.failures import RETRIES, Apply, Attempts, Failures
from dray.drivers.pci.profiles import ProfilePlan, ProfileRule, ProfileView, plan_profiles
from dray.drivers.stepping import LOOK_AGAIN, ROUNDS, MayTake, Said, Step, again_in, asking_first
from dray.errors import Error
from dray.hardware.change import HostChange
from dray.hardware.host_root import HostRoot
from dray.hardware.pci import DEVICES, read_pci
from dray.hardware.vgpu import read_vgpus
from dray.runtime.backoff import Backoff
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.logs import get_log


class VgpuProfiles:
    """Gives functions their profiles. One thread at a time calls `step`; nothing is kept on the disk.

    `apply` is an executor's. Killed between clearing a profile and giving the next, the next process gives it.
    """

    def __init__(
        self,
        root: HostRoot,
        apply: Apply,
        *,
        clock: Clock | None = None,
        may_take: MayTake | None = None,
    ) -> None:
        self._root = root
        self._apply = asking_first(apply, may_take)
        self._clock = clock or SystemClock()
        self._failures = Failures()
        self._names: dict[int, str] = {}
        self._pause = Backoff(RETRIES)
        self._said = Said(get_log("drivers.pci"))

    def step(self, rules: Sequence[ProfileRule], held: AbstractSet[str] = frozenset()) -> Step:
        """Give what can be given now. When to call, and what to expect, is as for `MdevManager.step`.

        `held` are the PCI addresses in use. Without rules nothing is looked at.
        """
        changed: list[HostChange] = []
        if not rules:
            return Step()
        try:
            plan, seconds = self._run(rules, held, changed)
        except Error as error:
            problem = Problem(DEVICES, f"no vGPU profile is changed: {error}")
            plan, seconds = ProfilePlan(problems=(problem,)), self._pause.next()
        step = Step(tuple(changed), plan.problems, plan.unplaced, seconds)
        self._tell(step)
        return step

    def _run(
        self, rules: Sequence[ProfileRule], held: AbstractSet[str], changed: list[HostChange]
    ) -> tuple[ProfilePlan, float | None]:
        """The last plan, and the seconds to the next try."""
        for _ in range(ROUNDS):
            now = self._clock.monotonic()
            view, problems = self._look(held)
            plan = plan_profiles(view, rules, self._failures, now)
            plan = replace(plan, problems=(*problems, *plan.problems))
            if plan.is_done:
                self._pause.reset()
                return plan, again_in(plan.next_try, now, LOOK_AGAIN if plan.is_held else None)
            self._carry_out(plan, changed)
        restless = Problem(DEVICES, "vGPU profiles do not come to rest: who else changes them?")
        return replace(plan, problems=(*plan.problems, restless)), self._pause.next()

    def _look(self, held: AbstractSet[str]) -> tuple[ProfileView, tuple[Problem, ...]]:
        """Without the problems of `read_pci`, which the kind itself tells."""
        with self._root.sweep() as sweep:
            functions = read_pci(sweep).items
            vgpus = read_vgpus(sweep, functions)
        self._names |= {one.id: one.name for vgpu in vgpus.items for one in vgpu.creatable}
        by_address = {vgpu.address: vgpu for vgpu in vgpus.items}
        return ProfileView(functions, by_address, self._names, held), vgpus.problems

    def _carry_out(self, plan: ProfilePlan, changed: list[HostChange]) -> None:
        """A function that could not be cleared is not given anything."""
        attempts = Attempts(self._apply, self._failures, self._clock)
        failed: set[str] = set()
        for change in (*plan.clear, *plan.give):
            if change.address in failed:
                continue
            was_changed = attempts.make(change)
            if was_changed is None:
                failed.add(change.address)
            elif was_changed:
                changed.append(change)
        self._failures = attempts.failures

    def _tell(self, step: Step) -> None:
        for change in step.changed:
            self._said.log.info("vGPU profile set", device=change.device, what=change.describe())
        for target in self._said.news("unplaced", step.unplaced):
            self._said.log.info("no function here takes this vGPU profile", target=target)
        self._said.problems(step.problems)
