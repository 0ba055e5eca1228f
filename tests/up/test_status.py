"""How a `dray up` is, asked from outside."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from dray.api.kinds import RESOURCE_SLICES
from dray.kubelet.runtimes.shim import start_time
from dray.runtime.files.filelock import FileLock
from dray.runtime.metrics import Metrics, serve_metrics
from dray.runtime.pages import serve_pages
from dray.up.place import RunningUp, UpPlace
from dray.up.status import OK, _counts, ask_part, read_status
from tests.controllers.objects import slice_document
from tests.controllers.server import cluster


async def test_one_that_starts_is_known_by_its_lock(tmp_path: Path) -> None:
    place = UpPlace(tmp_path)
    assert not (await read_status(place)).is_starting
    lock = FileLock(place.lock)
    lock.acquire()
    found = await read_status(place)
    lock.release()
    assert found.is_starting


async def test_devices_of_outdated_slices_are_not_counted(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, client):
        await client.create(RESOURCE_SLICES, slice_document("old", device="g0"))
        await client.create(RESOURCE_SLICES, slice_document("new", device="g1", generation=2))
        assert (await _counts(client))["devices"] == {"published": 1, "allocated": 0}


async def test_parts_are_asked() -> None:
    checks = {"/readyz": lambda: "one: away\ntwo: away"}
    async with serve_metrics(Metrics(), checks=checks) as port:
        assert await ask_part(f"http://127.0.0.1:{port}", "/healthz") == OK
        assert await ask_part(f"http://127.0.0.1:{port}", "/readyz") == "one: away; two: away"
        assert await ask_part(f"http://127.0.0.1:{port}", "/nowhere") == "404 Not Found"
    assert "cannot be asked: " in await ask_part(f"http://127.0.0.1:{port}", "/healthz")
    async with serve_pages({}, host="127.0.0.1") as port:
        assert await asyncio.wait_for(ask_part(f"http://127.0.0.1:{port}", "/"), 60) != OK


async def test_an_api_server_that_does_not_answer_is_told_and_the_parts_are_asked_all_the_same(
    tmp_path: Path,
) -> None:
    place, pid = UpPlace(tmp_path), os.getpid()
    async with serve_metrics(Metrics()) as port:
        place.write(
            RunningUp(
                pid=pid,
                start_time=start_time(pid) or 0,
                version="1",
                server="https://127.0.0.1:1",
                kubeconfig=str(tmp_path / "gone"),
                metrics={"kubelet": f"http://127.0.0.1:{port}"},
            )
        )
        found = await read_status(place)
    assert found.parts["kubelet"] == OK and str(tmp_path / "gone") in found.parts["API server"]
    assert not found.is_healthy and not found.counts
