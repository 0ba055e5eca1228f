"""Nodes that are alike: what is told about them is what each would have been told alone."""

from __future__ import annotations

from copy import deepcopy
from itertools import count
from random import Random
from typing import Any

from dray.allocation.allocator import Allocator
from dray.allocation.cases import Case, allocator_of, read_case
from dray.allocation.cluster.cluster_dump import Cluster
from dray.allocation.cluster.situation import Situation
from dray.allocation.cluster.workloads import Workload, workloads_of
from dray.allocation.explanation.alike import Alike, AlikeRefusals
from dray.allocation.explanation.explain import explain_workload
from dray.allocation.explanation.refusal import Explainer, Refusal, holders_of
from dray.allocation.explanation.sight import Sight
from dray.allocation.faults import AllocationError, NodeAllocationError
from dray.allocation.features import Features, Tier
from dray.allocation.profiles import CORRECT, KUBERNETES_1_36, KUBERNETES_1_37
from dray.allocation.selector import CompiledSelectors
from dray.api.core.node import Node
from dray.api.meta import ObjectMeta
from tests.allocation.dumps import claims, held_claims, holding, node, situation, slices
from tests.allocation.generate import generate_case
from tests.allocation.random_cases import random_case
from tests.allocation.world import Json, case, claim, device, piece, request
from tests.campaign import seeds

MODEL = 'device.attributes["driver-a"].model'
SERIALS = count()
PROFILES = (KUBERNETES_1_36, CORRECT, KUBERNETES_1_37)


def alike_of(one: Situation) -> Alike:
    pending = workloads_of(one.cluster)[0].pending
    return Alike(one.allocator, Sight(pending, (one,)), holders_of(one.cluster.claims))


def keys(one: Situation) -> list[int]:
    """A number for each node; nodes with the same number are alike."""
    alike = alike_of(one)
    found = [alike.of(each).key for each in one.cluster.nodes]
    return [found.index(key) for key in found]


def gpu(name: str, **attributes: Json) -> Json:
    serial = {"string": f"GPU-{next(SERIALS)}"}
    return device(name, attributes={"model": {"string": "A"}, "serial": serial, **attributes})


def gpus(node: str, *made: Json, **fields: Any) -> Json:
    return piece(*made, name=f"{node}-slice", pool=node, nodeName=node, **fields)


def taken(node: str, *names: str) -> Json:
    made = holding(f"of-{node}-{'-'.join(names)}", *names)
    for result in made["status"]["allocation"]["devices"]["results"]:
        result["pool"] = node
    return made


def test_serial_numbers_names_and_generations_do_not_matter() -> None:
    one = situation(
        slices(gpus("n-1", gpu("a"), gpu("b"), generation=7), gpus("n-2", gpu("c"), gpu("d"))),
        claims(claim(request(1, f'{MODEL} == "B"'))),
    )
    assert keys(one) == [0, 0]


def test_what_a_selector_or_a_constraint_reads_does() -> None:
    other = {"numa": {"int": 1}}
    made = slices(gpus("n-1", gpu("a")), gpus("n-2", gpu("a", **other)))
    assert keys(situation(made, claims(claim(request(1, f'{MODEL} == "B"'))))) == [0, 0]
    reads = 'device.attributes["driver-a"].numa == 1'
    assert keys(situation(made, claims(claim(request(1, reads))))) == [0, 1]
    reads_all = '"numa" in device.attributes["driver-a"]'
    assert keys(situation(made, claims(claim(request(1, reads_all))))) == [0, 1]
    constraint = {"matchAttribute": "driver-a/numa", "requests": []}
    assert keys(situation(made, claims(claim(request(2), constraints=[constraint])))) == [0, 1]


