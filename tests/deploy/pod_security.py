"""Kubernetes' Pod Security Standard "restricted", as far as our pods could break it: what a pod spec does beyond it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}


def not_restricted(spec: Json) -> list[str]:
    """One line for each rule that is broken; sorted."""
    containers = [*spec.get("initContainers", ()), *spec["containers"]]
    found = [*_of_pod(spec), *(line for one in containers for line in _of_container(spec, one))]
    return sorted(found)


def _of_pod(spec: Json) -> Iterator[str]:
    yield from (name for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name))
    for volume in spec.get("volumes", ()):
        yield from (f"volume {volume['name']}: {kind}" for kind in volume.keys() - {"name"} - _VOLUMES)
    context = spec.get("securityContext", {})
    if context.get("runAsUser") == 0:
        yield "runs as user 0"
    if context.get("appArmorProfile", {}).get("type") == "Unconfined":
        yield "AppArmor is off"
    yield from (f"sysctl {one['name']}" for one in context.get("sysctls", ()))


def _of_container(spec: Json, container: Json) -> Iterator[str]:
    name, own, of_pod = (
        container["name"],
        container.get("securityContext", {}),
        spec.get("securityContext", {}),
    )
    both = {**of_pod, **own}
    if own.get("privileged"):
        yield f"container {name}: privileged"
    if own.get("allowPrivilegeEscalation") is not False:
        yield f"container {name}: may gain privileges"
    if both.get("runAsNonRoot") is not True:
        yield f"container {name}: does not say runAsNonRoot"
    if both.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
        yield f"container {name}: no seccomp profile"
    capabilities = own.get("capabilities", {})
    if "ALL" not in capabilities.get("drop", ()):
        yield f"container {name}: does not drop all capabilities"
    extra = set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}
    yield from (f"container {name}: capability {one}" for one in extra)
    yield from (
        f"container {name}: host port {one['hostPort']}"
        for one in container.get("ports", ())
        if "hostPort" in one
    )
