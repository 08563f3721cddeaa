"""The runner itself: what it takes for true, what it fails, and what it refuses to understand."""

import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import suite  # noqa: E402
from steps import Failed, Run, as_java, same  # noqa: E402

API = {
    "get": {"url": {"paths": [{"path": "/{index}/_doc/{id}", "methods": ["GET"], "parts": {"index": {}, "id": {}}}]}, "params": {"routing": {}}},
    "exists": {"url": {"paths": [{"path": "/{index}/_doc/{id}", "methods": ["HEAD"], "parts": {"index": {}, "id": {}}}]}},
    "search": {"url": {"paths": [{"path": "/_search", "methods": ["GET", "POST"]}, {"path": "/{index}/_search", "methods": ["GET", "POST"], "parts": {"index": {}}}]}},
    "bulk": {"url": {"paths": [{"path": "/_bulk", "methods": ["POST"]}]}, "body": {"serialize": "bulk"}},
}
ANSWERS = {
    ("GET", "/web/_doc/1"): (200, {"_id": "1", "found": True, "_source": {"n": 1, "a.b": "x", "empty": "", "list": [{"k": 1, "l": 2}, {"k": 3}]}}),
    ("GET", "/web/_doc/2"): (404, {"found": False}),
    ("GET", "/none/_doc/1"): (404, {"error": {"type": "index_not_found_exception", "reason": "no such index [none]"}, "status": 404}),
    ("HEAD", "/web/_doc/1"): (200, None),
    ("HEAD", "/web/_doc/2"): (404, None),
    ("GET", "/warned/_doc/1"): (200, {"found": True}),
    ("GET", "/text/_doc/1"): (200, "web   12 open\n"),
}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers what the table says, and keeps what was sent."""

    protocol_version = "HTTP/1.1"
    sent = []

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.sent.append((self.command, self.path, body, dict(self.headers)))
        status, value = ANSWERS.get((self.command, self.path.split("?")[0]), (200, {}))
        data = value.encode() if isinstance(value, str) else b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(value, str) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        if self.path.startswith("/warned"):
            self.send_header("Warning", '299 Elasticsearch-8 "this is old"')
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = answer

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def url():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "api").mkdir()
    for name, api in API.items():
        (tmp_path / "api" / f"{name}.json").write_text(json.dumps({name: api}))
    return tmp_path


def steps(url, folder, text, own_warnings=()):
    from steps import Server

    run = Run(Server(url), suite.Spec(folder / "api"), "3.1.0", own_warnings)
    run.steps(suite.yaml.load(text, suite.Loader))
    return run


GET = "- do: {get: {index: web, id: 1}}\n"


@pytest.mark.parametrize("claim", [
    "match: {_source.n: 1}", "match: {_source.n: 1.0}", r"match: {_source.a\.b: x}", r"match: {_source.a\.b: '/^ x $/'}",
    "match: {_source.list: [{k: 1, l: 2}, {k: 3}]}", "match: {_source.list.1.k: 3}", "match: {_source.none: null}",
    "is_true: found", "is_false: _source.empty", "is_false: _source.none", "length: {_source.list: 2}", "length: {_id: 1}",
    "gt: {_source.n: 0}", "gte: {_source.n: 1}", "lt: {_source.n: 2}", "lte: {_source.n: 1}", "contains: {_source.list: {k: 1}}",
    "close_to: {_source.n: {value: 1.01, error: 0.1}}", "exists: _source.empty", "match: {'': {_id: '1', found: true, _source: "
    "{n: 1, a.b: x, empty: '', list: [{k: 1, l: 2}, {k: 3}]}}}",
])
def test_what_holds_passes(url, folder, claim):
    steps(url, folder, f"{GET}- {claim}\n")


@pytest.mark.parametrize("claim", [
    "match: {_source.n: 2}", "match: {_source.n: '1'}", "match: {_source.n: true}", "match: {found: 1}", "match: {_source.none: 1}",
    r"match: {_source.a\.b: '/^ y $/'}", "match: {_source.none: '/.*/'}", "match: {_source.list: [{k: 1, l: 2}]}", "match: {_source.list.5: 1}",
    "is_true: _source.none", "is_true: _source.empty", "is_false: found", "length: {_source.list: 1}", "length: {_source.n: 1}",
    "gt: {_source.n: 1}", "gte: {_source.n: 2}", "lt: {_source.n: 1}", "lte: {_source.n: 0}", "gt: {_source.none: 0}", "gt: {found: 0}",
    "contains: {_source.list: {k: 2}}", "close_to: {_source.n: {value: 2, error: 0.1}}", "exists: _source.none", "set: {_source.none: x}",
])
def test_what_does_not_hold_fails(url, folder, claim):
    with pytest.raises(Failed):
        steps(url, folder, f"{GET}- {claim}\n")


@pytest.mark.parametrize("call, holds", [
    ("{get: {index: web, id: 2}}", False),
    ("{get: {index: web, id: 2, ignore: 404}}", True),
    ("{catch: missing, get: {index: web, id: 2}}", True),
    ("{catch: missing, get: {index: web, id: 1}}", False),
    ("{catch: bad_request, get: {index: web, id: 2}}", False),
    ("{catch: request, get: {index: web, id: 2}}", False),
    ("{catch: '/no such index .none./', get: {index: none, id: 1}}", True),
    ("{catch: '/type=index_not_found_exception, reason/', get: {index: none, id: 1}}", True),
    ("{catch: '/no such alias/', get: {index: none, id: 1}}", False),
    ("{catch: '/.*/', get: {index: web, id: 1}}", False),
    ("{catch: param, get: {index: web}}", True),
    ("{get: {index: web}}", False),
    ("{get: {index: web, id: 1, colour: red}}", False),
    ("{exists: {index: web, id: 2}}", True),
    ("{get: {index: warned, id: 1}}", False),
    ("{warnings: [this is old], get: {index: warned, id: 1}}", True),
    ("{allowed_warnings: [this is old], get: {index: warned, id: 1}}", True),
    ("{warnings: [this is older], get: {index: warned, id: 1}}", False),
    ("{warnings: [this is old], get: {index: web, id: 1}}", False),
    ("{node_selector: {version: ' - 2.99.99'}, get: {index: web, id: 1}}", False),
    ("{node_selector: {version: '3.0.0 - '}, get: {index: web, id: 1}}", True),
])
def test_calls(url, folder, call, holds):
    if holds:
        steps(url, folder, f"- do: {call}\n")
    else:
        with pytest.raises(Failed):
            steps(url, folder, f"- do: {call}\n")


def test_what_is_said_of_a_head_and_of_text(url, folder):
    steps(url, folder, "- do: {exists: {index: web, id: 1}}\n- is_true: ''\n- do: {exists: {index: web, id: 2}}\n- is_false: ''\n")
    steps(url, folder, "- do: {get: {index: text, id: 1}}\n- match: {$body: '/^ web \\s+ \\d+ [ \\s] open \\n $/'}\n")
    with pytest.raises(Failed):
        steps(url, folder, "- do: {get: {index: text, id: 1}}\n- match: {$body: '/^ open/'}\n")


def test_stashed_values_are_put_where_they_are_named(url, folder):
    run = steps(url, folder, GET + r"""
