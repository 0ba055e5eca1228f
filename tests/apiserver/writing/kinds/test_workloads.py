from __future__ import annotations

from typing import Any

import pytest

from dray.apiserver.writing.faults import BadRequestError
from tests.apiserver.writing.small_store import SmallStore
from tests.apiserver.writing.test_update import put


def service(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def test_a_job_finds_its_pods_by_its_uid() -> None:
    made = SmallStore().create("jobs", {"metadata": {"name": "j"}, "spec": {"template": {}}})
    uid, labels = made["metadata"]["uid"], made["spec"]["template"]["metadata"]["labels"]
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert made["metadata"]["labels"] == labels
    assert labels["batch.kubernetes.io/job-name"] == "j" and labels["job-name"] == "j"
    own = {"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}}
    made = SmallStore().create("jobs", {"metadata": {"name": "j"}, "spec": {"template": {}, **own}})
    assert made["spec"]["selector"] == {"matchLabels": {"a": "b"}}


def test_services_get_addresses_of_their_own_and_keep_them() -> None:
    store = SmallStore()
    first, second = (store.create("services", service(name)) for name in ("a", "b"))
    assert first["spec"]["clusterIP"] != second["spec"]["clusterIP"]
    assert first["spec"]["clusterIPs"] == [first["spec"]["clusterIP"]]
    put(store, "services", service("a", ports=[{"port": 1}]))
    found = store.get("services", "a")
    assert found is not None and found["spec"]["clusterIP"] == first["spec"]["clusterIP"]


def test_a_service_without_an_address() -> None:
    store = SmallStore()
    assert store.create("services", service("a", clusterIP="None"))["spec"]["clusterIPs"] == ["None"]
    assert "clusterIP" not in store.create("services", service("b", type="ExternalName"))["spec"]


def test_nonsense_is_refused_and_harms_nobody() -> None:
    store = SmallStore()
    for plural in ("jobs", "services"):
        with pytest.raises(BadRequestError, match="spec: must be an object"):
            store.create(plural, {"metadata": {"name": "x"}, "spec": 7})
    assert store.create("services", service("y"))["spec"]["clusterIP"]
