from __future__ import annotations

import io
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from dray.errors import UnavailableError
from dray.runtime.logs import setup_logs
from dray.runtime.traces import (
    STOP_SECONDS,
    first_span_id,
    span,
    start_traces,
    stop_traces,
    tell_span,
    trace_id_of,
)
from tests.otlp_receiver import Collector, collecting

UID = "3f0b1b52-9c4e-4d0a-8a2e-5d6f7a8b9c0d"
TRACE = UID.replace("-", "")
FIRST = f"{first_span_id(UID):016x}"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.endpoint)
        start_traces()
        try:
            yield found
        finally:
            stop_traces()


def test_spans_of_parts_that_know_nothing_of_each_other_have_one_trace_and_one_parent(
    collector: Collector,
) -> None:
    with span("agent", "prepare", UID, driver="gpu.example.com"):
        pass
    began = datetime(2030, 1, 1, tzinfo=UTC)
    tell_span("scheduler", "allocate", UID, (began, began + timedelta(milliseconds=7)))
    stop_traces()
    prepare, allocate = collector.of(TRACE)
    assert (allocate.service, allocate.name, allocate.id, allocate.parent) == (
        "dray-scheduler",
        "allocate",
        FIRST,
        "",
    )
    assert allocate.nanoseconds == 7_000_000
    assert (prepare.service, prepare.name, prepare.parent) == ("dray-agent", "prepare", FIRST)
    assert prepare.facts["driver"] == "gpu.example.com"
    assert prepare.facts["k8s.resourceclaim.uid"] == UID


def test_several_claims_have_a_span_each_and_an_error_is_told_and_goes_on(collector: Collector) -> None:
    other = str(uuid.uuid4())
    with pytest.raises(UnavailableError), span("kubelet", "start", (UID, other)):
        raise UnavailableError("no answer")
    with pytest.raises(KeyError), span("kubelet", "start", UID):
        raise KeyError("private")
    stop_traces()
    assert [one.error for one in collector.of(TRACE)] == ["no answer", "KeyError"]
    assert [one.parent for one in collector.of(other.replace("-", ""))] == [f"{first_span_id(other):016x}"]


def test_off_a_span_does_nothing_and_asks_for_nothing() -> None:
    def uids() -> Iterator[str]:
        raise AssertionError("asked")
        yield ""

    start_traces({})
    start_traces({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"})
    with span("kubelet", "start", uids()):
        pass


def test_an_id_that_is_no_uuid_has_a_trace_too() -> None:
    assert trace_id_of(UID) == uuid.UUID(UID).int
    assert 0 < trace_id_of("static-pod") < 2**128
    assert trace_id_of("00000000-0000-0000-0000-000000000000") > 0


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    setup_logs("text", "info", stream)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace.export", None)
    start_traces({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
    assert "pip install 'dray[otel]'" in stream.getvalue()
    with span("agent", "prepare", UID):
        pass


PROGRAM = """
from dray.runtime.logs import setup_logs
from dray.runtime.tasks import run_until_signalled
from dray.runtime.traces import span

async def main():
    with span("agent", "prepare", "u1"):
        print("done", flush=True)

setup_logs()
run_until_signalled(main)
"""


def test_a_collector_that_is_away_holds_nobody_up_and_its_password_is_not_told() -> None:
    environ = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://me:hunter22@127.0.0.1:1"}
    words = [sys.executable, "-c", PROGRAM]
    patience = STOP_SECONDS + 10  # one that waits for the collector for ever is ended, and the test fails
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environ, timeout=patience)
    assert done.stdout == "done\n"
    assert "to=127.0.0.1:1" in done.stderr
    assert 'msg="the last traces could not be sent"' in done.stderr
    assert "hunter22" not in done.stderr


def test_nothing_of_it_is_imported_while_it_is_off() -> None:
    code = "import sys, dray.runtime.tasks; sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    environ = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=environ).returncode == 0
