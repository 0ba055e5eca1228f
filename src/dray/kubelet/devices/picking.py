"""Which devices a container gets: a kubelet's rules in their order. Pure; a plugin's wish is asked for by a question."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Generator
from dataclasses import dataclass
from json import dumps

from dray.errors import InvalidError, UnavailableError
from dray.kubelet.devices.affinity import split_by_affinity
from dray.kubelet.devices.known import DeviceList
from dray.kubelet.topology.hints import Hint


@dataclass(frozen=True, slots=True)
class Want:
    """What a container asks of one resource. `existing` is what it holds already, None: nothing was granted yet."""

    pod_uid: str
    container: str
    resource: str
    required: int
    existing: frozenset[str] | None = None
    reusable: frozenset[str] = frozenset()
    """Of init containers of the same pod."""
    was_running: bool = False
    """It runs since before this process started, so it has what it needs."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What there is. `healthy` is None for a resource that no plugin listed; `free` are healthy and nobody's."""

    healthy: frozenset[str] | None
    free: frozenset[str]
    devices: DeviceList
    hint: Hint
    has_wishes: bool = True
    """Whether the plugin wants to be asked."""


@dataclass(frozen=True, slots=True)
class Preference:
    """A question to the plugin. While it is asked, nobody else may take what is in `must_include`."""

    available: frozenset[str]
    must_include: frozenset[str]
    size: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What the plugin would rather give, and what is free by now: others may have taken some while it was asked."""

    preferred: Collection[str]
    free: frozenset[str]


Picking = Generator[Preference, Answer, tuple[str, ...]]


def pick(want: Want, offer: Offer) -> Picking:
    """The ids to allocate, sorted; none where there is nothing to do. Asks once at most.

    Errors have a kubelet's words: InvalidError where the pod is at fault, UnavailableError where devices are missing.
    """
    needed = _still_needed(want)
    if want.was_running or want.required <= 0:
        return ()
    _check(want, offer)
    if needed == 0:
        return ()
    taken = heapq.nsmallest(needed, want.reusable)
    needed -= len(taken)
    if needed == 0:
        return tuple(taken)
    if len(offer.free) < needed:
        raise _too_few(want.resource, needed, len(offer.free))
    more = yield from _pick_free(want, offer, tuple(taken), needed)
    return tuple(sorted((*taken, *more)))


def _still_needed(want: Want) -> int:
    if want.existing is None:
        return want.required
    if want.required != len(want.existing):
        raise InvalidError(
            f"pod {dumps(want.pod_uid)} container {dumps(want.container)} changed request for resource "
            f"{dumps(want.resource)} from {len(want.existing)} to {want.required}"
        )
    return 0


def _check(want: Want, offer: Offer) -> None:
    if offer.healthy is None:
        raise UnavailableError(f"cannot allocate unregistered device {want.resource}")
    if not offer.healthy:
        raise UnavailableError(
            f"no healthy devices present; cannot allocate unhealthy devices {want.resource}"
        )
    if want.existing is not None and not want.existing <= offer.healthy:
        raise UnavailableError(
            f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {want.resource}"
        )


def _pick_free(
    want: Want, offer: Offer, reused: tuple[str, ...], needed: int
) -> Generator[Preference, Answer, list[str]]:
    """From the free devices: aligned ones first; the plugin is asked only where there is a choice."""
    split = split_by_affinity(offer.free, offer.devices, offer.hint)
    has_choice = needed < len(split.aligned)
    taken = [] if has_choice else offer.devices.first(needed, split.aligned)
    if len(taken) == needed:
        return taken
    sources = (split.aligned,) if has_choice else (split.unaligned, split.unbound)
    if offer.has_wishes:
        offered = split.aligned if has_choice else offer.free
        must = frozenset((*reused, *taken))
        answer = yield Preference(offered | must, must, want.required)
        free = answer.free.difference(taken)
        sources = tuple(one & free for one in (offered.intersection(answer.preferred), *sources))
    missing = needed - len(taken)
    for source in sources:
        taken += offer.devices.first(needed - len(taken), source.difference(taken) if taken else source)
        if len(taken) == needed:
            return taken
    raise _too_few(want.resource, missing, len(frozenset().union(*sources)))


def _too_few(resource: str, needed: int, available: int) -> UnavailableError:
    return UnavailableError(
        f"requested number of devices unavailable for {resource}. Requested: {needed}, Available: {available}"
    )
