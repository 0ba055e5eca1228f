"""Plans carried out again and again on simulated cards, with faults, kills, foreign hands and lost files."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from dray.drivers.failures import Failures
from dray.drivers.mdev.ownership import Ownership, carry_out
from dray.drivers.mdev.plan import MdevPlan, plan_mdevs
from dray.drivers.mdev.situation import Wishes
from dray.errors import HardwareError
from dray.hardware.change import CreateMdev, HostChange, RemoveMdev
from dray.hardware.change.executor import Applied
from dray.runtime.clock import SystemClock
from tests.campaign import campaign
from tests.drivers.mdev.simulated_cards import Cards

TYPES = ("a", "b", "c", "d")
OFFERS = ({"a": 3, "b": 2, "c": 1}, {"a": 3, "b": 2, "c": 1}, {"b": 2, "d": 4}, {"a": 1})
MEMORY = Path("/dev/shm")

Types = st.lists(st.sampled_from(TYPES), unique=True).map(tuple)
Faults = st.lists(st.sampled_from(("", "", "", "fails", "late", "kill before", "kill after")), max_size=8)


class Killed(BaseException):
    """The process ends here."""


class Time(SystemClock):
    """Moves when told."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


class Agents(RuleBasedStateMachine):
    """One machine, and the agents that live and die on it."""

    @initialize(shared=st.booleans())
    def boot(self, shared: bool) -> None:
        self.cards = Cards({"card0": OFFERS[0]}, shared=shared)
        self.wishes = Wishes()
        self.clock = Time()
        self.failures = Failures()
        self.late: list[CreateMdev] = []
        self.strange = 0
        self.mixed: set[str] = set()
        self.directory = tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
        self.file = Path(self.directory.name) / "mdevs"
        self.boots = 0
        self.enter()

    def enter(self) -> None:
        self.ownership = Ownership(self.file, f"boot-{self.boots}").__enter__()

    def teardown(self) -> None:
        if hasattr(self, "ownership"):
            self.ownership.__exit__()
            self.directory.cleanup()

    # The world.

    @rule(desired=Types, external=st.frozensets(st.sampled_from(TYPES), max_size=1))
    def configure(self, desired: tuple[str, ...], external: frozenset[str]) -> None:
        self.wishes = Wishes(desired, external, "machine")

    @rule(number=st.integers(0, len(OFFERS) - 1))
    def plug_or_unplug(self, number: int) -> None:
        card = f"card{number}"
        if card in self.cards.cards:
            self.cards.unplug(card)
        else:
            self.cards.cards[card] = OFFERS[number]

    @rule(data=st.data())
    def somebody_makes_one(self, data: st.DataObject) -> None:
        free = [
            (card, t)
            for card, types in sorted(self.cards.cards.items())
            for t in types
            if self.cards.available(card, t) > 0
        ]
        if free:
            self.strange += 1
            self.cards.add(
                CreateMdev(
                    *data.draw(st.sampled_from(free)), f"{self.strange:08x}-0000-4000-8000-000000000000"
                )
            )

    @rule(data=st.data(), what=st.sampled_from(("removes", "holds", "releases", "hides", "unlinks", "shows")))
    @precondition(lambda self: self.cards.mdevs)
    def somebody(self, data: st.DataObject, what: str) -> None:
        uuid = data.draw(st.sampled_from(sorted(self.cards.mdevs)))
        if what == "removes" and uuid not in self.cards.held:
            self.cards.drop(uuid)
        if what in ("holds", "releases"):
            (self.cards.held.add if what == "holds" else self.cards.held.discard)(uuid)
        if what in ("hides", "unlinks", "shows"):
            (self.cards.hidden.discard if what == "shows" else self.cards.hidden.add)(uuid)
            (self.cards.unlinked.add if what == "unlinks" else self.cards.unlinked.discard)(uuid)

    @rule()
    def late_devices_appear(self) -> None:
        for change in self.late:
            here = change.parent in self.cards.cards and change.uuid not in self.cards.mdevs
            if here and self.cards.available(change.parent, change.type_id) > 0:
                self.cards.add(change, ours=any(change == one for one in self.ownership.owned))
                self.mixed.add(change.parent)
        self.late.clear()

    @rule(seconds=st.sampled_from((1.0, 5.0, 400.0)))
    def time_passes(self, seconds: float) -> None:
        self.clock.seconds += seconds

    @rule(lose=st.sampled_from(("nothing", "nothing", "content", "file")))
    def restart(self, lose: str) -> None:
        self.ownership.__exit__()
        if lose == "content" and self.file.exists():
            self.file.write_bytes(self.file.read_bytes()[:-1])
        if lose == "file":
            self.file.unlink(missing_ok=True)
        lost = lose != "nothing"
        existed = self.file.exists()
        self.enter()
        self.failures = Failures()
        if lost:
            assert not self.ownership.owned and bool(self.ownership.lost) == existed
            self.cards.ours.clear()  # nothing that exists may ever be removed by us

    @rule()
    def reboot(self) -> None:
        self.ownership.__exit__()
        for uuid in list(self.cards.mdevs):
            self.cards.drop(uuid)
        self.late.clear()
        self.mixed.clear()
        self.failures = Failures()
        self.boots += 1
        self.enter()
        assert not self.ownership.owned

    # The agent.

    def plan(self) -> MdevPlan:
        view = self.cards.view()
        assert self.ownership.see(view) == ""
        plan = plan_mdevs(view, self.wishes, self.ownership.owned, self.failures, self.clock.seconds)
        assert plan == plan_mdevs(view, self.wishes, self.ownership.owned, self.failures, self.clock.seconds)
        self.check(plan)
        return plan

    def check(self, plan: MdevPlan) -> None:
        """What no plan may do, whatever happened before."""
        for change in plan.remove:
            assert change.uuid in self.cards.ours - self.cards.held - self.cards.hidden
            assert self.cards.mdevs[change.uuid].type_id not in {*self.wishes.desired, *self.wishes.external}
        touched = {self.cards.mdevs[change.uuid].parent for change in plan.remove}
        for card in {change.parent for change in plan.create}:
            made = [change for change in plan.create if change.parent == card]
            present = [one for one in self.cards.mdevs.values() if one.parent == card]
            assert {change.type_id for change in made} | {one.type_id for one in present} == {made[0].type_id}
            assert len(made) <= self.cards.available(card, made[0].type_id)
            assert made[0].type_id in self.wishes.desired and card not in touched
            assert all(one.uuid in self.cards.ours for one in present)
        assert not {change.uuid for change in plan.create} & self.cards.mdevs.keys()
        assert not plan.create or not self.lurking

    @property
    def lurking(self) -> set[str]:
        """Somebody else's devices of which nobody can tell the card."""
        return self.cards.hidden & self.cards.unlinked - self.cards.ours

    @rule(faults=Faults)
    def step(self, faults: list[str]) -> None:
        ahead = iter(faults)
        with contextlib.suppress(Killed):
            done = carry_out(
                self.plan(),
                lambda change: self.apply(change, ahead),
                self.ownership,
                self.failures,
                self.clock,
            )
            self.failures = done.failures
            assert not done.unsaved
            return
        self.restart("nothing")

    def apply(self, change: HostChange, faults: Iterator[str]) -> Applied:
        fault = next(faults, "")
        if fault == "kill before":
            raise Killed
        if fault == "late" and isinstance(change, CreateMdev):
            self.late.append(change)
        if fault in ("late", "fails"):
            raise HardwareError("the driver refused")
        applied = self.cards.apply(change)
        if fault == "kill after":
            raise Killed
        return applied

    @rule()
    def come_to_rest(self) -> None:
        """Left in peace, with devices that work, it ends, and then does nothing more."""
        for _ in range(12):
            plan = self.plan()
            if plan.is_done and plan.next_try is None:
                break
            self.clock.seconds = max(self.clock.seconds, plan.next_try or 0.0)
            done = carry_out(plan, self.cards.apply, self.ownership, self.failures, self.clock)
            self.failures = done.failures
        else:
            raise AssertionError(f"it does not come to rest: {plan}")
        assert self.plan() == plan
        self.check_rest()

    def check_rest(self) -> None:
        wanted = {*self.wishes.desired, *self.wishes.external}
        by_card = {
            card: [m for m in self.cards.mdevs.values() if m.parent == card] for card in self.cards.cards
        }
        for uuid in self.cards.ours - self.cards.held - self.cards.hidden:
            assert self.cards.mdevs[uuid].type_id in wanted
        for card, present in by_card.items():
            others = [m for m in present if m.uuid not in self.cards.ours or m.uuid in self.cards.hidden]
            types = {m.type_id for m in present}
            if not others and not self.lurking and types <= set(self.wishes.desired) and len(types) < 2:
                able = [t for t in types or self.cards.cards[card] if t in self.wishes.desired]
                assert all(self.cards.available(card, t) == 0 for t in able), (card, present)
            ours = {m.type_id for m in present if m.uuid in self.cards.ours}
            assert len(ours) < 2 or card in self.mixed


TestAgents = Agents.TestCase
TestAgents.settings = settings(
    max_examples=campaign(200, 3000),
    stateful_step_count=campaign(25, 60),
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def test_the_simulated_cards_are_as_a_card() -> None:
    """The model is only as good as they are."""
    cards = Cards({"card": {"a": 3, "b": 2}})
    one = CreateMdev("card", "a", "00000001-0000-4000-8000-000000000000")
    assert cards.apply(one).changed and not cards.apply(one).changed
    assert (cards.available("card", "a"), cards.available("card", "b")) == (2, 0)
    assert cards.apply(RemoveMdev(one.uuid)).changed and not cards.apply(RemoveMdev(one.uuid)).changed
