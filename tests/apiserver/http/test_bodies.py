from __future__ import annotations

import pytest

from dray.apiserver.http.bodies import delete_options, document_of, write_options
from dray.apiserver.writing.faults import ObjectInvalidError
from dray.errors import InvalidError
from dray.runtime.http_server import RequestError


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"a": {"b": [1, "2"]}}', "application/json"),
        (b'{"a": {"b": [1, "2"]}}', "application/json; charset=utf-8"),
        (b'{"a": {"b": [1, "2"]}}', ""),
        (b"a:\n  b: [1, '2']\n", "application/yaml"),
    ],
)
def test_one_document_in_each_language(body: bytes, kind: str) -> None:
    assert document_of(body, kind) == {"a": {"b": [1, "2"]}}


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        (b"{}", "text/plain", 415),
        (b"{", "application/json", 400),
        (b"a: [", "application/yaml", 400),
        (b"a: 1\n---\nb: 2\n", "application/yaml", 400),
        (b"", "application/yaml", 400),
    ],
)
def test_what_cannot_be_read(body: bytes, kind: str, code: int) -> None:
    with pytest.raises(RequestError) as caught:
        document_of(body, kind)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("agent", "manager"),
    [
        ("kubectl/v1.36 (linux/amd64)", "kubectl"),
        ("My Program", "My Program"),
        ("", "unknown"),
        ("/x", "unknown"),
        ("a\x07b/1", "ab"),
        ("x" * 200, "x" * 128),
        ("é" * 100, "é" * 64),
    ],
)
def test_who_writes_is_in_the_user_agent(agent: str, manager: str) -> None:
    assert write_options({}, "POST", agent).field_manager == manager
    assert write_options({"fieldManager": "me"}, "POST", agent).field_manager == "me"


@pytest.mark.parametrize(
    ("query", "method", "text"),
    [
        (
            {"dryRun": "Some"},
            "POST",
            r'CreateOptions\.meta\.k8s\.io "" is invalid: dryRun: Unsupported value',
        ),
        ({"fieldValidation": "Some"}, "PUT", r"UpdateOptions.*fieldValidation: Unsupported value"),
        ({"fieldManager": "a\x07b"}, "PATCH", r"PatchOptions.*invalid character U\+0007 \(at position 1\)"),
        ({"fieldManager": "é" * 65}, "DELETE", r"DeleteOptions.*fieldManager: Too long"),
        ({"force": "false"}, "PATCH", r"force: Forbidden: may not be specified for non-apply patch"),
    ],
)
def test_options_that_make_no_sense(query: dict[str, str], method: str, text: str) -> None:
    with pytest.raises(ObjectInvalidError, match=text):
        write_options(query, method)


def test_an_apply_says_who_it_is() -> None:
    with pytest.raises(ObjectInvalidError, match="fieldManager: Required value: is required for apply patch"):
        write_options({}, "PATCH", "kubectl/1", is_apply=True)
    found = write_options({"fieldManager": "me", "force": "true", "dryRun": "All"}, "PATCH", is_apply=True)
    assert (found.field_manager, found.force, found.dry_run) == ("me", True, True)


def test_a_deletion_is_told_in_the_body_or_the_query() -> None:
    body = b'{"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 3}'
    assert delete_options(body, "application/json", {"gracePeriodSeconds": "9"}).grace_period_seconds == 3
    assert delete_options(b"", "", {"gracePeriodSeconds": "9"}).grace_period_seconds == 9
    assert delete_options(b"", "", {"propagationPolicy": "Orphan"}).propagation_policy == "Orphan"


@pytest.mark.parametrize("seconds", ["x", "-1", "1.5", "٣", "9" * 20, "9" * 5000])
def test_a_grace_that_is_no_number_is_refused(seconds: str) -> None:
    with pytest.raises(InvalidError, match="gracePeriodSeconds"):
        delete_options(b"", "", {"gracePeriodSeconds": seconds})
