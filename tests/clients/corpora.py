"""Documents that tests search: made here, or unpacked and converted, independently of the binary.

Real data sets that lie beside the repository (../shared/data) are searched as well; no test needs them.
"""

import json
import random
import re
import subprocess
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

from oracle import Oracle

WORDS = "alpha Beta GAMMA Grüße naïve 東京 Москва file_name error timeout disk-full ops@example.org C:\\Windows\\cmd.exe".split()
HOSTS = ["web-1", "web-2", "db.internal", "Cache", "ünï"]
START = datetime(2024, 1, 1, tzinfo=UTC)
LONGS = [0, 1, -1, 10, 404, 500, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1]
ADDRESSES = ["10.0.0.1", "10.0.0.12", "10.255.3.4", "192.168.1.7", "::1", "fe80::1", "2001:db8::ff00:42:8329", "::ffff:10.0.0.1"]
SHARED_START = "/a/very/long/path/that/begins/like/many/others/and/goes/on/and/on/" * 3

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
REAL = {"events": DATA / "security-events.ndjson.zst", "weblogs": DATA / "apache_combined.log"}


def each(cases):
    """The cases of a table, each also for the real corpus of its kind where there is one."""
    return [(name, *rest) for kind, *rest in cases for name in (found(kind) if kind in REAL else [kind])]


def found(name):
    """The corpora of that kind that there are: the one that is made here, and the real one where it is."""
    return [name, f"real_{name}"] if REAL[name].is_file() else [name]


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


EVENT_FIELDS_ONCE = 400
CHANNELS = ["Security", "Microsoft-Windows-Sysmon/Operational", "security", "Windows PowerShell", "Microsoft-Windows-PowerShell/Operational"]
MACHINES = ["MORDORDC.theshire.local", "WORKSTATION5.theshire.local", "WORKSTATION6.mordor.local", "wec.internal.example"]
IMAGES = [
    "C:\\Windows\\System32\\svchost.exe", "C:\\Windows\\System32\\lsass.exe", "C:\\windows\\system32\\LSASS.exe", "C:\\Program Files\\Agent\\agent.exe",
    "C:\\Windows\\System32\\WindowsPowerShell\\v1.0\\powershell.exe", "C:\\Windows\\explorer.exe", "C:\\Users\\Grüße\\Загрузки\\東京.exe",
]
SAID = [
    "Registry object added or deleted:\r\nEventType: CreateKey", "Registry value set: pipeline", "Process accessed:\r\nRuleName: -", "process, accessed by a handle",
    "A handle to an object was requested", "Pipeline execution details for command line: Invoke-Mimikatz -DumpCreds", "mimikatz was created; registry created",
]


def write_events(path, documents=20_000, seed=2):
    """Security events with the traps of real ones: types that conflict, hundreds of fields that one document has, fields that
    appear late, long tokens, objects that are also values, names in every script. `RecordNumber` is mostly unique."""
    draw = random.Random(seed)
    with path.open("w") as out:
        for n in range(documents):
            out.write(json.dumps(event(draw, n, documents), ensure_ascii=draw.random() < 0.5) + "\n")


