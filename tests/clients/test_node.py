"""Clients for Node.js over the server: those of Elasticsearch 9 and 8 and of OpenSearch, and elasticdump."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import elasticsearch
import elasticsearch.helpers
import pytest

from frostline import DONE
from server import DOCUMENTS, Server, documents

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Where scripts/setup.sh installs tests/clients/node/package.json.
PACKAGES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "frostline" / "node" / "node_modules"

pytestmark = pytest.mark.skipif(
    not shutil.which("node") or not PACKAGES.is_dir(), reason="Node.js or its packages are not here: see scripts/setup.sh test")


@pytest.fixture(scope="module")
def server(binary, tmp_path_factory):
    from frostline import Frostline

    folder = tmp_path_factory.mktemp("node")
    frostline = Frostline(binary, folder / "repo", folder / "data")
    frostline.ingest("web", documents(), "--split-bytes", "100KB")
    frostline.ingest("app", ({**document, "app": True} for document, _ in zip(documents(), range(100))))
    server = Server(frostline)
    yield server
    assert server.stop() == DONE
    assert "panicked" not in server.log.read_text()


def run_node(*arguments, **environment):
    return subprocess.run(
        ["node", *map(str, arguments)], env={**os.environ, "NODE_PATH": str(PACKAGES), "NODE_OPTIONS": "", **environment},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)


@pytest.mark.parametrize("client", ["@elastic/elasticsearch", "elasticsearch-8", "@opensearch-project/opensearch"])
def test_an_official_client_does_all_its_work(server, client):
    apis = (ROOT / "docs" / "server.md").read_text()
    environment = {"HAS_ASYNC_SEARCH": "1"} if "| async_search.submit |" in apis else {}
    ran = run_node(
        "--test", "--test-reporter=tap", HERE / "node" / "clients.test.cjs", CLIENT=client, URL=server.url,
        DOCUMENTS=str(DOCUMENTS), **environment)
    counts = {word: int(count) for word, count in re.findall(r"^# (tests|pass|fail|skipped) (\d+)$", ran.stdout, re.M)}
    assert ran.returncode == 0 and counts["fail"] == 0 and counts["pass"] >= 12, ran.stdout


def dump(*arguments):
    """Runs elasticdump. It reports no failure to write in its exit status, so what it copied is compared."""
    ran = run_node(PACKAGES / "elasticdump" / "bin" / "elasticdump", "--limit=500", *arguments)
    assert ran.returncode == 0 and "error" not in ran.stdout.lower(), ran.stdout


def everything(client, index):
    """The documents of an index by their ids, and its mapping."""
    hits = list(elasticsearch.helpers.scan(client, index=index, size=1_000))
    found = {hit["_id"]: hit["_source"] for hit in hits}
    assert len(found) == len(hits)
    return found, client.indices.get_mapping(index=index)[index]["mappings"]


def test_elasticdump_copies_an_index_out_and_in(server, tmp_path):
    client = elasticsearch.Elasticsearch(server.url)
    client.indices.create(index="dumped", mappings={"properties": {"code": {"type": "keyword"}}})
    # Ids of a client and of the server; a field that is a text, a number and an object; what JSON parsers like to change.
    given = [
        {"_index": "dumped", **({"_id": f"id {n}/é"} if n % 2 else {}), "_source": {
            "@timestamp": f"2024-05-01T00:{n // 60:02}:{n % 60:02}.123456Z", "n": n, "third": n / 3, "big": 2**53 + n,
            "code": n, "mixed": [n, f"text {n}", {"a": n}][n % 3], "list": [1, None, {"deep": [n]}, []], "text": 'é "quoted"\n😀',
        }} for n in range(2_000)
    ]
    assert elasticsearch.helpers.bulk(client, given) == (2_000, [])
    # JavaScript has no whole number beyond 2^53, so elasticdump is told to keep them.
    exact = "--support-big-int"
    for kind in ("settings", "mapping", "data"):
        dump(f"--input={server.url}/dumped", f"--output={tmp_path}/{kind}.json", f"--type={kind}", exact)
        dump(f"--input={tmp_path}/{kind}.json", f"--output={server.url}/loaded", f"--type={kind}", exact)
    expected, mapping = everything(client, "dumped")
    assert len(expected) == 2_000 and mapping["properties"]["code"]["type"] == "keyword"
    assert everything(client, "loaded") == (expected, mapping)
    # From one index into another, with a scroll and with a point in time; and again, which changes nothing.
    dump(f"--input={server.url}/dumped", f"--output={server.url}/direct", "--type=mapping")
    for paging in ([], ["--searchAfter=true", "--pit=true"]):
        dump(f"--input={server.url}/dumped", f"--output={server.url}/direct", "--type=data", exact, *paging)
        assert everything(client, "direct") == (expected, mapping)
    # Documents that are moved are deleted where they were.
    dump(f"--input={server.url}/loaded", f"--output={tmp_path}/moved.json", "--type=data", "--delete=true", "--searchBody",
         json.dumps({"query": {"range": {"n": {"lt": 20}}}}))
    assert len((tmp_path / "moved.json").read_text().splitlines()) == 20
    assert client.count(index="loaded")["count"] == 1_980
    client.indices.delete(index="dumped,loaded,direct")
