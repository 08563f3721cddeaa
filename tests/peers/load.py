"""Distinct searches at a fixed rate, mixed with ingest, of two servers with Elasticsearch's API that take turns.

python3 load.py --events security-events.ndjson --out FILE [--rate 200] [--documents 500] [--seconds 60] [--slices 5]
    --engine NAME URL INDEX PID --engine NAME URL INDEX PID
python3 load.py --table FILE

The loop is open: searches arrive by a Poisson process whatever has been answered, and a latency counts from the arrival, so that waiting in any queue is
in it. Fields, values, words and ranges of time are drawn from the events by the seed of the slice, which is the same for both engines; no search comes
twice. Documents are the events themselves, with the time of now, a bulk each second. The engine whose turn it is not is stopped (SIGSTOP). PID is that of
the server on this machine. Each second has its memory and its processor time; the generator's own lateness and processor time are in the file, too.
"""
import argparse
import asyncio
import collections
import datetime
import json
import os
import random
import re
import signal
import statistics
import time
import urllib.parse

from machine import pressure

FIELDS = ["EventID", "Channel.keyword", "Hostname.keyword", "SourceName.keyword", "Image.keyword", "User.keyword", "TargetImage.keyword", "EventType.keyword"]
GROUPS = ["EventID", "Hostname.keyword", "Channel.keyword", "Image.keyword"]
CONNECTIONS_MAX = 512
TICK = os.sysconf("SC_CLK_TCK")


class Vocabulary:
    """What searches are drawn from: values of fields, words of messages and times, each as often as the events have it."""

    def __init__(self, path):
        self.values, self.words, self.times = collections.defaultdict(list), [], []
        with open(path, "rb") as lines:
            for number, line in enumerate(lines):
                if number % 20:
                    continue
                event = json.loads(line)
                for field in FIELDS:
                    if isinstance(value := event.get(field.removesuffix(".keyword")), (str, int)):
                        self.values[field].append(value)
                # A token of which both engines make one word; words that are nearly everywhere come less often than they are.
                self.words += set(re.findall(r"(?<![\w.\\:/-])[A-Za-z]{4,20}(?![\w.\\:/-])", str(event.get("Message", ""))))
                if "@timestamp" in event:
                    self.times.append(datetime.datetime.fromisoformat(event["@timestamp"]).timestamp())

    def value(self, dice):
        field = dice.choice(FIELDS)
        return {"term": {field: dice.choice(self.values[field])}}

    def word(self, dice):
        return {"match": {"Message": dice.choice(self.words)}}

    def range(self, dice, now):
        """From a minute to a month: half of them around the time of some event, half until now."""
        span = 60 * 43_200 ** dice.random()
        end = now - span * dice.random() if dice.random() < 0.5 else dice.choice(self.times) + span * dice.random()
        return {"range": {"@timestamp": {"gte": iso(end - span), "lt": iso(end)}}}


