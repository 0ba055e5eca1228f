"""Changes as pairs, also for who was too slow to hear each."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dray.api.core import ConfigMap
from dray.api.kinds import CONFIG_MAPS
from dray.client.reflector import Reflector, ReflectorConfig
from dray.controllers.following import follow
from dray.runtime.tasks import running
from tests.controllers.server import cluster, wait_until


def short(one: ConfigMap | None) -> str:
    return "-" if one is None else f"{one.metadata.name}{one.data.get('v', '')}"


async def test_all_changes_come_as_pairs(tmp_path: Path) -> None:
    seen: list[str] = []
    async with cluster(tmp_path) as (api, client):
        await api.add(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"v": "1"}})
        async with Reflector(client, CONFIG_MAPS) as reflector:
            told = follow(reflector, lambda old, new: seen.append(f"{short(old)} {short(new)}"))
            async with running(told, name="follow"):
                await wait_until(lambda: seen == ["- a1"])
                await api.change(CONFIG_MAPS, "a", data={"v": "2"})
                await api.remove(CONFIG_MAPS, "a")
                await api.add(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"v": "3"}})
                await wait_until(lambda: len(seen) == 4)
    assert seen == ["- a1", "a1 a2", "a2 -", "- a3"]


async def test_who_was_too_slow_hears_the_difference_deletions_and_successors_included(
    tmp_path: Path,
) -> None:
    seen: list[str] = []
    async with cluster(tmp_path) as (api, client):
        for name in "abc":
            await api.add(CONFIG_MAPS, {"metadata": {"name": name}, "data": {"v": "1"}})
        async with Reflector(client, CONFIG_MAPS, config=ReflectorConfig(buffer=1)) as reflector:
            told = follow(reflector, lambda old, new: seen.append(f"{short(old)} {short(new)}"))
            async with running(told, name="follow"):
                await wait_until(lambda: len(seen) == 3)
                seen.clear()
                await api.remove(CONFIG_MAPS, "a")
                await api.remove(CONFIG_MAPS, "b")
                await api.add(CONFIG_MAPS, {"metadata": {"name": "b"}, "data": {"v": "2"}})
                await api.change(CONFIG_MAPS, "c", data={"v": "2"})
                await wait_until(lambda: "c1 c2" in seen)
                await asyncio.sleep(0.02)
    assert seen == ["a1 -", "b1 -", "- b2", "c1 c2"]
