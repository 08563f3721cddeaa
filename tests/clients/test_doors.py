"""Logs that come in by other ways than Elasticsearch's API: from the SDK of OpenTelemetry, and over syslog."""

import json
import logging
import logging.handlers
import socket
import ssl
import subprocess
import time

import pytest
from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource

from frostline import DONE, FAILED, Frostline
from server import Server


@pytest.fixture
def own(binary, tmp_path):
    return Frostline(binary, tmp_path / "repo", tmp_path / "data")


@pytest.fixture
def certificate(tmp_path):
    """A certificate of the server, which also signs that of a client."""
    return certified(tmp_path, "server")


def certified(folder, name):
    certificate, key = folder / f"{name}.pem", folder / f"{name}-key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )
    return certificate, key


def signed(folder, name, by):
    """A certificate that another one signed."""
    request, certificate, key = folder / f"{name}.csr", folder / f"{name}.pem", folder / f"{name}-key.pem"
    subprocess.run(
        ["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
         "-keyout", key, "-out", request],
        check=True, capture_output=True,
    )
    extensions = folder / f"{name}.ext"
    extensions.write_text("basicConstraints=CA:FALSE\nextendedKeyUsage=clientAuth\n")
    subprocess.run(
        ["openssl", "x509", "-req", "-in", request, "-CA", by[0], "-CAkey", by[1], "-days", "2", "-extfile", extensions,
         "-out", certificate],
        check=True, capture_output=True,
    )
    return certificate, key


def export(exporter, texts):
    """Sends records as programs do, and returns when the exporter is done with them."""
    provider = LoggerProvider(resource=Resource.create({"service.name": "shop", "service.version": "1.2"}))
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    logger = provider.get_logger("app", "3.4")
    for n, text in enumerate(texts):
        logger.emit(
            timestamp=1_717_200_000_000_000_001 + n, severity_number=SeverityNumber.WARN, severity_text="WARN", body=text,
            attributes={"n": n, "http.method": "GET", "tags": ["a", "b"], "load": 0.5},
        )
    assert provider.force_flush(30_000)
    provider.shutdown()


def search(server, index, key=None, **body):
    headers = {"Authorization": f"ApiKey {key}"} if key else {}
    status, _, answer = server.ask("POST", f"/{index}/_search", {"size": 100, **body}, headers)
    assert status == 200, answer
    return [hit["_source"] for hit in json.loads(answer)["hits"]["hits"]]


def wait_for(server, index, count):
    """The documents of an index once it has so many: syslog tells nobody when it has stored them."""
    for _ in range(600):
        status, _, answer = server.ask("GET", f"/{index}/_count")
        if status == 200 and json.loads(answer)["count"] >= count:
            return search(server, index)
        time.sleep(0.1)
    pytest.fail(f"{index} has not got {count} documents: {server.log.read_text()}")


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_the_sdk_exports_over_http(own, compression):
    server = Server(own)
    export(HttpExporter(endpoint=f"{server.url}/v1/logs", compression=compression), ["one", {"a": {"b": 2}}, "three"])
    found = search(server, "logs-otlp", sort=["attributes.n"])
    assert [document["body"] for document in found] == ["one", {"a": {"b": 2}}, "three"]
    first = found[0]
    assert first["@timestamp"] == "2024-06-01T00:00:00.000000001Z"
    assert (first["severity_number"], first["severity_text"]) == (13, "WARN")
    assert first["attributes"] == {"n": 0, "http.method": "GET", "tags": ["a", "b"], "load": 0.5}
    assert first["resource"]["attributes"]["service.name"] == "shop"
    assert first["scope"] == {"name": "app", "version": "3.4"}
    assert len(search(server, "logs-otlp", query={"term": {"resource.attributes.service.name": "shop"}})) == 3
    assert server.stop() == DONE


def test_the_sdk_exports_over_grpc_with_a_key(own):
    server = Server(own, "--auth", "--otlp-grpc", "127.0.0.1:0")
    role = {"indices": [{"names": ["team-*"], "privileges": ["create_doc"]}]}
    status, _, answer = server.ask(
        "POST", "/_security/api_key", {"name": "otel", "role_descriptors": {"r": role}},
        {"Authorization": f"ApiKey {server.first_key}"},
    )
    assert status == 200, answer
    key = json.loads(answer)["encoded"]
    headers = (("authorization", f"ApiKey {key}"), ("x-frostline-index", "team-a"))
    endpoint = f"http://{server.told['otlp_grpc']}"
    export(GrpcExporter(endpoint=endpoint, insecure=True, headers=headers), [f"record {n}" for n in range(50)])
    assert len(search(server, "team-a", server.first_key)) == 50
    # Without a key nothing comes in.
    export(GrpcExporter(endpoint=endpoint, insecure=True, headers=headers[1:], timeout=5), ["refused"])
    assert len(search(server, "team-a", server.first_key)) == 50
    assert "missing authentication credentials" in server.log.read_text()
    assert server.stop() == DONE


