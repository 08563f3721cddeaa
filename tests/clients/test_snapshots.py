"""Snapshots with the official clients: `elasticsearch` as it is installed (scripts/test.sh runs this with versions 9 and 8), and
`opensearch-py`."""

import elasticsearch
import opensearchpy
import pytest

from frostline import DONE
from server import DOCUMENTS, Server, documents

REPOSITORY = "frostline"


@pytest.fixture(scope="module")
def frostline(binary, tmp_path_factory):
    from frostline import Frostline

    folder = tmp_path_factory.mktemp("snapshots")
    return Frostline(binary, folder / "repo", folder / "data")


@pytest.fixture(scope="module")
def server(frostline):
    server = Server(frostline)
    yield server
    assert server.stop() == DONE
    assert "panicked" not in server.log.read_text()


class Elasticsearch:
    name = "elasticsearch"
    refusal, conflict, missing = elasticsearch.ApiError, elasticsearch.ApiError, elasticsearch.NotFoundError

    def __init__(self, url):
        self.client = elasticsearch.Elasticsearch(url)
        self.snapshot = self.client.snapshot

    def create(self, snapshot, **body):
        return self.snapshot.create(repository=REPOSITORY, snapshot=snapshot, wait_for_completion=True, **body)

    def restore(self, snapshot, **body):
        return self.snapshot.restore(repository=REPOSITORY, snapshot=snapshot, wait_for_completion=True, **body)

    def mount(self, snapshot, index, renamed):
        return self.client.searchable_snapshots.mount(
            repository=REPOSITORY, snapshot=snapshot, index=index, renamed_index=renamed, wait_for_completion=True)

    def status(self, error):
        return error.status_code


class OpenSearch:
    name = "opensearch"
    refusal, conflict, missing = opensearchpy.TransportError, opensearchpy.TransportError, opensearchpy.NotFoundError

    def __init__(self, url):
        self.client = opensearchpy.OpenSearch(url)
        self.snapshot = self.client.snapshot

    def create(self, snapshot, **body):
        parameters = {"wait_for_completion": "true"}
        return self.snapshot.create(repository=REPOSITORY, snapshot=snapshot, body=body, params=parameters)

    def restore(self, snapshot, **body):
        parameters = {"wait_for_completion": "true"}
        return self.snapshot.restore(repository=REPOSITORY, snapshot=snapshot, body=body, params=parameters)

    def mount(self, snapshot, index, renamed):
        # Its client has no method for it.
        return self.client.transport.perform_request(
            "POST", f"/_snapshot/{REPOSITORY}/{snapshot}/_mount", params={"wait_for_completion": "true"},
            body={"index": index, "renamed_index": renamed})

    def status(self, error):
        return error.status_code


@pytest.fixture(params=[Elasticsearch, OpenSearch])
def known(request, server):
    return request.param(server.url)


def numbers(client, index):
    """The numbers in all documents, in order."""
    hits, after = [], {}
    while page := client.search(index=index, body={"sort": ["n"], "size": 2_000, "_source": ["n"], **after})["hits"]["hits"]:
        hits += [hit["_source"]["n"] for hit in page]
        after = {"search_after": page[-1]["sort"]}
    return hits


def test_a_snapshot_is_made_restored_mounted_and_deleted(known, frostline):
    client, web, first = known.client, f"web-{known.name}", f"first-{known.name}"
    frostline.ingest(web, documents(), "--split-bytes", "100KB")
    made = known.create(first, indices=web, metadata={"by": known.name})["snapshot"]
    assert (made["state"], made["indices"], made["metadata"]) == ("SUCCESS", [web], {"by": known.name})
    with pytest.raises(known.conflict) as conflict:
        known.create(first)
    assert known.status(conflict.value) == 400

    shown = known.snapshot.get(repository=REPOSITORY, snapshot="f*")["snapshots"]
    assert [snapshot["uuid"] for snapshot in shown] == [made["uuid"]]
    status = known.snapshot.status(repository=REPOSITORY, snapshot=first)["snapshots"][0]
    assert status["shards_stats"]["done"] == 1 and status["stats"]["total"]["size_in_bytes"] > 0
    assert REPOSITORY in known.snapshot.get_repository()
    assert first in client.cat.snapshots(repository=REPOSITORY, format="text" if known.name == "opensearch" else None)

    # Everything is merged into new splits, some of it is deleted, and what is old is vacuumed.
    client.delete_by_query(index=web, body={"query": {"range": {"n": {"lt": 1_000}}}})
    frostline.ok("index", "merge", web)
    frostline.ok("vacuum", web, "--retain-hours", "0")
    assert numbers(client, web) == list(range(1_000, DOCUMENTS))
    with pytest.raises(known.conflict) as taken:
        known.restore(first, indices=web)
    assert known.status(taken.value) == 500 and "cannot restore index" in str(taken.value)
    done = known.restore(first, indices=web, rename_pattern="web-(.+)", rename_replacement="old-$1", include_aliases=False)
    old = f"old-{known.name}"
    assert done["snapshot"]["indices"] == [old]
    assert numbers(client, old) == list(range(DOCUMENTS))

    client.indices.delete(index=web)
    frostline.ok("vacuum", old, "--retain-hours", "0", "--orphan-hours", "0")
    mounted = f"mounted-{known.name}"
    assert known.mount(first, web, mounted)["snapshot"]["indices"] == [mounted]
    assert numbers(client, mounted) == list(range(DOCUMENTS))
    buckets = client.search(index=mounted, body={"size": 0, "aggs": {"s": {"terms": {"field": "status"}}}})
    assert sum(bucket["doc_count"] for bucket in buckets["aggregations"]["s"]["buckets"]) == DOCUMENTS
    for write in [
        lambda: client.index(index=mounted, body={"n": 1}),
        lambda: client.delete_by_query(index=mounted, body={"query": {"match_all": {}}}),
    ]:
        with pytest.raises(known.refusal) as refused:
            write()
        assert known.status(refused.value) == 403 and "cluster_block_exception" in str(refused.value)
    refused = frostline.run("ingest", "--index", mounted, "-", stdin=b'{"n":1}\n')
    assert refused.status != DONE
    frostline.ok("index", "merge", mounted)

    known.snapshot.delete(repository=REPOSITORY, snapshot=first)
    with pytest.raises(known.missing):
        known.snapshot.get(repository=REPOSITORY, snapshot=first)
    frostline.ok("vacuum", old, "--retain-hours", "0", "--orphan-hours", "0")
    assert numbers(client, mounted) == list(range(DOCUMENTS)), "the mount keeps its files"
    client.indices.delete(index=mounted)
    frostline.ok("vacuum", old, "--retain-hours", "0", "--orphan-hours", "0")
    left = [path for path in (frostline.repo / web).rglob("*.parquet")]
    assert left == [], "nothing keeps them"
    assert numbers(client, old) == list(range(DOCUMENTS))


def test_another_repository_is_refused(known):
    with pytest.raises(known.refusal) as refused:
        if known.name == "elasticsearch":
            known.snapshot.create_repository(name="backups", body={"type": "fs", "settings": {"location": "/tmp"}})
        else:
            known.snapshot.create_repository(repository="backups", body={"type": "fs", "settings": {"location": "/tmp"}})
    assert known.status(refused.value) == 400 and "[frostline]" in str(refused.value)
    with pytest.raises(known.missing):
        known.snapshot.get(repository="backups", snapshot="_all")
