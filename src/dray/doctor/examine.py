"""All looks, then all checks."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from dray.doctor.cluster import Cluster, look_at_cluster
from dray.doctor.cluster_checks import check_cluster
from dray.doctor.containerd import (
    Cdi,
    Containerd,
    check_cdi,
    check_containerd,
    look_at_cdi,
    look_at_containerd,
)
from dray.doctor.directories import Directories, check_directories, look_at_directories
from dray.doctor.finding import Finding, Level
from dray.doctor.kubelet_config import KubeletConfig, check_kubelet_config, look_at_kubelet_config
from dray.doctor.laptop import Laptop, check_laptop, look_at_laptop
from dray.doctor.passthrough import Passthrough, check_passthrough, look_at_passthrough
from dray.doctor.places import Places, State
from dray.doctor.sockets import Sockets, check_sockets, look_at_sockets
from dray.doctor.software import Software, check_software, look_at_software
from dray.doctor.state import Kept, Living, check_state, look_at_state
from dray.runtime.clock import Clock, SystemClock


class Facts(msgspec.Struct, frozen=True):
    """Everything that was seen."""

    software: Software
    directories: Directories
    sockets: Sockets
    kubelet_config: KubeletConfig
    containerd: Containerd
    cdi: Cdi
    passthrough: Passthrough
    state: Kept
    cluster: Cluster
    laptop: Laptop
    is_laptop: bool = False


class Report(msgspec.Struct, frozen=True):
    """What was seen, and what it means, in the order of the checks."""

    facts: Facts
    findings: tuple[Finding, ...]

    @property
    def has_fault(self) -> bool:
        """Whether something does not work."""
        return any(one.level is Level.FAULT for one in self.findings)


async def examine(places: Places, clock: Clock | None = None) -> Report:
    """Look once. Nothing is changed anywhere. InvalidError where --host-root is no directory."""
    clock = clock or SystemClock()
    facts = Facts(
        software=look_at_software(),
        directories=look_at_directories(places),
        sockets=await look_at_sockets(places),
        kubelet_config=look_at_kubelet_config(places),
        containerd=await look_at_containerd(places),
        cdi=look_at_cdi(places),
        passthrough=look_at_passthrough(places.host_root),
        state=look_at_state(places, clock.now()),
        cluster=await look_at_cluster(places, clock),
        laptop=await look_at_laptop(places),
        is_laptop=places.is_laptop,
    )
    return Report(facts, tuple(check(facts)))


def check(facts: Facts) -> Iterator[Finding]:
    """Pure."""
    laptop = facts.is_laptop
    yield from check_software(facts.software, has_nvidia=facts.passthrough.has_nvidia)
    yield from check_laptop(facts.laptop, is_laptop=laptop)
    yield from check_directories(facts.directories)
    if not laptop or facts.laptop.running is not None:
        yield from check_sockets(facts.sockets)
    if not laptop:
        yield from check_kubelet_config(facts.kubelet_config)
        yield from check_containerd(facts.containerd, facts.cdi.wanted)
    yield from check_cdi(facts.cdi)
    yield from check_passthrough(facts.passthrough)
    yield from check_state(facts.state, _living(facts))
    yield from check_cluster(facts.cluster, is_laptop=laptop)


def _living(facts: Facts) -> Living:
    kubelet = facts.sockets.kubelet
    if kubelet.state is not State.THERE:
        return Living(facts.cluster.claims)
    devices = frozenset(
        (resource, name) for resource, _, name in (key.partition(" ") for key in kubelet.holders)
    )
    return Living(facts.cluster.claims, devices)
