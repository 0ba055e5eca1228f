from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.kinds import ALL_RESOURCES
from dray.apiserver.patching.entry import (
    APPLY_PATCH,
    JSON_PATCH,
    MAX_DEPTH,
    MAX_PATCH_BYTES,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    accepted_types,
    patched,
)
from dray.apiserver.patching.refusal import PatchError
from dray.errors import InvalidError
from tests.apiserver.patching.generate import Generator
from tests.campaign import seeds

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "labels": {"x": "1"}},
    "spec": {"containers": []},
}
TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH)


def refusal(kind: str, content_type: str, patch: bytes | str, current: Any = None) -> PatchError:
    raw = patch.encode() if isinstance(patch, str) else patch
    with pytest.raises(PatchError) as caught:
        patched(kind, content_type, POD if current is None else current, raw)
    return caught.value


@pytest.mark.parametrize("content_type", [JSON_PATCH, f"{MERGE_PATCH}; charset=utf-8", STRATEGIC_MERGE_PATCH])
def test_each_type_of_patch_has_its_reader(content_type: str) -> None:
    patch: Any = {"metadata": {"labels": {"x": "2"}}}
    if content_type == JSON_PATCH:
        patch = [{"op": "replace", "path": "/metadata/labels/x", "value": "2"}]
    before = deepcopy(POD)
    result = patched("v1/Pod", content_type, POD, json.dumps(patch).encode())
    assert result["metadata"] == {"name": "a", "labels": {"x": "2"}}
    assert before == POD


@pytest.mark.parametrize("resource", ALL_RESOURCES, ids=str)
def test_every_kind_of_ours_takes_a_strategic_merge_patch(resource: Any) -> None:
    kind = f"{resource.api_version}/{resource.kind}"
    current = {"metadata": {"finalizers": ["a/a"], "ownerReferences": [{"uid": "1", "name": "a"}]}}
    patch = b'{"metadata": {"finalizers": ["b/b"], "ownerReferences": [{"uid": "1", "name": "b"}]}}'
    merged = patched(kind, STRATEGIC_MERGE_PATCH, current, patch)["metadata"]
    assert merged == {"finalizers": ["b/b", "a/a"], "ownerReferences": [{"uid": "1", "name": "b"}]}
    assert STRATEGIC_MERGE_PATCH in accepted_types(kind)


def test_a_custom_resource_refuses_a_strategic_merge_patch_with_415() -> None:
    error = refusal("kubevirt.io/v1/KubeVirt", STRATEGIC_MERGE_PATCH, "{}")
    assert (error.status, error.reason) == (415, "UnsupportedMediaType")
    assert str(error).endswith(f"include: {JSON_PATCH}, {MERGE_PATCH}, {APPLY_PATCH}")
    assert patched("kubevirt.io/v1/KubeVirt", MERGE_PATCH, {"a": 1}, b'{"b": 2}') == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    "content_type", ["", "application/json", "text/plain", APPLY_PATCH, "APPLICATION/MERGE-PATCH+JSON"]
)
def test_another_content_type_is_refused_with_415(content_type: str) -> None:
    assert refusal("v1/Pod", content_type, "{}").status == 415


@pytest.mark.parametrize("content_type", TYPES)
@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1,", b"\xff", b'"\\ud800"', b"1e999", b"1" * 9999, b"7", b'"x"', b"true"]
)
def test_what_cannot_be_read_is_refused_with_400(content_type: str, body: bytes) -> None:
    assert refusal("v1/Pod", content_type, body).status == 400


def test_null_is_no_merge_patch_but_the_others_take_it_for_nothing() -> None:
    assert refusal("v1/Pod", MERGE_PATCH, "null").status == 400
    for content_type in (JSON_PATCH, STRATEGIC_MERGE_PATCH):
        result = patched("v1/Pod", content_type, POD, b"null")
        assert result == POD
        result["metadata"]["labels"]["y"] = "2"
        assert result != POD


@pytest.mark.parametrize("content_type", TYPES)
def test_a_patch_has_at_most_three_mebibytes(content_type: str) -> None:
    body = b"[]" if content_type == JSON_PATCH else b"{}"
    assert patched("v1/Pod", content_type, POD, body.ljust(MAX_PATCH_BYTES)) == POD
    assert refusal("v1/Pod", content_type, body.ljust(MAX_PATCH_BYTES + 1)).status == 413


@pytest.mark.parametrize("content_type", TYPES)
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 5_000, 500_000])
def test_a_patch_that_is_too_deep_is_refused(content_type: str, depth: int) -> None:
    assert "nested too deeply" in str(refusal("v1/Pod", content_type, b"[" * depth + b"]" * depth))
    assert "nested too deeply" in str(refusal("v1/Pod", content_type, b'{"a":' * depth + b"1" + b"}" * depth))


def test_an_object_may_be_as_deep_as_the_limit_and_no_deeper() -> None:
    deep = b'{"a":' * (MAX_DEPTH - 1) + b"{}" + b"}" * (MAX_DEPTH - 1)
    result = patched("example.com/v1/X", MERGE_PATCH, {}, deep)
    assert patched("example.com/v1/X", MERGE_PATCH, result, b"{}") == result
    path = "/a" * MAX_DEPTH
    deeper = [{"op": "add", "path": path, "value": {}}]
    assert "nested too deeply" in str(refusal("example.com/v1/X", JSON_PATCH, json.dumps(deeper), result))
    assert "object is nested too deeply" in str(refusal("example.com/v1/X", MERGE_PATCH, "{}", {"a": result}))