def test_which_of_equal_devices_are_taken_does_not_matter_but_how_many() -> None:
    one = situation(
        slices(*(gpus(f"n-{number}", gpu("a"), gpu("b"), gpu("c")) for number in range(4))),
        claims(claim(request(3)), taken("n-0", "a"), taken("n-1", "c"), taken("n-2", "a", "b")),
    )
    assert keys(one) == [0, 0, 2, 3]
    told = explain_workload(one, workloads_of(one.cluster)[0], one.cluster.nodes)
    first = told.reasons.groups[0]
    assert (first.nodes, [str(each.device) for each in first.refusal.requests[0].held_by]) == (
        ("n-0", "n-1"),
        ["driver-a/n-0/a", "driver-a/n-1/c"],
    )
    assert told.verdict.fits_on == ("n-3",)


def test_a_pool_that_is_not_whole_is_told_for_its_node_alone() -> None:
    one = situation(
        slices(gpus("n-1", gpu("a"), of=2), gpus("n-2", gpu("a"), of=2)), claims(claim(request(1)))
    )
    assert keys(one) == [0, 1]
    told = explain_workload(one, workloads_of(one.cluster)[0], one.cluster.nodes)
    assert {pool for group in told.reasons.groups for pool in group.refusal.unusable_pools or {}} == {
        "driver-a/n-1",
        "driver-a/n-2",
    }


def test_slices_for_some_nodes_tell_these_apart() -> None:
    selector = {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    }
    one = situation(
        node("n-1", zone="a"),
        node("n-2", zone="b"),
        node("n-3", zone="a"),
        slices(piece(gpu("a"), name="s", pool="net", nodeSelector=selector)),
        claims(claim(request(2))),
    )
    assert keys(one) == [0, 1, 0]


def test_every_node_is_told_what_it_would_be_told_alone() -> None:
    """Random fleets of nodes that are copies of one, more or less."""
    shared = refusals = 0
    for seed in seeds(150, 6_000):
        case = _fleet(seed)
        cluster = Cluster(_nodes(case), case.slices, (*held_claims(case), *case.claims), case.classes)
        one = Situation.of(cluster, PROFILES[seed % 3], Features.named(case.features))
        holders = holders_of(cluster.claims)
        alike = Alike(one.allocator, Sight(case.claims, (one,)), holders)
        explainer = Explainer(one.allocator, holders)
        told = AlikeRefusals(explainer, holders, alike)
        for each in cluster.nodes:
            alone: Refusal = explainer.explain(each, case.claims)
            assert told.of(each, case.claims) == alone, seed
            refusals += 1
        shared += len(cluster.nodes) - len({alike.of(each).key for each in cluster.nodes})
        workload = Workload("claim", "all", case.claims)
        other = Situation.of(cluster, PROFILES[(seed + 1) % 3], Features.named(case.features))
        found = explain_workload(one, workload, cluster.nodes, other)
        verdicts = found.verdict, found.difference.verdict if found.difference else found.verdict
        for verdict, each_of in zip(verdicts, (one, other), strict=True):
            alone_there = _alone(each_of.allocator, case, cluster.nodes)
            assert (verdict.fits_on, bool(verdict.error)) == alone_there, seed
    assert shared > refusals // 5


def _alone(allocator: Allocator, case: Case, nodes: tuple[Node, ...]) -> tuple[tuple[str, ...], bool]:
    fits = []
    for each in nodes:
        try:
            if allocator.allocate(each, case.claims) is not None:
                fits.append(each.metadata.name)
        except NodeAllocationError:
            continue
        except AllocationError:
            return (), True
    return tuple(fits), False


def _nodes(case: Case) -> tuple[Node, ...]:
    labels = case.node.metadata.labels
    east = {name: "b" if name == "zone" else "east" for name in labels}
    return tuple(
        Node(metadata=ObjectMeta(name=f"node-{number}", labels=east if number == 4 else labels))
        for number in range(1, 6)
    )


