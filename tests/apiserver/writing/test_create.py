from __future__ import annotations

import re
from typing import Any

import pytest

from dray.api.field_errors import FieldError, Path, Reason
from dray.apiserver.served import Document
from dray.apiserver.store.contract import Key
from dray.apiserver.writing.create import create
from dray.apiserver.writing.faults import AlreadyExistsError, BadRequestError
from dray.apiserver.writing.request import FieldValidation, Outcome, Rules, Written
from dray.errors import DeniedError, InvalidError, NotFoundError
from tests.apiserver.writing.small_store import SmallStore, body, claim, pod, served_as

SLICE = {
    "metadata": {"name": "one"},
    "spec": {
        "driver": "gpu.example.com",
        "nodeName": "n",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0"}],
    },
}
TEMPLATE = {"metadata": {"name": "one"}, "spec": {"spec": claim()["spec"]}}
RULE = {
    "metadata": {"name": "one"},
    "spec": {"taint": {"key": "example.com/bad", "effect": "NoExecute"}, "deviceSelector": {"driver": "d"}},
}
OBJECTS: list[tuple[str, Document, Document]] = [
    ("pods", pod("one"), {"generation": 1}),
    ("nodes", {"metadata": {"name": "one"}}, {}),
    ("namespaces", {"metadata": {"name": "one"}}, {}),
    ("events", {"metadata": {"name": "one"}, "involvedObject": {"namespace": "default"}}, {}),
    ("configmaps", {"metadata": {"name": "one"}, "data": {"a": "b"}}, {}),
    ("leases", {"metadata": {"name": "one"}, "spec": {"holderIdentity": "me"}}, {}),
    ("resourceslices", SLICE, {"generation": 1}),
    ("deviceclasses", {"metadata": {"name": "one"}, "spec": {}}, {"generation": 1}),
    ("resourceclaims", claim("one"), {}),
    ("resourceclaimtemplates", TEMPLATE, {}),
    ("devicetaintrules", RULE, {"generation": 1}),
    ("deployments", {"metadata": {"name": "one"}, "spec": {"replicas": 1}}, {"generation": 1}),
    ("secrets", {"metadata": {"name": "one"}, "type": "Opaque"}, {}),
    ("clusterroles", {"metadata": {"name": "system:one"}}, {}),
    ("kubevirts", {"metadata": {"name": "one"}, "spec": {"unknown": {"deep": [1, 2]}}}, {"generation": 1}),
]


@pytest.mark.parametrize(("plural", "document", "added"), OBJECTS, ids=lambda value: str(value)[:20])
def test_an_object_of_every_sort(plural: str, document: Document, added: Document) -> None:
    store = SmallStore()
    name = document["metadata"]["name"]
    given = {**document, "metadata": {**document["metadata"], "uid": "mine", "generation": 7}}
    created = store.create(plural, given)
    assert store.get(plural, name) == created
    metadata, resource = created["metadata"], served_as(plural).resource
    assert (created["apiVersion"], created["kind"]) == (resource.api_version, resource.kind)
    assert metadata["creationTimestamp"] == "2030-01-01T00:00:00Z"
    assert metadata["resourceVersion"] == str(store.revision)
    assert metadata["uid"] == store.stored(plural, name).uid != "mine"
    assert metadata.get("generation", 0) == added.get("generation", 7 if served_as(plural).typed else 0)
    assert metadata.get("namespace", "") == ("default" if resource.namespaced else "")
    with pytest.raises(AlreadyExistsError, match=re.escape(f'{resource} "{name}" already exists')):
        store.create(plural, given)


def test_a_pod_is_completed() -> None:
    created = SmallStore().create(
        "pods", pod(schedulingGates=[{"name": "wait"}]) | {"status": {"phase": "Running"}}
    )
    status, spec = created["status"], created["spec"]
    assert (status["phase"], status["qosClass"]) == ("Pending", "BestEffort")
    assert [(one["type"], one["status"], one["reason"]) for one in status["conditions"]] == [
        ("PodScheduled", "False", "SchedulingGated")
    ]
    assert (spec["restartPolicy"], spec["priority"], spec["preemptionPolicy"]) == (
        "Always",
        0,
        "PreemptLowerPriority",
    )
    assert [one["key"] for one in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]


