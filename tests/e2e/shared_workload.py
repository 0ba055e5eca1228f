"""A cluster whose devices two schedulers share: whole ones, partitions over counters, and shares of a capacity. As documents."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

Json = dict[str, Any]
NS: Final = "default"
SCHEDULERS: Final = ("dray", "default-scheduler")
WHOLE, PART, SHARE = "whole.example.com", "part.example.com", "share.example.com"
_COUNTERS: Final = 8
_WIDTHS: Final = (1, 2, 4, 8)
_MEMORY: Final = 16
SHARED: Final = 4
"""Claims that several pods use, at the same time or one after the other."""


def classes() -> Iterator[Json]:
    """One for each driver."""
    for driver in (WHOLE, PART, SHARE):
        expression = f'device.driver == "{driver}"'
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        yield {"metadata": {"name": driver.partition(".")[0]}, "spec": spec}


def node(name: str) -> Json:
    """Large enough that only devices run out."""
    amounts = {"cpu": "64", "memory": "64Gi", "pods": "250"}
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": "has no kubelet"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def slices(name: str, whole: int) -> Iterator[Json]:
    """What one node publishes: `whole` devices, a card in 15 overlapping partitions, and two devices to share."""
    yield _slice(WHOLE, name, devices=[{"name": f"gpu-{number}"} for number in range(whole)])
    counters = {f"part-{number}": {"value": "1"} for number in range(_COUNTERS)}
    yield _slice(PART, name, 0, 2, sharedCounters=[{"name": "card", "counters": counters}])
    places = [(width, start) for width in _WIDTHS for start in range(0, _COUNTERS, width)]
    yield _slice(PART, name, 1, 2, devices=[_partition(*place) for place in places])
    capacity = {"memory": {"value": f"{_MEMORY}Gi"}}
    both = [
        {"name": f"nic-{number}", "allowMultipleAllocations": True, "capacity": capacity} for number in (0, 1)
    ]
    yield _slice(SHARE, name, devices=both)


def _slice(driver: str, name: str, part: int = 0, of: int = 1, **fields: Any) -> Json:
    pool = {"name": name, "generation": 1, "resourceSliceCount": of}
    spec = {"driver": driver, "nodeName": name, "pool": pool, **fields}
    return {"metadata": {"name": f"{name}-{driver}-{part}"}, "spec": spec}


def _partition(width: int, start: int) -> Json:
    drawn = {f"part-{place}": {"value": "1"} for place in range(start, start + width)}
    return {
        "name": f"mig-{width}-{start}",
        "attributes": {"width": {"int": width}},
        "consumesCounters": [{"counterSet": "card", "counters": drawn}],
    }


def _wish(kind: str, size: int) -> Json:
    """Of a kind, so many devices, or one so large."""
    if kind == "whole":
        return {"deviceClassName": kind, "count": size}
    if kind == "share":
        return {"deviceClassName": kind, "capacity": {"requests": {"memory": f"{size}Gi"}}}
    expression = f'device.attributes["{PART}"].width == {size}'
    return {"deviceClassName": kind, "selectors": [{"cel": {"expression": expression}}]}


SIZES: Final = {"whole": (1, 2, 3, 4), "part": (1, 2, 4), "share": (2, 4, 8)}


def spec(kind: str, size: int) -> Json:
    """A claim's."""
    return {"devices": {"requests": [{"name": "r", "exactly": _wish(kind, size)}]}}


def templates() -> Iterator[Json]:
    """One for each kind and size."""
    for kind, sizes in SIZES.items():
        for size in sizes:
            yield {
                "metadata": {"name": f"{kind}-{size}", "namespace": NS},
                "spec": {"spec": spec(kind, size)},
            }


def claim(name: str, dice: random.Random) -> Json:
    """One that pods name directly."""
    kind = dice.choice(sorted(SIZES))
    return {"metadata": {"name": name, "namespace": NS}, "spec": spec(kind, dice.choice(SIZES[kind]))}


def pod(name: str, dice: random.Random) -> tuple[Json, list[Json]]:
    """A pod of either scheduler, and the claims that must be there before it."""
    entries, made = [], []
    for number in range(dice.choice((1, 1, 1, 2))):
        entry: Json = {"name": f"e{number}"}
        how = dice.random()
        if how < 0.55:
            kind = dice.choice(sorted(SIZES))
            entry["resourceClaimTemplateName"] = f"{kind}-{dice.choice(SIZES[kind])}"
        elif how < 0.85:
            made.append(claim(f"{name}-{number}", dice))
            entry["resourceClaimName"] = f"{name}-{number}"
        else:
            entry["resourceClaimName"] = f"shared-{number}-{dice.randrange(SHARED)}"
        entries.append(entry)
    container = {
        "name": "c",
        "image": "none",
        "resources": {"claims": [{"name": entry["name"]} for entry in entries]},
    }
    wanted = {"schedulerName": dice.choice(SCHEDULERS), "containers": [container], "resourceClaims": entries}
    return {"metadata": {"name": name, "namespace": NS}, "spec": wanted}, made
