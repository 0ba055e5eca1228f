"""The objects in memory: the durable ones, and layers of changes on top of them.

Names are kept sorted by `namespace/name`, as etcd orders the keys of the real API server, so that a list is a slice.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from dray.apiserver.store.contract import Change, ChangeKind, Index, Key, Stored
from dray.errors import InvariantError

Terms = tuple[tuple[str, str], ...]
_NOTHING: Final[Mapping[Key, Stored]] = {}


class Step(NamedTuple):
    """A change with the index entries of its new state, which are computed once."""

    change: Change
    terms: Terms

    @property
    def state(self) -> Stored | None:
        """What is there after it."""
        return None if self.change.kind is ChangeKind.DELETED else self.change.new


class State(Protocol):
    """Anything that answers for all objects: the durable ones, or a layer above them."""

    def get(self, key: Key) -> Stored | None:
        """The object, or None."""
        ...

    def list(self, resource: str, namespace: str = "") -> tuple[Stored, ...]:
        """The objects in order."""
        ...

    def indexed(self, name: str, value: str) -> Mapping[Key, Stored]:
        """The objects with that entry, in no order; it is looked at and not kept."""
        ...


def path_of(stored: Stored) -> str:
    """By which objects of one resource are ordered, and where a list goes on."""
    return path_to(stored.key)


def in_order(found: Mapping[Key, Stored]) -> tuple[Stored, ...]:
    """What an index found, by resource and path."""
    if len(found) < 2:
        return tuple(found.values())
    return tuple(sorted(found.values(), key=lambda one: (one.key.resource, path_of(one))))


def path_to(key: Key) -> str:
    """The same, out of the key."""
    return f"{key.namespace}/{key.name}"


class Indexes:
    """Which indexes there are. Immutable, so that layers share it."""

    def __init__(self, indexes: Iterable[Index] = ()) -> None:
        given = tuple(indexes)
        self._names: set[str] = set()
        for index in given:
            if index.name in self._names:
                raise InvariantError(f"the index {index.name!r} is defined twice")
            self._names.add(index.name)
        self._of_all = tuple(index for index in given if not index.resource)
        self._of_resource = {
            resource: tuple(index for index in given if index.resource in ("", resource))
            for resource in {index.resource for index in given if index.resource}
        }

    def terms(self, stored: Stored) -> Terms:
        """The entries of an object, each once."""
        indexes = self._of_resource.get(stored.key.resource, self._of_all)
        if not indexes:
            return ()
        pairs = ((index.name, value) for index in indexes for value in index.values(stored))
        return tuple(dict.fromkeys(pairs))

    def check(self, name: str) -> None:
        """InvariantError where nobody defined it."""
        if name not in self._names:
            raise InvariantError(f"there is no index {name!r}")


class Entries:
    """Index entries of the objects of one layer."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], dict[Key, Stored]] = {}
        self._terms: dict[Key, Terms] = {}

    def put(self, stored: Stored, terms: Terms) -> None:
        """Replace what the object had."""
        self.drop(stored.key)
        if terms:
            self._terms[stored.key] = terms
            for term in terms:
                self._found.setdefault(term, {})[stored.key] = stored

    def drop(self, key: Key) -> None:
        """Forget the object; nothing where it had no entries."""
        for term in self._terms.pop(key, ()):
            keys = self._found[term]
            del keys[key]
            if not keys:
                del self._found[term]

    def find(self, name: str, value: str) -> Mapping[Key, Stored]:
        """The objects with that entry."""
        return self._found.get((name, value), _NOTHING)


