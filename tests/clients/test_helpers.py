"""The helpers of Python's clients over the server, also the asynchronous ones: `elasticsearch` as it is installed
(scripts/test.sh runs this with versions 9 and 8), and `opensearch-py`."""

import asyncio

import elasticsearch
import elasticsearch.helpers
import opensearchpy
import opensearchpy.helpers
import pytest

from frostline import DONE
from server import DOCUMENTS, Server, documents

# What a client's helpers are called, and its asynchronous client with its own helpers.
PACKAGES = {
    "elasticsearch": (elasticsearch.Elasticsearch, elasticsearch.helpers, elasticsearch.AsyncElasticsearch, elasticsearch.helpers),
    "opensearch": (opensearchpy.OpenSearch, opensearchpy.helpers, opensearchpy.AsyncOpenSearch, opensearchpy._async.helpers.actions),
}


@pytest.fixture(scope="module")
def server(binary, tmp_path_factory):
    from frostline import Frostline

    folder = tmp_path_factory.mktemp("helpers")
    frostline = Frostline(binary, folder / "repo", folder / "data")
    frostline.ingest("web", documents(), "--split-bytes", "100KB")
    server = Server(frostline)
    yield server
    assert server.stop() == DONE
    assert "panicked" not in server.log.read_text()


@pytest.fixture(params=PACKAGES)
def known(request):
    return PACKAGES[request.param]


@pytest.fixture
def client(known, server):
    client = known[0](server.url)
    yield client
    for index in client.indices.get(index="to-*", allow_no_indices=True):
        client.indices.delete(index=index)


def numbers(helpers, client, index, **options):
    return sorted(hit["_source"]["n"] for hit in helpers.scan(client, index=index, **options))


def actions(index, count, **more):
    return ({"_index": index, "_id": str(n), "_source": {"n": n}, **more} for n in range(count))


def test_streaming_bulk_says_of_each_document_what_became_of_it(known, client):
    helpers = known[1]
    outcomes = list(helpers.streaming_bulk(client, actions("to-stream", 600, _op_type="create"), chunk_size=300))
    assert len(outcomes) == 600
    assert all(ok and item["create"]["result"] == "created" for ok, item in outcomes)
    again = list(helpers.streaming_bulk(client, actions("to-stream", 602, _op_type="create"), chunk_size=300, raise_on_error=False))
    assert [ok for ok, _ in again] == [False] * 600 + [True] * 2
    assert {item["create"]["status"] for ok, item in again if not ok} == {409}
    with pytest.raises(helpers.BulkIndexError) as error:
        list(helpers.streaming_bulk(client, actions("to-stream", 3, _op_type="create")))
    assert [item["create"]["error"]["type"] for item in error.value.errors] == ["version_conflict_engine_exception"] * 3
    assert numbers(helpers, client, "to-stream") == list(range(602))


def test_streaming_bulk_takes_every_kind_of_action(known, client):
    helpers = known[1]
    assert helpers.bulk(client, actions("to-change", 300)) == (300, [])
    changes = []
    for n in range(300):
        change = {"_index": "to-change", "_id": str(n)}
        changes.append([
            {**change, "_op_type": "delete"},
            {**change, "_op_type": "update", "doc": {"seen": True}},
            {**change, "_op_type": "update", "doc": {"n": -n}, "doc_as_upsert": True},
        ][n % 3])
    outcomes = [item for ok, item in helpers.streaming_bulk(client, changes, chunk_size=100) if ok]
    assert [next(iter(item.values()))["result"] for item in outcomes] == ["deleted", "updated", "updated"] * 100
    assert numbers(helpers, client, "to-change") == sorted([n for n in range(300) if n % 3 == 1] + [-n for n in range(2, 300, 3)])
    assert numbers(helpers, client, "to-change", query={"query": {"exists": {"field": "seen"}}}) == list(range(1, 300, 3))


def test_parallel_bulk_stores_every_document_once(known, client):
    helpers = known[1]
    many = ({"_index": f"to-parallel-{n % 3}", "_source": {"n": n}} for n in range(3_000))
    outcomes = [ok for ok, _ in helpers.parallel_bulk(client, many, thread_count=4, chunk_size=250, queue_size=4)]
    assert outcomes == [True] * 3_000
    assert numbers(helpers, client, "to-parallel-*") == list(range(3_000))


def test_reindex_copies_the_documents_of_a_query_with_their_ids(known, client):
    helpers = known[1]
    assert helpers.bulk(client, actions("to-from", 700)) == (700, [])
    copied = helpers.reindex(client, "to-from", "to-copy", query={"query": {"range": {"n": {"gte": 200}}}}, chunk_size=250)
    assert copied == (500, 0)
    assert numbers(helpers, client, "to-copy") == list(range(200, 700))
    assert client.get(index="to-copy", id="345")["_source"] == {"n": 345}
    # Documents without an `_id` of a client keep what they were called.
    assert helpers.reindex(client, "web", "to-web", chunk_size=1_000) == (DOCUMENTS, 0)
    assert numbers(helpers, client, "to-web") == list(range(DOCUMENTS))


def test_scan_ends_early_and_clears_its_scroll(known, client, server):
    scan = known[1].scan(client, index="web", size=50)
    for _ in range(60):
        next(scan)
    scan.close()
    assert "clear_scroll" in server.log.read_text().splitlines()[-1]


def test_asynchronous_clients_do_the_same(known, server):
    _, _, new, helpers = known

    async def work():
        client = new(server.url)
        try:
            assert await helpers.async_bulk(client, actions("to-async", 900, _op_type="create"), chunk_size=300) == (900, [])
            stored, failed = await helpers.async_bulk(client, actions("to-async", 901, _op_type="create"), raise_on_error=False)
            assert (stored, len(failed)) == (1, 900)
            streamed = [ok async for ok, _ in helpers.async_streaming_bulk(client, actions("to-async", 950), chunk_size=500)]
            assert streamed == [True] * 950
            query = {"query": {"range": {"n": {"lt": 400}}}}
            found = [hit["_source"]["n"] async for hit in helpers.async_scan(client, index="to-async", query=query, size=70)]
            assert sorted(found) == list(range(400))
            copied = await helpers.async_reindex(client, "to-async", "to-async-copy", chunk_size=500)
            assert copied == (950, 0)
            # Many requests at once over a few connections.
            counts = await asyncio.gather(*(
                client.count(index="web", body={"query": {"term": {"status": status}}}) for status in [200, 404, 500] * 20))
            expected = [sum(d["status"] == status for d in documents()) for status in (200, 404, 500)]
            assert [count["count"] for count in counts] == expected * 20
            gone = await asyncio.gather(client.search(index="gone"), return_exceptions=True)
            assert type(gone[0]).__name__ == "NotFoundError" and gone[0].status_code == 404
        finally:
            await client.indices.delete(index="to-async,to-async-copy", ignore_unavailable=True)
            await client.close()

    asyncio.run(work())
