"""Random patches of random objects: what we make of them against what the API server's own libraries make of them.

The differences that stay are `_is_reordered`, `_is_own_null` and the cases of the last test.
"""

from __future__ import annotations

import json
from collections import Counter
from copy import deepcopy
from typing import Any

import pytest

from dray.apiserver.patching.documents import is_same
from dray.apiserver.patching.entry import MAX_DEPTH, patched
from dray.apiserver.patching.json_patch import json_patched, read_operations
from dray.apiserver.patching.merge_patch import merge_patched
from dray.apiserver.patching.refusal import PatchError
from dray.apiserver.patching.shapes import shape_of
from dray.apiserver.patching.strategic import strategic_patched
from tests.apiserver.patching.generate import JSON_PATCH, MERGE_PATCH, STRATEGIC, Document, Generator
from tests.apiserver.patching.strategic_cases import APPLIED, REFUSED
from tests.campaign import seeds
from tests.oracle_patch.program import TABLE, PatchOracle, generated_table

FIRST_SEED = 6_000_000


def test_the_table_is_what_the_go_types_say() -> None:
    assert TABLE.read_text() == generated_table(), "run python -m tests.oracle_patch.program"


@pytest.mark.parametrize("patch_type", [JSON_PATCH, MERGE_PATCH, STRATEGIC])
def test_patches_agree_with_the_libraries_of_the_api_server(patch_type: str) -> None:
    outcomes, wrong = Counter[str](), []
    with PatchOracle() as oracle:
        for seed in seeds(500, 20_000, first=FIRST_SEED):
            kind, current, patch = Generator(seed).case(patch_type)
            cause = _compare(oracle, patch_type, kind, current, patch)
            outcomes[cause.partition(":")[0]] += 1
            if cause.startswith("wrong"):
                wrong.append(f"seed {seed}: {cause}\n  {kind} {json.dumps(current)}\n  {patch}")
    print(dict(outcomes))
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:3])
    assert outcomes["same"] > 100
    assert outcomes["both refuse"] > (20 if patch_type != MERGE_PATCH else 0)


def _compare(oracle: PatchOracle, patch_type: str, kind: str, current: Document, patch: str) -> str:
    case = {"ask": "patch", "kind": kind, "type": patch_type, "current": json.dumps(current), "patch": patch}
    theirs = oracle.ask(case)
    before = deepcopy(current)
    try:
        ours, status = _ours(patch_type, kind, current, json.loads(patch)), 200
    except PatchError as error:
        ours, status = str(error), error.status
    if not is_same(current, before):
        return "wrong: the current object was changed"
    if theirs["panic"]:
        return "it panics" if status != 200 or patch_type == JSON_PATCH else f"wrong: it panics, ours {ours}"
    if status != 200:
        return (
            "both refuse"
            if _is_refused_so(oracle, case, status)
            else f"wrong: {status} {ours}, theirs {theirs}"
        )
    if theirs["status"] == 200 and is_same(ours, theirs["result"]):
        return "same"
    if theirs["status"] == 200 and _is_reordered(ours, theirs["result"], current, json.loads(patch)):
        return "repeated finalizers in another order"
    if patch_type == JSON_PATCH and _is_own_null(theirs["error"], json.loads(patch)):
        return "a null of the patch's own"
    return f"wrong: ours {json.dumps(ours)}\n  theirs {json.dumps(theirs)}"


def _is_refused_so(oracle: PatchOracle, case: dict[str, Any], status: int) -> bool:
    """Of several faults in a patch Go finds any one first, as its maps have no order: asked often, it finds each.

    What the API server answers with 500, or by a panic, is a fault of the request as well.
    """
    answers = (oracle.ask(case)["status"] for _ in range(40))
    return any(status == (422 if answer == 500 else answer) for answer in answers)


def _is_reordered(ours: Document, theirs: Document, current: Document, patch: Document) -> bool:
    """Finalizers with repetitions, and nothing to add or some to remove first: Go then drops the repetitions inside the
    very list that it takes the order from afterwards.
    """
    old, change = current["metadata"].get("finalizers", ()), patch["metadata"]
    if change.get("finalizers") != [] and "$deleteFromPrimitiveList/finalizers" not in change:
        return False
    if len(set(old)) == len(old):
        return False
    for one in (ours, theirs):
        one["metadata"]["finalizers"].sort()
    return is_same(ours, theirs)


