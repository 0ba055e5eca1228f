from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.http.asking import APPLY, MAPS, MERGE, PODS, Asking, Document, asking


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Asking]:
    async with asking(tmp_path) as found:
        yield found


def config(**data: str) -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def owners(document: Document) -> list[tuple[str, str, str]]:
    """By name: those of another second stand in the order of their time."""
    found = document["metadata"].get("managedFields", [])
    return sorted((one["manager"], one["operation"], one.get("subresource", "")) for one in found)


async def apply(
    server: Asking, body: Any, who: str, more: str = "", path: str = f"{MAPS}/c"
) -> tuple[int, Document]:
    return await server.ask("PATCH", f"{path}?fieldManager={who}{more}", body, APPLY)


async def test_an_apply_creates_then_changes_and_then_changes_nothing(server: Asking) -> None:
    code, made = await apply(server, config(a="1"), "one")
    assert (code, owners(made)) == (201, [("one", "Apply", "")])
    assert made["metadata"]["managedFields"][0]["fieldsV1"] == {"f:data": {"f:a": {}}}
    code, changed = await apply(server, config(a="2"), "one")
    assert (code, changed["data"]) == (200, {"a": "2"})
    assert changed["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    code, same = await apply(server, config(a="2"), "one")
    assert (code, same) == (200, changed)


async def test_what_an_applier_leaves_out_goes_unless_somebody_else_has_it(server: Asking) -> None:
    await apply(server, config(a="1", b="2"), "one")
    await apply(server, config(b="2", c="3"), "two")
    _, found = await apply(server, config(a="1"), "one")
    assert found["data"] == {"a": "1", "b": "2", "c": "3"}
    _, found = await apply(server, config(c="3"), "two")
    assert found["data"] == {"a": "1", "c": "3"}


async def test_conflicts_name_fields_and_owners_and_force_takes_them(server: Asking) -> None:
    await apply(server, config(a="1", b="2"), "one")
    code, status = await apply(server, config(a="8", b="9"), "two")
    assert (code, status["reason"]) == (409, "Conflict")
    assert status["message"] == 'Apply failed with 2 conflicts: conflicts with "one":\n- .data.a\n- .data.b'
    assert status["details"] == {
        "causes": [
            {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.a"},
            {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.b"},
        ]
    }
    code, status = await apply(server, config(a="8"), "two")
    assert status["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.a'
    code, found = await apply(server, config(a="8", b="9"), "two", "&force=true")
    assert (code, found["data"], owners(found)) == (200, {"a": "8", "b": "9"}, [("two", "Apply", "")])


async def test_an_apply_may_be_yaml_and_dry(server: Asking) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  a: '1'\n"
    code, made = await apply(server, text, "one", "&dryRun=All")
    assert (code, made["data"]) == (201, {"a": "1"})
    assert (await server.ask("GET", f"{MAPS}/c"))[0] == 404
    assert (await apply(server, text, "one"))[0] == 201


@pytest.mark.parametrize(
    ("query", "body", "kind", "code", "message"),
    [
        (
            "",
            config(),
            APPLY,
            422,
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
        ),
        (
            "?force=true",
            config(),
            MERGE,
            422,
            'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch',
        ),
        ("?fieldManager=a", "[]", APPLY, 400, "error decoding YAML: the patch must be an object"),
        ("?fieldManager=a", "a: [", APPLY, 400, "the object provided is unrecognized: "),
        (
            "?fieldManager=a",
            {"kind": "Pod", "apiVersion": "v1"},
            APPLY,
            400,
            "invalid object type: /v1, Kind=Pod",
        ),
        (
            f"?fieldManager={'x' * 129}",
            config(),
            APPLY,
            422,
            "fieldManager: Too long: may not be more than 128",
        ),
    ],
)
async def test_applies_that_make_no_sense(
    server: Asking, query: str, body: object, kind: str, code: int, message: str
) -> None:
    found, status = await server.ask("PATCH", f"{MAPS}/c{query}", body, kind)
    assert (found, status["kind"]) == (code, "Status")
    assert message in status["message"]


@pytest.mark.parametrize("distance", [-1, 1, 1000])
async def test_only_the_newest_version_is_written(server: Asking, distance: int) -> None:
    await server.done("POST", MAPS, config(a="0") | {"metadata": {"name": "earlier"}})
    made = await server.done("POST", MAPS, config(a="1"))
    other = str(int(made["metadata"]["resourceVersion"]) + distance)
    versioned = {"metadata": {"name": "c", "resourceVersion": other}, "data": {"a": "2"}}
    replace = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": other},
        {"op": "replace", "path": "/data/a", "value": "2"},
    ]
    for method, body, kind in (
        ("PUT", versioned, "application/json"),
        ("PATCH", versioned, MERGE),
        ("PATCH", versioned, "application/strategic-merge-patch+json"),
        ("PATCH", replace, "application/json-patch+json"),
        ("PATCH", config(a="2") | versioned, f"{APPLY}"),
        ("DELETE", {"preconditions": {"resourceVersion": other}}, "application/json"),
    ):
        query = "?fieldManager=one&force=true" if kind == APPLY else ""
        code, status = await server.ask(method, f"{MAPS}/c{query}", body, kind)
        assert (code, status["reason"]) == (409, "Conflict"), (method, kind, status)
    assert await server.done("GET", f"{MAPS}/c") == made
    fine = {"preconditions": {"resourceVersion": made["metadata"]["resourceVersion"]}}
    await server.done("DELETE", f"{MAPS}/c", fine)


async def test_every_writer_is_remembered(server: Asking) -> None:
    made = await server.done("POST", MAPS, config(a="1"))
    assert owners(made) == [("tester", "Update", "")]
    made = await server.done("PUT", f"{MAPS}/c?fieldManager=putter", config(a="1", b="2"))
    assert owners(made) == [("putter", "Update", ""), ("tester", "Update", "")]
    again = await server.done("PUT", f"{MAPS}/c?fieldManager=third", config(a="1", b="2"))
    assert again == made
    made = await server.done("PATCH", f"{MAPS}/c?fieldManager=last", {"data": {"b": "3"}}, MERGE)
    assert ("last", "Update", "") in owners(made) and ("putter", "Update", "") not in owners(made)


async def test_a_status_has_owners_of_its_own(server: Asking) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    await server.done("POST", PODS, pod)
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"message": "hello"}}
    code, made = await apply(server, body, "one", path=f"{PODS}/p/status")
    assert (code, made["status"]["message"]) == (200, "hello")
    assert owners(made) == [("one", "Apply", "status"), ("tester", "Update", "")]
    code, _ = await apply(server, body, "one", path=f"{PODS}/none/status")
    assert code == 404
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    await server.done("POST", f"{PODS}/p/binding", binding)
    assert owners(await server.done("GET", f"{PODS}/p")) == owners(made)


async def test_a_yaml_body_creates(server: Asking) -> None:
    made = await server.done("POST", MAPS, "metadata: {name: y}\ndata: {a: '1'}\n", "application/yaml")
    assert made["data"] == {"a": "1"}


async def test_a_workload_is_scaled(server: Asking) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    spec = {"selector": {"matchLabels": {"a": "b"}}, "replicas": 2}
    await server.done("POST", path, {"metadata": {"name": "d"}, "spec": spec})
    scale = await server.done("GET", f"{path}/d/scale")
    assert (scale["kind"], scale["spec"], scale["status"]) == (
        "Scale",
        {"replicas": 2},
        {"replicas": 0, "selector": "a=b"},
    )
    scale["spec"]["replicas"] = 5
    assert (await server.done("PUT", f"{path}/d/scale", scale))["spec"] == {"replicas": 5}
    code, status = await server.ask("PUT", f"{path}/d/scale", scale)
    assert (code, status["reason"]) == (409, "Conflict")
    patched = await server.done("PATCH", f"{path}/d/scale", {"spec": {"replicas": 0}}, MERGE)
    assert patched["spec"] == {}
    found = await server.done("GET", f"{path}/d")
    assert found["spec"]["replicas"] == 0 and found["metadata"]["generation"] == 3
    assert ("tester", "Update", "scale") in owners(found)
    code, _ = await server.ask("PATCH", f"{path}/d/scale?fieldManager=x", {"spec": {}}, APPLY)
    assert code == 415


async def test_events_are_one_store_with_two_faces(server: Asking) -> None:
    new, old = "/apis/events.k8s.io/v1/namespaces/default/events", "/api/v1/namespaces/default/events"
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "note": "hello",
        "reportingController": "me",
        "deprecatedCount": 3,
    }
    made = await server.done("POST", new, event)
    assert (made["apiVersion"], made["note"]) == ("events.k8s.io/v1", "hello")
    seen = await server.done("GET", f"{old}/e")
    assert (seen["apiVersion"], seen["message"], seen["count"]) == ("v1", "hello", 3)
    assert (seen["involvedObject"]["name"], seen["reportingComponent"]) == ("p", "me")
    await server.done("PATCH", f"{new}/e", {"note": "bye"}, MERGE)
    assert (await server.done("GET", f"{old}/e"))["message"] == "bye"
    listed = await server.done("GET", f"{new}?fieldSelector=regarding.name%3Dp")
    assert (listed["kind"], listed["apiVersion"]) == ("EventList", "events.k8s.io/v1")
    assert [one["note"] for one in listed["items"]] == ["bye"]
    assert (await server.done("GET", f"{new}?fieldSelector=regarding.name%3Dq"))["items"] == []
    lines = await server.text(f"{new}?watch=1&timeoutSeconds=1")
    assert '"type":"ADDED"' in lines and '"note":"bye"' in lines
    await server.done("DELETE", f"{new}/e")
    assert (await server.ask("GET", f"{old}/e"))[0] == 404


async def test_a_patch_makes_nothing_even_where_a_put_does(server: Asking) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1"
    code, status = await server.ask("PATCH", leases, {"spec": {"holderIdentity": "n1"}}, MERGE)
    assert (code, status["reason"]) == (404, "NotFound")
    lease = {"metadata": {"name": "n1", "namespace": "kube-node-lease"}, "spec": {"holderIdentity": "n1"}}
    code, _ = await server.ask("PUT", leases, lease)
    assert code == 201
