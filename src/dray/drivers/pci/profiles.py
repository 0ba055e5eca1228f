"""Give NVIDIA virtual functions the vGPU profile that the configuration names; nobody else on a node does.

Only a function with a rule is ever written to. A rule that is taken away leaves the profile as it is: a profile is no
device of ours, and whoever uses the function would lose it. To clear one, write 0 to `nvidia/current_vgpu_type`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import msgspec

from dray.drivers.contract import Problem
from dray.drivers.failures import Failures, key_of
from dray.errors import InvalidError
from dray.hardware.change import SetVgpuProfile
from dray.hardware.mdev import selectable_name
from dray.hardware.parse import is_pci_address, pair
from dray.hardware.pci import DEVICES, PciFunction
from dray.hardware.vgpu import VgpuFunction, VgpuType

_BRANDS = ("NVIDIA_", "GRID_")


class ProfileRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A profile for the function at `address`, or for all virtual functions with this `id` (`10de:2335`, any case).

    `profile` is NVIDIA's number, or its name (`NVIDIA H200X-1-18C`, also with `_`, also without the brand before it).
    """

    profile: int | str
    id: str = ""
    address: str = ""

    def __post_init__(self) -> None:
        if bool(self.id) == bool(self.address):
            raise InvalidError(f"profile {self.profile!r} needs an id or an address, not both", field="id")
        if self.id and pair(self.id) is None:
            raise InvalidError(
                f"{self.id!r} must be vendor:device in hexadecimal, like 10de:2335", field="id"
            )
        if self.address and not is_pci_address(self.address.lower()):
            raise InvalidError(f"{self.address!r} must be a PCI address like 0000:41:00.4", field="address")
        if not (self.profile if isinstance(self.profile, str) else 0 < self.profile < 2**32):
            raise InvalidError(f"profile {self.profile!r} must be a number from 1 or a name", field="profile")

    @property
    def target(self) -> str:
        """What it is for, as the configuration writes it."""
        return self.address or self.id


