from __future__ import annotations

import msgspec
import pytest

from dray.api.codec import Manifest
from dray.api.kinds import CONFIG_MAPS, DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.api.meta import ObjectMeta
from dray.api.resource import DeviceClass
from dray.client import requests
from dray.client.http import Request
from dray.client.requests import DeleteOptions, PatchType, Preconditions, Selection, WriteOptions
from dray.errors import InvalidError, InvariantError

BAD_NAMES = ["", ".", "..", "a/b", "../secrets", "a%2Fb", "a%"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_lead_elsewhere_never_become_a_path(name: str) -> None:
    with pytest.raises(InvalidError, match="name"):
        requests.get(DEVICE_CLASSES, name)
    with pytest.raises(InvalidError):
        requests.delete(DEVICE_CLASSES, name)
    with pytest.raises(InvalidError):
        requests.patch(DEVICE_CLASSES, name, {})
    with pytest.raises(InvalidError):
        requests.update(DEVICE_CLASSES, {"metadata": {"name": name}})
    with pytest.raises(InvalidError):
        requests.create_sub(PODS, name, "binding", {}, namespace="default")


@pytest.mark.parametrize("namespace", BAD_NAMES[1:])
def test_namespaces_that_lead_elsewhere_never_become_a_path(namespace: str) -> None:
    with pytest.raises(InvalidError, match="namespace"):
        requests.get(CONFIG_MAPS, "x", namespace=namespace)
    with pytest.raises(InvalidError, match="namespace"):
        requests.page(CONFIG_MAPS, Selection(namespace))
    with pytest.raises(InvalidError, match="namespace"):
        requests.create(CONFIG_MAPS, {"metadata": {"name": "x", "namespace": namespace}})


def test_odd_but_legal_names_are_escaped() -> None:
    assert (
        requests.get(DEVICE_CLASSES, "a b?c#d").path == "/apis/resource.k8s.io/v1/deviceclasses/a%20b%3Fc%23d"
    )
    with pytest.raises(InvalidError, match="subresource"):
        requests.patch(PODS, "p", {}, namespace="n", subresource="../x")


def test_one_object_of_a_namespaced_kind_needs_a_namespace() -> None:
    with pytest.raises(InvalidError, match="namespace"):
        requests.get(PODS, "p")
    with pytest.raises(InvalidError, match="namespace"):
        requests.create(PODS, {"metadata": {"name": "p"}})
    with pytest.raises(InvalidError, match="namespace"):
        requests.get(DEVICE_CLASSES, "c", namespace="default")


def test_page() -> None:
    request = requests.page(
        RESOURCE_SLICES, Selection(labels="a=b,c", fields="spec.nodeName=n"), limit=5, resource_version="0"
    )
    assert request.path == "/apis/resource.k8s.io/v1/resourceslices"
    assert dict(request.query) == {
        "labelSelector": "a=b,c",
        "fieldSelector": "spec.nodeName=n",
        "limit": "5",
        "resourceVersion": "0",
    }
    following = requests.page(RESOURCE_SLICES, continue_token="t", resource_version="7", limit=5)
    assert dict(following.query) == {"limit": "5", "continue": "t"}
    assert requests.page(PODS, Selection("n")).path == "/api/v1/namespaces/n/pods"
    assert requests.page(PODS).path == "/api/v1/pods"


def test_watch() -> None:
    request = requests.watch(PODS, Selection(), resource_version="9", timeout_seconds=300)
    assert dict(request.query) == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "300",
        "resourceVersion": "9",
    }


def test_create_takes_documents_and_typed_values() -> None:
    document = {"metadata": {"name": "c"}, "spec": {"unknown": 1}}
    request = requests.create(
        DEVICE_CLASSES, document, options=WriteOptions(dry_run=True, field_manager="me")
    )
    assert (request.method, request.path) == ("POST", "/apis/resource.k8s.io/v1/deviceclasses")
    assert request.query == (("dryRun", "All"), ("fieldManager", "me"))
    assert msgspec.json.decode(request.body or b"") == document
    typed = requests.create(DEVICE_CLASSES, DeviceClass(metadata=ObjectMeta(name="c")))
    assert msgspec.json.decode(typed.body or b"")["metadata"] == {"name": "c"}
    assert msgspec.json.decode(typed.body or b"")["kind"] == "DeviceClass"


def test_namespace_of_document_and_caller_must_agree() -> None:
    document = {"metadata": {"name": "x", "namespace": "one"}}
    assert requests.create(CONFIG_MAPS, document).path == "/api/v1/namespaces/one/configmaps"
    assert requests.create(CONFIG_MAPS, document, namespace="one").path.startswith("/api/v1/namespaces/one/")
    with pytest.raises(InvalidError, match="'one', but 'two'"):
        requests.create(CONFIG_MAPS, document, namespace="two")
    with pytest.raises(InvalidError, match=r"metadata\.namespace: is not text"):
        requests.create(CONFIG_MAPS, {"metadata": {"namespace": 5}})


