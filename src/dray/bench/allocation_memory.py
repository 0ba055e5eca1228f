"""`python -m dray.bench.allocation_memory NODES`: MiB that slices of 8 devices a node, and an index over them, take."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import msgspec

from dray.bench.allocation_run import Workload, new_index, read
from dray.bench.allocation_workloads import gpu, node_slice, whole_gpus, workload


def resident() -> float:
    """MiB of this process."""
    gc.collect()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def main() -> int:
    """Prints two numbers: with the slices decoded, and with an index that was asked about every node."""
    nodes = int(sys.argv[1])
    small = read(whole_gpus("memory", 1, 1, 0))
    new_index(small).attempt(small.pods[0]).feasible(small.nodes)
    before = resident()
    # One at a time, as events bring them: a large document would leave its room behind for the index.
    load = msgspec.structs.replace(
        small,
        nodes=tuple([_one(node).nodes[0] for node in range(nodes)]),
        slices=tuple([_one(node).slices[0] for node in range(nodes)]),
    )
    with_slices = resident()
    index = new_index(load)
    assert len(index.attempt(small.pods[0]).feasible(load.nodes)) == nodes
    sys.stdout.write(f"{with_slices - before} {resident() - before}\n")
    return 0


def _one(node: int) -> Workload:
    devices = [gpu(number, node) for number in range(8)]
    document = workload("memory", 1, [node_slice(node, devices)], [])
    return read(document | {"nodes": [{"metadata": {"name": f"node-{node}"}}]})


if __name__ == "__main__":
    sys.exit(main())
