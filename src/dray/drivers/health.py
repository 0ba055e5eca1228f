"""Health as most kinds have it: all nodes are there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dray.drivers.contract import Device, Health, Prepared
from dray.errors import Error, HardwareError, NotFoundError
from dray.hardware.device_nodes import read_device_node
from dray.hardware.facts import Problem, problem_of
from dray.hardware.host_root import Place


def health_for(reason: str) -> Health:
    """A device with a reason not to be handed out is not healthy."""
    return Health.UNHEALTHY if reason else Health.HEALTHY


def why_missing(root: Place, paths: Iterable[str], problems: list[Problem]) -> str:
    """The first of `paths` at which no device node is, in words; empty where all are there."""
    for path in paths:
        try:
            read_device_node(root, path)
        except NotFoundError:
            return f"{path} does not exist"
        except Error as error:
            problem = problem_of(error, path)
            problems.append(problem)
            return problem.message
    return ""


def worsened(root: Place, device: Device) -> Device:
    """The device, unhealthy where something it watches is gone: a quick answer to an event, before the full look.

    It never makes a device healthy: only the full look knows all that must be so.
    """
    for path in device.watch if device.health is Health.HEALTHY else ():
        try:
            reason = "" if root.exists(path) else f"{path} does not exist"
        except Error as error:  # a loop of links, a file for a directory
            reason = problem_of(error, path).message
        if reason:
            return replace(device, health=Health.UNHEALTHY, reason=reason, upkeep=())
    return device


def check_required(root: Place, prepared: Prepared) -> None:
    """HardwareError unless all that `prepared` needs is there. Called right before the container is answered for."""
    for path in prepared.required:
        if not root.exists(path):
            raise HardwareError(
                f"{path} does not exist any more: ask for another device, or restore this one", path=path
            )
