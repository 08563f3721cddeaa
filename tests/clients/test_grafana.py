"""What Grafana's data source for Elasticsearch sends, with a key that may only read (docs/grafana.md)."""

import json

import pytest

from server import Server, documents

START, END = 1_714_521_600_000, 1_714_526_600_000
TIME = {"range": {"@timestamp": {"format": "epoch_millis", "gte": START, "lte": END}}}


def matching(query):
    return {"bool": {"filter": [TIME, {"query_string": {"analyze_wildcard": True, "query": query}}]}}


def histogram(interval):
    return {
        "field": "@timestamp", "fixed_interval": interval, "min_doc_count": 0, "format": "epoch_millis",
        "extended_bounds": {"min": START, "max": END},
    }


class Grafana:
    def __init__(self, server):
        self.server = server
        role = {"indices": [{"names": ["logs-*"], "privileges": ["read"]}]}
        body = {"name": "grafana", "role_descriptors": {"read": role}}
        key = json.loads(server.ask("POST", "/_security/api_key", body, {"Authorization": f"ApiKey {server.first_key}"})[2])
        self.headers = {"Authorization": f"ApiKey {key['encoded']}"}

    def get(self, path):
        status, _, body = self.server.ask("GET", path, headers=self.headers)
        assert status == 200, body
        return json.loads(body)

    def search(self, body):
        head = {"ignore_unavailable": True, "index": "logs-*", "search_type": "query_then_fetch"}
        lines = f"{json.dumps(head)}\n{json.dumps(body)}\n".encode()
        headers = {**self.headers, "Content-Type": "application/x-ndjson"}
        status, _, answer = self.server.ask("POST", "/_msearch?max_concurrent_shard_requests=5", lines, headers)
        assert status == 200, answer
        [response] = json.loads(answer)["responses"]
        assert response["status"] == 200, response
        return response

    def logs(self, query, order="desc", **more):
        """Grafana writes both keys of the order into one object."""
        return self.search({
            "query": matching(query), "size": 4, "docvalue_fields": ["@timestamp"], "script_fields": {},
            "sort": {"@timestamp": {"order": order, "unmapped_type": "boolean"}, "_doc": {"order": order}},
            "fields": [{"field": "@timestamp", "format": "strict_date_optional_time_nanos"}],
            "highlight": {
                "fields": {"*": {}}, "pre_tags": ["@HIGHLIGHT@"], "post_tags": ["@/HIGHLIGHT@"], "fragment_size": 2147483647,
            }, **more,
        })["hits"]["hits"]


@pytest.fixture
def grafana(frostline):
    frostline.ingest("logs-web", documents())
    server = Server(frostline, "--auth")
    yield Grafana(server)
    assert server.stop() == 0


def test_the_data_source_is_healthy_and_knows_its_fields(grafana):
    assert grafana.get("/")["version"]["number"].startswith("8.")
    assert grafana.get("/_cluster/health?wait_for_status=yellow")["status"] == "green"
    [mapping] = grafana.get("/logs-*/_mapping").values()
    assert mapping["mappings"]["properties"]["@timestamp"]["type"] == "date"


def test_logs_are_shown_with_what_is_before_and_after(grafana):
    hits = grafana.logs("user3")
    assert [hit["_source"]["n"] for hit in hits] == [4994, 4987, 4980, 4973]
    assert hits[0]["highlight"]["message"] == ["request 4994 of @HIGHLIGHT@user3@/HIGHLIGHT@"]
    assert hits[0]["fields"]["@timestamp"] == ["2024-05-01T01:23:14.000Z"]
    shown = hits[1]["sort"]
    older, newer = grafana.logs("*", "desc", search_after=shown), grafana.logs("*", "asc", search_after=shown)
    assert [hit["_source"]["n"] for hit in older] == [4986, 4985, 4984, 4983]
    assert [hit["_source"]["n"] for hit in newer] == [4988, 4989, 4990, 4991]


def test_metrics_are_charted(grafana):
    charts = grafana.search({"size": 0, "query": matching("status:>=404"), "aggs": {"4": {
        "terms": {"field": "host.name", "size": 10, "order": {"_key": "desc"}, "min_doc_count": 1},
        "aggs": {"2": {"date_histogram": histogram("1000s"), "aggs": {
            "1": {"max": {"field": "n"}},
            "3": {"percentiles": {"field": "n", "percents": ["25", "50"]}},
            "5": {"derivative": {"buckets_path": "1"}},
            "6": {"bucket_script": {"buckets_path": {"var1": "1"}, "script": {"source": "params.var1 * 2"}}},
        }}},
    }}})["aggregations"]["4"]["buckets"]
    assert [bucket["key"] for bucket in charts] == ["web-3", "web-2", "web-1", "web-0"]
    counts = [[step["doc_count"] for step in bucket["2"]["buckets"]] for bucket in charts]
    expected = [[0] * 6 for _ in range(4)]
    for n in range(5_000):
        if n % 3:
            expected[3 - n % 4][(START // 1000 + n) // 1000 - START // 1_000_000] += 1
    assert counts == expected
    assert charts[0]["2"]["buckets"][0]["6"]["value"] == 2 * charts[0]["2"]["buckets"][0]["1"]["value"]
