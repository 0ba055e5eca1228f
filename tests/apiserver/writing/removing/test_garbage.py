from __future__ import annotations

from itertools import product

import pytest

from dray.apiserver.writing.removing.garbage import (
    Action,
    Delete,
    Dependent,
    DropFinalizer,
    DropOwners,
    Item,
    Owner,
    judge,
)

SOLID, WAITS, GONE, UNKNOWN = Owner.SOLID, Owner.WAITS, Owner.GONE, Owner.UNKNOWN
BLOCKING, FREE, BUSY = Dependent(True, False), Dependent(False, False), Dependent(True, True)


@pytest.mark.parametrize(
    ("owners", "dependents", "finalizers", "action"),
    [
        ([], [], [], None),
        ([SOLID], [], [], None),
        ([GONE], [], [], Delete("Background")),
        ([GONE], [], ["orphan"], Delete("Orphan")),
        ([GONE], [], ["a/b", "foregroundDeletion"], Delete("Foreground")),
        ([GONE, SOLID], [], [], DropOwners(frozenset({"0"}))),
        ([SOLID, WAITS, GONE], [], [], DropOwners(frozenset({"1", "2"}))),
        ([UNKNOWN], [], [], None),
        ([GONE, UNKNOWN], [], [], None),
        ([WAITS], [], [], Delete("Background")),
        ([WAITS], [FREE], [], Delete("Foreground")),
        ([WAITS, GONE], [BUSY], [], Delete("Foreground", unblock=True)),
        ([GONE], [FREE], [], Delete("Background")),
    ],
)
def test_an_object_lives_as_long_as_one_owner(
    owners: list[Owner], dependents: list[Dependent], finalizers: list[str], action: Action | None
) -> None:
    named = tuple((str(number), owner) for number, owner in enumerate(owners))
    assert judge(Item(False, tuple(finalizers), named, tuple(dependents))) == action


@pytest.mark.parametrize(
    ("finalizers", "dependents", "action"),
    [
        ([], [], None),
        (["a/b"], [], None),
        (["orphan"], [BLOCKING], DropFinalizer("orphan", orphan=True)),
        (["foregroundDeletion"], [], DropFinalizer("foregroundDeletion")),
        (["foregroundDeletion"], [FREE], DropFinalizer("foregroundDeletion")),
        (["foregroundDeletion"], [FREE, BLOCKING], None),
    ],
)
def test_a_deleted_object_waits_for_what_blocks_it(
    finalizers: list[str], dependents: list[Dependent], action: Action | None
) -> None:
    assert judge(Item(True, tuple(finalizers), (("0", Owner.GONE),), tuple(dependents))) == action


def test_nothing_with_a_solid_owner_is_ever_deleted() -> None:
    for states in product(Owner, repeat=3):
        owners = tuple((str(number), state) for number, state in enumerate(states))
        action = judge(Item(False, (), owners, (BLOCKING,)))
        assert not isinstance(action, Delete) or not {Owner.SOLID, Owner.UNKNOWN} & {*states}
