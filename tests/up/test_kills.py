"""`dray up`, killed again and again under load and started by its supervisor: nothing is lost, nothing is given twice."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from dray.apiserver.check import check_store
from dray.up.containers import end_containers
from dray.up.place import UpPlace
from tests.campaign import campaign, seeded
from tests.up.up_storm import UpStorm


async def test_kills_at_random_under_load(short: Path, tmp_path: Path) -> None:
    place, wanted, began = UpPlace(short), campaign(3, 100), time.monotonic()
    storm = UpStorm(place, tmp_path, seeded(7001))
    try:
        async with storm.running() as client:
            await storm.begin(client)
            async with asyncio.TaskGroup() as group:
                group.create_task(storm.load(client))
                while storm.kills < wanted:
                    await storm.kill()
                    if storm.rng.random() < 0.5:
                        await storm.wait_ready()
                        await storm.check(client)
                await storm.settle(client)
        assert not place.running_file.exists() and not place.supervisor_file.exists()
        assert not check_store(place.apiserver / "store.db").faults
        log = (tmp_path / "log").read_text()
        assert "Traceback" not in log and "InvariantError" not in log
    finally:
        await end_containers(place, "process", forget=True)
    pods = len(list(tmp_path.glob("*.starts")))
    print(f"{storm.kills} kills in {time.monotonic() - began:.0f} s, {dict(storm.deaths)}, {pods} pods ran")
    assert pods > 2 and storm.holds_seen >= 2
