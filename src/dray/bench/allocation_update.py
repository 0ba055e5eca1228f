"""What an event costs an index that is full: a slice that changes while nobody else does."""

from __future__ import annotations

import time
from typing import Final

import msgspec

from dray.api.codec.json_codec import view
from dray.api.resource.slice import ResourceSlice
from dray.bench.allocation_run import new_index, read, without_input
from dray.bench.allocation_workloads import gpu, node_slice, whole_gpus

_UPDATES: Final = 20


def update_seconds(nodes: int, devices: int) -> tuple[float, float]:
    """CPU seconds of a slice event, and of the first question about its node after it; each the least of some.

    The slice is that of one node, with `devices` devices of which one differs each time.
    """
    load = read(whole_gpus("update", nodes, 1, 0))
    index = new_index(load)
    index.attempt(load.pods[0]).feasible(load.nodes)
    without_input()
    events, questions = [], []
    for number in range(_UPDATES):
        one = view(node_slice(0, [gpu(at, number if at == 7 else 0) for at in range(devices)]), ResourceSlice)
        changed = msgspec.structs.replace(one, metadata=load.slices[0].metadata)
        started = time.process_time()
        index.set_slice(changed)
        told = time.process_time()
        assert index.attempt(load.pods[0]).feasible(load.nodes[:1])
        questions.append(time.process_time() - told)
        events.append(told - started)
    return min(events), min(questions)
