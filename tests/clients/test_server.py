"""The server over HTTP, with the official clients: `elasticsearch` as it is installed (scripts/test.sh runs this with versions 9
and 8), and `opensearch-py`."""

import http.client
import json
import signal
import socket
import ssl
import subprocess
import threading
import time

import elasticsearch
import elasticsearch.helpers
import opensearchpy
import opensearchpy.helpers
import pytest
from prometheus_client.parser import text_string_to_metric_families

from frostline import DONE, FAILED
from server import DOCUMENTS, Server, documents


@pytest.fixture(scope="module")
def frostline(binary, tmp_path_factory):
    from frostline import Frostline

    folder = tmp_path_factory.mktemp("server")
    return Frostline(binary, folder / "repo", folder / "data")


@pytest.fixture(scope="module")
def server(frostline):
    frostline.ingest("web", documents(), "--split-bytes", "100KB")
    frostline.ingest("app", ({**document, "app": True} for document, _ in zip(documents(), range(100))))
    server = Server(frostline)
    yield server
    assert server.stop() == DONE
    assert "panicked" not in server.log.read_text()


class Elasticsearch:
    """The client of Elasticsearch, and what it calls things."""

    errors = elasticsearch
    refusal = elasticsearch.BadRequestError
    helpers = elasticsearch.helpers

    def __init__(self, url):
        self.client = elasticsearch.Elasticsearch(url)

    def search(self, index, body):
        return self.client.search(index=index, **{"source" if k == "_source" else k: v for k, v in body.items()})

    def status(self, error):
        return error.meta.status


class OpenSearch:
    errors = opensearchpy.exceptions
    refusal = opensearchpy.exceptions.RequestError
    helpers = opensearchpy.helpers

    def __init__(self, url):
        self.client = opensearchpy.OpenSearch(url)

    def search(self, index, body):
        return self.client.search(index=index, body=body)

    def status(self, error):
        return error.status_code


@pytest.fixture(scope="module", params=[Elasticsearch, OpenSearch])
def known(request, server):
    return request.param(server.url)


def test_a_client_accepts_the_server(known):
    assert known.client.ping()
    info = known.client.info()
    assert info["version"]["number"].startswith("8.")
    assert known.client.cluster.health()["status"] == "green"
    assert known.client.cluster.stats()["indices"]["count"] == 2
    nodes = known.client.nodes.info()
    assert nodes["_nodes"]["total"] == len(nodes["nodes"]) == 1


def test_a_search_answers_with_hits_and_aggregations(known):
    body = {
        "query": {"bool": {"filter": [{"term": {"status": 404}}, {"match": {"message": "user3"}}]}},
        "aggs": {"hosts": {"terms": {"field": "host.name.keyword"}}},
        "sort": [{"n": "desc"}], "size": 3, "_source": ["n"],
    }
    answer = known.search("web", body)
    expected = [d for d in documents() if d["status"] == 404 and d["n"] % 7 == 3]
    assert answer["hits"]["total"] == {"value": len(expected), "relation": "eq"}
    assert [hit["_source"] for hit in answer["hits"]["hits"]] == [{"n": d["n"]} for d in expected[:-4:-1]]
    buckets = {b["key"]: b["doc_count"] for b in answer["aggregations"]["hosts"]["buckets"]}
    assert sum(buckets.values()) == len(expected) and set(buckets) == {f"web-{n}" for n in range(4)}


def test_pages_follow_one_another_by_search_after(known):
    body = {"sort": [{"n": "asc"}], "size": 1_000, "_source": False}
    seen = 0
    while hits := known.search("web", body)["hits"]["hits"]:
        assert hits[0]["sort"] == [seen]
        seen += len(hits)
        body["search_after"] = hits[-1]["sort"]
    assert seen == DOCUMENTS


def test_scan_reads_every_document_once(known):
    found = known.helpers.scan(known.client, index="web", query={"query": {"term": {"status": 500}}}, size=300)
    numbers = [hit["_source"]["n"] for hit in found]
    assert sorted(numbers) == [d["n"] for d in documents() if d["status"] == 500]
    ordered = known.helpers.scan(known.client, index="app", query={"sort": [{"n": "desc"}]}, size=33, preserve_order=True)
    assert [hit["_source"]["n"] for hit in ordered] == list(range(99, -1, -1))


def test_a_point_in_time_does_not_change(server, frostline):
    client = elasticsearch.Elasticsearch(server.url)
    frostline.ingest("moving", [{"n": n} for n in range(50)])
    pit = client.open_point_in_time(index="moving", keep_alive="1m")["id"]
    frostline.ingest("moving", [{"n": n} for n in range(50, 60)])
    assert client.count(index="moving")["count"] == 60
    after, seen = None, []
    while True:
        page = client.search(pit={"id": pit, "keep_alive": "1m"}, sort=[{"n": "asc"}], size=20, search_after=after)
        if not page["hits"]["hits"]:
            break
        seen += [hit["_source"]["n"] for hit in page["hits"]["hits"]]
        after = page["hits"]["hits"][-1]["sort"]
    assert seen == list(range(50))
    assert client.close_point_in_time(id=pit)["succeeded"]
    with pytest.raises(elasticsearch.NotFoundError):
        client.search(pit={"id": pit})
    client.indices.delete(index="moving")


