"""What the iommufd kind serves."""

from __future__ import annotations

import msgspec

from dray.drivers.naming import SHARES


class IommufdConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`shares` is how many containers use /dev/iommu at once."""

    shares: int = SHARES
