"""Random pods and nodes: our checks, scores and hints and those of kube-scheduler 1.36 say the same."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from dray.api.codec import decode
from dray.api.core import Node, Pod
from dray.errors import InvalidError
from dray.scheduler.fit.filters import Fit, FitOptions
from dray.scheduler.fit.rejection import INTER_POD_AFFINITY, POD_TOPOLOGY_SPREAD, Rejection
from dray.scheduler.nodes import Nodes
from dray.scheduler.queue.happenings import Happening, node_happening, pod_happening
from dray.scheduler.queue.hints import fit_hints, helped
from dray.scheduler.scoring import Wish, scores
from tests.campaign import campaign
from tests.oracle_fit.cases import change, placement
from tests.oracle_fit.program import FitOracle

CASES = campaign(500, 20_000)
GATE = "TaintTolerationComparisonOperators"

Json = dict[str, Any]


def _pod(raw: Json) -> Pod:
    return decode(json.dumps(raw), Pod)


def _node(raw: Json) -> Node:
    return decode(json.dumps(raw), Node)


def _nodes(case: Json) -> Nodes:
    nodes = Nodes()
    for place in case["nodes"]:
        nodes.put_node(_node(place["node"]))
        for pod in place["pods"]:
            nodes.put_pod(_pod(pod))
    return nodes


def _told(rejection: Rejection) -> Json:
    code = "Unschedulable" if rejection.can_resolve else "UnschedulableAndUnresolvable"
    return {"code": code, "reasons": sorted(rejection.reasons)}


def _fits(case: Json, *, compare_numbers: bool) -> Json:
    nodes, pod = _nodes(case), _pod(case["pod"])
    labels = {one["metadata"]["name"]: one["metadata"]["labels"] for one in case["namespaces"]}
    fit = Fit.of(pod, nodes, FitOptions(compare_numbers=compare_numbers, namespaces=labels))
    infos = [nodes.get(place["node"]["metadata"]["name"]) for place in case["nodes"]]
    barred = fit.barred()
    only = fit.required.only
    found: Json = {
        "preFilter": {barred.check: _told(barred)} if barred else {},
        "only": {"NodeAffinity": sorted(only)} if only else {},
        "filter": [{one.check: _told(one) for one in fit.refusals(info)} for info in infos if info],
    }
    try:
        wish = Wish.of(pod, compare_numbers=compare_numbers)
    except InvalidError:
        return found
    parts = scores(wish, [info for info in infos if info])
    return found | {"scores": {check: part for check, part in parts.items() if any(part)}}


def _expected(answer: Json, *, is_scored: bool) -> Json:
    assert not answer["panic"], answer["panic"]
    for verdict in (
        *answer["preFilter"].values(),
        *(one for node in answer["filter"] for one in node.values()),
    ):
        verdict["reasons"] = sorted(verdict["reasons"])
    for node in answer["filter"] if answer["preFilter"] else ():
        node["NodeAffinity"] = {
            "code": "UnschedulableAndUnresolvable",
            "reasons": ["node(s) didn't match Pod's node affinity/selector"],
        }
    found: Json = {key: answer[key] for key in ("preFilter", "filter")}
    found["only"] = {check: sorted(names) for check, names in answer["only"].items()}
    if is_scored:
        found["scores"] = {check: part for check, part in answer["scores"].items() if any(part)}
    return found


@pytest.mark.parametrize("compare_numbers", [False, True])
def test_verdicts_reasons_and_scores_agree(compare_numbers: bool) -> None:
    """On each node every check: refused or not, for good or not, in which words; and the scores that nodes get."""
    reasons, scored = Counter[str](), 0
    first = 2_000_000 if compare_numbers else 1_000_000
    with FitOracle(f"{GATE}={str(compare_numbers).lower()}") as oracle:
        for seed in range(first, first + CASES // 2):
            case = placement(seed)
            ours = _fits(case, compare_numbers=compare_numbers)
            expected = _expected(oracle.ask(case), is_scored="scores" in ours)
            assert ours == expected, f"seed {seed}: {json.dumps(case)}"
            verdicts = [one for node in expected["filter"] for one in node.values()]
            reasons.update(reason for one in verdicts for reason in one["reasons"])
            reasons.update(["fits"] * expected["filter"].count({}))
            scored += "scores" in ours
    print(reasons)
    assert len(reasons) >= 12 and reasons["fits"] > CASES / 25
    assert scored > CASES / 3


def _happening(case: Json) -> Happening | None:
    old, new = case["old"] or {}, case["new"] or {}
    if "node" in old or "node" in new:
        return node_happening(*(_node(one["node"]) if one else None for one in (old, new)))
    return pod_happening(*(_pod(one["pod"]) if one else None for one in (old, new)))


def test_hints_agree() -> None:
    """Which checks a change of a node or of a pod gives a reason to look at a pod again."""
    hints, woken, seen = fit_hints(), Counter[str](), 0
    with FitOracle() as oracle:
        for seed in range(3_000_000, 3_000_000 + CASES):
            case = change(seed)
            answer = oracle.ask(case)
            assert not answer["panic"], answer["panic"]
            happening = _happening(case)
            ours = set(helped(hints, hints, _pod(case["pod"]), happening)) if happening else set()
            theirs = {check for check, wakes in answer["wakes"].items() if wakes}
            # There ours may wake a pod that theirs leaves to wait.
            theirs |= ours & {INTER_POD_AFFINITY, POD_TOPOLOGY_SPREAD}
            assert ours == theirs, f"seed {seed}, events {answer['events']}: {json.dumps(case)}"
            woken.update(theirs)
            seen += bool(answer["events"])
    print(woken)
    assert set(woken) == set(hints)
    assert seen > CASES / 2