def test_msearch_answers_each_search(known):
    searches = [{"index": "web"}, {"query": {"term": {"status": 200}}, "size": 0}, {"index": "gone"}, {}]
    request = {"searches": searches} if isinstance(known, Elasticsearch) else {"body": searches}
    first, second = known.client.msearch(**request)["responses"]
    assert first["hits"]["total"]["value"] == sum(d["status"] == 200 for d in documents())
    assert second["status"] == 404 and second["error"]["type"] == "index_not_found_exception"


def test_counts_fields_and_mappings_are_shown(known):
    query = {"term": {"status": 404}}
    request = {"query": query} if isinstance(known, Elasticsearch) else {"body": {"query": query}}
    assert known.client.count(index="web", **request)["count"] == sum(d["status"] == 404 for d in documents())
    assert known.client.count(index="w*,app")["count"] == DOCUMENTS + 100
    caps = known.client.field_caps(index="web,app", fields="*")
    assert caps["fields"]["status"]["long"]["aggregatable"]
    assert caps["fields"]["host"]["object"]["searchable"] is False
    mapping = known.client.indices.get_mapping(index="web")["web"]["mappings"]["properties"]
    assert mapping["@timestamp"] == {"type": "date"} and mapping["n"] == {"type": "long"}
    settings = known.client.indices.get_settings(index="web")
    assert settings["web"]["settings"]["index"]["provided_name"] == "web"
    rows = known.client.cat.indices(format="json", h="index,docs.count", s="index")
    assert [(row["index"], row["docs.count"]) for row in rows] == [("app", "100"), ("web", str(DOCUMENTS))]


def test_an_index_is_made_and_deleted(known):
    indices = known.client.indices
    mappings = {"properties": {"code": {"type": "keyword"}}}
    request = {"mappings": mappings} if isinstance(known, Elasticsearch) else {"body": {"mappings": mappings}}
    assert indices.create(index="made", **request)["acknowledged"]
    assert indices.exists(index="made") and not indices.exists(index="gone")
    assert indices.get(index="made")["made"]["mappings"]["properties"]["code"] == {"type": "keyword"}
    indices.refresh(index="made")
    with pytest.raises(known.errors.RequestError if isinstance(known, OpenSearch) else known.errors.BadRequestError) as error:
        indices.create(index="made")
    assert known.status(error.value) == 400
    assert indices.delete(index="made")["acknowledged"]
    assert not indices.exists(index="made")


def body(known, members, name=None):
    """The body of a request as the client takes it, in an argument of that name if it has one."""
    if isinstance(known, Elasticsearch):
        return {name: members} if name else members
    return {"body": members}


def test_an_alias_stands_for_its_indices(known):
    indices = known.client.indices
    indices.put_alias(index="web", name="front")
    indices.update_aliases(**body(known, {"actions": [{"add": {"indices": ["web", "app"], "alias": "all"}}]}))
    assert known.client.count(index="front")["count"] == DOCUMENTS
    assert known.search("all", {"size": 0})["hits"]["total"]["value"] == DOCUMENTS + 100
    assert indices.exists_alias(name="front") and not indices.exists_alias(name="back")
    assert indices.get_alias(name="front") == {"web": {"aliases": {"front": {}}}}
    assert {row["index"] for row in known.client.cat.aliases(name="all", format="json")} == {"web", "app"}
    with pytest.raises(known.errors.NotFoundError):
        indices.delete_alias(index="app", name="front")
    indices.delete_alias(index="web,app", name="front,all")
    assert not indices.exists(index="front")


def test_an_alias_with_a_filter_is_read_through_it(known):
    add = {"index": "web", "alias": "errors", "filter": {"term": {"status": 500}}}
    known.client.indices.update_aliases(**body(known, {"actions": [{"add": add}]}))
    expected = sum(document["status"] == 500 for document in documents())
    assert known.client.count(index="errors")["count"] == expected
    found = {hit["_source"]["status"] for hit in known.helpers.scan(known.client, index="errors", size=500)}
    assert found == {500}
    assert known.client.indices.get_alias(name="errors")["web"]["aliases"]["errors"]["filter"] == add["filter"]
    with pytest.raises(known.errors.BadRequestError if isinstance(known, Elasticsearch) else known.errors.RequestError):
        known.client.get(index="errors", id="1")
    known.client.indices.delete_alias(index="web", name="errors")


