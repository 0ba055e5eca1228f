"""Rules for the containers of a pod: those Dray relies on. The API server has more (probes, security contexts…)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from dray.api import names
from dray.api.core.container import Container, ContainerClaim, ContainerPort, EnvVar, VolumeMount
from dray.api.field_errors import FieldError, Path
from dray.api.validation.faults import (
    by_rule,
    by_rule_or_required,
    duplicate,
    invalid,
    not_found,
    not_supported,
    required,
)
from dray.api.validation.quantities import check_requirements

_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")


def check_containers(
    containers: tuple[Container, ...],
    volumes: Collection[str],
    claims: Collection[str],
    path: Path,
    taken: Collection[str] = (),
) -> list[FieldError]:
    """One of the lists of containers; `taken` are names that the lists before it hold."""
    errors: list[FieldError] = []
    seen = {*taken}
    for position, container in enumerate(containers):
        here = path.index(position)
        errors += _container(container, volumes, claims, here)
        if container.name in seen:
            errors.append(duplicate(here.child("name"), container.name))
        elif container.name:
            seen.add(container.name)
    return errors


def _container(
    container: Container, volumes: Collection[str], claims: Collection[str], path: Path
) -> list[FieldError]:
    errors = by_rule_or_required(names.dns_label, container.name, path.child("name"))
    if not container.image:
        errors.append(required(path.child("image")))
    elif container.image != container.image.strip():
        text = "must not have leading or trailing whitespace"
        errors.append(invalid(path.child("image"), container.image, text))
    for field, value, allowed in (
        ("terminationMessagePolicy", container.termination_message_policy, _MESSAGE_POLICIES),
        ("imagePullPolicy", container.image_pull_policy, _PULL_POLICIES),
    ):
        errors += check_choice(value, allowed, path.child(field))
    policy = container.restart_policy
    if policy is not None and policy not in _RESTART_POLICIES:
        errors.append(not_supported(path.child("restartPolicy"), policy, _RESTART_POLICIES))
    errors += _ports(container.ports, path.child("ports"))
    errors += _env(container.env, path.child("env"))
    errors += _mounts(container.volume_mounts, volumes, path.child("volumeMounts"))
    errors += check_requirements(container.resources, path.child("resources"))
    return errors + _claims(container.resources.claims, claims, path.child("resources", "claims"))


def check_choice(value: str, allowed: tuple[str, ...], path: Path) -> list[FieldError]:
    """One of a few words, which must be there (defaulting has filled it in)."""
    if not value:
        return [required(path)]
    return [] if value in allowed else [not_supported(path, value, allowed)]


def _ports(ports: tuple[ContainerPort, ...], path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    for position, port in enumerate(ports):
        here = path.index(position)
        if port.container_port == 0:
            errors.append(required(here.child("containerPort")))
        for field, number in (("containerPort", port.container_port), ("hostPort", port.host_port)):
            if number != 0 and not 1 <= number <= 65535:
                errors.append(invalid(here.child(field), number, "must be between 1 and 65535, inclusive"))
        errors += check_choice(port.protocol, _PROTOCOLS, here.child("protocol"))
    return errors


def _env(variables: tuple[EnvVar, ...], path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    for position, variable in enumerate(variables):
        here = path.index(position).child("name")
        name = variable.name
        if not name:
            errors.append(required(here))
        elif "=" in name or not (name.isascii() and name.isprintable()):
            text = "a valid environment variable name must consist only of printable ASCII characters other than '='"
            errors.append(invalid(here, name, text))
    return errors


def _mounts(mounts: tuple[VolumeMount, ...], volumes: Collection[str], path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for position, mount in enumerate(mounts):
        here = path.index(position)
        if not mount.name:
            errors.append(required(here.child("name")))
        if mount.name not in volumes:
            errors.append(not_found(here.child("name"), mount.name))
        if not mount.mount_path:
            errors.append(required(here.child("mountPath")))
        if mount.mount_path in seen:
            errors.append(invalid(here.child("mountPath"), mount.mount_path, "must be unique"))
        seen.add(mount.mount_path)
    return errors


def _claims(claims: tuple[ContainerClaim, ...], known: Collection[str], path: Path) -> list[FieldError]:
    """References to the pod's claims: each once as a whole, or by requests."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for position, claim in enumerate(claims):
        here = path.index(position)
        if not claim.name:
            errors.append(required(here))
            continue
        errors += _claim_use(claim, seen, here)
        if claim.name not in known:
            listed = f": {', '.join(sorted(known))}" if known else " which is empty"
            text = f"must be one of the names in pod.spec.resourceClaims{listed}"
            errors.append(not_found(here, claim.name, text))
    return errors


def _claim_use(claim: ContainerClaim, seen: set[str], path: Path) -> list[FieldError]:
    if claim.name in seen:
        return [duplicate(path, claim.name)]
    key = f"{claim.name}/{claim.request}" if claim.request else claim.name
    errors = by_rule(names.dns_label, claim.request, path.child("request")) if claim.request else []
    if key in seen:
        errors.append(duplicate(path, key))
    elif not claim.request:
        errors += [duplicate(path, claim.name) for other in seen if other.startswith(f"{claim.name}/")]
    seen.add(key)
    return errors
