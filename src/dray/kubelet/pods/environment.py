"""The environment, command and arguments of a container, with `$(NAME)` put in as Kubernetes does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from dray.api.codec import view
from dray.api.core import Pod
from dray.api.core.container import Container, EnvVar
from dray.api.meta import Model
from dray.errors import InvalidError, NotFoundError

T = TypeVar("T")

LONGEST: Final = 128 << 10
"""Bytes of a variable or an argument: Linux' MAX_ARG_STRLEN."""
MOST: Final = 8 << 20
"""Bytes of all of them: Linux gives a program 6 MiB at most."""
_REFERENCE = re.compile(r"\$\(([^)]*)\)")


class _Reference(Model, frozen=True, kw_only=True):
    """A reference from `env` or `envFrom` to a field, a resource, a key or an object."""

    name: str = ""
    key: str = ""
    optional: bool = False
    field_path: str = ""
    container_name: str = ""
    resource: str = ""


class _FromObject(Model, frozen=True, kw_only=True):
    prefix: str = ""
    config_map_ref: _Reference | None = None
    secret_ref: _Reference | None = None


class Sources(Protocol):
    """Where values come from that are not in the pod. None: there is no such object."""

    def config_map(self, namespace: str, name: str) -> Mapping[str, str] | None:
        """Its data."""
        ...

    def secret(self, namespace: str, name: str) -> Mapping[str, str] | None:
        """Its data, decoded."""
        ...


def environment(
    pod: Pod, container: Container, sources: Sources, before: Sequence[tuple[str, str]] = ()
) -> tuple[tuple[str, str], ...]:
    """`before` are the variables that devices bring: the pod's own win. InvalidError where a value cannot be had."""
    found: dict[str, str] = dict(before)
    size = 0
    for index, entry in enumerate(container.env_from):
        found |= _from_object(pod, _typed(entry, _FromObject, f"envFrom[{index}]"), sources)
    for variable in container.env:
        value = _value(pod, container, variable, sources, found)
        if value is not None:
            found[variable.name] = value
            size += len(value)
            _check_all(size)
    return tuple(found.items())


def expand(text: str, values: Mapping[str, str]) -> str:
    """`$(NAME)` becomes its value if there is one; `$$` is a dollar sign; all else stays. InvalidError where that makes a
    text that Linux gives to no program: forty variables that name the one before twice are a terabyte."""
    parts: list[str] = []
    at = size = 0
    last = text.rfind(")")
    while (dollar := text.find("$", at)) != -1 and dollar + 1 < len(text):
        parts.append(text[at:dollar])
        following = text[dollar + 1]
        end = text.find(")", dollar) if following == "(" and dollar < last else -1
        if following == "$":
            parts.append("$")
            at = dollar + 2
        elif end != -1:
            name = text[dollar + 2 : end]
            parts.append(values.get(name, text[dollar : end + 1]))
            size += len(parts[-1])
            if size > max(LONGEST, len(text)):
                raise InvalidError(
                    f"a variable or argument has more than {LONGEST} bytes once {text[dollar : dollar + 100]!r} is expanded",
                    field="env",
                )
            at = end + 1
        else:
            parts.append(text[dollar : dollar + 2])
            at = dollar + 2
    return "".join(parts) + text[at:]


def expand_known(text: str, values: Mapping[str, str]) -> str:
    """As `expand`; InvalidError for a name without a value. For subPathExpr, where what stays would name a directory."""
    plain = text.replace("$$", "")
    # Behind the last bracket nothing is closed, and each `$(` would be followed to the end.
    missing = [name for name in _REFERENCE.findall(plain[: plain.rfind(")") + 1]) if name not in values]
    if missing:
        raise InvalidError(f"missing value for {missing[0]!r}", field="subPathExpr")
    return expand(text, values)


