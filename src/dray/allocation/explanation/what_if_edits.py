"""Changes to claims, and to what is in use, that may make claims fit: what they are and how they read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any

import msgspec

from dray.allocation.capacity import largest
from dray.allocation.explanation.nearest import Miss, without_part
from dray.allocation.explanation.refusal import Check, Holder, Refusal, RequestRefusal
from dray.allocation.requests import claim_name
from dray.allocation.state import AllocatedState
from dray.api.quantity import Quantity
from dray.api.resource.claim import EXACT_COUNT, CapacityRequirements, ResourceClaim
from dray.api.taints import DeviceToleration

Claims = tuple[ResourceClaim, ...]
Wish = Any
"""An ExactDeviceRequest or a DeviceSubRequest: the fields that change are the same."""


class Kind(StrEnum):
    """What is changed; small changes for a user first."""

    FREE = "free"
    TOLERATE = "tolerate"
    COUNT = "count"
    CAPACITY = "capacity"
    SELECTOR = "selector"
    CONSTRAINT = "constraint"


@dataclass(frozen=True, slots=True)
class Edit:
    """One change. `frees` are the claims it takes away; `holders` what they hold, for the reader."""

    kind: Kind
    text: str
    claim: str = ""
    request: str = ""
    frees: frozenset[str] = frozenset()
    holders: tuple[Holder, ...] = ()
    apply: Callable[[Claims], Claims] = field(default=lambda claims: claims, compare=False, repr=False)


def held(edit: Edit) -> str:
    """What it frees."""
    return ", ".join(map(str, edit.holders))


def free(claims: Sequence[str], holders: Iterable[Holder]) -> Edit:
    """Take the devices of these claims back."""
    ordered = tuple(sorted(holders))
    shown = ", ".join(map(str, ordered))
    only = claims[0] if len(claims) == 1 else ""
    return Edit(Kind.FREE, f"free {shown}", only, "", frozenset(claims), ordered)


def tolerate(refusal: Refusal, misses: Sequence[Miss]) -> Iterator[Edit]:
    """A toleration for each taint in the way."""
    for one, texts in _taints(refusal, misses):
        yield from (_toleration_edit(one, (text,)) for text in texts)


def tolerate_all(refusal: Refusal, misses: Sequence[Miss]) -> Iterator[Edit]:
    """For each request that meets several taints, all tolerations at once."""
    for one, texts in _taints(refusal, misses):
        if len(texts) > 1:
            yield _toleration_edit(one, texts)


def _taints(
    refusal: Refusal, misses: Sequence[Miss]
) -> Iterator[tuple[RequestRefusal | Miss, tuple[str, ...]]]:
    """The requests that meet taints, each with all of them, once."""
    found: dict[tuple[str, str], tuple[RequestRefusal | Miss, dict[str, None]]] = {}
    both: Sequence[RequestRefusal | Miss] = (*refusal.requests, *misses)
    for one in both:
        found.setdefault((one.claim, one.request), (one, {}))[1].update(dict.fromkeys(one.taints))
    return ((one, tuple(texts)) for one, texts in found.values() if texts)


def _toleration_edit(one: RequestRefusal | Miss, texts: tuple[str, ...]) -> Edit:
    what = f"taint {texts[0]}" if len(texts) == 1 else f"taints {', '.join(texts)}"
    return Edit(
        Kind.TOLERATE,
        f"tolerate the {what} in {_place(one)}",
        one.claim,
        one.request,
        apply=_wish_edit(one, partial(_tolerating, tuple(map(_toleration, texts)))),
    )


def _toleration(text: str) -> DeviceToleration:
    key_value, _, effect = text.rpartition(":")
    key, equals, value = key_value.partition("=")
    return DeviceToleration(key=key, operator="Equal" if equals else "Exists", value=value, effect=effect)


def _tolerating(more: tuple[DeviceToleration, ...], wish: Wish) -> Wish:
    return msgspec.structs.replace(wish, tolerations=(*wish.tolerations, *more))


def lower(one: RequestRefusal, count: int) -> Edit:
    """Ask for fewer devices."""
    devices = "device" if count == 1 else "devices"

    def lowered(wish: Wish) -> Wish:
        return msgspec.structs.replace(wish, count=count) if wish.allocation_mode == EXACT_COUNT else wish

    return Edit(
        Kind.COUNT,
        f"ask for {count} {devices} instead of {one.wanted} in {_place(one)}",
        one.claim,
        one.request,
        apply=_wish_edit(one, lowered),
    )


def relax(misses: Sequence[Miss]) -> Iterator[Edit]:
    """The request's selectors without the terms that were false on a near miss."""
    for miss in misses:
        terms = [term for term in miss.false_terms if not term.is_of_class]
        if not terms or len(terms) < len(miss.false_terms):
            continue
        texts = dict[int, str]()
        for term in terms:
            texts[term.number] = without_part(texts.get(term.number, term.expression), term.part)
        shown = " and ".join(f"`{' '.join(term.part.text.split())}`" for term in terms)

        def relaxed(wish: Wish, texts: dict[int, str] = texts) -> Wish:
            return msgspec.structs.replace(
                wish,
                selectors=tuple(
                    msgspec.structs.replace(
                        one, cel=msgspec.structs.replace(one.cel, expression=texts[number])
                    )
                    if number in texts
                    else one
                    for number, one in enumerate(wish.selectors)
                ),
            )

        yield Edit(
            Kind.SELECTOR,
            f"leave out {shown} of the selector in {_place(miss)}",
            miss.claim,
            miss.request,
            apply=_wish_edit(miss, relaxed),
        )


