"""rsyslog ships lines to the server with its module omelasticsearch: each is stored once."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import elasticsearch
import elasticsearch.helpers
import pytest

from frostline import DONE
from server import Server

PATH = f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin"
RSYSLOGD = shutil.which("rsyslogd", path=PATH)
MODULES = [folder / "rsyslog" for folder in [*Path("/usr/lib").glob("*-linux-gnu"), Path("/usr/lib64"), Path("/usr/lib")]]

pytestmark = pytest.mark.skipif(
    not RSYSLOGD or not any((folder / "omelasticsearch.so").is_file() for folder in MODULES),
    reason="rsyslog or its module omelasticsearch is not here: see scripts/setup.sh test")

LINES = 3_000

# Failed requests are tried again for ever. A full queue is waited for: by default rsyslog drops lines after two seconds of it.
CONFIGURATION = """
global(workDirectory="{folder}" maxMessageSize="64k")
main_queue({queue} queue.timeoutEnqueue="60000" queue.timeoutShutdown="10000")
module(load="imfile")
module(load="omelasticsearch")

template(name="document" type="list" option.jsonf="on") {{
  property(outname="@timestamp" name="timereported" dateFormat="rfc3339" format="jsonf")
  property(outname="host" name="hostname" format="jsonf")
  property(outname="tag" name="syslogtag" format="jsonf")
  property(outname="message" name="msg" format="jsonf")
}}
template(name="index" type="string" string="rsyslog-{name}")
template(name="id" type="string" string="%$!metadata!fileoffset%")

ruleset(name="ship") {{
  action(
    type="omelasticsearch" server="127.0.0.1" serverport="{port}" template="document" dynSearchIndex="on" searchIndex="index"
    searchType="" bulkmode="on" errorfile="{folder}/errors" action.resumeRetryCount="-1" action.resumeInterval="1"
    {options})
}}
input(type="imfile" file="{log}" tag="app" ruleset="ship" addMetadata="on" freshStartTail="off")
"""
BY_ID = 'writeoperation="create" bulkid="id" dynbulkid="on"'
LARGE_BATCHES = 'queue.dequeueBatchSize="1000"'
# Of a request that failed rsyslog sends each line alone, and the server stores what it is sent once a second.
SMALL_BATCHES = 'queue.dequeueBatchSize="10" queue.workerThreads="20" queue.workerThreadMinimumMessages="10"'


class Rsyslog:
    """rsyslogd in the foreground, with nothing of this machine's: it follows one file."""

    def __init__(self, folder, port, name, log, queue, options=""):
        self.folder, self.errors = folder, folder / "errors"
        configuration = folder / "rsyslog.conf"
        configuration.write_text(CONFIGURATION.format(folder=folder, port=port, name=name, log=log, queue=queue, options=options))
        self.output = (folder / "output").open("wb")
        self.process = subprocess.Popen(
            [RSYSLOGD, "-n", "-i", folder / "pid", "-f", configuration], stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0
        self.output.close()

    def refused(self):
        """What the server answered to each line that it did not take: rsyslog writes the answers of such requests to a file."""
        answers = [json.loads(line)["reply"] for line in self.errors.read_text().splitlines()] if self.errors.exists() else []
        return [item for answer in answers for of in answer["items"] for item in of.values() if "error" in item]


def lines(count, begin=0):
    return "".join(f'line {n} "quoted" \\ é {"x" * (n % 300)}\n' for n in range(begin, begin + count))


def wait_for(client, index, count, process):
    while client.count(index=index, ignore_unavailable=True)["count"] < count:
        assert process.poll() is None


def messages(client, index):
    return sorted(hit["_source"]["message"] for hit in elasticsearch.helpers.scan(client, index=index, size=1_000))


def test_every_line_is_stored_once(frostline, tmp_path):
    server = Server(frostline)
    client = elasticsearch.Elasticsearch(server.url)
    log = tmp_path / "app.log"
    log.write_text(lines(LINES))
    shipper = Rsyslog(tmp_path, server.url.rsplit(":", 1)[1], "plain", log, LARGE_BATCHES)
    wait_for(client, "rsyslog-plain", LINES, shipper.process)
    with log.open("a") as more:
        more.write(lines(500, begin=LINES))
    wait_for(client, "rsyslog-plain", LINES + 500, shipper.process)
    shipper.stop()
    assert shipper.refused() == []
    assert messages(client, "rsyslog-plain") == sorted(lines(LINES + 500).splitlines())
    hit = client.search(index="rsyslog-plain", size=1, query={"match": {"message": "line 7"}})["hits"]["hits"][0]["_source"]
    assert set(hit) == {"@timestamp", "host", "tag", "message"} and hit["tag"] == "app"
    assert client.indices.get_mapping(index="rsyslog-plain")["rsyslog-plain"]["mappings"]["properties"]["@timestamp"]["type"] == "date"
    assert server.stop() == DONE


def test_a_server_that_is_killed_meanwhile_gets_every_line_once(frostline, tmp_path):
    """Lines have an id, by which those that rsyslog sends again are known."""
    server = Server(frostline)
    client = elasticsearch.Elasticsearch(server.url)
    listen = server.url.removeprefix("http://")
    log = tmp_path / "app.log"
    log.write_text(lines(1_000))
    shipper = Rsyslog(tmp_path, listen.rsplit(":", 1)[1], "again", log, SMALL_BATCHES, BY_ID)
    wait_for(client, "rsyslog-again", 300, shipper.process)
    server.process.kill()
    server.process.wait()
    server = Server(frostline, listen=listen)
    wait_for(client, "rsyslog-again", 1_000, shipper.process)
    shipper.stop()
    assert {item["error"]["type"] for item in shipper.refused()} <= {"version_conflict_engine_exception"}
    assert messages(client, "rsyslog-again") == sorted(lines(1_000).splitlines())
    assert server.stop() == DONE