def test_templates_make_indices_and_data_streams(known):
    client, indices = known.client, known.client.indices
    codes = {"mappings": {"properties": {"code": {"type": "keyword"}}}}
    client.cluster.put_component_template(name="codes", **body(known, {"template": codes}))
    made = {"index_patterns": ["made-*"], "composed_of": ["codes"], "template": {"aliases": {"made": {}}}}
    indices.put_index_template(name="made", **body(known, made))
    streams = {"index_patterns": ["events-*"], "composed_of": ["codes"], "data_stream": {}, "priority": 5}
    indices.put_index_template(name="events", **body(known, streams))
    names = [template["name"] for template in indices.get_index_template()["index_templates"]]
    assert names == ["events", "made"]
    actions = [{"_index": name, "_op_type": "create", "@timestamp": "2024-05-01T00:00:00Z", "code": n}
               for n in range(100) for name in ("made-1", "events-app")]
    assert known.helpers.bulk(client, actions) == (200, [])
    assert client.count(index="made")["count"] == client.count(index="events-app")["count"] == 100
    assert indices.get_mapping(index="made-1")["made-1"]["mappings"]["properties"]["code"]["type"] == "keyword"
    indices.create_data_stream(name="events-web")
    first = indices.get_data_stream(name="events-app")["data_streams"][0]["indices"]
    rolled = indices.rollover(alias="events-app")
    assert rolled["rolled_over"] and rolled["old_index"] == first[0]["index_name"]
    known.helpers.bulk(client, [{**action, "_index": "events-app"} for action in actions[:10]])
    found = known.search("events-app", {"size": 0, "aggs": {"of": {"cardinality": {"field": "code"}}}})
    assert found["hits"]["total"]["value"] == 110 and found["aggregations"]["of"]["value"] == 100
    indices.delete_data_stream(name="events-app,events-web")
    indices.delete(index="made-1")
    for name in names:
        indices.delete_index_template(name=name)
    client.cluster.delete_component_template(name="codes")
    assert not indices.exists(index="events-app,made")


ACCESS = {
    "description": "lines of a web server",
    "processors": [
        {"grok": {"field": "message", "patterns": ["%{IP:client.ip} %{WORD:verb} %{NOTSPACE:path} %{NUMBER:status:int} %{NUMBER:took:double}"]}},
        {"drop": {"if": "ctx.path == '/health' || ctx.verb == 'OPTIONS'"}},
        {"date": {"field": "at", "formats": ["dd/MMM/yyyy:HH:mm:ss Z"]}},
        {"kv": {"field": "labels", "field_split": ",", "value_split": "=", "target_field": "label", "ignore_missing": True}},
        {"foreach": {"field": "tags", "ignore_missing": True, "processor": {"lowercase": {"field": "_ingest._value"}}}},
        {"pipeline": {"name": "cleaning"}},
    ],
}
CLEANING = {"processors": [{"remove": {"field": ["message", "at", "labels"], "ignore_missing": True}}]}


def test_fields_are_declared_later_and_parts_of_documents_are_shown(known):
    client = known.client
    client.indices.put_template(name="old", body={"index_patterns": ["declared-*"], "mappings": {"properties": {"code": {"type": "keyword"}}}})
    assert client.indices.exists_template(name="old")
    client.index(index="declared-1", id="1", body={"code": 1, "text": "a b", "n": 1})
    client.indices.put_mapping(index="declared-1", body={"properties": {"host": {"type": "keyword"}}})
    client.index(index="declared-1", id="2", body={"code": 2, "host": "a b", "n": 2})
    properties = client.indices.get_mapping(index="declared-1")["declared-1"]["mappings"]["properties"]
    assert (properties["code"]["type"], properties["host"]["type"]) == ("keyword", "keyword")
    assert client.count(index="declared-1", body={"query": {"match": {"host": "a b"}}})["count"] == 1
    assert client.count(index="declared-1", body={"query": {"match": {"host": "a"}}})["count"] == 0
    assert client.get(index="declared-1", id="1", _source_includes="n")["_source"] == {"n": 1}
    changed = client.update(index="declared-1", id="2", body={"doc": {"n": 3}, "_source": ["n"]})
    assert changed["get"]["_source"] == {"n": 3}
    assert list(client.cluster.state(metric="metadata", index="declared-*")["metadata"]["indices"]) == ["declared-1"]
    for field, ty in [("host", "long"), ("text", "keyword")]:
        with pytest.raises(known.refusal):
            client.indices.put_mapping(index="declared-1", body={"properties": {field: {"type": ty}}})
    assert client.count(index="declared-1", body={"query": {"match": {"text": "a"}}})["count"] == 1
    client.indices.delete_template(name="old")
    client.indices.delete(index="declared-1")


