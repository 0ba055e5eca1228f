"""Ending a `dray up` from outside, and removing what is Dray's and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from dray.api.kinds import PODS
from dray.apiserver.http.server import Address
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.errors import ConflictError
from dray.kubelet.runtimes.shim import boot_id, start_time
from dray.processes.apiserver import ApiServerOptions, api_server
from dray.runtime.clock import SystemClock
from dray.up.place import RunningUp, UpPlace
from dray.up.stopping import OURS, delete_pods, mounts_below, purge, stop


def test_nothing_but_ours_is_removed(short: Path) -> None:
    place = UpPlace(short / "up")
    place.make()
    for name in ("agent", "apiserver", "cdi", "kubelet"):
        (place.data_dir / name / "deep").mkdir(parents=True)
    for name in OURS[4:]:
        (place.data_dir / name).touch()
    outside = short / "outside"
    outside.mkdir()
    (outside / "file").touch()
    (place.data_dir / "kubelet" / "link").symlink_to(outside)
    (place.data_dir / "mine.txt").touch()
    assert purge(place) == ["mine.txt"]
    assert (outside / "file").exists() and (place.data_dir / "mine.txt").exists()
    (place.data_dir / "mine.txt").unlink()
    assert purge(place) == []
    assert not place.data_dir.exists()
    assert purge(place) == []


def test_a_link_in_place_of_a_directory_is_not_followed(short: Path) -> None:
    outside = short / "outside"
    outside.mkdir()
    (outside / "file").touch()
    place = UpPlace(short / "up")
    place.make()
    (place.data_dir / "apiserver").symlink_to(outside)
    assert purge(place) == []
    assert (outside / "file").exists()


def test_every_path_that_is_made_is_known_to_be_ours() -> None:
    place = UpPlace(Path("/d"))
    named = {name for name in dir(UpPlace) if isinstance(getattr(UpPlace, name), property)}
    paths = [getattr(place, name) for name in sorted(named)]
    assert {path.relative_to("/d").parts[0] for path in paths} <= set(OURS)


def test_mounts_below_are_seen(short: Path) -> None:
    info = short / "mountinfo"
    lines = ["/", "/data", "/data/up", "/data/up/kubelet/pods/a\\040b", "/data/upper", "/data/up/cdi"]
    info.write_text("".join(f"1 2 0:3 / {line} rw - tmpfs tmpfs rw\n" for line in lines))
    assert mounts_below(Path("/data/up"), info) == ["/data/up/cdi", "/data/up/kubelet/pods/a b"]
    assert mounts_below(short) == []


async def test_a_service_of_systemd_is_left_to_it(short: Path) -> None:
    place = UpPlace(short)
    pid = os.getpid()
    known = RunningUp(
        pid=pid,
        start_time=start_time(pid) or 0,
        boot=boot_id(),
        version="",
        server="",
        kubeconfig="",
        supervisor="systemd",
    )
    place.write(known)
    with pytest.raises(ConflictError, match="systemctl stop dray"):
        await stop(place, SystemClock())
    place.write(msgspec.structs.replace(known, start_time=1))
    assert await stop(place, SystemClock()) is None, "a stale file is nobody"


async def test_one_that_is_not_ready_yet_is_found_by_its_lock(short: Path) -> None:
    place = UpPlace(short)
    text = (
        "import sys, time; from pathlib import Path\n"
        "from dray.runtime.files.filelock import FileLock\n"
        f"lock = FileLock(Path({str(place.lock)!r})); lock.acquire(); print('held', flush=True); time.sleep(1000)"
    )
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None and child.stdout.readline() == "held\n"
            assert await stop(place, SystemClock()) == child.pid
            assert child.wait(60) == -15
        finally:
            child.kill()


async def test_pods_that_wait_are_deleted_too(tmp_path: Path) -> None:
    """They would get what the others give back, and nobody would end them."""
    place = UpPlace(tmp_path)
    async with api_server(ApiServerOptions(place.apiserver, Address())) as server:
        known = RunningUp(
            pid=os.getpid(),
            start_time=start_time(os.getpid()) or 0,
            boot=boot_id(),
            version="1",
            server=server.url,
            node="here",
            kubeconfig=str(server.kubeconfig),
            data_dir=str(tmp_path),
        )
        place.write(known)
        async with Client(find_access(server.kubeconfig)) as client:
            spec = {"containers": [{"name": "c", "image": "host"}]}
            await client.create(PODS, {"metadata": {"name": "waits"}, "spec": spec}, namespace="default")
            assert await delete_pods(place, SystemClock()) == 1
            assert (await client.list(PODS)).items == ()
