"""Traces of a server, as a receiver of OpenTelemetry gets them."""

import json
import re
import socket
import threading

import pytest

from frostline import DONE, FAILED, Frostline
from receiver import Receiver
from server import Server, documents

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SERVER = 2
SECRETS = ["lovelace", "user3", "request 17"]


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.stop()


@pytest.fixture
def traced(binary, tmp_path):
    """A repository whose server sends traces where a test says so, soon."""
    def over(**variables):
        environment = {"OTEL_BSP_SCHEDULE_DELAY": "20", **variables}
        return Frostline(binary, tmp_path / "repo", tmp_path / "data", environment)

    return over


def parent(sampled=True, trace=TRACE):
    return {"traceparent": f"00-{trace}-{PARENT}-0{int(sampled)}"}


def is_in(inner, outer):
    return outer.start <= inner.start and inner.end <= outer.end


def test_a_search_has_a_span_in_the_trace_of_its_client(traced, receiver):
    own = traced(OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url, OTEL_EXPORTER_OTLP_HEADERS="x-key=secret%20one",
                 OTEL_SERVICE_NAME="logs", OTEL_RESOURCE_ATTRIBUTES="deployment.environment=test")
    own.ingest("web", documents(), "--split-bytes", "100KB")
    server = Server(own, "--log-format", "json", "--slow-query", "1micros")
    body = {"query": {"match": {"message": "user3"}}, "size": 3, "aggs": {"by": {"terms": {"field": "host.name"}}}}
    headers = {**parent(), "tracestate": "vendor=1"}
    status, _, answer = server.ask("POST", "/web/_search?typed_keys=true", body, headers)
    cost = json.loads(answer)["cost"]
    assert status == 200
    span, stages = receiver.tree(TRACE, "search")
    assert (span.parent, span.kind, span.trace_state, span.status.code) == (PARENT, SERVER, "vendor=1", 0)
    said = span.attributes
    assert (said["http.request.method"], said["url.path"], said["http.response.status_code"]) == ("POST", "/web/_search", 200)
    assert said["frostline.searches"] == 1 and said["frostline.splits"] == cost["splits"]["live"] > 1
    assert said["frostline.splits_opened"] == cost["splits"]["opened"] and "frostline.splits_pruned" in said
    assert said["frostline.gets"] == cost["gets"] + cost["opening"]["gets"] and said["frostline.usd"] == cost["usd"] + cost["opening"]["usd"]
    assert said["frostline.bytes"] == cost["bytes"] + cost["opening"]["bytes"] and "user" not in said
    assert span.resource["service.name"] == "logs" and span.resource["deployment.environment"] == "test"
    assert re.match(r"\d+\.\d+", span.resource["service.version"])
    names = [stage.name for stage in sorted(stages, key=lambda stage: stage.start)]
    assert names[:4] == ["read body", "wait for thread", "open index", "ask needle segments"], names
    assert set(names[4:]) <= {"read splits", "read documents", "render hits"} and {"read splits", "render hits"} <= set(names), names
    assert all(is_in(stage, span) for stage in stages), (span, stages)
    reading = next(stage for stage in stages if stage.name == "read splits")
    assert reading.attributes["frostline.gets"] > 0 and reading.attributes["frostline.splits_opened"] == cost["splits"]["opened"]
    path, sent = receiver.headers[0]
    assert path == "/v1/traces" and sent["content-type"] == "application/x-protobuf" and sent["x-key"] == "secret one"
    assert server.stop() == DONE
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    logged = {line["target"]: line for line in lines if line.get("api") == "search"}
    assert {target: line["trace_id"] for target, line in logged.items()} == {
        "frostline_server::access": TRACE, "frostline_server::slow": TRACE}
    assert not any("span" in line or "spans" in line for line in lines), lines
    assert "secret" not in server.log.read_text()


