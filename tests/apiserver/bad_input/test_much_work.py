"""Requests as large as any may be, made to cost as much as they can: the work is bounded, by steps or by CPU time in a child."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dray.api.field_errors import MOST_FAULTS, FieldError, first_faults
from dray.api.field_errors import Path as FieldPath
from dray.api.meta import ObjectMeta, OwnerReference
from dray.api.validation.faults import by_rule, invalid
from dray.api.validation.metadata import MetadataRules, check_metadata
from tests.apiserver.http.asking import MAPS, MERGE, asking

RULES = MetadataRules(True, lambda name: [])
SECONDS = 20
"""Of CPU time. The faults that this is about took minutes, the work that is left takes one or two seconds."""


def test_no_more_faults_are_looked_for_than_anybody_is_told() -> None:
    looked: list[str] = []

    def rule(value: str) -> list[str]:
        looked.append(value)
        return ["is bad"]

    def check() -> list[FieldError]:
        return [one for number in range(200_000) for one in by_rule(rule, str(number), FieldPath("x"))]

    assert len(first_faults(check)) == len(looked) == MOST_FAULTS
    assert len(first_faults(lambda: [invalid(FieldPath("x"), 1, "no")])) == 1
    # Outside nothing is counted, and one check inside another has its own count.
    assert len([invalid(FieldPath("x"), 1, "no") for _ in range(MOST_FAULTS + 5)]) == MOST_FAULTS + 5


@pytest.mark.parametrize(
    "many",
    [
        {"labels": {f"?{number}": "" for number in range(200_000)}},
        {"annotations": {f"?{number}": "" for number in range(200_000)}},
        {"finalizers": tuple(f"?{number}" for number in range(200_000))},
        {"owner_references": (OwnerReference(),) * 200_000},
    ],
    ids=lambda many: next(iter(many)),
)
def test_of_200_000_bad_entries_the_first_are_told(many: dict[str, Any]) -> None:
    found = first_faults(lambda: check_metadata(ObjectMeta(name="a", namespace="b", **many), RULES))
    assert len(found) == MOST_FAULTS


def test_a_value_is_shown_up_to_a_length() -> None:
    owners = tuple(
        OwnerReference(api_version="v1", kind="Pod", name="p", uid=str(number), controller=True)
        for number in range(30_000)
    )
    meta = ObjectMeta(name="a", namespace="b", owner_references=owners)
    found = first_faults(lambda: check_metadata(meta, RULES))
    assert sum(len(str(one)) for one in found) < 2**20
    assert len(str(invalid(FieldPath("x"), "y" * 3_000_000, "is long"))) < 8_192


async def test_an_object_larger_than_etcd_keeps_is_refused_before_its_rules_are_asked(tmp_path: Path) -> None:
    async with asking(tmp_path) as server:
        await server.done("POST", MAPS, {"metadata": {"name": "c"}, "data": {"a": "x" * 800_000}})
        more = json.dumps({"data": {"b": "x" * 800_000}})
        code, found = await server.ask("PATCH", f"{MAPS}/c", more, MERGE)
        assert (code, found["reason"]) == (413, "RequestEntityTooLarge")
        assert "the limit is 1572864" in found["message"]


_OWNERS = """
from dray.api.kinds import CONFIG_MAPS
from dray.api.prepare import prepare_create
from datetime import datetime, UTC
owners = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": str(number)} for number in range(60_000)]
document = {"metadata": {"name": "c", "ownerReferences": owners + owners}}
prepare_create(CONFIG_MAPS, document, uid="u", now=datetime.now(UTC))
assert document["metadata"]["ownerReferences"] == owners
"""


def test_many_owners_are_merged_in_the_time_it_takes_to_read_them() -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))

    done = subprocess.run(
        [sys.executable, "-c", _OWNERS], preexec_fn=limit, capture_output=True, check=False, text=True
    )
    assert done.returncode == 0, done.stderr
