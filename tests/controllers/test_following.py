"""Changes as pairs, also for who was too slow to hear each."""

from __future__ import annotations

from pathlib import Path

from dray.api.core import ConfigMap
from dray.api.kinds import CONFIG_MAPS
from dray.client.informer import Informer
from dray.client.reflector import ReflectorConfig
from dray.controllers.following import follow
from tests.controllers.server import cluster
from tests.waiting import wait_until


def short(one: ConfigMap | None) -> str:
    return "-" if one is None else f"{one.metadata.name}{one.data.get('v', '')}"


async def test_all_changes_come_as_pairs_until_it_is_left(tmp_path: Path) -> None:
    seen: list[str] = []
    async with cluster(tmp_path) as (api, client):
        await api.add(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"v": "1"}})
        async with Informer(client, CONFIG_MAPS) as informer:
            with follow(informer, lambda old, new: seen.append(f"{short(old)} {short(new)}")):
                assert seen == ["- a1"]
                await api.change(CONFIG_MAPS, "a", data={"v": "2"})
                await api.remove(CONFIG_MAPS, "a")
                await api.add(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"v": "3"}})
                await wait_until(lambda: len(seen) == 4)
            await api.add(CONFIG_MAPS, {"metadata": {"name": "b"}, "data": {"v": "1"}})
            await wait_until(lambda: len(informer) == 2)
    assert seen == ["- a1", "a1 a2", "a2 -", "- a3"]


async def test_who_was_too_slow_hears_the_difference_deletions_and_successors_included(
    tmp_path: Path,
) -> None:
    seen: list[str] = []
    async with cluster(tmp_path) as (api, client):
        for name in "abc":
            await api.add(CONFIG_MAPS, {"metadata": {"name": name}, "data": {"v": "1"}})
        async with Informer(client, CONFIG_MAPS, config=ReflectorConfig(buffer=1)) as informer:
            with follow(informer, lambda old, new: seen.append(f"{short(old)} {short(new)}")):
                seen.clear()
                await api.remove(CONFIG_MAPS, "a")
                await api.remove(CONFIG_MAPS, "b")
                await api.add(CONFIG_MAPS, {"metadata": {"name": "b"}, "data": {"v": "2"}})
                await api.change(CONFIG_MAPS, "c", data={"v": "2"})
                await wait_until(lambda: "c1 c2" in seen and "- b2" in seen)
                await api.add(CONFIG_MAPS, {"metadata": {"name": "d"}, "data": {"v": "1"}})
                await wait_until(lambda: "- d1" in seen)
    assert sorted(seen) == ["- b2", "- d1", "a1 -", "b1 -", "c1 c2"]
    assert seen.index("b1 -") < seen.index("- b2")
