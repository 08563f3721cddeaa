"""Requests that are meant to hurt: each gets a clear answer in bounded time and memory, while others are served.

`pytest -s tests/clients/test_hostile.py` prints what each of them took.
"""

import gzip
import json
import socket
import threading
import time

import pytest

from server import Server

DOCUMENTS = 60_000
# Of the debug build on a busy machine.
ANSWERED_S = 60
OTHERS_S = 30
PEAK_BYTES = 1_500 << 20


@pytest.fixture(scope="module")
def served(binary, tmp_path_factory):
    from frostline import Frostline

    folder = tmp_path_factory.mktemp("hostile")
    frostline = Frostline(binary, folder / "repo", folder / "data")
    lines = (
        json.dumps({
            "@timestamp": f"2024-05-01T{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}Z", "n": n, "id": f"{n * 2654435761 % 2**32:08x}",
            "user": f"u{n % 997}", "text": f"request {n} of user{n % 7} " + "a" * (n % 40),
        })
        for n in range(DOCUMENTS)
    )
    frostline.ingest("web", lines)
    server = Server(frostline, "--memory", "512MiB")
    yield server
    assert server.stop() == 0
    assert "panicked" not in server.log.read_text()


class Others:
    """A client that asks something cheap all the time."""

    def __init__(self, server):
        self.server, self.took, self.stopped = server, [], threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.ask, daemon=True)
        self.thread.start()
        return self

    def ask(self):
        while not self.stopped.is_set():
            started = time.monotonic()
            status, _, body = self.server.ask("GET", "/web/_count")
            self.took.append((time.monotonic() - started, status, body))

    def __exit__(self, *_):
        self.stopped.set()
        self.thread.join(120)
        assert self.took and all(status == 200 for _, status, _ in self.took), self.took[-1]
        assert max(self.took)[0] < OTHERS_S, max(self.took)


def peak_bytes(server):
    peak = next(line for line in open(f"/proc/{server.process.pid}/status") if line.startswith("VmHWM"))
    return int(peak.split()[1]) << 10


def connect(server):
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=ANSWERED_S)


def raw(server, sent, answers=1, ends=False):
    """What is answered to bytes, until so many answers have begun or the connection is closed."""
    with connect(server) as connection:
        try:
            connection.sendall(sent)
            if ends:
                connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        answer = b""
        while answer.count(b"HTTP/1.1 ") < answers or not answer.endswith((b"}", b"\r\n\r\n")):
            try:
                some = connection.recv(1 << 16)
            except OSError:
                break
            if not some:
                break
            answer += some
        return answer


def told(name, took, statuses, server):
    print(f"{name:34} {took:6.2f} s  {statuses}  peak {peak_bytes(server) >> 20} MiB")


HEAVY = {
    "terms of every document": {"size": 0, "aggs": {"a": {"terms": {"field": "id", "size": 1_000_000}}}},
    "terms below terms": {"size": 0, "aggs": {"a": {"terms": {"field": "id", "size": 60_000}, "aggs": {"b": {"terms": {"field": "user", "size": 1_000}}}}}},
    "a histogram of 10^9 buckets": {"size": 0, "aggs": {"a": {"histogram": {"field": "n", "interval": 0.00006, "min_doc_count": 0}}}},
    "a date histogram of milliseconds": {"size": 0, "aggs": {"a": {"date_histogram": {"field": "@timestamp", "fixed_interval": "1ms", "min_doc_count": 0}}}},
    "extended bounds": {"size": 0, "aggs": {"a": {"histogram": {"field": "n", "interval": 1, "min_doc_count": 0, "extended_bounds": {"min": 0, "max": 10**15}}}}},
    "a composite of all": {"size": 0, "aggs": {"a": {"composite": {"size": 60_000, "sources": [{"i": {"terms": {"field": "id"}}}, {"u": {"terms": {"field": "user"}}}]}}}},
    "a regular expression, nested": {"query": {"regexp": {"text": "(a+)+(a+)+(a+)+b"}}},
    "a regular expression, repeated": {"query": {"regexp": {"id": "((a{1,1000}){1,1000}){1,1000}"}}},
    "a regular expression of 900 letters": {"query": {"regexp": {"id": ".*" + ".?" * 440 + "x"}}},
    "a wildcard of 500 stars": {"query": {"wildcard": {"text": "*a" * 500 + "*z"}}},
    "wildcards over everything": {"query": {"query_string": {"query": "*a* AND *e* AND *r* AND *0* AND NOT *zz*"}}},
    "wildcards of fields and values": {"query": {"query_string": {"query": "*:*a*", "analyze_wildcard": True}}},
    "8 wildcards": {"query": {"bool": {"should": [{"wildcard": {"text": f"*{n}*"}} for n in range(8)]}}},
    "2,000 terms in a query string": {"query": {"query_string": {"query": " OR ".join(f"w{n}" for n in range(2_000))}}},
    "65,536 terms": {"query": {"terms": {"id": [f"{n:08x}" for n in range(65_536)]}}},
    "a phrase of 5,000 words": {"query": {"match_phrase": {"text": "request of " * 2_500}}},
    "10,000 hits": {"size": 10_000, "sort": ["n"]},
    "hits beyond the window": {"from": 1_000_000_000, "size": 10},
    "10,000 aggregations": {"size": 0, "aggs": {f"a{n}": {"max": {"field": "n"}} for n in range(10_000)}},
    "a script that multiplies": {"size": 0, "aggs": {"h": {"histogram": {"field": "n", "interval": 10}, "aggs": {"m": {"max": {"field": "n"}}, "s": {"bucket_script": {"buckets_path": {"m": "m"}, "script": "params.m" + " * params.m" * 5_000}}}}}},
}


