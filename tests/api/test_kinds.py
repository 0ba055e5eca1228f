from __future__ import annotations

import pytest

from dray.api import kinds
from dray.api.core import Pod
from dray.api.kinds import (
    ALL_RESOURCES,
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    LEASES,
    PODS,
    RESOURCE_CLAIMS,
    Resource,
    by_kind,
    by_plural,
)
from dray.api.validation.entry import validate
from dray.errors import InvalidError, NotFoundError


@pytest.mark.parametrize(
    ("resource", "arguments", "path"),
    [
        (PODS, {}, "/api/v1/pods"),
        (PODS, {"namespace": "a"}, "/api/v1/namespaces/a/pods"),
        (PODS, {"namespace": "a", "name": "b"}, "/api/v1/namespaces/a/pods/b"),
        (
            PODS,
            {"namespace": "a", "name": "b", "subresource": "binding"},
            "/api/v1/namespaces/a/pods/b/binding",
        ),
        (RESOURCE_CLAIMS, {}, "/apis/resource.k8s.io/v1/resourceclaims"),
        (
            DEVICE_CLASSES,
            {"name": "gpu.example.com"},
            "/apis/resource.k8s.io/v1/deviceclasses/gpu.example.com",
        ),
        (
            DEVICE_TAINT_RULES,
            {"name": "x", "subresource": "status"},
            "/apis/resource.k8s.io/v1beta2/devicetaintrules/x/status",
        ),
        (LEASES, {"namespace": "kube-system"}, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"),
        (PODS, {"namespace": "a", "name": "../b?c"}, "/api/v1/namespaces/a/pods/..%2Fb%3Fc"),
    ],
)
def test_path(resource: Resource[Pod], arguments: dict[str, str], path: str) -> None:
    assert resource.path(**arguments) == path


@pytest.mark.parametrize(
    ("resource", "arguments"),
    [
        (PODS, {"name": "a"}),
        (DEVICE_CLASSES, {"namespace": "a"}),
        (PODS, {"namespace": "a", "subresource": "status"}),
    ],
)
def test_no_such_path(resource: Resource[Pod], arguments: dict[str, str]) -> None:
    with pytest.raises(InvalidError):
        resource.path(**arguments)


def test_lookup() -> None:
    for resource in ALL_RESOURCES:
        assert by_kind(resource.api_version, resource.kind) is resource
        assert by_plural(resource.api_version, resource.plural) is resource
    assert by_kind("v1", "Pod").type is Pod


def test_lookup_of_the_unknown() -> None:
    with pytest.raises(InvalidError, match='no matches for kind "Pood" in version "v1"'):
        by_kind("v1", "Pood")
    with pytest.raises(NotFoundError):
        by_plural("v1", "poods")


def test_views_name_their_kind() -> None:
    for resource in ALL_RESOURCES:
        empty = resource.type()
        assert (empty.api_version, empty.kind) == (resource.api_version, resource.kind)
        assert hasattr(empty, "status") == resource.has_status


def test_every_kind_is_validated() -> None:
    for resource in ALL_RESOURCES:
        assert "metadata.name" in {error.field for error in validate(resource, resource.type())}


def test_constants_are_all_listed() -> None:
    constants = {value for value in vars(kinds).values() if isinstance(value, Resource)}
    assert constants == set(ALL_RESOURCES)