def test_pipelines_change_documents_before_they_are_stored(known):
    client, ingest = known.client, known.client.ingest
    ingest.put_pipeline(id="cleaning", **body(known, CLEANING))
    ingest.put_pipeline(id="access", **body(known, ACCESS))
    assert ingest.get_pipeline(id="access") == {"access": ACCESS}
    assert set(ingest.get_pipeline()) == {"access", "cleaning"}
    line = {"at": "06/May/2024:07:08:09 +0200", "message": "10.0.0.7 GET /a 404 0.25", "labels": "env=live,zone=b", "tags": ["Web", "EU"]}
    stored = {"client": {"ip": "10.0.0.7"}, "verb": "GET", "path": "/a", "status": 404, "took": 0.25, "tags": ["web", "eu"],
              "label": {"env": "live", "zone": "b"}, "@timestamp": "2024-05-06T05:08:09.000Z"}
    simulated = ingest.simulate(id="access", **body(known, {"docs": [{"_source": line}]}))
    assert simulated["docs"][0]["doc"]["_source"] == stored
    verbose = ingest.simulate(id="access", verbose=True, **body(known, {"docs": [{"_source": line}]}))
    assert [step["status"] for step in verbose["docs"][0]["processor_results"]].count("success") == 6

    lines = [{**line, "message": f"10.0.0.{n % 256} GET /{'health' if n % 10 == 0 else n} 200 0.5"} for n in range(300)]
    actions = [{"_index": "piped", "pipeline": "access", "_source": line} for line in lines]
    assert known.helpers.bulk(client, actions) == (300, [])
    assert client.count(index="piped")["count"] == 270
    _, failed = known.helpers.bulk(
        client, [{"_index": "piped", "pipeline": "access", "_source": {"message": message}} for message in ("nothing", "1.2.3.4 OPTIONS / 200 1")],
        raise_on_error=False)
    [failed] = failed
    assert failed["index"]["status"] == 400 and failed["index"]["error"]["processor_type"] == "grok"
    made = client.index(index="piped", id="one", pipeline="access", **body(known, line, "document"))
    assert made["result"] == "created" and client.get_source(index="piped", id="one") == stored
    dropped = client.index(index="piped", id="two", pipeline="access", **body(known, {"message": "1.2.3.4 OPTIONS / 200 1"}, "document"))
    assert dropped["result"] == "noop" and not client.exists(index="piped", id="two")

    template = {"index_patterns": ["lines-*"], "template": {"settings": {"index": {"default_pipeline": "access"}}}}
    client.indices.put_index_template(name="lines", **body(known, template))
    assert known.helpers.bulk(client, [{"_index": "lines-1", "_source": line} for line in lines]) == (300, [])
    assert client.count(index="lines-1")["count"] == 270
    assert client.indices.get_settings(index="lines-1")["lines-1"]["settings"]["index"]["default_pipeline"] == "access"
    with pytest.raises(known.refusal):
        ingest.delete_pipeline(id="access")
    client.indices.put_settings(index="lines-1", **body(known, {"index.default_pipeline": None}, "settings"))
    client.index(index="lines-1", id="raw", **body(known, line, "document"))
    assert client.get_source(index="lines-1", id="raw") == line
    with pytest.raises(known.refusal) as refused:
        ingest.put_pipeline(id="wrong", **body(known, {"processors": [{"enrich": {"field": "agent"}}]}))
    assert "enrich" in str(refused.value)
    client.indices.delete_index_template(name="lines")
    client.indices.delete(index="piped,lines-1")
    for name in ("access", "cleaning"):
        ingest.delete_pipeline(id=name)
    with pytest.raises(known.errors.NotFoundError):
        ingest.get_pipeline(id="access")


def test_what_dashboards_and_operators_ask_is_answered(known):
    client = known.client
    assert client.indices.stats(index="web")["_all"]["total"]["docs"]["count"] == DOCUMENTS
    segments = client.indices.segments(index="web")["indices"]["web"]["shards"]["0"][0]["segments"]
    assert sum(segment["num_docs"] for segment in segments.values()) == DOCUMENTS
    assert client.nodes.stats()["_nodes"]["total"] == 1
    assert client.cluster.get_settings() == {"persistent": {}, "transient": {}}
    tasks = [task for node in client.tasks.list()["nodes"].values() for task in node["tasks"].values()]
    assert [task["action"] for task in tasks] == ["cluster:monitor/tasks/lists"]
    assert client.indices.forcemerge(index="app")["_shards"]["failed"] == 0
    assert client.indices.flush(index="app")["_shards"]["failed"] == 0
    assert "green" in client.cat.health() and client.cat.nodes() and client.cat.shards()
    typed = {"typed_keys": True} if isinstance(known, Elasticsearch) else {"params": {"typed_keys": "true"}}
    answer = client.search(index="web", **body(known, {"size": 0, "aggs": {"s": {"terms": {"field": "status"}}}}), **typed)
    assert list(answer["aggregations"]) == ["lterms#s"]


def test_hits_are_highlighted_collapsed_and_named(known):
    query = {"bool": {"must": [{"match": {"message": {"query": "user3", "_name": "user"}}}], "should": [{"term": {"status": {"value": 404, "_name": "missing"}}}]}}
    body = {"query": query, "highlight": {"fields": {"*": {}}}, "collapse": {"field": "status"}, "sort": ["n"]}
    found = known.search("web", body)["hits"]
    assert found["total"]["value"] == sum(1 for document in documents() if document["n"] % 7 == 3)
    expected = [(3, 200, ["user"]), (10, 404, ["user", "missing"]), (17, 500, ["user"])]
    assert [(hit["_source"]["n"], hit["fields"]["status"][0], hit["matched_queries"]) for hit in found["hits"]] == expected
    assert [hit["highlight"] for hit in found["hits"]] == [{"message": [f"request {n} of <em>user3</em>"]} for n, _, _ in expected]