def _fleet(seed: int) -> Case:
    """What node-1 has alone in a case, five times, with other names and serial numbers; what is taken lies elsewhere."""
    random = Random(seed)
    tier = ("stable", "incubating", "experimental")[seed % 3]
    case: Json = generate_case(seed, tier=tier) if seed % 2 else random_case(seed)
    is_plain = random.random() < 0.7
    for one in case["slices"]:
        if is_plain and one["spec"].get("nodeName") != "node-1":
            for key in ("nodeSelector", "allNodes", "perDeviceNodeSelection"):
                one["spec"].pop(key, None)
            one["spec"]["nodeName"] = "node-1"
    own = [one for one in case["slices"] if one["spec"].get("nodeName") == "node-1"]
    pools = {(one["spec"]["driver"], one["spec"]["pool"]["name"]) for one in own}
    for number in range(2, 6):
        case["slices"] += [_copied(one, number, random) for one in own]
        _take(case, pools, number, random)
    return read_case(case)


def _copied(one: Json, number: int, random: Random) -> Json:
    made = deepcopy(one)
    made["metadata"]["name"] += f"-{number}"
    made["spec"]["nodeName"] = f"node-{number}"
    made["spec"]["pool"]["name"] += f"-{number}"
    made["spec"]["pool"]["generation"] += random.choice((0, 0, number))
    for each in made["spec"].get("devices") or ():
        each.setdefault("attributes", {})["serial"] = {"string": f"{number}-{each['name']}"}
        if random.random() < 0.03:
            each["taints"] = [{"key": "k", "effect": "NoSchedule"}]
    return made


def _take(case: Json, pools: set[tuple[str, str]], number: int, random: Random) -> None:
    """As much as on node-1, sometimes of other devices."""
    names: dict[str, list[str]] = {}
    for one in case["slices"]:
        if one["spec"].get("nodeName") == "node-1":
            pool = f"{one['spec']['driver']}/{one['spec']['pool']['name']}"
            names.setdefault(pool, []).extend(each["name"] for each in one["spec"].get("devices") or ())
    moves: dict[str, dict[str, str]] = {}
    for pool, known in names.items():
        order = random.sample(known, len(known)) if random.random() < 0.5 else known
        moves[pool] = dict(zip(known, order, strict=True))

    def moved(text: str, share: str = "") -> str | None:
        driver, pool, name = text.split("/", 2)
        if (driver, pool) not in pools:
            return None
        name = moves[f"{driver}/{pool}"].get(name, name)
        return f"{driver}/{pool}-{number}/{name}{share}"

    for text in list(case.get("allocatedDevices") or ()):
        if found := moved(text):
            case["allocatedDevices"].append(found)
    for text in list(case.get("allocatedSharedDeviceIDs") or ()):
        base, _, share = text.rpartition("/")
        if found := moved(base, f"/{share}"):
            case["allocatedSharedDeviceIDs"].append(found)
    for text, amounts in list((case.get("allocatedCapacity") or {}).items()):
        if found := moved(text):
            case["allocatedCapacity"][found] = amounts


def test_what_is_known_serves_allocators_that_see_the_same() -> None:
    """The stable tier takes a pool's slices in another order than the others do; devices in use count as well."""

    def made(tier: Tier, *in_use: str, name: str = "a") -> Allocator:
        given = case([piece(device(name))], claim(request()), tier=tier, allocatedDevices=list(in_use))
        return allocator_of(read_case(given), CompiledSelectors, CORRECT)

    def serves(one: Allocator, other: Allocator) -> bool:
        return Alike(one, Sight((), ()), {}).is_for(other)

    stable, incubating, experimental = map(made, Tier)
    for one in (stable, incubating, experimental):
        assert serves(one, made(one.tier))
        assert not serves(one, made(one.tier, "driver-a/pool-1/a"))
        assert not serves(one, made(one.tier, name="b"))
    assert serves(incubating, experimental) and serves(experimental, incubating)
    for one in (incubating, experimental):
        assert not serves(stable, one) and not serves(one, stable)
