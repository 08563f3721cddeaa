"""The main job against a real S3-compatible server, and what its refusals say."""

import json
import signal
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from frostline import DONE, Frostline
from s3_proxy import S3Proxy

LINE = '{{"n": {0}, "text": "line {0} ' + "x" * 100 + '"}}\n'
ROWS = [{"n": n, "@timestamp": f"2024-05-{1 + n % 28:02}T00:00:00Z", "word": f"w{n % 7}", "text": f"line {n} of the log"} for n in range(3_000)]


@pytest.fixture
def bucket(binary, s3, tmp_path):
    """A prefix of the test's own."""
    environment = {name: value for name, value in s3.items() if name.startswith("AWS_")}
    return Frostline(binary, f"s3://{s3['FROSTLINE_TEST_S3_BUCKET']}/{tmp_path.name}", tmp_path / "data", environment)


def test_the_main_job(bucket):
    """Ingest, search, mount, search through the cache, merge, vacuum, verify, delete."""
    assert bucket.ingest("logs", ROWS, "--split-bytes", "70KB")["documents"] == 3_000
    first = bucket.ok("search", "--index", "logs", "word:w1 AND text:1555")
    assert [hit["_source"] for hit in first["hits"]["hits"]] == [ROWS[1555]]
    assert first["cost"]["gets"] > 0 and first["cost"]["usd"] > 0 and first["cost"]["simulated"] is False
    assert bucket.ok("mount", "logs", "--cache", "10MiB")["tier"] == "frozen"
    bucket.ok("search", "--index", "logs", "word:w1 AND text:1555")
    again = bucket.ok("search", "--index", "logs", "word:w1 AND text:1555")
    assert (again["cost"]["gets"], again["hits"]) == (0, first["hits"])
    assert bucket.sql('SELECT count(*), sum("n") FROM logs WHERE "word" = \'w2\'') == [[len(ROWS[2::7]), sum(row["n"] for row in ROWS[2::7])]]


def test_merge_vacuum_verify_and_delete(bucket):
    for start in range(0, 3_000, 500):
        bucket.ingest("logs", ROWS[start : start + 500])
    before = bucket.ok("index", "show", "logs")["summary"]["splits"]
    assert before >= 6
    bucket.ok("index", "merge", "logs")
    assert bucket.ok("index", "show", "logs")["summary"]["splits"] < before
    assert len(bucket.ok("vacuum", "logs", "--retain-hours", "0", "--orphan-hours", "0")["deleted"]) >= 0
    assert bucket.ok("index", "verify", "logs")["faults"] == []
    assert bucket.sql('SELECT count(*), count(DISTINCT "n") FROM logs') == [[3_000, 3_000]]
    bucket.ok("index", "delete", "logs", "--yes")
    assert bucket.ok("index", "list")["indices"] == []


def test_two_writers_at_once_lose_nothing(bucket, tmp_path):
    for part in range(2):
        lines = "".join(f'{{"n": {n}, "text": "line {n}"}}\n' for n in range(part * 1_000, part * 1_000 + 1_000))
        (tmp_path / f"{part}.ndjson").write_text(lines)
    bucket.ingest("logs", [{"n": 5_000, "text": "first"}])
    writers = [bucket.start("ingest", "--index", "logs", "--format", "ndjson", tmp_path / f"{part}.ndjson") for part in range(2)]
    assert [writer.wait(120) for writer in writers] == [DONE, DONE]
    assert bucket.sql('SELECT count(*), count(DISTINCT "n") FROM logs') == [[2_001, 2_001]]


def test_killed_on_s3_and_run_again(bucket, tmp_path):
    path = tmp_path / "in.ndjson"
    path.write_text("".join(LINE.format(n) for n in range(20_000)))
    ingest = ["ingest", "--index", "logs", "--format", "ndjson", "--split-bytes", "200KB", path]
    for seconds in (0.4, 0.9, 1.4):
        bucket.killed_after(seconds, *ingest)
    bucket.ok(*ingest)
    assert bucket.sql('SELECT count(*), count(DISTINCT "n") FROM logs') == [[20_000, 20_000]]


@pytest.fixture
def proxied(bucket):
    """The same prefix through a proxy, and the proxy."""
    with S3Proxy(bucket.environment["AWS_ENDPOINT_URL"]) as proxy:
        yield Frostline(bucket.binary, bucket.repo, bucket.data, {**bucket.environment, "AWS_ENDPOINT_URL": proxy.url}), proxy


