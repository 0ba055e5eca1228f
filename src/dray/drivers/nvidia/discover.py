"""Find NVIDIA GPUs: whole cards, MIG devices that exist, those that can be made, and cards for VMs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dray.api.resource.slice import CounterSet
from dray.api.semver import SemVer
from dray.drivers.contract import Device, Discovery, Problem
from dray.drivers.health import health_for, why_missing
from dray.drivers.naming import attribute_text, card_parts, slice_part
from dray.drivers.nvidia.config import MigStrategy, NvidiaConfig
from dray.drivers.nvidia.health import Condition, Health, condition_of, lost
from dray.drivers.nvidia.mig_profiles import (
    all_amounts,
    amounts_of,
    capacities,
    card_counters,
    drawn_on,
    slice_capacities,
    takes_card,
    takes_part,
)
from dray.drivers.nvidia.monitor import Seen
from dray.drivers.nvidia.names import (
    KIND,
    PCI_BUS_ID,
    REPLICA,
    bus_id_of,
    gpu_name,
    mig_name,
    mig_resource,
)
from dray.drivers.nvidia.nodes import gpu_node
from dray.drivers.nvidia.pass_through import cards_for_vms
from dray.errors import Error, InvalidError
from dray.hardware.facts import problem_of
from dray.hardware.host_root import Place
from dray.hardware.nvml.capabilities import NODES, read_mig_nodes
from dray.hardware.nvml.facts import Gpu, Gpus, MigDevice, MigProfile, NvmlSystem, Placement
from dray.hardware.nvml.library import LIBRARY
from dray.hardware.pci import DEVICES, PciFunction, read_pci
from dray.hardware.sweep import Sweep

HOPPER = (9, 0)
"""From this compute capability on MIG is switched without a reset, so a card is offered whole and in parts at once."""
_DISPLAYS = frozenset({"DGX Display", "NVIDIA DGX Display"})
"""Cards that only show pictures."""
_SLOW_POLL = 30.0


@dataclass(frozen=True, slots=True)
class _Look:
    """What all devices are made from; `problems` grows."""

    config: NvidiaConfig
    sweep: Sweep
    seen: Seen
    functions: Mapping[str, PciFunction]
    single: str
    problems: list[Problem]

    @property
    def gpus(self) -> list[Gpu]:
        return [gpu for gpu in self.seen.gpus.items if gpu.name not in _DISPLAYS]

    def is_divisible(self, gpu: Gpu) -> bool:
        """Whether parts of it are made for claims."""
        can_be = gpu.mig is not None and bool(gpu.profiles) and not gpu.is_guest
        return self.config.dynamic_mig and can_be and (gpu.is_divided or gpu.compute_capability >= HOPPER)


def discover(config: NvidiaConfig, root: Place, seen: Seen, known: Sequence[Device] = ()) -> Discovery:
    """Cards by bus id, each with its parts. A card that does not answer any more stays, unhealthy, while it is on the bus."""
    with root.sweep() as sweep:
        found = read_pci(sweep)
        problems = [*found.problems, *seen.gpus.problems, *seen.problems]
        functions = {function.address: function for function in found.items}
        single = _single_profile(config, seen.gpus.items, problems)
        look = _Look(config, sweep, seen, functions, single, problems)
        devices = [device for gpu in look.gpus for device in _of_card(look, gpu)]
        if config.pass_through:
            divisible = {gpu.bus_id for gpu in look.gpus if look.is_divisible(gpu)}
            devices += cards_for_vms(sweep, found.items, look.gpus, divisible, problems)
        lost_ones = tuple(_lost(look, known))
        counters = _counters(look)
    return Discovery(
        (*devices, *lost_ones),
        tuple(dict.fromkeys(problems)),
        (LIBRARY, DEVICES),
        (NODES,),
        max(config.health.poll_seconds, _SLOW_POLL) if config.pass_through else config.health.poll_seconds,
        (*counters, *drawn_on(lost_ones, counters)),
    )


def without_driver(
    config: NvidiaConfig, root: Place, reason: str, known: Sequence[Device], again_in: float
) -> Discovery:
    """What there is while the driver does not answer: its cards stay, unhealthy; those of vfio-pci do not need it."""
    nothing = Seen(Gpus(NvmlSystem("", "")), Health(), (Problem("NVML", reason),))
    found = discover(config, root, nothing)
    others = [device for device in known if device.attributes.get("type") != "vfio"]
    spoilt = tuple(_spoilt(device, Condition(reason)) for device in others)
    return replace(
        found,
        devices=(*spoilt, *found.devices),
        again_in=again_in,
        counters=(*found.counters, *drawn_on(spoilt, found.counters)),
    )


def still(known: Sequence[Device], reason: str, again_in: float) -> Discovery:
    """All as it was: nothing is known to have changed."""
    return Discovery(
        tuple(known),
        (Problem("NVML", reason),),
        (LIBRARY,),
        again_in=again_in,
        counters=drawn_on(known, ()),
    )


def _of_card(look: _Look, gpu: Gpu) -> Iterator[Device]:
    divisible = look.is_divisible(gpu)
    if not gpu.is_divided or (divisible and gpu.compute_capability >= HOPPER):
        yield _whole(look, gpu, is_divisible=divisible)
    if divisible:
        for profile in gpu.profiles:
            for placement in profile.placements:
                yield _possible(look, gpu, profile, placement)
    elif gpu.is_divided:
        yield from (device for mig in gpu.mig_devices if (device := _existing(look, gpu, mig)))


def _whole(look: _Look, gpu: Gpu, *, is_divisible: bool) -> Device:
    resource, shares = look.config.offer(look.config.resource_name)
    amounts = all_amounts(gpu) if is_divisible else {}
    if not amounts and gpu.memory is not None:
        amounts = {"memory": gpu.memory}
    is_drawn_on = is_divisible or look.config.pass_through
    by_number = str(gpu.index) if look.config.device_id_strategy == "index" else gpu.uuid
    device = _plain(look, gpu, gpu.uuid, gpu_name(gpu.minor), condition_of(gpu, look.seen.health))
    return replace(
        device,
        resource=resource,
        shares=shares,
        share_join=REPLICA,
        one_share=look.config.time_slicing.fail_requests_greater_than_one and shares is not None,
        label=gpu.name,
        attributes={**_attributes(gpu), "type": "gpu", "uuid": gpu.uuid},
        capacity=capacities(amounts),
        consumes=takes_card(gpu, is_divisible=is_divisible) if is_drawn_on else (),
        addresses=(by_number,),
        hardware=card_parts(gpu.bus_id, gpu.memory_slices),
    )


def _possible(look: _Look, gpu: Gpu, profile: MigProfile, placement: Placement) -> Device:
    """A MIG device that is made when a claim gets it. Device plugins cannot offer such: they know no counters."""
    name = mig_name(gpu.minor, profile.name, profile.id, placement)
    live = (one for one in gpu.mig_devices if (one.profile_id, one.placement) == (profile.id, placement))
    condition = condition_of(gpu, look.seen.health, next(live, None))
    device = _plain(look, gpu, f"{gpu.uuid}-mig-{profile.id}-{placement.start}", name, condition)
    return replace(
        device,
        label=f"{gpu.name} {profile.name}",
        attributes=_part_attributes(gpu, profile.name),
        capacity=capacities(amounts_of(profile)),
        consumes=takes_part(gpu, profile, placement),
        hardware=tuple(slice_part(gpu.bus_id, index) for index in placement.slices),
    )


def _existing(look: _Look, gpu: Gpu, mig: MigDevice) -> Device | None:
    """A MIG device that somebody made. One that shares its GPU instance with others is told, and not offered."""
    profile = gpu.profile(mig.profile_id)
    if profile is None or not mig.fills:
        text = f"{mig.uuid} is not offered: it does not have a GPU instance of a known profile to itself"
        look.problems.append(Problem(mig.uuid, text))
        return None
    try:
        nodes = read_mig_nodes(look.sweep, gpu.minor, mig.gpu_instance, mig.compute_instance)
    except Error as error:
        look.problems.append(problem_of(error, mig.uuid, before=f"{mig.uuid} is not offered: "))
        return None
    resource, shares = _mig_offer(look, profile)
    by_number = f"{gpu.index}:{mig.index}" if look.config.device_id_strategy == "index" else mig.uuid
    name = mig_name(gpu.minor, profile.name, profile.id, mig.placement)
    device = _plain(look, gpu, mig.uuid, name, condition_of(gpu, look.seen.health, mig))
    return replace(
        device,
        resource=resource,
        shares=shares,
        share_join=REPLICA,
        one_share=look.config.time_slicing.fail_requests_greater_than_one and shares is not None,
        label=f"{gpu.name} {profile.name}",
        attributes={**_part_attributes(gpu, profile.name), "uuid": mig.uuid},
        capacity={**capacities(amounts_of(profile)), **slice_capacities(mig.placement)},
        addresses=(by_number,),
        paths=(*device.paths, *nodes),
        hardware=tuple(slice_part(gpu.bus_id, index) for index in mig.placement.slices),
    )


def _plain(look: _Look, gpu: Gpu, device_id: str, name: str, condition: Condition) -> Device:
    """What a card's devices have in common."""
    node = gpu_node(gpu.minor)
    function = look.functions.get(gpu.bus_id)
    reason = condition.reason or why_missing(look.sweep, (node,), look.problems)
    return Device(
        id=device_id,
        kind=KIND,
        resource="",
        health=health_for(reason),
        reason=reason,
        numa_node=function.numa_node if function else None,
        pcie_root=function.pcie_root if function else None,
        paths=(node,),
        watch=(node,),
        permissions="rw",
        name=name,
        versions=_versions(gpu, look.seen.gpus.system),
        taints=condition.taints,
    )


