"""`frostline ship` against a server: killed again and again while files grow and rotate, with keys and TLS, and of containers."""

import json
import os
import random
import subprocess
import threading

import elasticsearch
import elasticsearch.helpers
import pytest

from frostline import DONE, FAILED, Frostline
from server import Server

KILLS = int(os.environ.get("FROSTLINE_TEST_KILLS") or 12)


@pytest.fixture
def shipper(binary, tmp_path):
    """A machine that knows of no repository."""
    return Frostline(binary, tmp_path / "none", tmp_path / "shipper")


@pytest.fixture
def certificate(tmp_path):
    """A certificate of 127.0.0.1, and its key."""
    configuration, certificate, key = tmp_path / "server.cnf", tmp_path / "server.pem", tmp_path / "server-key.pem"
    configuration.write_text(
        "[req]\ndistinguished_name=name\nx509_extensions=of\n[name]\n[of]\nbasicConstraints=CA:FALSE\nsubjectAltName=IP:127.0.0.1\n")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
         "/CN=server", "-config", configuration, "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )
    return certificate, key


def stored(server, index):
    client = elasticsearch.Elasticsearch(server.url, request_timeout=60)
    return [hit["_source"] for hit in elasticsearch.helpers.scan(client, index=index, size=5_000)]


class Writer(threading.Thread):
    """Appends numbered lines to a file, which is rotated by name meanwhile."""

    def __init__(self, folder):
        super().__init__()
        self.folder, self.written, self.ends = folder, 0, threading.Event()

    def run(self):
        rotations = 0
        while not self.ends.is_set():
            with open(self.folder / "app.log", "a", buffering=1) as log:
                for _ in range(40):
                    text = "".join(f'{{"n":{self.written + n},"text":"{"x" * (n % 90)}"}}\n' for n in range(50))
                    half = len(text) // 2
                    log.write(text[:half])
                    log.flush()
                    self.ends.wait(0.002)
                    log.write(text[half:])
                    self.written += 50
                    self.ends.wait(0.02)
            rotations += 1
            (self.folder / "app.log").rename(self.folder / f"app.log.{rotations}")


def test_a_shipper_that_is_killed_loses_no_line_and_repeats_none(frostline, shipper, tmp_path):
    server, logs, drawn = Server(frostline), tmp_path / "logs", random.Random(7)
    logs.mkdir()
    writer = Writer(logs)
    writer.start()
    ship = ("ship", "--to", server.url, "--index", "app", "--format", "ndjson", f"{logs}/app.log*")
    killed = sum(shipper.killed_after(drawn.uniform(0.1, 2.5), *ship, "--follow") for _ in range(KILLS))
    writer.ends.set()
    writer.join()
    report = shipper.ok(*ship, "--once")
    assert killed == KILLS
    numbers = sorted(document["n"] for document in stored(server, "app"))
    assert numbers == list(range(writer.written))
    again = shipper.ok(*ship, "--once")
    assert (again["documents"], again["already_there"], again["failed"]) == (0, 0, []), (report, again)
    assert server.stop() == DONE


def test_keys_and_certificates_come_from_files_and_the_environment(binary, frostline, shipper, certificate, tmp_path):
    server = Server(frostline, "--auth", "--tls-cert", certificate[0], "--tls-key", certificate[1])
    log = tmp_path / "a.log"
    log.write_text("2024-05-01T10:00:00Z started\n")
    url = server.url.replace("http:", "https:")
    ship = ("ship", "--to", url, "--index", "app", "--once", "--retry-for", "1s", log)
    shipper.fails(*ship, says=["the server cannot be spoken to", "--ca FILE"])
    trusting = Frostline(binary, tmp_path / "none", tmp_path / "shipper", {"FROSTLINE_CA": str(certificate[0])})
    trusting.fails(*ship, says=["does not know who asks (status 401)"])
    key = tmp_path / "key"
    key.write_text("d3Jvbmc6c2VjcmV0\n")
    said = trusting.fails(*ship, "--api-key-file", key, says=["status 401"])
    assert "d3Jvbmc6c2VjcmV0" not in said
    trusting.environment["FROSTLINE_API_KEY"] = server.first_key
    assert trusting.ok(*ship)["documents"] == 1
    del trusting.environment["FROSTLINE_API_KEY"]
    key.write_text(f"ApiKey {server.first_key}\n")
    assert trusting.ok(*ship, "--api-key-file", key)["documents"] == 0
    assert server.first_key not in "".join(path.read_text() for path in (tmp_path / "shipper").rglob("*.json"))
    assert server.stop() == DONE
    assert frostline.search("app", {"size": 0})["hits"]["total"]["value"] == 1


