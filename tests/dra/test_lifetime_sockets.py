"""What a driver's life leaves in the kubelet's directories."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from dray.dra.lifetime import DraDriver
from dray.dra.register import DriverSockets
from dray.dra.serve import ClaimCalls
from dray.runtime.clock import SystemClock
from dray.runtime.files.inotify import Inotify
from tests.dra.tiny import DRIVER, QUICK, Claims, Tape


def driver_of(kubelet: Path, instance: str = "") -> DraDriver:
    calls = ClaimCalls(DRIVER, Tape(), Claims(), SystemClock(), retries=QUICK)
    return DraDriver(DriverSockets(DRIVER, kubelet, instance), calls, SystemClock())


def stale(path: Path) -> None:
    """A socket whose process was killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    directory = os.open(path.parent, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(f"/proc/self/fd/{directory}/{path.name}")  # the whole path is too long for the kernel
        dead.listen()
    os.close(directory)


async def test_a_kubelet_sees_no_other_name_than_the_registration_sockets(tmp_path: Path) -> None:
    driver = driver_of(tmp_path, "one")
    driver.sockets.registry.mkdir()
    inotify, descriptor = Inotify(), os.open(driver.sockets.registry, os.O_RDONLY)
    try:
        inotify.watch_directory(descriptor)
        async with driver:
            assert os.listdir(driver.sockets.registry) == [f"{DRIVER}-one-reg.sock"]
        assert {event.name for event in inotify.drain()} == {f"{DRIVER}-one-reg.sock"}
    finally:
        os.close(descriptor)
        inotify.close()


async def test_what_killed_instances_left_goes_and_a_live_one_stays(tmp_path: Path) -> None:
    killed = [DriverSockets(DRIVER, tmp_path, instance) for instance in ("", "old", "older")]
    for one in killed:
        stale(one.registration)
        stale(one.endpoint)
    foreign = killed[0].registry / f"x{DRIVER}-old-reg.sock"
    stale(foreign)
    async with driver_of(tmp_path, "one") as first, driver_of(tmp_path, "two") as second:
        found = {path for path in tmp_path.rglob("*") if path.is_socket()}
        live = {path for one in (first, second) for path in (one.sockets.registration, one.sockets.endpoint)}
        assert found == live | {foreign}
