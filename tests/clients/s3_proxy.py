"""Stands between the binary and an S3-compatible server: counts requests, refuses some, lets some wait, or answers none."""

import contextlib
import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

DENIED = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>no</Message></Error>"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        proxy = self.server.proxy
        proxy.arrived(self.command, self.path)
        if proxy.is_down:
            self.close_connection = True
            return
        status, headers, answer = (403, {}, DENIED) if proxy.denies(self.command) else self.forward(body)
        with contextlib.suppress(ConnectionError):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if "Content-Length" not in headers:
                self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

    def forward(self, body):
        server = http.client.HTTPConnection(self.server.proxy.server)
        server.request(self.command, self.path, body, dict(self.headers))
        answer = server.getresponse()
        content = answer.read()
        kept = {name.title(): value for name, value in answer.getheaders()}
        for name in ("Transfer-Encoding", "Connection", "Server", "Date"):
            kept.pop(name, None)
        return answer.status, kept, content

    def log_message(self, *_):
        pass


class S3Proxy:
    """A proxy of the server at `endpoint` while it is entered."""

    def __init__(self, endpoint):
        self.server = urlsplit(endpoint).netloc
        self.denies = lambda method: False
        # Connections end without an answer.
        self.is_down = False
        self.waits = lambda path, earlier: False
        self.requests = []
        self.changed = threading.Condition()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.proxy = self
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def __enter__(self):
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.release()
        self.http.shutdown()
        self.http.server_close()

    def arrived(self, method, path):
        """Counts a request, which goes on when it need not wait."""
        with self.changed:
            earlier = list(self.requests)
            self.requests.append((method, path))
            self.changed.notify_all()
            self.changed.wait_for(lambda: not self.waits(path, earlier))

    def release(self):
        with self.changed:
            self.waits = lambda path, earlier: False
            self.changed.notify_all()

    def wait_until(self, reached):
        """Returns when `reached` is true of the requests that have arrived."""
        with self.changed:
            assert self.changed.wait_for(lambda: reached(self.requests), 60), self.requests
