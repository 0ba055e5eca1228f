"""What becomes of an object whose owners go: the garbage collector's decision, as a pure function.

An owner is *gone* where no object of its kind and name has its uid; it *waits* where it was deleted with Foreground and
goes after its dependents; else it is *solid*. An object lives while one of its owners is solid.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from dray.apiserver.writing.removing.grace import FOREGROUND, ORPHAN


class Owner(Enum):
    """The state of an owner that an object names."""

    SOLID = auto()
    WAITS = auto()
    GONE = auto()
    UNKNOWN = auto()
    """Of a kind that is not served, or one that cannot own this object: nothing can be said, so nothing is done."""


@dataclass(frozen=True)
class Dependent:
    """An object that names the one in question as its owner."""

    blocks: bool
    """`blockOwnerDeletion`: a Foreground deletion of the owner waits for it."""
    waits: bool
    """It is itself deleted with Foreground, and waits for its own dependents."""


@dataclass(frozen=True)
class Item:
    """The object in question."""

    deleting: bool
    finalizers: tuple[str, ...]
    owners: tuple[tuple[str, Owner], ...]
    """The uid of each owner, and its state."""
    dependents: tuple[Dependent, ...] = ()


@dataclass(frozen=True)
class Delete:
    """Delete it with this policy; `unblock` first, where it and its dependents wait for each other."""

    policy: str
    unblock: bool = False


@dataclass(frozen=True)
class DropOwners:
    """Take these owners out of its references: it lives on without them."""

    uids: frozenset[str]


@dataclass(frozen=True)
class DropFinalizer:
    """Nothing holds it any more that this finalizer stands for. `orphan`: let go of its dependents first."""

    finalizer: str
    orphan: bool = False


Action = Delete | DropOwners | DropFinalizer


def judge(item: Item) -> Action | None:
    """What is to be done with an object now; None: nothing, until something near it changes."""
    if item.deleting:
        return _judge_deleted(item)
    states = {state for _, state in item.owners}
    if not item.owners or Owner.UNKNOWN in states:
        return None
    if Owner.SOLID in states:
        leaving = frozenset(uid for uid, state in item.owners if state is not Owner.SOLID)
        return DropOwners(leaving) if leaving else None
    if Owner.WAITS in states and item.dependents:
        return Delete("Foreground", unblock=any(one.waits for one in item.dependents))
    return Delete(_policy(item.finalizers))


def _judge_deleted(item: Item) -> Action | None:
    if ORPHAN in item.finalizers:
        return DropFinalizer(ORPHAN, orphan=True)
    if FOREGROUND in item.finalizers and not any(one.blocks for one in item.dependents):
        return DropFinalizer(FOREGROUND)
    return None


def _policy(finalizers: Iterable[str]) -> str:
    """A policy that the object carries already is kept."""
    return {ORPHAN: "Orphan", FOREGROUND: "Foreground"}.get(
        next((one for one in finalizers if one in (ORPHAN, FOREGROUND)), ""), "Background"
    )
