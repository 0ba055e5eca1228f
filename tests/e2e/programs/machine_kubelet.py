"""A small kubelet for a guest: prints every list as a JSON line; each line of input is an Allocate, answered by a line."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dray.errors import Error, UnavailableError
from dray.runtime.tasks import run_until_signalled
from dray.wire.connect import connect
from dray.wire.deviceplugin import DIRECTORY, DevicePluginClient
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    Empty,
)
from tests.small_kubelet import SmallKubelet


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


@dataclass
class PrintingKubelet(SmallKubelet):
    async def _read(self, resource: str, endpoint: str) -> None:
        try:
            async with (
                connect(self.directory / endpoint) as channel,
                DevicePluginClient(channel).list_and_watch(Empty()) as answers,
            ):
                async for answer in answers:
                    devices = {
                        device.ID: [device.health, [node.ID for node in device.topology.nodes]]
                        for device in answer.devices
                    }
                    say(list=resource, devices=devices)
        except UnavailableError:
            pass
        say(list=resource, devices={})
        self.drop(resource)


async def answer(kubelet: SmallKubelet, wanted: dict[str, Any]) -> None:
    try:
        container = await kubelet.allocate(wanted["resource"], *wanted["ids"])
    except Error as error:
        say(error=str(error))
        return
    nodes = [[device.host_path, device.permissions] for device in container.devices]
    say(envs=dict(container.envs), nodes=nodes)


async def main() -> None:
    directory = Path(DIRECTORY)
    directory.mkdir(parents=True)
    kubelet = PrintingKubelet(directory)
    loop = asyncio.get_running_loop()
    async with kubelet.running():
        say(ready=True)
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            await answer(kubelet, json.loads(line))


if __name__ == "__main__":
    run_until_signalled(main)