def test_a_certificate_of_an_authority_is_told_from_a_servers(frostline, shipper, tmp_path):
    """As `openssl req -x509` makes one, and as docs/operating.md says."""
    log = tmp_path / "a.log"
    log.write_text("2024-05-01T10:00:00Z started\n")
    for extra, serves in [([], False), (["-addext", "basicConstraints=critical,CA:FALSE"], True)]:
        certificate, key = tmp_path / f"{serves}.pem", tmp_path / f"{serves}.key"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
             "/CN=server", "-addext", "subjectAltName=IP:127.0.0.1", *extra, "-keyout", key, "-out", certificate],
            check=True, capture_output=True,
        )
        server = Server(frostline, "--tls-cert", certificate, "--tls-key", key)
        url = server.url.replace("http:", "https:")
        ship = ("ship", "--to", url, "--index", "app", "--once", "--retry-for", "1s", "--ca", certificate, log)
        if serves:
            assert shipper.ok(*ship)["documents"] == 1
        else:
            shipper.fails(*ship, says=["CA:TRUE", "basicConstraints=critical,CA:FALSE"])
        assert server.stop() == DONE


def test_containers_and_the_journal_are_read_by_ship_and_by_ingest(frostline, shipper, tmp_path):
    pod = tmp_path / "pods" / "shop_web-7d9_3f2c" / "nginx"
    pod.mkdir(parents=True)
    (pod / "0.log").write_text(
        "2024-01-01T00:00:00.1Z stdout P GET \n2024-01-01T00:00:00.2Z stderr F warning\n2024-01-01T00:00:00.3Z stdout F /index\n")
    identity = "0123456789abcdef" * 4
    docker = tmp_path / "containers" / identity
    docker.mkdir(parents=True)
    lines = [{"log": "one\n", "stream": "stdout", "time": "2024-01-01T00:00:01Z"}] * 2
    (docker / f"{identity}-json.log").write_text("".join(json.dumps(line) + "\n" for line in lines))
    journal = tmp_path / "journal"
    journal.write_text(json.dumps({"__REALTIME_TIMESTAMP": "1704067202000000", "MESSAGE": "up", "_PID": "7"}) + "\n")
    files = [pod, docker, journal]
    frostline.ok("ingest", "--index", "ingested", *files)
    server = Server(frostline)
    report = shipper.ok("ship", "--to", server.url, "--index", "shipped", "--once", *files)
    assert report["documents"] == 5
    order = lambda index: sorted(stored(server, index), key=json.dumps)
    assert order("shipped") == order("ingested")
    found = {document["message"]: document for document in stored(server, "shipped")}
    kubernetes = {"namespace": "shop", "pod": {"name": "web-7d9", "uid": "3f2c"}, "container": {"name": "nginx"}}
    assert found["GET /index"] == {
        "@timestamp": "2024-01-01T00:00:00.100Z", "message": "GET /index", "stream": "stdout", "kubernetes": kubernetes}
    assert found["one"]["container"] == {"id": identity}
    assert found["up"] == {"@timestamp": "2024-01-01T00:00:02.000Z", "message": "up", "_PID": 7}
    report = shipper.ok("ship", "--to", f"{server.url}/v1/logs", "--index", "records", "--once", journal)
    assert report["documents"] == 1
    assert [document["body"] for document in stored(server, "records")] == ["up"]
    assert server.stop() == DONE


def test_what_cannot_be_shipped_is_said(shipper, tmp_path):
    log = tmp_path / "a.log"
    log.write_text("x\n")
    shipper.fails("ship", "--to", "http://u:secret@a:1", "--index", "i", "--once", log, says=["give them as options"])
    shipper.fails("ship", "--to", "localhost:9200", "--index", "i", "--once", log, says=["is not an HTTP URL"])
    shipper.fails("ship", "--to", "http://127.0.0.1:1", "--once", log, says=["name one with --index"])
    shipper.fails("ship", "--to", "http://127.0.0.1:1", "--index", "i", "--once", "--retry-for", "1s", log, says=["accepted no documents"])
    shipper.fails("ship", "--to", "http://127.0.0.1:1", "--index", "i", "--follow", "-", says=["write --once"])
    shipper.fails("ship", "--to", "http://127.0.0.1:1", "--index", "i", log, status=2, says=["--follow", "--once"])
    silent = subprocess.run(
        shipper.command("ship", "--help"), capture_output=True, text=True, env=shipper.clean_environment())
    assert silent.returncode != FAILED and "FROSTLINE_API_KEY" in silent.stdout
