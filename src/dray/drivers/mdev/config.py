"""What the kind of mediated devices serves."""

from __future__ import annotations

import msgspec

from dray.errors import InvalidError
from dray.hardware.mdev import Mdev, selectable_name


class MdevSelector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Instances of a type under a resource name. `type` is its name (`GRID T4-1Q`, `GRID_T4-1Q`) or id (`nvidia-222`)."""

    resource: str
    type: str

    def __post_init__(self) -> None:
        if not selectable_name(self.type):
            raise InvalidError(f"resource {self.resource!r} names no mdev type to select", field="type")

    def matches(self, mdev: Mdev) -> bool:
        """Whether the instance is of the type."""
        return selectable_name(self.type) in (mdev.type_name, mdev.type_id)


class MdevConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which instances; of several selectors for a type the last wins. `everything` also lists those that none names."""

    selectors: tuple[MdevSelector, ...] = ()
    everything: bool = False

    def resource_of(self, mdev: Mdev) -> str:
        """The instance's resource; empty where it has none."""
        return next((one.resource for one in reversed(self.selectors) if one.matches(mdev)), "")
