"""Takes traces over OTLP/HTTP, as a collector does, on a real socket in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.waiting import PATIENCE


@dataclass(frozen=True)
class GotSpan:
    service: str
    name: str
    trace: str
    id: str
    parent: str
    error: str
    nanoseconds: int
    facts: dict[str, str]


@dataclass
class Collector:
    endpoint: str = ""
    spans: list[GotSpan] = field(default_factory=list)

    def of(self, trace: str) -> list[GotSpan]:
        return [one for one in self.spans if one.trace == trace]

    def take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            services = [
                one.value.string_value for one in resource.resource.attributes if one.key == "service.name"
            ]
            for one in (one for scope in resource.scope_spans for one in scope.spans):
                self.spans.append(
                    GotSpan(
                        services[0],
                        one.name,
                        one.trace_id.hex(),
                        one.span_id.hex(),
                        one.parent_span_id.hex(),
                        one.status.message,
                        one.end_time_unix_nano - one.start_time_unix_nano,
                        {fact.key: fact.value.string_value for fact in one.attributes},
                    )
                )


@contextmanager
def collecting() -> Iterator[Collector]:
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.path == "/v1/traces"
            found.take(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()
            self.wfile.write(ExportTraceServiceResponse().SerializeToString())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join(PATIENCE)
