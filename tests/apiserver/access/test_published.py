from __future__ import annotations

from dray.apiserver.access.published import AUTHENTICATION, LEGACY_TOKENS, publish_trust
from tests.apiserver.writing.small_store import SmallStore


def publish(store: SmallStore, authority: str) -> None:
    store.run(lambda transaction: publish_trust(transaction, store.rules, authority, store.now))


def data(store: SmallStore, name: str) -> dict[str, str]:
    found = store.get("configmaps", name, "kube-system")
    assert found is not None
    told: dict[str, str] = found["data"]
    return told


def authorities(store: SmallStore) -> list[str]:
    return [text for name, text in sorted(data(store, AUTHENTICATION).items()) if name.endswith("ca-file")]


def test_a_start_writes_it_and_the_next_one_only_what_is_new() -> None:
    store = SmallStore()
    publish(store, "CA")
    assert authorities(store) == ["CA", "CA"]
    # An empty list would let in everybody whom the authority knows.
    assert data(store, AUTHENTICATION)["requestheader-allowed-names"] == '["front-proxy-client"]'
    assert data(store, LEGACY_TOKENS) == {"since": "2030-01-01"}
    assert store.kinds() == ["ADDED", "ADDED"]
    store.advance(3 * 86400)
    publish(store, "CA")
    assert store.kinds() == []
    publish(store, "new CA")
    assert authorities(store) == ["new CA", "new CA"]
    assert store.kinds() == ["MODIFIED"]
    assert data(store, LEGACY_TOKENS) == {"since": "2030-01-01"}
