"""Questions to the allocator: the same answers as the command line gives, few at once, nothing written."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from pathlib import Path

import pytest

from dray.api.codec import dump_yaml
from dray.api.kinds import RESOURCE_CLAIMS
from dray.cli.main import main
from dray.dashboard.fleet.fleet import Fleet
from dray.dashboard.telling.explanations import BusyError, Questions
from dray.errors import UnavailableError
from tests.dashboard import small_fleet as objects
from tests.dashboard.fleet_script import fill, make
from tests.dashboard.looking import until, with_cluster


async def test_the_answers_are_those_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    async with with_cluster(tmp_path) as (client, looker):
        await fill(client)
        await make(client, RESOURCE_CLAIMS, objects.claim("dream", objects.request(objects.IMPOSSIBLE)))

        async def is_known() -> bool:
            return bool((await looker.get("/api/claims"))["total"])

        await until(is_known)
        kubeconfig = f"--kubeconfig={tmp_path / 'server' / 'admin.kubeconfig'}"

        async def dray(*words: str) -> object:
            await asyncio.to_thread(main, [*words, kubeconfig, "-o", "json", "--log-level=error"])
            return json.loads(capsys.readouterr().out)

        said = await looker.get("/api/explain?claim=team-a/dream")
        assert said.pop("fits") is False
        assert said == await dray("explain", "dream", "-n", objects.NS)
        template = objects.template("more", objects.request(objects.WHOLE))
        head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
        text = dump_yaml(head | template)
        (tmp_path / "more.yaml").write_text(text)
        asked = {"manifests": text, "claims": 30, "policy": "best-fit"}
        status, _, said = await looker.ask("/api/whatif", method="POST", body=asked)
        assert status == 200
        words = ("simulate", "-f", str(tmp_path / "more.yaml"), "--claims=30", "--policy=best-fit")
        assert said == await dray(*words)


async def test_more_questions_than_at_once() -> None:
    usual = sys.getswitchinterval()
    questions, go = Questions(Fleet("s", "l"), at_once=2), threading.Event()
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(questions._think(lambda: go.wait(10), "think"))
            await asyncio.sleep(0)
            with pytest.raises(BusyError, match="ask again"):
                await questions.explain(claim="a/b")
            go.set()
    finally:
        go.set()
    assert await questions._think(sys.getswitchinterval, "think") < usual
    assert sys.getswitchinterval() == usual


async def test_a_question_that_takes_too_long_keeps_its_place_until_it_ends() -> None:
    questions, go = Questions(Fleet("s", "l"), at_once=1, seconds=0.05), threading.Event()
    with pytest.raises(UnavailableError, match=r"in 0\.05 s"):
        await questions._think(lambda: go.wait(10), "think")
    with pytest.raises(BusyError):
        await questions._think(lambda: 7, "think")
    go.set()

    async def is_free() -> int | None:
        try:
            return await questions._think(lambda: 7, "think")
        except BusyError:
            return None

    assert await until(is_free) == 7
