"""Keep the machine's mediated devices as the configuration wants them: the step around plan and ownership.

The one place where look, plan and carrying out meet. Between two steps only what failed of late is remembered; all else
is on the disk or on the host, so a process that is killed anywhere in a step leaves the next one nothing but work.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from dray.drivers.contract import Problem
from dray.drivers.failures import RETRIES, Apply, Failures, key_of
from dray.drivers.mdev.ownership import Ownership, carry_out
from dray.drivers.mdev.plan import MdevPlan, Why, plan_mdevs
from dray.drivers.mdev.situation import View, Wishes
from dray.drivers.stepping import LOOK_AGAIN, ROUNDS, MayTake, Said, Step, again_in, asking_first
from dray.errors import Error, NotFoundError
from dray.hardware.change import CreateMdev, RemoveMdev
from dray.hardware.host_root import HostRoot
from dray.hardware.mdev import INSTANCES, Mdev, read_mdev_cards, read_mdev_parents, read_mdevs
from dray.runtime.backoff import Backoff
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.logs import get_log

FILE = "mdevs"
_MACHINE_ID = "/etc/machine-id"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_LASTING = 10.0  # seconds that a new device lives at least, unless something is wrong
_ROOM = 2.0  # seconds after which a card shows the room that a device left; the kernel counts after it has told of the end


@dataclass(frozen=True, slots=True)
class MdevStep(Step):
    """`unsaved` says why the file lags behind the host, `lost` what became of a file that could not be used: only an
    operator can then tell which of the devices that exist may go. Neither keeps existing devices from being served."""

    unsaved: str = ""
    lost: str = ""

    @property
    def created(self) -> tuple[CreateMdev, ...]:
        """The devices it made."""
        return tuple(change for change in self.changed if isinstance(change, CreateMdev))

    @property
    def removed(self) -> tuple[RemoveMdev, ...]:
        """The devices it removed."""
        return tuple(change for change in self.changed if isinstance(change, RemoveMdev))


@dataclass(slots=True)
class _Work:
    """One step under way; an error in a later round does not lose what the earlier ones did."""

    changed: list[CreateMdev | RemoveMdev] = field(default_factory=list)
    seen: dict[str, Mdev] = field(default_factory=dict)
    plan: MdevPlan = field(default_factory=MdevPlan)
    problems: tuple[Problem, ...] = ()
    unsaved: str = ""
    has_gone: bool = False


def _waits(work: _Work) -> Iterator[float]:
    """When to look again though nothing failed."""
    if any(kept.why is Why.HELD for kept in work.plan.kept):
        yield LOOK_AGAIN
    if work.has_gone:
        yield _ROOM


class MdevManager:
    """Makes and removes mediated devices. One thread at a time calls `step`; leaving closes the file.

    `apply` is an executor's. The file of what is ours lies in `state_dir`; the first step that manages opens it, so an
    agent that manages nothing needs none, and a directory that cannot be used is a problem of the step, tried again
    later. A second process with the same directory gets such a problem too, and changes nothing.
    """

    def __init__(
        self,
        root: HostRoot,
        state_dir: Path,
        apply: Apply,
        *,
        clock: Clock | None = None,
        may_take: MayTake | None = None,
    ) -> None:
        self._root, self._file = root, state_dir / FILE
        self._apply = asking_first(apply, may_take)
        self._clock = clock or SystemClock()
        self._exits = ExitStack()
        self._ownership: Ownership | None = None
        self._failures = Failures()
        self._fights = _Fights()
        self._present: frozenset[str] = frozenset()
        self._pause = Backoff(RETRIES)
        self._said = Said(get_log("drivers.mdev"))

    def __enter__(self) -> MdevManager:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ownership = None
        self._exits.close()

    def step(self, wishes: Wishes, held: AbstractSet[str] = frozenset()) -> MdevStep:
        """Bring the host nearer to the wishes, as near as it goes now. Waits for the hardware: call it in a thread.

        Call it at start, when the configuration or the host changed, and when `again_in` is over; too often is harmless.
        `held` are the UUIDs in use. It raises nothing that a later step could do better.
        """
        if not wishes.managed:
            return MdevStep()
        work = _Work()
        try:
            seconds = self._run(replace(wishes, seed=wishes.seed or self._machine_id()), held, work)
        except Error as error:
            work.problems = (Problem(INSTANCES, f"no mediated device is changed: {error}"),)
            seconds = self._pause.next()
        lost = self._ownership.lost if self._ownership is not None else ""
        problems = (*work.problems, *work.plan.problems)
        step = MdevStep(tuple(work.changed), problems, work.plan.unplaced, seconds, work.unsaved, lost)
        self._tell(step, work.seen)
        return step

    def _run(self, wishes: Wishes, held: AbstractSet[str], work: _Work) -> float | None:
        """Seconds to the next try."""
        ownership = self._opened()
        for _ in range(ROUNDS):
            view = self._look(held, work)
            work.unsaved = ownership.see(view)
            work.plan = self._plan(view, wishes, ownership)
            if work.plan.is_done:
                self._pause.reset()
                return again_in(work.plan.next_try, self._clock.monotonic(), *_waits(work))
            self._carry_out(work, ownership)
        work.problems += (Problem(INSTANCES, "mediated devices do not come to rest: who else changes them?"),)
        return self._pause.next()

    def _opened(self) -> Ownership:
        if self._ownership is None:
            ownership = Ownership(self._file, self._boot_id(), clock=self._clock)
            self._ownership = self._exits.enter_context(ownership)
        return self._ownership

    def _look(self, held: AbstractSet[str], work: _Work) -> View:
        """Cards before devices: of a device made meanwhile the look must know, of room that is gone it need not."""
        with self._root.sweep() as sweep:
            parents, mdevs = read_mdev_parents(sweep), read_mdevs(sweep)
            cards = read_mdev_cards(sweep) if mdevs.problems else {}
        work.problems = parents.problems
        work.seen |= {mdev.uuid: mdev for mdev in mdevs.items}
        view = View.of(parents, mdevs, cards, held)
        work.has_gone = work.has_gone or not self._present <= view.present
        self._present = view.present
        return view

    def _plan(self, view: View, wishes: Wishes, ownership: Ownership) -> MdevPlan:
        now = self._clock.monotonic()
        self._fights.forget(view, now)
        plan = plan_mdevs(view, wishes, ownership.owned, self._failures.joined(self._fights.lost), now)
        if self._fights.notice(plan, now):
            plan = plan_mdevs(view, wishes, ownership.owned, self._failures.joined(self._fights.lost), now)
        return plan

    def _carry_out(self, work: _Work, ownership: Ownership) -> None:
        done = carry_out(work.plan, self._apply, ownership, self._failures, self._clock)
        self._failures = done.failures
        self._fights.remember(done.created, done.removed, self._clock.monotonic())
        work.changed += [*done.removed, *done.created]
        work.unsaved = done.unsaved

    def _boot_id(self) -> str:
        """Empty in a tree without it. An error here is raised: without the boot's id, all that is ours might be forgotten."""
        try:
            return self._root.read_text(_BOOT_ID).strip()
        except NotFoundError:
            return ""

    def _machine_id(self) -> str:
        """Empty where the machine has none: its UUIDs are then those of every such machine."""
        try:
            return self._root.read_text(_MACHINE_ID).strip()
        except Error:
            return ""

    def _tell(self, step: MdevStep, seen: Mapping[str, Mdev]) -> None:
        log = self._said.log
        gone = Counter((seen[one.uuid].parent, seen[one.uuid].type_id) for one in step.removed)
        for (card, type_id), count in sorted(gone.items()):
            log.info("mediated devices removed", card=card, type=type_id, count=count)
        made = Counter((one.parent, one.type_id) for one in step.created)
        for (card, type_id), count in sorted(made.items()):
            log.info("mediated devices created", card=card, type=type_id, count=count)
        for name in self._said.news("unplaced", step.unplaced):
            log.info("no card has or gets this mdev type", type=name)
        for topic, text in (("lost", step.lost), ("unsaved", step.unsaved)):
            for what in self._said.news(topic, [text] if text else []):
                log.warning("what is ours is not on the disk", file=str(self._file), what=what)
        self._said.problems(step.problems)


