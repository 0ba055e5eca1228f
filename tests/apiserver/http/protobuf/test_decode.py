from __future__ import annotations

from struct import pack

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.apiserver.http.bodies import delete_options, document_of
from dray.apiserver.http.protobuf.decode import PROTOBUF, decode_object
from dray.errors import InvalidError
from dray.runtime.http_server import RequestError
from tests.apiserver.http.protobuf.written import body, entry, field, varint
from tests.campaign import campaign

CUT = 3 * 2**20
SCHEMA = "apiextensions.k8s.io/v1"
KINDS = (
    ("v1", "Pod"),
    ("v1", "Secret"),
    ("apps/v1", "Deployment"),
    ("resource.k8s.io/v1", "ResourceClaim"),
    (SCHEMA, "CustomResourceDefinition"),
)


def test_an_object_with_what_go_writes_even_when_it_is_empty() -> None:
    meta = field(1, "one") + field(2, "") + field(11, entry("app", "web")) + field(8, b"")
    assert decode_object(body("v1", "Namespace", field(1, meta))) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "one", "labels": {"app": "web"}},
        "spec": {},
        "status": {},
    }


def test_a_pod() -> None:
    limits = field(1, entry("cpu", field(1, "0.5")))
    probe = field(1, field(2, field(2, field(1, 1) + field(3, "web")))) + field(2, 0)
    container = field(1, "c") + field(3, "sh") + field(3, "") + field(8, limits) + field(10, probe)
    security = field(4, 1) + field(4, varint(2) + varint(-3))
    spec = field(2, container) + field(4, 0) + field(11, 0) + field(14, security)
    volume = field(1, "v") + field(2, field(2, b""))
    pod = decode_object(body("v1", "Pod", field(2, spec + field(1, volume))))
    assert pod["spec"] == {
        "volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [
            {
                "name": "c",
                "command": ["sh", ""],
                "resources": {"limits": {"cpu": "500m"}},
                "livenessProbe": {"httpGet": {"port": "web"}},
            }
        ],
        "terminationGracePeriodSeconds": 0,
        "securityContext": {"supplementalGroups": [1, 2, -3]},
    }
    assert pod["metadata"] == {} and pod["status"] == {}


def test_an_absent_list_that_json_always_has_is_null() -> None:
    assert decode_object(body("v1", "Pod"))["spec"] == {"containers": None}


def test_a_secret_has_its_bytes_in_base64() -> None:
    raw = field(2, entry("k", b"\0\1")) + field(2, field(1, "empty")) + field(3, "Opaque")
    assert decode_object(body("v1", "Secret", raw)) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {},
        "data": {"k": "AAE=", "empty": ""},
        "type": "Opaque",
    }


def test_a_message_that_is_there_twice_is_one_and_a_value_counts_last() -> None:
    first = field(1, field(1, "a") + field(3, "default"))
    second = field(1, field(1, "b") + field(11, entry("k", "1")) + field(11, entry("k", "2")))
    decoded = decode_object(body("v1", "ConfigMap", first + second))
    assert decoded["metadata"] == {"name": "b", "namespace": "default", "labels": {"k": "2"}}


def test_fields_nobody_knows_are_ignored() -> None:
    raw = field(1, field(1, "a") + field(999, "new")) + field(77, 1) + b"\x9b\x06\x9c\x06"
    assert decode_object(body("v1", "ConfigMap", raw))["metadata"] == {"name": "a"}


def test_a_list_that_is_a_message_of_its_own() -> None:
    spec = (
        field(7, "sign")
        + field(6, entry("groups", field(1, "a") + field(1, "b")))
        + field(6, entry("none", b""))
    )
    decoded = decode_object(
        body("certificates.k8s.io/v1", "CertificateSigningRequest", field(1, b"") + field(2, spec))
    )
    assert decoded["spec"]["extra"] == {"groups": ["a", "b"], "none": []}


def schema(*properties: bytes) -> bytes:
    """A definition with one version that has a schema of these fields."""
    version = field(1, "v1") + field(4, field(1, b"".join(properties)))
    return body(SCHEMA, "CustomResourceDefinition", field(2, field(7, version)))


