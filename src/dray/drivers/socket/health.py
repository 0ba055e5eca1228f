"""Health of a socket: a required one must be there, an optional one need not."""

from __future__ import annotations

from dray.drivers.contract import Problem
from dray.drivers.socket.config import SocketService
from dray.errors import Error
from dray.hardware.facts import problem_of
from dray.hardware.host_root import Place


def why_unhealthy(service: SocketService, root: Place, problems: list[Problem]) -> str:
    """Empty while it may be handed out. A missing directory is as a missing socket, not an error."""
    if service.optional:
        return ""
    try:
        return "" if root.exists(service.path) else f"{service.path} does not exist"
    except Error as error:
        problem = problem_of(error, service.path)
        problems.append(problem)
        return problem.message
