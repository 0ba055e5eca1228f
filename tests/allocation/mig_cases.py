"""Random cases of cards that can be cut into partitions, small enough that trying everything ends.

A card has a few memory slices and a number of compute slices as shared counters; a partition takes some of both. Cards are
equal more often than not, so that what holds for equal ones is tried, and a part of them is in use.
"""

from __future__ import annotations

from random import Random

from tests.allocation.world import (
    LIST,
    PARTITIONS,
    Json,
    case,
    claim,
    device,
    every,
    first,
    piece,
    request,
    wish,
)

SMALL = 'device.attributes["driver-a"].type == "X"'
MIDDLE = 'device.attributes["driver-a"].type == "Y"'
LARGE = 'device.attributes["driver-a"].generation == "v5"'
KINDS = (SMALL, SMALL, MIDDLE, LARGE)
PARENT, NUMA, SIZE = "driver-a/parent", "driver-a/numa", "driver-a/size"


def mig_case(seed: int, *, errors: bool = True) -> Json:
    """The case of a seed. Without `errors` every selector has an answer for every device."""
    return _Maker(Random(f"mig {seed}"), errors).case(seed)


class _Maker:
    def __init__(self, random: Random, errors: bool) -> None:
        self.random = random
        self.errors = errors and random.random() < 0.3
        self.slices = random.choice((2, 3, 4))

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def case(self, seed: int) -> Json:
        cards = self.random.choice((1, 2, 2, 3))
        devices = [one for card in range(cards) for one in self._partitions(card)]
        if self.chance(0.3):
            devices.sort(key=lambda one: one["name"].split("-")[-1])
        if self.chance(0.2):
            devices.insert(self.random.randrange(len(devices)), self._plain())
        used = [f"driver-a/pool-1/{one['name']}" for one in devices if self.chance(0.05)]
        number = self.random.choice((1, 1, 2, 3))
        slices = [piece(*devices, of=2), self._counters(cards)]
        claims = [self._claim(f"claim-{place}") for place in range(number)]
        made = case(slices, *claims, features=(LIST, PARTITIONS), allocatedDevices=used)
        return made | {"name": f"mig-{seed}", "allocatedSharedDeviceIDs": [], "allocatedCapacity": {}}

    def _counters(self, cards: int) -> Json:
        compute = self.slices - self.chance(0.4)
        sets = []
        for card in range(cards):
            amounts = {f"memory-{number}": 1 for number in range(self.slices)}
            amounts["compute"] = compute if self.chance(0.8) else self.random.randint(1, 4)
            sets.append(
                {
                    "name": f"card-{card}",
                    "counters": {name: {"value": str(amount)} for name, amount in amounts.items()},
                }
            )
        return piece(name="slice-counters", of=2, sharedCounters=sets)

    def _partitions(self, card: int) -> list[Json]:
        made = []
        for kind, (size, step) in enumerate(((1, 1), (2, 2), (self.slices, self.slices))):
            starts = [start for start in range(0, self.slices - size + 1, step) if not self.chance(0.1)]
            made += [self._partition(card, kind, start, size) for start in starts]
        return made or [self._partition(card, 0, 0, 1)]

    def _partition(self, card: int, kind: int, start: int, size: int) -> Json:
        attributes: Json = {
            "type": {"string": "XYZ"[kind]},
            "generation": {"string": "v5" if kind == 2 else "v6"},
            "parent": {"string": f"card-{card}"},
            "numa": {"int": card // 2},
            "size": {"int": size},
        }
        if self.errors and self.chance(0.06):
            del attributes[self.random.choice(("type", "generation", "parent"))]
        taken = {f"memory-{number}": {"value": "1"} for number in range(start, start + size)}
        taken["compute"] = {"value": str(size)}
        consumed = [{"counterSet": f"card-{card}", "counters": taken}]
        name = f"card-{card}-{'sml'[kind]}{start}"
        return device(name, attributes=attributes, consumesCounters=consumed)

    def _plain(self) -> Json:
        """A device that draws on nothing."""
        attributes = {"type": {"string": "X"}, "generation": {"string": "v6"}, "parent": {"string": "none"}}
        return device("plain", attributes=attributes)

    def _claim(self, name: str) -> Json:
        number = self.random.choice((1, 2, 2, 3))
        requests = [self._request(f"r{place}") for place in range(number)]
        return claim(*requests, name=name, constraints=self._constraints(number))

    def _request(self, name: str) -> Json:
        if self.chance(0.06):
            return every(self.random.choice(KINDS), name=name)
        if self.chance(0.2):
            return first(*(self._wish() for _ in range(self.random.choice((2, 2, 3)))), name=name)
        return {"name": name, "exactly": self._wish()}

    def _wish(self) -> Json:
        count = self.random.choice((1, 1, 1, 2, 2, 3))
        return wish(count) if self.chance(0.15) else wish(count, self.random.choice(KINDS))

    def _constraints(self, requests: int) -> list[Json]:
        made = []
        for _ in range(self.random.choice((0, 0, 0, 1, 1, 2))):
            kind = self.random.choice(("matchAttribute", "distinctAttribute"))
            meant = [f"r{place}" for place in range(requests) if self.chance(0.7)]
            made.append({kind: self.random.choice((PARENT, PARENT, NUMA, SIZE)), "requests": meant})
        return made


def cards(number: int, *, memory: int = 8, compute: int = 7) -> list[Json]:
    """Cards as an H100 has them, for claims that are wanted to be hard: partitions of 1, 2, 3 and 4 of seven."""
    shapes = (("1g", 1, 1, range(7)), ("2g", 2, 2, (0, 2, 4)), ("3g", 3, 4, (0, 4)), ("4g", 4, 4, (0,)))
    devices = []
    for card in range(number):
        for kind, computes, slices, starts in shapes:
            for start in starts:
                taken = {f"memory-{at}": {"value": "1"} for at in range(start, start + slices)}
                taken["compute"] = {"value": str(computes)}
                devices.append(
                    device(
                        f"card-{card}-{kind}-{start}",
                        attributes={
                            "type": {"string": {"1g": "X", "2g": "Y"}.get(kind, "Z")},
                            "generation": {"string": "v5" if kind == "3g" else "v6"},
                            "kind": {"string": "shared" if kind == "4g" else "gate"},
                            "parent": {"string": f"card-{card}"},
                            "numa": {"int": 2 * card // number},
                        },
                        consumesCounters=[{"counterSet": f"card-{card}", "counters": taken}],
                    )
                )
    sets = [
        {
            "name": f"card-{card}",
            "counters": {
                "compute": {"value": str(compute)},
                **{f"memory-{at}": {"value": "1"} for at in range(memory)},
            },
        }
        for card in range(number)
    ]
    return [piece(*devices, of=2), piece(name="slice-counters", of=2, sharedCounters=sets)]


G1, G2 = SMALL, MIDDLE
G3 = LARGE
G4 = 'device.attributes["driver-a"].kind == "shared"'


def asked(*wanted: tuple[int, str]) -> list[Json]:
    """Requests for so many of a kind."""
    return [request(count, kind, name=f"r{place}") for place, (count, kind) in enumerate(wanted)]
