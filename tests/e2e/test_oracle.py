"""The oracle gives the recorded answers, and the committed cases have its answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.campaign import campaign, seeded
from tests.cases import read_cases
from tests.go_oracle import Answer, Case
from tests.oracle.compare import Comparer, compare, random_cases
from tests.oracle.corpus import ALLOCATION, SELECTOR, TIER_SIZES
from tests.oracle.outcomes import allocation_view
from tests.oracle.program import Oracle

RECORDED = ALLOCATION.parent / "recorded.jsonl"


def read(path: Path) -> list[Case]:
    return read_cases(path)


def sample(cases: list[Case]) -> list[Case]:
    return seeded(1).sample(cases, campaign(100, len(cases)))


def test_recorded_answers() -> None:
    with Oracle("allocate") as oracle:
        for case in read(RECORDED):
            answer = oracle.ask(case)
            assert allocation_view(answer)["results"] == allocation_view(case)["results"], case["name"]
            assert answer["error"] == case["error"], case["name"]


def test_committed_allocator_cases() -> None:
    with Oracle("allocate") as oracle:
        for case in sample(read(ALLOCATION)):
            answer = oracle.ask(case)
            assert allocation_view(answer) == allocation_view(case["answer"]), case["name"]


def test_committed_selector_cases() -> None:
    with Oracle("select") as oracle:
        for case in sample(read(SELECTOR)):
            answer = oracle.ask(case)
            answer["compileError"] = answer["compileError"].partition("\n")[0]
            assert answer == case["answer"] | {"name": case["name"]}


@pytest.mark.parametrize("tier", TIER_SIZES)
def test_random_cases_are_answered_in_time(tier: str) -> None:
    with Oracle("allocate", tier=tier) as oracle:
        answers = oracle.ask_all(random_cases("allocation", range(campaign(500, 20_000)), tier=tier))
    assert [answer["name"] for answer in answers if answer.get("aborted")] == []
    assert [
        answer["error"] for answer in answers if answer["error"].startswith(("panic", "cannot read"))
    ] == []


def test_a_difference_is_found_and_made_small() -> None:
    with Oracle("allocate") as oracle:

        def forgets_taints(case: Case) -> Answer:
            for entry in case["slices"]:
                for device in entry["spec"]["devices"]:
                    device.pop("taints", None)
            return oracle.ask(case)

        report = compare(Comparer("allocation"), forgets_taints, random_cases("allocation", range(200)))
    assert report.outcomes.total() == 200
    assert report.labels["results: none / allocated"] > 0
    shown = next(found for found in report.differences if found.label == "results: none / allocated")
    assert '"taints"' in json.dumps(shown.case)
    assert len(json.dumps(shown.case)) < 1000


def test_bench_places_pods_one_after_the_other() -> None:
    nodes = [{"metadata": {"name": f"node-{number}"}} for number in range(4)]
    slices = [
        {
            "metadata": {"name": f"slice-{number}"},
            "spec": {
                "driver": "driver-a",
                "nodeName": f"node-{number}",
                "pool": {"name": f"node-{number}", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "device-0"}],
            },
        }
        for number in range(4)
    ]
    exactly = {"deviceClassName": "class-a", "allocationMode": "ExactCount", "count": 1}
    claim = {
        "metadata": {"name": "claim"},
        "spec": {"devices": {"requests": [{"name": "req", "exactly": exactly}]}},
    }
    workload = {
        "name": "small",
        "features": [],
        "nodes": nodes,
        "classes": [{"metadata": {"name": "class-a"}, "spec": {}}],
        "slices": slices,
        "pods": [[claim]] * 5,
        "tried": 3,
    }
    with Oracle("bench", tier="incubating") as oracle:
        answer = oracle.ask(workload)
    placed = [(pod["node"], pod["feasible"]) for pod in answer["pods"]]
    assert placed == [
        ("node-0", ["node-0", "node-1", "node-2"]),
        ("node-3", ["node-3", "node-1"]),
        ("node-2", ["node-2"]),
        ("node-1", ["node-1"]),
        ("", []),
    ]
    assert all(len(pod["allocateMicros"]) == 3 for pod in answer["pods"])
