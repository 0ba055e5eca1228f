"""What no answer may do, read from the case and the answer as they are on the wire: nothing of the allocator is used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from dray.api.quantity import Quantity

Json = dict[str, Any]
Key = tuple[str, str, str]


def broken(case: Json, results: list[Json], *, capacity: bool = True) -> list[str]:
    """The promises that an answer does not keep. Without `capacity` amounts of capacity are not added up."""
    given = [one for result in results for one in result.get("devices", {}).get("results") or ()]
    found = [*_twice(case, results), *_counters(case, given)]
    return [*found, *_capacity(case, given)] if capacity else found


def _key(one: Json) -> Key:
    return one["driver"], one["pool"], one["device"]


def _split(text: str) -> Key:
    driver, _, rest = text.partition("/")
    pool, _, device = rest.rpartition("/")
    return driver, pool, device


def _twice(case: Json, results: list[Json]) -> Iterator[str]:
    """A device is given once, and not where it is in use; admin access only minds its own claim."""
    in_use = {_split(text) for text in case["allocatedDevices"] or ()}
    whole: Counter[Key] = Counter()
    for result in results:
        given = result.get("devices", {}).get("results") or ()
        alone = Counter(_key(one) for one in given if "shareID" not in one)
        yield from (f"{key} twice in a claim" for key, count in alone.items() if count > 1)
        for one in given:
            if "shareID" in one or one.get("adminAccess"):
                continue
            whole[_key(one)] += 1
            if _key(one) in in_use:
                yield f"{_key(one)} is in use"
    yield from (f"{key} in two claims" for key, count in whole.items() if count > 1)


def _specs(case: Json, driver: str, pool: str) -> list[Json]:
    """The pool's slices; none where it has several generations, of which it depends which one counts."""
    specs = [one["spec"] for one in case["slices"] or ()]
    specs = [one for one in specs if (one["driver"], one["pool"]["name"]) == (driver, pool)]
    return specs if len({one["pool"]["generation"] for one in specs}) == 1 else []


def _counters(case: Json, given: list[Json]) -> Iterator[str]:
    """What is in use and what is given takes no more than the pool has. Shares of a device take its counters once."""
    shares = [text.rpartition("/")[0] for text in case["allocatedSharedDeviceIDs"] or ()]
    texts = {*(case["allocatedDevices"] or ()), *shares, *(case["allocatedCapacity"] or {})}
    if case.get("tier") == "stable":  # It knows nothing of shares, as in Kubernetes.
        texts = set(case["allocatedDevices"] or ())
    in_use = {_split(text) for text in texts}
    for driver, pool in sorted({_key(one)[:2] for one in given}):
        left: Counter[tuple[str, str]] = Counter()
        takes: dict[Key, Counter[tuple[str, str]]] = {}
        for spec in _specs(case, driver, pool):
            for one in spec.get("sharedCounters") or ():
                for name, counter in one["counters"].items():
                    left[one["name"], name] += Quantity(counter["value"]).nano
            for device in spec.get("devices") or ():
                takes[driver, pool, device["name"]] = _taken(device)
        for key in in_use & takes.keys():
            left.subtract(takes[key])
        wanted: Counter[tuple[str, str]] = Counter()
        shared = {_key(one) for one in given if "shareID" in one} - in_use
        alone = [_key(one) for one in given if "shareID" not in one]
        for key in (*alone, *shared):
            wanted.update(takes.get(key, {}))
        yield from (
            f"{name} of {driver}/{pool} exceeded"
            for name, amount in wanted.items()
            if amount > 0 and amount > left[name]
        )


def _taken(device: Json) -> Counter[tuple[str, str]]:
    taken: Counter[tuple[str, str]] = Counter()
    for one in device.get("consumesCounters") or ():
        for name, counter in one["counters"].items():
            taken[one["counterSet"], name] += Quantity(counter["value"]).nano
    return taken


def _capacity(case: Json, given: list[Json]) -> Iterator[str]:
    """All shares of a device together consume no more than it has."""
    consumed: Counter[tuple[Key, str]] = Counter()
    for one in given:
        for name, amount in (one.get("consumedCapacity") or {}).items():
            consumed[_key(one), name] += Quantity(amount).nano
    for text, amounts in (case["allocatedCapacity"] or {}).items():
        for name, amount in amounts.items():
            if (_split(text), name) in consumed:
                consumed[_split(text), name] += Quantity(amount).nano
    for (key, name), amount in consumed.items():
        has = [
            Quantity(device["capacity"][name]["value"]).nano
            for spec in _specs(case, *key[:2])
            for device in spec.get("devices") or ()
            if device["name"] == key[2] and name in device.get("capacity", {})
        ]
        if has and amount > has[0]:
            yield f"{name} of {key} exceeded"