class _Fights:
    """Devices that go again as soon as they are made: a sick driver, or another manager. Each counts as a failure, so
    that it is not a race; `lost` are those failures, apart from the others because making them did work."""

    def __init__(self) -> None:
        self.lost = Failures()
        self._made: dict[CreateMdev, float] = {}

    def forget(self, view: View, now: float) -> None:
        """A card that is away takes its devices along: no fight. What was long ago is none either."""
        cards = {parent.name for parent in view.parents}
        self._made = {
            one: at for one, at in self._made.items() if one.parent in cards and now - at < _LASTING
        }
        waited = {key: one for key, one in self.lost.by_key.items() if now < one.retry_at + RETRIES.limit}
        self.lost = Failures(waited)

    def remember(self, created: tuple[CreateMdev, ...], removed: tuple[RemoveMdev, ...], now: float) -> None:
        """What was done."""
        ours = {change.uuid for change in removed}
        self._made = {one: at for one, at in self._made.items() if one.uuid not in ours}
        self._made |= dict.fromkeys(created, now)

    def notice(self, plan: MdevPlan, now: float) -> bool:
        """Whether the plan wants again what was made a moment ago; one failure for a card's type."""
        again = {key_of(change): change for change in plan.create if change in self._made}
        for change in again.values():
            text = f"{change.uuid} was made {now - self._made[change]:.1f} s ago and is gone again: who removes it?"
            self.lost = self.lost.after(change, text, now)
        self._made = {one: at for one, at in self._made.items() if key_of(one) not in again}
        return bool(again)
