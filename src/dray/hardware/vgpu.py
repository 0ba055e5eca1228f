"""NVIDIA vGPU on virtual functions: the profile each one has and could have, and what may be handed to a VM."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from dray.errors import Error, NotFoundError
from dray.hardware.facts import Found, Problem, problem_of, showable
from dray.hardware.host_root import Place
from dray.hardware.pci import DEVICES, PciFunction
from dray.hardware.sweep import Sweep

_LINE = re.compile(r"\s*([0-9]{1,9})\s*:\s*(.*\S)\s*", re.ASCII)
_HEADING = re.compile(r"\s*ID\s*:.*", re.ASCII)


@dataclass(frozen=True, slots=True)
class VgpuType:
    """A profile by NVIDIA's number, which is what `current_vgpu_type` takes; the name is for people."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class VgpuFunction:
    """A virtual function on driver nvidia. `creatable` is what it could become now: less once its GPU is in use."""

    address: str
    current: str | None
    creatable: tuple[VgpuType, ...]


class PassThrough(StrEnum):
    """The rule by which a function may be handed to a VM (KubeVirt's permit rule)."""

    VFIO = "vfio-pci"
    VGPU = "nvidia-vgpu"


def pass_through(function: PciFunction) -> PassThrough | None:
    """The rule that permits it; None where none does, `why_not` says why."""
    if function.driver == "vfio-pci":
        return PassThrough.VFIO
    is_vgpu = function.driver == "nvidia" and not function.is_physical and function.vgpu_profile is not None
    return PassThrough.VGPU if is_vgpu else None


def why_not(function: PciFunction) -> str:
    """What keeps a function from being handed to a VM, and what would help; empty where nothing does."""
    if pass_through(function) is not None:
        return ""
    address = function.address
    if function.driver is None:
        return f"{address} has no driver: bind it to vfio-pci"
    if function.driver != "nvidia" or not (function.is_physical or function.is_vgpu):
        return f"{address} is bound to {function.driver}: bind it to vfio-pci"
    if function.is_physical:
        return f"{address} is a physical function on driver nvidia: use its virtual functions, or bind it to vfio-pci"
    return f"{address} has no vGPU profile: write one to {DEVICES}/{address}/nvidia/current_vgpu_type"


def read_vgpus(root: Place, functions: Iterable[PciFunction]) -> Found[VgpuFunction]:
    """The functions among `functions` that have or could have a profile, in their order."""
    items: list[VgpuFunction] = []
    problems: list[Problem] = []
    with root.sweep() as sweep:
        for function in functions:
            if function.is_vgpu:
                creatable = _read_types(sweep, function.address, problems)
                items.append(VgpuFunction(function.address, function.vgpu_profile, creatable))
    return Found(tuple(items), tuple(problems))


def _read_types(sweep: Sweep, address: str, problems: list[Problem]) -> tuple[VgpuType, ...]:
    path = f"{DEVICES}/{address}/nvidia/creatable_vgpu_types"
    try:
        text = sweep.read_text(path)
    except NotFoundError:
        return ()
    except Error as error:
        problems.append(problem_of(error, path))
        return ()
    types: dict[int, VgpuType] = {}
    for line in filter(str.strip, text.split("\n")):
        found = _LINE.fullmatch(line)
        if found:
            number = int(found[1])
            types[number] = VgpuType(number, showable(found[2]))
        elif not _HEADING.fullmatch(line):
            problems.append(
                Problem(path, showable(f"{path} has the line {line!r}, not one like '1414 : NAME'"))
            )
    return tuple(types[number] for number in sorted(types))