def iso(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def newest(filters):
    return {"size": 10, "query": {"bool": {"filter": filters}}, "sort": [{"@timestamp": "desc"}], "track_total_hits": True}


# kind: (share in percent, what it is)
KINDS = {
    "word": (30, "the 10 newest with a word in Message, in a range of time"),
    "value": (25, "the 10 newest with a value of a field, in a range of time"),
    "count": (15, "how many have two values, in all of the time"),
    "chart": (15, "documents by hour or day with a value, in a range of time"),
    "top": (15, "the 10 most frequent values of a field in a range of time, of documents with a word"),
}


def search(kind, words, dice, now):
    if kind == "word":
        return newest([words.word(dice), words.range(dice, now)])
    if kind == "value":
        return newest([words.value(dice), words.range(dice, now)])
    if kind == "count":
        return {"size": 0, "query": {"bool": {"filter": [words.value(dice), words.word(dice)]}}, "track_total_hits": True}
    if kind == "chart":
        by_time = {"date_histogram": {"field": "@timestamp", "fixed_interval": dice.choice(["1h", "1d"]), "min_doc_count": 1}}
        return {"size": 0, "query": {"bool": {"filter": [words.value(dice), words.range(dice, now)]}}, "aggs": {"time": by_time}}
    by_value = {"terms": {"field": dice.choice(GROUPS), "size": 10}}
    return {"size": 0, "query": {"bool": {"filter": [words.word(dice), words.range(dice, now)]}}, "aggs": {"top": by_value}}


def searches(words, dice, now, seconds, rate, seen):
    """Arrivals in seconds from the start, each with the kind and the body of a search that has not been."""
    at, names, shares = 0.0, list(KINDS), [share for share, _ in KINDS.values()]
    while (at := at + dice.expovariate(rate)) < seconds:
        kind = dice.choices(names, shares)[0]
        while (body := json.dumps(search(kind, words, dice, now))) in seen:
            pass
        seen.add(body)
        yield at, kind, body.encode()


class Pool:
    """Connections to one server, each for one request at a time."""

    def __init__(self, url):
        at = urllib.parse.urlsplit(url)
        self.host, self.port, self.idle, self.open = at.hostname, at.port, [], 0

    async def request(self, path, body, kind):
        """The status and the body of an answer."""
        link = self.idle.pop() if self.idle else None
        if link is None:
            if self.open == CONNECTIONS_MAX:
                raise OSError(f"{CONNECTIONS_MAX} searches are unanswered")
            self.open += 1
            try:
                link = await asyncio.open_connection(self.host, self.port, limit=1 << 24)
            except OSError:
                self.open -= 1
                raise
        head = f"POST {path} HTTP/1.1\r\nhost: {self.host}:{self.port}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
        try:
            link[1].write(head.encode() + body)
            answer = await answered(link[0])
        except BaseException:
            self.open -= 1
            link[1].close()
            raise
        self.idle.append(link)
        return answer


async def answered(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    status = int(head[9:12])
    if length := re.search(rb"\r\ncontent-length: (\d+)", head):
        return status, await reader.readexactly(int(length[1]))
    body = b""
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readuntil(b"\r\n")
    return status, body


class Engine:
    def __init__(self, name, url, index, pid):
        self.name, self.url, self.index, self.pid, self.pool = name, url, index, int(pid), Pool(url)

    def connect_anew(self):
        """Servers close connections that were idle."""
        self.pool = Pool(self.url)

    def signal(self, number):
        os.kill(self.pid, number)

    def memory(self):
        """Bytes of the process in memory, and of them those that are no pages of files."""
        with open(f"/proc/{self.pid}/status") as file:
            of = dict(line.split(":") for line in file if line.startswith("Rss") or line.startswith("VmRSS"))
        return int(of["VmRSS"].split()[0]) * 1024, int(of["RssAnon"].split()[0]) * 1024

    def cpu_s(self):
        with open(f"/proc/{self.pid}/stat") as file:
            return sum(map(int, file.read().rsplit(")")[1].split()[11:13])) / TICK


class Slice:
    """One engine's turn."""

    def __init__(self, engine, number):
        self.engine = engine
        self.row = {"engine": engine.name, "slice": number, "latencies": {kind: [] for kind in KINDS}, "late": [], "errors": [], "bulks": [], "seconds": []}

    def failed(self, what):
        self.row["errors"].append(what[:300])

    async def ask(self, due, kind, body):
        self.row["late"].append(time.perf_counter() - due)
        try:
            status, answer = await asyncio.wait_for(self.engine.pool.request(f"/{self.engine.index}/_search", body, "application/json"), 30)
        except (OSError, EOFError, asyncio.TimeoutError) as error:
            return self.failed(f"{kind}: {error!r}")
        if status != 200 or b'"failed":0' not in answer[:400] or b'"timed_out":true' in answer[:400]:
            return self.failed(f"{kind}: {status} {answer[:250]!r}")
        self.row["latencies"][kind].append(time.perf_counter() - due)

    async def add(self, due, events):
        """A bulk of documents of now."""
        lines = []
        for number, event in enumerate(events):
            event["@timestamp"] = iso(time.time() - number / len(events))
            lines.append('{"create":{}}\n' + json.dumps(event) + "\n")
        try:
            answer = await asyncio.wait_for(self.engine.pool.request(f"/{self.engine.index}/_bulk", "".join(lines).encode(), "application/x-ndjson"), 60)
        except (OSError, EOFError, asyncio.TimeoutError) as error:
            return self.failed(f"bulk: {error!r}")
        self.row["bulks"].append(time.perf_counter() - due)
        if answer[0] != 200 or json.loads(answer[1])["errors"]:
            self.failed(f"bulk: {answer[0]} {answer[1][:250]!r}")

    async def watch(self, began, duration):
        cpu = self.engine.cpu_s()
        for second in range(1, duration + 1):
            await asyncio.sleep(began + second - time.perf_counter())
            rss, anonymous = self.engine.memory()
            now, cpu = cpu, self.engine.cpu_s()
            self.row["seconds"].append({"rss": rss, "anonymous": anonymous, "cpu_s": round(cpu - now, 2), "load": os.getloadavg()[0], "pressure": pressure()})

    async def run(self, arrivals, bulks, duration):
        self.engine.connect_anew()
        own, began, tasks = time.process_time(), time.perf_counter() + 0.1, []
        watching = asyncio.create_task(self.watch(began, duration))
        todo = sorted([(at, kind, body) for at, kind, body in arrivals] + [(at, None, events) for at, events in bulks], key=lambda one: one[0])
        for at, kind, body in todo:
            if (wait := began + at - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            tasks.append(asyncio.create_task(self.add(began + at, body) if kind is None else self.ask(began + at, kind, body)))
        await asyncio.gather(*tasks, watching)
        self.row["generator_cpu_s"] = round(time.process_time() - own, 2)
        in_tenths = lambda seconds: [round(s * 10_000) for s in seconds]
        self.row["latencies"] = {kind: in_tenths(of) for kind, of in self.row["latencies"].items()}
        self.row["late"], self.row["bulks"] = in_tenths(sorted(self.row["late"])[::100] + [max(self.row["late"])]), in_tenths(self.row["bulks"])
        return self.row


async def agreement(given, engines, words):
    """Of how many searches the engines, which have the same documents, give the same counts: of each kind (equal, asked), and some that differ."""
    dice, equal, differing = random.Random(given.seed - 1), {kind: [0, 0] for kind in KINDS}, []
    for _, kind, body in searches(words, dice, time.time(), given.agreement, 1, set()):
        counts = []
        for engine in engines:
            status, answer = await engine.pool.request(f"/{engine.index}/_search?track_total_hits=true", body, "application/json")
            if status != 200:
                raise SystemExit(f"{engine.name}: {status} {answer[:500]!r}")
            answer = json.loads(answer)
            buckets = [bucket["doc_count"] for of in answer.get("aggregations", {}).values() for bucket in of["buckets"]]
            newest = [hit["_source"]["@timestamp"] for hit in answer["hits"]["hits"]]
            counts.append([answer["hits"]["total"]["value"], buckets, newest])
        equal[kind][1] += 1
        equal[kind][0] += all(count == counts[0] for count in counts)
        if any(count != counts[0] for count in counts):
            differing.append([kind, body.decode(), [count[0] for count in counts]])
    return {"equal": equal, "differing": differing}


async def measure(given):
    words = Vocabulary(given.events)
    engines = [Engine(*one) for one in given.engine]
    slices, seen = [], set()
    agreed = await agreement(given, engines, words)
    print({kind: tuple(of) for kind, of in agreed["equal"].items()}, flush=True)
    for engine in engines[1:]:
        engine.signal(signal.SIGSTOP)
    try:
        # The first turn, shorter, is that in which code is read and compiled.
        for number in range(given.slices + 1):
            first, duration, before = number % len(engines), given.seconds if number else given.warm_up, set()
            for engine in engines[first:] + engines[:first]:
                # The same searches for both, but for the end of ranges until now.
                before, dice = seen.copy(), random.Random(given.seed + number)
                arrivals = list(searches(words, dice, time.time() + duration / 2, duration, given.rate, before))
                bulks = list(documents(given, number, duration))
                for other in engines:
                    other.signal(signal.SIGCONT if other is engine else signal.SIGSTOP)
                await asyncio.sleep(given.settle)
                row = await Slice(engine, number).run(arrivals, bulks, duration)
                slices.append(row)
                print(engine.name, number, told(row), flush=True)
            seen = before
            with open(given.out, "w") as file:
                told_of = {name: getattr(given, name) for name in ("rate", "documents", "seconds", "warm_up", "seed")}
                json.dump({**told_of, "agreement": agreed, "unit_s": 0.0001, "slices": slices}, file, separators=(",", ":"))
                file.write("\n")
    finally:
        for engine in engines:
            engine.signal(signal.SIGCONT)


def documents(given, number, duration):
    """A bulk for each second, of events that follow one another in the file, from another place in each slice."""
    if not given.documents:
        return
    with open(given.events, "rb") as file:
        file.seek(os.path.getsize(given.events) * number // (given.slices + 1))
        file.readline()
        for second in range(duration):
            yield second + 0.5, [json.loads(file.readline()) for _ in range(given.documents)]


def percentile(sorted_, share):
    return sorted_[min(len(sorted_) - 1, int(len(sorted_) * share))] / 10


def milliseconds(latencies):
    of = sorted(latencies)
    return [percentile(of, share) for share in (0.5, 0.9, 0.99, 0.999)] + [of[-1] / 10]


def told(row):
    every = [one for of in row["latencies"].values() for one in of]
    seconds = row["seconds"]
    return json.dumps({"answers": len(every), "p50 p90 p99 p99.9 max": milliseconds(every), "errors": len(row["errors"]), "error": row["errors"][:1],
                       "late p99": percentile(row["late"], 0.99), "generator cpu": row["generator_cpu_s"], "server cpu": round(sum(s["cpu_s"] for s in seconds), 1),
                       "rss MB": [seconds[0]["rss"] // 1_000_000, seconds[-1]["rss"] // 1_000_000], "load": seconds[-1]["load"]})


def table(path):
    with open(path) as file:
        record = json.load(file)
    record["slices"] = [row for row in record["slices"] if row["slice"]]
    names = list(dict.fromkeys(row["engine"] for row in record["slices"]))
    print("Same counts:", ", ".join(f"{kind} {equal} of {asked}" for kind, (equal, asked) in record["agreement"]["equal"].items()), "\n")
    ms = lambda value: f"{value:.0f}" if value >= 100 else f"{value:.1f}"
    line = lambda *cells: print("| " + " | ".join(map(str, cells)) + " |")
    line("searches", "engine", "answers", "p50", "p90", "p99", "p99.9", "max")
    line(*["---"] * 8)
    for kind in [None, *KINDS]:
        for name in names:
            of = [one for row in record["slices"] if row["engine"] == name for k, each in row["latencies"].items() if kind in (None, k) for one in each]
            line("**all**" if kind is None else KINDS[kind][1], name, f"{len(of):,}", *map(ms, milliseconds(of)))
    print()
    line("engine", "slice", "p50", "p99", "p99.9", "errors", "bulk p50", "bulk max", "CPU of the server, s/s", "RSS at its start, MB", "at its end", "of it no files", "load", "waiting for a CPU", "lateness p99", "CPU of the generator, s/s")
    line(*["---"] * 16)
    for row in record["slices"]:
        every, seconds = milliseconds([one for of in row["latencies"].values() for one in of]), row["seconds"]
        bulks = milliseconds(row["bulks"]) if row["bulks"] else [0] * 5
        line(row["engine"], row["slice"], *map(ms, (every[0], every[2], every[3])), len(row["errors"]), ms(bulks[0]), ms(bulks[4]),
             f"{statistics.fmean(s['cpu_s'] for s in seconds):.2f}", *(seconds[at]["rss"] // 1_000_000 for at in (0, -1)), seconds[-1]["anonymous"] // 1_000_000,
             f"{seconds[-1]['load']:.1f}", f"{statistics.fmean(s['pressure'] for s in seconds):.0f} %", percentile(row["late"], 0.99), f"{row['generator_cpu_s'] / record['seconds']:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name in ("events", "out", "table"):
        parser.add_argument(f"--{name}")
    for name, default in (("rate", 200), ("documents", 500), ("seconds", 60), ("slices", 5), ("seed", 1), ("settle", 5), ("agreement", 300), ("warm-up", 30)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--engine", nargs=4, action="append", metavar=("NAME", "URL", "INDEX", "PID"))
    given = parser.parse_args()
    return table(given.table) if given.table else asyncio.run(measure(given))


main()
