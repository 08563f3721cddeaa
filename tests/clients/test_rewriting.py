"""Documents that are written again or copied, and searches from templates, with the official clients of Elasticsearch and
OpenSearch, against the documents that were sent."""

import json

import elasticsearch
import elasticsearch.helpers
import opensearchpy
import opensearchpy.helpers
import pytest

from frostline import DONE
from server import Server


@pytest.fixture(scope="module")
def server(binary, tmp_path_factory):
    from frostline import Frostline

    folder = tmp_path_factory.mktemp("rewriting")
    frostline = Frostline(binary, folder / "repo", folder / "data")
    frostline.ingest("logs", ({"n": n, "host": f"web-{n % 7}", "status": 500 if n % 7 == 3 else 200, "text": "x" * 500} for n in range(600)), "--split-bytes", "70KB")
    server = Server(frostline)
    yield server
    assert server.stop() == DONE
    assert "panicked" not in server.log.read_text()


class Elasticsearch:
    helpers = elasticsearch.helpers

    def __init__(self, url):
        self.client = elasticsearch.Elasticsearch(url, request_timeout=60)

    def call(self, name, body, **options):
        return getattr(self.client, name)(**options, **body)


class OpenSearch:
    helpers = opensearchpy.helpers

    def __init__(self, url):
        self.client = opensearchpy.OpenSearch(url, timeout=60)

    def call(self, name, body, **options):
        return getattr(self.client, name)(body=body, **options)


@pytest.fixture(scope="module", params=[Elasticsearch, OpenSearch])
def known(request, server):
    return request.param(server.url)


def documents(known, index):
    hits = list(known.helpers.scan(known.client, index=index))
    assert len({hit["_id"] for hit in hits}) == len(hits)
    return {hit["_id"]: hit["_source"] for hit in hits}


def test_a_copy_has_the_documents_and_an_update_changes_those_that_match(known):
    before = documents(known, "logs")
    assert len(before) == 600
    copied = known.call("reindex", {"source": {"index": "logs"}, "dest": {"index": "copy"}}, refresh=True)
    assert (copied["created"], copied["updated"], copied["failures"]) == (600, 0, [])
    assert documents(known, "copy") == before

    mark = {"processors": [{"set": {"field": "seen", "value": True}}]}
    known.client.ingest.put_pipeline(id="mark", **({"body": mark} if isinstance(known, OpenSearch) else mark))
    errors = {"query": {"term": {"status": 500}}}
    updated = known.call("update_by_query", errors, index="copy", pipeline="mark", conflicts="proceed")
    expected = {id: {**source, "seen": True} if source["status"] == 500 else source for id, source in before.items()}
    assert (updated["updated"], updated["version_conflicts"]) == (sum("seen" in source for source in expected.values()), 0)
    assert documents(known, "copy") == expected
    assert documents(known, "logs") == before

    part = {"source": {"index": "copy", "query": {"term": {"seen": True}}, "_source": ["n"]}, "dest": {"index": "part", "op_type": "create"}, "max_docs": 50}
    assert known.call("reindex", part)["created"] == 50
    assert all(set(source) == {"n"} and before[id]["n"] == source["n"] for id, source in documents(known, "part").items())
    # The helper of the clients, which copies document by document, makes the same.
    assert known.helpers.reindex(known.client, "copy", "by-helper") == (600, 0)
    assert documents(known, "by-helper") == expected
    for index in ["copy", "part", "by-helper"]:
        known.client.indices.delete(index=index)


def test_a_template_is_a_search(known):
    template = '{"query": {"terms": {"host.keyword": {{#toJson}}hosts{{/toJson}}}}, "size": {{size}}{{^size}}5{{/size}}}'
    known.call("put_script", {"script": {"lang": "mustache", "source": template}}, id="hosts")
    assert known.client.get_script(id="hosts")["script"]["source"] == template
    asked = {"id": "hosts", "params": {"hosts": ["web-1", "web-3"]}}
    found = known.call("search_template", asked, index="logs")
    direct = known.client.search(index="logs", q='host.keyword:("web-1" OR "web-3")', size=5)
    assert found["hits"] == direct["hits"] and found["hits"]["total"]["value"] == 172
    rendered = known.call("render_search_template", {"source": template, "params": {"hosts": [], "size": 1}})
    assert rendered["template_output"] == {"query": {"terms": {"host.keyword": []}}, "size": 1}
    lines = [{"index": "logs"}, {**asked, "params": {"hosts": ["web-0"], "size": 1}}, {"index": "logs"}, {"id": "none"}]
    name = "search_templates" if isinstance(known, Elasticsearch) else "body"
    responses = known.client.msearch_template(**{name: lines})["responses"]
    assert (responses[0]["hits"]["total"]["value"], responses[1]["status"]) == (86, 404)
    known.client.delete_script(id="hosts")


def test_terms_are_listed_and_the_significant_ones_found(known, server):
    _, _, body = server.ask("POST", "/logs/_terms_enum", {"field": "host.keyword", "string": "web-", "size": 3})
    terms = json.loads(body)
    assert (terms["terms"], terms["complete"]) == (["web-0", "web-1", "web-2"], False)
    body = {"size": 0, "query": {"term": {"status": 500}}, "aggs": {"hosts": {"significant_terms": {"field": "host.keyword"}}}}
    hosts = known.call("search", body, index="logs")["aggregations"]["hosts"]
    errors = len([n for n in range(600) if n % 7 == 3])
    assert (hosts["doc_count"], hosts["bg_count"], len(hosts["buckets"])) == (errors, 600, 1)
    bucket = hosts["buckets"][0]
    assert (bucket["key"], bucket["doc_count"], bucket["bg_count"]) == ("web-3", errors, errors)
    assert bucket["score"] == pytest.approx((1 - errors / 600) * 600 / errors)
