"""Whose mistakes to make: the quirks of Kubernetes' allocators as named switches, and the three sets of them.

The Q numbers are those of `docs/reference/allocator.md`, which says for each what each profile does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dray.errors import InvalidError


@dataclass(frozen=True, slots=True)
class Profile:
    """Every switch says what happens when it is on; `correct` has all of them off."""

    name: str
    distinct_by_request: bool = False
    """Q1: distinctAttribute remembers one value per request, so the third device is not compared with the first."""
    intersection_sticks: bool = False
    """Q2: the common values of a list matchAttribute stay narrowed after a step back."""
    config_repeated: bool = False
    """Q3: a claim's configuration appears once per request it names."""
    all_skips_exhausted: bool = False
    """Q4: `All` leaves out devices whose capacity is used up, instead of failing."""
    counter_slices_everywhere: bool = False
    """Q5: slices with counters belong to every node, whatever they say."""
    capacity_unchecked: bool = False
    """Q6: negative amounts count as they are, and amounts beyond 64 bits wrap around."""
    bare_rule_taints_all: bool = False
    """Q7: a DeviceTaintRule without a selector taints every device, though it is documented to taint none."""
    own_slices_suffice: bool = False
    """Q9: where the node's slices make a whole pool, a newer generation of several other nodes goes unseen."""
    lists_unreachable: bool = False
    """Q10: the scheduler never asks for list attributes, whatever its gate says."""
    lists_need_gate: bool = False
    """Without the gate of list attributes such an attribute has no value, and every selector fails on its device."""
    match_hides_distinct: bool = False
    """Q11: of a constraint with both attributes only matchAttribute counts."""
    bare_shares_recharge: bool = False
    """Q12: a shared device without capacity is charged its counters again by the next claim."""
    overdrawn_counter_blocks_pool: bool = False
    """Q14: one counter below zero keeps every device that consumes any counter of that pool from being given."""
    all_needs_every_pool: bool = False
    """Q15: a pool of any driver that is incomplete or invalid makes `All` an error for the whole attempt."""
    capacity_keys_literal: bool = False
    """Q18: a capacity asked for as `DRIVER/NAME` is not found where the device calls it `NAME`, and the reverse."""
    all_constraint_fatal: bool = False
    """A constraint against a device of an `All` request ends the attempt, even where another choice before would fit."""
    selector_faults_nameless: bool = False
    """A selector's run-time error does not say on which device it happened."""


KUBERNETES_1_36: Final = Profile(
    "k8s-1.36",
    distinct_by_request=True,
    intersection_sticks=True,
    config_repeated=True,
    all_skips_exhausted=True,
    counter_slices_everywhere=True,
    capacity_unchecked=True,
    bare_rule_taints_all=True,
    own_slices_suffice=True,
    lists_unreachable=True,
    lists_need_gate=True,
    match_hides_distinct=True,
    bare_shares_recharge=True,
    overdrawn_counter_blocks_pool=True,
    all_needs_every_pool=True,
    capacity_keys_literal=True,
    all_constraint_fatal=True,
    selector_faults_nameless=True,
)
KUBERNETES_1_37: Final = Profile(
    "k8s-1.37",
    bare_rule_taints_all=True,
    own_slices_suffice=True,
    match_hides_distinct=True,
    overdrawn_counter_blocks_pool=True,
    all_needs_every_pool=True,
    capacity_keys_literal=True,
    all_constraint_fatal=True,
)
CORRECT: Final = Profile("correct")

_DECIDES: Final = "decided as a scheduler of"
PROFILES: Final = {profile.name: profile for profile in (KUBERNETES_1_36, KUBERNETES_1_37, CORRECT)}


def profile_named(name: str) -> Profile:
    """The profile of this name; raises InvalidError that lists them."""
    try:
        return PROFILES[name]
    except KeyError:
        raise InvalidError(
            f"no profile {name!r}: there are {', '.join(PROFILES)}", field="--profile"
        ) from None


def profile_of_server(major: str, minor: str) -> tuple[Profile, str]:
    """Whose decisions a cluster's scheduler makes, by what its server's `/version` says; and a note where that is a guess."""
    digits = "".join(filter(str.isdecimal, minor))
    known = {36: KUBERNETES_1_36, 37: KUBERNETES_1_37}
    if major != "1" or not digits:
        return KUBERNETES_1_36, f"the server does not say which Kubernetes it is; {_DECIDES} 1.36"
    number = int(digits)
    if number in known:
        return known[number], ""
    nearest = max(min(number, max(known)), min(known))
    return known[
        nearest
    ], f"the server is Kubernetes 1.{number}; {_DECIDES} 1.{nearest}, the nearest that is known"
