"""Selectors are compiled beside the loop."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from dray.api.field_errors import FieldError, Reason
from dray.api.field_errors import Path as FieldPath
from dray.api.validation.faults import invalid
from dray.apiserver.http import selector_checks
from dray.apiserver.http.selector_checks import _Turns
from dray.apiserver.writing.request import Rules
from tests.apiserver.http.asking import MERGE, Document, asking
from tests.waiting import wait_until

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
GUARD = 60.0


def spec(*texts: str) -> Document:
    selectors = [{"cel": {"expression": text}} for text in texts]
    wish = {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1, "selectors": selectors}
    return {"devices": {"requests": [{"name": "r", "exactly": wish}]}}


def claim(name: str, *texts: str) -> Document:
    return {"metadata": {"name": name}, "spec": spec(*texts)}


class Slow:
    """A compiler that takes as long as the test wants."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.asked: list[tuple[str, bool]] = []

    def check(self, text: str, path: FieldPath, stored: bool) -> list[FieldError]:
        self.asked.append((text, stored))
        assert self.go.wait(GUARD), "nothing else was answered meanwhile"
        return [invalid(path, text, "is bad")] if "bad" in text else []


async def test_others_are_answered_while_selectors_are_compiled(tmp_path: Path) -> None:
    slow = Slow()
    async with asking(tmp_path, Rules(check_selector=slow.check)) as server:
        writing = asyncio.ensure_future(server.ask("POST", CLAIMS, claim("a", "x", "y")))
        await wait_until(lambda: slow.asked)
        assert await server.text("/healthz") == "ok"
        assert (await server.ask("GET", CLAIMS))[1]["items"] == []
        assert (await server.ask("POST", CLAIMS, claim("plain")))[0] == 201
        assert not writing.done()
        slow.go.set()
        assert (await writing)[0] == 201
        assert slow.asked == [("x", False), ("y", False)]
        # Known by now; and what differs is asked alone.
        assert (await server.ask("POST", CLAIMS, claim("b", "y", "x", "z", "z")))[0] == 201
        assert slow.asked[2:] == [("z", False)]


async def test_namespaces_take_turns() -> None:
    """One brings five objects of three selectors; another's object waits for one selector between its own, not for all."""
    turns, order = _Turns(), list[str]()

    async def compile_all(namespace: str, *texts: str) -> None:
        for text in texts:
            async with turns.of(namespace):
                order.append(text)
                await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(compile_all("a", *(f"{number}{kind}" for kind in "abc")))
        group.create_task(compile_all("b", "x", "y", "z"))
        gone = group.create_task(compile_all("c", "never"))
        await asyncio.sleep(0)
        gone.cancel()
    assert len(order) == len({*order}) == 18
    assert [order.index(text) for text in "xyz"] == [1, 3, 5]


async def test_a_turn_that_comes_with_a_cancellation_is_passed_on() -> None:
    turns = _Turns()
    first, second = turns.of("a"), turns.of("b")
    await first.__aenter__()
    waiting = asyncio.ensure_future(second.__aenter__())
    await asyncio.sleep(0)
    await first.__aexit__(None, None, None)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with turns.of("c"):
        pass


async def test_faults_name_the_field_wherever_the_text_stood_before(tmp_path: Path) -> None:
    slow = Slow()
    slow.go.set()
    async with asking(tmp_path, Rules(check_selector=slow.check)) as server:
        for _ in range(2):
            code, found = await server.ask("POST", CLAIMS, claim("a", "fine", "bad 1", "bad 1"))
            assert code == 422
            path = "spec.devices.requests[0].exactly.selectors[{}].cel.expression"
            assert [one["field"] for one in found["details"]["causes"]] == [path.format(1), path.format(2)]
            assert found["details"]["causes"][0]["reason"] == Reason.INVALID
        assert (await server.ask("GET", f"{CLAIMS}/a"))[0] == 404


async def test_a_template_that_changes_is_looked_at_again(tmp_path: Path) -> None:
    slow = Slow()
    slow.go.set()
    async with asking(tmp_path, Rules(check_selector=slow.check)) as server:
        template = {"metadata": {"name": "t"}, "spec": {"spec": spec("x")}}
        assert (await server.ask("POST", TEMPLATES, template))[0] == 201
        change = {"metadata": {"labels": {"a": "b"}}, "spec": {"spec": spec("bad")}}
        assert (await server.ask("PATCH", f"{TEMPLATES}/t", change, MERGE))[0] == 422
        assert slow.asked == [("x", False), ("bad", False)]
        del change["spec"]
        assert (await server.ask("PATCH", f"{TEMPLATES}/t", change, MERGE))[0] == 200


async def test_an_object_whose_selectors_take_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selector_checks, "SECONDS", 0.0)
    async with asking(tmp_path, Rules(check_selector=Slow().check)) as server:
        code, found = await server.ask("POST", CLAIMS, claim("a", "x"))
        assert (code, found["message"]) == (503, "compiling the selectors of the object takes more than 0 s")
        assert (await server.ask("POST", CLAIMS, claim("plain")))[0] == 201
