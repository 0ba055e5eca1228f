"""Which CDI version a spec needs. Runtimes refuse a file that uses more than its version has, and versions they do not know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from dray.cdi.names import split_kind
from dray.cdi.spec import Edits, Spec

KNOWN: Final = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
"""Every released version, oldest first. No runtime takes the first two."""


_OLDEST: Final = "0.3.0"


class _Need(NamedTuple):
    """A version and what needs it. `is_enforced`: runtimes refuse the file without it."""

    version: str
    reason: str
    is_enforced: bool = True


def minimum_version(spec: Spec) -> str:
    """The oldest version that has all the spec uses. Who writes a spec gives it this one."""
    return max((need.version for need in _needs(spec)), default=_OLDEST)


def enforced_version(spec: Spec) -> str:
    """The oldest version with which runtimes take the spec; at times older than it should be."""
    return max((need.version for need in _needs(spec) if need.is_enforced), default=_OLDEST)


def version_faults(spec: Spec) -> list[str]:
    """What is wrong with the version that the spec says."""
    said = spec.version.removeprefix("v")
    if said not in KNOWN:
        return [f"{spec.version!r} is not a version of CDI: known are {', '.join(KNOWN[2:])}"]
    least = enforced_version(spec)
    return [f"must be {least} or newer: {_reason(spec, least)}"] if said < least else []


def version_advice(spec: Spec) -> list[str]:
    """Where the version is older than it should be and runtimes do not notice."""
    said, least = spec.version.removeprefix("v"), minimum_version(spec)
    if version_faults(spec) or said >= least:
        return []
    return [f"should be {least} or newer: {_reason(spec, least)}"]


def at_minimum_version(spec: Spec) -> Spec:
    """The same with the oldest version that will do: old runtimes read it too."""
    return msgspec.structs.replace(spec, version=minimum_version(spec))


def _reason(spec: Spec, version: str) -> str:
    found = (need.reason for need in _needs(spec) if need.version == version)
    return next(found, "that is the oldest that runtimes read")


def _needs(spec: Spec) -> Iterator[_Need]:
    if spec.annotations or any(device.annotations for device in spec.devices):
        yield _Need("0.6.0", "it has annotations")
    if "." in spec.kind.partition("/")[2]:
        yield _Need("0.6.0", f"the class {split_kind(spec.kind)[1]!r} has a dot")
    if any(device.name[:1] in tuple("0123456789") for device in spec.devices):
        yield _Need("0.5.0", "the name of a device starts with a digit")
    yield from _needs_of_edits(spec.container_edits, True)
    for position, device in enumerate(spec.devices, 1):
        yield from _needs_of_edits(device.container_edits, position == len(spec.devices))


def _needs_of_edits(edits: Edits, is_last: bool) -> Iterator[_Need]:
    """The reference implementation looks for old features only in the last device, for a slip in its loop."""
    rdt = edits.intel_rdt
    if edits.net_devices:
        yield _Need("1.1.0", "it has netDevices")
    if rdt is not None and (rdt.schemata is not None or rdt.enable_monitoring):
        yield _Need("1.1.0", "it has schemata or enableMonitoring in intelRdt")
    if rdt is not None:
        yield _Need("0.7.0", "it has intelRdt")
    if edits.additional_gids:
        yield _Need("0.7.0", "it has additionalGids")
    if any(node.host_path for node in edits.device_nodes):
        yield _Need("0.5.0", "a device node has hostPath", is_last)
    if any(mount.type for mount in edits.mounts):
        yield _Need("0.4.0", "a mount has a type", is_last)
