"""What is read from claims for storage."""

from __future__ import annotations

import pytest

from dray.scheduler.fit.volume_objects import Volumes
from tests.scheduler.fit.storage_objects import make_claim, make_class, make_volume
from tests.scheduler.objects import make_pod


def test_a_claim_is_bound_when_both_sides_say_so() -> None:
    assert make_claim().is_bound
    assert not make_claim(is_bound=False).is_bound
    assert not make_claim(volume="").is_bound


def test_the_old_annotation_of_a_class_comes_first() -> None:
    old = {"volume.beta.kubernetes.io/storage-class": "old"}
    assert make_claim(is_bound=False, annotations=old, storage_class="new").class_name == "old"
    assert make_claim(storage_class="new").class_name == "new"
    assert make_claim().class_name == ""


@pytest.mark.parametrize(
    ("storage_class", "volume", "waits"),
    [("later", "", True), ("later", "pv", False), ("at-once", "", False), ("unknown", "", False)],
)
def test_who_waits_for_a_user(storage_class: str, volume: str, waits: bool) -> None:
    classes = (make_class("later", "WaitForFirstConsumer"), make_class("at-once", "Immediate"))
    known = Volumes.of((), (make_volume(),), classes)
    assert known.waits_for_user(make_claim(volume=volume, storage_class=storage_class)) == waits


def test_whose_a_claim_is() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "pod"}
    assert make_claim(ownerReferences=[owner | {"controller": True}]).is_for(make_pod())
    assert not make_claim(ownerReferences=[owner]).is_for(make_pod())
