from __future__ import annotations

from dray.api.meta import ObjectMeta
from dray.client.store import Added, Deleted, Entry, Modified
from dray.scheduler.fit.rejection import VOLUME_BINDING, VOLUME_RESTRICTIONS, VOLUME_ZONE
from dray.scheduler.fit.volume_objects import PersistentVolumeClaim, StorageClass
from dray.scheduler.queue.happenings import Action, Happening, pod_happening
from dray.scheduler.queue.hints import helped
from dray.scheduler.storage import STORAGE_CLASSES, VOLUME_CLAIMS, Storage, volume_hints
from tests.scheduler.objects import make_pod


def test_what_is_seen_is_there_at_once() -> None:
    storage, told = Storage(), list[Happening]()
    volumes = storage.volumes
    claim = PersistentVolumeClaim(metadata=ObjectMeta(name="c", namespace="n"))
    entry = Entry(("n", "c"), "u", "1", claim)
    seen = storage.handler(VOLUME_CLAIMS, told.append)
    seen(Added(entry))
    assert volumes.claims == {("n", "c"): claim}
    seen(Modified(entry, entry))
    seen(Deleted(entry, "2"))
    assert volumes.claims == {}
    one = StorageClass(metadata=ObjectMeta(name="s"))
    storage.handler(STORAGE_CLASSES, told.append)(Added(Entry(("", "s"), "u", "1", one)))
    assert volumes.classes == {"s": one}
    assert [happening.kind for happening in told] == ["PersistentVolumeClaim"] * 3 + ["StorageClass"]


def test_who_is_woken() -> None:
    hints, pod = volume_hints(), make_pod("p")
    checks = (VOLUME_BINDING, VOLUME_ZONE, VOLUME_RESTRICTIONS)
    change = Happening(VOLUME_CLAIMS.kind, Action.OTHER, None, object())
    assert set(helped(hints, checks, pod, change)) == set(checks)
    gone = pod_happening(make_pod("q", node="n"), None)
    assert gone is not None and list(helped(hints, checks, pod, gone)) == [VOLUME_RESTRICTIONS]