def test_steps_that_nest_an_object_in_itself_end_in_a_refusal() -> None:
    steps, path = [], "/a"
    for _ in range(14):
        steps.append({"op": "copy", "from": "/a", "path": f"{path}/a"})
        path += path
    assert "nested too deeply" in str(refusal("v1/Pod", JSON_PATCH, json.dumps(steps), {"a": {}}))


def test_a_patched_object_stays_an_object() -> None:
    error = refusal("v1/Pod", JSON_PATCH, '[{"op": "replace", "path": "", "value": []}]')
    assert (error.status, "an object is needed" in str(error)) == (422, True)


def test_null_fields_of_a_known_kind_are_absent_fields() -> None:
    patch = b'[{"op": "add", "path": "/metadata/labels", "value": null}, {"op": "add", "path": "/extra", "value": {"a": null}}]'
    result = patched("v1/Pod", JSON_PATCH, POD, patch)
    assert result == {**POD, "metadata": {"name": "a"}, "extra": {"a": None}}
    assert patched("example.com/v1/X", JSON_PATCH, {}, b'[{"op": "add", "path": "/a"}]') == {"a": None}


def test_directives_do_not_stay_in_an_object() -> None:
    patch = b"""{"spec": {"securityContext": {"$retainKeys": ["runAsUser"], "runAsUser": 1},
        "containers": [{"name": "a", "$setElementOrder/env": [], "image": null, "args": ["$patch"]}]}}"""
    result = patched("v1/Pod", STRATEGIC_MERGE_PATCH, POD, patch)
    assert result["spec"] == {
        "securityContext": {"runAsUser": 1},
        "containers": [{"name": "a", "args": ["$patch"]}],
    }


def test_opaque_values_keep_what_looks_like_a_directive() -> None:
    opaque = {"driver": "d", "parameters": {"$patch": "x", "a": None}}
    patch = {"spec": {"devices": {"config": [{"opaque": opaque, "requests": None}]}}}
    kind = "resource.k8s.io/v1/ResourceClaim"
    result = patched(
        kind, STRATEGIC_MERGE_PATCH, {"spec": {"devices": {"config": []}}}, json.dumps(patch).encode()
    )
    assert result["spec"]["devices"]["config"] == [{"opaque": opaque}]


def test_a_large_list_is_merged_in_good_time() -> None:
    """Kubernetes' library compares each item with each; twenty thousand would take minutes here."""
    names = [f"c{number}" for number in range(20_000)]
    current = {"spec": {"containers": [{"name": name, "image": "a"} for name in names]}}
    order = [{"name": name} for name in reversed(names)]
    change = {
        "$setElementOrder/containers": order,
        "containers": [{"name": name, "image": "b"} for name in reversed(names)],
    }
    merged = patched("v1/Pod", STRATEGIC_MERGE_PATCH, current, json.dumps({"spec": change}).encode())
    assert [one["name"] for one in merged["spec"]["containers"]] == names[::-1]
    assert {one["image"] for one in merged["spec"]["containers"]} == {"b"}


NAMES = [
    "metadata",
    "spec",
    "status",
    "finalizers",
    "containers",
    "name",
    "labels",
    "a",
    "env",
    "conditions",
    "type",
]
KEYS = [
    *NAMES,
    *(
        "$patch",
        "$retainKeys",
        "$setElementOrder/finalizers",
        "$setElementOrder/containers",
        "$setElementOrder",
    ),
    *(
        "$deleteFromPrimitiveList/finalizers",
        "$deleteFromPrimitiveList/",
        "$deleteFromPrimitiveList/containers",
    ),
]
LEAVES = st.sampled_from(
    [None, True, 1, 1.0, "a", "name", "delete", "replace", "merge", "/a", "/a/-", "add", "copy"]
)


def trees(keys: list[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        LEAVES,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(keys), inner, max_size=4)
        ),
        max_leaves=25,
    )


@given(
    st.sampled_from(TYPES),
    st.dictionaries(st.sampled_from(NAMES), trees(NAMES), max_size=4),
    st.one_of(
        trees(KEYS).map(lambda tree: json.dumps(tree).encode()),
        st.lists(st.dictionaries(st.sampled_from(["op", "path", "from", "value"]), LEAVES), max_size=3).map(
            lambda steps: json.dumps(steps).encode()
        ),
        st.binary(max_size=20),
    ),
)
def test_whatever_is_sent_is_applied_or_refused_and_changes_nothing_given(
    kind: str, current: Any, patch: bytes
) -> None:
    before = json.dumps(current)
    try:
        assert isinstance(patched("v1/Pod", kind, current, patch), dict)
    except InvalidError as error:
        assert str(error)
    assert json.dumps(current) == before


@pytest.mark.parametrize("content_type", TYPES)
def test_random_patches_give_objects_that_share_nothing_with_the_current_one(content_type: str) -> None:
    def containers(value: Any) -> list[int]:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
        return [] if inner is None else [id(value), *(one for part in inner for one in containers(part))]

    applied = 0
    for seed in seeds(100, 5_000):
        kind, current, patch = Generator(seed).case(content_type)
        try:
            result = patched(kind, content_type, current, patch.encode())
        except InvalidError:
            continue
        applied += 1
        assert not {*containers(result)} & {*containers(current)}
    assert applied > 30
