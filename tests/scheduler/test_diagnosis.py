"""The one line about a pod that got no node."""

from __future__ import annotations

from dray.scheduler.diagnosis import Diagnosis
from dray.scheduler.fit.rejection import Rejection

LACKS = Rejection(check="NodeResourcesFit", reasons=("Too many pods", "Insufficient cpu"), can_resolve=True)
TAINT = Rejection(check="TaintToleration", reasons=("node(s) had untolerated taint(s)",))


def test_reasons_are_counted_over_nodes() -> None:
    found = Diagnosis(3, {"a": LACKS, "b": LACKS, "c": TAINT})
    assert str(found) == (
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu, 2 Too many pods."
    )
    assert found.rejectors == {"NodeResourcesFit", "TaintToleration"}


def test_nodes_that_were_not_asked() -> None:
    found = Diagnosis(5, {"a": TAINT})
    assert str(found) == (
        "0/5 nodes are available: 1 node(s) had untolerated taint(s), 4 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )
    assert found.rejectors == {"NodeAffinity", "TaintToleration"}


def test_a_pod_that_is_barred_everywhere() -> None:
    found = Diagnosis(2, barred=TAINT)
    assert str(found) == "0/2 nodes are available: node(s) had untolerated taint(s)."
    assert found.rejectors == {"TaintToleration"}


def test_a_cluster_without_nodes() -> None:
    assert (
        str(Diagnosis(0)) == "no nodes available to schedule pods" and Diagnosis(0).rejectors == frozenset()
    )
