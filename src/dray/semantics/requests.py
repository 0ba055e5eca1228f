"""What a pod requests from its node as a whole, counted over its containers, sidecars and init containers.

The rules of k8s.io/component-helpers/resource. Limits do not count: where a container has a limit and no request, the API
server's defaulting has written the request (`api.defaults`), and so has the kubelet for the pods of its own files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from dray.api.core.container import Container
from dray.api.core.pod import Pod
from dray.api.quantity import Quantity

Amount = TypeVar("Amount", int, Quantity)

_WHOLE_POD: Final = ("cpu", "memory")
_HUGE_PAGES: Final = "hugepages-"


def pod_requests(pod: Pod) -> dict[str, Quantity]:
    """By resource: what the containers need at once, or what the pod requests as a whole instead, and its overhead."""
    total = needed_at_once(pod, lambda container: container.resources.requests)
    whole = pod.spec.resources.requests if pod.spec.resources is not None else {}
    total |= {name: amount for name, amount in whole.items() if is_pod_level(name)}
    _add(total, pod.spec.overhead)
    return total


def is_pod_level(resource: str) -> bool:
    """Whether a pod may request this resource as a whole: CPU, memory and huge pages."""
    return resource in _WHOLE_POD or resource.startswith(_HUGE_PAGES)


def needed_at_once(pod: Pod, amounts_of: Callable[[Container], Mapping[str, Amount]]) -> dict[str, Amount]:
    """The most that is in use at any time: all containers and sidecars, or one init container beside the sidecars before it.

    `amounts_of` says what one container takes.
    """
    total: dict[str, Amount] = {}
    for container in pod.spec.containers:
        _add(total, amounts_of(container))
    sidecars: dict[str, Amount] = {}
    first: dict[str, Amount] = {}
    for container in pod.spec.init_containers:
        amounts = amounts_of(container)
        running = dict(sidecars)
        _add(running, amounts)
        if container.restart_policy == "Always":
            _add(total, amounts)
            sidecars = running
        _raise(first, running)
    _raise(total, first)
    return total


def _add(total: dict[str, Amount], more: Mapping[str, Amount]) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise(total: dict[str, Amount], least: Mapping[str, Amount]) -> None:
    for name, amount in least.items():
        if name not in total or amount > total[name]:
            total[name] = amount
