"""A child in which a tenant's large pods are decided again and again; it prints by how many MiB its memory grew.

`claims`: pods with twenty claims of 320 KB in ever new orders. `terms`: pods with a megabyte of node affinity, each gone
before the next.
"""

from __future__ import annotations

import gc
import resource
import sys
from pathlib import Path
from typing import Any

from dray.allocation.budget import Budget
from dray.allocation.profiles import CORRECT
from dray.api.codec import view
from dray.api.resource import ResourceClaim
from dray.scheduler.claims.settings import Settings
from dray.scheduler.claims.tracking import Tracker
from dray.scheduler.cycle import Cycle
from dray.scheduler.nodes import Nodes
from tests.scheduler.claims.objects import CLASS, NOW, device_class, slice_of
from tests.scheduler.objects import make_node, make_pod

MEMORY = 256 << 20
"""Address space that all of it may take on top of what the program has when it begins."""
NODES = 4


def mebibytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 20


def a_cycle() -> Cycle:
    settings = Settings.of_gates(CORRECT)
    cycle = Cycle(Nodes(), Tracker(settings), settings)
    cycle.tracker.catalogue.set_class(device_class())
    for number in range(NODES):
        cycle.nodes.put_node(make_node(f"n{number}", cpu="8", memory="16Gi"))
        cycle.tracker.catalogue.set_slice(slice_of(f"n{number}", *(f"d{place}" for place in range(64))))
    return cycle


def claim(name: str, size: int) -> ResourceClaim:
    parameters = [
        {"opaque": {"driver": "a.b", "parameters": {"x": name * (size // 32 // len(name))}}}
        for _ in range(32)
    ]
    wish: dict[str, Any] = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": 1}
    devices = {"requests": [{"name": "r", "exactly": wish}], "config": parameters}
    return view(
        {"metadata": {"name": name, "uid": name, "namespace": "default"}, "spec": {"devices": devices}},
        ResourceClaim,
    )


def with_claims(cycle: Cycle, names: list[str], number: int) -> None:
    entries = [{"name": f"x{place}", "resourceClaimName": name} for place, name in enumerate(names)]
    # One that is too large for every node: it is refused, again and again.
    pod = make_pod(f"p{number}", requests={"cpu": "7"}, nodeSelector={"no": "where"}, resourceClaims=entries)
    cycle.decide(pod, NOW, Budget())
    cycle.decide(make_pod(f"q{number}", resourceClaims=entries[:1] * 2), NOW, Budget())
    cycle.tracker.index.attempt([found for name in names if (found := cycle.tracker.get("default", name))])


def claims(cycle: Cycle) -> None:
    names = [f"c{number}" for number in range(20)]
    for name in names:
        cycle.tracker.set_claim(claim(name, 320_000))
    before = mebibytes()
    for number in range(60):
        turned = names[number % 20 :] + names[: number % 20]
        with_claims(cycle, turned if number < 20 else turned[1:] if number < 40 else turned[::-1], number)
    print(mebibytes() - before)


def terms(cycle: Cycle) -> None:
    before = mebibytes()
    for number in range(30):
        asked = [
            {"matchExpressions": [{"key": f"z{number}-{place}", "operator": "Exists"}]}
            for place in range(12_000)
        ]
        affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": asked}}
        cycle.decide(make_pod(f"p{number}", affinity={"nodeAffinity": affinity}), NOW, Budget())
        del asked, affinity
    cycle.prune(lambda uid: False)
    gc.collect()
    print(mebibytes() - before)


def main() -> None:
    cycle = a_cycle()
    most = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    {"claims": claims, "terms": terms}[sys.argv[1]](cycle)


if __name__ == "__main__":
    main()
