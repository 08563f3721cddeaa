"""A receiver of traces: OTLP over HTTP as protobuf."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Span:
    """A span as it was received, with its attributes by name."""

    def __init__(self, span, resource):
        self.name, self.kind, self.status = span.name, span.kind, span.status
        self.trace, self.id, self.parent = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
        self.start, self.end, self.events, self.trace_state = span.start_time_unix_nano, span.end_time_unix_nano, span.events, span.trace_state
        self.attributes, self.resource = read(span.attributes), resource

    def __repr__(self):
        return f"{self.name} {self.id} in {self.parent or self.trace} {self.attributes}"


def read(attributes):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


class Receiver:
    """Keeps the spans that it gets. One that does not answer holds each request until it ends."""

    def __init__(self, status=200, answers=True):
        self.spans, self.requests, self.headers, self.status = [], 0, [], status
        self.changed, self.ended = threading.Condition(), threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with receiver.changed:
                    receiver.requests += 1
                    receiver.headers.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                    receiver.changed.notify_all()
                if not answers:
                    receiver.ended.wait()
                    return
                if receiver.status == 200:
                    receiver.take(body)
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, body):
        received = ExportTraceServiceRequest.FromString(body)
        with self.changed:
            for of_resource in received.resource_spans:
                resource = read(of_resource.resource.attributes)
                for scope in of_resource.scope_spans:
                    self.spans += [Span(span, resource) for span in scope.spans]
            self.changed.notify_all()

    def wait(self, until, seconds=30):
        """Returns once the receiver is as `until` says, and fails where it does not become so."""
        with self.changed:
            assert self.changed.wait_for(lambda: until(self), seconds), self.spans

    def tree(self, trace, name):
        """The span of this name in a trace, and those in it, once the request is over: what is in a span is sent before it or with it."""
        def of(receiver):
            return [span for span in receiver.spans if span.trace == trace and span.name == name]

        self.wait(of)
        root = of(self)[0]
        return root, [span for span in self.spans if span.trace == trace and span.parent == root.id]

    def stop(self):
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()
