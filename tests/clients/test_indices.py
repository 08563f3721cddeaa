"""Managing indices with the official clients: closing, blocks, hidden names, templates, lifecycle policies; and that commands and
another server over the repository keep to it."""

import json

import elasticsearch
import opensearchpy
import pytest

from frostline import DONE
from server import Server


@pytest.fixture
def servers(frostline):
    frostline.ingest("web", ({"@timestamp": f"2024-05-01T00:00:{n:02}Z", "n": n} for n in range(10)))
    both = [Server(frostline, "--no-upkeep") for _ in range(2)]
    yield both
    for server in both:
        assert server.stop() == DONE
        assert "panicked" not in server.log.read_text()


@pytest.fixture(params=["elasticsearch", "opensearch"])
def client(request, servers):
    if request.param == "elasticsearch":
        return elasticsearch.Elasticsearch(servers[0].url)
    return opensearchpy.OpenSearch(servers[0].url)


ERRORS = (elasticsearch.ApiError, opensearchpy.TransportError)


def refused(ask, kind):
    with pytest.raises(ERRORS) as raised:
        ask()
    assert raised.value.error == kind
    return raised.value.status_code


def test_a_closed_index_is_closed_for_all(client, servers, frostline):
    assert client.indices.close(index="web")["indices"] == {"web": {"closed": True}}
    assert refused(lambda: client.search(index="web"), "index_closed_exception") == 400
    assert client.search(index="*")["hits"]["total"]["value"] == 0
    assert client.cat.indices(format="json")[0]["status"] == "close"
    status, _, body = servers[1].ask("GET", "/web/_count")
    assert (status, json.loads(body)["error"]["type"]) == (400, "index_closed_exception")
    # The other server has read that now, and takes no documents either.
    status, _, body = servers[1].ask("POST", "/web/_doc", {"n": 1})
    assert (status, json.loads(body)["error"]["index"]) == (400, "web")
    for command in [("search", "*", "--index", "web"), ("sql", "select count(*) from web"), ("pit", "open", "web")]:
        frostline.fails(*command, says=["the index is closed"])
    assert client.indices.open(index="web")["acknowledged"]
    assert client.search(index="web")["hits"]["total"]["value"] == 10


def test_a_block_is_set_and_removed(client, frostline):
    client.indices.add_block(index="web", block="write")
    assert refused(lambda: client.index(index="web", body={"n": 1}), "cluster_block_exception") == 403
    client.indices.put_settings(index="web", body={"index.blocks.write": None})
    client.index(index="web", body={"n": 1})
    assert client.count(index="web")["count"] == 11


def test_hidden_names_and_templates_are_as_they_say(client):
    template = {"index_patterns": ["new-*"], "template": {
        "settings": {"index.hidden": True}, "aliases": {"ones": {"filter": {"term": {"n": 1}}}},
    }}
    client.indices.put_index_template(name="new", body=template)
    simulated = client.indices.simulate_index_template(name="new-1")
    assert simulated["template"]["settings"] == {"index": {"hidden": "true"}}
    for n in range(3):
        client.index(index="new-1", body={"n": n})
    assert client.count(index="*")["count"] == 10
    assert client.count(index="*", expand_wildcards="all")["count"] == 13
    assert client.count(index="ones")["count"] == 1


def test_the_command_makes_an_index_as_its_templates_say(servers, frostline, tmp_path):
    client = elasticsearch.Elasticsearch(servers[0].url)
    client.cluster.put_component_template(name="ids", template={"mappings": {"properties": {"id": {"type": "keyword"}}}})
    client.indices.put_index_template(name="new", index_patterns=["new-*"], composed_of=["ids"], template={
        "mappings": {"properties": {"n": {"type": "keyword"}}},
        "settings": {"index.hidden": True, "index.time_field": "when"}, "aliases": {"news": {"routing": "r"}},
    })
    document = {"when": "2024-05-01T00:00:00Z", "id": 7, "n": 1}
    mapping = tmp_path / "mapping.json"
    mapping.write_text(json.dumps({"mappings": {"properties": {"n": {"type": "long"}, "more": {"type": "ip"}}}}))
    client.index(index="new-1", document=document)
    frostline.ingest("new-2", [document])
    about = [client.indices.get(index=name)[name] for name in ["new-1", "new-2"]]
    assert [one["mappings"] for one in about] == [about[0]["mappings"]] * 2
    assert [one["aliases"] for one in about] == [{"news": {"index_routing": "r", "search_routing": "r"}}] * 2
    for one in about:
        assert one["settings"]["index"]["hidden"] == "true" and one["settings"]["index"]["time_field"] == "when"
    # What is given is laid over what the templates say, also by the run that finds the index there.
    for n in range(2):
        frostline.ingest("new-3", [{**document, "n": n}], "--mapping", mapping)
    properties = client.indices.get_mapping(index="new-3")["new-3"]["mappings"]["properties"]
    assert {name: about["type"] for name, about in properties.items()} == {
        "id": "keyword", "more": "ip", "n": "long", "when": "date",
    }
    client.indices.put_index_template(name="streams", index_patterns=["stream-*"], data_stream={})
    client.indices.put_index_template(name="refused", index_patterns=["refused-*"], allow_auto_create=False)
    for index, says in [("stream-1", "data stream"), ("refused-1", "refused-1")]:
        frostline.fails("ingest", "--index", index, "-", stdin=json.dumps(document) + "\n", says=[says])
    assert not client.indices.exists(index="stream-1,refused-1")