def expand_all(texts: Sequence[str], env: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """A command or its arguments."""
    values = dict(env)
    found, size = [], 0
    for text in texts:
        found.append(expand(text, values))
        size += len(found[-1])
        _check_all(size)
    return tuple(found)


def _check_all(size: int) -> None:
    if size > MOST:
        raise InvalidError(
            f"all variables or all arguments have more than {MOST} bytes together", field="env"
        )


def _value(
    pod: Pod, container: Container, variable: EnvVar, sources: Sources, found: Mapping[str, str]
) -> str | None:
    if variable.value_from is None:
        return expand(variable.value, found)
    kind = next((key for key, given in variable.value_from.items() if given is not None), "")
    where = f"env[{variable.name}].valueFrom.{kind}"
    reference = _typed(variable.value_from.get(kind) or {}, _Reference, where)
    if kind == "fieldRef":
        return field_value(pod, reference.field_path)
    if kind in ("configMapKeyRef", "secretKeyRef"):
        return _key(pod, kind, reference, sources)
    if kind == "resourceFieldRef":
        return _resource(pod, container, reference)
    raise InvalidError(
        f"environment variable {variable.name}: valueFrom.{kind} is not supported here; "
        "use value, fieldRef, resourceFieldRef, configMapKeyRef or secretKeyRef",
        field=f"env[{variable.name}].valueFrom",
    )


def field_value(pod: Pod, path: str) -> str:
    """What the downward API gives for a field of the pod."""
    plain = {
        "metadata.name": pod.metadata.name,
        "metadata.namespace": pod.metadata.namespace,
        "metadata.uid": pod.metadata.uid,
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.hostIP": pod.status.host_ip,
        "status.podIP": pod.status.pod_ip,
    }
    if path in plain:
        return plain[path]
    for name, values in (
        ("metadata.labels", pod.metadata.labels),
        ("metadata.annotations", pod.metadata.annotations),
    ):
        if path.startswith(f"{name}['") and path.endswith("']"):
            return values.get(path[len(name) + 2 : -2], "")
        if path == name:
            return "\n".join(f'{key}="{value}"' for key, value in sorted(values.items()))
    raise InvalidError(f"field {path!r} of the pod is not offered to containers", field="fieldPath")


def _resource(pod: Pod, container: Container, reference: _Reference) -> str:
    wanted = reference.container_name or container.name
    everyone = (*pod.spec.init_containers, *pod.spec.containers)
    found = next((one for one in everyone if one.name == wanted), None)
    if found is None:
        raise InvalidError(f"resourceFieldRef names container {wanted!r}, which the pod does not have")
    side, _, resource = reference.resource.partition(".")
    values = {"limits": found.resources.limits, "requests": found.resources.requests}.get(side)
    if values is None or resource not in values:
        raise InvalidError(f"container {wanted} has no {side or 'limits'} for {resource or 'a resource'}")
    return str(-(-values[resource].nano // 10**9))


def _key(pod: Pod, kind: str, reference: _Reference, sources: Sources) -> str | None:
    name, key = reference.name, reference.key
    data = _data(pod, kind, name, sources)
    if data is not None and key in data:
        return data[key]
    if reference.optional:
        return None
    what = "configmap" if kind.startswith("configMap") else "secret"
    if data is None:
        raise NotFoundError(f'{what} "{name}" not found', kind=what, name=name)
    raise InvalidError(f"couldn't find key {key} in {what} {pod.metadata.namespace}/{name}", field=key)


def _from_object(pod: Pod, entry: _FromObject, sources: Sources) -> dict[str, str]:
    for kind, reference in (("configMapRef", entry.config_map_ref), ("secretRef", entry.secret_ref)):
        if reference is not None:
            name = reference.name
            data = _data(pod, kind, name, sources)
            if data is None and not reference.optional:
                what = "configmap" if kind == "configMapRef" else "secret"
                raise NotFoundError(f'{what} "{name}" not found', kind=what, name=name)
            return {f"{entry.prefix}{key}": value for key, value in sorted((data or {}).items())}
    return {}


def _typed(raw: Any, kind: type[T], where: str) -> T:
    try:
        return view(raw, kind)
    except InvalidError as error:
        raise InvalidError(f"{where}: {error}", field=where) from error


def _data(pod: Pod, kind: str, name: str, sources: Sources) -> Mapping[str, str] | None:
    read = sources.config_map if kind.startswith("configMap") else sources.secret
    return read(pod.metadata.namespace, name)