class Shelf:
    """The objects of one resource, in order."""

    def __init__(self) -> None:
        self._paths: list[str] = []
        self._items: list[Stored] = []

    def put(self, stored: Stored) -> None:
        """Create or replace."""
        path = path_of(stored)
        at = bisect_left(self._paths, path)
        if at < len(self._paths) and self._paths[at] == path:
            self._items[at] = stored
        else:
            self._paths.insert(at, path)
            self._items.insert(at, stored)

    def remove(self, key: Key) -> None:
        """Take away what is there."""
        at = bisect_left(self._paths, path_to(key))
        del self._paths[at], self._items[at]

    def has(self, key: Key) -> bool:
        """Whether it is there."""
        path = path_to(key)
        at = bisect_left(self._paths, path)
        return at < len(self._paths) and self._paths[at] == path

    def span(self, namespace: str, after: str) -> tuple[int, int]:
        """Where the objects of a namespace ("": of all) that follow `after` begin and end."""
        start, end = 0, len(self._paths)
        if namespace:
            start = bisect_left(self._paths, f"{namespace}/")
            end = bisect_left(self._paths, f"{namespace}0", start)  # "0" is what follows "/"
        return max(start, min(bisect_right(self._paths, after), end)) if after else start, end

    def items(self, start: int, end: int) -> tuple[Stored, ...]:
        """The objects between two places."""
        return tuple(self._items[start:end])


class Objects:
    """All durable objects. One task changes it: the one that was told by the disk."""

    def __init__(self, indexes: Indexes) -> None:
        self.indexes = indexes
        self._by_key: dict[Key, Stored] = {}
        self._shelves: dict[str, Shelf] = {}
        self._entries = Entries()

    def get(self, key: Key) -> Stored | None:
        """The object, or None."""
        return self._by_key.get(key)

    def shelf(self, resource: str) -> Shelf:
        """The objects of a resource; an empty one where there are none."""
        return self._shelves.get(resource) or Shelf()

    def list(self, resource: str, namespace: str = "") -> tuple[Stored, ...]:
        """The objects in order."""
        shelf = self.shelf(resource)
        return shelf.items(*shelf.span(namespace, ""))

    def indexed(self, name: str, value: str) -> Mapping[Key, Stored]:
        """The objects with that entry."""
        found = self._entries.find(name, value)
        if not found:
            self.indexes.check(name)
        return found

    def apply(self, step: Step) -> None:
        """Make a change that is durable."""
        new = step.change.new
        if step.state is None:
            del self._by_key[new.key]
            self._shelves[new.key.resource].remove(new.key)
            self._entries.drop(new.key)
            return
        self._by_key[new.key] = new
        self._shelves.setdefault(new.key.resource, Shelf()).put(new)
        self._entries.put(new, step.terms)


class Layer:
    """Changes on top of a state that does not have them yet."""

    def __init__(self, below: State) -> None:
        self._below = below
        self._steps: dict[str, dict[Key, Step]] = {}
        self._entries = Entries()

    def get(self, key: Key) -> Stored | None:
        """The object, or None."""
        step = self._steps.get(key.resource, {}).get(key)
        return self._below.get(key) if step is None else step.state

    def list(self, resource: str, namespace: str = "") -> tuple[Stored, ...]:
        """The objects in order."""
        below = self._below.list(resource, namespace)
        steps = self._steps.get(resource)
        if not steps:
            return below
        items = list(below)
        for key, step in steps.items():
            if not namespace or key.namespace == namespace:
                _change(items, key, step.state)
        return tuple(items)

    def indexed(self, name: str, value: str) -> Mapping[Key, Stored]:
        """The objects with that entry."""
        below = self._below.indexed(name, value)
        if not below:
            return self._entries.find(name, value)
        kept = {key: stored for key, stored in below.items() if key not in self._steps.get(key.resource, {})}
        return {**kept, **self._entries.find(name, value)}

    def apply(self, step: Step) -> None:
        """Make a change here."""
        new = step.change.new
        self._steps.setdefault(new.key.resource, {})[new.key] = step
        if step.state is None:
            self._entries.drop(new.key)
        else:
            self._entries.put(new, step.terms)

    def settle(self, step: Step) -> None:
        """The state below has this change now; a later one of the same object stays."""
        key = step.change.new.key
        steps = self._steps[key.resource]
        if steps[key].change.revision == step.change.revision:
            del steps[key]
            self._entries.drop(key)

    def clear(self) -> None:
        """Drop all changes."""
        self._steps.clear()
        self._entries = Entries()


def _change(items: list[Stored], key: Key, state: Stored | None) -> None:
    path = path_to(key)
    at = bisect_left(items, path, key=path_of)
    there = at < len(items) and items[at].key == key
    if state is None:
        del items[at : at + there]
    else:
        items[at : at + there] = [state]
