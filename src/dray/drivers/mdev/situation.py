"""What a plan of mediated devices is made from: the wishes, one look at the host, and what failed of late. All values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from dray.hardware.change import CreateMdev, RemoveMdev
from dray.hardware.facts import Found
from dray.hardware.mdev import INSTANCES, Mdev, MdevParent
from dray.runtime.backoff import BackoffPolicy

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_RETRIES = BackoffPolicy(first=2.0, factor=2.0, limit=300.0, jitter=0.0)


def is_managed(enabled: bool | None, disable_gate: bool) -> bool:
    """Whether mediated devices are made and removed at all: `enabled` decides, the old feature gate where it is unset."""
    return not disable_gate if enabled is None else enabled


@dataclass(frozen=True, slots=True)
class NodeTypes:
    """One entry of the configuration: types for the nodes that have all these labels. No labels: every node."""

    node_selector: Mapping[str, str]
    types: tuple[str, ...]


def desired_types(
    default: Sequence[str], entries: Iterable[NodeTypes], labels: Mapping[str, str]
) -> tuple[str, ...]:
    """The types that a node with these labels shall have, in the order of the configuration, each once.

    All entries that match add up. They replace the default; it counts where they name no type at all.
    """
    matching = [entry for entry in entries if all(labels.get(k) == v for k, v in entry.node_selector.items())]
    named = [name for entry in matching for name in entry.types]
    return tuple(dict.fromkeys(named or default))


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the configuration says. Types are given by id or by name, and a name with spaces or with `_`.

    `external` types have another manager: whatever is of such a type stays. `seed` names the machine (see `uuids`).
    """

    desired: tuple[str, ...] = ()
    external: frozenset[str] = frozenset()
    seed: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """One look at the host. `hidden` exist and cannot be read, `unclear` not in full (their type's name may be missing);
    `held` are in use, as far as the caller knows.

    `blind` says why nothing is known about the instances; then nothing is done. Nobody knows on which card a hidden one
    is unless it is ours: a foreign one does not keep us from its card, where only the driver's count stands guard.
    """

    parents: tuple[MdevParent, ...]
    mdevs: tuple[Mdev, ...]
    hidden: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()
    blind: str = ""
    unclear: frozenset[str] = frozenset()

    @classmethod
    def of(cls, parents: Found[MdevParent], mdevs: Found[Mdev], held: AbstractSet[str] = frozenset()) -> View:
        """From what `hardware.mdev` read."""
        named = {uuid for p in mdevs.problems for uuid in _UUID.findall(f"{p.path} {p.message}".lower())}
        blind = next((p.message for p in mdevs.problems if p.path == INSTANCES), "")
        read = {mdev.uuid for mdev in mdevs.items}
        hidden, unclear = frozenset(named - read), frozenset(named & read)
        return cls(parents.items, mdevs.items, hidden, frozenset(held), blind, unclear)

    @property
    def present(self) -> frozenset[str]:
        """The UUIDs that are taken."""
        return self.hidden | {mdev.uuid for mdev in self.mdevs}


_Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """A change that failed `tries` times in a row. It is not planned again before `retry_at`."""

    change: CreateMdev | RemoveMdev
    error: str
    tries: int
    retry_at: float


@dataclass(frozen=True, slots=True)
class Failures:
    """What failed of late: creations by card and type, whatever the UUID; removals by UUID. A value, as the plan is.

    The first retry comes after 2 s, the next ones after twice as long each, up to 5 minutes. A restart forgets all.
    """

    by_key: Mapping[_Key, Failure] = field(default_factory=dict)
    policy: BackoffPolicy = _RETRIES

    def after(self, change: CreateMdev | RemoveMdev, error: str, now: float) -> Failures:
        """With one failure more."""
        before = self.by_key.get(_key(change))
        tries = before.tries if before else 0
        delay = min(self.policy.limit, self.policy.first * self.policy.factor ** min(tries, 64))
        failure = Failure(change, error, tries + 1, now + delay)
        return Failures({**self.by_key, _key(change): failure}, self.policy)

    def without(self, change: CreateMdev | RemoveMdev) -> Failures:
        """After a success."""
        return Failures({k: f for k, f in self.by_key.items() if k != _key(change)}, self.policy)

    def waiting(self, key: _Key, now: float) -> Failure | None:
        """The failure whose time has not come."""
        failure = self.by_key.get(key)
        return failure if failure is not None and now < failure.retry_at else None


def _key(change: CreateMdev | RemoveMdev) -> _Key:
    return (change.parent, change.type_id) if isinstance(change, CreateMdev) else (change.uuid,)
