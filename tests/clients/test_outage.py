"""A bucket that stops answering: what the server has read goes on being answered, writes are refused, and nothing that was
acknowledged is lost."""

import json
import time

from frostline import Frostline
from s3_proxy import S3Proxy
from server import Server


def search(server, expression="web"):
    body = {"query": {"range": {"n": {"gte": 0}}}, "size": 0, "track_total_hits": True, "aggs": {"users": {"terms": {"field": "user"}}}}
    started = time.monotonic()
    status, headers, answer = server.ask("POST", f"/{expression}/_search", body)
    return status, headers, json.loads(answer), time.monotonic() - started


def bulk(server, numbers):
    lines = (f'{{"index":{{}}}}\n{json.dumps({"@timestamp": "2024-05-02T00:00:00Z", "n": n, "user": f"u{n % 3}"})}\n' for n in numbers)
    status, headers, answer = server.ask("POST", "/web/_bulk", "".join(lines).encode(), {"Content-Type": "application/x-ndjson"})
    return status, headers, json.loads(answer)


def test_a_bucket_that_stops_answering_stops_writes_and_no_reads(binary, s3, tmp_path):
    with S3Proxy(s3["AWS_ENDPOINT_URL"]) as proxy:
        environment = {name: value for name, value in s3.items() if name.startswith("AWS_")} | {"AWS_ENDPOINT_URL": proxy.url}
        frostline = Frostline(binary, f"s3://{s3['FROSTLINE_TEST_S3_BUCKET']}/{tmp_path.name}", tmp_path / "data", environment)
        for index in ("web", "unread"):
            frostline.ingest(index, [{"@timestamp": "2024-05-01T00:00:00Z", "n": n, "user": f"u{n % 3}"} for n in range(300)])
        frostline.ok("mount", "web")
        server = Server(frostline, "--no-upkeep")
        status, headers, before, _ = search(server)
        assert (status, before["hits"]["total"]["value"], "Warning" in headers) == (200, 300, False)
        hit = json.loads(server.ask("GET", "/web/_search?size=1&sort=n")[2])["hits"]["hits"][0]
        pit = json.loads(server.ask("POST", "/web/_pit?keep_alive=10m")[2])["id"]
        known = [
            ("GET", f"/web/_doc/{hit['_id']}", None), ("GET", f"/web/_source/{hit['_id']}", None),
            ("POST", "/_mget", {"docs": [{"_index": "web", "_id": hit["_id"]}, {"_index": "web", "_id": "none"}]}),
            ("POST", "/_search", {"pit": {"id": pit}, "size": 0, "track_total_hits": True}),
            ("GET", "/web/_settings", None), ("GET", "/web", None), ("GET", "/_alias", None), ("GET", "/_data_stream", None),
        ]

        def answers():
            for method, path, body in known:
                status, headers, answer = server.ask(method, path, body)
                answer = json.loads(answer)
                for name in ("took", "cost", "_shards", "pit_id"):
                    answer.pop(name, None)
                yield path, status, answer, "the repository does not answer" in headers.get("Warning", "")

        told = list(answers())
        assert all(status == 200 and not is_outdated for _, status, _, is_outdated in told), told

        proxy.is_down = True
        # The first request finds out that nothing answers.
        status, headers, during, took = search(server)
        assert (status, during["hits"], during["aggregations"]) == (200, before["hits"], before["aggregations"])
        assert took < 60
        for _ in range(20):
            status, headers, during, took = search(server)
            assert (status, during["aggregations"]) == (200, before["aggregations"])
            assert "the repository does not answer" in headers["Warning"]
            assert took < 10
        assert search(server, "w*")[0] == 200
        assert list(answers()) == [(path, status, answer, True) for path, status, answer, _ in told]
        # What would write decides nothing by what may be outdated, and what is not known is not left out.
        for method, path, body in [
            ("POST", "/web/_delete_by_query", {"query": {"term": {"n": 1_000}}}), ("DELETE", "/gone", None),
            ("POST", "/web,unread/_search", {}), ("POST", "/_all/_count", {}),
        ]:
            status, headers, _ = server.ask(method, path, body)
            assert (status, "Warning" in headers) == (503, False), path
        status, headers, answer = server.ask("POST", "/web/_async_search?wait_for_completion_timeout=30s&keep_on_completion=true", {})
        found = json.loads(answer)
        assert (status, found["response"]["hits"]["total"]["value"]) == (200, 300)
        status, headers, _ = server.ask("GET", f"/_async_search/{found['id']}")
        assert status == 200 and "the repository does not answer" in headers["Warning"]
        told = frostline.run("search", "--server", server.url, "--index", "web", "n:7")
        assert told.status == 0 and "the repository does not answer" in told.stderr
        assert server.ask("GET", "/_cat/indices/web")[0] == 200
        assert search(server, "unread")[0] == 503
        status, headers, refused = bulk(server, range(300, 310))
        if status == 200:
            assert {item["index"]["status"] for item in refused["items"]} == {503}
        else:
            assert status == 503 and "Retry-After" in headers
        assert server.ask("GET", "/ready")[0] == 503
        assert server.ask("GET", "/health")[0] == 200

        proxy.is_down = False
        # One request a second finds out that it answers again.
        deadline = time.monotonic() + 60
        while bulk(server, range(310, 320))[2].get("errors") is not False:
            assert time.monotonic() < deadline
        status, headers, after, _ = search(server)
        assert (status, "Warning" in headers) == (200, False)
        # What was refused may be there or not; what was acknowledged is, once.
        status, _, hits = server.ask("GET", "/web/_search?size=1000")
        numbers = [hit["_source"]["n"] for hit in json.loads(hits)["hits"]["hits"]]
        assert len(numbers) == len(set(numbers)) == after["hits"]["total"]["value"]
        assert {*range(300), *range(310, 320)} <= set(numbers) <= set(range(320))
        assert search(server, "unread")[2]["hits"]["total"]["value"] == 300
        assert server.ask("GET", "/ready")[0] == 200
        assert server.stop() == 0
        log = server.log.read_text()
        assert "the store has not answered for" in log and "the store answers again" in log and "panicked" not in log
