from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from dray.api.core import Pod
from dray.api.core.container import Container, ContainerStateWaiting
from dray.api.core.pod import PodSpec
from dray.api.meta import ObjectMeta
from dray.errors import Error, InvalidError, NotFoundError
from dray.kubelet.pods.known import KnownPod
from dray.kubelet.rejection import Rejection
from dray.kubelet.runtimes.shim_log import Log
from dray.kubelet.server.log_files import find_log, open_log, read_log
from dray.kubelet.server.log_lines import LogOptions
from dray.runtime.clock import SystemClock
from tests.waiting import PATIENCE

POD = Pod(
    metadata=ObjectMeta(name="web", namespace="shop", uid="u1"),
    spec=PodSpec(containers=(Container(name="main"),), init_containers=(Container(name="first"),)),
)


def line(number: int) -> str:
    return f"2030-01-01T00:00:00Z stdout F line {number}\n"


def put(logs: Path, attempt: int, count: int = 1) -> Path:
    path = logs / "shop_web_u1" / "main" / f"{attempt}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(map(line, range(count))))
    return path


def refused(logs: Path, known: KnownPod, container: str = "main", *, previous: bool = False) -> Error:
    with pytest.raises(Error) as caught:
        find_log(logs, known, container, previous=previous)
    return caught.value


def test_the_newest_run_and_the_one_before(tmp_path: Path) -> None:
    known = KnownPod(POD, "api")
    for attempt in (2, 9, 10):
        put(tmp_path, attempt)
    (tmp_path / "shop_web_u1/main/10.log.20300101-000000.gz").write_bytes(b"")
    assert find_log(tmp_path, known, "main", previous=False)[1] == 10
    assert find_log(tmp_path, known, "main", previous=True)[1] == 9


def test_while_it_waits_to_start_again_the_last_run_is_the_previous_one(tmp_path: Path) -> None:
    known = KnownPod(POD, "api", waits={"main": ContainerStateWaiting(reason="CrashLoopBackOff")})
    put(tmp_path, 0)
    assert find_log(tmp_path, known, "main", previous=True) == find_log(
        tmp_path, known, "main", previous=False
    )


def test_refusals_say_why(tmp_path: Path) -> None:
    known = KnownPod(POD, "api")
    unknown = refused(tmp_path, known, "side")
    assert isinstance(unknown, NotFoundError)
    assert str(unknown) == 'container "side" not found in pod "web", which has main, first'
    assert (
        str(refused(tmp_path, known))
        == 'container "main" in pod "web" is waiting to start: ContainerCreating'
    )
    known.waits["main"] = ContainerStateWaiting(reason="ErrImagePull", message="no such image")
    assert str(refused(tmp_path, known)).endswith("is waiting to start: ErrImagePull: no such image")
    gone = refused(tmp_path, known, "first", previous=True)
    assert isinstance(gone, InvalidError)
    assert str(gone) == 'previous terminated container "first" in pod "web" not found'
    known.rejection = Rejection("UnexpectedAdmissionError", "no tape is left")
    assert str(refused(tmp_path, known)).endswith("never ran: the pod was rejected: no tape is left")


async def read(path: Path, options: LogOptions) -> bytes:
    async def is_running() -> bool:
        return False

    with open_log(path) as file:
        return b"".join([one async for one in read_log(file, path, options, SystemClock(), is_running)])


@pytest.mark.parametrize("tail", [0, 1, 2, 4999, 5000, 5001])
async def test_the_last_lines(tmp_path: Path, tail: int) -> None:
    path = put(tmp_path, 0, 5000)  # several blocks
    whole = [f"line {number}\n" for number in range(5000)]
    expected = "".join(whole[len(whole) - tail :] if tail <= 5000 else whole)
    assert (await read(path, LogOptions(tail=tail))).decode() == expected


async def test_the_last_line_may_lack_its_end(tmp_path: Path) -> None:
    path = put(tmp_path, 0, 3)
    path.write_text(path.read_text().rstrip("\n"))
    assert await read(path, LogOptions(tail=1)) == b"line 2\n"
    assert await read(path, LogOptions(tail=0)) == b""


async def test_following_goes_on_over_a_new_file_until_the_container_ends(tmp_path: Path) -> None:
    path, alive = put(tmp_path, 0), True

    async def is_running() -> bool:
        return alive

    with open_log(path) as file:
        lines = read_log(file, path, LogOptions(follow=True), SystemClock(), is_running)
        async with asyncio.timeout(PATIENCE), aclosing(lines):
            assert await anext(lines) == b"line 0\n"
            path.rename(path.with_suffix(".log.1"))
            put(tmp_path, 0, 2)
            assert await anext(lines) == b"line 0\nline 1\n"
            with path.open("a") as more:
                more.write(line(7))
            alive = False  # what it wrote before its end is shown
            assert [one async for one in lines] == [b"line 7\n"]


async def test_a_slow_follower_gets_every_file_that_was_put_aside_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    log = Log(str(path), size=400, files=1000)
    log.write(line(0).encode())

    async def is_running() -> bool:
        return False

    with open_log(path) as file:
        lines = read_log(file, path, LogOptions(follow=True), SystemClock(), is_running)
        async with asyncio.timeout(PATIENCE), aclosing(lines):
            found = await anext(lines)
            for number in range(1, 500):
                log.write(line(number).encode())
            found += b"".join([one async for one in lines])
    assert found.decode() == "".join(f"line {number}\n" for number in range(500))


async def test_a_follower_whose_file_is_removed_goes_on_with_the_oldest_that_is_left(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    log = Log(str(path), size=400, files=3)
    log.write(line(0).encode())

    async def is_running() -> bool:
        return False

    with open_log(path) as file:
        lines = read_log(file, path, LogOptions(follow=True), SystemClock(), is_running)
        async with asyncio.timeout(PATIENCE), aclosing(lines):
            assert await anext(lines) == b"line 0\n"
            for number in range(1, 500):
                log.write(line(number).encode())
            rest = b"".join([one async for one in lines]).decode().splitlines()
    assert rest[:9] == [f"line {number}" for number in range(1, 10)]  # its own file, to the end
    assert 20 < len(rest) < 40
    assert rest[9:] == [f"line {number}" for number in range(500 - len(rest) + 9, 500)]


async def test_a_log_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        open_log(tmp_path / "0.log")
