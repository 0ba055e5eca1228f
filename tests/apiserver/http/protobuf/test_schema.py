from __future__ import annotations

from dray.apiserver.http.protobuf.schema import Shape, message_of
from dray.apiserver.served import standard


def test_every_built_in_kind_that_is_served_has_a_message() -> None:
    missing = [
        f"{one.api_version(version)}/{one.resource.kind}"
        for one in standard().all
        for version in one.versions
        if one.resource.group != "kubevirt.io"
        and message_of(one.api_version(version), one.resource.kind) is None
    ]
    assert not missing, "run python -m tests.oracle_proto.program"


def test_bodies_of_subresources_and_deletions_have_messages() -> None:
    for api_version, kind in (("v1", "Binding"), ("policy/v1", "Eviction"), ("autoscaling/v1", "Scale")):
        assert message_of(api_version, kind), kind
    assert message_of("apps/v1", "DeleteOptions") is message_of("v1", "DeleteOptions") is not None
    assert message_of("v1", "Nothing") is None
    assert message_of("apps/v2", "Deployment") is None


def test_the_flags_of_fields() -> None:
    pod = message_of("v1", "Pod")
    assert pod is not None
    metadata, spec = pod.fields[1].message, pod.fields[2].message
    assert metadata is not None and spec is not None
    by_name = {field.name: field for message in (metadata, spec) for field in message.fields.values()}
    assert by_name["labels"].shape is Shape.MAP and not by_name["labels"].stays
    assert by_name["containers"].shape is Shape.LIST and by_name["containers"].stays
    assert by_name["hostUsers"].shape is Shape.OPTIONAL and not by_name["hostUsers"].needs_value
    assert by_name["nodeName"].needs_value and by_name["creationTimestamp"].needs_value


def test_every_field_of_every_message_can_be_read() -> None:
    served = [message_of(one.api_version(one.versions[0]), one.resource.kind) for one in standard().all]
    waiting, seen = [message for message in served if message], set[str]()
    while waiting:
        message = waiting.pop()
        if message.name not in seen:
            seen.add(message.name)
            assert all((one.read is None) != (one.message is None) for one in message.fields.values())
            waiting += [one.message for one in message.fields.values() if one.message]
    assert len(seen) > 300