def test_update_refuses_typed_views() -> None:
    with pytest.raises(InvariantError, match="must not be written back"):
        requests.update(DEVICE_CLASSES, DeviceClass(metadata=ObjectMeta(name="c")))  # type: ignore[arg-type]
    document = {"metadata": {"name": "c", "namespace": "n"}, "future": True}
    request = requests.update(RESOURCE_CLAIMS, document, subresource="status")
    assert request.method == "PUT"
    assert request.path == "/apis/resource.k8s.io/v1/namespaces/n/resourceclaims/c/status"
    assert msgspec.json.decode(request.body or b"") == document


def test_manifests_are_documents() -> None:
    manifest = Manifest.of({"metadata": {"name": "c", "namespace": "n"}, "future": True})
    for request in (requests.create(RESOURCE_CLAIMS, manifest), requests.update(RESOURCE_CLAIMS, manifest)):
        assert msgspec.json.decode(request.body or b"") == manifest.raw
        assert "/namespaces/n/resourceclaims" in request.path


def test_patch_types() -> None:
    for kind in PatchType:
        change: object = [] if kind is PatchType.JSON else {}
        request = requests.patch(DEVICE_CLASSES, "c", change, kind)  # type: ignore[arg-type]
        assert request.content_type == kind.value
    with pytest.raises(InvalidError, match="list of operations"):
        requests.patch(DEVICE_CLASSES, "c", {}, PatchType.JSON)
    with pytest.raises(InvalidError, match="list of operations"):
        requests.patch(DEVICE_CLASSES, "c", [], PatchType.MERGE)
    apply = requests.patch(
        DEVICE_CLASSES, "c", {}, PatchType.APPLY, options=WriteOptions(force=True, strict=True)
    )
    assert apply.query == (("fieldValidation", "Strict"), ("force", "true"))


def sent(request: Request) -> object:
    return msgspec.json.decode(request.body or b"")


def test_preconditions_of_patches() -> None:
    same = Preconditions(uid="u", resource_version="5")
    change = {"metadata": {"labels": {"a": "b"}}, "spec": {}}
    for kind in (PatchType.MERGE, PatchType.STRATEGIC):
        request = requests.patch(DEVICE_CLASSES, "c", change, kind, preconditions=same)
        assert sent(request) == {
            "metadata": {"labels": {"a": "b"}, "uid": "u", "resourceVersion": "5"},
            "spec": {},
        }
    assert change == {"metadata": {"labels": {"a": "b"}}, "spec": {}}
    remove = {"op": "remove", "path": "/spec"}
    operations = sent(requests.patch(DEVICE_CLASSES, "c", [remove], PatchType.JSON, preconditions=same))
    assert operations == [
        {"op": "replace", "path": "/metadata/uid", "value": "u"},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "5"},
        remove,
    ]
    assert sent(requests.patch(DEVICE_CLASSES, "c", {"spec": {}}, preconditions=Preconditions())) == {
        "spec": {}
    }


def test_apply() -> None:
    document = {"metadata": {"name": "c", "namespace": "n"}, "data": {"a": "b"}}
    request = requests.apply(
        CONFIG_MAPS, document, manager="dray", force=True, options=WriteOptions(dry_run=True)
    )
    assert (request.method, request.path) == ("PATCH", "/api/v1/namespaces/n/configmaps/c")
    assert request.content_type == "application/apply-patch+yaml"
    assert dict(request.query) == {"dryRun": "All", "fieldManager": "dray", "force": "true"}
    assert sent(request) == {"apiVersion": "v1", "kind": "ConfigMap", **document}
    typed = requests.apply(
        DEVICE_CLASSES,
        DeviceClass(metadata=ObjectMeta(name="c")),
        manager="dray",
        subresource="status",
        preconditions=Preconditions(uid="u"),
    )
    assert typed.path.endswith("/deviceclasses/c/status")
    assert dict(typed.query) == {"fieldManager": "dray"}
    assert sent(typed) == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "c", "uid": "u"},
    }


@pytest.mark.parametrize(
    ("document", "manager", "words"),
    [
        ({"metadata": {"name": "c", "namespace": "n"}}, "", "needs a field manager"),
        ({"metadata": {"namespace": "n"}}, "m", "must not be empty"),
        ({"metadata": {"name": "c"}}, "m", "a namespace is needed"),
        (
            {"kind": "Pod", "metadata": {"name": "c", "namespace": "n"}},
            "m",
            "kind: is 'Pod', but configmaps are",
        ),
        (
            {"metadata": {"name": "c", "namespace": "n", "managedFields": [{}]}},
            "m",
            "managedFields: must not be in an apply patch",
        ),
    ],
)
def test_apply_patches_that_no_server_takes(document: dict[str, object], manager: str, words: str) -> None:
    with pytest.raises(InvalidError, match=words):
        requests.apply(CONFIG_MAPS, document, manager=manager)


def test_delete_options() -> None:
    options = DeleteOptions(
        uid="u", resource_version="5", propagation="Foreground", grace_period=0, dry_run=True
    )
    request = requests.delete(PODS, "p", namespace="n", options=options)
    assert msgspec.json.decode(request.body or b"") == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "5"},
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
        "dryRun": ["All"],
    }
    assert msgspec.json.decode(requests.delete(PODS, "p", namespace="n").body or b"") == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
    }


def test_documents_that_are_no_json_are_refused() -> None:
    with pytest.raises(InvalidError, match="cannot be written as JSON"):
        requests.create(DEVICE_CLASSES, {"metadata": {"name": "x"}, "spec": object()})