def test_slices_of_a_scroll_have_each_document_once(known):
    found = []
    for part in range(3):
        body = {"slice": {"id": part, "max": 3}, "query": {"range": {"n": {"lt": 3_000}}}}
        found += [hit["_source"]["n"] for hit in known.helpers.scan(known.client, index="web", query=body, size=500)]
    assert sorted(found) == list(range(3_000))


def test_a_search_is_answered_later(server):
    client = elasticsearch.Elasticsearch(server.url)
    begun = client.async_search.submit(index="web", size=0, aggs={"n": {"max": {"field": "n"}}}, keep_on_completion=True, keep_alive="1h", wait_for_completion_timeout="30s")
    assert not begun["is_running"] and not begun["is_partial"]
    kept = client.async_search.get(id=begun["id"])
    assert kept["response"]["hits"]["total"]["value"] == DOCUMENTS and kept["response"]["aggregations"]["n"]["value"] == DOCUMENTS - 1
    assert client.async_search.status(id=begun["id"])["completion_status"] == 200
    assert client.async_search.delete(id=begun["id"])["acknowledged"]
    with pytest.raises(elasticsearch.NotFoundError):
        client.async_search.get(id=begun["id"])


def test_a_query_is_explained_and_looks_up_its_terms(known):
    client = known.client
    client.index(index="lists", id="users", **body(known, {"wanted": ["ann", 7]}, "document"))
    for n, user in enumerate(["ann", "bob", 7]):
        client.create(index="members", id=str(n), **body(known, {"user": user}, "document"))
    query = {"terms": {"user": {"index": "lists", "id": "users", "path": "wanted"}}}
    assert sorted(hit["_id"] for hit in known.search("members", {"query": query})["hits"]["hits"]) == ["0", "2"]
    explain = lambda id: client.explain(index="members", id=id, **body(known, {"query": query}))  # noqa: E731
    assert explain("0")["matched"] and not explain("1")["matched"]
    client.indices.delete(index="lists")
    client.indices.delete(index="members")


def test_an_error_is_the_clients_own(known):
    with pytest.raises(known.errors.NotFoundError) as error:
        known.client.search(index="gone")
    assert "no such index [gone]" in str(error.value)
    with pytest.raises(known.errors.RequestError if isinstance(known, OpenSearch) else known.errors.BadRequestError) as error:
        known.search("web", {"query": {"trem": {"n": 1}}})
    assert "trem" in str(error.value)


def test_bulk_adds_documents_that_are_found_at_once(known):
    actions = ({"_index": f"bulk-{n % 2}", "_op_type": ["index", "create"][n % 2], "n": n} for n in range(2_500))
    added, failed = known.helpers.bulk(known.client, actions, chunk_size=500)
    assert (added, failed) == (2_500, [])
    assert known.client.count(index="bulk-*")["count"] == 2_500
    own = [{"_index": "bulk-0", "_routing": "r", "pipeline": "p", "n": 1}, {"_index": "bulk-0", "n": "text"}]
    added, failed = known.helpers.bulk(known.client, own, raise_on_error=False)
    assert added == 1 and failed[0]["index"]["status"] == 400
    body = {"n": 7}
    one = known.client.index(index="bulk-0", **{"document" if isinstance(known, Elasticsearch) else "body": body})
    assert one["result"] == "created"
    assert known.client.count(index="bulk-0")["count"] == 1_252
    known.client.indices.delete(index="bulk-0,bulk-1")


def test_documents_are_known_by_their_ids(known):
    client, body = known.client, "document" if isinstance(known, Elasticsearch) else "body"
    actions = [{"_index": "ids", "_id": f"id {n}/é", "_op_type": "create", "n": n} for n in range(500)]
    assert known.helpers.bulk(client, actions) == (500, [])
    added, failed = known.helpers.bulk(client, actions[:3] + [{"_index": "ids", "n": 500}], raise_on_error=False)
    assert added == 1 and [item["create"]["status"] for item in failed] == [409] * 3
    assert client.index(index="ids", id="id 7/é", **{body: {"n": -7}})["result"] == "updated"
    assert client.get(index="ids", id="id 7/é")["_source"] == {"n": -7} == client.get_source(index="ids", id="id 7/é")
    assert client.exists(index="ids", id="id 8/é") and not client.exists(index="ids", id="id 8")
    update = {"doc": {"m": 1}} if isinstance(known, Elasticsearch) else {"body": {"doc": {"m": 1}}}
    updated = client.update(index="ids", id="id 8/é", **update)
    assert (updated["result"], updated["_version"]) == ("updated", 2)
    ids = {"ids": ["id 8/é", "none"]}
    got = client.mget(index="ids", **(ids if isinstance(known, Elasticsearch) else {"body": ids}))["docs"]
    assert [(doc["found"], doc.get("_source")) for doc in got] == [(True, {"n": 8, "m": 1}), (False, None)]
    only_if = {"if_seq_no": updated["_seq_no"], "if_primary_term": updated["_primary_term"]}
    assert client.delete(index="ids", id="id 8/é", **only_if)["result"] == "deleted"
    with pytest.raises(known.errors.NotFoundError):
        client.delete(index="ids", id="id 8/é")
    gone = ({"_index": "ids", "_id": f"id {n}/é", "_op_type": "delete"} for n in range(100, 500))
    assert known.helpers.bulk(client, gone) == (400, [])
    hits = [hit["_id"] for hit in known.helpers.scan(client, index="ids")]
    assert len(hits) == len(set(hits)) == 100 and {f"id {n}/é" for n in range(100) if n != 8} <= set(hits)
    client.indices.delete(index="ids")


