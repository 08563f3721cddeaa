"""Asks the questions of docs/studies/frozen.md of one or several engines, in turn, and writes every sample as JSON.

python3 ask.py --out samples.json --rounds 5 --frostline BINARY --repo DIR --data DIR --index NAME \
    [--opensearch URL --opensearch-restart COMMAND] [--victorialogs URL --victorialogs-restart COMMAND]

First means: the process was restarted and the page cache of the machine dropped (needs root). Repeat is the same question again at once.
OpenSearch is restarted once a round, since its start takes long; the page cache is dropped before each of its first questions. The order of
the questions turns by one third of them each round.
"""
import argparse
import http.client
import json
import os
import subprocess
import time
import urllib.parse

from questions import QUESTIONS, needle_logsql, of_elasticsearch, of_logsql


def drop_caches():
    with open("/proc/sys/vm/drop_caches", "w") as f:
        f.write("3")


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
    def __init__(self, o, repo, name):
        self.o, self.repo, self.name = o, repo, name
        self.data = os.path.join(o.data, name)

    def call(self, *args):
        env = dict(os.environ, FROSTLINE_REPO=self.repo, FROSTLINE_DATA=self.data)
        return subprocess.run([self.o.frostline, *args], env=env, capture_output=True, check=True).stdout

    def begin_round(self):
        pass

    def before_first(self):
        if self.repo.startswith("sim+"):
            self.call("cache", "clear")
        drop_caches()

    def ask(self, name):
        began = time.perf_counter()
        out = self.call("search", "--json", "--no-result-cache", "--index", self.o.index, "--body", json.dumps(QUESTIONS[name][1]))
        wall = (time.perf_counter() - began) * 1000
        body = json.loads(out)
        return {"wall_ms": wall, "took_ms": body["cost"]["took_ms"], "cost": body["cost"]}, of_elasticsearch(name, body)


class OpenSearch:
    name = "opensearch"

    def __init__(self, o):
        self.o = o

    def begin_round(self):
        subprocess.run(self.o.opensearch_restart, shell=True, check=True)
        until_up(self.o.opensearch, f"/_cluster/health/{self.o.os_index}?wait_for_status=green&timeout=60s")

    def before_first(self):
        drop_caches()

    def ask(self, name):
        path = f"/{self.o.os_index}/_search?request_cache=false&track_total_hits=true"
        if name in ("needle", "newest"):
            path = f"/{self.o.os_index}/_search?track_total_hits=true"
        data, wall = request(self.o.opensearch, "POST", path, json.dumps(QUESTIONS[name][1]), "application/json")
        body = json.loads(data)
        if body["_shards"]["failed"]:
            raise SystemExit(body["_shards"])
        return {"wall_ms": wall, "took_ms": body["took"]}, of_elasticsearch(name, body)


class VictoriaLogs:
    name = "victorialogs"
    fields = None

    def __init__(self, o):
        self.o = o

    def begin_round(self):
        pass

    def before_first(self):
        subprocess.run(self.o.victorialogs_restart, shell=True, check=True)
        until_up(self.o.victorialogs, "/health")
        if self.fields is None:
            data, _ = request(self.o.victorialogs, "GET", "/select/logsql/field_names?query=*", None, "text/plain")
            self.fields = [v["value"] for v in json.loads(data)["values"] if v["value"] not in ("_time", "_stream", "_stream_id")]
        drop_caches()

    def ask(self, name):
        query = QUESTIONS[name][2] or needle_logsql(self.fields)
        form = urllib.parse.urlencode({"query": query})
        data, wall = request(self.o.victorialogs, "POST", "/select/logsql/query", form, "application/x-www-form-urlencoded")
        return {"wall_ms": wall}, of_logsql(name, [json.loads(line) for line in data.splitlines()])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", required=True)
    p.add_argument("--rounds", type=int, default=5)
    for name in ("frostline", "repo", "data", "opensearch", "opensearch-restart", "victorialogs", "victorialogs-restart"):
        p.add_argument(f"--{name}")
    p.add_argument("--index", default="security")
    p.add_argument("--os-index", default="sec")
    o = p.parse_args()
    engines = []
    if o.frostline:
        engines += [Frostline(o, o.repo, "directory"), Frostline(o, f"sim+file://{os.path.abspath(o.repo)}?profile=measured&seed=1", "frozen")]
    if o.victorialogs:
        engines.append(VictoriaLogs(o))
    if o.opensearch:
        engines.append(OpenSearch(o))
    samples, answers = [], {}
    names = list(QUESTIONS)
    for round_ in range(o.rounds):
        turn = round_ * 3 % len(names)
        os.sync()
        for engine in engines:
            engine.begin_round()
            for name in names[turn:] + names[:turn]:
                engine.before_first()
                for run in ("first", "repeat"):
                    sample, answer = engine.ask(name)
                    if answers.setdefault((engine.name, name), answer) != answer:
                        raise SystemExit(f"{engine.name} answered {name} differently: {answer}")
                    samples.append({"round": round_, "engine": engine.name, "question": name, "run": run, "load": os.getloadavg()[0], **sample})
        with open(o.out, "w") as f:
            json.dump({"answers": [{"engine": e, "question": q, "answer": a} for (e, q), a in answers.items()], "samples": samples}, f)
        print(f"round {round_ + 1} of {o.rounds}, load {os.getloadavg()}", flush=True)


main()
