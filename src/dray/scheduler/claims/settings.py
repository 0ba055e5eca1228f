"""What the decisions about claims depend on beside the cluster: gates, timeouts, and whose mistakes to make."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from dray.allocation.allocator import Options
from dray.allocation.budget import FILTER_SECONDS
from dray.allocation.features import features_of_gates, gates_of
from dray.allocation.profiles import CORRECT, Profile
from dray.errors import InvalidError
from dray.semantics.features import NO_SWITCHES, Gate, GateSwitches

_SWITCHES: Final = {"Q16": "status_ignores_share", "Q17": "pending_last"}
"""Quirks that have a number in the reference of the allocator; the others come with the profile."""


@dataclass(frozen=True, slots=True)
class Quirks:
    """Every switch says what happens when it is on."""

    status_ignores_share: bool = False
    """Q16: the status of one share of a device counts for its other shares in the claim too."""
    pending_last: bool = False
    """Q17: results of claims that are in flight already are paired behind the new ones, whatever the claims' order."""
    allocated_uncounted: bool = False
    """Node resources that devices bring along are counted only for claims that are allocated in the same cycle, not for
    those that have their devices already."""
    full_claims_tried: bool = False
    """A claim with as many users as it may have is taken for usable: the pod fails when it is bound, again and again."""

    def switched(self, text: str) -> Quirks:
        """With single ones on top, from `--quirks`: `Q16` on, `-Q16` off."""
        switches = {}
        for word in filter(None, (one.strip() for one in text.split(","))):
            name = word.removeprefix("-")
            if name not in _SWITCHES:
                raise InvalidError(
                    f"--quirks: the scheduler has no quirk {name!r}: there are {', '.join(_SWITCHES)}",
                    field="--quirks",
                )
            switches[_SWITCHES[name]] = name == word
        return replace(self, **switches)


@dataclass(frozen=True, slots=True)
class Settings:
    """Made once for a scheduler. `options.seconds` is the filter timeout: a search on a node that takes longer fails."""

    options: Options = field(default_factory=Options)
    quirks: Quirks = Quirks()
    extended_resource: bool = True
    workload_claims: bool = False
    """The gate DRAWorkloadResourceClaims: claims of PodGroups are reserved for the group, not for its pods."""
    node_allocatable: bool = False
    """The gate DRANodeAllocatableResources: devices take CPU, memory and the like from their node."""
    binding_timeout: timedelta = timedelta(seconds=600)

    @staticmethod
    def of(
        options: Options,
        *,
        extended_resource: bool = True,
        workload_claims: bool = False,
        node_allocatable: bool = False,
    ) -> Settings:
        """With the quirks of the options' profile; Kubernetes 1.36 and 1.37 have all."""
        has_quirks = options.profile.name != CORRECT.name
        quirks = Quirks(has_quirks, has_quirks, has_quirks, has_quirks)
        return Settings(options, quirks, extended_resource, workload_claims, node_allocatable)

    @staticmethod
    def of_gates(profile: Profile, switches: GateSwitches = NO_SWITCHES) -> Settings:
        """As in the profile's release (`gates_of`), but for what was switched."""
        gates = gates_of(profile, switches)
        return Settings.of(
            Options(features_of_gates(gates, profile), profile, seconds=FILTER_SECONDS),
            extended_resource=Gate.EXTENDED_RESOURCE in gates,
            workload_claims=Gate.WORKLOAD_RESOURCE_CLAIMS in gates,
            node_allocatable=Gate.NODE_ALLOCATABLE_RESOURCES in gates,
        )

    @property
    def has_binding_conditions(self) -> bool:
        """Whether devices may ask to be waited for."""
        return self.options.features.device_binding_and_status
