"""What `dray bench apiserver` asks of an API server: the sizes, and the requests of each load."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

CONFIG_MAPS: Final = "configmaps"
CLAIMS: Final = "claims"
STATUSES: Final = "statuses"

CONFIG_MAPS_PATH: Final = "/api/v1/namespaces/default/configmaps"
CLAIMS_PATH: Final = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
_JSON: Final = "application/json"
_MERGE: Final = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large everything is; the defaults are those of the documented figures."""

    writers: tuple[int, ...] = (1, 16, 64)
    alone: int = 1_000
    """Writes of one writer, which waits for the disk each time."""
    writes: int = 4_000
    """Writes of each other load; the last writers create ConfigMaps until there are `objects`."""
    objects: int = 50_000
    bytes_each: int = 1_024
    page: int = 500
    list_rounds: int = 3
    watchers: int = 1_000
    single_events: int = 30
    """Written one at a time, each after all watchers have the one before."""
    streamed_events: int = 200
    """Written with up to `window` of them on their way."""
    window: int = 8
    rest_seconds: float = 2.0
    """Before memory is looked at."""


@dataclass(frozen=True, slots=True)
class Writes:
    """A load of one request for each number from `first` on, by some writers at once. `kind`: one of the three above."""

    kind: str
    writers: int
    first: int
    count: int
    bytes_each: int = 1_024

    @property
    def name(self) -> str:
        """For people."""
        what = {
            CONFIG_MAPS: f"create ConfigMaps of {self.bytes_each} bytes",
            CLAIMS: "create ResourceClaims",
            STATUSES: "patch claims' status (allocation)",
        }[self.kind]
        return f"{what}, {self.writers} {'writer' if self.writers == 1 else 'writers'}"


@dataclass(frozen=True, slots=True)
class Asking:
    """One request, without its headers about the connection."""

    method: str
    path: str
    content_type: str = _JSON
    body: bytes = b""


def write_loads(sizes: Sizes) -> tuple[Writes, ...]:
    """In order. Together the ConfigMaps are `sizes.objects`; the claims are there before their status."""
    loads: list[Writes] = []
    first = 0
    for writers in sizes.writers[:-1]:
        count = min(sizes.alone if writers == 1 else sizes.writes, sizes.objects - first)
        loads.append(Writes(CONFIG_MAPS, writers, first, count, sizes.bytes_each))
        first += count
    most = sizes.writers[-1]
    loads.append(Writes(CONFIG_MAPS, most, first, sizes.objects - first, sizes.bytes_each))
    loads += [Writes(kind, most, 0, sizes.writes) for kind in (CLAIMS, STATUSES)]
    return tuple(loads)


def request_of(load: Writes, number: int) -> Asking:
    """The request of that number."""
    if load.kind == CONFIG_MAPS:
        body = json.dumps(config_map(config_map_name(number), load.bytes_each)).encode()
        return Asking("POST", CONFIG_MAPS_PATH, _JSON, body)
    if load.kind == CLAIMS:
        return Asking("POST", CLAIMS_PATH, _JSON, json.dumps(_claim(number)).encode())
    path = f"{CLAIMS_PATH}/{_claim_name(number)}/status"
    return Asking("PATCH", path, _MERGE, json.dumps(_allocation(number)).encode())


def config_map(name: str, size: int, mark: str = "") -> dict[str, Any]:
    """One with that many bytes of data. `mark` makes its data another."""
    text = mark + "x" * (size - len(mark))
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}}


def config_map_name(number: int) -> str:
    """Names come in no order, as users' names do."""
    return f"map-{number * 2_654_435_761 % 2**32:08x}"


def _claim_name(number: int) -> str:
    return f"claim-{number:06}"


def _claim(number: int) -> dict[str, Any]:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": _claim_name(number)},
        "spec": {"devices": {"requests": [request]}},
    }


def _allocation(number: int) -> dict[str, Any]:
    """A device of its own for each claim."""
    device = {"request": "gpu", "driver": "gpu.example.com", "pool": "pool", "device": f"gpu-{number}"}
    return {"status": {"allocation": {"devices": {"results": [device]}}}}
