"""The searches of public benchmarks, over small corpora with their fields and types: each is answered, and right, or refused for a
reason that docs/semantics.md gives. docs/tracks.md has the outcome.

The benchmarks are Rally's http_logs and elastic/logs (https://github.com/elastic/rally-tracks) and ClickBench
(https://github.com/ClickHouse/ClickBench). Their searches are told here in our own form; steps of a workflow that repeat a search with
another range of time or one more filter of the same kind are one row.
"""

import collections
import json
import random
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from answers import equal, plain
from frostline import DONE, Frostline
from server import Server
from tracks import (
    anywhere, at_least, between, count_script, dataset, distinct, exists, grid, kql, largest, lucene, mean, moving_average, named_filters,
    over, percentile, phrase, prefix, terms, total,
)

DOCS = Path(__file__).resolve().parents[2] / "docs"

# What an error names, and the words of docs/semantics.md that refuse it. Everything else must be answered.
REFUSED = {
    "script": "Scripts over documents",
}


class Outcomes:
    """What became of the searches of a track."""

    def __init__(self):
        self.answered, self.refused = collections.Counter(), collections.Counter()

    def ask(self, server, track, path, body, check):
        """Asks, and compares the answer, unless the search is refused for a reason that the docs give."""
        status, _, answer = server.ask("POST", path, body)
        answer = json.loads(answer)
        if status == 200:
            check(answer)
            self.answered[track] += 1
            return
        reason = answer["error"]["reason"]
        assert status == 400, (body, answer)
        named = [name for name in re.findall(r"\[(\w+)\]", reason) if name in REFUSED]
        assert named and REFUSED[named[0]] in (DOCS / "semantics.md").read_text(), (body, reason)
        self.refused[track, named[0]] += 1


@pytest.fixture(scope="module")
def outcomes():
    return Outcomes()


