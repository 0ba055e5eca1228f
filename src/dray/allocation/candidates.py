"""The search's view of a node's devices: a slot for each, in first-fit order, and which slots a request may have.

`Candidates` is the whole of what the search asks. `DeviceList` answers by evaluating selectors device by device and
remembers; an index that lives across decisions may answer from bit sets instead, as long as it keeps the promise in
`Candidates.next_match`: a selector's error surfaces only if the search comes to that device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from dray.allocation.budget import LOOK, UNLIMITED, Spending
from dray.allocation.faults import AllocationError, SelectorError
from dray.allocation.features import Features
from dray.allocation.pools import Pool, device_is_for
from dray.allocation.profiles import Profile
from dray.allocation.requests import Request
from dray.allocation.state import DeviceID
from dray.api.core.node import Node
from dray.api.resource.device_class import DeviceSelector
from dray.api.resource.slice import Device, ResourceSliceSpec

CounterKey = tuple[str, str]

_MAKING: Final = 2
_EVALUATION: Final = 32
"""What it costs a budget to look at a device, and to ask selectors about it, at least."""
_SELECTOR: Final = LOOK // 2
"""One may take half a second: the clock is looked at after every second one, which is less than it costs to ask one."""


class Selectors(Protocol):
    """Evaluates CEL selectors; compiled ones are remembered behind it."""

    def matches(self, expression: str, driver: str, device: Device) -> bool:
        """Whether the device is meant; raises SelectorError where the expression has no answer for it."""
        ...


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device at its place in the order. `consumes` are its counters in billionths; `is_shareable` needs its gate."""

    slot: int
    id: DeviceID
    device: Device
    spec: ResourceSliceSpec
    pool: Pool
    is_shareable: bool
    consumes: tuple[tuple[CounterKey, int], ...]


class Candidates(Protocol):
    """What the search sees of one node. Bit sets are ints: bit n stands for slot n."""

    budget: Spending
    """Whose time selectors take."""

    @property
    def devices(self) -> Sequence[Candidate]:
        """Every device of the usable pools."""
        ...

    def next_match(self, request: Request, start: int, skip: int) -> int:
        """The first slot from `start` on that is not in `skip` and that the request's selectors accept, else -1.

        Raises AllocationError if the selectors fail on a device before that one, and only then.
        """
        ...

    def peek(self, request: Request, slot: int) -> bool | None:
        """Whether the selectors accept the device; None where they fail on it. Never raises."""
        ...

    def matches(self, request: Request, candidate: Candidate) -> bool:
        """Whether the selectors accept the device; raises AllocationError where they fail."""
        ...

    def rejected_by(self, request: Request, candidate: Candidate) -> str:
        """Which check that concerns the device alone removes it, "" for none; raises where a selector fails.

        Asked for explanations, and for devices of unusable pools, which have no slot.
        """
        ...


CandidatesFor = Callable[[Sequence[Pool], Node, Spending], Candidates]
"""Makes the view of a node from its pools; called once for each question, with its budget."""


def counters_of(device: Device) -> tuple[tuple[CounterKey, int], ...]:
    """What a device takes from its pool's counters."""
    return tuple(
        ((consumption.counter_set, name), counter.value.nano)
        for consumption in device.consumes_counters
        for name, counter in sorted(consumption.counters.items())
    )


class DeviceList:
    """The plain view: selectors are evaluated when a device's turn comes, once per device and request."""

    def __init__(
        self,
        pools: Iterable[Pool],
        node: Node,
        selectors: Selectors,
        features: Features,
        profile: Profile,
        budget: Spending | None = None,
    ) -> None:
        self.budget: Spending = budget or UNLIMITED
        self._node = node
        self._selectors = selectors
        self._features = features
        self._profile = profile
        self._answers: dict[tuple[int, int], bool | AllocationError] = {}
        found: list[Candidate] = []
        for pool in pools:
            if pool.is_usable:
                found.extend(devices_of(pool, len(found), features, self.budget))
        self.devices: Sequence[Candidate] = tuple(found)

    def next_match(self, request: Request, start: int, skip: int) -> int:
        """See `Candidates`."""
        devices = self.devices
        for slot in range(start, len(devices)):
            self.budget.charge()
            if not skip >> slot & 1 and self.matches(request, devices[slot]):
                return slot
        return -1

    def peek(self, request: Request, slot: int) -> bool | None:
        """See `Candidates`."""
        answer = self._answer(request, self.devices[slot])
        return None if isinstance(answer, AllocationError) else answer

    def matches(self, request: Request, candidate: Candidate) -> bool:
        """See `Candidates`."""
        answer = self._answer(request, candidate)
        if isinstance(answer, AllocationError):
            raise answer
        return answer

    def _answer(self, request: Request, candidate: Candidate) -> bool | AllocationError:
        key = (request.ordinal, candidate.slot)
        answer = self._answers.get(key)
        if answer is None:
            try:
                answer = not self.rejected_by(request, candidate)
            except AllocationError as error:
                answer = error
            self._answers[key] = answer
        return answer

    def rejected_by(self, request: Request, candidate: Candidate) -> str:
        """See `Candidates`."""
        self.budget.charge(_EVALUATION)
        device = candidate.device
        if device.binding_conditions and not self._features.device_binding_and_status:
            return "feature"
        where = f"class {request.device_class.metadata.name}"
        if not self._all_match(where, request.device_class.spec.selectors, candidate):
            return "class"
        if not self._all_match(f"claim {request.claim_name}", request.wish.selectors, candidate):
            return "selector"
        if candidate.spec.per_device_node_selection and not device_is_for(self._node, device):
            return "node"
        return ""

    def _all_match(self, where: str, selectors: Iterable[DeviceSelector], candidate: Candidate) -> bool:
        for number, selector in enumerate(selectors):
            if selector.cel is None:
                raise AllocationError(f"{where}: selector #{number}: CEL expression empty")
            self.budget.charge(_SELECTOR)
            try:
                if not self._selectors.matches(
                    selector.cel.expression, candidate.id.driver, candidate.device
                ):
                    return False
            except SelectorError as error:
                kind = "runtime" if error.compiled else "compile"
                on = ""
                if error.compiled and not self._profile.selector_faults_nameless:
                    on = f" on device {candidate.id}"
                raise AllocationError(f"{where}: selector #{number}{on}: CEL {kind} error: {error}") from None
        return True


def devices_of(pool: Pool, first: int, features: Features, budget: Spending | None = None) -> list[Candidate]:
    """The pool's devices for the node, in order; the first one gets the slot `first`."""
    found: list[Candidate] = []
    for one in pool.slices:
        if budget is not None:
            budget.charge(_MAKING * len(one.spec.devices or ()))
        for device in one.spec.devices or ():
            identity = DeviceID(pool.id.driver, pool.id.pool, device.name)
            is_shareable = features.consumable_capacity and bool(device.allow_multiple_allocations)
            found.append(
                Candidate(
                    first + len(found), identity, device, one.spec, pool, is_shareable, counters_of(device)
                )
            )
    return found
