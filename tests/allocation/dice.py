"""The choices behind a random allocator case: its tier, themes and features, and seeded dice."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypeVar

ADMIN = "DRAAdminAccess"
BINDING = "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus"
CAPACITY = "DRAConsumableCapacity"
LISTS = "DRAListTypeAttributes"
PARTITIONS = "DRAPartitionableDevices"
PRIORITIES = "DRAPrioritizedList"
TAINTS = "DRADeviceTaints"

TIERS = {
    "stable": (ADMIN, PARTITIONS, PRIORITIES, TAINTS),
    "incubating": (ADMIN, BINDING, CAPACITY, PARTITIONS, PRIORITIES, TAINTS),
    "experimental": (ADMIN, BINDING, CAPACITY, LISTS, PARTITIONS, PRIORITIES, TAINTS),
}
THEMES = {
    "plain": (),
    "pools": (),
    "nodes": (),
    "all": (),
    "constraints": (),
    "config": (),
    "selectors": (),
    "errors": (),
    "admin": (ADMIN,),
    "binding": (BINDING,),
    "capacity": (CAPACITY,),
    "counters": (PARTITIONS,),
    "lists": (LISTS,),
    "priorities": (PRIORITIES,),
    "taints": (TAINTS,),
}

OFTEN = ("capacity", "capacity", "counters", "constraints", "lists")

T = TypeVar("T")
Thing = dict[str, Any]


class Dice:
    """Seeded choices, and what is being made: the themes and features of the case."""

    def __init__(self, seed: int, tier: str) -> None:
        self._random = random.Random(f"allocation {tier} {seed}")
        self.tier = tier
        supported = TIERS[tier]
        names = [name for name, needs in THEMES.items() if set(needs) <= set(supported)]
        names += [name for name in OFTEN if name in names]
        themes = set(self._random.sample(names, self._random.choice((1, 2, 2, 3))))
        if "capacity" in themes and self._random.random() < 0.3:
            themes.add("counters")
        self.themes = frozenset(themes)
        self.features = self._features(supported)

    def _features(self, supported: tuple[str, ...]) -> list[str]:
        """Mostly what the themes need and some more; sometimes one of them is missing on purpose."""
        needed = {feature for theme in self.themes for feature in THEMES[theme]}
        style = self.pick(("all",) * 9 + ("needed",) * 4 + ("mixed",) * 6 + ("without",))
        if style == "all":
            return sorted(supported)
        if style == "needed":
            return sorted(needed)
        if style == "without" and needed:
            needed.discard(self.pick(sorted(needed)))
            return sorted(needed)
        return sorted(needed | {feature for feature in supported if self.chance(0.5)})

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def themed(self, theme: str, probability: float, otherwise: float = 0.0) -> bool:
        """A chance that depends on whether the case is about `theme`."""
        return self.chance(probability if theme in self.themes else otherwise)

    def pick(self, values: Sequence[T]) -> T:
        return self._random.choice(values)

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def some(self, values: Sequence[T], low: int = 0, high: int | None = None) -> list[T]:
        """A random part of the values, in their order."""
        most = len(values) if high is None else min(len(values), high)
        count = self.number(min(low, most), most)
        chosen = sorted(self._random.sample(range(len(values)), count))
        return [values[index] for index in chosen]

    def shuffled(self, values: Sequence[T]) -> list[T]:
        return self._random.sample(list(values), len(values))