def event(draw, n, documents):
    document = {"EventID": draw.choice([1, 3, 7, 10, 12, 13, 4658, 4663, 4688, 800]), "Hostname": draw.choice(MACHINES), "Channel": draw.choice(CHANNELS)}
    moment = datetime(2019, 11, 1, tzinfo=UTC) + timedelta(milliseconds=draw.randrange(5 * 365 * 86_400_000))
    if draw.random() < 0.97:
        document["@timestamp"] = moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    fields = {
        "RecordNumber": (0.9, lambda: n * 37 % 800_000),
        "Task": (0.8, lambda: draw.choice([10, 12, 13, 10, "Process Create", "None"])),
        "SeverityValue": (0.9, lambda: draw.choice([2, 2, 2, 3, 4])),
        "Version": (0.7, lambda: draw.randrange(5)),
        "Keywords": (0.7, lambda: draw.choice([-(2**63), 2**62, -9214364837600034816])),
        "Image": (0.7, lambda: draw.choice(IMAGES)),
        "TargetImage": (0.2, lambda: draw.choice(IMAGES)),
        "GrantedAccess": (0.2, lambda: draw.choice(["0x1000", "0x1410", "0x40", "0x1fffff", "0X1000"])),
        "ProcessGuid": (0.5, lambda: f"{{{draw.randrange(2_000):08x}-a98b-5f69-8a02-000000000900}}"),
        "Message": (0.9, lambda: f"{draw.choice(SAID)}\r\nUtcTime: {moment:%Y-%m-%d %H:%M:%S}\r\nImage: {draw.choice(IMAGES)}"),
        "CommandLine": (0.2, lambda: f"powershell.exe -enc {long_token(draw)} v1.0#powershell.exe"),
        "Hashes": (0.3, lambda: f"SHA512={draw.randbytes(64).hex().upper()},MD5={draw.randbytes(16).hex()}"),
        "TimeCreated": (0.1, lambda: draw.choice([f"{moment:%Y-%m-%dT%H:%M:%S}Z", f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z"])),
        "Until": (0.1, lambda: draw.choice([f"{moment:%Y-%m-%d}", "unknown", "2023-02-30T00:00:00Z", "", 7, False])),
        "IpAddress": (0.2, lambda: draw.choice(["::1", "0:0:0:0:0:0:0:1", "-", "::ffff:172.18.39.5", "LOCAL"])),
        "SourceAddress": (0.2, lambda: draw.choice([f"172.18.{draw.randrange(64)}.{draw.randrange(256)}", "10.0.0.1", "fe80::1"])),
        "winlog": (0.05, lambda: draw.choice([{"channel": "System", "event_id": n}, {"event_data": {"param1": "x"}}, "none"])),
        "host": (0.3, lambda: draw.choice(["wec.internal.example", {"name": "wec", "ip": ["10.0.0.1", "::1"]}])),
        "Ünï cödé": (0.1, lambda: draw.choice(["ja", "nein", 7])),
        "a.b": (0.1, lambda: draw.choice(["x", 1])),
        "a": (0.1, lambda: draw.choice([{"b": "y"}, {"b": 2.5}, "z"])),
        "message": (0.1, lambda: "names that differ in case only"),
    }
    for name, (share, make) in fields.items():
        if draw.random() < share:
            document[name] = make()
    if n % (documents // EVENT_FIELDS_ONCE) == 0:
        document[f"Once{n}"] = draw.choice([n, str(n), True, n + 0.5, {"deep": {"er": n}}])
    if n > documents * 0.9:
        # A field that appears late, and one that changes its type late.
        document["Late"] = draw.randrange(5)
        document["Version"] = draw.choice(["1.0", "two", 3])
    return document


def long_token(draw):
    return draw.choice(["QUJD", "SQBFAFgA"]) + "".join(draw.choices("ABCDEFGHabcdefgh0123456789+/", k=draw.choice([60, 300, 3_000])))


AGENTS = [
    "Mozilla/5.0 (Windows NT 6.1; WOW64; rv:27.0) Gecko/20100101 Firefox/27.0", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "Mozilla/5.0 (Windows NT 6; rv:1) Firefox/1", "Googlebot-Image/1.0", "Tiny Tiny RSS/1.11 (http://tt-rss.org/)", 'odd \\"quoted\\" agent with a \\\\ in it',
    "UniversalFeedParser/4.2-pre-314-svn +http://feedparser.org/", "-", "",
]
PATHS = [
    "/favicon.ico", "/robots.txt", "/images/web/2009/banner.png", "/images/jordan-80.png", "/images/googledotcom.jpg", "/presentations/logstash/index.html",
    "/presentations/puppet/a.js?v=1", "/blog/tags/puppet?flav=rss20", "/files/logstash/logstash-1.3.2.jar", "/wp-login.php", "/a/b.php/c", "/style2.css", "/photo.pig",
]


def write_combined_log(path, lines=10_000, seed=3):
    """A web server's access log over four days, with what such logs have: quotes in agents, query strings, missing sizes."""
    draw = random.Random(seed)
    start = datetime(2015, 5, 17, 10, 5, tzinfo=UTC)
    with path.open("w") as out:
        for n in range(lines):
            moment = start + timedelta(seconds=n * 84 * 3_600 // lines + draw.randrange(60))
            zone = timezone(timedelta(minutes=draw.choice([0, 0, 0, 0, -420])))
            address = draw.choice(["66.249.73.135", f"66.249.73.{draw.randrange(256)}", "130.237.218.86", f"{draw.randrange(1, 224)}.{draw.randrange(256)}.{draw.randrange(256)}.9"])
            request = f"{draw.choice(['GET'] * 30 + ['HEAD', 'POST'])} {draw.choice(PATHS * 5 + [f'/page/{draw.randrange(400)}'])} HTTP/1.{draw.choice([1, 1, 1, 0])}"
            status = draw.choice([200] * 20 + [304, 304, 206, 301, 404, 404, 403, 416, 500])
            size = "-" if status == 304 else draw.choice([0, 215, 500, draw.randrange(300, 60_000), draw.randrange(10**5, 7 * 10**7)])
            referrer = draw.choice(["-", "-", f"http://example.org{draw.choice(PATHS)}", "http://www.google.com/search?q=a"])
            out.write(f'{address} - {draw.choice(["-"] * 20 + ["alice"])} [{moment.astimezone(zone):%d/%b/%Y:%H:%M:%S %z}] "{request}" {status} {size} "{referrer}" "{draw.choice(AGENTS)}"\n')


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
