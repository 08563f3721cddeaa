"""Documents that tests search: made, unpacked or converted here, independently of the binary."""

import json
import random
import re
import subprocess
from datetime import UTC, datetime, timedelta, timezone

from oracle import Oracle

WORDS = "alpha Beta GAMMA Grüße naïve 東京 Москва file_name error timeout disk-full ops@example.org C:\\Windows\\cmd.exe".split()
HOSTS = ["web-1", "web-2", "db.internal", "Cache", "ünï"]
START = datetime(2024, 1, 1, tzinfo=UTC)
LONGS = [0, 1, -1, 10, 404, 500, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1]
ADDRESSES = ["10.0.0.1", "10.0.0.12", "10.255.3.4", "192.168.1.7", "::1", "fe80::1", "2001:db8::ff00:42:8329", "::ffff:10.0.0.1"]
SHARED_START = "/a/very/long/path/that/begins/like/many/others/and/goes/on/and/on/" * 3


class Corpus:
    """An index, and DuckDB over the documents that are in it."""

    def __init__(self, frostline, index, path):
        self.frostline, self.index, self.path = frostline, index, path
        self.oracle = Oracle(path)

    def search(self, body):
        return self.frostline.search(self.index, body)


def write_mixed(path, documents=3_000, seed=1):
    """Mixed types, arrays, nulls, nested objects, dates with zones, addresses, Unicode, long values. `n` is unique."""
    draw = random.Random(seed)
    with path.open("w") as out:
        for n in range(documents):
            out.write(json.dumps(mixed_document(draw, n), ensure_ascii=draw.random() < 0.5) + "\n")


def mixed_document(draw, n):
    document = {"n": n}
    if n % 17:
        document["@timestamp"] = some_time(draw, START + timedelta(seconds=draw.randrange(3 * 86_400)))
    fields = {
        "status": lambda: draw.choice([200, 200, 200, 301, 404, "404", "ok", 404.0, 404.5, None]),
        "count": lambda: draw.choice(LONGS + [draw.randrange(-50, 1_000) for _ in range(20)]),
        "size": lambda: draw.choice([draw.randrange(100_000), round(draw.lognormvariate(5, 2), 3)]),
        "ratio": lambda: round(draw.gauss(0, 10), 2),
        "flag": lambda: draw.choice([True, False, True, "true", "no"]),
        "host": lambda: draw.choice([{"name": draw.choice(HOSTS)}, {"name": draw.choice(HOSTS), "cpu": draw.randrange(8)}, "bare"]),
        "message": lambda: " ".join(draw.choices(WORDS, k=draw.randrange(1, 8))),
        "Message": lambda: draw.choice(["Started", "stopped", ""]),
        "tags": lambda: draw.choice([[], "one", ["one"], ["one", "two"], ["two", "two", "drei"], [None, "one"], None]),
        "users": lambda: [{"name": draw.choice("abcde"), "age": draw.randrange(18, 30)} for _ in range(draw.randrange(4))],
        "address": lambda: draw.choice([*ADDRESSES, f"10.1.{draw.randrange(4)}.{draw.randrange(256)}", "-"]),
        "when": lambda: some_time(draw, START - timedelta(days=draw.randrange(4_000), microseconds=draw.randrange(10**9))),
        "path": lambda: draw.choice(["/", "/index.html"] * 5 + [SHARED_START + str(draw.randrange(5)), SHARED_START[:70] + "end", "x" * draw.choice([100, 128, 129, 30_000])]),
        "level": lambda: draw.choice(["info", "INFO", "warn", "Error"]),
        "key with space": lambda: draw.randrange(5),
        "dotted.name": lambda: draw.choice(["x", "y"]),
        "dotted": lambda: {"other": draw.choice(["x", "y"])},
        "numbers": lambda: draw.choice([[1, 2, 3], [2, 2], [0.5, 1], 7, ["1", 1], [[4, [5]]]]),
        f"rare_{n % 400}": lambda: draw.randrange(10),
    }
    for name, make in fields.items():
        if draw.random() < 0.8:
            document[name] = make()
    return document


def some_time(draw, moment):
    """A time as somebody may write it; microseconds are kept, nothing finer is written."""
    zone = timezone(timedelta(minutes=draw.choice([0, 0, 60, -480, 330])))
    moment = moment.astimezone(zone).replace(microsecond=draw.choice([0, 0, 500_000, 123_456]))
    kind = draw.randrange(4)
    if kind == 0:
        return moment.date().isoformat()
    if kind == 1:
        return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if kind == 2:
        return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    return moment.isoformat()


def unpack(packed, path, every):
    """One line in so many of a Zstandard file."""
    process = subprocess.Popen(["zstd", "-dcq", "--long=27", packed], stdout=subprocess.PIPE)
    with path.open("wb") as out:
        out.writelines(line for number, line in enumerate(process.stdout) if number % every == 0)
    assert process.wait() == 0


COMBINED = re.compile(
    r'(?P<clientip>\S+) (?P<ident>\S+) (?P<auth>\S+) \[(?P<time>[^\]]+)\] "(?P<request>(?:[^"\\]|\\.)*)" (?P<response>\d+) (?P<bytes>\S+)'
    r'(?: "(?P<referrer>(?:[^"\\]|\\.)*)"(?: "(?P<agent>(?:[^"\\]|\\.)*)"?)?)?(?P<rest>.*)'
)


def write_combined_as_ndjson(log, path):
    """The documents that docs/ingest.md describes for the combined format."""
    with path.open("w") as out:
        for line in log.read_text().splitlines():
            out.write(json.dumps(combined_document(COMBINED.fullmatch(line).groupdict())) + "\n")


def combined_document(parts):
    said = {name: value for name, value in parts.items() if value not in (None, "-", "")}
    moment = datetime.strptime(said.pop("time"), "%d/%b/%Y:%H:%M:%S %z").astimezone(UTC)
    document = {"@timestamp": moment.strftime("%Y-%m-%dT%H:%M:%S.000Z"), **said}
    document.update({name: int(said[name]) for name in ("response", "bytes") if name in said})
    request = re.fullmatch(r"([A-Z]+) (\S+) HTTP/(\S+)", said.get("request", ""))
    if request:
        document.update(verb=request[1], request=request[2], path=request[2].split("?")[0], httpversion=request[3])
    if "rest" in document:
        document["rest"] = document["rest"].strip()
    for name in ("referrer", "agent"):
        if name in document:
            document[name] = document[name].replace('\\"', '"').replace("\\\\", "\\")
    return document