@pytest.fixture(scope="module")
def server(binary, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tracks")
    server = Server(Frostline(binary, folder / "repo", folder / "data"))
    yield server
    assert server.stop() == DONE
    assert "panicked" not in server.log.read_text()


def load(server, index, documents, mapping):
    """Documents of paths, sent as clients do."""
    assert server.ask("PUT", f"/{index}", {"mappings": {"properties": mapping}})[0] == 200
    lines = "".join('{"create":{}}\n' + json.dumps(document) + "\n" for document in documents)
    status, _, answer = server.ask("POST", f"/{index}/_bulk", lines.encode(), {"Content-Type": "application/x-ndjson"})
    assert status == 200 and not json.loads(answer)["errors"]


# --- http_logs ---

HTTP_FROM = datetime(1998, 4, 30)
HTTP_MAPPING = {
    "@timestamp": {"type": "date", "format": "strict_date_optional_time||epoch_second"},
    "message": {"type": "keyword", "index": False, "doc_values": False},
    "clientip": {"type": "ip"},
    "request": {"type": "match_only_text", "fields": {"raw": {"type": "keyword", "ignore_above": 256}}},
    "status": {"type": "integer"},
    "size": {"type": "integer"},
    "geoip": {"properties": {"country_name": {"type": "keyword"}, "city_name": {"type": "keyword"}}},
}


@pytest.fixture(scope="module")
def http_logs(server):
    """Eight days of the World Cup's web server, three indices."""
    rng, documents = random.Random(1), []
    for n in range(3_000):
        path = rng.choice(["/", "/english/index.html", "/images/hm_bg.jpg", "/french/news/3004bres.htm"])
        documents.append({
            "@timestamp": (HTTP_FROM + timedelta(minutes=n * 3, seconds=n % 60)).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "clientip": f"{rng.randrange(1, 255)}.{rng.randrange(256)}.2.0", "request": f"GET {path} HTTP/1.{rng.randrange(2)}",
            "status": rng.choices([200, 304, 404, 400], [80, 10, 8, 2])[0], "size": rng.randrange(50_000),
            "geoip": {"country_name": rng.choice(["France", "Brazil", "Japan"]), "city_name": "x"},
        })
    for part in range(3):
        load(server, f"logs-http-{part}", documents[part * 1_000 : (part + 1) * 1_000], HTTP_MAPPING)
    return documents


def by(field, direction):
    return {"sort": [{field: direction}]}


OK = {"query": {"match": {"status": "200"}}, "track_total_hits": False}
IN_RANGE = {"range": {"@timestamp": {"gte": "1998-05-01T00:00:00Z", "lt": "1998-05-02T00:00:00Z"}}}
AFTER = int(datetime(1998, 5, 3, tzinfo=UTC).timestamp() * 1000)


def in_range(document):
    return "1998-05-01" <= document["@timestamp"][:10] < "1998-05-02"


def is_ok(document):
    return document["status"] == 200


def every(_):
    return True


# Each operation's body, the documents that it finds, and where it sorts by what.
HTTP_LOGS = [
    ("default", {"query": {"match_all": {}}}, every),
    ("term", {"query": {"term": {"request.raw": {"value": "GET / HTTP/1.0"}}}}, lambda d: d["request"] == "GET / HTTP/1.0"),
    ("range", {"query": {"range": {"@timestamp": {"gte": "1998-05-03||/d", "lt": "now/d"}}}}, lambda d: d["@timestamp"] >= "1998-05-03"),
    ("200s-in-range", {"query": {"bool": {"must": [IN_RANGE, {"match": {"status": "200"}}]}}}, lambda d: in_range(d) and is_ok(d)),
    ("400s-in-range", {"query": {"bool": {"must": [IN_RANGE, {"match": {"status": "400"}}]}}}, lambda d: in_range(d) and d["status"] == 400),
    ("hourly_agg", {"size": 0, "aggs": {"by_hour": {"date_histogram": {"field": "@timestamp", "calendar_interval": "hour"}}}}, every),
    ("desc_sort_timestamp", {"query": {"match_all": {}}, **by("@timestamp", "desc")}, every),
    ("asc_sort_timestamp", {"query": {"match_all": {}}, **by("@timestamp", "asc")}, every),
    ("desc_sort_with_after_timestamp", {"track_total_hits": False, **by("@timestamp", "desc"), "search_after": [AFTER]}, every),
    ("asc_sort_with_after_timestamp", {"track_total_hits": False, **by("@timestamp", "asc"), "search_after": [AFTER]}, every),
    ("desc_sort_timestamp_can_match_shortcut", {**OK, **by("@timestamp", "desc")}, is_ok),
    ("desc_sort_timestamp_no_can_match_shortcut", {**OK, **by("@timestamp", "desc")}, is_ok),
    ("sort_keyword_can_match_shortcut", {**OK, **by("geoip.country_name", "asc")}, is_ok),
    ("sort_keyword_no_can_match_shortcut", {**OK, **by("geoip.country_name", "asc")}, is_ok),
    ("sort_size_desc", {"query": {"match_all": {}}, **by("size", "desc")}, every),
    ("sort_size_asc", {"query": {"match_all": {}}, **by("size", "asc")}, every),
    ("sort_status_desc", {"query": {"match_all": {}}, **by("status", "desc")}, every),
    ("sort_status_asc", {"query": {"match_all": {}}, **by("status", "asc")}, every),
    ("sort_numeric_can_match_shortcut", {**OK, **by("size", "desc")}, is_ok),
    ("sort_numeric_no_can_match_shortcut", {**OK, **by("size", "desc")}, is_ok),
]


def sort_value(document, field):
    if field == "@timestamp":
        return int(datetime.fromisoformat(document[field]).timestamp() * 1000)
    return document["geoip"]["country_name"] if "country" in field else document[field]


@pytest.mark.parametrize("name, body, matches", HTTP_LOGS, ids=[row[0] for row in HTTP_LOGS])
def test_http_logs(server, outcomes, http_logs, name, body, matches):
    expected = [document for document in http_logs if matches(document)]

    def check(answer):
        if body.get("track_total_hits", True):
            assert answer["hits"]["total"] == {"value": len(expected), "relation": "eq"}
        if "aggs" in body:
            hours = collections.Counter(document["@timestamp"][:13] for document in expected)
            buckets = answer["aggregations"]["by_hour"]["buckets"]
            assert {bucket["key_as_string"][:13]: bucket["doc_count"] for bucket in buckets} == hours
        if "sort" in body:
            [(field, direction)] = body["sort"][0].items()
            values = sorted((sort_value(document, field) for document in expected), reverse=direction == "desc")
            if "search_after" in body:
                values = [value for value in values if (value < AFTER if direction == "desc" else value > AFTER)]
            assert [hit["sort"][0] for hit in answer["hits"]["hits"]] == values[:10]

    shortcut = "?pre_filter_shard_size=100000" if "no_can_match" in name else ""
    outcomes.ask(server, "http_logs", f"/logs-http-*/_search{shortcut}", body, check)


def test_http_logs_scrolls_and_parses_lines(server, outcomes, http_logs):
    status, _, page = server.ask("POST", "/logs-http-*/_search?scroll=1m", {"query": {"match_all": {}}, "size": 500})
    seen, page = 0, json.loads(page)
    while page["hits"]["hits"]:
        seen += len(page["hits"]["hits"])
        page = json.loads(server.ask("POST", "/_search/scroll", {"scroll_id": page["_scroll_id"], "scroll": "1m"})[2])
    assert status == 200 and seen == len(http_logs)
    outcomes.answered["http_logs"] += 1
    time = "%{IPORHOST} %{HTTPDUSER} %{USER} \\[%{TIMESTAMP_ISO8601:@timestamp}\\]"
    grok = time.replace("IPORHOST", "IPORHOST:clientip") + ' "(?:%{WORD} %{NOTSPACE:request}(?: HTTP/%{NUMBER})?|%{DATA})" %{NUMBER:status} (?:%{NUMBER:size}|-)'
    pipelines = {
        "baseline": {"uppercase": {"field": "doesnotexist", "ignore_missing": True}},
        "grok": {"grok": {"field": "message", "patterns": [grok]}}, "timestamp": {"grok": {"field": "message", "patterns": [time]}},
    }
    line = '211.11.9.0 - - [1998-06-21T15:00:01-05:00] "GET /english/index.html HTTP/1.0" 304 -'
    for name, processor in pipelines.items():
        assert server.ask("PUT", f"/_ingest/pipeline/{name}", {"processors": [processor]})[0] == 200
        shown = json.loads(server.ask("POST", f"/_ingest/pipeline/{name}/_simulate", {"docs": [{"_source": {"message": line}}]})[2])
        source = shown["docs"][0]["doc"]["_source"]
        assert source["message"] == line and ("@timestamp" in source) == (name != "baseline")
        if name == "grok":
            assert (source["clientip"], source["request"], source["status"]) == ("211.11.9.0", "/english/index.html", "304")


# --- elastic/logs ---

LOGS_FROM = datetime(2022, 4, 20, 18)
MINUTE = 60_000
BOUNDS = (int(LOGS_FROM.replace(tzinfo=UTC).timestamp() * 1000), int(LOGS_FROM.replace(tzinfo=UTC).timestamp() * 1000) + 150 * MINUTE)


def event(rng, n, kind):
    """A document as the integration of this data set makes it, by paths."""
    pick = rng.choice
    document = {
        "@timestamp": (LOGS_FROM + timedelta(seconds=n * 3)).isoformat(), "data_stream.dataset": kind, "host.name": pick(["demo-1", "demo-2"]),
        "host.hostname": pick(["a", "b", "c"]), "host.id": pick(["1f", "2e"]), "host.os.name": pick(["Fedora", "Ubuntu"]), "host.os.kernel": pick(["5.4", "5.10"]),
        "kubernetes.pod.name": pick(["pod-a", "pod-b", "pod-c"]), "message": f"event {n} " + pick(["error access forbidden", "done", "DST=46.101.87.151 ok"]),
    }
    web = {
        "http.response.status_code": pick([200, 200, 301, 404, 500]), "http.response.body.bytes": rng.randrange(9_000), "http.request.body.bytes": rng.randrange(900),
        "url.original": pick(["/a", "/b", "/c", "/d"]), "user_agent.name": pick(["Firefox", "Chrome"]), "user_agent.version": pick(["68.0", "70.0"]),
        "user_agent.os.name": pick(["Linux", "Windows"]), "user_agent.os.version": pick(["10", "11"]), "source.address": f"10.0.0.{rng.randrange(20)}",
        "source.geo.continent_name": pick(["North America", "Europe"]), "source.geo.location": {"lat": rng.randrange(90), "lon": rng.randrange(90)},
    }
    level = {"log.level": pick(["ERROR", "WARN", "INFO"])}
    user = {"user.name": pick(["root", "amandabennett", "ortizmichael", "vpotter"]), "user.id": pick(["0", "7"])}
    group = {"group.id": pick(["0", "9"]), "group.name": pick(["wheel", "staff"])}
    auth = [
        {"system.auth.sudo.command": pick(["/bin/ls", "/bin/su"]), "system.auth.sudo.error": pick(["user NOT in sudoers", "bad password"])},
        {"system.auth.ssh.event": pick(["Failed", "Invalid", "Accepted"]), "system.auth.ssh.method": pick(["password", "publickey"]),
         "source.geo.country_iso_code": pick(["CN", "DE"]), "source.geo.location": {"lat": 1, "lon": 2}},
        {"system.auth.useradd.home": pick(["/home/elasticsearch", "/home/x"]), "system.auth.useradd.shell": pick(["/sbin/nologin", "/bin/sh"]), **group},
        {"system.auth.groupadd.gid": "9", **group},
    ]
    duration = {"event.duration": rng.randrange(10**6, 10**9)}
    statement = {"postgresql.log.query": pick(["copy pgbench_accounts from stdin", "select 1"]), "postgresql.log.query_name": pick(["q1", "q2"])}
    blocked = {"redis.slowlog.cmd": pick(["BRPOP", "GET"]), "redis.slowlog.key": pick(["k1", "k2", "k3", "k4"]), "redis.slowlog.duration.us": rng.randrange(9_000)}
    more = {
        "apache.access": web, "nginx.access": web, "apache.error": level, "nginx.error": level,
        "kafka.log": {**level, "kafka.log.class": pick(["kafka.log.Log", "kafka.server"]), **({"kafka.log.trace.class": "java.io.IOException"} if n % 3 else {})},
        "mysql.error": level, "mysql.slowlog": {
            "mysql.slowlog.query": pick(["UPDATE t SET a = 1", "SELECT 1", "update x"]), "mysql.slowlog.lock_time.sec": rng.random(), **user, **duration},
        "postgresql.log": {**level, **duration, **(statement if n % 2 else {})},
        "redis.log": {**level, "redis.log.role": pick(["master", "slave"])},
        "redis.slowlog": blocked,
        "system.auth": {**user, **pick(auth)}, "system.syslog": {"process.name": pick(["kernel", "packer-1", "sshd"])},
    }
    return {**document, **more[kind]}


def nested(document):
    """The objects that the paths mean."""
    whole = {}
    for path, value in document.items():
        *parents, last = path.split(".")
        inner = whole
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[last] = value
    return whole


@pytest.fixture(scope="module")
def elastic_logs(server):
    rng = random.Random(2)
    kinds = [
        "apache.access", "apache.error", "nginx.access", "nginx.error", "kafka.log", "mysql.error", "mysql.slowlog", "postgresql.log", "redis.log",
        "redis.slowlog", "system.auth", "system.syslog",
    ]
    documents = [event(rng, n, kinds[n % len(kinds)]) for n in range(2_400)]
    load(server, "logs-elastic", map(nested, documents), {"@timestamp": {"type": "date"}})
    return documents


CLASSES = {
    f"{hundred}s": lucene(
        f"http.response.status_code:[{hundred} TO {hundred + 99}]", lambda d, h=hundred: h <= d.get("http.response.status_code", 0) < h + 100,
        analyze_wildcard=True)
    for hundred in (200, 300, 400, 500)
}


def tsvb(name):
    """The data set as TSVB's query string has it."""
    return lucene(f"data_stream.dataset:{name}", lambda d: d["data_stream.dataset"] == name, analyze_wildcard=True)


def counted(interval="60s"):
    return over(interval, count_script(), bounds=BOUNDS)


STATUS, LEVEL, POD, BYTES, DURATION = "http.response.status_code", "log.level", "kubernetes.pod.name", "http.request.body.bytes", "event.duration"
NOT_FOUND, FIREFOX, OLD = phrase(STATUS, 404), phrase("user_agent.name", "Firefox"), phrase("user_agent.version", "68.0")
SLOW, LOCKED, MICROS, CMD, KEY = "mysql.slowlog.query", "mysql.slowlog.lock_time.sec", "redis.slowlog.duration.us", "redis.slowlog.cmd", "redis.slowlog.key"
UPDATES = lucene("UPDATE*", lambda d: d.get(SLOW, "").lower().startswith("update"), fields=[SLOW])
USERS = phrase("user.name", "amandabennett") | phrase("user.name", "ortizmichael") | phrase("user.name", "vpotter")
AMERICA, FAULTS = phrase("source.geo.continent_name", "North America"), between(STATUS, 400, 500)
FORBIDDEN = anywhere("access forbidden", lambda d: "access forbidden" in d["message"])
IO, TRACE = phrase("kafka.log.trace.class", "java.io.IOException"), exists("kafka.log.trace.class")
COPY = anywhere("copy pgbench_accounts from stdin", lambda d: d.get("postgresql.log.query", "").startswith("copy"))
QUERY, LONG = exists("postgresql.log.query"), at_least(DURATION, 200_000_000)
PG, PGS, ERROR = dataset("postgresql.log"), prefix("data_stream.dataset", "postgresql."), phrase(LEVEL, "ERROR")
REDIS, SLOWLOG, BLOCKED, LAGGING = dataset("redis.log"), dataset("redis.slowlog"), phrase(CMD, "BRPOP"), at_least(MICROS, 2_000)
SUDO, USERADD, GROUPADD = exists("system.auth.sudo"), exists("system.auth.useradd"), exists("system.auth.groupadd")
HOME, SHELL = phrase("system.auth.useradd.home", "/home/elasticsearch"), phrase("system.auth.useradd.shell", "/sbin/nologin")
ROOT, CHINA = phrase("user.name", "root"), phrase("source.geo.country_iso_code", "CN")
FAILED = kql("system.auth.ssh.event", "Failed")
INTRUDERS, ACCEPTED = FAILED | kql("system.auth.ssh.event", "Invalid"), kql("system.auth.ssh.event", "Accepted")
SYSLOG, KERNEL, FEDORA = dataset("system.syslog"), phrase("process.name", "kernel"), phrase("host.os.name", "Fedora")
PACKER = lucene("packer*", lambda d: d.get("process.name", "").startswith("packer"))
ERRORS = anywhere("error", lambda d: "error" in d["message"] or "error" in d["data_stream.dataset"] or d.get(LEVEL) == "ERROR", "best_fields")
TARGET = anywhere("DST=46.101.87.151", lambda d: "DST=46" in d["message"], "best_fields")
NAMES = ("host.hostname", "user.name", "user.id", "group.id", "system.auth.useradd.home", "system.auth.useradd.shell")
HITS = None


def chain(*fields):
    """Each field's values inside those of the field before."""
    inner = terms(fields[-1])
    for field in reversed(fields[:-1]):
        inner = terms(field, inner)
    return inner


def largest_by(field, *subs):
    return terms(field, *subs, by=0)


AGENTS = largest_by("user_agent.name", distinct("source.address"), largest_by("user_agent.version", distinct("source.address")))
SYSTEMS = largest_by("user_agent.os.name", distinct("source.address"), largest_by("user_agent.os.version", distinct("source.address")))
APACHE, APACHE_ERROR, NGINX = dataset("apache.access"), dataset("apache.error"), dataset("nginx.access", "nginx.error", "nginx.ingress_controller")
MYSQL_ERROR, MYSQL_SLOW, KAFKA = dataset("mysql.error"), dataset("mysql.slowlog"), dataset("kafka.log")
SLOWEST = largest_by(SLOW, largest(DURATION), largest_by("user.name", largest(DURATION)))

# Dashboard, aggregation (or hits, as Discover asks for them), filters.
ELASTIC_LOGS = [
    *[("apache", aggregation, [kind, *more]) for more in ([], [NOT_FOUND], [NOT_FOUND, FIREFOX]) for aggregation, kind in [
        (grid("source.geo.location", distinct("source.address")), APACHE), (HITS, APACHE_ERROR), (chain("url.original", STATUS), APACHE), (AGENTS, APACHE),
        (SYSTEMS, APACHE), (over("10m", terms(LEVEL)), APACHE_ERROR), (over("10m", terms(STATUS)), APACHE)]],
    ("apache", terms("host.hostname", size=10), []),
    ("apache", over("30s", terms(LEVEL)), [APACHE_ERROR]),
    ("apache", over("30s", terms(STATUS)), [APACHE]),
    ("apache", over("10m", largest_by(STATUS, total(BYTES))), [APACHE]),
    ("apache", over("10m", largest_by(STATUS, total(BYTES), terms(POD, total(BYTES), size=10, by=0))), [APACHE]),
    *[("discover", aggregation, more) for aggregation in (HITS, over("30m")) for more in ([], [ERRORS], [kql(STATUS, "500")])],
    ("discover", over("1m"), [kql(STATUS, "500")]),
    ("discover", over("30s"), []),
    ("discover", over("3h"), []),
    ("discover", named_filters({"": exists("host.name")}), []),
    ("discover", named_filters({"": exists("host.name")}, over("3h")), []),
    ("discover", terms("host.name", size=10), [exists("host.name")]),
    *[("kafka", aggregation, [kind, *more]) for more in ([], [IO], [IO, anywhere("10.12.9.219", lambda d: False, "best_fields")]) for aggregation, kind in [
        (HITS, TRACE), (HITS, KAFKA), (over("12h", terms("kafka.log.trace.class", size=10)), TRACE), (over("12h", terms(LEVEL)), KAFKA)]],
    *[("kafka", over(interval, terms(field)), [kind]) for interval in ("30s", "30m") for field, kind in (("kafka.log.trace.class", TRACE), (LEVEL, KAFKA))],
    ("kafka", over("12h", terms(LEVEL, terms("kafka.log.class", size=10))), [KAFKA]),
    *[("mysql", aggregation, [kind, *more]) for more in ([], [UPDATES], [UPDATES, USERS]) for aggregation, kind in [
        (HITS, MYSQL_ERROR), (SLOWEST, MYSQL_SLOW), (over("30m"), MYSQL_SLOW), (over("30m"), MYSQL_ERROR), (terms(LEVEL), MYSQL_ERROR), (terms(SLOW), MYSQL_SLOW)]],
    ("mysql", over("30m", terms(LEVEL)), [MYSQL_ERROR]),
    ("mysql", over("30m", terms(LEVEL, terms(POD))), [MYSQL_ERROR]),
    ("mysql", HITS, []),
    ("mysql", over("3h", percentile(LOCKED, 50)), []),
    ("mysql", percentile(LOCKED, 50), []),
    ("mysql", over("3h", total(LOCKED)), []),
    ("mysql", total(LOCKED), []),
    ("mysql", over("3h", percentile(DURATION, 50), total(LOCKED)), []),
    ("mysql", over("3h", mean(DURATION), total(LOCKED)), []),
    ("mysql", over("3h"), [MYSQL_SLOW]),
    ("mysql", over("3h", terms(LEVEL, terms(POD))), [MYSQL_ERROR]),
    *[("nginx", aggregation, [*kind, *more]) for more in ([], [AMERICA], [AMERICA, FAULTS], [AMERICA, FAULTS, OLD, FIREFOX]) for aggregation, kind in [
        (terms("url.original", counted("600s"), size=10), [tsvb("nginx.access")]), (named_filters(CLASSES, counted("600s")), [tsvb("nginx.access")]),
        (over("600s", total("http.response.body.bytes"), bounds=BOUNDS), [tsvb("nginx.access")]), (terms(LEVEL, counted("600s"), size=10), [tsvb("nginx.error")]),
        (chain("user_agent.name", "user_agent.version"), []), (chain("user_agent.os.name", "user_agent.os.version"), []), (grid("source.geo.location"), [NGINX])]],
    *[("nginx", HITS, [NGINX, exists(field), *more]) for field in ("message", "url.original") for more in ([], [FORBIDDEN])],
    *[("nginx", counted(interval), [tsvb("nginx.access"), *more]) for interval, more in (("10s", []), ("60s", []), ("60s", [FORBIDDEN]))],
    *[("postgresql duration", HITS, [QUERY, *more]) for more in ([exists(DURATION)], [LONG], [LONG, ~COPY])],
    *[("postgresql duration", over(interval, total(DURATION)), [QUERY, exists(DURATION), *more]) for interval in ("1m", "30m") for more in ([], [LONG], [LONG, ~COPY])],
    ("postgresql duration", terms("postgresql.log.query_name", largest(DURATION), size=10, by=0), []),
    ("postgresql duration", terms("postgresql.log.query_name", largest(DURATION), size=10, by=0), [QUERY]),
    ("postgresql duration", percentile(DURATION, 50), []),
    *[("postgresql overview", aggregation, [PGS, *more]) for more in ([], [ERROR]) for aggregation in (HITS, terms(LEVEL, size=12), over("30m", terms(LEVEL)))],
    ("postgresql overview", over("1m", terms(LEVEL)), [PGS, ERROR]),
    *[("postgresql overview", counted(), more) for more in (
        [], [ERROR], [PG], *([anywhere(word, lambda d: False, "best_fields")] for word in ("data", "data_", "data_st", "data_stream.dataset")),
        *([kql("data_stream.dataset", word)] for word in ("pos", "post", "postgre", "postgresql.log")))],
    ("postgresql overview", over("60s", bounds=BOUNDS), [PG]),
    ("postgresql overview", over("60s", largest(DURATION), bounds=BOUNDS), [PG]),
    ("postgresql overview", over("60s", percentile(DURATION, 50), bounds=BOUNDS), [PG]),
    ("postgresql overview", over("60s", percentile(DURATION, 99), bounds=BOUNDS), [PG]),
    ("postgresql overview", over("60s", largest(DURATION), count_script(), bounds=BOUNDS), [PG]),
    ("postgresql overview", over("60s", largest(DURATION), moving_average(0), bounds=BOUNDS), [PG]),
    ("postgresql overview", terms(POD, over("60s", percentile(DURATION, 99), bounds=BOUNDS), size=10), [PG]),
    ("postgresql overview", terms(POD, over("60s", percentile(DURATION, 99), count_script(), bounds=BOUNDS), size=10), [PG]),
    *[("postgresql overview", terms(POD, over("60s", of, moving_average(path), bounds=BOUNDS), size=10), [PG, *more])
      for of, path in ((largest(DURATION), "0"), (percentile(DURATION, 99), "0[99.0]")) for more in ([], [ERROR])],
    *[("redis", aggregation, [kind, *more]) for more in ([], [LAGGING], [LAGGING, BLOCKED]) for aggregation, kind in [
        (HITS, REDIS), (HITS, SLOWLOG), (chain("redis.log.role", LEVEL), REDIS), (over("30m", terms(LEVEL)), REDIS), (largest_by(CMD, largest(MICROS)), SLOWLOG)]],
    ("redis", over("30s", terms(LEVEL)), [REDIS]),
    ("redis", over("30m", percentile(MICROS, 50)), []),
    ("redis", percentile(MICROS, 50), []),
    ("redis", over("30m", total(MICROS)), []),
    ("redis", total(MICROS), []),
    *[("redis", terms(KEY, total(MICROS), over("30m", total(MICROS)), size=size, by=0), more)
      for size, more in ((3, []), (10, []), (10, [LAGGING]), (10, [LAGGING, BLOCKED]))],
    *[("redis", over("30m", terms(KEY, total(MICROS), size=size, by=0)), []) for size in (3, 10)],
    *[("system auth", over(interval, terms(field)), [kind]) for interval in ("30s", "30m")
      for field, kind in (("system.auth.sudo.error", exists("system.auth.sudo.error")), ("user.name", SUDO))],
    *[("system auth", aggregation, [SUDO, *more]) for more in ([], [ROOT])
      for aggregation in (chain("system.auth.sudo.command", "user.name"), over("30m", terms("user.name")))],
    *[("system auth", aggregation, [*kind, *more]) for more in ([], [FAILED], [FAILED, CHINA], [FAILED, CHINA, ROOT]) for aggregation, kind in [
        (grid("source.geo.location"), [INTRUDERS]), (HITS, [dataset("system.auth"), exists("system.auth.ssh.event")]),
        (over("5m", terms("system.auth.ssh.method")), [ACCEPTED]),
        (over("5m", terms("system.auth.ssh.event")), []), (terms("user.name", size=50), [INTRUDERS])]],
    *[("system auth", aggregation, [kind, *more]) for more in ([], [HOME], [HOME, SHELL], [HOME, ~SHELL]) for aggregation, kind in [
        (chain(*NAMES), USERADD), (over("5m", terms("user.name")), USERADD), (chain("system.auth.useradd.shell", "user.name"), USERADD),
        (chain("system.auth.useradd.home", "user.name"), USERADD),
        (chain("group.name", "group.id"), GROUPADD), (over("5m", terms("group.name")), GROUPADD)]],
    ("system auth", chain("system.auth.useradd.home", "user.name", "host.id"), [USERADD]),
    *[("system syslog", aggregation, [SYSLOG, *more]) for more in ([], [KERNEL], [KERNEL, ~PACKER], [KERNEL, ~PACKER, TARGET], [KERNEL, FEDORA]) for aggregation in (
        HITS, over("30m", terms("host.hostname")), chain("host.hostname", "process.name"))],
    ("system syslog", over("30s", terms("host.hostname")), [SYSLOG]),
    ("system syslog", terms("host.os.name", distinct("host.os.kernel"), size=10, by=0), [SYSLOG]),
    ("system syslog", distinct("host.os.kernel"), [SYSLOG]),
]

# What Discover asks for beside the query.
DISCOVER = {
    "size": 500, "sort": [{"@timestamp": {"order": "desc", "unmapped_type": "boolean"}}], "version": True, "stored_fields": ["*"], "script_fields": {},
    "fields": [{"field": "*", "include_unmapped": "true"}, {"field": "@timestamp", "format": "strict_date_optional_time"}], "_source": False,
    "highlight": {"pre_tags": ["@h@"], "post_tags": ["@/h@"], "fields": {"*": {}}, "fragment_size": 2147483647},
}
KIBANA = "batched_reduce_size=64&ignore_unavailable=true&track_total_hits=true&enable_fields_emulation=true&preference=1650481298419"


@pytest.mark.parametrize("at", range(len(ELASTIC_LOGS)))
def test_elastic_logs(server, outcomes, elastic_logs, at):
    dashboard, aggregation, filters = ELASTIC_LOGS[at]
    expected = [document for document in elastic_logs if all(filter_.matches(document) for filter_ in filters)]
    time = {"range": {"@timestamp": {"format": "strict_date_optional_time", "gte": "2022-04-20T18:00:00.000Z", "lte": "2022-04-20T21:00:00.000Z"}}}
    query = {"bool": {"must": [], "filter": [*(filter_.query for filter_ in filters), time], "should": [], "must_not": []}}
    body = {"query": query, "runtime_mappings": {}, **(DISCOVER if aggregation is HITS else {"size": 0, "aggs": {"0": aggregation.body()}, "timeout": "30000ms"})}

    def check(answer):
        assert answer["hits"]["total"]["value"] == len(expected)
        if aggregation is HITS:
            shown = [hit["fields"]["@timestamp"][0][:19] for hit in answer["hits"]["hits"]]
            assert shown == sorted((document["@timestamp"] for document in expected), reverse=True)[:500]
        else:
            aggregation.check(answer["aggregations"]["0"], expected)

    outcomes.ask(server, f"elastic/logs, {dashboard}", f"/logs-elastic/_search?{KIBANA}", body, check)


# --- ClickBench ---

HIT_MAPPING = {
    **{name: {"type": "short"} for name in (
        "AdvEngineID", "ResolutionWidth", "MobilePhone", "SearchEngineID", "DontCountHits", "IsRefresh", "IsLink", "IsDownload", "TraficSourceID", "WindowClientWidth",
        "WindowClientHeight")},
    **{name: {"type": "integer"} for name in ("RegionID", "ClientIP", "CounterID")},
    **{name: {"type": "long"} for name in ("UserID", "WatchID", "URLHash", "RefererHash")},
    **{name: {"type": "keyword"} for name in ("MobilePhoneModel", "SearchPhrase", "URL", "Title", "Referer")},
    "EventDate": {"type": "date"}, "EventTime": {"type": "date"},
}


@pytest.fixture(scope="module")
def hits(server, tmp_path_factory):
    """Views of web pages, in the server and in DuckDB."""
    rng, documents = random.Random(3), []
    for n in range(2_000):
        pick, time = rng.choice, datetime(2013, 7, 1) + timedelta(minutes=rng.randrange(43_000), seconds=rng.randrange(60))
        site = pick(["http://google.com/", "http://www.google.ru/a", "http://example.org/x", "https://example.net/yy"])
        documents.append({
            "AdvEngineID": pick([0, 0, 0, 2, 27]), "ResolutionWidth": pick([1024, 1368, 1917]), "MobilePhone": pick([0, 1, 7]), "SearchEngineID": pick([0, 2, 3]),
            "DontCountHits": pick([0, 0, 1]), "IsRefresh": pick([0, 0, 1]), "IsLink": pick([0, 1]), "IsDownload": pick([0, 0, 0, 1]), "TraficSourceID": pick([-1, 0, 6]),
            "WindowClientWidth": pick([1000, 1300]), "WindowClientHeight": pick([600, 700]), "RegionID": rng.randrange(20), "ClientIP": rng.randrange(-50, 50),
            "CounterID": pick([62, 62, 7]), "UserID": pick([435090932899640449, 2**62 + 1, 2**62 + 3, rng.randrange(30)]), "WatchID": 2**61 + n // 2,
            "URLHash": pick([2868770270353813622, 5]), "RefererHash": pick([3594120000172545465, 6]), "MobilePhoneModel": pick(["", "", "iPad", "A500"]),
            "SearchPhrase": pick(["", "", "weather", "google it", "cats", "dogs"]), "URL": pick([site, site + "p", ""]), "Title": pick(["Google search", "News", ""]),
            "Referer": pick(["", site, "http://other.example/z"]), "EventDate": time.strftime("%Y-%m-%dT00:00:00Z"), "EventTime": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
        })
    load(server, "hits", documents, HIT_MAPPING)
    path = tmp_path_factory.mktemp("hits") / "hits.ndjson"
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    duck = duckdb.connect()
    types = {"short": "SMALLINT", "integer": "INTEGER", "long": "BIGINT", "keyword": "VARCHAR", "date": "TIMESTAMP"}
    columns = {name: types[field["type"]] for name, field in HIT_MAPPING.items()}
    duck.execute(f"CREATE TABLE hits AS SELECT * FROM read_json('{path}', format = 'newline_delimited', columns = {columns})")
    return duck


FOUND, JULY = "SearchPhrase <> ''", "CounterID = 62 AND EventDate >= '2013-07-01' AND EventDate <= '2013-07-31'"
SEEN = f"{JULY} AND DontCountHits = 0 AND IsRefresh = 0"
N, USERS_OF, REFRESHED = "count(*)", "count(DISTINCT UserID)", ["sum(IsRefresh)", "avg(ResolutionWidth)"]
FROM = "CASE WHEN SearchEngineID = 0 AND AdvEngineID = 0 THEN Referer ELSE '' END"
MINUTE_OF = "date_trunc('minute', EventTime)"
SITE = r"regexp_replace(Referer, '^https?://(?:www\.)?([^/]+)/.*$', '\1')"

# Each query by its number: filter, keys of its groups, what it shows of them, and how the groups are ordered, with the number that
# is shown. Where the benchmark leaves open which of equal groups come first, the keys decide.
CLICKBENCH = [
    ("", [], [N], ""),
    ("AdvEngineID <> 0", [], [N], ""),
    ("", [], ["sum(AdvEngineID)", N, "avg(ResolutionWidth)"], ""),
    ("", [], ["avg(UserID)"], ""),
    ("", [], [USERS_OF], ""),
    ("", [], ["count(DISTINCT SearchPhrase)"], ""),
    ("", [], ["min(EventDate)", "max(EventDate)"], ""),
    ("AdvEngineID <> 0", ["AdvEngineID"], [N], f"{N} DESC"),
    ("", ["RegionID"], [USERS_OF], f"{USERS_OF} DESC 10"),
    ("", ["RegionID"], [N, "sum(AdvEngineID)", "avg(ResolutionWidth)", USERS_OF], f"{N} DESC 10"),
    ("MobilePhoneModel <> ''", ["MobilePhoneModel"], [USERS_OF], f"{USERS_OF} DESC 10"),
    ("MobilePhoneModel <> ''", ["MobilePhone", "MobilePhoneModel"], [USERS_OF], f"{USERS_OF} DESC 10"),
    (FOUND, ["SearchPhrase"], [N], f"{N} DESC 10"),
    (FOUND, ["SearchPhrase"], [USERS_OF], f"{USERS_OF} DESC 10"),
    (FOUND, ["SearchEngineID", "SearchPhrase"], [N], f"{N} DESC 10"),
    ("", ["UserID"], [N], f"{N} DESC 10"),
    ("", ["UserID", "SearchPhrase"], [N], f"{N} DESC 10"),
    ("", ["UserID", "SearchPhrase"], [N], "10"),
    ("", ["UserID", "extract(minute FROM EventTime)", "SearchPhrase"], [N], f"{N} DESC 10"),
    ("UserID = 435090932899640449", [], ["UserID"], ""),
    ("URL LIKE '%google%'", [], [N], ""),
    (f"URL LIKE '%google%' AND {FOUND}", ["SearchPhrase"], ["min(URL)", N], f"{N} DESC 10"),
    (f"Title LIKE '%Google%' AND URL NOT LIKE '%.google.%' AND {FOUND}", ["SearchPhrase"], ["min(URL)", "min(Title)", N, USERS_OF], f"{N} DESC 10"),
    ("URL LIKE '%google%'", [], ["EventTime", "WatchID", "URL"], "EventTime, WatchID, URL 10"),
    (FOUND, [], ["SearchPhrase"], "EventTime, SearchPhrase 10"),
    (FOUND, [], ["SearchPhrase"], "SearchPhrase 10"),
    (FOUND, [], ["SearchPhrase"], "EventTime, SearchPhrase 10"),
    ("URL <> ''", ["CounterID"], ["avg(length(URL))", N], "avg(length(URL)) DESC 25 having 100"),
    ("Referer <> ''", [SITE], ["avg(length(Referer))", N, "min(Referer)"], "avg(length(Referer)) DESC 25 having 100"),
    ("", [], [f"sum(ResolutionWidth + {n})" for n in range(90)], ""),
    (FOUND, ["SearchEngineID", "ClientIP"], [N, *REFRESHED], f"{N} DESC 10"),
    (FOUND, ["WatchID", "ClientIP"], [N, *REFRESHED], f"{N} DESC 10"),
    ("", ["WatchID", "ClientIP"], [N, *REFRESHED], f"{N} DESC 10"),
    ("", ["URL"], [N], f"{N} DESC 10"),
    ("", ["1", "URL"], [N], f"{N} DESC 10"),
    ("", ["ClientIP", "ClientIP - 1", "ClientIP - 2", "ClientIP - 3"], [N], f"{N} DESC 10"),
    (f"{SEEN} AND URL <> ''", ["URL"], [N], f"{N} DESC 10"),
    (f"{SEEN} AND Title <> ''", ["Title"], [N], f"{N} DESC 10"),
    (f"{JULY} AND IsRefresh = 0 AND IsLink <> 0 AND IsDownload = 0", ["URL"], [N], f"{N} DESC 1010"),
    (f"{JULY} AND IsRefresh = 0", ["TraficSourceID", "SearchEngineID", "AdvEngineID", FROM, "URL"], [N], f"{N} DESC 1010"),
    (f"{JULY} AND IsRefresh = 0 AND TraficSourceID IN (-1, 6) AND RefererHash = 3594120000172545465", ["URLHash", "EventDate"], [N], f"{N} DESC 110"),
    (f"{SEEN} AND URLHash = 2868770270353813622", ["WindowClientWidth", "WindowClientHeight"], [N], f"{N} DESC 10010"),
    (SEEN.replace("-01", "-14").replace("-31", "-15"), [MINUTE_OF], [N], f"{MINUTE_OF} 1010"),
]


def quoted(text):
    """The columns in quotation marks: their names have capital letters."""
    return re.sub("|".join(rf"\b{name}\b" for name in HIT_MAPPING), lambda name: f'"{name[0]}"', text)


def as_sql(where, groups, shown, order):
    order, _, having = order.partition(" having ")
    order, limit = re.fullmatch(r"(.*?) ?(\d+)?", order).groups()
    parts = [f"SELECT {', '.join(f'{part} AS c{at}' for at, part in enumerate([*groups, *shown]))} FROM hits"]
    parts += [f"WHERE {where}"] if where else []
    parts += [f"GROUP BY {', '.join(str(at + 1) for at in range(len(groups)))}"] if groups else []
    parts += [f"HAVING count(*) > {having}"] if having else []
    keys = [*([order] if order else []), *groups]
    parts += [f"ORDER BY {', '.join(key for key in keys if key != '1')}"] if keys else []
    parts += [f"LIMIT {limit}"] if limit else []
    return quoted(" ".join(parts))


def same_rows(ours, theirs):
    ours, theirs = [[plain(value) for value in row] for row in ours], [[plain(value) for value in row] for row in theirs]
    assert len(ours) == len(theirs) and all(map(equal, ours, theirs)), (ours[:5], theirs[:5])


@pytest.mark.parametrize("at", range(len(CLICKBENCH)))
def test_clickbench_in_sql(server, outcomes, hits, at):
    query = as_sql(*CLICKBENCH[at])

    def check(answer):
        same_rows(answer["rows"], hits.execute(query).fetchall())

    outcomes.ask(server, "ClickBench, SQL", "/_sql", {"query": query}, check)


def clause(text):
    """A condition in the DSL, as Elasticsearch's SQL translates it."""
    if found := re.fullmatch(r"(\w+) (NOT )?LIKE '(.*)'", text):
        query = {"wildcard": {found[1]: {"value": found[3].replace("%", "*")}}}
        return {"bool": {"must_not": [query]}} if found[2] else query
    if found := re.fullmatch(r"(\w+) IN \((.*)\)", text):
        return {"terms": {found[1]: [int(value) for value in found[2].split(", ")]}}
    field, operator, value = re.fullmatch(r"(\w+) (<>|>=|<=|=) '?([^']*)'?", text).groups()
    value = int(value) if value.lstrip("-").isdigit() else value
    if operator in (">=", "<="):
        return {"range": {field: {"gte" if operator == ">=" else "lte": value + "T00:00:00Z"}}}
    query = {"term": {field: {"value": value}}}
    # Of a document without the field `<>` is not true.
    return {"bool": {"must": [{"exists": {"field": field}}], "must_not": [query]}} if operator == "<>" else query


def source(text):
    """A key of groups: a field, a minute, or a script of fields."""
    if text in HIT_MAPPING:
        return {"terms": {"field": text, "missing_bucket": True, "order": "asc"}}
    if "date_trunc" in text:
        return {"date_histogram": {"field": "EventTime", "fixed_interval": "1m"}}
    return {"terms": {"script": {"source": text, "lang": "painless"}}}


def shown_of(text):
    """An aggregation of a group, and None for its count."""
    kind, distinct_of, field = re.fullmatch(r"(\w+)\((DISTINCT )?(.*)\)", text).groups()
    if field == "*":
        return None
    of = {"field": field} if field in HIT_MAPPING else {"script": {"source": field, "lang": "painless"}}
    if kind in ("min", "max") and HIT_MAPPING.get(field, {}).get("type") == "keyword":
        return {"top_hits": {"size": 1, "_source": False, "sort": [{field: "asc" if kind == "min" else "desc"}]}}
    return {"cardinality" if distinct_of else kind: of}


def value_of(aggregation, answer):
    if "top_hits" in aggregation:
        return answer["hits"]["hits"][0]["sort"][0]
    return answer.get("value_as_string", answer["value"])


@pytest.mark.parametrize("at", range(len(CLICKBENCH)))
def test_clickbench_in_the_dsl(server, outcomes, hits, at):
    where, groups, shown, order = CLICKBENCH[at]
    all_groups = re.sub(r" ?\d+( having .*)?$", r"\1", order) if groups else order
    query = {"bool": {"must": [clause(part) for part in where.split(" AND ")]}} if where else {"match_all": {}}
    rows = hits.execute(as_sql(where, groups, shown, all_groups)).fetchall()
    if not all("(" in part for part in shown):
        keys = re.sub(r" ?\d+$", "", order).split(", ") if order else []
        body = {"query": query, "_source": False, "fields": shown, "sort": [{key: {"order": "asc"}} for key in keys], "size": 10 if order else 1_000}

        def check(answer):
            same_rows([[hit["fields"][name][0] for name in shown] for hit in answer["hits"]["hits"]], rows)
    else:
        metrics = {f"m{part}": aggregation for part, text in enumerate(shown) if (aggregation := shown_of(text))}
        if "having" in order:
            metrics["having"] = {"bucket_selector": {"buckets_path": {"n": "_count"}, "script": {"source": "params.n > 100"}}}
        inside = {"aggs": metrics} if metrics else {}
        sources = [{f"k{part}": source(text)} for part, text in enumerate(groups)]
        body = {"query": query, "size": 0, **({"aggs": {"groups": {"composite": {"size": 10_000, "sources": sources}, **inside}}} if groups else inside)}

        def row_of(answer, of_all):
            return [answer["doc_count"] if not (aggregation := metrics.get(f"m{part}")) else value_of(aggregation, (answer if groups else of_all)[f"m{part}"])
                    for part in range(len(shown))]

        def check(answer):
            if groups:
                found = [[*bucket["key"].values(), *row_of(bucket, None)] for bucket in answer["aggregations"]["groups"]["buckets"]]
                same_rows(sorted(found, key=str), sorted(map(list, rows_of_keys(rows)), key=str))
            else:
                same_rows([row_of({"doc_count": answer["hits"]["total"]["value"]}, answer.get("aggregations"))], rows)

    outcomes.ask(server, "ClickBench, DSL", "/hits/_search", body, check)


def rows_of_keys(rows):
    """Rows with times as composite keys have them."""
    return [[plain(value) if isinstance(value, datetime) else value for value in row] for row in rows]


# --- docs/tracks.md ---


def test_the_docs_have_the_outcome(outcomes):
    searches = sum(outcomes.answered.values()) + sum(outcomes.refused.values())
    if searches < len(HTTP_LOGS) + 1 + len(ELASTIC_LOGS) + 2 * len(CLICKBENCH):
        pytest.skip("only some of the searches were asked")
    lines = ["| track | searches | answered | refused |", "|---|--:|--:|---|"]
    for track in dict.fromkeys([*outcomes.answered, *(track for track, _ in outcomes.refused)]):
        refused = {name: count for (of, name), count in sorted(outcomes.refused.items()) if of == track}
        why = ", ".join(f"{count} `{name}`" for name, count in refused.items()) or "none"
        lines.append(f"| {track} | {outcomes.answered[track] + sum(refused.values())} | {outcomes.answered[track]} | {why} |")
    table = "\n".join(lines)
    assert table in (DOCS / "tracks.md").read_text(), f"docs/tracks.md should have this table:\n{table}"
