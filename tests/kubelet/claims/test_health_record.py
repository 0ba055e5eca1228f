from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dray.errors import InvalidError
from dray.kubelet.claims.health_record import (
    HEALTHY,
    MOST_DEVICES,
    UNHEALTHY,
    UNKNOWN,
    DeviceHealth,
    HealthRecord,
    cut,
    decode,
)

START = datetime(2030, 1, 1, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def device(name: str, health: str = HEALTHY, timeout: float = 30.0, message: str = "") -> DeviceHealth:
    return DeviceHealth("p", name, health, START, timeout, message)


def word(record: HealthRecord, name: str = "d", seconds: float = 0, driver: str = "a.io") -> str:
    return record.get(driver, "p", name, after(seconds)).health


def test_new_changed_and_same() -> None:
    record = HealthRecord()
    assert record.update("a.io", "e", [device("d"), device("x")], START) == {("p", "d"), ("p", "x")}
    assert record.update("a.io", "e", [device("d"), device("x")], after(1)) == frozenset()
    assert record.update("a.io", "e", [device("d", UNHEALTHY), device("x")], after(2)) == {("p", "d")}
    assert record.update("a.io", "e", [device("d", UNHEALTHY, message="hot"), device("x")], after(3)) == {
        ("p", "d")
    }
    assert record.update("a.io", "e", [device("d", UNHEALTHY, 60, "hot"), device("x")], after(4)) == {
        ("p", "d")
    }
    assert record.get("a.io", "p", "d", after(4)).message == "hot"


def test_unknown_ones() -> None:
    record = HealthRecord()
    record.update("a.io", "e", [device("d")], START)
    assert word(record, "other") == word(record, driver="b.io") == UNKNOWN
    assert record.get("a.io", "other", "d", START).health == UNKNOWN


@pytest.mark.parametrize(("timeout", "seconds"), [(30.0, 30.0), (0.0, 30.0), (5.0, 5.0)])
def test_a_word_holds_for_its_time(timeout: float, seconds: float) -> None:
    record = HealthRecord()
    record.update("a.io", "e", [device("d", timeout=timeout, message="fine")], START)
    assert word(record, seconds=seconds) == HEALTHY
    late = record.get("a.io", "p", "d", after(seconds + 0.1))
    assert (late.health, late.message) == (UNKNOWN, "")


def test_a_device_that_is_not_told_any_more() -> None:
    record = HealthRecord()
    record.update("a.io", "e", [device("d"), device("x")], START)
    assert record.update("a.io", "e", [device("x")], after(10)) == frozenset()
    assert word(record, seconds=10) == HEALTHY
    assert record.update("a.io", "e", [device("x")], after(31)) == {("p", "d")}
    assert word(record, seconds=31) == UNKNOWN


def test_a_silent_device_that_speaks_again_is_a_change() -> None:
    record = HealthRecord()
    record.update("a.io", "e", [device("d")], START)
    assert record.update("a.io", "e", [device("d")], after(100)) == {("p", "d")}


def test_two_endpoints_do_not_clear_each_other() -> None:
    record = HealthRecord()
    record.update("a.io", "old", [device("d"), device("only-old")], START)
    record.update("a.io", "new", [device("d", UNHEALTHY)], after(1))
    assert word(record, seconds=1) == UNHEALTHY
    assert record.clear("a.io", "old", after(2)) == {("p", "only-old")}
    assert word(record, seconds=2) == UNHEALTHY
    assert record.clear("a.io", "new", after(3)) == {("p", "d")}
    assert word(record, seconds=3) == UNKNOWN
    assert record.clear("a.io", "never", after(3)) == frozenset()


def test_what_was_restored_stays_while_one_endpoint_tells() -> None:
    record = HealthRecord({"a.io": [device("restored")]})
    record.update("a.io", "old", [device("d")], START)
    record.update("a.io", "new", [device("d")], START)
    record.clear("a.io", "old", after(1))
    assert (word(record, "d", 1), word(record, "restored", 1)) == (HEALTHY, HEALTHY)
    record.clear("a.io", "new", after(2))
    assert (word(record, "d", 2), word(record, "restored", 2)) == (UNKNOWN, UNKNOWN)
    assert record.encode() == b"{}"


def test_nothing_is_left_of_an_endpoint_that_ended() -> None:
    record = HealthRecord()
    record.update("a.io", "e", [device("d")], START)
    record.clear("a.io", "e", after(1))
    assert record.encode() == b"{}"


def test_the_newest_word_counts_whoever_said_it() -> None:
    record = HealthRecord()
    record.update("a.io", "old", [device("d")], START)
    record.update("a.io", "new", [device("d")], after(1))
    assert record.update("a.io", "old", [device("d", UNHEALTHY)], after(2)) == {("p", "d")}
    assert word(record, seconds=2) == UNHEALTHY


def test_the_file_as_a_kubelet_reads_it() -> None:
    record = HealthRecord()
    record.update("a.io", "e", [device("d", UNHEALTHY, 5, "hot")], START)
    assert record.encode() == (
        b'{"a.io":{"Devices":{"p/d":{"PoolName":"p","DeviceName":"d","Health":"Unhealthy",'
        b'"LastUpdated":"2030-01-01T00:00:00Z","HealthCheckTimeout":5000000000,"Message":"hot"}}}}'
    )
    again = decode(record.encode())
    assert again.get("a.io", "p", "d", START) == device("d", UNHEALTHY, 5, "hot")


def test_a_file_that_a_kubelet_wrote() -> None:
    content = (
        b'{"a.io":{"Devices":{"p/d":{"PoolName":"p","DeviceName":"d","Health":"Healthy",'
        b'"LastUpdated":"2030-01-01T01:00:00.123456789+01:00","HealthCheckTimeout":0,"Message":""}}}}'
    )
    record = decode(content)
    assert word(record, seconds=29) == HEALTHY
    # The restored word goes with the first endpoint that ends.
    record.update("a.io", "e", [], after(1))
    record.clear("a.io", "e", after(2))
    assert word(record, seconds=2) == UNKNOWN


def test_a_word_without_a_time_limit_holds_as_long_as_usual() -> None:
    row = b'"PoolName":"p","DeviceName":"d","Health":"Healthy","LastUpdated":"2030-01-01T00:00:00Z"'
    record = decode(b'{"a.io":{"Devices":{"p/d":{%s}}}}' % row)
    assert (word(record, seconds=29), word(record, seconds=31)) == (HEALTHY, UNKNOWN)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a":{"Devices":7}}', b"\xff"])
def test_files_that_are_none(content: bytes) -> None:
    with pytest.raises(InvalidError):
        decode(content)


def test_an_empty_file_of_a_kubelet() -> None:
    assert decode(b"null").encode() == decode(b"{}").encode() == b"{}"


def test_a_driver_cannot_fill_the_memory() -> None:
    record = HealthRecord()
    record.update("a.io", "e", [device(str(n)) for n in range(MOST_DEVICES + 5)], START)
    assert word(record, str(MOST_DEVICES - 1)) == HEALTHY
    assert word(record, str(MOST_DEVICES)) == UNKNOWN


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x" * 1024, "x" * 1024),
        ("x" * 1025, "x" * 1021 + "..."),
        ("é" * 600, "é" * 510 + "..."),
        ("", ""),
    ],
)
def test_long_messages_are_cut(text: str, shown: str) -> None:
    assert cut(text) == shown
