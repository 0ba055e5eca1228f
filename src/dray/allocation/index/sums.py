"""What is left of a pool's counters, kept up with what is in use instead of added up for each question."""

from __future__ import annotations

from collections.abc import Sequence

from dray.allocation.candidates import Candidate, counters_of
from dray.allocation.features import Tier
from dray.allocation.pools import Pool
from dray.allocation.state import DeviceID, Rules


class RunningSums:
    """What is left of one pool's counters, with everything in use taken off."""

    def __init__(self, pool: Pool, here: Sequence[Candidate], rules: Rules) -> None:
        self._rules = rules
        self._consumed = {one.id: one.consumes for one in here}
        self._charged: set[DeviceID] = set()
        self.left = dict(pool.counters)
        for one in pool.elsewhere:
            for device in one.spec.devices or ():
                if device.consumes_counters:
                    identity = DeviceID(pool.id.driver, pool.id.pool, device.name)
                    self._consumed[identity] = (*self._consumed.get(identity, ()), *counters_of(device))
        for identity in self._consumed:
            self.touch(identity)

    def touch(self, device: DeviceID) -> None:
        """Charge the device, or stop to, if that is not what is done already."""
        is_held = self._is_held(device)
        if is_held is (device in self._charged):
            return
        (self._charged.add if is_held else self._charged.discard)(device)
        for key, amount in self._consumed.get(device, ()):
            if key in self.left:
                self.left[key] -= amount if is_held else -amount

    def _is_held(self, device: DeviceID) -> bool:
        rules = self._rules
        if device in rules.allocated.devices:
            return True
        return rules.tier is not Tier.STABLE and (
            device in rules.shared or device in rules.allocated.capacity
        )
