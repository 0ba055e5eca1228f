"""What our scheduler chose, carried out in a random cluster: claims get their devices and users, the pod its node."""

from __future__ import annotations

import random
from typing import Any

from dray.api.codec import to_raw, view
from dray.api.core import Pod
from dray.api.resource import ResourceClaim
from dray.scheduler.claims.reserve import Reserved, reserve
from dray.scheduler.decision import Failed, Placed, Refused
from tests.oracle_scheduler.ours import PodVerdicts, World

Json = dict[str, Any]


def chosen_at_random(world: World, verdicts: PodVerdicts, dice: random.Random) -> tuple[str, Reserved | None]:
    """Any of the nodes that do, and the devices there."""
    if not verdicts.feasible:
        return "", None
    info = world.nodes.get(dice.choice(verdicts.feasible))
    assert info is not None
    if verdicts.asked is None:
        return info.name, None
    held = reserve(verdicts.asked, info.node)
    assert isinstance(held, Reserved), held
    return info.name, held


def chosen_by_cycle(world: World, verdicts: PodVerdicts) -> tuple[str, Reserved | None]:
    """What the scheduler decides; it may refuse a pod, or fail, only where the verdicts say so."""
    if verdicts.enqueue is not None:
        return "", None
    decision = world.cycle.decide(verdicts.pod, world.now)
    words = [verdicts.filtered, *(verdicts.nodes or {}).values()]
    is_failed = any(one is not None and one[1] == "Error" for one in words)
    match decision:
        case Placed():
            assert decision.node in verdicts.feasible, decision
            return decision.node, decision.reserved
        case Failed():
            assert is_failed, decision
        case Refused():
            assert not verdicts.feasible and not is_failed, decision
            told = {name: one.check for name, one in decision.diagnosis.rejected.items()}
            expected = {name: one[0] for name, one in (verdicts.nodes or {}).items()}
            assert told.items() <= expected.items(), (told, expected)
    return "", None


def place(state: Json, world: World, raw: Json, name: str, held: Reserved | None) -> Json:
    """Puts the pod on the node, both in the cluster and in what our scheduler holds; gives its new allocations.

    They are by the claim's NAMESPACE/NAME; the one for extended resources has the name that it is stored under.
    """
    made = _bind(state, world, raw, held) if held is not None else {}
    bound = raw | {"spec": raw["spec"] | {"nodeName": name}}
    state["pods"].append(bound)
    world.nodes.put_pod(view(bound, Pod))
    return made


def _bind(state: Json, world: World, raw: Json, held: Reserved) -> Json:
    made: Json = {}
    user = {"resource": "pods", "name": raw["metadata"]["name"], "uid": raw["metadata"]["uid"]}
    for number, claim in enumerate(held.plan.claims):
        allocation = held.allocations.get(number)
        if number == held.plan.users:
            if held.special is None or allocation is None:
                continue
            document = _stored(state, raw, held.special)
        else:
            document = _find(state, claim)
        status = document.setdefault("status", {})
        if allocation is not None:
            status["allocation"] = to_raw(allocation)
            made[f"{document['metadata']['namespace']}/{document['metadata']['name']}"] = status["allocation"]
        users = status.setdefault("reservedFor", [])
        if user not in users:
            users.append(user)
        world.tracker.set_claim(view(document, ResourceClaim))
        world.tracker.release(claim.metadata.uid, raw["metadata"]["uid"], force=True)
    assert not world.tracker.in_flight
    return made


def _find(state: Json, claim: ResourceClaim) -> Json:
    wanted = (claim.metadata.namespace, claim.metadata.name)
    found: Json = next(
        one for one in state["claims"] if (one["metadata"]["namespace"], one["metadata"]["name"]) == wanted
    )
    return found


def _stored(state: Json, raw: Json, special: ResourceClaim) -> Json:
    """The claim for extended resources, as the API server would give it its name."""
    found: Json = to_raw(special)
    name = f"{raw['metadata']['name']}-extended-resources-made"
    found["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    state["claims"].append(found)
    return found