@pytest.mark.parametrize("name", HEAVY)
def test_a_heavy_search_is_answered_or_refused_while_others_are_served(served, name):
    with Others(served):
        started = time.monotonic()
        status, _, answer = served.ask("POST", "/web/_search?filter_path=hits.total,error.reason", HEAVY[name])
        took = time.monotonic() - started
    assert status in (200, 400, 429), answer[:500]
    assert status == 200 or json.loads(answer)["error"]["reason"], answer[:500]
    told(name, took, status, served)
    assert took < ANSWERED_S and peak_bytes(served) < PEAK_BYTES


def deep(opens, closes, times=10_000, inner=b"1"):
    return opens * times + inner + closes * times


DEEP = {
    "query": ("POST", "/web/_search", deep(b'{"query":{"bool":{"must":', b"}}}")),
    "aggregations": ("POST", "/web/_search", b'{"aggs":' + deep(b'{"a":{"filter":{"match_all":{}},"aggs":', b"}}", inner=b"{}") + b"}"),
    "query string": ("POST", "/web/_search", json.dumps({"query": {"query_string": {"query": "(" * 10_000 + "a" + ")" * 10_000}}}).encode()),
    "nots of a query string": ("POST", "/web/_search", json.dumps({"query": {"query_string": {"query": "NOT " * 10_000 + "a"}}}).encode()),
    "regular expression": ("POST", "/web/_search", json.dumps({"query": {"regexp": {"id": "(" * 400 + "a" + ")" * 400}}}).encode()),
    "document": ("POST", "/deep/_doc", deep(b'{"a":', b"}")),
    "list": ("POST", "/deep/_doc", b'{"a":' + deep(b"[", b"]") + b"}"),
    "bulk": ("POST", "/_bulk", b'{"index":{"_index":"deep"}}\n' + deep(b'{"a":', b"}") + b"\n"),
    "mapping": ("PUT", "/deeper", b'{"mappings":' + deep(b'{"properties":{"a":', b"}}", inner=b"{}") + b"}"),
    "pipeline": ("PUT", "/_ingest/pipeline/deep", b'{"processors":' + deep(b'[{"foreach":{"field":"a","processor":', b"}}]", inner=b"{}") + b"}"),
    "SQL": ("POST", "/_sql", json.dumps({"query": "SELECT " + "(" * 10_000 + "1" + ")" * 10_000}).encode()),
    "SQL of ands": ("POST", "/_sql", json.dumps({"query": "SELECT count(*) FROM web WHERE " + " AND ".join(["n > 1"] * 3_000)}).encode()),
    "filter_path": ("GET", "/web/_search?filter_path=" + "a." * 5_000, None),
    "index expression": ("GET", "/" + "-a," * 5_000 + "/_count", None),
}


@pytest.mark.parametrize("name", DEEP)
def test_what_is_deep_is_answered(served, name):
    method, path, body = DEEP[name]
    with Others(served):
        started = time.monotonic()
        content = {"Content-Type": "application/x-ndjson"} if name == "bulk" else {}
        status, _, answer = served.ask(method, path, body, content)
        took = time.monotonic() - started
    assert status < 500 or status == 501, answer[:500]
    if status >= 400:
        assert json.loads(answer)["error"]["reason"], answer[:500]
    told(f"10,000 deep: {name}", took, status, served)
    assert took < ANSWERED_S and peak_bytes(served) < PEAK_BYTES


