from __future__ import annotations

from dray.kubelet.topology.hints import Hint
from dray.kubelet.topology.store import HintStore

HINT = Hint(2, True)


def test_a_hint_is_there_from_put_to_the_removal_of_its_container() -> None:
    store = HintStore()
    assert store.hint("pod", "c") == Hint(None, False)
    store.put("pod", "c", HINT)
    store.add_container("pod", "c", "id")
    assert store.hint("pod", "c") == HINT
    assert store.hint("pod", "d") == store.hint("other", "c") == Hint(None, False)
    store.remove_container("id")
    assert store.hint("pod", "c") == Hint(None, False)
    assert len(store) == 0


def test_the_removal_of_an_old_id_keeps_the_hint_of_the_restarted_container() -> None:
    store = HintStore()
    store.put("pod", "c", HINT)
    store.add_container("pod", "c", "old")
    store.add_container("pod", "c", "new")
    store.remove_container("old")
    assert store.hint("pod", "c") == HINT
    store.remove_container("new")
    assert len(store) == 0


def test_other_containers_stay() -> None:
    store = HintStore()
    for name in ("c", "d"):
        store.put("pod", name, HINT)
        store.add_container("pod", name, f"id-{name}")
    store.remove_container("id-c")
    assert store.hint("pod", "d") == HINT


def test_an_unknown_id_is_fine() -> None:
    store = HintStore()
    store.put("pod", "c", HINT)
    store.remove_container("never seen")
    assert store.hint("pod", "c") == HINT


def test_a_forgotten_pod_leaves_nothing() -> None:
    store = HintStore()
    for pod in ("pod", "other"):
        store.put(pod, "c", HINT)
        store.add_container(pod, "c", f"id-{pod}")
    store.forget_pod("pod")
    store.forget_pod("pod")
    assert len(store) == 1
    store.put("pod", "c", HINT)
    store.remove_container("id-pod")
    assert store.hint("pod", "c") == HINT, "the id was forgotten with the pod"