def less_capacity(misses: Sequence[Miss], allocated: AllocatedState) -> Iterator[Edit]:
    """Ask for what is left on a device that lacks nothing but capacity, as far as its policy allows that."""
    for miss in misses:
        if miss.checks != (Check.CAPACITY,):
            continue
        used = allocated.capacity.get(miss.candidate.id, {})
        short = {lack.name for lack in miss.lacks}
        most: dict[str, Quantity] = {}
        for name, capacity in sorted(miss.candidate.device.capacity.items()):
            left = capacity.value - used[name] if name in used else capacity.value
            bare = name.removeprefix(f"{miss.candidate.id.driver}/")
            asked = short & {name, bare, f"{miss.candidate.id.driver}/{name}"}
            if asked and (found := largest(capacity, left)) is not None:
                most |= dict.fromkeys(asked, found)
        if not most:
            continue
        shown = ", ".join(f"{amount} of {name}" for name, amount in sorted(most.items()))
        yield Edit(
            Kind.CAPACITY,
            f"ask for no more than {shown} in {_place(miss)}",
            miss.claim,
            miss.request,
            apply=_wish_edit(miss, partial(_within, most)),
        )


def _within(most: dict[str, Quantity], wish: Wish) -> Wish:
    asked = wish.capacity.requests if wish.capacity is not None else {}
    return msgspec.structs.replace(wish, capacity=CapacityRequirements(requests={**asked, **most}))


def unconstrain(claims: Claims) -> Iterator[Edit]:
    """The claims without one of their constraints."""
    for claim in claims:
        constraints = claim.spec.devices.constraints
        for number, one in enumerate(constraints):
            rest = constraints[:number] + constraints[number + 1 :]
            what = f"matchAttribute {one.match_attribute}"
            if one.match_attribute is None:
                what = f"distinctAttribute {one.distinct_attribute}"
            name = claim_name(claim)

            def freed(claims: Claims, name: str = name, rest: Any = rest) -> Claims:
                return _edited(
                    claims, name, lambda devices: msgspec.structs.replace(devices, constraints=rest)
                )

            text = f"leave out the constraint {what} of claim {name}"
            yield Edit(Kind.CONSTRAINT, text, name, apply=freed)


def _place(one: RequestRefusal | Miss) -> str:
    return f"request {one.request} of claim {one.claim}"


def _edited(claims: Claims, name: str, change: Callable[[Any], Any]) -> Claims:
    replace = msgspec.structs.replace
    return tuple(
        replace(claim, spec=replace(claim.spec, devices=change(claim.spec.devices)))
        if claim_name(claim) == name
        else claim
        for claim in claims
    )


def _wish_edit(one: RequestRefusal | Miss, change: Callable[[Wish], Wish]) -> Callable[[Claims], Claims]:
    """An edit of one request, or of one alternative of it."""
    base, _, alternative = one.request.partition("/")
    replace = msgspec.structs.replace

    def request(given: Any) -> Any:
        if given.name != base:
            return given
        if not alternative:
            return replace(given, exactly=change(given.exactly))
        subs = tuple(change(sub) if sub.name == alternative else sub for sub in given.first_available)
        return replace(given, first_available=subs)

    return lambda claims: _edited(
        claims,
        one.claim,
        lambda devices: replace(devices, requests=tuple(map(request, devices.requests))),
    )