def test_a_write_has_a_span_for_each_stage(traced, receiver):
    server = Server(traced(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{receiver.url}/elsewhere"))
    bulk = "".join(f'{{"create":{{}}}}\n{{"n":{n},"message":"request 17"}}\n' for n in range(20)).encode()
    status, _, answer = server.ask("POST", "/web/_bulk", bulk, {**parent(), "Content-Type": "application/x-ndjson"})
    assert status == 200 and not json.loads(answer)["errors"]
    span, stages = receiver.tree(TRACE, "bulk")
    stages.sort(key=lambda stage: stage.start)
    assert [stage.name for stage in stages if stage.name != "open index"] == ["read body", "wait for group", "seal", "put", "commit"]
    assert all(is_in(stage, span) for stage in stages)
    assert receiver.headers[0][0] == "/elsewhere"
    other = TRACE[::-1]
    status, _, _ = server.ask("PUT", "/web/_doc/17", {"n": 17}, parent(trace=other))
    assert status in (200, 201)
    span, stages = receiver.tree(other, "index")
    names = [stage.name for stage in sorted(stages, key=lambda stage: stage.start) if stage.name != "open index"]
    assert names == ["read body", "wait for group", "look up ids", "seal and put", "commit"], names
    assert server.stop() == DONE


def test_requests_at_the_same_time_have_the_stages_of_their_common_group(traced, receiver):
    server = Server(traced(OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url))
    traces = [f"{n:032x}" for n in range(1, 9)]

    def write(trace):
        assert server.ask("POST", "/web/_doc", {"n": 1}, parent(trace=trace))[0] == 201

    writers = [threading.Thread(target=write, args=[trace]) for trace in traces]
    [writer.start() for writer in writers]
    [writer.join() for writer in writers]
    for trace in traces:
        span, stages = receiver.tree(trace, "index")
        assert {"wait for group", "seal", "put", "commit"} <= {stage.name for stage in stages}, stages
    # Each trace has what its request did, and the server's own work has none.
    assert {span.trace for span in receiver.spans} == set(traces)
    assert server.stop() == DONE


def test_a_client_that_is_not_sampled_is_not_traced_but_logged(traced, receiver):
    server = Server(traced(OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url))
    assert server.ask("GET", "/_cat/indices", headers=parent(sampled=False))[0] == 200
    assert server.ask("GET", "/_cat/indices", headers={"traceparent": "00-nonsense-01"})[0] == 200
    assert server.stop() == DONE
    # One that names no trace begins one.
    roots = [span for span in receiver.spans if not span.parent]
    assert [(span.name, span.attributes["url.path"]) for span in roots] == [("cat.indices", "/_cat/indices")]
    assert {span.trace for span in receiver.spans} == {roots[0].trace} != {TRACE}
    log = server.log.read_text()
    assert f'trace_id="{TRACE}"' in log and f'trace_id="{roots[0].trace}"' in log


def test_the_share_of_requests_that_begin_a_trace_is_a_setting(traced, receiver):
    server = Server(traced(OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url, OTEL_TRACES_SAMPLER="parentbased_traceidratio",
                           OTEL_TRACES_SAMPLER_ARG="0"))
    for _ in range(20):
        assert server.ask("GET", "/")[0] == 200
    assert server.ask("GET", "/", headers=parent())[0] == 200
    receiver.tree(TRACE, "info")
    assert server.stop() == DONE
    assert {span.trace for span in receiver.spans} == {TRACE}
    assert server.log.read_text().count("trace_id") == 1


def test_an_error_has_its_kind_and_no_words_of_the_request(traced, receiver):
    server = Server(traced(OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url))
    assert server.ask("POST", "/absent/_search", {"query": {"match": {"a": "lovelace"}}}, parent())[0] == 404
    span, _ = receiver.tree(TRACE, "search")
    assert span.attributes["error.type"] == "index_not_found_exception" and span.status.code == 0
    assert server.ask("GET", "/_nothing/here", headers=parent(trace=TRACE[::-1]))[0] == 400
    span, _ = receiver.tree(TRACE[::-1], "request")
    assert span.attributes["http.response.status_code"] == 400
    assert server.stop() == DONE


def test_spans_have_users_and_no_secrets(traced, receiver):
    server = Server(traced(OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url), "--auth", "--slow-query", "1micros", "--slow-query-body")
    key = {"Authorization": f"ApiKey {server.first_key}"}
    assert server.ask("PUT", "/_security/user/ada", {"password": "lovelace", "roles": ["superuser"]}, key)[0] == 200
    assert server.ask("POST", "/web/_doc?op_type=create", {"message": "request 17 of user3"}, key)[0] == 201
    assert server.ask("GET", "/web/_search?q=message:user3", headers={**key, **parent()})[0] == 200
    assert server.ask("GET", "/web/_search?q=user3", headers=parent(trace=TRACE[::-1]))[0] == 401
    span, _ = receiver.tree(TRACE, "search")
    assert "user [" in span.attributes["user"]
    refused, _ = receiver.tree(TRACE[::-1], "request")
    assert refused.attributes["http.response.status_code"] == 401
    assert server.stop() == DONE
    said = str([(span.name, span.attributes, span.status, span.events) for span in receiver.spans])
    assert not [secret for secret in [*SECRETS, server.first_key] if secret in said]


def test_grpc_is_traced(traced, receiver):
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
    from test_doors import export

    server = Server(traced(), "--traces", receiver.url, "--otlp-grpc", "127.0.0.1:0")
    metadata = (("traceparent", parent()["traceparent"]),)
    export(OTLPLogExporter(endpoint=f"http://{server.told['otlp_grpc']}", insecure=True, headers=metadata), ["one", "two"])
    span, stages = receiver.tree(TRACE, "otlp.logs")
    assert span.parent == PARENT and {"seal", "put", "commit"} <= {stage.name for stage in stages}
    assert span.attributes["http.request.method"] == "POST" and span.attributes["http.response.status_code"] == 200
    assert server.stop() == DONE


def test_nothing_is_sent_unless_somebody_asks(traced, receiver):
    for variables in [{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_SDK_DISABLED": "true"},
                      {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_TRACES_EXPORTER": "none"}]:
        server = Server(traced(**variables))
        assert server.ask("GET", "/", headers=parent())[0] == 200
        assert "frostline_trace_spans" not in server.ask("GET", "/metrics")[2].decode()
        assert server.stop() == DONE
        assert "trace_id" not in server.log.read_text()
    assert receiver.requests == 0


@pytest.mark.parametrize(("variable", "value", "says"), [
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", "such as http://localhost:4318"),
    ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "port 4318"),
    ("OTEL_TRACES_SAMPLER", "sometimes", "traceidratio"),
    ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "is a number"),
])
def test_variables_that_cannot_be_followed_are_named(traced, variable, value, says):
    own = traced(**{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318", variable: value})
    own.fails("serve", "--listen", "127.0.0.1:0", status=FAILED, says=[variable, says])


def counts(server):
    page = server.ask("GET", "/metrics")[2].decode()
    dropped = {reason: int(count) for reason, count in re.findall(r'spans_dropped_total\{reason="(\w+)"\} (\d+)', page)}
    resident = int(re.search(r"process_resident_memory_bytes (\d+)", page)[1])
    return int(re.search(r"spans_sent_total (\d+)", page)[1]), dropped, resident


def test_a_receiver_that_is_down_harms_nobody(traced):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    server = Server(traced(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://ada:lovelace@127.0.0.1:{port}"))
    while not counts(server)[1]["not_taken"]:
        assert server.ask("GET", "/")[0] == 200
    assert counts(server)[0] == 0
    assert server.stop() == DONE
    log = server.log.read_text()
    # Once, however many were not sent.
    assert log.count("traces cannot be sent") == 1 and f"http://127.0.0.1:{port}/v1/traces" in log and "refused" in log.lower()
    assert "lovelace" not in log and "panicked" not in log


def test_traces_are_sent_again_once_the_receiver_takes_them(traced):
    receiver = Receiver(status=400)
    server = Server(traced(OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url))
    while not counts(server)[1]["not_taken"]:
        pass
    receiver.status = 200
    while not counts(server)[0]:
        pass
    assert server.stop() == DONE
    log = server.log.read_text()
    assert "it answered 400" in log and "traces are sent again" in log
    receiver.stop()


def test_a_receiver_that_does_not_answer_harms_nobody(traced):
    receiver = Receiver(answers=False)
    own = traced(OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url, OTEL_BSP_MAX_QUEUE_SIZE="64")
    server = Server(own)
    assert server.ask("PUT", "/web/_doc/1?refresh=true", {"n": 1})[0] == 201
    receiver.wait(lambda receiver: receiver.requests)
    before = counts(server)[2]
    for _ in range(1_000):
        assert server.ask("GET", "/web/_search?q=n:1")[0] == 200
    sent, dropped, resident = counts(server)
    # Each search has several spans, of which 64 are held.
    assert sent == 0 and dropped["queue_full"] > 1_000
    assert resident < before + (64 << 20), (before, resident)
    assert server.stop() == DONE
    assert "the last traces were not sent" in server.log.read_text()
    receiver.stop()
