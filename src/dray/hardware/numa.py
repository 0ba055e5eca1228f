"""NUMA nodes: which processors and how much memory are near each other, and which node a device is near."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dray.errors import Error, HardwareError
from dray.hardware.facts import Found, Problem, problem_of, showable
from dray.hardware.host_root import Place
from dray.hardware.parse import cpu_list, decimal
from dray.hardware.sweep import SysDirectory

NODES = "/sys/devices/system/node"
_NAME = re.compile(r"node[0-9]{1,6}", re.ASCII)
_MEMORY = re.compile(r"Node [0-9]+ MemTotal:\s+([0-9]{1,15}) kB", re.ASCII)


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One node. A node may have memory alone; `memory` is in bytes, None where the host does not say.

    `distances` has one number for each node, in their order; None where the host does not say.
    """

    id: int
    cpus: tuple[int, ...]
    memory: int | None
    distances: tuple[int, ...] | None = None


def read_numa(root: Place) -> Found[NumaNode]:
    """All nodes, by number; none on a kernel without NUMA."""
    with root.sweep() as sweep:
        found = sweep.read_each(NODES, _read_node, wanted=lambda name: _NAME.fullmatch(name) is not None)
    return Found(tuple(sorted(found.items, key=lambda node: node.id)), found.problems)


def read_numa_node(directory: SysDirectory, problems: list[Problem]) -> int | None:
    """The node that a device is near. None: no particular one (the kernel says -1), or, with a problem, not known."""
    if "numa_node" not in directory:
        return None
    path = f"{directory.path}/numa_node"
    try:
        text = directory.text("numa_node")
    except Error as error:
        problems.append(problem_of(error, path, before="NUMA node not known: "))
        return None
    node = decimal(text)
    if node is None:
        problems.append(Problem(path, showable(f"NUMA node not known: {path} holds {text!r}, not a number")))
        return None
    return node if node >= 0 else None


def _read_node(directory: SysDirectory, problems: list[Problem]) -> NumaNode:
    cpus = cpu_list(directory.text("cpulist"))
    if cpus is None:
        path = f"{directory.path}/cpulist"
        raise HardwareError(f"{path} is not a list of processors", path=path)
    return NumaNode(
        int(directory.name.removeprefix("node")),
        cpus,
        _read_memory(directory, problems),
        _read_distances(directory, problems),
    )


def _read_distances(directory: SysDirectory, problems: list[Problem]) -> tuple[int, ...] | None:
    if "distance" not in directory:
        return None
    path = f"{directory.path}/distance"
    try:
        numbers = [decimal(text) for text in directory.text("distance").split()]
    except Error as error:
        problems.append(problem_of(error, path, before="distances not known: "))
        return None
    found = tuple(number for number in numbers if number is not None)
    if found and len(found) == len(numbers):
        return found
    problems.append(Problem(path, f"distances not known: {path} does not hold numbers"))
    return None


def _read_memory(directory: SysDirectory, problems: list[Problem]) -> int | None:
    path = f"{directory.path}/meminfo"
    try:
        found = _MEMORY.search(directory.text("meminfo"))
    except Error as error:
        problems.append(problem_of(error, path, before="memory not known: "))
        return None
    if found is None:
        problems.append(Problem(path, f"memory not known: {path} has no line MemTotal"))
        return None
    return int(found[1]) * 1024
