"""A server that is killed again and again while clients write, its index is merged, and what is no longer needed is deleted: every
acknowledged write is there, once. FROSTLINE_TEST_KILLS is how often it is killed, 20 without it."""

import http.client
import json
import os
import random
import threading
import urllib.error

import elasticsearch
import elasticsearch.helpers

from frostline import DONE
from server import Server

KILLS = int(os.environ.get("FROSTLINE_TEST_KILLS") or 20)
CLIENTS = 4


class Ledger:
    """What the clients sent, and what the server acknowledged of it, by the number in each document."""

    def __init__(self):
        self.lock, self.next = threading.Lock(), 0
        self.sent, self.stored, self.condemned, self.deleted = set(), set(), set(), set()
        self.named, self.counters = [], [(0, 0)] * CLIENTS
        self.acknowledgements = 0

    def requests(self, client):
        """Appended and named documents, a document that is replaced, and one that is deleted."""
        with self.lock:
            first, self.next = self.next, self.next + 10
            numbers = range(first, first + 10)
            self.sent.update(numbers)
            gone = self.named.pop(0) if len(self.named) > 200 else None
            if gone is not None:
                self.condemned.add(gone)
            acknowledged, sent = self.counters[client]
            self.counters[client] = (acknowledged, sent + 1)
        actions = [({"create": {"_id": str(n)} if n % 2 else {}}, {"n": n, "text": "x" * (n % 100)}) for n in numbers]
        actions.append(({"index": {"_id": f"counter-{client}"}}, {"counter": sent + 1}))
        actions += [({"delete": {"_id": str(gone)}},)] if gone is not None else []
        return numbers, gone, sent + 1, "".join(json.dumps(line) + "\n" for action in actions for line in action).encode()

    def note(self, client, numbers, gone, counter, items):
        statuses = [next(iter(item.values()))["status"] for item in items]
        with self.lock:
            stored = {n for n, status in zip(numbers, statuses) if status == 201}
            self.stored |= stored
            self.named += [n for n in stored if n % 2]
            if statuses[10] in (200, 201):
                self.counters[client] = (counter, self.counters[client][1])
            if gone is not None and statuses[11] == 200:
                self.deleted.add(gone)
            self.acknowledgements += 1

    def check(self, hits):
        """Compares what is there with what was acknowledged."""
        found = [hit["_source"]["n"] for hit in hits if "n" in hit["_source"]]
        assert len(found) == len(set(found)), "a document is there twice"
        assert not self.stored - self.condemned - set(found), "a document is lost"
        assert not self.deleted & set(found), "a deleted document is there"
        assert set(found) <= self.sent
        counters = [(hit["_id"], hit["_source"]["counter"]) for hit in hits if "counter" in hit["_source"]]
        assert len(counters) == len(dict(counters)), "a replaced document is there beside its successor"
        for client, (acknowledged, sent) in enumerate(self.counters):
            assert acknowledged <= dict(counters).get(f"counter-{client}", 0) <= sent


def write(server, ledger, client):
    """Sends one request after the other until the server is gone."""
    while True:
        numbers, gone, counter, body = ledger.requests(client)
        try:
            status, _, answer = server.ask("POST", "/killed/_bulk", body, {"Content-Type": "application/x-ndjson"})
            items = json.loads(answer)["items"] if status == 200 else []
        except (OSError, urllib.error.URLError, ValueError, http.client.HTTPException):
            return
        if items:
            ledger.note(client, numbers, gone, counter, items)


def merge(server):
    """Merges all the time: most of these requests find nothing to do."""
    while True:
        try:
            server.ask("POST", "/killed/_forcemerge")
        except (OSError, urllib.error.URLError, http.client.HTTPException):
            return


def test_a_server_that_is_killed_loses_nothing(frostline):
    rng, ledger = random.Random(7), Ledger()
    for kill in range(1, KILLS + 1):
        server = Server(frostline)
        before = ledger.acknowledgements
        work = [threading.Thread(target=write, args=(server, ledger, client)) for client in range(CLIENTS)]
        work.append(threading.Thread(target=merge, args=(server,)))
        for thread in work:
            thread.start()
        # Removed splits are deleted at once; a living server's uploads are not touched.
        vacuum = None
        for at in range(wanted := rng.randrange(1, 12)):
            while ledger.acknowledgements <= before + at:
                assert server.process.poll() is None, server.log.read_text()
            if at == wanted // 2 and kill > 1:
                vacuum = frostline.start("vacuum", "killed", "--retain-hours", "0")
        server.process.kill()
        for thread in work:
            thread.join()
        server.process.wait()
        if vacuum is not None:
            assert vacuum.wait(60) == DONE
        if kill % 5 == 0:
            frostline.ok("vacuum", "killed", "--retain-hours", "0", "--orphan-hours", "0")
        if kill % 10 == 0 or kill == KILLS:
            server = Server(frostline)
            ledger.check(list(elasticsearch.helpers.scan(elasticsearch.Elasticsearch(server.url), index="killed", size=5_000)))
            assert server.stop() == DONE
    assert "panicked" not in server.log.read_text() and "damaged" not in server.log.read_text()
    versions = [entry.read_text() for entry in (frostline.repo / "killed" / "_delta_log").glob("*[0-9].json")]
    merges = sum('"operation":"merge"' in version for version in versions)
    assert merges and ledger.deleted
    frostline.ok("index", "verify", "killed")
    print(f"{KILLS} kills: {ledger.acknowledgements} acknowledged requests, {len(ledger.stored)} documents, {len(ledger.deleted)} deletions,",
          f"{merges} merges in {len(versions)} versions")
