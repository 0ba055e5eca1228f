from __future__ import annotations

from pathlib import Path

from dray.api.kinds import CONFIG_MAPS, DEVICE_TAINT_RULES, PODS
from dray.controllers.pictures import Pictures
from tests.controllers.objects import rule_document
from tests.controllers.server import cluster
from tests.waiting import wait_until


async def test_all_who_ask_get_the_same_and_it_is_there(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (api, client):
        await api.add(CONFIG_MAPS, {"metadata": {"name": "a"}})
        pictures = Pictures(client)
        found = pictures.of(CONFIG_MAPS)
        assert pictures.of(CONFIG_MAPS) is found
        async with pictures:
            assert found.get("a", "default") is not None


async def test_what_is_optional_is_not_waited_for(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (api, client):
        api.lacks = DEVICE_TAINT_RULES
        pictures = Pictures(client)
        rules = pictures.optional(DEVICE_TAINT_RULES)
        pictures.of(PODS)
        async with pictures:
            assert list(rules.values()) == []
            api.lacks = None
            await api.add(DEVICE_TAINT_RULES, rule_document())
            await wait_until(lambda: len(rules) == 1)
