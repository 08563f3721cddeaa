"""What searches cost on simulated object storage, counted in requests and bytes: the same on every machine.

FROSTLINE_TEST_DOCUMENTS is the number of generated documents, 300,000 without it.
"""

import json
import os
import subprocess

import pytest

from frostline import Frostline

DOCUMENTS = int(os.environ.get("FROSTLINE_TEST_DOCUMENTS", "300000"))
NEEDLE = "user:mallory@example.org"


@pytest.fixture(scope="module")
def generated(binary, tmp_path_factory):
    """The documents of the generator that docs/ingest.md describes."""
    path = tmp_path_factory.mktemp("costs") / "web.ndjson"
    with path.open("wb") as out:
        subprocess.run([binary, "demo", "--documents", str(DOCUMENTS), "--only-generate"], stdout=out, check=True)
    return path


@pytest.fixture(scope="module")
def many(binary, generated):
    """An index of all of them, in several splits."""
    frostline = Frostline(binary, generated.parent / "many", generated.parent / "data")
    frostline.ok("ingest", "--index", "web", "--format", "ndjson", generated)
    return frostline


@pytest.fixture(scope="module")
def one(binary, generated):
    """An index of a fifth of them, in one split."""
    frostline = Frostline(binary, generated.parent / "one", generated.parent / "data")
    part = generated.with_name("part.ndjson")
    with generated.open("rb") as lines, part.open("wb") as out:
        out.writelines(line for _, line in zip(range(DOCUMENTS // 5), lines))
    frostline.ok("ingest", "--index", "web", "--format", "ndjson", "--threads", "1", part)
    assert frostline.ok("index", "show", "web")["summary"]["splits"] == 1
    frostline.first = json.loads(part.open().readline())
    return frostline


@pytest.fixture
def cold(tmp_path):
    """The same repository in a simulated cloud, seen from a node that has nothing near."""

    def of(frostline, cache=None):
        url = f"sim+file://{frostline.repo}?profile=measured&seed=1&realtime=false"
        node = Frostline(frostline.binary, url, tmp_path / f"data{len(list(tmp_path.iterdir()))}")
        if cache:
            node.ok("mount", "web", "--cache", cache)
        return node

    return of


def cost(node, query):
    """The cost of a query string or of a body, from data and not from partial answers that were kept."""
    asked = ["--body", json.dumps(query)] if isinstance(query, dict) else [query]
    answer = node.ok("search", "--index", "web", "--no-result-cache", *asked)
    assert answer["cost"]["simulated"] is True
    return answer["cost"], answer["hits"]["total"]["value"]


def test_a_needle_on_one_split_takes_at_most_6_gets_and_then_none(one, cold):
    needles = {f"request_id:{one.first['request_id']}": 1, f'session:"{one.first["session"]}"': None, "user:nobody@example.org": 0}
    for query, hits in needles.items():
        for node in (cold(one), cold(one, cache="50%")):
            first, found = cost(node, query)
            assert first["gets"] <= 6, (query, first)
            assert found == hits or hits is None
        again, _ = cost(node, query)
        assert (again["gets"], again["bytes"]) == (0, 0), (query, again)


def test_a_needle_in_many_splits_opens_only_those_that_hold_it(many, cold):
    first, found = cost(cold(many), NEEDLE)
    assert found == 1
    splits = first["splits"]
    assert splits["opened"] - splits["opened_empty"] == 1, splits
    assert splits["live"] == splits["pruned_needle"] + splits["opened"] > 1, splits


def test_a_time_range_reads_only_its_splits(many, cold):
    day = {"range": {"@timestamp": {"gte": "2025-01-06", "lt": "2025-01-07"}}}
    first, found = cost(cold(many), {"query": {"bool": {"filter": [day, {"term": {"response": 404}}]}}})
    assert found > 0
    assert first["splits"]["opened"] == 1 and first["splits"]["pruned_time"] == first["splits"]["live"] - 1


def test_digests_answer_without_reading_columns(many, cold):
    bodies = [
        {"size": 0, "track_total_hits": True},
        {"size": 0, "aggs": {"t": {"date_histogram": {"field": "@timestamp", "fixed_interval": "1h"}}}},
        {"size": 0, "aggs": {"c": {"terms": {"field": "geo.country"}}, "s": {"stats": {"field": "bytes"}}}},
        {"size": 0, "query": {"term": {"response": 404}}, "aggs": {"t": {"date_histogram": {"field": "@timestamp", "fixed_interval": "1d"}}}},
    ]
    for body in bodies:
        first, _ = cost(cold(many), body)
        assert first["splits"]["answered_digest"] == first["splits"]["live"], (body, first)
        # Of each split its hot footer, and then of its digest what is said of all rows and of one field or two.
        assert first["gets"] <= 3 * first["splits"]["live"], (body, first)


PANELS = {
    "t": {"date_histogram": {"field": "@timestamp", "fixed_interval": "6h"}},
    "p": {"terms": {"field": "path", "size": 10}},
    "c": {"terms": {"field": "geo.country", "size": 10}},
    "s": {"stats": {"field": "bytes"}},
    "h": {"terms": {"field": "host"}, "aggs": {"b": {"sum": {"field": "bytes"}}}},
}
DASHBOARDS = {
    "all that was not found": [{"term": {"response": 404}}],
    "not found in one country": [{"term": {"response": 404}}, {"term": {"geo.country": "DE"}}],
    "a week": [{"range": {"@timestamp": {"gte": "2025-01-10", "lt": "2025-01-17"}}}],
    "one path": [{"prefix": {"path.keyword": "/api/"}}, {"range": {"bytes": {"gte": 10_000}}}],
}


def dashboard(name):
    return {"size": 0, "query": {"bool": {"filter": DASHBOARDS[name]}}, "aggs": PANELS}


@pytest.mark.parametrize("name", DASHBOARDS)
@pytest.mark.parametrize("cache", [None, "5%"])
def test_a_cold_dashboard_fetches_little_more_than_it_uses(name, cache, many, cold):
    first, found = cost(cold(many, cache), dashboard(name))
    assert found > 0
    assert first["bytes"] <= 1.3 * first["bytes_used"], first


def test_a_repeated_dashboard_fetches_nothing_from_a_cache_of_7_percent(many, cold):
    # What it reads of the five columns is 4.7 % of what is stored, in regions that hold other columns as well.
    node = cold(many, cache="7%")
    cost(node, dashboard("all that was not found"))
    again, _ = cost(node, dashboard("all that was not found"))
    assert (again["gets"], again["bytes"]) == (0, 0)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_repeated_dashboard_fetches_nothing_where_it_fits(name, many, cold):
    node = cold(many, cache="15%")
    cost(node, dashboard(name))
    again, _ = cost(node, dashboard(name))
    assert (again["gets"], again["bytes"]) == (0, 0)


def test_kept_partial_answers_need_no_read(many, cold):
    node = cold(many, cache="1MiB")
    body = json.dumps(dashboard("not found in one country"))
    first = node.ok("search", "--index", "web", "--body", body)
    again = node.ok("search", "--index", "web", "--body", body)
    assert (again["cost"]["gets"], again["cost"]["bytes"]) == (0, 0)
    assert again["aggregations"] == first["aggregations"]


def test_a_full_sweep_does_not_evict_a_needle(many, cold):
    node = cold(many, cache="5%")
    for _ in range(4):
        cost(node, NEEDLE)
    node.ok("sql", 'SELECT sum(length("_source")) FROM web')
    again, _ = cost(node, NEEDLE)
    assert (again["gets"], again["bytes"]) == (0, 0), again


def test_the_same_seed_costs_the_same(one, cold):
    costs = [cost(cold(one, cache="5%"), "response:404")[0] for _ in range(2)]
    assert [{name: cost[name] for name in ("gets", "bytes", "usd")} for cost in costs[:1]] == [
        {name: cost[name] for name in ("gets", "bytes", "usd")} for cost in costs[1:]
    ]


def test_mounting_reads_footers_and_directories_of_segments_only(many, cold):
    node = cold(many)
    segments = len(node.ok("needle", "status", "web")["segments"])
    mounted = node.ok("mount", "web", "--cache", "5%")
    assert mounted["tier"] == "frozen" and mounted["gets"] <= mounted["splits"] + segments, mounted
    assert mounted["bytes"] <= mounted["data_bytes"] / 50
    assert node.ok("unmount", "web")["unmounted"] is True


def test_a_dollar_is_a_sum_of_requests(one, cold):
    first, _ = cost(cold(one), "response:404")
    assert first["usd"] == pytest.approx(first["gets"] * 0.0004 / 1000)


def test_a_limit_without_an_order_reads_the_splits_that_it_needs(frostline):
    for n in range(12):
        frostline.ingest("many", [{"n": n * 10 + k, "even": n % 2 == 0} for k in range(10)])
    assert frostline.ok("index", "show", "many")["splits"][11]
    for query, rows, opened in [
        ("select * from many limit 1", 1, 1),
        ("select n from many limit 10", 10, 1),
        ("select n from many limit 25", 25, 3),
        ("select n from many where n >= 0 limit 1", 1, 1),
        ("select n from many limit 1000", 120, 12),
    ]:
        answer = frostline.ok("sql", query)
        assert len(answer["rows"]) == rows, query
        assert answer["cost"]["splits"]["opened"] == opened, (query, answer["cost"])
    found = frostline.ok("sql", "select n from many where n = 117 limit 1")
    assert found["rows"] == [[117]]
