from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest

from dray.api.codec.json_codec import decode, encode
from dray.api.core import Lease, LeaseSpec, Pod
from dray.api.meta import (
    ListMeta,
    ObjectList,
    ObjectMeta,
    Status,
    format_micro_time,
    format_time,
    parse_micro_time,
    to_time,
)
from dray.errors import InvalidError

MOMENT = datetime(2026, 11, 15, 6, 30, 1, 250, tzinfo=timezone(timedelta(hours=2)))


def test_times_are_utc_with_whole_seconds() -> None:
    assert format_time(MOMENT) == "2026-11-15T04:30:01Z"
    assert to_time(MOMENT) == datetime(2026, 11, 15, 4, 30, 1, tzinfo=UTC)
    stored = decode(encode(ObjectMeta(creation_timestamp=to_time(MOMENT))), ObjectMeta)
    assert encode(stored) == b'{"creationTimestamp":"2026-11-15T04:30:01Z"}'


def test_micro_times_always_show_six_digits() -> None:
    whole = MOMENT.replace(microsecond=0)
    assert format_micro_time(MOMENT) == "2026-11-15T04:30:01.000250Z"
    assert format_micro_time(whole) == "2026-11-15T04:30:01.000000Z"
    assert parse_micro_time(format_micro_time(MOMENT)) == MOMENT
    lease = Lease(spec=LeaseSpec(renew_time=format_micro_time(whole)))
    assert decode(encode(lease), Lease) == lease


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-15T04:30:01Z",
        "2026-11-15T04:30:01.25Z",
        "",
        "2026-11-15T04:30:01.000000Z\n",
        "2026-13-15T04:30:01.000000Z",
    ],
)
def test_other_micro_times_are_refused_as_go_refuses_them(text: str) -> None:
    with pytest.raises(InvalidError, match="renewTime"):
        decode(encode({"spec": {"renewTime": text}}), Lease)


def test_a_day_that_does_not_exist() -> None:
    with pytest.raises(InvalidError, match="2026-02-31"):
        parse_micro_time("2026-02-31T00:00:00.000000Z")


@pytest.mark.parametrize("text", ["2026-11-15T04:30:01", "yesterday", "2026-13-01T00:00:00Z"])
def test_times_without_zone_or_sense_are_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="creationTimestamp"):
        decode(encode({"creationTimestamp": text}), ObjectMeta)


def test_a_list_answer_is_typed_by_its_items() -> None:
    body = b'{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"c"},"items":[{"metadata":{"name":"a"}}]}'
    answer = decode(body, ObjectList[Pod])
    assert answer.metadata == ListMeta(resource_version="7", continue_="c")
    assert [pod.metadata.name for pod in answer.items] == ["a"]


def test_api_version_and_kind_are_written_though_they_are_defaults() -> None:
    assert encode(Pod()) == b'{"apiVersion":"v1","kind":"Pod"}'
    assert msgspec.json.decode(encode(Status(code=404))) == {
        "apiVersion": "v1",
        "kind": "Status",
        "code": 404,
    }


def test_null_timestamps_are_absent() -> None:
    assert decode(b'{"creationTimestamp":null,"labels":null}', ObjectMeta) == ObjectMeta()