def _is_own_null(fault: str, steps: list[Document]) -> bool:
    """A test for null of what an earlier step made null: Go has three kinds of null by then, which are not equal."""
    writes = [
        number for number, step in enumerate(steps) if step.get("op") != "test" and step.get("value") is None
    ]
    return any(
        step.get("op") == "test"
        and step.get("value") is None
        and fault == f"testing value {step.get('path')} failed: test failed"
        for step in steps[min(writes, default=len(steps)) :]
    )


def _ours(patch_type: str, kind: str, current: Document, patch: Any) -> Any:
    if patch_type == JSON_PATCH:
        return json_patched(current, read_operations(patch))
    if not isinstance(patch, dict):
        raise PatchError("not an object", 400)
    if patch_type == MERGE_PATCH:
        return merge_patched(current, patch)
    shape = shape_of(kind)
    assert shape is not None
    return strategic_patched(current, patch, shape)


@pytest.mark.parametrize("name", [*APPLIED, *REFUSED])
def test_the_cases_of_the_unit_tests_agree(name: str) -> None:
    current, patch, _ = APPLIED.get(name) or REFUSED[name]
    with PatchOracle() as oracle:
        cause = _compare(oracle, STRATEGIC, "v1/Pod", current, json.dumps(patch))
    assert cause in (("same",) if name in APPLIED else ("both refuse", "it panics"))


KEPT: dict[str, tuple[str, str, str, int, int]] = {
    "numbers are compared by value, not by how they are written": (
        JSON_PATCH,
        '{"a": 10.0}',
        '[{"op": "test", "path": "/a", "value": 1e1}]',
        422,
        200,
    ),
    "strings are compared by value, not by how they are escaped": (
        JSON_PATCH,
        '{"a": "x"}',
        '[{"op": "test", "path": "/a", "value": "\\u0078"}]',
        422,
        200,
    ),
    "a list with null in it can be compared": (
        JSON_PATCH,
        '{"a": [null]}',
        '[{"op": "test", "path": "/a", "value": [null]}]',
        500,
        200,
    ),
    "a null that was copied is still null": (
        JSON_PATCH,
        '{"b": 1}',
        json.dumps(
            [
                {"op": "add", "path": "/a", "value": None},
                {"op": "copy", "from": "/a", "path": "/b"},
                {"op": "test", "path": "/b", "value": None},
            ]
        ),
        422,
        200,
    ),
    "a null that was added is null for a test without a value": (
        JSON_PATCH,
        "{}",
        '[{"op": "add", "path": "/a", "value": null}, {"op": "test", "path": "/a"}]',
        422,
        200,
    ),
    "a root that is replaced by nothing is a fault of the request": (
        JSON_PATCH,
        "{}",
        '[{"op": "replace", "path": ""}]',
        500,
        422,
    ),
    "half a character is refused, not replaced": (
        MERGE_PATCH,
        "{}",
        '{"a": "\\ud800"}',
        200,
        400,
    ),
    "nesting ends long before the stack does": (
        MERGE_PATCH,
        "{}",
        '{"a": ' * (MAX_DEPTH + 1) + "{}" + "}" * (MAX_DEPTH + 1),
        200,
        400,
    ),
}
"""Type, object and patch; what the API server answers, and what we do."""


@pytest.mark.parametrize("name", KEPT)
def test_the_api_server_still_differs_where_we_differ_on_purpose(name: str) -> None:
    patch_type, current, patch, theirs, ours = KEPT[name]
    with PatchOracle() as oracle:
        case = {"ask": "patch", "kind": "v1/Pod", "type": patch_type, "current": current, "patch": patch}
        assert oracle.ask(case)["status"] == theirs
    try:
        patched("v1/Pod", patch_type, json.loads(current), patch.encode())
        status = 200
    except PatchError as error:
        status = error.status
    assert status == ours
