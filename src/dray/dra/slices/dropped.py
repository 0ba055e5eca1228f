"""What a server did not store of a slice: it drops the fields of features that are switched off, without a word.

Without its taints a device that is broken, or that a pod has through its device plugin, would be handed out; without
their counters two partitions of the same hardware. Such devices are not offered to a server that drops those.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from dray.api.resource.slice import Device, ResourceSliceSpec
from dray.dra.slices.layout import SliceContents
from dray.dra.slices.reconcile import same_devices
from dray.semantics.features import Gate
from dray.semantics.taints import keeps_away

UNKNOWN: Final = "unknown"
TAINTS: Final = Gate.DEVICE_TAINTS.value
PARTITIONS: Final = Gate.PARTITIONABLE_DEVICES.value
_Lost = Callable[[Device, Device], bool]
_OF_DEVICES: Final[tuple[tuple[str, _Lost], ...]] = (
    (TAINTS, lambda sent, stored: len(sent.taints) > len(stored.taints)),
    (
        PARTITIONS,
        lambda sent, stored: len(sent.consumes_counters) != len(stored.consumes_counters),
    ),
    (
        Gate.DEVICE_BINDING_CONDITIONS.value,
        lambda sent, stored: (
            (len(sent.binding_conditions), len(sent.binding_failure_conditions))
            != (len(stored.binding_conditions), len(stored.binding_failure_conditions))
        ),
    ),
    (
        Gate.CONSUMABLE_CAPACITY.value,
        lambda sent, stored: (
            sent.allow_multiple_allocations is not None and stored.allow_multiple_allocations is None
        ),
    ),
)


def dropped_features(sent: ResourceSliceSpec, stored: ResourceSliceSpec) -> tuple[str, ...]:
    """The feature gates that are probably off, `unknown` for another difference; nothing where all was stored."""
    if _is_stored(sent, stored):
        return ()
    pairs = list(zip(sent.devices or (), stored.devices or (), strict=False))
    found = [gate for gate, lost in _OF_DEVICES if any(lost(*pair) for pair in pairs)]
    if len(sent.shared_counters or ()) > len(stored.shared_counters or ()) or (
        sent.per_device_node_selection and not stored.per_device_node_selection
    ):
        found.append(PARTITIONS)
    return tuple(sorted(set(found))) or (UNKNOWN,)


def offerable(contents: SliceContents, lacks: Collection[str]) -> SliceContents:
    """What of a slice may be offered to a server without these features; maybe nothing."""
    devices = contents.devices
    if TAINTS in lacks:
        devices = tuple(one for one in devices if not any(map(keeps_away, one.taints)))
    if PARTITIONS not in lacks:
        return SliceContents(devices, contents.counters)
    return SliceContents(tuple(one for one in devices if not one.consumes_counters))


def _is_stored(sent: ResourceSliceSpec, stored: ResourceSliceSpec) -> bool:
    return (
        (sent.shared_counters or ()) == (stored.shared_counters or ())
        and bool(sent.per_device_node_selection) == bool(stored.per_device_node_selection)
        and same_devices(sent.devices or (), stored.devices or ())
    )