def test_a_status_is_dropped_and_unknown_fields_stay() -> None:
    store = SmallStore()
    given = claim() | {"status": {"reservedFor": []}, "future": {"field": True}}
    created = store.create("resourceclaims", given)
    assert created["status"] == {}
    assert created["future"] == {"field": True}


@pytest.mark.parametrize(
    ("plural", "status"),
    [
        ("deployments", {}),
        ("services", {"loadBalancer": {}}),
        ("persistentvolumes", {"phase": "Pending"}),
        ("secrets", None),
        ("kubevirts", None),
        ("devicetaintrules", {}),
    ],
)
def test_the_status_of_something_new(plural: str, status: Document | None) -> None:
    document: Document = RULE if plural == "devicetaintrules" else {"metadata": {"name": "one"}}
    given = document if plural == "secrets" else document | {"status": {"phase": "Mine"}}
    assert SmallStore().create(plural, given).get("status") == status


@pytest.mark.parametrize("plural", ["configmaps", "podtemplates"])
def test_null_is_as_good_as_absent(plural: str) -> None:
    document = {"metadata": {"name": "a", "creationTimestamp": None, "labels": None}, "spec": None}
    created = SmallStore().create(plural, document)
    assert "labels" not in created["metadata"]
    assert plural == "configmaps" or "spec" not in created


def test_deep_nulls_of_a_kind_without_a_type() -> None:
    template = {"metadata": {"creationTimestamp": None}, "list": [None, {"a": None}]}
    created = SmallStore().create("podtemplates", {"metadata": {"name": "a"}, "template": template})
    assert created["template"] == {"metadata": {}, "list": [None, {}]}


def test_a_dry_run_does_all_but_the_last_step() -> None:
    store = SmallStore()
    before = store.revision
    write = store.write("pods", dry_run=True)
    written = store.run(lambda transaction: create(transaction, write, pod()))
    assert written.outcome is Outcome.CREATED
    assert body(written)["spec"]["schedulerName"] == "default-scheduler"
    assert "resourceVersion" not in body(written)["metadata"]
    assert (store.revision, store.get("pods", "web")) == (before, None)
    with pytest.raises(InvalidError):
        store.run(lambda transaction: create(transaction, write, {"metadata": {"name": "web"}}))


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ([], "it must be a JSON object"),
        (
            {"apiVersion": "v2"},
            'Pod in version "v2" cannot be handled as a Pod: no kind "Pod" is registered for version "v2"',
        ),
        ({"kind": "Node"}, 'Node in version "v1" cannot be handled as a Pod: unknown conversion'),
        (
            {"metadata": {"namespace": "other", "name": "a"}},
            "the namespace of the provided object does not match",
        ),
        ({"metadata": 5}, 'Pod in version "v1" cannot be handled as a Pod: '),
        ({"metadata": {"name": 5}}, 'Pod in version "v1" cannot be handled as a Pod: metadata.name: '),
        ({"metadata": {"labels": [1]}}, 'Pod in version "v1" cannot be handled as a Pod: metadata.labels: '),
        ({"metadata": {"ownerReferences": 7}}, "metadata.ownerReferences: "),
        ({"spec": {"containers": {"a": 1}}}, "spec.containers: "),
        (
            {"metadata": {"name": "a", "resourceVersion": "7"}},
            "resourceVersion should not be set on objects to",
        ),
    ],
)
def test_requests_that_make_no_sense(document: Any, text: str) -> None:
    store = SmallStore()
    with pytest.raises(BadRequestError, match=re.escape(text)):
        store.create("pods", document)
    assert store.kinds() == []


