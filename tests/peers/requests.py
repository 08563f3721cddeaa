"""Traces the requests that a search server makes of its disk while it takes documents, merges and searches (root, Linux).

    tests/peers/requests.py --url http://127.0.0.1:9200 --index sec --device /dev/loop0 --events FILE --out DIR

The index is there and empty (tests/peers/opensearch_index.sh); the server's data is on the file system of DEVICE. The kernel
says what it sends to DEVICE and when that is done. A log of fio for each phase, one line for each request, goes to DIR:
`frostline lab need --from fio-log DIR/merge.log` says what such a disk needs.
"""

import argparse
import json
import os
import pathlib
import random
import re
import threading
import time
import urllib.request

TRACING = pathlib.Path("/sys/kernel/tracing")
LINE = re.compile(r"\s(\d+\.\d+): block_rq_(issue|complete): \S+ (\w+) .*?\(.*?\) (\d+) \+ (\d+) ")
BATCH = 500


def ask(url, body=None, kind="application/json", method=None):
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": kind}, method=method)
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)


class Trace:
    """What the kernel sends to one device, from `with` to its end."""

    def __init__(self, device):
        number = os.stat(device).st_rdev
        self.only = f"dev == {os.major(number) << 20 | os.minor(number)}"
        self.at = TRACING / "instances" / f"requests-{os.getpid()}"

    def __enter__(self):
        if not (TRACING / "instances").is_dir():
            raise SystemExit(f"{TRACING} is not there: mount -t tracefs tracefs {TRACING}")
        self.at.mkdir()
        (self.at / "buffer_size_kb").write_text("65536")
        (self.at / "trace_clock").write_text("mono")
        for event in ("issue", "complete"):
            (self.at / f"events/block/block_rq_{event}/filter").write_text(self.only)
            (self.at / f"events/block/block_rq_{event}/enable").write_text("1")
        return self

    def take(self):
        """The requests since the last call: when each was sent, in seconds, what it took, and what it is."""
        lines = (self.at / "trace").read_text()
        (self.at / "trace").write_text("")
        kept, written = map(int, re.search(r"entries-in-buffer/entries-written: (\d+)/(\d+)", lines).groups())
        if kept < written:
            raise SystemExit(f"{written - kept} events were overwritten in {self.at}: measure for a shorter time")
        sent, done = {}, []
        for time_s, event, what, sector, sectors in LINE.findall(lines):
            if "R" not in what and "W" not in what or sectors == "0":
                continue
            key = (sector, sectors, what)
            if event == "issue":
                sent[key] = float(time_s)
            elif key in sent:
                began = sent.pop(key)
                done.append((began, float(time_s) - began, "W" in what, int(sectors) * 512, int(sector) * 512))
        return sorted(done)

    def __exit__(self, *_):
        for event in ("issue", "complete"):
            (self.at / f"events/block/block_rq_{event}/enable").write_text("0")
        self.at.rmdir()


def searching(index, words, seed, until):
    """Searches one after the other until it shall end; how many."""
    dice, count = random.Random(seed), 0
    while not until.is_set():
        word = dice.choice(words)
        bodies = [
            {"query": {"match": {"Message": word}}, "size": 50},
            {"query": {"query_string": {"query": f"*{word[:4]}*"}}, "size": 10},
            {"query": {"match_all": {}}, "sort": [{"@timestamp": dice.choice(["asc", "desc"])}], "size": 100},
            {"size": 0, "query": {"match": {"Message": word}}, "aggs": {"by": {"terms": {"field": "Hostname.keyword"}}}},
        ]
        ask(f"{index}/_search", dice.choice(bodies))
        count += 1
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("url", "index", "device", "events", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--documents", type=int, default=150_000)
    parser.add_argument("--seconds", type=float, default=60, help="for which it only searches at the end")
    args = parser.parse_args()
    out, index = pathlib.Path(args.out), f"{args.url}/{args.index}"
    out.mkdir(parents=True, exist_ok=True)
    with open(args.events, "rb") as events:
        lines = [line for _, line in zip(range(args.documents), events)]
    words = sorted({word for line in lines[::500] for word in re.findall(r"[A-Za-z]{5,}", json.loads(line).get("Message", ""))})

    def load():
        for at in range(0, len(lines), BATCH):
            body = b"".join(b'{"index":{}}\n' + line for line in lines[at : at + BATCH])
            ask(f"{index}/_bulk", body, "application/x-ndjson")
        ask(f"{index}/_flush", b"", method="POST")

    def merge():
        ask(f"{index}/_forcemerge?max_num_segments=1", b"", method="POST")

    with Trace(args.device) as trace:
        for phase, work in [("load", load), ("merge", merge), ("search", lambda: time.sleep(args.seconds))]:
            until, counts = threading.Event(), []
            searches = threading.Thread(target=lambda: counts.append(searching(index, words, phase, until)))
            trace.take()
            began = time.monotonic()
            searches.start()
            work()
            seconds = time.monotonic() - began
            until.set()
            searches.join()
            requests = [request for request in trace.take() if began <= request[0] <= began + seconds]
            with open(out / f"{phase}.log", "w") as log:
                for sent, took, write, size, offset in requests:
                    log.write(f"{(sent - began) * 1e3:.0f}, {took * 1e9:.0f}, {int(write)}, {size}, {offset}, 0\n")
            print(f"{phase}: {seconds:.1f} s, {sum(counts)} searches, {len(requests)} requests")


if __name__ == "__main__":
    main()