def test_grpc_speaks_tls(own, certificate):
    import grpc

    server = Server(own, "--auth", "--tls-cert", str(certificate[0]), "--tls-key", str(certificate[1]), "--otlp-grpc", "127.0.0.1:0")
    credentials = grpc.ssl_channel_credentials(certificate[0].read_bytes())
    headers = (("authorization", f"ApiKey {server.first_key}"),)
    export(GrpcExporter(endpoint=f"https://{server.told['otlp_grpc']}", credentials=credentials, headers=headers), ["secret"])
    assert server.stop() == DONE
    assert own.search("logs-otlp", {"size": 0})["hits"]["total"]["value"] == 1


def test_a_client_that_says_no_word_is_not_waited_for(own):
    server = Server(own, "--otlp-grpc", "127.0.0.1:0", "--syslog", "127.0.0.1:0")
    idle = [connect(server.told[door]) for door in ["otlp_grpc", "syslog"]]
    assert server.stop() == DONE
    assert "not done in time" not in server.log.read_text()
    for connection in idle:
        connection.close()


def connect(address):
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=30)


def test_syslog_over_tcp_and_udp(own):
    server = Server(own, "--syslog", "127.0.0.1:0")
    host, port = server.told["syslog"].rsplit(":", 1)
    with connect(server.told["syslog"]) as connection:
        connection.sendall(b"<34>Oct 11 22:14:15 web-1 su[7]: by line\n")
        counted = '<165>1 2024-05-31T22:14:15.003Z web-2 shop 42 ID47 [a@1 x="1"] by\ncount'.encode()
        connection.sendall(b"%d %s" % (len(counted), counted))
        connection.sendall(b"<13>no end of line")
    datagrams = logging.handlers.SysLogHandler((host, int(port)), socktype=socket.SOCK_DGRAM)
    datagrams.emit(logging.makeLogRecord({"msg": "over UDP", "levelno": logging.ERROR, "levelname": "ERROR"}))
    datagrams.close()
    found = {document["message"].rstrip("\0"): document for document in wait_for(server, "logs-syslog", 4)}
    assert found["by line"]["host.name"] == "web-1"
    assert found["by\ncount"]["syslog.data.a@1.x"] == "1"
    assert found["by\ncount"]["@timestamp"] == "2024-05-31T22:14:15.003Z"
    # Without a time they are no syslog, and are kept.
    assert "syslog.unparsed" in found["<13>no end of line"]
    assert found["<11>over UDP"]["syslog.severity"] == "err"
    assert all(document["source.ip"] == "127.0.0.1" for document in found.values())
    assert server.stop() == DONE


def test_what_came_over_tcp_is_stored_when_the_server_stops(own):
    server = Server(own, "--syslog", "127.0.0.1:0")
    with connect(server.told["syslog"]) as connection:
        connection.sendall(b"".join(b"<13>1 - - - - - - message %d\n" % n for n in range(20_000)))
        wait_for(server, "logs-syslog", 1)
        connection.sendall(b"100 <13>1 - - - - - - half")
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
    assert server.stop() == DONE
    assert own.search("logs-syslog", {"size": 0})["hits"]["total"]["value"] == 20_001


def test_syslog_over_tls_asks_for_a_certificate(own, certificate, tmp_path):
    server = Server(
        own, "--tls-cert", str(certificate[0]), "--tls-key", str(certificate[1]), "--syslog-tls", "127.0.0.1:0",
        "--syslog-client-ca", str(certificate[0]),
    )
    client = ssl.create_default_context(cafile=str(certificate[0]))
    client.load_cert_chain(*signed(tmp_path, "client", by=certificate))
    with client.wrap_socket(connect(server.told["syslog_tls"]), server_hostname="127.0.0.1") as connection:
        connection.sendall(b"<13>1 - - - - - - secret\n")
        connection.unwrap()
    others = [ssl.create_default_context(cafile=str(certificate[0])) for _ in range(2)]
    others[1].load_cert_chain(*certified(tmp_path, "stranger"))
    for other in others:
        with pytest.raises((ssl.SSLError, OSError)):
            with other.wrap_socket(connect(server.told["syslog_tls"]), server_hostname="127.0.0.1") as connection:
                connection.sendall(b"<13>1 - - - - - - refused\n")
                # What TLS 1.3 refuses is told with the first read.
                if connection.recv(1) == b"":
                    raise OSError("closed")
    assert server.stop() == DONE
    assert own.search("logs-syslog", {"size": 0})["hits"]["total"]["value"] == 1


def test_doors_that_others_reach_need_auth(own, certificate):
    for door in ["--otlp-grpc", "--syslog"]:
        own.fails("serve", "--listen", "127.0.0.1:0", door, "0.0.0.0:0", status=FAILED, says=["add --auth"])
    server = Server(own, "--auth", "--syslog", "0.0.0.0:0")
    assert server.stop() == DONE
    assert "syslog has no credentials" in server.log.read_text()
