"""Somebody with the token of one node's agent, at a real API server: the policies of the manifests, evaluated by our own CEL.

What a real server makes of them is tried in `tests/e2e/test_claims_policy.py` and `test_agent_cluster.py`.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Final

import pytest

from dray.api.codec import load_documents
from dray.cel import types as t
from dray.cel.environment import Environment
from dray.cel.library import kubernetes
from dray.cel.program import compile_expression

Json = dict[str, Any]
AGENT: Final = "system:serviceaccount:dray-system:dray-agent"
NODE_NAME: Final = "authentication.kubernetes.io/node-name"


def policy(name: str) -> Json:
    text = Path("deploy/manifests/agent.yaml").read_text()
    (found,) = [
        dict(one.raw)
        for one in load_documents(text, "agent.yaml")
        if one.raw["kind"] == "ValidatingAdmissionPolicy" and one.raw["metadata"]["name"] == name
    ]
    spec: Json = found["spec"]
    return spec


class Asked:
    """One write, as a server asks a policy about it."""

    def __init__(self, old: Json | None, new: Json | None, node: str = "n1", user: str = AGENT) -> None:
        operation = "CREATE" if old is None else "UPDATE" if new is not None else "DELETE"
        extra = {NODE_NAME: [node]} if node else {}
        info = {"username": user, "extra": extra}
        self.values: Json = {
            "request": {"operation": operation, "userInfo": info},
            "object": new,
            "oldObject": old,
        }

    def evaluate(self, expression: str) -> Any:
        environment = Environment(
            dict.fromkeys((*self.values, "variables"), t.DYN), tuple(kubernetes.LIBRARIES)
        )
        program = compile_expression(expression, environment)
        return program.evaluate_exactly({"variables": {}, **self.values})

    def why_not(self, name: str) -> str:
        """What the policy says against it; nothing where it lets it through or is not asked."""
        spec = policy(name)
        if not all(self.evaluate(one["expression"]) for one in spec["matchConditions"]):
            return ""
        variables: Json = {}
        for one in spec["variables"]:
            self.values["variables"] = variables
            variables[one["name"]] = self.evaluate(one["expression"])
        self.values["variables"] = variables
        for one in spec["validations"]:
            if self.evaluate(one["expression"]) is not True:
                told = one.get("message") or self.evaluate(one["messageExpression"])
                return str(told)
        return ""


def device(driver: str = "pci.dray.internal", pool: str = "n1", **more: Any) -> Json:
    return {"driver": driver, "pool": pool, "device": "d", **more}


def claim(*devices: Json, **more: Any) -> Json:
    status: Json = {
        "allocation": {
            "devices": {"results": [{"driver": "pci.dray.internal", "pool": "n1", "device": "d"}]}
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
        **more,
    }
    if devices:
        status["devices"] = [*devices]
    return {"metadata": {"name": "c", "namespace": "ns"}, "spec": {}, "status": status}


OWN_CLAIMS: Final = "dray-agent-own-claims"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (claim(), claim(device())),
        (claim(device()), claim()),
        (claim(device(data={"a": 1})), claim(device(data={"a": 2}))),
        (
            claim(device("other.example"), device()),
            claim(device("other.example"), device(conditions=[{"type": "Ready"}])),
        ),
        (claim(device(pool="n2")), claim(device(pool="n2"), device("gpu.nvidia.com"))),
    ],
)
def test_an_agent_reports_on_its_own_devices(old: Json, new: Json) -> None:
    assert Asked(old, new).why_not(OWN_CLAIMS) == ""


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (claim(), claim(device(pool="n2")), "its own drivers and node only"),
        (claim(device(pool="n2")), claim(), "its own drivers and node only"),
        (claim(device(pool="n2")), claim(device(pool="n2", data={"a": 1})), "its own drivers and node only"),
        (claim(), claim(device("other.example")), "its own drivers and node only"),
        (claim(device("other.example")), claim(device()), "its own drivers and node only"),
        (claim(), claim(allocation={"devices": {"results": []}}), "status.allocation"),
        (claim(), {**claim(), "status": {}}, "status.allocation"),
        ({**claim(), "status": {}}, claim(), "status.allocation"),
        (claim(), claim(reservedFor=[]), "status.reservedFor"),
    ],
)
def test_an_agent_cannot_rewrite_a_claim(old: Json, new: Json, why: str) -> None:
    assert why in Asked(old, new).why_not(OWN_CLAIMS)
    # The policy is about the agent alone: schedulers write allocations.
    assert Asked(old, new, user="system:kube-scheduler").why_not(OWN_CLAIMS) == ""


@pytest.mark.parametrize("field", ["labels", "annotations", "finalizers", "ownerReferences"])
def test_an_agent_cannot_mark_a_claim(field: str) -> None:
    marked = copy.deepcopy(claim())
    marked["metadata"][field] = {"a": "b"} if field in ("labels", "annotations") else ["a"]
    assert "metadata of a claim" in Asked(claim(), marked).why_not(OWN_CLAIMS)
    assert "metadata of a claim" in Asked(marked, claim()).why_not(OWN_CLAIMS)


def test_a_token_that_names_no_node_is_good_for_nothing() -> None:
    assert (
        Asked(claim(), claim(device()), node="").why_not(OWN_CLAIMS) == "the token of the agent names no node"
    )
    assert "n2" in Asked(claim(), claim(device()), node="n2").why_not(OWN_CLAIMS)


def test_an_agent_cannot_offer_devices_of_other_nodes() -> None:
    own, other = ({"spec": {"nodeName": node, "pool": {"name": node}}} for node in ("n1", "n2"))
    name = "dray-agent-own-slices"
    pairs: tuple[tuple[Json | None, Json | None], ...] = ((None, own), (own, own), (own, None))
    for old, new in pairs:
        assert Asked(old, new).why_not(name) == ""
    pairs = ((None, other), (own, other), (other, own), (other, None), (None, {"spec": {}}))
    for old, new in pairs:
        assert "may not write slices" in Asked(old, new).why_not(name)
    assert "may not write slices" in Asked(None, own, node="").why_not(name)
    # A newer generation in another node's pool would take that node's devices away.
    hijack = {"spec": {"nodeName": "n1", "pool": {"name": "n2", "generation": 2**40}}}
    for before in (None, own):
        assert "may not write to pool n2" in Asked(before, hijack).why_not(name)
    assert Asked(hijack, None).why_not(name) == ""
