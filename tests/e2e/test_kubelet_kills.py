"""Dray's kubelet killed between any two steps, with runc, `dray agent` as device plugin and a real API server.

The kubelet is a process that runs what `dray kubelet` runs and can be told where to die (tests/processes/kubelet_program.py).
Scheduler and DRA driver are played by this process, so that the driver's own record can be compared.

After each kill: what ran and is still wanted runs on with its devices, nothing is given twice; after the restart every
pod is as it shall be, and all books agree: processes, runc, checkpoint, record of claims, pod resources, the driver's own.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dray.testing.kubernetes.control_plane import ControlPlane
from dray.testing.kubernetes.tools import Tools
from tests.campaign import LONG, campaign, seeded
from tests.e2e.claim_driver import PREPARING, UNPREPARING
from tests.e2e.killed_node import GPUS, RUNC_CALLS, KilledNode, Seen
from tests.e2e.kills_scheduler import CLAIM_DEVICES, OVER, Scheduler
from tests.processes.fault_points import ANY, EFFECTS, STEPS, Target, rarest
from tests.processes.kubelet_program import NODE
from tests.waiting import PATIENCE, block_until

POINTS = (*STEPS, *EFFECTS, *RUNC_CALLS, PREPARING, UNPREPARING)
KILLS = campaign(6, 500)


@dataclass
class World:
    """A node and who decides about it."""

    node: KilledNode
    scheduler: Scheduler
    dice: random.Random
    promised: set[str] = field(default_factory=set)
    """Uids of pods that were on the kubelet's record when it died: they may not be rejected."""
    rejected: Counter[str] = field(default_factory=Counter)

    def until(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
        block_until(condition, "", self._story, seconds)

    def _story(self) -> str:
        facts = {
            "wanted": self.scheduler.wanted,
            "phases": self.scheduler.phases(),
            "containers": self.node.containers(),
            "prepared": self.node.driver.prepared,
            "record of claims": self.node.claim_record(),
            "died at": self.node.deaths()[-5:],
        }
        lines = "\n".join(f"{name}: {value}" for name, value in facts.items())
        log = [
            line for line in self.node.log.read_text(errors="replace").splitlines() if "plugins" not in line
        ]
        return "\n".join((lines, *log[-80:]))

    def is_settled(self) -> bool:
        """The API server shows every pod as it shall be, and the driver has what they need, nothing else."""
        phases = self.scheduler.phases()
        self._replace_rejected(phases)
        wanted = {
            name: "Succeeded" if pod.is_short else "Running" for name, pod in self.scheduler.wanted.items()
        }
        return (
            phases == wanted
            and self.node.driver.prepared.keys() == self._claims_in_use()
            and self.node.records() == {one.uid for one in self.scheduler.wanted.values() if not one.is_short}
            and self.node.is_serving()
        )

    def _claims_in_use(self) -> set[str]:
        return {
            self.scheduler.uid_of_claim(pod.claim)
            for pod in self.scheduler.wanted.values()
            if pod.claim and not pod.is_short
        }

    def _replace_rejected(self, phases: dict[str, str]) -> None:
        """As by a kubelet, a pod that no process had taken yet is rejected where its plugin is not back: it is made anew."""
        for name in [name for name in self.scheduler.wanted if phases.get(name) == "Failed"]:
            status = self.scheduler.plane.request("GET", f"/api/v1/namespaces/default/pods/{name}")["status"]
            pod = self.scheduler.wanted[name]
            assert pod.uid not in self.promised, (name, status, self._story())
            assert self.node.deaths(), (name, status)
            self.rejected[status.get("reason", "")] += 1
            self.scheduler.drop(name)

    def look(self) -> dict[str, Seen]:
        """What runs, by pod. Nothing twice, and as much as was asked for."""
        found = self.node.containers()
        assert len(found) == len({one.pod for one in found}), f"a container runs twice: {found}"
        gpus = [one for each in found for one in each.gpus]
        assert len(gpus) == len(set(gpus)), f"given twice: {found}"
        assert not self.node.driver.faults, self.node.driver.faults
        by_device: dict[str, set[str]] = {}
        for each in found:
            for uid, device in each.claims:
                by_device.setdefault(device, set()).add(uid)
        assert all(len(uids) == 1 for uids in by_device.values()), f"two claims have one device: {found}"
        return {one.pod: one for one in found}

    def check_dead(self, before: dict[str, Seen]) -> None:
        """With no kubelet there: nothing that ran is lost, and whatever the driver holds is on the record."""
        self.promised |= self.node.records()
        after = self.look()
        self._check_kept(before, after)
        recorded = self.node.claim_record()
        for uid in self.node.driver.prepared:
            assert recorded.get(uid), f"{uid} is prepared, and would never be given back"

    def _check_kept(self, before: dict[str, Seen], after: dict[str, Seen]) -> None:
        for name in before.keys() & self.scheduler.wanted.keys():
            if not self.scheduler.wanted[name].is_short:
                assert after.get(name) == before[name], f"{name} did not keep its container and devices"

    def check_alive(self, before: dict[str, Seen]) -> None:
        """All books agree with what really runs."""
        after = self.look()
        self._check_kept(before, after)
        long = {name: pod for name, pod in self.scheduler.wanted.items() if not pod.is_short}
        assert after.keys() == long.keys()
        assert sorted(self.node.in_runc().values()) == sorted(one.pid for one in after.values())
        granted = self.node.granted()
        for name, pod in long.items():
            seen = after[name]
            assert len(seen.gpus) == pod.gpus, (name, seen)
            assert granted.get(pod.uid, frozenset()) == seen.gpus, (name, seen)
            uid = self.scheduler.uid_of_claim(pod.claim) if pod.claim else ""
            expected = {(uid, self.node.driver.devices[uid])} if uid else set()
            assert seen.claims == expected, (name, seen)
        assert self.node.claim_record() == {
            uid: {
                pod.uid
                for pod in long.values()
                if pod.claim and self.scheduler.uid_of_claim(pod.claim) == uid
            }
            for uid in self._claims_in_use()
        }
        self._check_pod_resources(after)

    def _check_pod_resources(self, running: dict[str, Seen]) -> None:
        told = {
            pod.name: (
                frozenset(one for box in pod.containers for each in box.devices for one in each.device_ids),
                frozenset(
                    cdi.name.partition("=")[2]
                    for box in pod.containers
                    for claim in box.dynamic_resources
                    for resource in claim.claim_resources
                    for cdi in resource.cdi_devices
                ),
            )
            for pod in self.node.pod_resources().pod_resources
        }
        for name, seen in running.items():
            assert told[name] == (seen.gpus, frozenset(uid for uid, _ in seen.claims)), name
        for name in told.keys() - running.keys():
            assert not any(told[name]), f"{name} does not run, and still holds {told[name]}"

    def aim(self) -> None:
        """At a step that was hit seldom so far, or at whatever comes as the n-th."""
        if self.dice.random() < (0.3 if LONG else 0.1):
            self.node.aim(Target(ANY, self.dice.randint(1, 80)))
        else:
            self.node.aim(Target(self.dice.choice(rarest(POINTS, self.node.deaths()))))

    def recover(self, before: dict[str, Seen]) -> None:
        """Start it again until it lives, and let it die on the way now and then."""
        while self.node.has_died():
            self.check_dead(before)
            dies = self.dice.random() < 0.3 and len(self.node.deaths()) < KILLS
            self.node.aim(Target(ANY, self.dice.randint(1, 40)) if dies else None)
            self.node.start()
            self.until(lambda: self.node.has_died() or self.is_settled())
        self.check_alive(before)


@pytest.fixture
def image(tools: Tools, tmp_path: Path) -> Path:
    for name in ("bin", "proc", "sys", "dev", "tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin/busybox").write_bytes(tools.path("busybox").read_bytes())
    (tmp_path / "bin/busybox").chmod(0o755)
    subprocess.run(["chroot", tmp_path, "/bin/busybox", "--install", "-s", "/bin"], check=True)
    return tmp_path


@pytest.fixture
def world(tools: Tools, killable: ControlPlane, image: Path) -> Iterator[World]:
    root = Path(tempfile.mkdtemp(prefix="dray-kills-"))
    dice = seeded(5)
    node = KilledNode(root, tools.path("runc"), killable.kubeconfig)
    with node.agent(), node.driver.serving():
        yield World(node, Scheduler(killable, node.driver, root, image, dice), dice)
        node.clear()
    killable.request("DELETE", f"/api/v1/nodes/{NODE}")
    shutil.rmtree(root)


def test_kills_between_any_two_steps_lose_and_double_nothing(world: World) -> None:
    node, scheduler = world.node, world.scheduler
    world.recover({})
    while len(node.deaths()) < KILLS:
        before = world.look()
        world.aim()
        scheduler.change()
        world.until(lambda: node.has_died() or world.is_settled())
        world.recover(before)
    hits = Counter(node.deaths())
    print(
        f"{sum(hits.values())} kills, rejected {dict(world.rejected)}, by place: {dict(hits.most_common())}"
    )
    assert len(hits.keys() & set(POINTS)) >= campaign(4, len(POINTS)), sorted(set(POINTS) - hits.keys())
    check_all_is_free(world)


def check_all_is_free(world: World) -> None:
    """Every device can be had once more, and in the end nothing is left."""
    node, scheduler = world.node, world.scheduler
    node.aim(None)
    for last in (False, True):
        for name in list(scheduler.wanted):
            scheduler.drop(name)
        world.until(lambda: not scheduler.phases() and world.is_settled())
        world.check_alive({})
        if not last:
            claims = [scheduler.make_claim(device) for device in CLAIM_DEVICES]
            scheduler.want(GPUS, claims[0])
            for claim in claims:
                scheduler.want(0, claim)
            world.until(world.is_settled)
            world.check_alive({})
            assert not any(phase in OVER for phase in scheduler.phases().values())
    node.stop()
    assert node.left_behind() == []
    assert node.driver.prepared == {}
