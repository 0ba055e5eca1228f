from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.apiserver.custom.definitions import definition
from tests.apiserver.http.asking import APPLY, MERGE, Asking, Document, asking

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Asking]:
    async with asking(tmp_path) as found:
        yield found


def widget(name: str = "w", **metadata: object) -> Document:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, **metadata},
        "spec": {"size": 3},
    }


async def test_a_definition_makes_its_kind_be_served(server: Asking) -> None:
    assert (await server.ask("GET", WIDGETS))[0] == 404
    made = await server.done("POST", DEFINITIONS, definition())
    assert made["status"]["conditions"][1]["type"] == "Established"
    created = await server.done("POST", WIDGETS, widget())
    assert created["spec"] == {"size": 3, "color": "red"} and created["metadata"]["generation"] == 1
    told = await server.done("GET", "/apis/example.com/v1")
    assert [one["name"] for one in told["resources"]] == ["widgets", "widgets/scale", "widgets/status"]
    groups = await server.done("GET", "/apis")
    assert "example.com" in [one["name"] for one in groups["groups"]]
    _, table = await server.ask("GET", WIDGETS, Accept=TABLE)
    assert [one["name"] for one in table["columnDefinitions"]] == ["Name", "Phase", "Age"]
    assert table["rows"][0]["cells"][:2] == ["w", None]
    assert (await server.done("GET", f"{WIDGETS}?fieldSelector=spec.color%3Dblue"))["items"] == []


async def test_the_doors_and_rules_of_a_custom_kind(server: Asking) -> None:
    await server.done("POST", DEFINITIONS, definition())
    await server.done("POST", WIDGETS, widget() | {"status": {"phase": "Mine"}})
    found = await server.done("GET", f"{WIDGETS}/w")
    assert "status" not in found
    patched = await server.done("PATCH", f"{WIDGETS}/w/status", {"status": {"phase": "Up"}}, MERGE)
    assert patched["status"] == {"phase": "Up"} and patched["metadata"]["generation"] == 1
    assert (await server.done("PATCH", f"{WIDGETS}/w/scale", {"spec": {"replicas": 2}}, MERGE))["spec"] == {
        "replicas": 2
    }
    code, status = await server.ask("PATCH", f"{WIDGETS}/w", {"spec": {"size": 99}}, MERGE)
    assert (code, status["details"]["kind"]) == (422, "Widget")
    code, status = await server.ask("PUT", f"{WIDGETS}/w", widget())
    assert code == 422 and "metadata.resourceVersion" in status["message"]
    code, _ = await server.ask("PATCH", f"{WIDGETS}/w?fieldManager=me&force=1", widget(), APPLY)
    assert code == 200
    code, _ = await server.ask("PATCH", f"{WIDGETS}/w", {}, "application/strategic-merge-patch+json")
    assert code == 415


async def test_versions_of_one_form(server: Asking) -> None:
    await server.done("POST", DEFINITIONS, definition())
    older = WIDGETS.replace("v1/", "v1beta1/", 1)
    made = await server.done("POST", older, widget() | {"apiVersion": "example.com/v1beta1"})
    assert made["apiVersion"] == "example.com/v1beta1"
    assert (await server.done("GET", f"{WIDGETS}/w"))["apiVersion"] == "example.com/v1"
    listed = await server.done("GET", older)
    assert [one["apiVersion"] for one in listed["items"]] == ["example.com/v1beta1"]
    assert (await server.done("PATCH", f"{older}/w", {"spec": {"size": 4}}, MERGE))["spec"]["size"] == 4


async def test_a_definition_goes_after_its_objects(server: Asking) -> None:
    await server.done("POST", DEFINITIONS, definition())
    await server.done("POST", WIDGETS, widget(finalizers=["wait"]))
    await server.done("POST", WIDGETS, widget("free"))
    await server.done("DELETE", f"{DEFINITIONS}/widgets.example.com")
    await server.until_gone(f"{WIDGETS}/free")
    code, status = await server.ask("POST", WIDGETS, widget("late"))
    assert (code, status["reason"]) == (405, "MethodNotAllowed")
    assert (await server.done("GET", f"{DEFINITIONS}/widgets.example.com"))["metadata"]["deletionTimestamp"]
    await server.done("PATCH", f"{WIDGETS}/w", {"metadata": {"finalizers": None}}, MERGE)
    await server.until_gone(f"{DEFINITIONS}/widgets.example.com")
    async with asyncio.timeout(60):
        while (await server.ask("GET", WIDGETS))[0] != 404:
            await asyncio.sleep(0.01)
    await server.done("POST", DEFINITIONS, definition())
    assert (await server.done("GET", WIDGETS))["items"] == []


async def test_objects_of_custom_kinds_are_collected(server: Asking) -> None:
    await server.done("POST", DEFINITIONS, definition())
    owner = await server.done("POST", WIDGETS, widget("owner"))
    by = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "owner", "uid": owner["metadata"]["uid"]}
    await server.done("POST", WIDGETS, widget("owned", ownerReferences=[by]))
    await server.done("DELETE", f"{WIDGETS}/owner")
    await server.until_gone(f"{WIDGETS}/owned")
    await server.done("POST", "/api/v1/namespaces", {"metadata": {"name": "brief"}})
    await server.done("POST", WIDGETS.replace("default", "brief"), widget())
    await server.done("DELETE", "/api/v1/namespaces/brief")
    await server.until_gone("/api/v1/namespaces/brief")


async def test_they_are_there_after_a_restart(tmp_path: Path) -> None:
    async with asking(tmp_path) as server:
        await server.done("POST", DEFINITIONS, definition())
        await server.done("POST", WIDGETS, widget())
    async with asking(tmp_path) as server:
        assert (await server.done("GET", f"{WIDGETS}/w"))["spec"]["size"] == 3


async def test_what_a_definition_may_not_be(server: Asking) -> None:
    bad = definition(group="apps") | {"metadata": {"name": "widgets.apps"}}
    code, status = await server.ask("POST", DEFINITIONS, bad)
    assert code == 422 and "served by the server itself" in status["message"]
    code, status = await server.ask("POST", DEFINITIONS, definition(versions=7))
    assert (code, status["reason"]) == (400, "BadRequest")
    own = definition(group="kubevirt.io") | {"metadata": {"name": "widgets.kubevirt.io"}}
    await server.done("POST", DEFINITIONS, own)
    assert (await server.done("GET", "/apis/kubevirt.io/v1/widgets"))["kind"] == "WidgetList"
    assert (await server.done("GET", "/apis/kubevirt.io/v1/kubevirts"))["kind"] == "KubeVirtList"
