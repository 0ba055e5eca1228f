from __future__ import annotations

import asyncio
import os
import subprocess

from dray.kubelet.runtimes.following import Following
from dray.kubelet.runtimes.liveness import Identity
from dray.kubelet.runtimes.shim import identity
from tests.waiting import PATIENCE


async def test_an_end_wakes_once_and_names_who() -> None:
    following = Following()
    with subprocess.Popen(["sleep", "60"]) as one, subprocess.Popen(["sleep", "60"]) as two:
        for name, process in (("one", one), ("two", two)):
            assert following.follow(name, Identity(**identity(process.pid)))
        one.kill()
        await asyncio.wait_for(following.wait_changed(), PATIENCE)
        assert following.take_changed() == {"one"}
        assert "two" in following
        two.kill()
        await asyncio.wait_for(following.wait_changed(), PATIENCE)
        assert following.take_changed() == {"two"}
    following.close()


async def test_one_that_is_gone_is_told_at_once() -> None:
    following = Following()
    with subprocess.Popen(["true"]) as process:
        known = Identity(**identity(process.pid))
    assert not following.follow("x", known)
    assert "x" not in following


async def test_descriptors_are_given_back() -> None:
    before = len(os.listdir("/proc/self/fd"))
    following = Following()
    own = Identity(**identity(os.getpid()))
    for _ in range(3):
        assert following.follow("x", own)
    assert len(os.listdir("/proc/self/fd")) == before + 1
    following.leave("x")
    following.leave("x")
    assert following.follow("y", own)
    following.close()
    assert len(os.listdir("/proc/self/fd")) == before
