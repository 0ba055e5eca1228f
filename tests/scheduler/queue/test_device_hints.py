from __future__ import annotations

import pytest

from dray.api.resource import ResourceClaim
from dray.scheduler.queue.device_hints import (
    CLAIM,
    DEVICE_CLASS,
    DYNAMIC_RESOURCES,
    POD_GROUP,
    SLICE,
    claims_gate,
    device_hints,
    frees,
    object_happening,
)
from dray.scheduler.queue.happenings import Action, Happening, node_happening, pod_happening
from dray.scheduler.queue.hints import helped
from tests.scheduler.claims.objects import allocated, claim, group, pod, template_entry
from tests.scheduler.objects import make_node

KNOWN = {"mine": claim(name="mine"), "other": claim(name="other")}
WAITS = pod("mine")


def lookup(namespace: str, name: str) -> ResourceClaim | None:
    return KNOWN.get(name)


def helps(happening: Happening | None) -> bool:
    assert happening is not None
    return bool(list(helped(device_hints(lookup), [DYNAMIC_RESOURCES], WAITS, happening)))


@pytest.mark.parametrize("kind", [SLICE, DEVICE_CLASS])
def test_any_change_of_devices_helps(kind: str) -> None:
    for old, new in ((None, object()), (object(), object()), (object(), None)):
        assert helps(object_happening(kind, old, new))


def test_claims() -> None:
    held = allocated(name="other")
    assert helps(object_happening(CLAIM, held, None))
    assert helps(object_happening(CLAIM, held, KNOWN["other"]))
    assert not helps(object_happening(CLAIM, None, KNOWN["other"]))
    assert helps(object_happening(CLAIM, None, KNOWN["mine"]))
    assert not helps(object_happening(CLAIM, KNOWN["mine"], KNOWN["mine"]))


def test_nodes() -> None:
    assert helps(node_happening(None, make_node("n")))
    assert not helps(node_happening(make_node("n"), None))
    assert helps(node_happening(make_node("n"), make_node("n", cpu="1")))


def test_own_claims_that_were_made() -> None:
    before = pod(template_entry())
    after = pod(template_entry(), made={"entry-0": None})
    happening = pod_happening(before, after)
    assert happening is not None
    assert list(helped(device_hints(lookup), [DYNAMIC_RESOURCES], before, happening))


def test_groups() -> None:
    made = group(name="g")
    member = pod("mine", schedulingGroup={"podGroupName": "g"})
    hints = device_hints(lookup, pod_groups=True)
    happening = object_happening(POD_GROUP, None, made)
    assert list(helped(hints, [DYNAMIC_RESOURCES], member, happening))
    assert not list(helped(hints, [DYNAMIC_RESOURCES], WAITS, happening))


def test_the_gate() -> None:
    gate = claims_gate(lookup)
    assert gate(pod()) is None and gate(WAITS) is None
    found = gate(pod("missing"))
    assert found is not None and found.check == DYNAMIC_RESOURCES
    assert str(found) == 'could not find ResourceClaim "default/missing"'


def test_what_frees_devices() -> None:
    held, empty = allocated(name="x"), claim(name="x")
    assert frees(held, None) and frees(held, empty)
    assert not frees(None, held) and not frees(empty, None) and not frees(held, held)


def test_actions_of_objects() -> None:
    assert object_happening(SLICE, None, 1).action is Action.ADD
    assert object_happening(SLICE, 1, None).action is Action.DELETE
    assert object_happening(SLICE, 1, 2).action is Action.OTHER
