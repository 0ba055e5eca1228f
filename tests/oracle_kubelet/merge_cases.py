"""Random hints of providers, and what our topology manager makes of them, in the oracle's words."""

from __future__ import annotations

import asyncio
from math import prod
from random import Random

from dray.api.core.container import Container
from dray.api.core.pod import Pod
from dray.errors import InvalidError, UnavailableError
from dray.kubelet.metrics import TopologyMetrics
from dray.kubelet.topology.hints import Hint, ResourceHints
from dray.kubelet.topology.manager import TopologyManager, containers_of
from dray.runtime.clock import FakeClock
from dray.runtime.metrics import Metrics
from tests.go_oracle import Answer, Case
from tests.oracle_kubelet.settings import config_of, nodes_of, pod_of, random_setting

MOST_WAYS = 20_000
"""Of taking a hint for each resource, in one case: Go tries all of them."""


def merge_case(seed: int) -> Case:
    random = Random(seed)
    case: Case = {"name": f"merge-{seed}", **random_setting(random)}
    names = [f"c{at}" for at in range(random.choice((1, 1, 1, 2, 3)))]
    split = random.choice((0, 0, len(names) - 1))
    case["pod"] = {
        "uid": "pod",
        "init": [{"name": name, "sidecar": random.random() < 0.3} for name in names[:split]],
        "containers": [{"name": name} for name in names[split:]],
    }
    count = random.choice((0, 1, 2, 2, 3, 3))
    asked = {name: _all_hints(random, case["nodes"], count) for name in (*names, "")}
    case["providers"] = [
        {
            "containers": {name: asked[name][at] for name in names},
            "pod": asked[""][at],
            "fails": {random.choice(names): "no devices today"} if random.random() < 0.05 else {},
        }
        for at in range(count)
    ]
    return case


def _all_hints(random: Random, nodes: list[int], providers: int) -> list[Case | None]:
    """What each provider says about one container: null, or hints by resource."""
    while True:
        said = [_provider_hints(random, nodes, provider) for provider in range(providers)]
        lists = [hints for resources in said if resources for hints in resources.values() if hints]
        if prod(len(hints) for hints in lists) <= MOST_WAYS:
            return said


def _provider_hints(random: Random, nodes: list[int], provider: int) -> Case | None:
    if random.random() < 0.1:
        return random.choice((None, {}))
    names = [f"r{provider}{at}" for at in range(random.choice((1, 1, 1, 2, 3)))]
    return {name: _hints(random, nodes) for name in names}


def _hints(random: Random, nodes: list[int]) -> list[list[object]] | None:
    kind = random.random()
    if kind < 0.06:
        return None
    if kind < 0.1:
        return []
    if kind < 0.5:
        return _as_managers_do(random, nodes)
    return [_hint(random, nodes) for _ in range(random.choice((1, 1, 2, 3, 5, 9)))]


def _as_managers_do(random: Random, nodes: list[int]) -> list[list[object]]:
    """Sets of some nodes, of which those with the least nodes are preferred; in a full machine only few are left."""
    some = sorted(random.sample(nodes, random.randint(1, min(len(nodes), 4))))
    least = random.choice((1, 1, 1, 2, 3))
    masks = [
        sum(1 << node for at, node in enumerate(some) if chosen >> at & 1)
        for chosen in range(1, 1 << len(some))
    ]
    kept = [mask for mask in masks if mask.bit_count() >= least and random.random() < 0.8]
    return [[mask, mask.bit_count() == least] for mask in kept]


def _hint(random: Random, nodes: list[int]) -> list[object]:
    """Now and then with no node, with none that the machine has, or without any preference."""
    kind = random.random()
    if kind < 0.04:
        return [None, random.random() < 0.5]
    if kind < 0.06:
        return [0, random.random() < 0.5]
    some = random.sample(nodes, random.randint(1, len(nodes)))
    mask = sum(1 << node for node in some)
    if kind < 0.1:
        mask |= 1 << random.randrange(20)
    return [mask, random.random() < 0.5]


class ScriptedProvider:
    """Says what a case says, and notes each allocation."""

    def __init__(self, script: Case, calls: list[str]) -> None:
        self._script = script
        self._calls = calls

    def topology_hints(self, pod: Pod, container: Container) -> ResourceHints:
        return hints_of(self._script["containers"][container.name])

    def pod_topology_hints(self, pod: Pod) -> ResourceHints:
        return hints_of(self._script["pod"])

    async def allocate(self, pod: Pod, container: Container) -> None:
        self._calls.append(container.name)
        text = self._script["fails"].get(container.name)
        if text:
            raise UnavailableError(text)


def hints_of(said: Case | None) -> ResourceHints:
    return {
        name: None if hints is None else [Hint(*hint) for hint in hints]
        for name, hints in (said or {}).items()
    }


def our_merge(case: Case) -> Answer:
    """The answer of our topology manager, as the oracle would write it."""
    try:
        manager = TopologyManager(config_of(case), nodes_of(case), FakeClock(), TopologyMetrics(Metrics()))
    except InvalidError as error:
        return {"name": case["name"], "error": str(error)}
    calls: list[str] = []
    providers = [ScriptedProvider(script, calls) for script in case["providers"]]
    for provider in providers:
        manager.add_provider(provider)
    pod = pod_of(case["pod"])
    decision = manager.policy.decide(
        [provider.topology_hints(pod, pod.spec.containers[0]) for provider in providers]
    )
    rejection = asyncio.run(manager.admit(pod))
    return {
        "name": case["name"],
        "error": "",
        "merged": list(decision.hint),
        "isTaken": decision.is_admitted,
        "admission": {
            "admitted": rejection is None,
            "reason": "" if rejection is None else rejection.reason,
            "message": "" if rejection is None else rejection.message,
            "affinity": {
                container.name: list(manager.affinity("pod", container.name))
                for container in containers_of(pod)
            },
        },
        "calls": calls,
    }


def merge_view(answer: Answer) -> Answer:
    """What is compared: all, but for hints that the kubelet keeps of pods that it rejected."""
    if answer["error"]:
        return {"error": answer["error"]}
    admission = dict(answer["admission"])
    if not admission["admitted"]:
        del admission["affinity"]
    return {**answer, "admission": admission}
