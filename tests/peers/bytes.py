"""Stored bytes per byte in, and processor time, of one or several engines over the same files of JSON lines.

python3 bytes.py --out FILE.json --work DIR --frostline BINARY [--victorialogs BINARY] [--opensearch URL] [--duckdb] \
    NAME=FILE.ndjson[:TIME_FIELD] ...
python3 bytes.py --table FILE.json

Of Frostline everything in the repository is counted: splits, needle segments, logs and checkpoints; before and after `index merge` and `vacuum`. Every
document is read back and compared, byte for byte, with its line. VictoriaLogs is measured after a forced merge, OpenSearch after a merge into one segment.
DuckDB writes Parquet with zstd from what it reads of the file. `zstd -3` packs the file as one stream.
"""
import argparse
import collections
import hashlib
import http.client
import json
import os
import resource
import shutil
import subprocess
import sys
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))


def cpu(before, after):
    return round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2)


def run(*command, **options):
    """The output of a command, and the seconds of processor that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    if ran.returncode:
        raise SystemExit(f"{command}: {ran.stderr.decode()[-2000:]}")
    return ran.stdout, cpu(before, resource.getrusage(resource.RUSAGE_CHILDREN))


def files_below(folder):
    for at, _, names in os.walk(folder):
        for name in names:
            yield os.path.join(at, name)


def stored(folder):
    while True:
        try:
            return sum(os.path.getsize(path) for path in files_below(folder))
        except FileNotFoundError:
            continue  # The engine has just replaced it.


def request(url, method, path, body=None):
    at = urllib.parse.urlsplit(url)
    link = http.client.HTTPConnection(at.hostname, at.port, timeout=3600)
    link.request(method, path, body, {"content-type": "application/json"})
    answer = link.getresponse()
    data = answer.read()
    if answer.status >= 300:
        raise SystemExit(f"{url}{path}: {answer.status} {data[:500]!r}")
    return data


def digests(lines):
    """How often each line is there, as a number that does not depend on their order."""
    total, count = 0, 0
    for line in lines:
        total = (total + int.from_bytes(hashlib.blake2b(line.rstrip(b"\r\n"), digest_size=16).digest(), "big")) % (1 << 128)
        count += 1
    return total, count


def zstd(o, corpus):
    size = 0
    packer = subprocess.Popen(["zstd", "-3", "-q", "-c", "-T1", corpus.file], stdout=subprocess.PIPE)
    while piece := packer.stdout.read(1 << 20):
        size += len(piece)
    return {"bytes": size}


def frostline(o, corpus):
    work = os.path.join(o.work, "frostline")
    shutil.rmtree(work, ignore_errors=True)
    repo = os.path.join(work, "repo")
    os.makedirs(repo)
    env = dict(os.environ, FROSTLINE_REPO=repo, FROSTLINE_DATA=os.path.join(work, "data"), FROSTLINE_CONFIG="/dev/null")
    time_field = ["--time-field", corpus.time_field] if corpus.time_field else []
    _, ingest = run(o.frostline, "ingest", "--index", "logs", "--format", "ndjson", *time_field, corpus.file, env=env)
    at_ingest = stored(repo)
    merge = 0
    for command in (["index", "merge", "logs"], ["vacuum", "logs", "--retain-hours", "0", "--orphan-hours", "0"]):
        _, seconds = run(o.frostline, *command, env=env)
        merge += seconds
    by_kind = collections.Counter()
    for path in files_below(repo):
        by_kind[os.path.splitext(path)[1].lstrip(".") or "other"] += os.path.getsize(path)
    reader = subprocess.Popen([o.frostline, "search", "--index", "logs", "*", "--all", "--format", "ndjson"], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    read_back = digests(reader.stdout)
    if reader.wait():
        raise SystemExit("frostline: the documents cannot be read back")
    with open(corpus.file, "rb") as lines:
        same = digests(line for line in lines if line.strip()) == read_back
    return {"bytes": stored(repo), "bytes_before_merge": at_ingest, "by_kind": dict(by_kind), "cpu_s": ingest, "cpu_merge_s": merge,
            "documents": read_back[1], "every_document_equal": same}


def victorialogs(o, corpus):
    work, url = os.path.join(o.work, "victorialogs"), "http://127.0.0.1:19428"
    shutil.rmtree(work, ignore_errors=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    server = subprocess.Popen(
        [o.victorialogs, "-storageDataPath", work, "-httpListenAddr", "127.0.0.1:19428", "-retentionPeriod=100y", "-loggerLevel=ERROR",
         "-insert.maxLineSizeBytes=2MB", "-insert.maxFieldsPerLine=5000"], stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            try:
                request(url, "GET", "/health")
                break
            except OSError:
                time.sleep(0.1)
        query = urllib.parse.urlencode({"_time_field": corpus.time_field or "@timestamp", "_msg_field": "Message,message,log,body.text,request"})
        run(sys.executable, os.path.join(HERE, "bulk.py"), f"{url}/insert/elasticsearch/_bulk?{query}", corpus.file)
        request(url, "GET", "/internal/force_flush")
        request(url, "GET", "/internal/force_merge")
        last, still = -1, 0
        while still < 10:
            size = stored(work)
            still = still + 1 if size == last else 0
            last = size
            time.sleep(1)
        count = request(url, "GET", "/select/logsql/query?" + urllib.parse.urlencode({"query": "* | count() n"}))
    finally:
        server.terminate()
        server.wait()
    return {"bytes": stored(work), "cpu_s": cpu(before, resource.getrusage(resource.RUSAGE_CHILDREN)), "documents": int(json.loads(count)["n"])}


def duckdb(o, corpus):
    out = os.path.join(o.work, "duckdb.parquet")
    read = f"read_json('{corpus.file}', format='newline_delimited', maximum_object_size=16777216, sample_size=-1, convert_strings_to_integers=false)"
    _, seconds = run(sys.executable, "-c", f"import duckdb; duckdb.sql(\"set threads=2; copy (select * from {read}) to '{out}' (format parquet, compression zstd)\")")
    return {"bytes": os.path.getsize(out), "cpu_s": seconds}


def opensearch(o, corpus):
    name = "bytes-" + corpus.name
    env = dict(os.environ, OPENSEARCH=o.opensearch)
    run("bash", os.path.join(HERE, "opensearch_index.sh"), name, env=env)
    run(sys.executable, os.path.join(HERE, "bulk.py"), f"{o.opensearch}/{name}/_bulk", corpus.file)
    request(o.opensearch, "POST", f"/{name}/_forcemerge?max_num_segments=1")
    # What was merged stays until no search can see it, and sizes are ten seconds old.
    request(o.opensearch, "POST", f"/{name}/_refresh")
    request(o.opensearch, "POST", f"/{name}/_flush?force=true")
    time.sleep(15)
    stats = json.loads(request(o.opensearch, "GET", f"/{name}/_stats/store,docs,segments"))["_all"]["primaries"]
    if stats["segments"]["count"] != 1:
        raise SystemExit(f"opensearch: {stats['segments']['count']} segments are left of {name}")
    request(o.opensearch, "DELETE", f"/{name}")
    return {"bytes": stats["store"]["size_in_bytes"], "documents": stats["docs"]["count"]}


class Corpus:
    def __init__(self, given):
        self.name, rest = given.split("=", 1)
        self.file, _, self.time_field = rest.partition(":")
        self.bytes = os.path.getsize(self.file)


def table(measured):
    engines = list(dict.fromkeys(row["engine"] for row in measured["rows"]))
    corpora = list(dict.fromkeys(row["corpus"] for row in measured["rows"]))
    print("| stored bytes per byte in |", " | ".join(engines), "|")
    print("|---|" + "---|" * len(engines))
    for corpus in corpora:
        of = {row["engine"]: row for row in measured["rows"] if row["corpus"] == corpus}
        cells = [f"{of[engine]['bytes'] / of[engine]['bytes_in']:.4f}" if engine in of else "" for engine in engines]
        print(f"| {corpus} |", " | ".join(cells), "|")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("corpora", nargs="*", type=Corpus)
    for name in ("--out", "--work", "--frostline", "--victorialogs", "--opensearch", "--table"):
        p.add_argument(name)
    p.add_argument("--duckdb", action="store_true")
    o = p.parse_args()
    if o.table:
        with open(o.table) as f:
            return table(json.load(f))
    os.makedirs(o.work, exist_ok=True)
    engines = [zstd] + [engine for engine in (frostline, victorialogs, duckdb, opensearch) if getattr(o, engine.__name__)]
    # Where things lie on this machine is nobody's business.
    named = ["=".join(os.path.basename(part) for part in argument.split("=")) for argument in sys.argv[1:]]
    measured = {"command": "python3 tests/peers/bytes.py " + " ".join(named), "rows": []}
    for corpus in o.corpora:
        for engine in engines:
            row = {"corpus": corpus.name, "engine": engine.__name__, "bytes_in": corpus.bytes, **engine(o, corpus)}
            print(json.dumps(row), file=sys.stderr, flush=True)
            measured["rows"].append(row)
            with open(o.out, "w") as f:
                json.dump(measured, f, indent=1)
    table(measured)


main()
