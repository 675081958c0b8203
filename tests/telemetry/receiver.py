"""A receiver on this machine for OpenTelemetry's exporters and Sentry's library."""

import gzip
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass
class Receiver:
    """The received data."""

    port: int = 0
    bodies: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])

    @property
    def all_spans(self) -> list[Span]:
        """The spans."""
        sent = [body for path, body in self.bodies if "traces" in path]
        requests = [ExportTraceServiceRequest.FromString(body) for body in sent]
        return [
            span
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def spans(self) -> dict[str, Span]:
        """The spans by their names; for duplicate names the last one."""
        return {span.name: span for span in self.all_spans}

    @property
    def events(self) -> list[dict[str, Any]]:
        """Sentry's events."""
        envelopes = [body.split(b"\n") for path, body in self.bodies if "envelope" in path]
        return [
            json.loads(content)
            for lines in envelopes
            for header, content in zip(lines[1::2], lines[2::2], strict=False)
            if json.loads(header).get("type") == "event"
        ]

    @property
    def text(self) -> bytes:
        """Everything received."""
        return b"\n".join(body for _, body in self.bodies)


@contextmanager
def receiving() -> Generator[Receiver]:
    """Run a receiver."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            receiver.bodies.append((self.path, body))
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