def test_nothing_that_was_acknowledged_is_lost_when_the_server_is_killed(frostline):
    server = Server(frostline)
    client = elasticsearch.Elasticsearch(server.url, max_retries=0)
    acknowledged, sent = [], []

    def ship(worker):
        for n in range(10_000):
            number = worker * 10_000 + n
            sent.append(number)
            try:
                client.index(index="killed", document={"n": number})
            except elasticsearch.TransportError:
                return
            acknowledged.append(number)

    workers = [threading.Thread(target=ship, args=(worker,)) for worker in range(4)]
    for worker in workers:
        worker.start()
    while len(acknowledged) < 20:
        assert server.process.poll() is None
    server.process.kill()
    for worker in workers:
        worker.join()
    server.process.wait()
    again = Server(frostline)
    client = elasticsearch.Elasticsearch(again.url)
    found = [hit["_source"]["n"] for hit in elasticsearch.helpers.scan(client, index="killed")]
    assert len(found) == len(set(found))
    assert set(acknowledged) <= set(found) <= set(sent)
    client.indices.delete(index="killed")
    assert again.stop() == DONE


def test_delete_by_query_deletes_what_matches_and_nothing_else(known, frostline):
    client, as_body = known.client, not isinstance(known, Elasticsearch)
    frostline.ingest("by-query", ({"n": n, "even": n % 2 == 0, "text": "x" * 200} for n in range(1_000)), "--split-bytes", "70KB")
    actions = ({"_index": "by-query", "_id": f"id {n}", "n": n, "even": n % 2 == 0} for n in range(1_000, 1_500))
    assert known.helpers.bulk(client, actions) == (500, [])

    def delete(query, **options):
        return client.delete_by_query(index="by-query", **({"body": {"query": query}} if as_body else {"query": query}), **options)

    done = delete({"term": {"even": True}}, refresh=True, conflicts="proceed")
    assert (done["total"], done["deleted"], done["version_conflicts"], done["failures"]) == (750, 750, 0, [])
    found = sorted(hit["_source"]["n"] for hit in known.helpers.scan(client, index="by-query"))
    assert found == list(range(1, 1_500, 2))
    assert delete({"match_all": {}}, max_docs=50)["deleted"] == 50
    assert client.count(index="by-query")["count"] == 700
    task = delete({"match_all": {}}, wait_for_completion=False)["task"]
    while not (told := client.tasks.get(task_id=task))["completed"]:
        pass
    assert told["response"]["deleted"] == 700 and client.count(index="by-query")["count"] == 0
    client.indices.delete(index="by-query")


def test_a_deletion_that_is_killed_leaves_each_document_there_or_gone(frostline):
    frostline.ingest("half", ({"n": n, "part": n % 50, "text": "x" * 100} for n in range(2_000)), "--split-bytes", "70KB")
    server = Server(frostline)
    client = elasticsearch.Elasticsearch(server.url, max_retries=0, request_timeout=60)
    asked, deleted = [], []

    def delete():
        for part in range(0, 50, 2):
            asked.append(part)
            try:
                done = client.delete_by_query(index="half", query={"term": {"part": part}})
            except elasticsearch.TransportError:
                return
            assert done["deleted"] == 40
            deleted.append(part)

    worker = threading.Thread(target=delete)
    worker.start()
    while len(deleted) < 2:
        assert server.process.poll() is None
    server.process.kill()
    worker.join()
    server.process.wait()
    again = Server(frostline)
    client = elasticsearch.Elasticsearch(again.url)
    found = [hit["_source"]["n"] for hit in elasticsearch.helpers.scan(client, index="half")]
    assert len(found) == len(set(found))
    assert {n for n in range(2_000) if n % 50 not in asked} <= set(found)
    assert not {n for n in found if n % 50 in deleted}
    client.indices.delete(index="half")
    assert again.stop() == DONE