- set: {_id: id}
- set: {_source._arbitrary_key_: first}
- match: {_id: $id}
- match: {_source.$first: 1}
- transform_and_set: {login: '#base64EncodeCredentials(_id,_source.n)'}
- do: {headers: {Authorization: 'Basic ${login}'}, bulk: {body: [{index: {}}, {a: $id}]}}
""")
    assert run.stash["first"] == "n"
    method, path, body, headers = Handler.sent[-1]
    assert (method, path, body) == ("POST", "/_bulk", b'{"index": {}}\n{"a": "1"}\n')
    assert headers["Authorization"] == "Basic MTox" and headers["Content-Type"] == "application/x-ndjson"


@pytest.mark.parametrize("text", [
    "- matches: {a: 1}", "- {match: {a: 1}, is_true: b}", "- do: {catch: sometimes, get: {index: web, id: 2}}", "- do: {seek: {}}",
    "- do: {catch: missing}", "- do: {node_selector: {colour: red}, get: {index: web, id: 1}}", "- do: {get: {index: web, id: 1}}\n- transform_and_set: {a: b}",
])
def test_what_is_unknown_is_an_error(url, folder, text):
    with pytest.raises(suite.Misunderstood):
        steps(url, folder, text)


def test_skipping():
    def skipped(skip, version="3.1.0"):
        return suite.skipped(suite.Test("a.yml", "a", [{"skip": skip}]), version)

    assert skipped({"version": "all"}) and skipped({"version": " - 3.1.99"}) and skipped({"version": " - 1.0.0, 3.0.0 - "})
    assert not skipped({"version": " - 3.0.99"}) and not skipped({"version": "3.2.0 - "})
    # OpenSearch's versions come after Elasticsearch 7.
    assert not skipped({"version": " - 7.99.99"}) and skipped({"version": "7.4.0 - "})
    assert not skipped({"version": " - 7.9.99"}, "7.10.2") and skipped({"version": " - 7.10.2"}, "7.10.2")
    assert not skipped({"features": ["warnings", "contains"]}) and skipped({"features": "xpack"})
    for skip in [{"features": "telepathy"}, {"os": "linux"}, {"version": "new"}]:
        with pytest.raises(suite.Misunderstood):
            skipped(skip)


def test_what_is_required(tmp_path):
    def why(step, requires=None):
        return suite.skipped(suite.Test("a.yml", "a", [step], requires=requires or {}), "9.5.3")

    assert not why({"requires": {"cluster_features": ["gte_v8.0.0"], "capabilities": [{"path": "/"}], "reason": "new"}})
    assert not why({"requires": {"test_runner_features": ["capabilities", "allowed_warnings"]}})
    assert why({"requires": {"test_runner_features": "xpack"}}) and why({"skip": {"awaits_fix": "some issue"}})
    assert why({"do": {}}, {"stack": False, "serverless": True}) and why({"do": {}}, {"stack": True, "feature_flag": "new"})
    assert not why({"do": {}}, {"stack": True, "serverless": False})
    for step, requires in [({"requires": {"os": "linux"}}, {}), ({"do": {}}, {"cloud": True}), ({"requires": {"test_runner_features": "telepathy"}}, {})]:
        with pytest.raises(suite.Misunderstood):
            why(step, requires)
    (tmp_path / "a.yml").write_text("requires: {stack: true}\n---\nsetup: [{do: {}}]\n---\nfirst: [{do: {}}]\n")
    (test,) = suite.read(tmp_path)
    assert (test.name, test.requires, test.setup) == ("first", {"stack": True}, [{"do": {}}])


def test_values():
    assert same({"a": [1, "b", None, True]}, {"a": [1.0, "b", None, True]})
    assert not same(1, True) and not same("1", 1) and not same([1], [1, 2]) and not same({"a": 1}, {"a": 1, "b": 2}) and not same(None, 0)
    assert as_java({"a": [1, {"b": None}], "c": True}) == "{a=[1, {b=null}], c=true}"
    read = suite.yaml.load("{a: 2016-01-01, b: no, c: 1e3, d: 10, e: 007, f: 12:30:45, g: -1.5, h: ~}", suite.Loader)
    assert read == {"a": "2016-01-01", "b": "no", "c": 1000.0, "d": 10, "e": "007", "f": "12:30:45", "g": -1.5, "h": None}


SUITE = """
setup:
  - do: {get: {index: web, id: 1}}
