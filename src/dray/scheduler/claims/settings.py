"""What the decisions about claims depend on beside the cluster: gates, timeouts, and whose mistakes to make."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from dray.allocation.allocator import Options
from dray.allocation.profiles import CORRECT


@dataclass(frozen=True, slots=True)
class Quirks:
    """Every switch says what happens when it is on."""

    status_ignores_share: bool = False
    """Q16: the status of one share of a device counts for its other shares in the claim too."""
    pending_last: bool = False
    """Q17: results of claims that are in flight already are paired behind the new ones, whatever the claims' order."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Made once for a scheduler. `options.step_limit` stands for the filter timeout: a search that takes longer fails."""

    options: Options = field(default_factory=Options)
    quirks: Quirks = Quirks()
    extended_resource: bool = True
    binding_timeout: timedelta = timedelta(seconds=600)

    @staticmethod
    def of(options: Options, *, extended_resource: bool = True) -> Settings:
        """With the quirks of the options' profile; Kubernetes 1.36 and 1.37 have both."""
        has_quirks = options.profile.name != CORRECT.name
        return Settings(options, Quirks(has_quirks, has_quirks), extended_resource)

    @property
    def has_binding_conditions(self) -> bool:
        """Whether devices may ask to be waited for."""
        return self.options.features.device_binding_and_status