def _attributes(gpu: Gpu) -> dict[str, str | int | bool]:
    found: dict[str, str | int | bool] = {
        PCI_BUS_ID: gpu.bus_id,
        "architecture": gpu.architecture,
        "brand": gpu.brand,
        "productName": attribute_text(gpu.name),
    }
    if gpu.addressing_mode is not None:
        found["addressingMode"] = gpu.addressing_mode
    return found


def _part_attributes(gpu: Gpu, profile: str) -> dict[str, str | int | bool]:
    return {**_attributes(gpu), "type": "mig", "parentUUID": gpu.uuid, "profile": profile}


def _versions(gpu: Gpu, system: NvmlSystem) -> dict[str, str]:
    major, minor = gpu.compute_capability
    texts = {
        "cudaComputeCapability": f"{major}.{minor}",
        "cudaDriverVersion": system.cuda_version,
        "driverVersion": system.driver_version,
    }
    found = {name: _semver(text) for name, text in texts.items()}
    return {name: text for name, text in found.items() if text}


def _semver(text: str) -> str:
    """`580.159.04` as three plain numbers: `580.159.4`; empty where it is no version."""
    try:
        return str(SemVer.parse_lenient(text))
    except InvalidError:
        return ""


def _single_profile(config: NvidiaConfig, gpus: Sequence[Gpu], problems: list[Problem]) -> str:
    """The one profile that stands for GPUs with the strategy `single`; empty where there is none."""
    if config.mig_strategy != MigStrategy.SINGLE or not any(gpu.is_divided for gpu in gpus):
        return ""
    profiles = sorted({mig.profile for gpu in gpus for mig in gpu.mig_devices})
    if len(profiles) == 1 and all(gpu.is_divided for gpu in gpus):
        return profiles[0]
    whole = ", ".join(gpu_name(gpu.minor) for gpu in gpus if not gpu.is_divided) or "none"
    text = (
        "migStrategy single needs MIG on all GPUs and one profile on all of them; here the profiles are "
        f"{', '.join(profiles) or 'none'}, and GPUs without MIG: {whole}. No MIG device is offered to plugins"
    )
    problems.append(Problem("migStrategy", text))
    return ""