def test_a_text_is_analysed_as_documents_are(known):
    def analyze(**body):
        asked = body if isinstance(known, Elasticsearch) else {"body": body, "index": body.pop("index", None)}
        return known.client.indices.analyze(**asked)["tokens"]

    tokens = analyze(text="GET /cmd.exe")
    assert [(token["token"], token["start_offset"], token["end_offset"], token["position"]) for token in tokens] == [
        ("get", 0, 3, 0), ("cmd", 5, 8, 1), ("cmd.exe", 5, 12, 1), ("exe", 9, 12, 2),
    ]
    assert [token["token"] for token in analyze(text=["Web 1", "b"], analyzer="keyword")] == ["Web 1", "b"]
    assert [token["token"] for token in analyze(index="web", field="message.keyword", text="Request 1")] == ["Request 1"]
    assert [token["token"] for token in analyze(index="web", field="message", text="Request 1")] == ["request", "1"]
    with pytest.raises(known.errors.BadRequestError if isinstance(known, Elasticsearch) else known.errors.RequestError):
        analyze(text="a", analyzer="english")


def test_sql_is_answered(server):
    client = elasticsearch.Elasticsearch(server.url)
    answer = client.sql.query(query="select status, count(*) as n from web group by status order by status")
    assert answer["columns"] == [{"name": "status", "type": "long"}, {"name": "n", "type": "long"}]
    assert [row[0] for row in answer["rows"]] == [200, 404, 500]


def test_what_the_server_answers_is_what_the_command_answers(server, frostline):
    body = {"query": {"query_string": {"query": "status:500 AND message:user1"}}, "sort": [{"n": "asc"}], "size": 5}
    status, _, answer = server.ask("POST", "/web/_search", body)
    assert status == 200
    assert json.loads(answer)["hits"] == frostline.search("web", body)["hits"]


def connect(server):
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def test_only_this_machine_is_listened_to(frostline):
    frostline.fails("serve", "--listen", "0.0.0.0:0", status=FAILED, says=["add --auth"])


@pytest.fixture
def own(binary, tmp_path):
    """A repository that has no key yet."""
    from frostline import Frostline

    return Frostline(binary, tmp_path / "repo", tmp_path / "data")


def test_a_server_speaks_tls(own, tmp_path):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )
    tls = ["--tls-cert", str(certificate), "--tls-key", str(key)]
    server = Server(own, "--auth", *tls)
    url = server.url.replace("http:", "https:")
    client = elasticsearch.Elasticsearch(url, api_key=server.first_key, ca_certs=str(certificate))
    assert client.index(index="secret", document={"n": 1})["result"] == "created"
    assert client.count(index="secret")["count"] == 1
    with pytest.raises(elasticsearch.ConnectionError):
        elasticsearch.Elasticsearch(url, api_key=server.first_key).info()
    # Without TLS, and a client that never says a word.
    with pytest.raises((OSError, http.client.HTTPException)):
        server.ask("GET", "/health")
    idle = connect(server)
    client.indices.delete(index="secret")
    assert server.stop() == DONE
    assert "not done in time" not in server.log.read_text()
    idle.close()
    own.fails("serve", "--tls-cert", str(key), "--tls-key", str(key), status=FAILED, says=["holds no certificate"])