@dataclass(frozen=True, slots=True)
class ProfilePlan:
    """`clear` comes before `give`: a GPU that makes one kind of profile at a time must first lose the old ones, of all its
    functions. Where one of them keeps its profile, that would be no help: nothing is cleared there, and a function whose
    new profile is refused keeps its old one. `is_held` says that a function in use is in the way; `unplaced` are rules
    that no function here matches.
    """

    clear: tuple[SetVgpuProfile, ...] = ()
    give: tuple[SetVgpuProfile, ...] = ()
    problems: tuple[Problem, ...] = ()
    unplaced: tuple[str, ...] = ()
    next_try: float | None = None
    is_held: bool = False

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do now."""
        return not self.clear and not self.give


@dataclass(frozen=True, slots=True)
class ProfileView:
    """One look at the host. `names` are profiles by number, seen now or before: a GPU in use offers few of them."""

    functions: tuple[PciFunction, ...]
    vgpus: Mapping[str, VgpuFunction]
    names: Mapping[int, str]
    held: AbstractSet[str] = frozenset()


def plan_profiles(
    view: ProfileView, rules: Sequence[ProfileRule], failures: Failures, now: float
) -> ProfilePlan:
    """The next step. `view.held` are addresses in use; `now` is on the clock of `failures`.

    An address goes before an id, and of equal rules the last one wins. An id means virtual functions alone: the card
    itself often has the same id.
    """
    by_address = {rule.address.lower(): rule for rule in rules if rule.address}
    by_id = {pair(rule.id): rule for rule in rules if rule.id}
    planner = _Planner(view, failures, now)
    matched: set[ProfileRule] = set()
    for function in sorted(view.functions, key=lambda function: function.address):
        general = by_id.get((function.vendor, function.device)) if function.is_virtual else None
        rule = by_address.get(function.address)
        matched |= {one for one in (rule, general) if one is not None}
        if chosen := rule or general:
            planner.add(function, chosen.profile)
    rest = [rule.target for rule in (*by_address.values(), *by_id.values()) if rule not in matched]
    return planner.plan(tuple(sorted(rest)))


class _Planner:
    """The work of one `plan_profiles`; its lists become the plan."""

    def __init__(self, view: ProfileView, failures: Failures, now: float) -> None:
        self._view, self._failures, self._now = view, failures, now
        self._give: dict[str, SetVgpuProfile] = {}
        self._problems: list[Problem] = []
        self._retries: list[float] = []
        self._is_held = False

    def plan(self, unplaced: tuple[str, ...]) -> ProfilePlan:
        having = [function for function in self._view.functions if function.vgpu_profile is not None]
        fixed = {_card(function) for function in having if function.address not in self._give}
        clear = [f.address for f in having if f.address in self._give and _card(f) not in fixed]
        return ProfilePlan(
            tuple(SetVgpuProfile(address, 0) for address in sorted(clear)),
            tuple(self._give.values()),
            tuple(self._problems),
            unplaced,
            min(self._retries, default=None),
            self._is_held,
        )

    def add(self, function: PciFunction, profile: int | str) -> None:
        """Plan for a function that shall have this profile."""
        address = function.address
        vgpu = self._view.vgpus.get(address)
        if vgpu is None:
            self._tell(address, _no_vgpu(function))
            return
        number = profile if isinstance(profile, int) else self._number(vgpu, profile)
        if number is None or vgpu.current == str(number):
            return
        if address in self._view.held:
            self._is_held = True
            self._tell(address, f"{address} is in use: it gets vGPU profile {profile} when it is free")
        elif not self._is_waiting(address, profile, number):
            self._give[address] = SetVgpuProfile(address, number)

    def _number(self, vgpu: VgpuFunction, name: str) -> int | None:
        found = _find(vgpu.creatable, name) or _find(
            [VgpuType(number, text) for number, text in sorted(self._view.names.items())], name
        )
        if found is not None:
            return found.id
        offered = ", ".join(f"{one.name} ({one.id})" for one in vgpu.creatable) or "no profile at all"
        left = f"; it keeps profile {vgpu.current}" if vgpu.current is not None else ""
        self._tell(
            vgpu.address,
            f"{vgpu.address} does not offer vGPU profile {name!r} now{left}: it offers {offered}; "
            "a GPU in use may show fewer, and a profile given by number needs no name",
        )
        return None

    def _is_waiting(self, address: str, profile: int | str, number: int) -> bool:
        steps = (SetVgpuProfile(address, 0), SetVgpuProfile(address, number))
        waiting = [one for step in steps if (one := self._failures.waiting(key_of(step), self._now))]
        for failure in waiting:
            self._retries.append(failure.retry_at)
            text = f"{address} did not get vGPU profile {profile} {failure.how_often}: {failure.error}"
            self._tell(address, text)
        return bool(waiting)

    def _tell(self, address: str, message: str) -> None:
        self._problems.append(Problem(f"{DEVICES}/{address}", message))


def _find(types: Iterable[VgpuType], name: str) -> VgpuType | None:
    """The type of this name; the brand before it may be left out where the whole name is nobody's."""
    wanted, known = selectable_name(name), [(selectable_name(one.name), one) for one in types]
    whole = [one for text, one in known if text == wanted]
    short = [one for text, one in known if text in [f"{brand}{wanted}" for brand in _BRANDS]]
    return next(iter([*whole, *short]), None)


def _card(function: PciFunction) -> str:
    """The GPU whose memory its profile takes."""
    return function.physical_function or function.address


def _no_vgpu(function: PciFunction) -> str:
    address = function.address
    if function.is_physical:
        return f"{address} is a physical function and takes no vGPU profile: name its virtual functions"
    driver = f"bound to {function.driver}" if function.driver else "without driver"
    return f"{address} takes no vGPU profile: it has no nvidia/current_vgpu_type, and is {driver}; bind it to NVIDIA's vGPU driver"
