"""How long data streams keep documents, and what several servers and commands know of one another's indices."""

import json

import pytest

from frostline import FAILED
from server import Server

TEMPLATE = {"index_patterns": ["app*"], "data_stream": {}}


@pytest.fixture
def servers(frostline):
    both = Server(frostline), Server(frostline)
    yield both
    for server in both:
        server.stop()


def ok(server, method, path, body=None, status=200):
    got, _, answer = server.ask(method, path, body)
    assert got == status, answer
    return json.loads(answer)


def test_a_stream_keeps_documents_as_long_as_the_command_line_says(frostline, servers):
    server, _ = servers
    ok(server, "PUT", "/_index_template/app", TEMPLATE)
    ok(server, "POST", "/app/_doc", {"@timestamp": "2099-05-01T00:00:00Z"}, status=201)
    assert frostline.ok("index", "retain", "app") == {"data_stream": "app", "retention_ms": None}
    assert frostline.ok("index", "retain", "app", "90d") == {"data_stream": "app", "retention_ms": 90 * 86_400_000}
    lifecycle = {"enabled": True, "data_retention": "90d"}
    assert ok(server, "GET", "/_data_stream/app/_lifecycle")["data_streams"] == [{"name": "app", "lifecycle": lifecycle}]
    ok(server, "POST", "/app/_rollover")
    kept = frostline.ok("index", "retain", "ds-app-*")["indices"]
    assert [index["retention_ms"] for index in kept] == [90 * 86_400_000] * 2
    ok(server, "PUT", "/_data_stream/app/_lifecycle", {"data_retention": "12h"})
    assert frostline.ok("index", "retain", "ap*")["indices"] == [{"data_stream": "app", "retention_ms": 12 * 3_600_000}]
    assert frostline.ok("index", "retain", "app", "forever") == {"data_stream": "app", "retention_ms": None}


def test_an_alias_is_its_indices(frostline, servers):
    server, _ = servers
    for name in ["web-1", "web-2"]:
        ok(server, "PUT", f"/{name}", {"aliases": {"web": {"is_write_index": name == "web-2"}}})
    kept = frostline.ok("index", "retain", "web", "7d")["indices"]
    assert [(index["index"], index["retention_ms"]) for index in kept] == [("web-1", 604_800_000), ("web-2", 604_800_000)]
    ok(server, "POST", "/web/_rollover")
    assert frostline.ok("index", "retain", "web-000003")["retention_ms"] == 604_800_000
    tables = [row[0] for row in frostline.ok("sql", "show tables")["rows"]]
    assert tables == ["web", "web-000003", "web-1", "web-2"]
    frostline.fails("index", "retain", "gone", "7d")
    frostline.fails("index", "retain", "gone*", "7d", says=["names no index"])


def test_what_one_server_closes_takes_no_writes_through_another(frostline, servers):
    one, other = servers
    for id in ["a", "b"]:
        ok(other, "PUT", f"/web/_doc/{id}", {"n": 1}, status=201)
    ok(other, "POST", "/web/_doc", {"n": 2}, status=201)
    for block in ["_close", "_block/write"]:
        ok(one, "PUT" if block.startswith("_block") else "POST", f"/web/{block}")
        # Of an index that is closed and blocked a server says what it learned first.
        expected = {400, 403} if block.startswith("_block") else {400}
        for method, path in [("PUT", "/web/_doc/a"), ("DELETE", "/web/_doc/b"), ("POST", "/web/_doc")]:
            status, _, answer = other.ask(method, path, None if method == "DELETE" else {"n": 3})
            assert status in expected, (method, path, answer)
    listed = frostline.ok("index", "list")["indices"]
    assert listed[0]["state"] == ["closed", "blocks.write"]
    ok(one, "POST", "/web/_open")
    assert ok(other, "GET", "/web/_count")["count"] == 3


def test_a_shipper_does_not_try_for_ever_what_no_server_answers(frostline, servers, tmp_path):
    log = tmp_path / "web.log"
    log.write_text("one\n")
    https = servers[0].url.replace("http://", "https://")
    said = frostline.fails("ship", "--once", "--to", https, "--index", "web", log, status=FAILED, says=["speaks TLS"])
    assert "trying again" not in said


def test_a_port_that_is_taken_is_named(frostline, servers):
    listen = servers[0].url.removeprefix("http://")
    frostline.fails("serve", "--listen", listen, says=["has this port", "choose another"])
