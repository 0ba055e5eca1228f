"""Every fault of a config of NVIDIA GPUs, at its field."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Final

from dray.api.field_errors import FieldError, Path
from dray.api.kubevirt.validation import check_absolute_path, check_resource_name
from dray.api.validation.faults import duplicates, forbidden, invalid, not_supported, required, too_many
from dray.drivers.nvidia.config import (
    IdStrategy,
    ListStrategy,
    MigStrategy,
    NvidiaConfig,
    NvidiaHealth,
    NvidiaTimeSlicing,
)
from dray.drivers.nvidia.names import mig_resource

MAX_REPLICAS: Final = 1000
MAX_XIDS: Final = 256
MAX_RESOURCES: Final = 64
_XIDS: Final = range(1, 1000)
_PROFILE: Final = re.compile(r"mig-[0-9]{1,2}g\.[0-9]{1,4}gb([.-][a-z.]{1,16})?", re.ASCII)


def validate_nvidia(config: NvidiaConfig, path: Path) -> list[FieldError]:
    """What is wrong; `path` is where the config stands."""
    errors = check_resource_name(config.resource_name, path.child("resourceName"))
    errors += _one_of(config.mig_strategy, MigStrategy, path.child("migStrategy"))
    errors += _one_of(config.device_id_strategy, IdStrategy, path.child("deviceIDStrategy"))
    errors += _list_strategies(config, path.child("deviceListStrategy"))
    errors += _time_slicing(config, config.time_slicing, path.child("timeSlicing"))
    if config.driver_root != "/":
        errors += check_absolute_path(config.driver_root, path.child("driverRoot"))
    errors += _health(config.health, path.child("health"))
    if config.dynamic_mig and config.mig_strategy != MigStrategy.NONE:
        text = "must be none with dynamicMig: device plugins cannot say that two parts of a card overlap"
        errors.append(invalid(path.child("migStrategy"), config.mig_strategy, text))
    return errors


def _one_of(value: str, allowed: Iterable[str], path: Path) -> list[FieldError]:
    return [] if value in tuple(allowed) else [not_supported(path, value, allowed)]


def _list_strategies(config: NvidiaConfig, path: Path) -> list[FieldError]:
    strategies = config.device_list_strategy
    if not strategies:
        return [required(path, "one of envvar, volume-mounts, cdi and device-specs")]
    errors = duplicates(strategies, str, path)
    for position, strategy in enumerate(strategies):
        errors += _one_of(strategy, ListStrategy, path.index(position))
    if {ListStrategy.ENVVAR, ListStrategy.VOLUME_MOUNTS} <= set(strategies):
        text = "envvar and volume-mounts exclude each other: NVIDIA's runtime reads one of them"
        errors.append(forbidden(path, text))
    return errors


def _time_slicing(config: NvidiaConfig, sharing: NvidiaTimeSlicing, path: Path) -> list[FieldError]:
    here = path.child("resources")
    if len(sharing.resources) > MAX_RESOURCES:
        return [too_many(here, len(sharing.resources), MAX_RESOURCES)]
    errors = duplicates(sharing.resources, lambda entry: entry.name, here)
    for position, entry in enumerate(sharing.resources):
        errors += _served(config, entry.name, here.index(position).child("name"))
        if not 2 <= entry.replicas <= MAX_REPLICAS:
            text = f"must be between 2 and {MAX_REPLICAS}; without the entry one container has a device"
            errors.append(invalid(here.index(position).child("replicas"), entry.replicas, text))
    return errors


def _served(config: NvidiaConfig, name: str, path: Path) -> list[FieldError]:
    """A resource that is never served would share nothing and say nothing."""
    if not name:
        return [required(path, f"a resource like {config.resource_name}")]
    if check_resource_name(config.resource_name, path):
        return []  # told already
    domain = mig_resource(config.resource_name, "").rpartition("/")[0]
    if name == config.resource_name or (
        name.startswith(f"{domain}/") and _PROFILE.fullmatch(name.removeprefix(f"{domain}/"))
    ):
        return []
    text = f"must be {config.resource_name}, or a MIG profile like {mig_resource(config.resource_name, '1g.10gb')}"
    return [invalid(path, name, text)]


def _health(health: NvidiaHealth, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(health.ignored_xids) > MAX_XIDS:
        errors.append(too_many(path.child("ignoredXids"), len(health.ignored_xids), MAX_XIDS))
    errors += [
        invalid(path.child("ignoredXids").index(position), xid, "must be the number of an XID, 1 to 999")
        for position, xid in enumerate(health.ignored_xids[:MAX_XIDS])
        if xid not in _XIDS
    ]
    for name, value, least in (
        ("pollSeconds", health.poll_seconds, 0.5),
        ("recoverySeconds", health.recovery_seconds, 0.0),
    ):
        if not (math.isfinite(value) and least <= value <= 3600):
            text = f"must be between {least:g} and 3600 seconds"
            errors.append(invalid(path.child(name), str(value), text))
    return errors