def test_unions_are_the_part_that_is_there() -> None:
    text = field(5, "string")
    decoded = decode_object(
        schema(
            b"\x49" + pack("<d", 1.0),
            field(20, field(1, '"x"')) + field(20, b""),
            field(24, field(1, text)),
            field(30, field(1, 1)),
            field(32, entry("texts", field(2, "a") + field(2, "b"))),
            field(32, entry("schema", field(1, text))),
            field(32, entry("none", b"")),
            field(33, field(1, 1) + field(2, text)),
            field(29, entry("list", field(24, field(2, text) + field(2, text)))),
            field(29, entry("closed", field(30, b""))),
        )
    )
    assert decoded["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == {
        "maximum": 1,
        "enum": ["x", None],
        "items": {"type": "string"},
        "additionalProperties": True,
        "dependencies": {"texts": ["a", "b"], "schema": {"type": "string"}, "none": None},
        "additionalItems": {"type": "string"},
        "properties": {
            "list": {"items": [{"type": "string"}, {"type": "string"}]},
            "closed": {"additionalProperties": False},
        },
    }


def test_the_options_of_a_deletion() -> None:
    raw = field(1, 5) + field(2, field(1, "uid-1")) + field(4, "Foreground")
    options = delete_options(body("apps/v1", "DeleteOptions", raw), PROTOBUF, {})
    assert options.grace_period_seconds == 5
    assert options.preconditions is not None and options.preconditions.uid == "uid-1"
    assert options.propagation_policy == "Foreground"


def test_the_body_of_a_request() -> None:
    assert document_of(body("v1", "ConfigMap"), f"{PROTOBUF}; charset=utf-8")["kind"] == "ConfigMap"
    with pytest.raises(
        RequestError, match=r"object provided is unrecognized.*does not start with k8s"
    ) as refused:
        document_of(b"{}", PROTOBUF)
    assert refused.value.code == 400


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "does not start with k8s"),
        (b"k8s\0", "apiVersion and kind"),
        (b"k8s\1", "does not start"),
        (b"k8s\0\x0a\x7f", "runtime.Unknown: it ends too early"),
        (b"k8s\0" + field(1, 1), "runtime.Unknown: typeMeta has wire type 0"),
        (body("", "Pod"), "apiVersion and kind"),
        (body("v1", "Pud"), 'no kind "Pud" is registered for version "v1"'),
        (body("kubevirt.io/v1", "KubeVirt"), "no kind"),
        (body("v1", "Pod", b"\x0a"), "core.v1.Pod: it ends too early"),
        (body("v1", "Pod", field(1, 1)), "core.v1.Pod: metadata has wire type 0, not 2"),
        (body("v1", "Pod", field(1, field(1, b"\xff"))), "meta.v1.ObjectMeta.name: it is not UTF-8"),
        (
            body("v1", "Pod", field(1, field(11, field(1, 1)))),
            "meta.v1.ObjectMeta.labels: key has wire type 0",
        ),
        (
            body("v1", "Pod", field(1, field(8, field(1, 2**60)))),
            "meta.v1.ObjectMeta.creationTimestamp: .*years",
        ),
        (
            body("v1", "Pod", field(2, field(14, field(4, b"\x80")))),
            "core.v1.PodSecurityContext: it ends too early",
        ),
    ],
)
def test_errors_name_the_message_and_the_field(data: bytes, why: str) -> None:
    with pytest.raises(InvalidError, match=why):
        decode_object(data)


def test_a_body_that_would_grow_without_bounds_is_refused() -> None:
    for raw in (field(2, field(2, b"") * (CUT // 2)), field(2, field(14, field(4, b"\1" * CUT)))):
        with pytest.raises(InvalidError, match="more than 200000 values"):
            decode_object(body("v1", "Pod", raw))


def test_schemas_in_schemas_end_somewhere() -> None:
    inner = field(5, "string")
    for _ in range(5000):
        inner = field(28, inner)
    with pytest.raises(InvalidError, match="deeper than 100"):
        decode_object(schema(inner))


def messages() -> st.SearchStrategy[bytes]:
    """Bytes that look like messages, so that they reach far in."""
    numbers = st.integers(1, 40)
    leaf = st.one_of(st.binary(max_size=12), st.integers(0, 2**64 - 1), st.text(max_size=5))
    one = st.builds(field, numbers, leaf)
    return st.recursive(
        st.lists(one, max_size=4).map(b"".join),
        lambda inner: st.lists(st.builds(field, numbers, inner), max_size=6).map(b"".join),
        max_leaves=30,
    )


@settings(max_examples=campaign(150, 20_000))
@given(st.sampled_from(KINDS), st.one_of(messages(), st.binary(max_size=200)))
def test_no_bytes_break_it(kind: tuple[str, str], raw: bytes) -> None:
    try:
        document = decode_object(body(*kind, raw))
    except InvalidError:
        return
    assert msgspec.json.decode(msgspec.json.encode(document)) == document