def _mig_offer(look: _Look, profile: MigProfile) -> tuple[str, int | None]:
    """Resource and shares of a MIG device; without a resource DRA alone offers it."""
    config = look.config
    if config.mig_strategy == MigStrategy.MIXED:
        return config.offer(mig_resource(config.resource_name, profile.name))
    return config.offer(config.resource_name) if profile.name == look.single else ("", None)


def _lost(look: _Look, known: Sequence[Device]) -> Iterator[Device]:
    """Devices of cards that NVIDIA's driver has and cannot reach."""
    answering = {gpu.bus_id for gpu in look.seen.gpus.items}
    for device in known if look.seen.gpus.lost else ():
        function = look.functions.get(bus_id_of(device))
        is_card = function is not None and function.driver == "nvidia" and function.address not in answering
        if is_card and device.attributes.get("type") != "vfio":
            yield _spoilt(device, lost())


def _spoilt(device: Device, condition: Condition) -> Device:
    unhealthy = health_for(condition.reason)
    return replace(device, health=unhealthy, reason=condition.reason, taints=condition.taints)


def _counters(look: _Look) -> tuple[CounterSet, ...]:
    gpus = [gpu for gpu in look.gpus if look.is_divisible(gpu)]
    if look.config.pass_through:
        gpus = [gpu for gpu in look.gpus if look.is_divisible(gpu) or not gpu.is_divided]
    return tuple(card_counters(gpu, is_divisible=look.is_divisible(gpu)) for gpu in gpus)