def test_a_document_nested_too_deeply() -> None:
    inner: Any = {}
    for _ in range(300):
        inner = {"a": [inner]}
    with pytest.raises(BadRequestError, match="nested more than 100 deep"):
        SmallStore().create("deployments", {"metadata": {"name": "a"}, "spec": inner})


@pytest.mark.parametrize(
    ("plural", "document", "text"),
    [
        ("pods", {"metadata": {"name": "a"}}, 'Pod "a" is invalid: '),
        ("pods", {"metadata": {}}, "metadata.name: Required value: name or generateName is required"),
        (
            "configmaps",
            {"metadata": {"name": "A"}},
            'ConfigMap "A" is invalid: metadata.name: Invalid value: "A"',
        ),
        (
            "deployments",
            {"metadata": {"name": "A"}},
            'Deployment.apps "A" is invalid: metadata.name: Invalid',
        ),
        ("roles", {"metadata": {"name": "a/b"}}, "may not contain '/'"),
        ("services", {"metadata": {"name": "a.b"}}, "must not contain dots"),
        (
            "resourceclaims",
            {"metadata": {"name": "a"}, "spec": {"devices": {"requests": [{"name": "a"}]}}},
            'ResourceClaim.resource.k8s.io "a" is invalid',
        ),
    ],
)
def test_objects_that_break_a_rule(plural: str, document: Document, text: str) -> None:
    with pytest.raises(InvalidError, match=re.escape(text)) as caught:
        SmallStore().create(plural, document)
    assert not isinstance(caught.value, BadRequestError)
    assert caught.value.causes


def test_the_namespace_must_be_there_and_stay() -> None:
    store = SmallStore()
    with pytest.raises(NotFoundError, match=r'namespaces "nowhere" not found'):
        store.create("pods", pod(), namespace="nowhere")
    store.create("namespaces", {"metadata": {"name": "going"}})
    document = store.get("namespaces", "going")
    assert document is not None
    document["status"] = {"phase": "Terminating"}
    key = Key("namespaces", "", "going")
    store.run(lambda transaction: transaction.put(key, document["metadata"]["uid"], document))
    with pytest.raises(DeniedError) as caught:
        store.create("pods", pod(), namespace="going")
    assert str(caught.value) == (
        'pods "web" is forbidden: unable to create new content in namespace going because it is being terminated'
    )


def test_admin_access_needs_a_marked_namespace() -> None:
    store = SmallStore()
    with pytest.raises(InvalidError, match=r"requests\[0\]\.adminAccess: Forbidden"):
        store.create("resourceclaims", claim(adminAccess=True))
    labels = {"resource.kubernetes.io/admin-access": "true"}
    store.create("namespaces", {"metadata": {"name": "admin", "labels": labels}})
    store.create("resourceclaims", claim(adminAccess=True), namespace="admin")


def test_fields_that_a_kind_has_not() -> None:
    store = SmallStore()
    document = claim() | {"sepc": 1}

    def tried(validation: FieldValidation) -> Written:
        write = store.write("resourceclaims", validation=validation, dry_run=True)
        return store.run(lambda transaction: create(transaction, write, dict(document)))

    assert tried(FieldValidation.IGNORE).warnings == ()
    assert tried(FieldValidation.WARN).warnings == ('unknown field "sepc"',)
    text = 'cannot be handled as a ResourceClaim: strict decoding error: unknown field "sepc"'
    with pytest.raises(BadRequestError, match=re.escape(text)):
        tried(FieldValidation.STRICT)


def test_selectors_are_compiled_where_a_compiler_is_given() -> None:
    def check(text: str, path: Path, stored: bool) -> list[FieldError]:
        return [FieldError(path.text, Reason.INVALID, f"no such function: {text}")]

    store = SmallStore()
    store.rules = Rules(check_selector=check)
    with pytest.raises(InvalidError, match=r"no such function: foo\(\)"):
        store.create("resourceclaims", claim(selectors=[{"cel": {"expression": "foo()"}}]))
