"""Asks the questions of docs/studies/frozen.md and server.md of one or several engines, in turn, and writes every sample as JSON.

python3 ask.py --out samples.json --rounds 5 [--frostline BINARY --repo DIR --data DIR --index NAME]
    [--server URL --server-restart COMMAND] [--opensearch URL --opensearch-restart COMMAND] [--victorialogs URL --victorialogs-restart COMMAND]
python3 ask.py --table samples.json

First: the process was restarted, and then the page cache of the machine dropped (needs root). Repeat: the same question at once again. Steady: the
same question --steady times more. --frostline is the command, which starts for each question and knows only the first two. --server is a Frostline server, asked twice: with request_cache=false and, its kept answers
deleted before each first, at its defaults. The order of the questions turns by three each round, and that of the engines by one.
"""
import argparse
import http.client
import json
import os
import statistics
import subprocess
import time
import urllib.parse

from machine import cold
from questions import QUESTIONS, needle_logsql, of_elasticsearch, of_logsql

RUNS = ("first", "repeat", "steady")


def request(url, method, path, body, kind):
    at = urllib.parse.urlsplit(url)
    link = http.client.HTTPConnection(at.hostname, at.port, timeout=300)
    began = time.perf_counter()
    link.request(method, path, body, {"content-type": kind})
    answer = link.getresponse()
    data = answer.read()
    wall = (time.perf_counter() - began) * 1000
    if answer.status != 200:
        raise SystemExit(f"{url}{path}: {answer.status} {data[:500]!r}")
    return data, wall


def until_up(url, path):
    for _ in range(600):
        try:
            request(url, "GET", path, None, "text/plain")
            return
        except (OSError, SystemExit, http.client.HTTPException):
            time.sleep(0.1)
    raise SystemExit(f"{url} does not come up")


class Frostline:
    """The command."""

    runs = ("first", "repeat")

    def __init__(self, o, repo, name):
        self.o, self.repo, self.name = o, repo, name
        self.data = os.path.join(o.data, name)

    def call(self, *args):
        env = dict(os.environ, FROSTLINE_REPO=self.repo, FROSTLINE_DATA=self.data)
        return subprocess.run([self.o.frostline, *args], env=env, capture_output=True, check=True).stdout

    def restart(self):
        if self.repo.startswith("sim+"):
            self.call("cache", "clear")

    def ask(self, name):
        began = time.perf_counter()
        out = self.call("search", "--json", "--no-result-cache", "--index", self.o.index, "--body", json.dumps(QUESTIONS[name][1]))
        wall = (time.perf_counter() - began) * 1000
        body = json.loads(out)
        return {"wall_ms": wall, "took_ms": body["cost"]["took_ms"], "cost": body["cost"]}, of_elasticsearch(name, body)


class Elasticsearch:
    """A server with Elasticsearch's API: OpenSearch, or Frostline's."""

    runs = RUNS

    def __init__(self, name, url, restart, index, cache):
        self.name, self.url, self.command, self.index = name, url, restart, index
        self.cache = "" if cache else "&request_cache=false"

    def restart(self):
        subprocess.run(self.command, shell=True, check=True)
        until_up(self.url, f"/_cluster/health/{self.index}?wait_for_status=green&timeout=60s")

    def ask(self, name):
        path = f"/{self.index}/_search?track_total_hits=true{self.cache}"
        data, wall = request(self.url, "POST", path, json.dumps(QUESTIONS[name][1]), "application/json")
        body = json.loads(data)
        if body["_shards"]["failed"]:
            raise SystemExit(body["_shards"])
        cost = {"cost": body["cost"]} if "cost" in body else {}
        return {"wall_ms": wall, "took_ms": body["took"], **cost}, of_elasticsearch(name, body)


