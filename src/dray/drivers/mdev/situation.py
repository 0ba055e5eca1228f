"""What a plan of mediated devices is made from: the wishes, and one look at the host. Values both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from dray.hardware.facts import Found
from dray.hardware.mdev import INSTANCES, Mdev, MdevParent

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


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

    `external` types have another manager: whatever is of such a type stays. `seed` names the machine (see `uuids`); the
    manager fills it in. Where the types are not `managed`, nothing is made, removed or looked at.
    """

    desired: tuple[str, ...] = ()
    external: frozenset[str] = frozenset()
    seed: str = ""
    managed: bool = True


@dataclass(frozen=True, slots=True)
class View:
    """One look at the host. `hidden` exist and cannot be read, `unclear` not in full (their type's name may be missing);
    `held` are in use, as far as the caller knows. All are named by UUID.

    `hidden` also says the card of each, which its link tells even when its type does not; empty where nothing tells. A
    card with a hidden device of somebody else is theirs, and where a card is not known every card may be: nothing is
    made there then. `blind` says why nothing is known about the instances; then nothing at all is done.
    """

    parents: tuple[MdevParent, ...]
    mdevs: tuple[Mdev, ...]
    hidden: Mapping[str, str] = field(default_factory=dict)
    held: frozenset[str] = frozenset()
    blind: str = ""
    unclear: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        parents: Found[MdevParent],
        mdevs: Found[Mdev],
        cards: Mapping[str, str],
        held: AbstractSet[str] = frozenset(),
    ) -> View:
        """From what `hardware.mdev` read; `cards` are those of `read_mdev_cards`, read last."""
        named = {uuid for p in mdevs.problems for uuid in _UUID.findall(f"{p.path} {p.message}".lower())}
        blind = next((p.message for p in mdevs.problems if p.path == INSTANCES), "")
        read = {mdev.uuid for mdev in mdevs.items}
        hidden = {uuid: cards.get(uuid, "") for uuid in sorted(named - read)}
        return cls(parents.items, mdevs.items, hidden, frozenset(held), blind, frozenset(named & read))

    @property
    def present(self) -> frozenset[str]:
        """The UUIDs that are taken."""
        return frozenset(self.hidden) | {mdev.uuid for mdev in self.mdevs}