def test_documents_are_written_to_names_of_date_math(client, servers, frostline, tmp_path):
    today = "<new-{now/d{yyyy.MM.dd}}>"
    client.index(index=today, body={"n": 1})
    made = client.bulk(body=[{"index": {"_index": today, "_id": "a"}}, {"n": 2}, {"create": {"_index": "<new-{x}>"}}, {"n": 3}])
    statuses = [(item["status"], item.get("_index")) for each in made["items"] for item in each.values()]
    name = statuses[0][1]
    assert statuses[0][0] == 201 and name.startswith("new-20") and statuses[1][0] == 400
    assert client.get(index=today, id="a")["_source"] == {"n": 2}
    frostline.ingest(today, [{"n": 4}])
    assert client.count(index=name)["count"] == 3
    client.reindex(body={"source": {"index": name}, "dest": {"index": "<copy-{now/y{yyyy}}>"}}, refresh=True)
    assert client.count(index="copy-20*")["count"] == 3
    assert client.indices.create(index="<made-{now/d}>")["index"].startswith("made-20")
    client.indices.put_alias(index="made-20*", name="rolled")
    assert client.indices.rollover(alias="rolled", new_index="<made-{now/d}-000002>")["new_index"].endswith("-000002")


def test_a_policy_is_kept(servers):
    client = elasticsearch.Elasticsearch(servers[0].url)
    policy = {"phases": {"delete": {"min_age": "30d", "actions": {"delete": {}}}}}
    with pytest.warns(elasticsearch.ElasticsearchWarning, match="no effect"):
        client.ilm.put_lifecycle(name="logs", policy=policy)
    assert client.ilm.get_lifecycle(name="logs")["logs"]["policy"] == policy
    assert client.ilm.get_status()["operation_mode"] == "STOPPED"
    assert client.ilm.explain_lifecycle(index="web")["indices"]["web"]["managed"] is False
    assert client.searchable_snapshots.cache_stats()["nodes"]
    client.ilm.delete_lifecycle(name="logs")


def test_commands_keep_to_what_is_closed_and_blocked(servers, frostline, tmp_path):
    line = '{"@timestamp":"2024-05-01T00:00:00Z","n":11}\n'
    taken = lambda: frostline.sql("select count(*) from web")[0][0]
    ingest = ("ingest", "--index", "web", "--format", "ndjson", "-")
    for block in ["write", "read_only"]:
        assert servers[0].ask("PUT", f"/web/_block/{block}")[0] == 200
        frostline.fails(*ingest, says=["index.blocks"], stdin=line)
        servers[0].ask("DELETE", f"/web/_block/{block}")
    servers[0].ask("PUT", "/web/_block/read_only")
    frostline.fails("index", "delete", "web", "--yes", says=["index.blocks"])
    servers[0].ask("DELETE", "/web/_block/read_only")
    servers[0].ask("POST", "/web/_close")
    frostline.fails(*ingest, says=["the index is closed"], stdin=line)
    log = tmp_path / "a.log"
    log.write_text("2024-05-01T10:00:00Z started\n")
    ship = ("ship", "--to", servers[0].url, "--index", "web", "--once", "--retry-for", "1s", log)
    frostline.fails(*ship, says=["index_closed_exception"])
    servers[0].ask("POST", "/web/_open")
    assert taken() == 10
    assert frostline.ok(*ship)["documents"] == 1
    frostline.ok(*ingest, stdin=line)
    assert taken() == 12


def test_records_for_a_closed_index_are_to_be_sent_again(servers):
    record = {"timeUnixNano": "1700000000000000000", "body": {"stringValue": "hi"}}
    send = lambda: servers[0].ask("POST", "/v1/logs", {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]})
    assert send()[0] == 200
    for closed, opened in [("POST /logs-otlp/_close", "POST /logs-otlp/_open"), ("PUT /logs-otlp/_block/write", "DELETE /logs-otlp/_block/write")]:
        assert servers[0].ask(*closed.split())[0] == 200
        status, headers, _ = send()
        assert status == 503 and "retry-after" in {name.lower() for name in headers}
        assert servers[0].ask(*opened.split())[0] == 200
    assert send()[0] == 200
    assert json.loads(servers[0].ask("GET", "/logs-otlp/_count")[2])["count"] == 2


def test_a_stream_with_a_blocked_index_is_not_deleted(servers):
    server = servers[0]
    server.ask("PUT", "/_index_template/streams", {"index_patterns": ["stm*"], "data_stream": {}})
    server.ask("POST", "/stm/_doc", {"@timestamp": "2026-01-01T00:00:00Z"})
    server.ask("PUT", "/ds-stm-000001/_block/read_only")
    assert server.ask("DELETE", "/_data_stream/stm")[0] == 403
    server.ask("DELETE", "/ds-stm-000001/_block/read_only")
    assert server.ask("DELETE", "/_data_stream/stm")[0] == 200
    server.ask("PUT", "/web/_block/read")
    assert server.ask("GET", "/_cat/count/web")[0] == 403


def test_shippers_of_the_default_distribution_find_an_active_license(servers):
    status, _, body = servers[0].ask("GET", "/_license")
    assert (status, json.loads(body)["license"]["status"]) == (200, "active")
