from __future__ import annotations

import random
from typing import Any

import pytest

from dray.apiserver.patching.apply.fields import (
    Path,
    PathSet,
    decode_fields,
    encode_fields,
    go_json,
    keyed,
    name_of,
    named,
    shown,
    valued,
)
from dray.errors import InvalidError

SPEC, X, Y = named("spec"), named("x"), named("y")
ELEMENTS = [
    SPEC,
    X,
    keyed({"name": "a"}),
    keyed({"name": "a", "port": 1}),
    valued("f"),
    valued(1),
    valued(True),
]


def random_set(seed: int) -> PathSet:
    chance = random.Random(seed)
    paths = [tuple(chance.choices(ELEMENTS, k=chance.randint(1, 4))) for _ in range(chance.randrange(8))]
    return PathSet.of(*paths)


def test_fields_v1_is_read_and_written_in_order() -> None:
    document: dict[str, Any] = {
        "f:metadata": {"f:finalizers": {".": {}, 'v:"dray.internal/held"': {}}},
        "f:spec": {
            "f:containers": {
                'k:{"name":"a"}': {".": {}, "f:image": {}, "f:name": {}},
                'k:{"name":"b"}': {"f:image": {}},
            },
            "f:x": {},
        },
    }
    paths = decode_fields(document)
    assert (SPEC, X) in paths
    assert (SPEC, named("containers"), keyed({"name": "a"})) in paths
    assert (SPEC, named("containers"), keyed({"name": "b"})) not in paths
    assert (SPEC,) not in paths
    assert () not in paths
    assert go_json(encode_fields(paths)) == go_json(document)
    assert list(encode_fields(paths)["f:spec"]["f:containers"]) == ['k:{"name":"a"}', 'k:{"name":"b"}']


def test_order_is_names_keys_values() -> None:
    paths = PathSet.of(*((element,) for element in reversed(ELEMENTS)))
    assert list(encode_fields(paths)) == [
        "f:spec",
        "f:x",
        'k:{"name":"a"}',
        'k:{"name":"a","port":1}',
        "v:1",
        'v:"f"',
        "v:true",
    ]


def test_keys_are_written_sorted_and_as_go_escapes_them() -> None:
    assert list(encode_fields(PathSet.of((keyed({"b": "<", "a": None}),)))) == ['k:{"a":null,"b":"\\u003c"}']


def test_what_a_later_kubernetes_writes_is_left_out() -> None:
    assert list(decode_fields({"z:new": {"f:x": {}}, "f:y": {"z:new": {}}})) == [(Y,)]


@pytest.mark.parametrize(
    "wrong", [{"spec": {}}, {"k:{": {}}, {"i:x": {}}, {"f:x": 1}, [], {"": {}}, {"k:1": {}}]
)
def test_what_cannot_be_read_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidError):
        decode_fields(wrong)


def test_paths_are_shown_as_in_conflicts() -> None:
    path = (SPEC, named("ports"), keyed({"protocol": "TCP", "containerPort": 80}), valued("a\n"), (3, 2))
    assert shown(path) == '.spec.ports[containerPort=80,protocol="TCP"][="a\\n"][2]'
    assert (name_of(SPEC), name_of(valued("spec"))) == ("spec", None)


def test_true_is_not_one() -> None:
    assert valued(True) != valued(1)
    assert valued(1) == valued(1.0)


def test_difference_goes_path_by_path_and_recursive_difference_below() -> None:
    paths = PathSet.of((SPEC,), (SPEC, X), (SPEC, Y, X))
    assert list(paths.difference(PathSet.of((SPEC,)))) == [(SPEC, X), (SPEC, Y, X)]
    assert list(paths.recursive_difference(PathSet.of((SPEC, Y)))) == [(SPEC,), (SPEC, X)]
    assert not paths.recursive_difference(PathSet.of((SPEC,)))
    assert list(paths.leaves()) == [(SPEC, X), (SPEC, Y, X)]


@pytest.mark.parametrize("seed", range(60))
def test_sets_behave_as_sets(seed: int) -> None:
    ours, theirs = random_set(seed), random_set(seed + 1000)

    def plain(paths: PathSet) -> set[Path]:
        return set(paths)

    assert plain(ours.union(theirs)) == plain(ours) | plain(theirs)
    assert plain(ours.intersection(theirs)) == plain(ours) & plain(theirs)
    assert plain(ours.difference(theirs)) == plain(ours) - plain(theirs)
    below = {path for path in plain(ours) if any(path[: len(one)] == one for one in plain(theirs))}
    assert plain(ours.recursive_difference(theirs)) == plain(ours) - below
    inner = {path[:count] for path in plain(ours) for count in range(1, len(path))}
    assert plain(ours.leaves()) == plain(ours) - inner
    assert list(ours) == list(PathSet.of(*sorted(plain(ours), reverse=True)))
    assert decode_fields(encode_fields(ours)) == ours
    assert bool(ours) == bool(plain(ours))


def test_what_is_written_follows_an_insert() -> None:
    paths = PathSet.of((SPEC, X))
    assert encode_fields(paths) == {"f:spec": {"f:x": {}}}
    paths.insert((SPEC, Y))
    assert encode_fields(paths) == {"f:spec": {"f:x": {}, "f:y": {}}}


def test_equal_fields_are_one_set_until_they_differ() -> None:
    ours, theirs = (decode_fields({"f:spec": {"f:x": {}}}) for _ in range(2))
    assert ours is theirs
    more = ours.union(PathSet.of((SPEC, Y)))
    assert list(more) == [(SPEC, X), (SPEC, Y)]
    assert list(decode_fields({"f:spec": {"f:x": {}}})) == [(SPEC, X)]
