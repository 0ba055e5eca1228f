from __future__ import annotations

import random

from dray.kubelet.pods.lanes import Lanes, wanted_of
from tests.kubelet.pods.pods import pod


def test_pods_of_one_resource_come_one_after_the_other_and_others_at_once() -> None:
    lanes = Lanes()
    assert lanes.enter("a", {"x/gpu"})
    assert lanes.enter("plain", ())
    assert lanes.enter("other", {"x/nic"})
    assert not lanes.enter("b", {"x/gpu"})
    assert not lanes.enter("c", {"x/gpu", "x/nic"})
    assert not lanes.enter("d", {"x/gpu"})
    assert lanes.leave("plain") == []
    assert lanes.leave("a") == ["b"]
    assert lanes.enter("b", {"x/gpu"})
    assert not lanes.enter("d", {"x/gpu"})
    assert lanes.leave("b") == ["d"]
    assert lanes.leave("other") == []
    assert lanes.leave("d") == ["c"]
    assert lanes.leave("c") == []


def test_one_turn_may_wake_several() -> None:
    lanes = Lanes()
    assert lanes.enter("both", {"x/gpu", "x/nic"})
    assert not lanes.enter("gpu", {"x/gpu"})
    assert not lanes.enter("nic", {"x/nic"})
    assert not lanes.enter("gpu2", {"x/gpu"})
    assert lanes.leave("both") == ["gpu", "nic"]


def test_whoever_waits_gets_a_turn_and_nobody_shares() -> None:
    rng = random.Random(5)
    lanes, names = Lanes(), ["a", "b", "c", "d"]
    wants = {f"p{number}": frozenset(rng.sample(names, rng.randint(0, 3))) for number in range(200)}
    inside = [uid for uid, wanted in wants.items() if lanes.enter(uid, wanted)]
    served: list[str] = []
    while inside:
        held = [name for uid in inside for name in wants[uid]]
        assert len(held) == len(set(held))
        gone = inside.pop(rng.randrange(len(inside)))
        served.append(gone)
        inside += lanes.leave(gone)
    assert sorted(served) == sorted(wants)


def test_what_a_pod_wants() -> None:
    limits = {"limits": {"x/gpu": "1", "cpu": "2"}}
    asked = pod(
        containers=[{"name": "a", "image": "i", "resources": limits}],
        initContainers=[{"name": "i", "image": "i", "resources": {"limits": {"x/nic": "1"}}}],
    )
    assert wanted_of(asked) == {"x/gpu", "x/nic"}
