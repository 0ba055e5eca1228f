"""Which ResourceSlices count: those of a pool's newest generation, as the node in question sees the pool.

A driver replaces the slices of a pool by those of a higher generation; for a while, both are there. As in Kubernetes'
allocator (GatherPools in `structured/internal/*/pools_*.go`), slices that are not for the node are left out before
generations are compared: the token of a node may write slices that name this node into any pool (NodeRestriction looks
at `spec.nodeName` only), and such a slice must not outdate the devices of other nodes.

Whoever knows only the name of a node leaves out the slices that name another one. That is less than the allocator does,
which reads labels too, and enough for what a node may write. All functions keep the order of the slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from typing import NamedTuple, Protocol, TypeVar

from dray.api.resource.slice import ResourcePool, ResourceSliceSpec


class SliceLike(Protocol):
    """A ResourceSlice, or what is kept of one: of the spec only driver, pool and node name are read here."""

    @property
    def spec(self) -> ResourceSliceSpec:
        """As the slice's."""
        ...


T = TypeVar("T", bound=SliceLike)


class PoolID(NamedTuple):
    """A driver's pool."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


def pool_of(one: SliceLike) -> PoolID:
    """The pool a slice belongs to."""
    return PoolID(one.spec.driver, one.spec.pool.name)


def by_pool(slices: Iterable[T]) -> dict[PoolID, list[T]]:
    """The slices of each pool."""
    pools: dict[PoolID, list[T]] = {}
    for one in slices:
        pools.setdefault(pool_of(one), []).append(one)
    return pools


def newest_generation(slices: Iterable[SliceLike]) -> int:
    """The highest generation of some slices of one pool; 0 where there are none."""
    return max([one.spec.pool.generation for one in slices], default=0)


def of_generation(slices: Iterable[T], generation: int) -> list[T]:
    """Those of this generation, of one pool."""
    return [one for one in slices if one.spec.pool.generation == generation]


def newest(slices: Iterable[T]) -> list[T]:
    """Those of the highest generation among some slices of one pool."""
    every = list(slices)
    if len({one.spec.pool.generation for one in every}) < 2:
        return every
    return of_generation(every, newest_generation(every))


def may_be_for(node: str, one: SliceLike) -> bool:
    """Whether a slice may have devices for the node of this name: unless it names another node."""
    return one.spec.node_name in (None, "", node)


def newest_for(node: str, slices: Iterable[T]) -> list[T]:
    """What the node of this name sees of some slices of one pool, whether or not all of them are there."""
    return newest(one for one in slices if may_be_for(node, one))


def is_complete(slices: Sized, pool: ResourcePool) -> bool:
    """Whether these are as many as a slice of that generation says that its pool has."""
    return len(slices) == pool.resource_slice_count


def is_outdated(pool: Iterable[SliceLike], generation: int, node: str, *, is_whole: bool) -> bool:
    """Whether the driver is replacing this generation, the newest that the node sees, by one with nothing for the node.

    `pool` are all slices of the pool; `is_whole`: those for the node make a complete pool. Then a slice that names
    another node outdates nothing.
    """
    return any(
        one.spec.pool.generation > generation and (not is_whole or may_be_for(node, one)) for one in pool
    )


def current(slices: Iterable[T]) -> list[T]:
    """Those, of any pools, that count for one node at least: what a view of the whole cluster shows."""
    every = list(slices)
    outdated: set[int] = set()
    for pool in by_pool(every).values():
        if len({one.spec.pool.generation for one in pool}) > 1:
            outdated |= {id(one) for one in pool} - {id(one) for one in _current(pool)}
    return [one for one in every if id(one) not in outdated] if outdated else every


def _current(pool: Sequence[T]) -> list[T]:
    """Of one pool; a slice without a node's name may be there several times."""
    last = newest_generation(pool)
    by_node: dict[str, list[T]] = {}
    for one in pool:
        by_node.setdefault(one.spec.node_name or "", []).append(one)
    for_several = by_node.get("", [])
    found: list[T] = []
    for node, own in by_node.items():
        seen = newest([*own, *for_several] if node else own)
        first = seen[0].spec.pool
        is_whole = is_complete(seen, first)
        if first.generation == last or not is_outdated(pool, first.generation, node, is_whole=is_whole):
            found += seen
    return found


def duplicate_name(names: Iterable[str]) -> str | None:
    """The first name that comes twice: a pool in which two devices, or two counter sets, have one name is invalid."""
    seen = set[str]()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