def test_who_may_only_read_pages_without_a_pin(bucket, proxied):
    reader, proxy = proxied
    bucket.ingest("logs", [{"n": n} for n in range(12_000)])
    proxy.denies = lambda method: method not in ("GET", "HEAD")
    command = [word for word in reader.command("search", "--index", "logs", "--all") if word != "--json"]
    export = subprocess.run(command, capture_output=True, text=True, env=reader.clean_environment())
    assert export.returncode == DONE, export.stderr
    assert sorted(json.loads(line)["n"] for line in export.stdout.splitlines()) == list(range(12_000))
    assert "--retain-hours" in export.stderr
    reader.fails("pit", "open", "logs", says=["denied", "PutObject"])
    # A point in time that somebody else has opened serves them, but they cannot extend it.
    pit = bucket.ok("pit", "open", "logs", "--keep-alive", "1h")["id"]
    body = {"size": 0, "pit": {"id": pit}}
    bucket.ingest("logs", [{"n": -1}])
    assert reader.ok("search", "--body", json.dumps(body))["hits"]["total"]["value"] == 12_000
    body["pit"]["keep_alive"] = "2h"
    reader.fails("search", "--body", json.dumps(body), says=["keep the point in time alive", "denied"])


QUESTIONS = [
    ["search", "--index", "logs", "--body", '{"size": 0, "aggs": {"words": {"terms": {"field": "text.keyword"}}}}'],
    ["search", "--index", "logs", "--all"],
    ["sql", "SELECT word, sum(n) FROM logs GROUP BY word"],
]


@pytest.mark.parametrize("question", QUESTIONS, ids=["aggregation", "export", "sql"])
@pytest.mark.parametrize("answered", [0, 3])
def test_an_interrupted_query_sends_no_further_request(question, answered, bucket, proxied):
    reader, proxy = proxied
    for start in range(0, 3_000, 500):
        bucket.ingest("logs", ROWS[start : start + 500])
    of_splits = lambda requests: sum(path.endswith(".parquet") for _, path in requests)
    proxy.waits = lambda path, earlier: path.endswith(".parquet") and of_splits(earlier) >= answered
    command = [word for word in reader.command(*question) if word != "--json"]
    query = subprocess.Popen(command, env=reader.clean_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    proxy.wait_until(lambda requests: of_splits(requests) > answered)
    query.send_signal(signal.SIGINT)
    assert query.wait(60) == -signal.SIGINT
    begun = len(proxy.requests)
    proxy.release()
    bucket.ok("index", "list")
    assert len(proxy.requests) == begun


def test_a_missing_bucket_is_named_with_what_to_do(bucket):
    nowhere = Frostline(bucket.binary, "s3://no-such-bucket-here/x", bucket.data, bucket.environment)
    for command in (["index", "list"], ["search", "--index", "logs", "x"], ["ingest", "--index", "logs", "-"]):
        nowhere.fails(*command, stdin='{"a": 1}\n', says=["no-such-bucket-here", "does not exist", "create"])


class Refusing(BaseHTTPRequestHandler):
    """Answers every request with one S3 error."""

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        code, status = self.server.refusal
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer

    def log_message(self, *_):
        pass


REFUSALS = [
    (("InvalidAccessKeyId", 403), ["credentials", "refused"]),
    (("SignatureDoesNotMatch", 403), ["credentials", "refused"]),
    (("AccessDenied", 403), ["denied", "GetObject"]),
    (("NoSuchBucket", 404), ["bucket", "does not exist"]),
    (("PermanentRedirect", 301), ["region"]),
]


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case[0][0])
def test_a_refusal_says_what_to_do(case, binary, tmp_path):
    refusal, words = case
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    server.refusal = refusal
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
    frostline = Frostline(binary, "s3://bucket/x", tmp_path, environment)
    try:
        for command in (["index", "list"], ["ingest", "--index", "logs", "-"]):
            frostline.fails(*command, stdin='{"a": 1}\n', says=words)
    finally:
        server.shutdown()


def test_wrong_credentials_on_the_server(bucket):
    """Only where the server checks them: moto does not."""
    wrong = Frostline(bucket.binary, bucket.repo, bucket.data, {**bucket.environment, "AWS_SECRET_ACCESS_KEY": "wrong"})
    outcome = wrong.run("index", "list")
    if outcome.status == DONE:
        pytest.skip("this server does not check signatures")
    assert "credentials" in outcome.stderr, outcome
