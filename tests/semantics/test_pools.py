"""Slices are written NAME:GENERATION/COUNT@NODE, of one pool; without a node they are for several."""

from __future__ import annotations

import pytest

from dray.api.meta import ObjectMeta
from dray.api.resource.slice import ResourcePool, ResourceSlice, ResourceSliceSpec
from dray.semantics.pools import (
    PoolID,
    by_pool,
    current,
    duplicate_name,
    is_complete,
    is_outdated,
    may_be_for,
    newest,
    newest_for,
    newest_generation,
)

LAST = 2**63 - 1


def slices_of(text: str, pool: str = "p", driver: str = "d") -> list[ResourceSlice]:
    found = []
    for word in text.split():
        head, _, node = word.partition("@")
        name, _, numbers = head.partition(":")
        generation, count = map(int, numbers.split("/"))
        place = ResourcePool(name=pool, generation=generation, resource_slice_count=count)
        spec = ResourceSliceSpec(driver=driver, pool=place, node_name=node or None)
        found.append(ResourceSlice(metadata=ObjectMeta(name=name), spec=spec))
    return found


def names(slices: list[ResourceSlice]) -> str:
    return " ".join(one.metadata.name for one in slices)


@pytest.mark.parametrize(
    ("text", "of_all", "of_n", "counting"),
    [
        pytest.param("", "", "", "", id="none"),
        pytest.param("a:3/2@n b:3/2@n", "a b", "a b", "a b", id="one generation"),
        pytest.param("b:1/1@n a:2/1@n", "a", "a", "a", id="replaced"),
        pytest.param("a:1/2@n c:2/2@n b:1/2@n", "c", "c", "c", id="replaced in part: the newer counts, though incomplete"),
        pytest.param("a:0/1", "a", "a", "a", id="generation 0"),
        # A node may write slices that name it into any pool.
        pytest.param(f"a:1/1@n x:{LAST}/1@m", "x", "a", "a x", id="another node's, newer"),
        pytest.param(f"a:1/2@n b:1/2@n x:{LAST}/9@m", "x", "a b", "a b x", id="another node's, newer, of two"),
        pytest.param("x:1/1@m a:2/1@n", "a", "a", "x a", id="another node's, older"),
        pytest.param(f"c:1/2 a:1/2@n x:{LAST}/1@m", "x", "c a", "c a x", id="another node's, beside counters"),
        # One driver for several nodes.
        pytest.param("a:1/2@n b:1/2@m", "a b", "a", "a b", id="of two nodes"),
        pytest.param("a:1/2@n b:2/2@m", "b", "a", "b", id="of two nodes, replaced: nothing new for one of them yet"),
        pytest.param("a:1/1@n b:2/1", "b", "b", "b", id="replaced by one for several nodes"),
        pytest.param("b:1/1 a:2/1@n", "a", "a", "b a", id="one for several nodes, and a newer one of a node"),
        pytest.param("b:1/2 c:1/2 a:2/1@n", "a", "a", "b c a", id="two for several nodes, and a newer one of a node"),
    ],
)  # fmt: skip
def test_which_slices_count(text: str, of_all: str, of_n: str, counting: str) -> None:
    slices = slices_of(text)
    assert names(newest(slices)) == of_all
    assert names(newest_for("n", slices)) == of_n
    assert names(current(slices)) == counting


def test_pools_are_told_apart_by_driver_and_name() -> None:
    slices = [*slices_of("a:1/1"), *slices_of("b:2/1", pool="q"), *slices_of("c:3/1", driver="e")]
    assert names(current(slices)) == "a b c"
    assert [(str(pool), names(each)) for pool, each in by_pool(slices).items()] == [
        ("d/p", "a"),
        ("d/q", "b"),
        ("e/p", "c"),
    ]
    assert PoolID("d", "p") in by_pool(slices)


@pytest.mark.parametrize(
    ("text", "is_whole", "expected"),
    [
        ("a:1/1@n", True, False),
        ("a:1/1@n x:2/1@m", True, False),
        ("a:1/2@n x:2/2@m", False, True),
        ("a:1/1@n x:2/1", True, True),
        ("a:1/1@n x:2/1@n", True, True),
        ("a:1/1@n x:0/1@n", False, False),
    ],
)
def test_what_outdates_generation_1_for_node_n(text: str, is_whole: bool, expected: bool) -> None:
    assert is_outdated(slices_of(text), 1, "n", is_whole=is_whole) == expected


@pytest.mark.parametrize(("node", "expected"), [(None, True), ("", True), ("n", True), ("m", False)])
def test_only_a_slice_that_names_another_node_is_surely_not_for_this_one(
    node: str | None, expected: bool
) -> None:
    one = ResourceSlice(spec=ResourceSliceSpec(node_name=node))
    assert may_be_for("n", one) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("a:1/1", True), ("a:1/2", False), ("a:1/2 b:1/2", True), ("a:1/1 b:1/1", False)]
)
def test_a_pool_is_complete_with_just_as_many_slices_as_they_say(text: str, expected: bool) -> None:
    slices = slices_of(text)
    assert is_complete(slices, slices[0].spec.pool) == expected


def test_generations() -> None:
    assert newest_generation([]) == 0
    assert newest_generation(slices_of("a:1/1 b:7/1 c:3/1")) == 7


@pytest.mark.parametrize(("found", "expected"), [("", None), ("a b", None), ("a b c b a", "b")])
def test_a_name_that_comes_twice(found: str, expected: str | None) -> None:
    assert duplicate_name(found.split()) == expected
