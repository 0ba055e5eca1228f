"""A child that decides claims on one node, under limits that end it rather than hurt the machine.

Reads one JSON object a line: `{"name", "claims", "used", "profile", "seconds"}` (claims as on the wire, devices that are in
use, the allocator's budget of CPU time), and answers with a line each: `fits`, `none`, `stopped` or `error`, and the devices.
Before each it allows itself so much more CPU time as the budget says, rounded up, and a second to spare: who needs more is
ended by the kernel, and no line comes. The node is that of `dray up --sim h200x8-mig`, and one card that is given in shares.
"""

from __future__ import annotations

import json
import math
import resource
import sys
import time
from collections.abc import Iterator
from typing import Any

from dray.allocation.allocator import Allocator, Options
from dray.allocation.budget import Budget
from dray.allocation.faults import TimeLimitError
from dray.allocation.features import NAMES, Features
from dray.allocation.profiles import profile_named
from dray.allocation.selector import CompiledSelectors, features_for_selectors
from dray.allocation.state import AllocatedState, DeviceID
from dray.api.codec import view
from dray.api.core.node import Node
from dray.api.resource import ResourceClaim, ResourceSlice
from dray.api.resource.device_class import DeviceClass
from dray.errors import InvalidError
from tests.mig_pool import DRIVER, NODE, mig_slices

MEMORY = 512 << 20
"""Address space that deciding may take on top of what the program has when it begins."""


def classes() -> Iterator[DeviceClass]:
    for kind in ("gpu", "mig"):
        expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{kind}'"
        spec = {"selectors": [{"cel": {"expression": expression}}]}
        yield view({"metadata": {"name": kind}, "spec": spec}, DeviceClass)
    spec = {"selectors": [{"cel": {"expression": "device.driver == 'shared.example.com'"}}]}
    yield view({"metadata": {"name": "shared"}, "spec": spec}, DeviceClass)
    yield view({"metadata": {"name": "any"}, "spec": {}}, DeviceClass)


def shared_slice() -> ResourceSlice:
    devices = [
        {
            "name": f"shared-{number}",
            "allowMultipleAllocations": True,
            "capacity": {"memory": {"value": "10Gi"}, "cores": {"value": str(8 + number % 2)}},
        }
        for number in range(6)
    ]
    pool = {"name": "shared", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "shared.example.com", "nodeName": NODE, "pool": pool, "devices": devices}
    return view({"metadata": {"name": "shared"}, "spec": spec}, ResourceSlice)


class Decider:
    """Made once; each question has its own limits."""

    def __init__(self) -> None:
        self._features = Features.named(list(NAMES.values()))
        self._slices = [*mig_slices(), shared_slice()]
        self._node = view({"metadata": {"name": NODE}}, Node)
        self._selectors: dict[str, CompiledSelectors] = {}

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        profile = profile_named(asked.get("profile", "correct"))
        known = self._selectors.setdefault(
            profile.name, CompiledSelectors(features_for_selectors(self._features, profile))
        )
        used = frozenset(DeviceID(DRIVER, NODE, name) for name in asked.get("used", ()))
        allocator = Allocator(
            Options(self._features, profile),
            allocated=AllocatedState(used),
            classes=classes(),
            slices=self._slices,
            selectors=known,
        )
        claims = [view(one, ResourceClaim) for one in asked["claims"]]
        try:
            found = allocator.allocate(self._node, claims, Budget(asked["seconds"], time.process_time))
        except TimeLimitError as error:
            return {"outcome": "stopped", "error": str(error)}
        except InvalidError as error:
            return {"outcome": "error", "error": str(error)}
        if found is None:
            return {"outcome": "none"}
        devices = [one.device for result in found.results for one in result.devices.results]
        return {"outcome": "fits", "devices": devices}


def limit_time(seconds: float) -> None:
    # Of the two counts of what was used, the one that is ahead: the limit is a whole number of seconds from it.
    usage = resource.getrusage(resource.RUSAGE_SELF)
    used = max(time.process_time(), usage.ru_utime + usage.ru_stime)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used + seconds) + 1, resource.RLIM_INFINITY))


def main() -> None:
    decider = Decider()
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    for line in sys.stdin:
        asked = json.loads(line)
        limit_time(asked["seconds"])
        print(json.dumps({"name": asked["name"], **decider.answer(asked)}), flush=True)


if __name__ == "__main__":
    main()
