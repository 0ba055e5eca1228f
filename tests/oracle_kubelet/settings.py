"""What random cases of both kinds share: a machine, and what its topology manager is told."""

from __future__ import annotations

from random import Random

from dray.api.codec.json_codec import view
from dray.api.core.pod import Pod
from dray.kubelet.topology.nodes import NumaNodes
from dray.kubelet.topology.options import TopologyConfig
from tests.go_oracle import Case

POLICIES = ("none", "best-effort", "restricted", "single-numa-node")


def random_setting(random: Random, *, most_nodes: int = 8) -> Case:
    """Distances only where ids have no gaps: the kubelet indexes its lists by id."""
    count = random.choice((1, 2, 2, 2, 3, 4, 4, most_nodes)) if random.random() < 0.99 else 9
    has_gaps = random.random() < 0.2
    nodes = sorted(random.sample(range(12), count)) if has_gaps else list(range(count))
    distances = None if has_gaps or random.random() < 0.3 else _distances(random, count)
    options: dict[str, str] = {}
    if distances is not None and random.random() < 0.6:
        options["prefer-closest-numa-nodes"] = random.choice(("true", "1", "false"))
    if random.random() < 0.1:
        options["max-allowable-numa-nodes"] = random.choice(("8", "12", "+9"))
    if random.random() < 0.02:
        options |= _wrong_option(random)
    policy = (
        random.choice(("best-effort", "restricted", "single-numa-node")) if random.random() < 0.95 else "none"
    )
    return {
        "nodes": nodes,
        "distances": distances,
        "policy": policy if random.random() < 0.99 else "most-effort",
        "scope": random.choice(("container", "pod")) if random.random() < 0.99 else "node",
        "options": options,
    }


def _wrong_option(random: Random) -> dict[str, str]:
    return random.choice(
        (
            {"prefer-closest-numa-nodes": random.choice(("yes", "", "tRUE"))},
            {"max-allowable-numa-nodes": random.choice(("7", "-3", "1_000", "", "9" * 20, "eight", "0x9"))},
            {"no-such\toption": "true"},
        )
    )


def _distances(random: Random, count: int) -> dict[str, list[int]]:
    near, far = random.choice(((10, 20), (10, 12), (10, 40)))
    table = [
        [near if one == other else random.randint(near + 1, far) for other in range(count)]
        for one in range(count)
    ]
    for one in range(count):
        for other in range(one):
            if random.random() < 0.9:
                table[one][other] = table[other][one]
    return {str(node): row for node, row in enumerate(table)}


def config_of(case: Case) -> TopologyConfig:
    return TopologyConfig(case["policy"], case["scope"], case["options"])


def nodes_of(case: Case) -> NumaNodes:
    distances = case["distances"]
    known = None if distances is None else {int(node): tuple(row) for node, row in distances.items()}
    return NumaNodes(tuple(case["nodes"]), known)


def pod_of(case: Case) -> Pod:
    """The pod of a case as our own type."""
    return view(pod_object(case), Pod)


def pod_object(case: Case) -> Case:
    return {
        "metadata": {"name": case["uid"], "namespace": "default", "uid": case["uid"]},
        "spec": {
            "initContainers": [_container(container) for container in case.get("init", ())],
            "containers": [_container(container) for container in case["containers"]],
        },
    }


def _container(case: Case) -> Case:
    limits = {name: str(count) for name, count in case.get("limits", {}).items()}
    container: Case = {"name": case["name"], "resources": {"limits": limits, "requests": limits}}
    if case.get("sidecar"):
        container["restartPolicy"] = "Always"
    return container
