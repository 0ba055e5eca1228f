"""A kubelet that starts four containers one after the other, and is killed meanwhile."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from dray.kubelet.runtimes.contract import Runtime
from tests.kubelet.runtimes.conformance import World, marking


def opener(maker: str, directory: Path) -> Any:
    """The runtime that the expression makes."""
    module, _, rest = maker.partition(":")
    namespace: dict[str, Any] = {"directory": directory, "Path": Path}
    exec(f"from {module} import *", namespace)
    return eval(rest, namespace)


async def main(directory: Path, maker: str, image: str, uid: str, marks: str, has_mounts: bool) -> None:
    def again() -> AbstractAsyncContextManager[Runtime]:
        runtime: AbstractAsyncContextManager[Runtime] = opener(maker, directory)
        return runtime

    world = World(directory, again, maker, image, Path(marks).parent, has_mounts)
    async with world.open() as runtime:
        print("ready", flush=True)
        sandbox = await runtime.run_sandbox(world.sandbox(uid))
        for name in "abcd":
            config = world.container(marking(name, Path(marks)), name=name, uid=uid)
            await runtime.start(await runtime.create(sandbox, config))
        await asyncio.sleep(60)


facts = json.loads(sys.argv[1])
asyncio.run(main(Path(facts[0]), *facts[1:]))
