"""Random lives of a machine made of files, with the manager in them: config changes, cards that come and go, drivers that
fail, foreign hands, kills. Whatever happened, it ends as the configuration wants it, and nothing foreign was touched."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest

from dray.drivers.mdev.manager import MdevManager, MdevStep
from dray.drivers.mdev.situation import Wishes
from dray.errors import HardwareError
from dray.hardware.change import CreateMdev, HostChange, RemoveMdev
from dray.hardware.change.executor import AuditEntry, Outcome
from dray.hardware.host_root import HostRoot
from dray.testing.host import Host, MdevParent, MdevType, PciFunction
from tests.campaign import campaign
from tests.drivers.mdev.managed_host import Hands, Time

TYPES = {"a": MdevType(2, "Type A"), "b": MdevType(1), "c": MdevType(1)}


class Killed(BaseException):
    """The process ends here."""


class Life:
    """One machine and the agents on it, driven by one seed."""

    def __init__(self, host: Host, state: Path, seed: int, bus: int) -> None:
        self.host, self.state, self.dice = host, state, random.Random(seed)
        self.clock = Time()
        self.wishes, self.held = Wishes(), set[str]()
        self.left = -1  # reports of the executor until the kill
        self.foreign: set[str] = set()
        self.refused: type[HostChange] | tuple[()] = ()
        self.story: list[str] = []
        self.cards: list[tuple[PciFunction, MdevParent]] = []
        for slot in range(2):
            card = host.pci(
                f"{bus >> 8:04x}:{bus & 255:02x}:{slot:02x}.0", vendor="10de", device="1eb8", driver="nvidia"
            )
            self.cards.append((card, host.mdev_parent(card, TYPES, exclusive=True)))
        self.start()

    def start(self) -> None:
        root, hands = HostRoot(self.host.root), Hands(self.host, self.audit)
        self.manager = MdevManager(root, self.state, hands.apply, clock=self.clock).__enter__()

    def audit(self, entry: AuditEntry) -> None:
        assert not isinstance(entry.change, RemoveMdev) or entry.change.uuid not in self.foreign | self.held
        if isinstance(entry.change, CreateMdev):  # never beside what somebody else made
            parent = next(parent for _, parent in self.cards if parent.name == entry.change.parent)
            assert not self.foreign & parent.mdevs.keys()
        self.left -= 1
        if self.left == 0:
            raise Killed
        if entry.outcome is Outcome.STARTED and isinstance(entry.change, self.refused):
            self.refused = ()
            raise HardwareError("the driver is ill")

    def happen(self) -> None:
        """One thing, drawn."""
        acts = (self.configure, self.plug, self.meddle, self.fail, self.kill, self.wait, self.hold, self.step)
        act = self.dice.choice(acts)
        self.story.append(act.__name__)
        act()

    def configure(self) -> None:
        names = self.dice.sample(("a", "b", "c", "Type A", "Type_A", "none"), self.dice.randint(0, 3))
        external = self.dice.sample("abc", self.dice.choice((0, 0, 1)))
        self.wishes = Wishes(tuple(names), frozenset(external), managed=self.dice.random() < 0.9)
        self.step()

    def plug(self) -> None:
        card, _ = self.dice.choice(self.cards)
        if card.present:
            card.unplug()
        else:
            card.replug("nvidia")
        self.note()

    def meddle(self) -> None:
        """Somebody else makes one, or removes any."""
        _, parent = self.dice.choice(self.cards)
        able = [name for name in TYPES if parent.available(name) > 0]
        if parent.mdevs and self.dice.random() < 0.6:
            parent.mdevs[self.dice.choice(sorted(parent.mdevs))].remove()
        elif able and parent.owner.driver:
            uuid = f"{self.dice.getrandbits(32):08x}-0000-4000-8000-000000000000"
            parent.create(self.dice.choice(able), uuid)
            self.foreign.add(uuid)
        self.note()

    def fail(self) -> None:
        self.refused = self.dice.choice((CreateMdev, RemoveMdev))
        self.configure()

    def kill(self) -> None:
        self.left = self.dice.randint(1, 9)
        self.configure()
        self.left = -1
        self.manager.__exit__()
        self.start()

    def wait(self) -> None:
        self.clock.seconds += self.dice.choice((1, 5, 400))
        self.step()

    def hold(self) -> None:
        self.held = {uuid for uuid in self.present() if self.dice.random() < 0.3}

    def step(self) -> MdevStep | None:
        with contextlib.suppress(Killed):
            step = self.manager.step(self.wishes, self.held)
            self.host.settle()
            assert not step.unsaved and not step.lost
            return step
        self.host.settle()
        return None

    def note(self) -> None:
        self.host.settle()
        self.foreign &= self.present()
        self.held &= self.present()

    def present(self) -> set[str]:
        return {uuid for _, parent in self.cards for uuid in parent.mdevs}

    def rest(self) -> None:
        """Left in peace, with devices that work, it comes to an end, and stays there."""
        self.held = set()
        for uuid in sorted(self.foreign):
            next(parent for _, parent in self.cards if uuid in parent.mdevs).mdevs[uuid].remove()
        self.foreign = set()
        self.wishes = Wishes(self.wishes.desired, self.wishes.external)
        for _ in range(50):
            step = self.manager.step(self.wishes)
            self.host.settle()
            if step.again_in is None:
                break
            self.clock.seconds += step.again_in
        assert step.again_in is None, step
        writes = len(self.host.writes)
        assert self.manager.step(self.wishes) == MdevStep(problems=step.problems, unplaced=step.unplaced)
        assert len(self.host.writes) == writes
        self.check(step)

    def end(self) -> None:
        self.manager.__exit__()
        for card, _ in self.cards:
            card.unplug()

    def check(self, step: MdevStep) -> None:
        """One desired type a card, as many as it makes; what has another manager stays."""
        desired = ["a" if name.startswith("Type") else name for name in self.wishes.desired]
        for card, parent in self.cards:
            made = {mdev.type_id for mdev in parent.mdevs.values()}
            if made - self.wishes.external <= set(desired):
                able = set(desired) & TYPES.keys() if card.present and not made else made & set(desired)
                assert all(parent.available(name) == 0 for name in able), (self.story, parent.mdevs, step)
            assert made <= {*desired, *self.wishes.external}, (self.story, parent.mdevs, step)
            assert len(made) < 2


SEEDS = campaign(100, 4000)


@pytest.mark.parametrize("quarter", range(4))
def test_lives(quarter: int, tmp_path: Path) -> None:
    """One after another on one machine, each with cards of its own: to build a machine takes longer than most lives."""
    host = Host(tmp_path / "root")
    host.file("/proc/sys/kernel/random/boot_id", "boot\n")
    with host.active():
        for number, seed in enumerate(range(quarter, SEEDS, 4)):
            life = Life(host, tmp_path / f"state-{seed}", seed, number)
            for _ in range(life.dice.randint(3, 9)):
                life.happen()
            life.rest()
            life.end()
