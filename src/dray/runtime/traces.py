"""Traces of one thing across parts that know nothing of each other: OpenTelemetry, off unless asked for.

The trace's id is the thing's UID, and the id of its first span comes from the UID too, so every part names the same
parent without being told. On with $OTEL_EXPORTER_OTLP_ENDPOINT (the exporter reads the other OTEL_ variables) where
the extra `dray[otel]` is installed. Off, a span costs one call and a comparison.
"""

from __future__ import annotations

import hashlib
import os
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from dray.errors import Error
from dray.runtime.logs import get_log

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import Span, Tracer

FIRST: Final = "allocate"
"""The span that is the parent of all others of its trace."""
ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
STOP_SECONDS: Final = 1.5
"""For the last spans: who ends a process should not wait long for a collector that is away."""

_log = get_log("runtime.traces")
_OFF: Final = nullcontext()
_on: Tracing | None = None


def start_traces(environ: Mapping[str, str] | None = None) -> None:
    """Once, before the first span; `run_until_signalled` does it. Nothing happens where no endpoint is named."""
    global _on  # noqa: PLW0603  (one for each process, as the log is)
    environ = os.environ if environ is None else environ
    if _on is not None or not any(environ.get(name) for name in ENDPOINTS):
        return
    if (
        environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
        or environ.get("OTEL_TRACES_EXPORTER") == "none"
    ):
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        _log.warning("no traces: install them with pip install 'dray[otel]'", error=str(error))
        return
    _on = Tracing(BatchSpanProcessor(OTLPSpanExporter()), environ)
    named = next(environ[name] for name in ENDPOINTS if environ.get(name))
    _log.info("traces are sent", to=urlsplit(named).netloc.rpartition("@")[2])  # without a password in it


def stop_traces() -> None:
    """Send what is left, for a few seconds at most. After it spans cost nothing again."""
    global _on
    tracing, _on = _on, None
    if tracing is not None:
        tracing.stop()


def span(part: str, name: str, uids: str | Iterable[str], **facts: str) -> AbstractContextManager[object]:
    """What happens in the block is a span in the trace of each of these UIDs; an error in it is told and goes on.

    `part` is who does it (`scheduler`): service `dray-scheduler`, also where all parts are one process.
    """
    if _on is None:
        return _OFF
    return _on.spans(part, name, (uids,) if isinstance(uids, str) else tuple(uids), facts)


def tell_span(part: str, name: str, uid: str, times: tuple[datetime, datetime], **facts: str) -> None:
    """A span that is over, from when to when: for what is known to have happened only then, or whose UID is."""
    if _on is not None:
        _on.tell(part, name, uid, times, facts)


def trace_id_of(uid: str) -> int:
    """The UID's own 128 bits; of an id that is no UUID, as of static pods, a hash."""
    try:
        found = uuid.UUID(uid).int
    except ValueError:
        found = 0
    return found or int.from_bytes(hashlib.sha256(uid.encode()).digest()[:16])


def first_span_id(uid: str) -> int:
    """The id of the span that is everybody's parent."""
    return int.from_bytes(hashlib.sha256(f"{FIRST} {uid}".encode()).digest()[:8])


class Tracing:
    """One queue and one sender for all parts of the process. Spans are begun and ended in any thread."""

    def __init__(self, processor: SpanProcessor, environ: Mapping[str, str]) -> None:
        self._processor = processor
        self._service = environ.get("OTEL_SERVICE_NAME", "")
        self._ids = _ids()
        self._tracers: dict[str, Tracer] = {}

    @contextmanager
    def spans(self, part: str, name: str, uids: Iterable[str], facts: Mapping[str, str]) -> Iterator[None]:
        """One for each UID, begun and ended together."""
        begun = [self._begin(part, name, uid, facts) for uid in uids]
        try:
            yield
        except Error as error:
            for one in begun:
                _fail(one, str(error))
            raise
        except BaseException as error:
            for one in begun:
                _fail(one, type(error).__name__)
            raise
        finally:
            for one in begun:
                one.end()

    def tell(
        self, part: str, name: str, uid: str, times: tuple[datetime, datetime], facts: Mapping[str, str]
    ) -> None:
        """One that is over."""
        began, ended = (round(time.timestamp() * 1e6) * 1000 for time in times)
        self._begin(part, name, uid, facts, began).end(ended)

    def stop(self) -> None:
        """Whoever collects them may be away: it is waited for in a thread that nobody waits for after that."""
        ending = threading.Thread(target=self._processor.shutdown, name="traces end", daemon=True)
        ending.start()
        ending.join(STOP_SECONDS)
        if ending.is_alive():
            _log.warning("the last traces could not be sent", waited_s=STOP_SECONDS)

    def _begin(
        self, part: str, name: str, uid: str, facts: Mapping[str, str], began: int | None = None
    ) -> Span:
        from opentelemetry.context import Context
        from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

        trace, first = trace_id_of(uid), first_span_id(uid)
        attributes = {"dray.part": part, "k8s.resourceclaim.uid": uid, **facts}
        tracer = self._tracer(part)
        if name == FIRST:
            with self._ids.next_ones(trace, first):
                return tracer.start_span(name, Context(), attributes=attributes, start_time=began)
        parent = SpanContext(trace, first, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
        context = set_span_in_context(NonRecordingSpan(parent), Context())
        return tracer.start_span(name, context, attributes=attributes, start_time=began)

    def _tracer(self, part: str) -> Tracer:
        found = self._tracers.get(part)
        if found is None:
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider

            resource = Resource.create({"service.name": self._service or f"dray-{part}"})
            provider = TracerProvider(resource=resource, id_generator=self._ids, shutdown_on_exit=False)
            provider.add_span_processor(self._processor)
            found = self._tracers[part] = provider.get_tracer("dray")
        return found


def _fail(one: Span, text: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    one.set_status(Status(StatusCode.ERROR, text))


def _ids() -> Any:
    """The SDK's random ids, but for first spans, whose ids are given. Made here: the SDK may not be installed."""
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class Given(RandomIdGenerator):
        def __init__(self) -> None:
            self._given = threading.local()

        @contextmanager
        def next_ones(self, trace: int, first: int) -> Iterator[None]:
            self._given.ids = trace, first
            try:
                yield
            finally:
                self._given.ids = None

        def generate_trace_id(self) -> int:
            given = getattr(self._given, "ids", None)
            return given[0] if given else super().generate_trace_id()

        def generate_span_id(self) -> int:
            given = getattr(self._given, "ids", None)
            return given[1] if given else super().generate_span_id()

    return Given()
