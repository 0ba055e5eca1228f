"""The committed clusters: we say of every pod what kube-scheduler 1.36 said. (`make e2e` asks it anew, for many more.)"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest

from tests.cases import read_cases
from tests.oracle_scheduler.agreement import differences
from tests.oracle_scheduler.corpus import RECORDED, SIZE, Json
from tests.oracle_scheduler.ours import World

NOW = datetime(2026, 6, 1, tzinfo=UTC)
CASES: list[Json] = read_cases(RECORDED)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["seed"]))
def test_verdicts_agree(case: Json) -> None:
    world = World(case["state"], NOW)
    for raw, theirs in zip(case["state"]["asked"], case["answer"], strict=True):
        assert not differences(theirs, world.ask(raw)), raw["metadata"]["name"]


def test_the_clusters_show_something() -> None:
    """Every plugin that can refuse a pod does, and pods fit."""
    plugins: Counter[str] = Counter()
    for case in CASES:
        for pod in case["answer"]:
            said = (pod["preEnqueue"], pod["preFilter"], *(pod["nodes"] or {}).values())
            plugins.update(one["plugin"] or one["code"] for one in said if one)
    assert len(CASES) == SIZE
    assert set(plugins) >= {
        *("SchedulingGates", "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts"),
        *("NodeResourcesFit", "VolumeRestrictions", "VolumeBinding", "VolumeZone"),
        *("PodTopologySpread", "InterPodAffinity", "DynamicResources", "Success"),
    }
    assert plugins["Success"] > SIZE
