"""Find sockets: each is a path that the config names."""

from __future__ import annotations

from dray.drivers.contract import Device, Discovery, Health, Problem
from dray.drivers.health import health_for
from dray.drivers.naming import slice_name
from dray.drivers.socket.config import SocketConfig, SocketService
from dray.drivers.socket.health import why_unhealthy
from dray.errors import Error
from dray.hardware.change import Chown, HostChange, Relabel
from dray.hardware.facts import problem_of
from dray.hardware.host_root import Place
from dray.hardware.misc_capacity import PATHS, misc_capacity
from dray.hardware.selinux import SelinuxState, read_selinux

KIND = "socket"


def discover(config: SocketConfig, root: Place) -> Discovery:
    """All sockets by name; one whose capacity the host does not have is left out, and told."""
    devices: list[Device] = []
    problems: list[Problem] = []
    services = sorted(config.services, key=lambda service: service.name)
    with root.sweep() as sweep:
        selinux = read_selinux(sweep)
        for service in services:
            shares = _shares(service, sweep, problems)
            if shares > 0:
                reason = why_unhealthy(service, sweep, problems)
                devices.append(_device(service, shares, reason, selinux))
    places = tuple(sorted(service.path for service in services))
    return Discovery(tuple(devices), tuple(problems), places)


def _shares(service: SocketService, root: Place, problems: list[Problem]) -> int:
    if not service.capacity:
        return service.shares
    try:
        amount = misc_capacity(root, service.capacity)
    except Error as error:
        problems.append(problem_of(error, PATHS[0], before=f"{service.resource} is left out: "))
        return 0
    if amount <= 0:
        text = f"{service.resource} is left out: the host has 0 of {service.capacity!r}"
        problems.append(Problem(PATHS[0], text))
    return amount


def _device(service: SocketService, shares: int, reason: str, selinux: SelinuxState) -> Device:
    health = health_for(reason)
    return Device(
        id=service.name,
        kind=KIND,
        resource=service.resource,
        health=health,
        reason=reason,
        label=service.path,
        attributes={"optional": service.optional},
        paths=(service.directory,),
        watch=() if service.optional else (service.path,),
        shares=shares,
        upkeep=_upkeep(service, selinux) if health is Health.HEALTHY and not service.optional else (),
        name=slice_name(service.name),
        hardware=(f"socket:{service.path}",),
    )


def _upkeep(service: SocketService, selinux: SelinuxState) -> tuple[HostChange, ...]:
    if service.owner is None:
        return ()
    paths = (service.directory, service.path)
    changes: list[HostChange] = [Chown(path, *service.owner) for path in paths]
    if selinux is not SelinuxState.ABSENT:
        enforcing = selinux is SelinuxState.ENFORCING
        changes += [Relabel(path, enforcing=enforcing) for path in paths]
    return tuple(changes)