class VictoriaLogs:
    name = "victorialogs"
    runs = RUNS
    fields = None

    def __init__(self, url, restart):
        self.url, self.command = url, restart

    def restart(self):
        subprocess.run(self.command, shell=True, check=True)
        until_up(self.url, "/health")
        if self.fields is None:
            data, _ = request(self.url, "GET", "/select/logsql/field_names?query=*", None, "text/plain")
            self.fields = [v["value"] for v in json.loads(data)["values"] if v["value"] not in ("_time", "_stream", "_stream_id")]

    def ask(self, name):
        query = QUESTIONS[name][2] or needle_logsql(self.fields)
        form = urllib.parse.urlencode({"query": query})
        data, wall = request(self.url, "POST", "/select/logsql/query", form, "application/x-www-form-urlencoded")
        return {"wall_ms": wall}, of_logsql(name, [json.loads(line) for line in data.splitlines()])


def engines_of(o):
    engines = []
    if o.frostline:
        engines += [Frostline(o, o.repo, "directory"), Frostline(o, f"sim+file://{os.path.abspath(o.repo)}?profile=measured&seed=1", "frozen")]
    if o.server:
        engines += [Elasticsearch(name, o.server, o.server_restart, o.index, cache) for name, cache in (("frostline", False), ("frostline, kept", True))]
    if o.victorialogs:
        engines.append(VictoriaLogs(o.victorialogs, o.victorialogs_restart))
    if o.opensearch:
        engines.append(Elasticsearch("opensearch", o.opensearch, o.opensearch_restart, o.os_index, False))
    return engines


def ask(engine, question, steady):
    """Samples of all runs of one question, and the answers."""
    engine.restart()
    for run in engine.runs:
        if run == "first":
            cold()
        for _ in range(steady if run == "steady" else 1):
            sample, answer = engine.ask(question)
            yield {"engine": engine.name, "question": question, "run": run, "load": os.getloadavg()[0], **sample}, answer


def measure(o):
    engines, names = engines_of(o), list(QUESTIONS)
    samples, answers = [], {}
    for round_ in range(o.rounds):
        turn = round_ * 3 % len(names)
        for name in names[turn:] + names[:turn]:
            for engine in engines[round_ % len(engines):] + engines[:round_ % len(engines)]:
                for sample, answer in ask(engine, name, o.steady):
                    if answers.setdefault((engine.name, name), answer) != answer:
                        raise SystemExit(f"{engine.name} answered {name} differently: {answer}")
                    samples.append({"round": round_, **sample})
        with open(o.out, "w") as f:
            json.dump({"answers": [{"engine": e, "question": q, "answer": a} for (e, q), a in answers.items()], "samples": samples}, f)
        print(f"round {round_ + 1} of {o.rounds}, load {os.getloadavg()}", flush=True)


def shown(ms):
    return f"{ms:.0f}" if ms >= 100 else f"{ms:.2g}" if ms < 10 else f"{ms:.0f}"


def table(path):
    """For each run the medians of the rounds, and how many times as fast Frostline is as the faster of the others."""
    with open(path) as f:
        samples = json.load(f)["samples"]
    names = list(dict.fromkeys(s["engine"] for s in samples))
    ours = [name for name in names if name.startswith("frostline")]
    loads = sorted(s["load"] for s in samples)
    print(f"{1 + max(s['round'] for s in samples)} rounds, load {loads[0]:.1f} to {loads[-1]:.1f}, median {statistics.median(loads):.1f}")
    for run in RUNS:
        print(f"\n**{run}**\n\n| question | {' | '.join(names)} | faster of the others / {ours[0]} |\n|{'---|' * (len(names) + 2)}")
        won = 0
        for question in QUESTIONS:
            of = [s for s in samples if s["run"] == run and s["question"] == question]
            medians = {name: statistics.median(s["wall_ms"] for s in of if s["engine"] == name) for name in names}
            ratio = min(ms for name, ms in medians.items() if name not in ours) / medians[ours[0]]
            won += ratio >= 1
            print(f"| {question} | {' | '.join(shown(medians[name]) for name in names)} | {ratio:.2f} |")
        print(f"\nNo slower in {won} of {len(QUESTIONS)}.")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name in ("out", "table", "frostline", "repo", "data", "server", "server-restart", "opensearch", "opensearch-restart", "victorialogs", "victorialogs-restart"):
        p.add_argument(f"--{name}")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--steady", type=int, default=10)
    p.add_argument("--index", default="security")
    p.add_argument("--os-index", default="sec")
    o = p.parse_args()
    return table(o.table) if o.table else measure(o)


main()
