"""The supply side of a random allocator case: pools, slices, devices, and what is already allocated."""

from __future__ import annotations

from typing import Any

from tests.allocation.dice import Dice, Thing

DRIVERS = ("driver-a", "driver-b")
ROOT = "resource.kubernetes.io/pcieRoot"
COUNTERS = ("memory", "slots")


def slices(dice: Dice) -> list[Thing]:
    """Slices of one to three pools, in an order that means nothing."""
    pools = 1 if dice.tier == "stable" else dice.pick((1, 1, 2, 2, 3))
    devices = dice.pick((4, 5, 6, 8))
    made: list[Thing] = []
    for number in range(pools):
        driver = dice.pick(DRIVERS) if number else DRIVERS[0]
        made += _pool(dice, driver, f"pool-{number + 1}", share=devices // pools)
    return dice.shuffled(made) if dice.chance(0.3) else made


def _pool(dice: Dice, driver: str, name: str, share: int) -> list[Thing]:
    generation = dice.number(1, 2)
    parts = 1 if dice.themed("pools", 0.4, 0.7) else dice.number(1, 3)
    numbers = list(range(1, max(2, share + dice.number(-1, 1)) + 1))
    made, place = [], _placement(dice)
    for part in range(parts):
        devices = [_device(dice, driver, number) for number in numbers[part::parts]]
        if dice.themed("pools", 0.08, 0.01) and devices:
            devices.append(_device(dice, driver, 1))
        if dice.themed("nodes", 0.4, 0.1):
            place = _placement(dice)
        made.append(_slice(dice, driver, f"{name}-{part}", place, devices))
    if any("consumesCounters" in device for entry in made for device in entry["spec"]["devices"]):
        made += _counter_slices(dice, driver, name, place)
    _number_pool(dice, made, name, generation)
    return made + _other_generation(dice, driver, name, generation)


def _number_pool(dice: Dice, made: list[Thing], name: str, generation: int) -> None:
    count = len(made)
    if dice.themed("pools", 0.15, 0.02):
        count += dice.pick((1, 1, -1)) if count > 1 else 1
    for entry in made:
        entry["spec"]["pool"] = {"name": name, "generation": generation, "resourceSliceCount": count}


def _other_generation(dice: Dice, driver: str, name: str, generation: int) -> list[Thing]:
    """Sometimes a slice that an update left behind, or the first one of the next generation."""
    if not dice.themed("pools", 0.35, 0.03):
        return []
    places: list[Thing] = [{"nodeName": "node-1"}, {"nodeName": "node-2"}, {"allNodes": True}]
    place = dice.pick(places)
    entry = _slice(dice, driver, f"{name}-x", place, [_device(dice, driver, dice.number(1, 4))])
    other = generation + dice.pick((-1, -1, 1))
    entry["spec"]["pool"] = {"name": name, "generation": other, "resourceSliceCount": dice.number(1, 2)}
    return [entry]


def _slice(dice: Dice, driver: str, name: str, place: Thing, devices: list[Thing]) -> Thing:
    spec: Thing = {"driver": driver, "devices": devices, **place}
    if "perDeviceNodeSelection" in place:
        for device in devices:
            device.update(_device_place(dice))
    return {"metadata": {"name": name}, "spec": spec}


def _placement(dice: Dice) -> Thing:
    if dice.themed("binding", 0.5):
        shared: list[Thing] = [{"allNodes": True}, {"nodeSelector": _node_selector(dice)}]
        return dice.pick(shared)
    if not dice.themed("nodes", 0.8, 0.12):
        return {"nodeName": "node-1"}
    return dice.pick(
        (
            {"nodeName": "node-1"},
            {"nodeName": "node-2"},
            {"allNodes": True},
            {"nodeSelector": _node_selector(dice)},
            {"nodeSelector": _node_selector(dice)},
            {"perDeviceNodeSelection": True},
            {"perDeviceNodeSelection": True},
            {},
        )
    )


def _device_place(dice: Dice) -> Thing:
    return dice.pick(
        (
            {"nodeName": "node-1"},
            {"nodeName": "node-2"},
            {"allNodes": True},
            {"nodeSelector": _node_selector(dice)},
        )
    )


def _node_selector(dice: Dice) -> Thing:
    requirements: list[Thing] = [
        {"key": "zone", "operator": "In", "values": ["a"]},
        {"key": "zone", "operator": "In", "values": ["a", "b"]},
        {"key": "zone", "operator": "NotIn", "values": ["b"]},
        {"key": "kind", "operator": "Exists"},
        {"key": "spare", "operator": "DoesNotExist"},
        {"key": "kind", "operator": "In", "values": ["gpu"]},
    ]
    if dice.themed("errors", 0.1):
        requirements = [{"key": "zone", "operator": "Near", "values": ["a"]}]
    term: Thing = {"matchExpressions": dice.some(requirements, 1, 2)}
    if dice.chance(0.1):
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
    terms = [term]
    if dice.themed("errors", 0.3, 0.02):
        terms.append({"matchExpressions": [requirements[0]]})
    return {"nodeSelectorTerms": terms}


def _device(dice: Dice, driver: str, number: int) -> Thing:
    device: Thing = {"name": f"device-{number}"}
    if attributes := _attributes(dice, driver, number):
        device["attributes"] = attributes
    if dice.themed("capacity", 0.9, 0.2):
        device["capacity"] = _capacity(dice)
    if dice.themed("capacity", 0.6, 0.04):
        device["allowMultipleAllocations"] = dice.chance(0.9)
    if dice.themed("counters", 0.75, 0.03):
        device["consumesCounters"] = _consumption(dice)
    if dice.themed("taints", 0.6, 0.04):
        device["taints"] = [_taint(dice) for _ in range(dice.number(1, 2))]
    if dice.themed("binding", 0.5, 0.03):
        device["bindingConditions"] = ["Ready"]
        device["bindingFailureConditions"] = ["Broken"]
        if dice.chance(0.5):
            device["bindsToNode"] = True
    return device


def _attributes(dice: Dice, driver: str, number: int) -> Thing:
    values: Thing = {
        "model": {"string": dice.pick(("A", "B"))},
        "index": {"int": number},
        "numa": {"int": dice.number(0, 1)},
        "ecc": {"bool": dice.chance(0.5)},
        "version": {"version": dice.pick(("1.0.0", "1.2.3", "2.0.0-rc.1"))},
        ROOT: {"string": f"pci-{dice.number(0, 1)}"},
    }
    kept = {name: values[name] for name in values if dice.chance(0.9)}
    if dice.themed("lists", 0.8):
        kept |= {name: value for name, value in _lists(dice).items() if dice.chance(0.7)}
    if dice.themed("constraints", 0.15, 0.03):
        kept["numa"] = dice.pick(({"string": "0"}, {"version": "1.0.0"}, {"bool": True}))
    if dice.themed("errors", 0.04, 0.003):
        kept["bad"] = dice.pick(({}, {"version": "1.x"}, {"ints": [1]}))
    if dice.chance(0.15):
        kept = {name if "/" in name else f"{driver}/{name}": value for name, value in kept.items()}
    return kept


def _lists(dice: Dice) -> Thing:
    return {
        "nodes": {"ints": dice.some((0, 1, 2), 1)},
        "roots": {"strings": dice.some(("r0", "r1", "r2"), 1)},
        "flags": {"bools": dice.some((True, False), 1)},
        "apis": {"versions": dice.some(("1.0.0", "2.0.0"), 1)},
        "numa": dice.pick(({"int": 1}, {"ints": [0, 1]}, {"ints": [1]}, {"strings": ["1"]})),
    }


def _capacity(dice: Dice) -> Thing:
    capacity: Thing = {"memory": {"value": dice.pick(("4Gi", "8Gi", "8192Mi", "10Gi"))}}
    if dice.chance(0.4):
        capacity["cores"] = {"value": dice.pick(("2", "4", "4500m"))}
    if dice.themed("capacity", 0.6):
        for name in sorted(capacity):
            if dice.chance(0.7):
                capacity[name]["requestPolicy"] = _policy(dice, name)
    if dice.themed("errors", 0.05):
        capacity["memory"]["value"] = dice.pick(("-1", "0", "9223372036854775807"))
    return capacity


def _policy(dice: Dice, name: str) -> Thing:
    small, middle, large = ("1", "2", "4") if name == "cores" else ("1Gi", "2Gi", "6Gi")
    default = dice.pick((small, middle, "0"))
    style = dice.pick(("default", "values", "values", "range", "range", "range"))
    if style == "default":
        return {"default": default}
    if style == "values":
        return {"default": default, "validValues": dice.some((small, middle, large), 1)}
    span: Thing = {"min": small}
    if dice.chance(0.6):
        span["max"] = large
    if dice.chance(0.6):
        span["step"] = dice.pick((small, "1500m") if name == "cores" else (small, "512Mi", "3Gi"))
    return {"default": default, "validRange": span} if dice.chance(0.9) else {"validRange": span}


def _consumption(dice: Dice) -> list[Thing]:
    made = []
    for name in dice.some(("set-1", "set-2"), 1):
        counters = {counter: {"value": str(dice.number(1, 3))} for counter in dice.some(COUNTERS, 1)}
        if dice.themed("errors", 0.05, 0.01):
            counters["nothing"] = {"value": "1"}
        made.append({"counterSet": name, "counters": counters})
    return made


def _counter_slices(dice: Dice, driver: str, name: str, place: Thing) -> list[Thing]:
    sets = [
        {"name": number, "counters": {counter: {"value": str(dice.number(2, 6))} for counter in COUNTERS}}
        for number in ("set-1", "set-2")
    ]
    if dice.themed("errors", 0.15, 0.02):
        sets = sets[:1] if dice.chance(0.5) else [*sets, sets[0]]
    apart = dice.themed("counters", 0.1) and len(sets) > 1
    groups = [sets[:1], sets[1:]] if apart else [sets]
    if "perDeviceNodeSelection" in place or dice.chance(0.3):
        place = dice.pick(({"nodeName": "node-1"}, {"allNodes": True}, {"nodeName": "node-2"}))
    return [
        {
            "metadata": {"name": f"{name}-c{number}"},
            "spec": {"driver": driver, "devices": [], "sharedCounters": group, **place},
        }
        for number, group in enumerate(groups)
    ]


def _taint(dice: Dice) -> Thing:
    taint: Thing = {
        "key": dice.pick(("hot", "old")),
        "effect": dice.pick(("NoSchedule", "NoExecute", "None")),
    }
    if dice.chance(0.5):
        taint["value"] = dice.pick(("yes", "no"))
    if dice.chance(0.05):
        taint["effect"] = "NoLuck"
    return taint


def allocated(dice: Dice, made: list[Thing]) -> Thing:
    """What other claims hold: whole devices, shares of those that may be shared, sometimes something that is gone."""
    devices, shared, capacity = [], [], {}
    often = dice.pick((0.0, 0.1, 0.3))
    for driver, pool, device in _published(made):
        multiple = device.get("allowMultipleAllocations")
        if not dice.chance(max(often, 0.5) if multiple else often):
            continue
        name = f"{driver}/{pool}/{device['name']}"
        if not multiple or dice.chance(0.1):
            devices.append(name)
            continue
        if dice.chance(0.9):
            shared.append(f"{name}/{'abcd'[dice.number(0, 3)] * 8}-aaaa-4aaa-8aaa-aaaaaaaaaaaa")
        if "capacity" in device and dice.chance(0.7 if "consumesCounters" in device else 0.95):
            capacity[name] = _held(dice, device["capacity"])
    if dice.chance(0.05):
        devices.append("driver-a/pool-1/device-gone")
    state: dict[str, Any] = {"allocatedDevices": devices, "allocatedSharedDeviceIDs": shared}
    return state | {"allocatedCapacity": capacity}


def _published(made: list[Thing]) -> list[tuple[str, str, Thing]]:
    seen: dict[tuple[str, str, str], Thing] = {}
    for entry in made:
        spec = entry["spec"]
        for device in spec["devices"]:
            seen[spec["driver"], spec["pool"]["name"], device["name"]] = device
    return [(driver, pool, seen[driver, pool, name]) for driver, pool, name in sorted(seen)]


def _held(dice: Dice, capacity: Thing) -> Thing:
    amounts = {"memory": ("0", "2Gi", "4Gi", "6Gi", "8Gi"), "cores": ("0", "1", "2500m")}
    return {name: dice.pick(amounts[name]) for name in sorted(capacity) if dice.chance(0.9)}
