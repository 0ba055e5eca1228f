"""A tenant with a namespace writes claims: none of them takes more time than a decision has, or more memory than there is.

The search runs in a child whose CPU time and address space are limited, see `deciding.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

from tests.campaign import seeds

Json = dict[str, Any]
ROOT = Path(__file__).parents[2]
ONE_SECOND = 1.0
A_CHILD = 100
PROFILES = ("1g.18gb", "1g.18gb+me", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb")
PARENT, NUMA = "gpu.nvidia.com/parentUUID", "resource.kubernetes.io/numaNode"


def wish(count: int, profile: str, **fields: Any) -> Json:
    of_class = profile if profile in ("gpu", "any", "shared") else "mig"
    made: Json = {"deviceClassName": of_class, "allocationMode": "ExactCount", "count": count, **fields}
    if of_class == "mig":
        expression = f"device.attributes['gpu.nvidia.com'].profile == '{profile}'"
        made["selectors"] = [{"cel": {"expression": expression}}]
    return made


def request(name: str, count: int, profile: str, **fields: Any) -> Json:
    return {"name": name, "exactly": wish(count, profile, **fields)}


def first(name: str, *wishes: tuple[int, str]) -> Json:
    subs = [{"name": f"s{place}", **wish(*one)} for place, one in enumerate(wishes)]
    return {"name": name, "firstAvailable": subs}


def claim(*requests: Json, name: str = "claim", constraints: tuple[Json, ...] = ()) -> Json:
    spec = {"devices": {"requests": list(requests), "constraints": list(constraints)}}
    return {"metadata": {"name": name, "namespace": "tenant"}, "spec": spec}


def several(*wanted: tuple[int, str], **fields: Any) -> Json:
    return claim(*(request(f"r{place}", *one) for place, one in enumerate(wanted)), **fields)


def match(attribute: str, *requests: str) -> Json:
    return {"matchAttribute": attribute, "requests": list(requests)}


def distinct(attribute: str, *requests: str) -> Json:
    return {"distinctAttribute": attribute, "requests": list(requests)}


KNAPSACK = ((3, "1g.18gb"), (5, "2g.35gb"), (7, "3g.71gb"), (7, "4g.71gb"))
FULL = ((1, "1g.18gb"), (3, "2g.35gb"), (7, "3g.71gb"), (7, "4g.71gb"))
THIRDS = tuple(f"gpu-{card}-mig-1g18gb-19-{card % 7}" for card in range(0, 8, 3))

KNAPSACKS: dict[str, tuple[list[Json], tuple[str, ...], str]] = {
    "as it was found": ([several(*KNAPSACK)], (), "none"),
    "largest first": ([several(*reversed(KNAPSACK))], (), "none"),
    "that fits to the last slice": ([several(*FULL)], (), "fits"),
    "one card more than there is": ([several((4, "1g.18gb"), (8, "3g.71gb"), (8, "4g.71gb"))], (), "none"),
    "small ones where large ones must go": ([several((8, "1g.18gb"), (8, "3g.71gb"), (7, "2g.35gb"))], (), "fits"),
    "each device a request of its own": (
        [several(*[(1, kind) for count, kind in KNAPSACK for _ in range(count)])],
        (),
        "none",
    ),
    "over four claims": ([several(one, name=one[1]) for one in KNAPSACK], (), "none"),
    "twenty claims of one profile too many": (
        [several((1, "3g.71gb"), name=f"c{place}") for place in range(17)],
        (),
        "none",
    ),
    "cards in use": ([several((9, "2g.35gb"), (5, "3g.71gb"), (5, "4g.71gb"))], THIRDS, "none"),
    "every profile": ([several(*[(3, kind) for kind in PROFILES[:6]], (2, "7g.141gb"))], (), "fits"),
    "alternatives": (
        [claim(*(first(f"r{place}", (3, "4g.71gb"), (4, "3g.71gb"), (9, "1g.18gb")) for place in range(7)))],
        (),
        "none",
    ),
    "alternatives, the last of which fit": (
        [claim(*(first(f"r{place}", (3, "4g.71gb"), (3, "3g.71gb"), (4, "1g.18gb")) for place in range(8)))],
        (),
        "fits",
    ),
    "all cards and one partition": (
        [claim({"name": "all", "exactly": wish(0, "gpu", allocationMode="All")}, request("r", 1, "1g.18gb"))],
        (),
        "none",
    ),
    "on one NUMA node": ([several((3, "1g.18gb"), (5, "3g.71gb"), (4, "4g.71gb"), constraints=(match(NUMA),))], (), "none"),
    "three claims, each on one NUMA node": (
        [several((4, "3g.71gb"), (3, "4g.71gb"), name=f"c{place}", constraints=(match(NUMA),)) for place in range(3)],
        (),
        "none",
    ),
    "on one card": ([several((3, "1g.18gb"), (3, "2g.35gb"), constraints=(match(PARENT),))], (), "none"),
    "on cards of their own": (
        [several((5, "1g.18gb"), (4, "2g.35gb"), constraints=(distinct(PARENT),))],
        (),
        "none",
    ),
    "any device": ([several((3, "any"), (7, "3g.71gb"), (8, "4g.71gb"), (5, "1g.35gb"))], (), "none"),
}  # fmt: skip


def decide(questions: list[Json]) -> dict[str, Json]:
    """The answers by name. A child decides some and ends, so that what it counts of its time stays exact."""
    found: dict[str, Json] = {}
    for start in range(0, len(questions), A_CHILD):
        found |= _decide(questions[start : start + A_CHILD])
    return found


def _decide(questions: list[Json]) -> dict[str, Json]:
    """A question without an answer was ended by the limits, and so were those after it."""
    lines = "".join(json.dumps(one) + "\n" for one in questions)
    child = subprocess.run(
        [sys.executable, "-m", "tests.hostile.deciding"],
        input=lines,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    answers = {one["name"]: one for one in map(json.loads, child.stdout.splitlines())}
    missing = [one["name"] for one in questions if one["name"] not in answers]
    assert not missing, f"{missing[0]}: ended with {child.returncode}\n{child.stderr[-2000:]}"
    return answers


def test_mig_knapsacks_are_answered() -> None:
    """Each within a second of CPU time: none is stopped, and the kernel ends none."""
    questions = [
        {"name": name, "claims": claims, "used": used, "seconds": ONE_SECOND}
        for name, (claims, used, _) in KNAPSACKS.items()
    ]
    answers = decide(questions)
    assert {name: one["outcome"] for name, one in answers.items()} == {
        name: outcome for name, (_, _, outcome) in KNAPSACKS.items()
    }


class Maker:
    """Random claims over everything that a claim can ask for."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(f"tenant {seed}")

    def question(self, name: str) -> Json:
        number = self.dice.choice((1, 1, 2, 3, 6))
        used = [f"gpu-{card}-mig-1g18gb-19-{card % 7}" for card in range(8) if self.dice.random() < 0.2]
        profile = self.dice.choice(("correct", "correct", "k8s-1.37", "k8s-1.36"))
        claims = [self._claim(f"c{place}") for place in range(number)]
        return {"name": name, "claims": claims, "used": used, "profile": profile, "seconds": 0.2}

    def _claim(self, name: str) -> Json:
        names = [f"r{place}" for place in range(self.dice.choice((1, 2, 4, 8, 32)))]
        most = max(1, 32 // len(names))
        requests = [self._request(one, most) for one in names]
        constraints = [self._constraint(names) for _ in range(self.dice.choice((0, 0, 1, 2, 8)))]
        return claim(*requests, name=name, constraints=tuple(constraints))

    def _request(self, name: str, most: int) -> Json:
        if self.dice.random() < 0.2:
            pairs = [self._pair(most) for _ in range(self.dice.choice((2, 3, 8)))]
            return first(name, *pairs)
        if self.dice.random() < 0.05:
            return {"name": name, "exactly": wish(0, self.dice.choice(PROFILES[5:]), allocationMode="All")}
        count, profile = self._pair(most)
        if profile != "shared":
            return request(name, count, profile)
        amounts = {"memory": f"{self.dice.randint(1, 7)}Gi", "cores": str(self.dice.randint(1, 5))}
        return request(name, count, profile, capacity={"requests": amounts})

    def _pair(self, most: int) -> tuple[int, str]:
        profile = self.dice.choice((*PROFILES, *PROFILES[:5], "shared", "shared", "any"))
        return self.dice.randint(1, most), profile

    def _constraint(self, names: list[str]) -> Json:
        meant = [one for one in names if self.dice.random() < 0.6]
        attribute = self.dice.choice((PARENT, NUMA, "gpu.nvidia.com/profile", "gpu.nvidia.com/type"))
        return self.dice.choice((match, distinct))(attribute, *meant)


def sizes(*mebibytes: int) -> Json:
    """Shares of so much memory each."""
    amounts = [{"requests": {"memory": f"{size}Mi", "cores": "1"}} for size in mebibytes]
    return claim(*(request(f"r{place}", 1, "shared", capacity=one) for place, one in enumerate(amounts)))


# Of these a card of 10Gi has room for two, and there are six cards for thirteen. Nobody counts shares, so that there are
# more ways to try than there is time; only the clock ends it.
ENDLESS = sizes(*range(3500, 4670, 90))
SMALL, LARGE = sizes(1), sizes(1 << 20)
"""What fits where nobody else is, and what nowhere ever fits."""


def test_random_claims_are_decided_or_stopped() -> None:
    """Whatever is asked: an answer, an error, or that the search was stopped, by the time that it was given."""
    questions = [Maker(seed).question(f"seed {seed}") for seed in seeds(24, 10_000)]
    endless: list[Json] = [
        {"name": profile, "claims": [ENDLESS], "profile": profile, "seconds": 0.05}
        for profile in ("k8s-1.36", "correct")
    ]
    sure = [
        {**endless[0], "name": name, "claims": [asked]} for name, asked in (("fits", SMALL), ("none", LARGE))
    ]
    answers = decide([*questions, *endless, *sure])
    assert {name: answers[name]["outcome"] for name in ("fits", "none", "k8s-1.36", "correct")} == {
        "fits": "fits",
        "none": "none",
        "k8s-1.36": "stopped",
        "correct": "stopped",
    }
    for one in answers.values():
        if one["outcome"] == "stopped":
            assert one["error"].startswith("the search for devices was stopped after 0."), one
            assert one["error"].endswith(" s: whether the claims fit here is not known"), one
    assert [answers[one["name"]]["outcome"] for one in endless] == ["stopped", "stopped"]
