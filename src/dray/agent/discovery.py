"""Looks at a machine through every driver: what `dray devices` shows, once or as it changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn

from dray.agent.config import Served
from dray.agent.config.config_file import ConfigFile
from dray.agent.kinds import Kinds
from dray.drivers.contract import Discovery, Driver
from dray.drivers.generic import GenericDriver
from dray.hardware.host_root import HostRoot, open_host_root
from dray.runtime.clock import Clock, SystemClock

LOOK_SECONDS: Final = 2.0
"""Between two looks where no file tells of a change: sysfs tells of none."""


def drivers(config: Path | None = None) -> tuple[Driver, ...]:
    """Those that find all there is, in the order they are shown; with a config, under the names it gives."""
    served = ConfigFile(config).load() if config is not None else Served()
    generic = () if config is not None else (GenericDriver(),)
    return (*generic, *Kinds(SystemClock()).drivers(served, everything=True))


def discover(host_root: str, config: Path | None = None) -> Discovery:
    """All devices below `host_root`; InvalidError if there is no such directory, or if the config is wrong."""
    wanted = drivers(config)
    return _look(open_host_root(host_root), wanted)


async def follow(
    host_root: str,
    config: Path | None,
    show: Callable[[Discovery], Awaitable[None]],
    clock: Clock | None = None,
) -> NoReturn:
    """Until cancelled: `show` gets each look, also those that found nothing new. The errors are those of `discover`."""
    from dray.runtime.files.filewatch import FileWatch
    from dray.runtime.tasks import wait_first

    clock = clock or SystemClock()
    wanted, root = drivers(config), open_host_root(host_root)
    while True:
        found = _look(root, wanted)
        async with FileWatch(
            (Path(path) for device in found.devices for path in device.watch),
            directories=map(Path, found.watch),
            follow=True,
            root=root.path,
            poll_interval=LOOK_SECONDS,
        ) as watch:
            await show(found)
            await wait_first(watch.wait_changed(), clock.sleep(LOOK_SECONDS))


def _look(root: HostRoot, wanted: Sequence[Driver]) -> Discovery:
    with root.sweep() as sweep:
        looks = [driver.discover(sweep) for driver in wanted]
    problems = dict.fromkeys(problem for look in looks for problem in look.problems)
    return Discovery(
        tuple(device for look in looks for device in look.devices),
        tuple(problems),
        tuple(place for look in looks for place in look.looked_at),
        tuple(sorted({place for look in looks for place in look.watch})),
    )
