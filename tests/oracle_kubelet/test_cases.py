"""The committed cases, without Go: the generators still make them, and our managers answer as the kubelet's did."""

from __future__ import annotations

import json

import pytest

from tests.oracle_kubelet.compare import DEVICES, MERGE, Kind, outcomes
from tests.oracle_kubelet.corpus import SIZES, committed

KINDS = [MERGE, DEVICES]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.question)
def test_our_managers_answer_like_the_kubelet(kind: Kind) -> None:
    cases = committed(kind)
    assert len(cases) == SIZES[kind.question]
    for case in cases:
        expected = case.pop("answer")
        assert json.loads(json.dumps(kind.view(kind.ours(case)))) == expected, case["name"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.question)
def test_the_generators_still_make_them(kind: Kind) -> None:
    for case in committed(kind):
        del case["answer"]
        seed = int(case["name"].rpartition("-")[2])
        assert json.loads(json.dumps(kind.generate(seed))) == case


def test_many_kinds_of_outcomes_are_among_them() -> None:
    found = {
        kind.question: {one for case in committed(kind) for one in outcomes(case["answer"])} for kind in KINDS
    }
    assert len(found["merge"]) >= 8
    assert len(found["devices"]) >= 8
    assert all("admitted" in some for some in found.values())
