from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.apiserver.http.paths import Group, Place, parse_path
from dray.apiserver.served import standard
from dray.errors import InvalidError, NotFoundError

SERVING = standard()


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/api/v1/pods", ("pods", "", "", "")),
        ("/api/v1/pods/", ("pods", "", "", "")),
        ("/api/v1/namespaces/a/pods", ("pods", "a", "", "")),
        ("/api/v1/namespaces/a/pods/b", ("pods", "a", "b", "")),
        ("/api/v1/namespaces/a/pods/b/status", ("pods", "a", "b", "status")),
        ("/api/v1/namespaces/a/pods/b%2Dc/binding", ("pods", "a", "b-c", "binding")),
        ("/api/v1/namespaces", ("namespaces", "", "", "")),
        ("/api/v1/namespaces/a", ("namespaces", "", "a", "")),
        ("/api/v1/namespaces/a/status", ("namespaces", "", "a", "status")),
        ("/api/v1/namespaces/a/finalize", ("namespaces", "", "a", "finalize")),
        ("/api/v1/nodes/n/status", ("nodes", "", "n", "status")),
        ("/apis/resource.k8s.io/v1/resourceslices/s", ("resourceslices", "", "s", "")),
        (
            "/apis/resource.k8s.io/v1/namespaces/a/resourceclaims/c/status",
            ("resourceclaims", "a", "c", "status"),
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/namespaces/leases/status",
            ("leases", "namespaces", "status", ""),
        ),
    ],
)
def test_objects_and_collections(path: str, place: tuple[str, str, str, str]) -> None:
    found = parse_path(path, SERVING)
    assert isinstance(found, Place)
    assert (found.served.resource.plural, found.namespace, found.name, found.subresource) == place
    assert found.is_collection == (place[2] == "")


@pytest.mark.parametrize(
    ("path", "group"),
    [
        ("/api", Group(True)),
        ("/api/", Group(True)),
        ("/api/v1", Group(True, "", "v1")),
        ("/apis", Group(False)),
        ("/apis/apps", Group(False, "apps")),
        ("/apis/resource.k8s.io/v1beta2", Group(False, "resource.k8s.io", "v1beta2")),
    ],
)
def test_discovery(path: str, group: Group) -> None:
    assert parse_path(path, SERVING) == group


@pytest.mark.parametrize("path", ["/", "/healthz", "/openapi/v3", "/version", "/apix"])
def test_other_paths(path: str) -> None:
    assert parse_path(path, SERVING) is None


@pytest.mark.parametrize(
    "path",
    [
        "/api/v2",
        "/api/v1/widgets",
        "/apis/example.com",
        "/apis/apps/v9",
        "/apis/apps/v9/deployments",
        "/api/v1/pods/b",
        "/api/v1/namespaces/a/nodes/n",
        "/api/v1/namespaces/a/pods/b/log",
        "/api/v1/namespaces/a/pods/b/status/x",
        "/api/v1/namespaces//pods",
        "/api/v1/namespaces/a/pods//status",
        "/api//v1",
        "/apis//v1",
    ],
)
def test_what_nobody_serves(path: str) -> None:
    with pytest.raises(NotFoundError, match="could not find the requested resource"):
        parse_path(path, SERVING)


@pytest.mark.parametrize("step", ["..", ".", "a%2Fb", "%2e%2e", "a%25b", "%ff"])
def test_no_segment_leads_elsewhere(step: str) -> None:
    with pytest.raises(InvalidError, match="segment"):
        parse_path(f"/api/v1/namespaces/{step}/pods", SERVING)


@given(
    st.lists(
        st.sampled_from(["api", "apis", "v1", "apps", "namespaces", "pods", "a", "", "%", "..", "status"])
    )
)
def test_any_path_is_a_place_or_a_clear_refusal(parts: list[str]) -> None:
    try:
        parse_path("/" + "/".join(parts), SERVING)
    except (InvalidError, NotFoundError) as error:
        assert str(error)