def certificate_in(folder):
    """A certificate of this machine that signs itself."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem", "-out",
         folder / "cert.pem"],
        check=True, capture_output=True,
    )


def test_a_server_is_told_by_a_file_and_loads_a_renewed_certificate(own, tmp_path):
    certificate_in(tmp_path)
    tls = ["--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem")]
    printed = own.run("serve", "--auth", "--slow-query", "1m", "--log-format", "json", *tls, "--print-config")
    assert printed.status == DONE, printed
    (tmp_path / "config.toml").write_text(printed.stdout)
    server = Server(own, "--config", str(tmp_path / "config.toml"))
    address = server.url.replace("http://", "").split(":")

    def served():
        return ssl.get_server_certificate((address[0], int(address[1])))

    before = served()
    assert before.strip() == (tmp_path / "cert.pem").read_text().strip()
    certificate_in(tmp_path)
    server.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 30
    while served() == before:
        assert time.monotonic() < deadline
    assert served().strip() == (tmp_path / "cert.pem").read_text().strip()
    assert server.stop() == DONE
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    assert any(line["message"] == "the certificate was loaded again" for line in lines), lines


def test_prometheus_reads_the_metrics(own):
    server = Server(own, "--auth", "--slow-query", "1micros")
    full = elasticsearch.Elasticsearch(server.url, api_key=server.first_key)
    full.index(index="web", document={"n": 1})
    full.search(index="web", query={"match": {"n": 1}})
    role = {"cluster": ["monitor"]}
    monitor = full.security.create_api_key(name="prometheus", role_descriptors={"scrape": role})["encoded"]
    status, headers, page = server.ask("GET", "/metrics", headers={"Authorization": f"ApiKey {monitor}"})
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(page.decode())}
    values = {(sample.name, *sample.labels.values()): sample.value for family in families.values() for sample in family.samples}
    assert values["frostline_http_requests_total", "search", "2xx"] == 1
    assert values["frostline_ingest_documents_total",] == 1
    assert values["frostline_searches_slow_total",] == 1
    assert values["frostline_store_requests_total", "put"] > 0
    assert families["frostline_http_request_duration_seconds"].type == "histogram"
    assert server.ask("GET", "/web/_search", headers={"Authorization": f"ApiKey {monitor}"})[0] == 403
    assert server.ask("GET", "/metrics")[0] == 401
    assert server.stop() == DONE
    log = server.log.read_text()
    assert 'shape="{query:{match:{n:?}}}"' in log and monitor not in log and server.first_key not in log


def test_a_server_that_others_reach_says_that_nothing_is_encrypted(own):
    for listen, is_said in [("127.0.0.1:0", False), ("0.0.0.0:0", True)]:
        server = Server(own, "--auth", listen=listen)
        assert server.stop() == DONE
        assert ("connections are not encrypted" in server.log.read_text()) == is_said


def test_clients_use_keys_and_passwords(own):
    server = Server(own, "--auth")
    full = elasticsearch.Elasticsearch(server.url, api_key=server.first_key)
    with pytest.raises(elasticsearch.AuthenticationException):
        elasticsearch.Elasticsearch(server.url).info()
    role = {"indices": [{"names": ["keyed-*"], "privileges": ["create_doc"]}]}
    shipping = full.security.create_api_key(name="shipper", role_descriptors={"ship": role})
    shipper = elasticsearch.Elasticsearch(server.url, api_key=shipping["encoded"])
    actions = [{"_op_type": "create", "_index": "keyed-1", "n": n} for n in range(100)]
    assert elasticsearch.helpers.bulk(shipper, actions) == (100, [])
    with pytest.raises(elasticsearch.AuthorizationException):
        shipper.search(index="keyed-1")
    full.security.put_user(username="ada", password="lovelace", roles=["viewer"])
    viewer = elasticsearch.Elasticsearch(server.url, basic_auth=("ada", "lovelace"))
    assert viewer.security.authenticate()["username"] == "ada"
    assert viewer.count(index="keyed-*")["count"] == 100
    host, port = server.url.removeprefix("http://").split(":")
    dashboards = opensearchpy.OpenSearch([{"host": host, "port": int(port)}], http_auth=("ada", "lovelace"))
    assert dashboards.count(index="keyed-1")["count"] == 100
    with pytest.raises(opensearchpy.exceptions.AuthorizationException):
        dashboards.indices.delete(index="keyed-1")
    full.security.invalidate_api_key(ids=[shipping["id"]])
    with pytest.raises(elasticsearch.AuthenticationException):
        shipper.info()
    full.indices.delete(index="keyed-1")
    assert server.ask("GET", "/health")[0] == 200 and server.ask("GET", "/")[0] == 401
    assert server.stop() == DONE
    log = server.log.read_text()
    assert server.first_key not in log and "lovelace" not in log and shipping["api_key"] not in log
    again = Server(own, "--auth")
    assert again.first_key is None
    assert again.stop() == DONE


def test_a_server_that_is_told_to_stop_answers_what_it_has_begun(frostline):
    server = Server(frostline)
    connection = connect(server)
    connection.sendall(
        b"POST /_search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 2\r\n"
        b"expect: 100-continue\r\n\r\n"
    )
    assert connection.recv(100).startswith(b"HTTP/1.1 100")
    stopped = threading.Thread(target=server.stop)
    stopped.start()
    connection.sendall(b"{}")
    assert connection.recv(100).startswith(b"HTTP/1.1 200")
    while connection.recv(1 << 16):
        pass
    stopped.join(60)
    assert server.process.returncode == DONE


def test_a_time_field_replaces_no_index_that_was_made_with_care(server, frostline):
    """Nothing was committed to these, but they declare a field, or another name means them."""
    line = '{"ts": "2024-01-01T00:00:00Z", "code": "1"}\n'
    declared = {"mappings": {"properties": {"code": {"type": "keyword"}}}}
    for name, body in [("declared", declared), ("named", {"aliases": {"other-name": {}}})]:
        assert server.ask("PUT", f"/{name}", body)[0] == 200
        frostline.fails("ingest", "--index", name, "--time-field", "ts", "-", stdin=line, says=["time"])
    mapping = json.loads(server.ask("GET", "/declared/_mapping")[2])["declared"]["mappings"]
    assert mapping["properties"]["code"] == declared["mappings"]["properties"]["code"]
    assert server.ask("GET", "/other-name/_count")[0] == 200


def test_a_server_that_asks_nobody_says_so_where_there_are_keys(frostline):
    for options, warns in [((), False), (("--auth",), False), ((), True)]:
        server = Server(frostline, "--no-upkeep", *options)
        assert server.stop() == DONE
        assert ("nobody is asked for them" in server.log.read_text()) == warns, options