---
"right":
  - do: {get: {index: web, id: 1}}
  - match: {_id: "1"}
---
"wrong":
  - do: {get: {index: web, id: 1}}
  - match: {_id: "2"}
---
"[other] scope":
  - do: {search: {body: {query: {knn: {}}}}}
---
"old":
  - skip: {version: " - 3.99.99"}
  - do: {get: {index: web, id: 1}}
"""
LIST = '[groups]\nmissing = "Not built yet."\n[[out]]\ngroup = "missing"\nreason = "There are no vectors."\n'


def ran(url, folder, listed, *options):
    (folder / "test" / "things").mkdir(parents=True, exist_ok=True)
    (folder / "test" / "things" / "10_get.yml").write_text(SUITE)
    (folder / "list.toml").write_text(listed)
    command = [sys.executable, HERE / "run.py", folder, "--url", url, "--version", "3.1.0", "--out-of-scope", folder / "list.toml", *options]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""})


def test_a_run_counts_and_fails_if_a_test_fails(url, folder):
    done = ran(url, folder, LIST + 'word = ["knn"]\n', "--json")
    assert done.returncode == 1, done
    report = json.loads(done.stdout)
    assert report["counts"] == [{"version": "3.1.0", "suite": "things", "passed": 1, "failed": 1, "out of scope": 1, "skipped": 1}]
    wrong, = (test for test in report["tests"] if test["outcome"] == "failed")
    assert wrong["test"] == "things/10_get.yml: wrong" and wrong["reason"] == '_id is "1", not "2"'
    shown = ran(url, folder, LIST + 'word = ["knn"]\n')
    assert "FAILED things/10_get.yml: wrong" in shown.stdout and "1  missing: There are no vectors." in shown.stdout


def test_a_run_succeeds_if_what_fails_is_out_of_scope(url, folder):
    done = ran(url, folder, LIST + 'word = ["knn"]\ntest = ["things/10_get.yml: wrong"]\n')
    assert done.returncode == 0, done
    listed = LIST + 'file = ["*"]\n'
    done = ran(url, folder, listed, "--all", "--json")
    assert done.returncode == 1, "what passes must not be listed"
    outcomes = {test["test"]: (test["outcome"], test.get("failure")) for test in json.loads(done.stdout)["tests"]}
    assert outcomes["things/10_get.yml: [other] scope"] == ("listed", None)
    assert ran(url, folder, LIST + 'may_pass = true\nfile = ["*"]\n', "--all").returncode == 0
    assert "it passes, and is listed: " in ran(url, folder, listed, "--all").stdout
    in_scope = listed + '[[in]]\ntest = ["things/10_get.yml: *"]\n'
    assert ran(url, folder, in_scope).returncode == 1, "what is in scope is tried"
    assert ran(url, folder, in_scope + 'version = ["0.1"]\n').returncode == 0
    assert outcomes["things/10_get.yml: wrong"] == ("out of scope", '_id is "1", not "2"')
    assert ran(url, folder, LIST + 'file = ["*"]\n').returncode == 0
    assert ran(url, folder, LIST + 'file = ["*"]\nexcept = ["*: wrong"]\n').returncode == 1
    assert ran(url, folder, LIST + 'file = ["*"]\nversion = ["0.1"]\n').returncode == 1


@pytest.mark.parametrize("listed", [
    LIST, LIST + 'files = ["*"]\n', LIST + 'file = ["*"]\n[[in]]\nfile = ["*"]\n', '[[out]]\ngroup = "missing"\nreason = "No."\nfile = ["*"]\n', '[groups]\na = ""\n[[out]]\ngroup = "a"\nfile = ["*"]\n',
])
def test_a_list_without_reasons_is_refused(url, folder, listed):
    done = ran(url, folder, listed)
    assert done.returncode == 1 and "not understood" in done.stderr, done