HEAD = b"POST /web/_search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
MALFORMED = {
    "no request": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", (b"400",)),
    "no version": (b"GET /web/_count\r\n\r\n", (b"400", b"")),
    "another version": (b"GET / HTTP/9.9\r\n\r\n", (b"400", b"505", b"")),
    "two lengths": (HEAD + b"content-length: 2\r\ncontent-length: 40\r\n\r\n{}", (b"400",)),
    "a length and chunks": (HEAD + b"content-length: 400\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", (b"200", b"400")),
    "a negative length": (HEAD + b"content-length: -1\r\n\r\n{}", (b"400",)),
    "a huge length": (HEAD + b"content-length: 99999999999999999999\r\n\r\n{}", (b"400",)),
    "a length beyond the limit": (HEAD + b"content-length: 99999999999\r\n\r\n{}", (b"413",)),
    "a wrong chunk": (HEAD + b"transfer-encoding: chunked\r\n\r\nxyz\r\n{}\r\n0\r\n\r\n", (b"400",)),
    "half a body": (HEAD + b"content-length: 400\r\n\r\n{", (b"400", b"408", b"")),
    "a head beyond the limit": (b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 200_000 + b"\r\n\r\n", (b"431",)),
    "1,000 headers": (b"GET / HTTP/1.1\r\nhost: localhost\r\n" + b"a: b\r\n" * 1_000 + b"\r\n", (b"431",)),
    "a path beyond the limit": (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n", (b"414", b"431")),
    "bytes in a path": (b"GET /%ff%00 HTTP/1.1\r\nhost: localhost\r\n\r\n", (b"400",)),
    "bytes in a header": (b"GET / HTTP/1.1\r\nhost: localhost\r\nx-opaque-id: \xff\xfe\r\n\r\n", (b"200", b"400")),
    "no gzip": (HEAD + b"content-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}", (b"400",)),
    "another encoding": (HEAD + b"content-encoding: br\r\ncontent-length: 2\r\n\r\n{}", (b"400", b"406", b"415")),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_request_is_refused(served, name):
    sent, allowed = MALFORMED[name]
    with Others(served):
        answer = raw(served, sent, ends=name == "half a body")
    status = answer.split(b" ")[1] if answer else b""
    assert status in allowed, answer[:500]


def test_bombs_are_refused_before_they_are_unpacked(served):
    spaces = gzip.compress(b" " * (300 << 20), 9)
    with Others(served):
        for path, body in (("/web/_search", spaces), ("/_bulk", spaces), ("/web/_doc", gzip.compress(b'{"a":"' + b"a" * (200 << 20), 9))):
            status, _, answer = served.ask("POST", path, body, {"Content-Encoding": "gzip"})
            assert status == 413, (path, answer)
        # What unpacks to something packed is not unpacked again.
        assert served.ask("POST", "/web/_search", gzip.compress(gzip.compress(b"{}")), {"Content-Encoding": "gzip"})[0] == 400
    assert peak_bytes(served) < PEAK_BYTES


def test_pipelined_requests_are_answered_in_their_order(served):
    asked = 500
    lines = b"".join(b"GET /web/_count?q=n:%d HTTP/1.1\r\nhost: localhost\r\nx-opaque-id: %d\r\n\r\n" % (n, n) for n in range(asked))
    with Others(served):
        answer = raw(served, lines, answers=asked)
    ids = [int(line.split(b":")[1]) for line in answer.split(b"\r\n") if line.lower().startswith(b"x-opaque-id:")]
    assert ids == list(range(asked)) and answer.count(b"HTTP/1.1 200") == asked


def test_slow_and_idle_clients_keep_nobody_waiting(served):
    started = time.monotonic()
    idle = [connect(served) for _ in range(1_000)]
    slow = [connect(served) for _ in range(100)]
    with Others(served) as others:
        for connection in slow[:50]:
            connection.sendall(HEAD + b"content-length: 5000\r\n\r\n")
        for byte in HEAD[:30]:
            for connection in slow[50:]:
                connection.sendall(bytes([byte]))
            for connection in slow[:50]:
                connection.sendall(b" ")
    told("1,000 idle and 100 slow clients", time.monotonic() - started, f"slowest other {max(others.took)[0]:.2f} s", served)
    for connection in idle + slow:
        connection.close()
    assert peak_bytes(served) < PEAK_BYTES


def test_clients_that_never_read_hold_bounded_memory(served):
    request = json.dumps({"size": 4_000, "sort": ["n"]}).encode()
    held = []
    with Others(served) as others:
        for _ in range(60):
            connection = connect(served)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            connection.sendall((HEAD + b"content-length: %d\r\n\r\n" % len(request)) + request)
            held.append(connection)
        # Until those that were asked first are answered: their first bytes are here.
        for connection in held[:20]:
            assert connection.recv(12).startswith(b"HTTP/1.1 ")
    told("60 clients that never read", 0, f"slowest other {max(others.took)[0]:.2f} s", served)
    for connection in held:
        connection.close()
    assert peak_bytes(served) < PEAK_BYTES
