"""Allocations that claims of a random cluster have already: what is in use, and where it may be used."""

from __future__ import annotations

from typing import Any

from tests.allocation.dice import Dice

Json = dict[str, Any]

AMOUNTS = {"memory": ("0", "1Gi", "2Gi", "4Gi"), "cores": ("0", "1", "2")}


def held_claims(dice: Dice, made: list[Json]) -> list[Json]:
    """Claims of pods that are no business of ours, for some of the devices."""
    often = dice.pick((0.0, 0.1, 0.3))
    found = []
    for number, result in enumerate(_results(dice, made, often)):
        name = f"held-{number}"
        allocation = {"devices": {"results": [result]}}
        found.append(
            {
                "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
                "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "class-a"}}]}},
                "status": with_bindings(dice, {"allocation": allocation}),
            }
        )
    return found


def allocation(dice: Dice, made: list[Json], nodes: list[str]) -> Json:
    """One that a claim of a pod that waits has already: all nodes, some, or one can use it."""
    found: Json = {"devices": {"results": _results(dice, made, 0.1)[:3]}}
    if dice.chance(0.7):
        found["nodeSelector"] = {"nodeSelectorTerms": [_term(dice, nodes)]}
    return found


def with_bindings(dice: Dice, status: Json) -> Json:
    """Now and then devices must be waited for: they are ready, have failed, or take their time."""
    if not dice.themed("binding", 0.6, 0.05):
        return status
    allocation, devices = status["allocation"], []
    if dice.chance(0.8):
        allocation["allocationTimestamp"] = dice.pick(("2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z"))
    for one in allocation["devices"]["results"]:
        one["bindingConditions"] = ["Ready"]
        one["bindingFailureConditions"] = ["Broken"]
        if dice.chance(0.7):
            condition = {
                "type": dice.pick(("Ready", "Ready", "Broken")),
                "status": dice.pick(("True", "False")),
            }
            condition |= {"reason": "Seen", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            devices.append(
                {key: one[key] for key in ("driver", "pool", "device")} | {"conditions": [condition]}
            )
    return status | ({"devices": devices} if devices else {})


def _term(dice: Dice, nodes: list[str]) -> Json:
    if dice.chance(0.5):
        return {
            "matchFields": [
                {"key": "metadata.name", "operator": "In", "values": [dice.pick((*nodes, "gone"))]}
            ]
        }
    return {"matchExpressions": [{"key": "zone", "operator": "In", "values": [dice.pick(("a", "b"))]}]}


def _results(dice: Dice, made: list[Json], often: float) -> list[Json]:
    """Some of the devices, those that may be shared more often."""
    found = []
    for one in made:
        spec = one["spec"]
        for device in spec.get("devices", ()):
            shared = device.get("allowMultipleAllocations", False)
            if not dice.chance(often * 3 if shared else often):
                continue
            result: Json = {"request": "r", "driver": spec["driver"], "pool": spec["pool"]["name"]}
            result["device"] = device["name"]
            if shared and dice.chance(0.9):
                result["shareID"] = f"{dice.number(0, 99999999):08}-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
                if names := sorted(device.get("capacity", {})):
                    result["consumedCapacity"] = {name: dice.pick(AMOUNTS[name]) for name in names}
            elif dice.chance(0.1):
                result["adminAccess"] = True
            found.append(result)
    return found
