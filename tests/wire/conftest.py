"""A served sample plugin, and a check that nothing is left behind by any test of this room."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dray.wire.deviceplugin import DevicePluginService
from dray.wire.serve import serve
from tests.waiting import wait_until
from tests.wire.samples import Plugin, open_files


@pytest.fixture(autouse=True)
async def _nothing_left(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    """No task, no file descriptor and no complaint of asyncio outlives a test."""
    caplog.set_level(logging.DEBUG, "dray")
    tasks, files = asyncio.all_tasks(), open_files()
    yield
    tasks |= {task for task in (asyncio.current_task(),) if task is not None}
    try:
        await wait_until(lambda: not asyncio.all_tasks() - tasks and open_files() <= files)
    except TimeoutError:
        gc.collect()
    assert not asyncio.all_tasks() - tasks
    assert open_files() <= files
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


@pytest.fixture
def socket_path(tmp_path: Path) -> Path:
    return tmp_path / "plugin.sock"


@pytest.fixture
async def plugin(socket_path: Path) -> AsyncIterator[Plugin]:
    """A plugin being served at `socket_path`."""
    handler = Plugin()
    async with serve(socket_path, [DevicePluginService(handler)]):
        yield handler
