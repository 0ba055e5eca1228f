"""The dashboard over real HTTP, with a real cluster behind it; and who is not let in."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import socket
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dray.api.kinds import DEVICE_TAINT_RULES, NODES, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.dashboard.http.security import HEADERS
from tests.dashboard import small_fleet as objects
from tests.dashboard.fleet_script import add_node, fill, make, shown_fleet
from tests.dashboard.looking import QUICK, Looker, alone, looking, options_for, with_cluster
from tests.waiting import until


async def test_a_whole_fleet_as_its_page_asks_for_it(tmp_path: Path) -> None:
    """Scheduler and controllers run; every question that the page has is asked once."""
    async with shown_fleet(tmp_path) as shown, looking(options_for(shown.client.access)) as looker:

        async def all_run() -> bool:
            states = (await looker.get("/api/pods"))["states"]
            return bool(states == {"pending": 1, "running": 4})

        await until(all_run)
        fleet = await looker.get("/api/fleet")
        assert [one["name"] for one in fleet["nodes"]] == ["gpu-a", "gpu-b", "old-c", "*"]
        summary = fleet["summary"]
        assert (summary["pendingPods"], summary["pendingClaims"], summary["devices"]) == (1, 1, 14)
        assert (summary["held"], summary["partitionsHeld"], summary["unhealthy"]) == (4, 1, 1)
        assert (fleet["notes"], fleet["lag"]) == ([], None)
        await _look_at_lists(looker)
        await _look_at_a_held_device(looker)
        await _look_at_the_refusal(looker)
        await _ask_what_if(looker)


async def _look_at_lists(looker: Looker) -> None:
    found = await looker.get("/api/claims?state=pending")
    assert [one["name"] for one in found["rows"]] == ["dream"]
    assert found["rows"][0]["pods"] == ["team-a/dreamer"]
    assert found["states"] == {"pending": 1, "reserved": 3}
    pods = (await looker.get("/api/pods?search=DREAM"))["rows"]
    assert [one["name"] for one in pods] == ["dreamer"]
    assert "nodes are available" in pods[0]["reason"]
    few = await looker.get("/api/pods?limit=2")
    assert (len(few["rows"]), few["total"]) == (2, 5)
    reasons = {one["reason"] for one in (await looker.get("/api/events"))["rows"]}
    assert {"DevicePrepared", "FailedScheduling", "Scheduled"} <= reasons


async def _look_at_a_held_device(looker: Looker) -> None:
    rows = (await looker.get("/api/claims?search=pair"))["rows"]
    device, node = rows[0]["devices"][0], rows[0]["node"]
    found = await looker.get(f"/api/devices/{device}")
    assert found["device"]["holders"] == [{"claim": "team-a/pair", "pods": ["team-a/pair-0"], "door": "dra"}]
    assert found["device"]["attributes"]["model"] == "NVIDIA H200"
    assert found["device"]["capacity"] == {"memory": "141Gi"}
    assert [one["stage"] for one in found["story"]] == ["discovered", "published", "allocated", "prepared"]
    page = await looker.get(f"/api/nodes/{node}")
    listed = [one for numa in page["topology"] for root in numa["roots"] for one in root["devices"]]
    assert device in listed
    assert page["conditions"][0]["type"] == "Ready"


async def _look_at_the_refusal(looker: Looker) -> None:
    for question in ("claim=team-a/dream", "pod=team-a/dreamer"):
        found = await looker.get(f"/api/explain?{question}")
        assert found["fits"] is False
        refusal = found["workloads"][0]["refusal"]
        assert {"node", "class", "selector"} >= set(refusal["nodes"][0]["requests"][0]["removed"])
        assert "B300" in json.dumps(refusal["nearestMisses"])


async def _ask_what_if(looker: Looker) -> None:
    template = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
    template |= objects.template("more", objects.request(objects.WHOLE))
    asked = {"manifests": json.dumps(template), "claims": 50}
    status, _, found = await looker.ask("/api/whatif", method="POST", body=asked)
    assert (status, found["asked"], found["error"]) == (200, 50, None)
    assert 0 < found["fits"] < 12
    assert found["runsOutFirst"]["text"]
    names = [one["name"] for one in (await looker.get("/api/claims"))["rows"]]
    assert len(names) == 4


async def test_changes_come_without_asking(tmp_path: Path) -> None:
    async with with_cluster(tmp_path) as (client, looker):
        start = (await looker.get("/api/fleet"))["revision"]
        await fill(client)
        async with looker.follow(f"?since={start}") as stream:
            told = await stream.next("fleet", lambda value: "gpu-a" in value["nodes"])
            assert told["revision"] != start
            await make(client, RESOURCE_CLAIMS, objects.claim("c", objects.request()))
            rows = await stream.next("claims")
            assert [one["name"] for one in rows["changed"]] == ["c"]
            summary = (await stream.next("fleet"))["summary"]
            assert summary["pendingClaims"] == 1
            await client.delete(RESOURCE_CLAIMS, "c", namespace=objects.NS)
            assert (await stream.next("claims"))["removed"] == ["team-a/c"]
            await client.delete(NODES, "gpu-b")
            gone = await stream.next("fleet", lambda value: "gpu-b" in value["nodes"])
            assert gone["nodes"]["gpu-b"]["ready"] is False  # its slices are still there
            for one in ("gpu-b-devices", "gpu-b-counters"):
                await client.delete(RESOURCE_SLICES, one)
            assert await stream.next("fleet", lambda value: value["nodes"].get("gpu-b", 1) is None)


async def test_who_comes_back_gets_what_was_missed_and_no_more(tmp_path: Path) -> None:
    async with with_cluster(tmp_path) as (client, looker):
        async with looker.follow() as stream:
            await add_node(client, "one")
            await stream.next("fleet", lambda value: "one" in value["nodes"])
            place = stream.last_id
        await add_node(client, "two")
        async with looker.follow(headers={"Last-Event-ID": place}) as stream:
            told = await stream.next("fleet")
            assert set(told["nodes"]) <= {"one", "two"}
        async with looker.follow(headers={"Last-Event-ID": "another-life-5"}) as stream:
            assert await stream.next("reset") is not None


async def test_a_follower_hears_that_the_dashboard_is_alive() -> None:
    async with alone() as looker, looker.follow() as stream:
        assert (await stream.any())[0] == ""
        async with asyncio.timeout(60):
            while (await stream.any())[0]:
                pass


async def test_more_followers_than_there_may_be() -> None:
    async with alone() as looker:
        async with looker.follow(), looker.follow(), looker.follow():
            status, headers, found = await looker.ask("/api/stream")
            assert (status, headers["Retry-After"]) == (503, "10")
            assert "close some" in found["error"]

        async def is_free() -> bool:
            async with looker.session.get(
                f"{looker.at.url}/api/stream", headers={"Authorization": f"Bearer {looker.at.token}"}
            ) as answer:
                return answer.status == 200

        await until(is_free)


async def test_a_follower_that_reads_nothing_is_cut_off(tmp_path: Path) -> None:
    async with with_cluster(tmp_path, stream=replace(QUICK, patience=0.3)) as (client, looker):
        address = urlsplit(looker.at.url)
        with socket.socket() as mute:
            mute.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            mute.connect((address.hostname, address.port))
            head = f"GET /api/stream HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {looker.at.token}\r\n\r\n"
            mute.sendall(head.encode())
            mute.setblocking(False)
            for number in range(8):
                many = [objects.gpu(0) | {"name": f"gpu-{one}"} for one in range(128)]
                await make(client, RESOURCE_SLICES, objects.slice_of(f"n{number}", many))
            rule = objects.rule("all", "", "")
            rule["spec"]["deviceSelector"] = {"driver": objects.DRIVER}
            await make(client, DEVICE_TAINT_RULES, rule)
            values = itertools.count()

            async def is_cut() -> bool:
                changed = {"spec": {"taint": {"value": f"v{next(values)}"}}}
                await client.patch(DEVICE_TAINT_RULES, "all", changed)
                return mute.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNRESET

            await until(is_cut)
        assert (await looker.get("/api/fleet"))["summary"]["devices"] == 1024


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/api/nothing", "GET", 404),
        ("/api/fleet", "POST", 405),
        ("/api/login", "GET", 405),
        ("/api/nodes/none", "GET", 404),
        ("/api/devices/a/b/c", "GET", 404),
        ("/api/devices/a/b", "GET", 404),
        ("/api/claims?limit=0", "GET", 422),
        ("/api/claims?limit=x", "GET", 422),
        ("/api/explain", "GET", 422),
        ("/api/explain?claim=a/b&pod=a/b", "GET", 422),
        ("/api/explain?claim=noslash", "GET", 422),
        ("/api/explain?claim=a/none", "GET", 404),
        ("/api/", "GET", 404),
        ("/api", "GET", 404),
        ("/", "DELETE", 405),
    ],
)
async def test_wrong_questions_get_one_line(path: str, method: str, status: int) -> None:
    async with alone() as looker:
        found, headers, body = await looker.ask(path, method=method)
        assert (found, next(iter(body))) == (status, "error")
        assert "\n" not in body["error"]
        assert headers["Content-Security-Policy"] == HEADERS["Content-Security-Policy"]


async def test_a_what_if_that_is_wrong_says_where(tmp_path: Path) -> None:
    claim = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\nspec:\n  devices: {requests: [{name: g, exactly: {deviceClasName: x}}]}\n"
    async with with_cluster(tmp_path) as (client, looker):
        await add_node(client, "n")
        for body, field in (
            ({"manifests": "a: b: c", "claims": 1}, "manifests:1:5"),
            ({"manifests": claim, "claims": 1}, "manifests:1"),
            ({"manifests": "", "claims": 1}, "manifests"),
            ({"manifests": "kind: Pod", "claims": 0}, "claims"),
            ({"manifests": "kind: ConfigMap", "claims": 1}, "manifests"),
            ({"manifests": 7, "claims": 1}, "manifests"),
            ({"claims": 1}, "body"),
            ({"manifests": "x", "claims": 1, "policy": "any"}, "policy"),
        ):
            status, _, found = await looker.ask("/api/whatif", method="POST", body=body)
            assert (status, found["field"]) == (422, field), found
        status, _, found = await looker.ask(
            "/api/whatif", method="POST", body=b"{", headers={"Content-Type": "application/json"}
        )
        assert (status, found["field"]) == (422, "body")
        assert (await client.list(RESOURCE_CLAIMS)).items == ()
