"""Loads a file of JSON lines through a _bulk API, in bodies of 5 MB on two connections, and says how long it took.

python3 bulk.py URL/_bulk FILE        The URL may have a query; documents that are answered with 429 are sent again.
"""
import http.client
import json
import queue
import sys
import threading
import time
import urllib.parse

ACTION = b'{"create":{}}\n'
CONNECTIONS = 2


def body_of(lines):
    return b"".join(part for line in lines for part in (ACTION, line))


class Loader:
    def __init__(self, url):
        self.url = urllib.parse.urlsplit(url)
        self.bodies = queue.Queue(4)
        self.errors, self.taken, self.again = [], 0, 0

    def work(self):
        link = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=600)
        while (lines := self.bodies.get()) is not None:
            while lines:
                lines = self.send(link, lines)

    def send(self, link, lines):
        """Sends lines; gives those that have to be sent again."""
        link.request("POST", f"{self.url.path}?{self.url.query}", body_of(lines), {"content-type": "application/x-ndjson"})
        answer = link.getresponse()
        data = answer.read()
        if answer.status == 429:
            self.again += len(lines)
            time.sleep(0.2)
            return lines
        if answer.status != 200:
            self.errors.append(f"{answer.status} {data[:200]!r}")
            return []
        body = json.loads(data) if data else {}
        items = [next(iter(item.values()), {}) for item in body.get("items", [])] if body.get("errors") else []
        later = [line for line, item in zip(lines, items) if item.get("status") == 429]
        failed = [item["error"] for item in items if "error" in item and item.get("status") != 429]
        self.errors += [json.dumps(error)[:300] for error in failed]
        self.taken += len(lines) - len(later) - len(failed)
        self.again += len(later)
        return later


def main():
    url, path = sys.argv[1:]
    loader = Loader(url)
    workers = [threading.Thread(target=loader.work) for _ in range(CONNECTIONS)]
    began = time.perf_counter()
    for worker in workers:
        worker.start()
    with open(path, "rb") as lines:
        while chunk := lines.readlines(5_000_000):
            loader.bodies.put(chunk)
    for _ in workers:
        loader.bodies.put(None)
    for worker in workers:
        worker.join()
    report = {"wall_s": round(time.perf_counter() - began, 2), "documents": loader.taken, "sent_again": loader.again,
              "errors": len(loader.errors), "first_errors": loader.errors[:3], "client_cpu_s": round(time.process_time(), 2)}
    print(json.dumps(report))


main()
