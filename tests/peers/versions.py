"""Compares two builds of Frostline on the questions of docs/studies/frozen.md: speed of the new one over the old one.

python3 versions.py --old BINARY --new BINARY --events security-events.ndjson --web web.ndjson --work DIR --out FILE [--rounds 15] [--ingests 5] [--only "web export,scan"]
python3 versions.py --table FILE

The builds take turns at every step, and each asks the index that it made itself. A ratio is the old time over the new one of the same round; above 1 the
new build is faster. Its 95 % interval is by bootstrap of the median. A build fails a row whose whole interval lies below 0.95.
First means: the page cache was dropped before (needs root). Repeat is the same question again. Web logs are merged after they are ingested.
"""
import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import time

from questions import QUESTIONS, SYSMON, of_elasticsearch

EVENT = "\"EventID\""
# The questions that SQL can ask, in its words.
SQL = {
    "equals": f"select count(*) from security where {EVENT} = 4658",
    "terms": f"select {EVENT}, count(*) n from security where {EVENT} is not null group by {EVENT} order by n desc, {EVENT} limit 10",
    "days": "select date_bin(interval '1 day', \"@timestamp\") d, count(*) n from security where \"@timestamp\" is not null group by d order by d",
    "dashboard": f"select date_bin(interval '1 day', \"@timestamp\") d, {EVENT}, count(*) n, max(\"RecordNumber\") last from security "
                 f"where \"Channel\" = '{SYSMON}' and \"@timestamp\" >= timestamp '2020-01-01T00:00:00Z' and \"@timestamp\" < timestamp '2021-01-01T00:00:00Z' "
                 f"group by d, {EVENT} order by d, {EVENT}",
    "newest": "select \"@timestamp\", \"EventID\" from security where match(\"Message\", 'powershell.exe') order by \"@timestamp\" desc limit 10",
}
# One column of all rows, which no digest answers.
EXPORT = {"export": ("10,000 documents in the order of time", {"size": 10000, "sort": ["@timestamp"]}, None)}
SQL["scan"] = 'select sum("RecordNumber" + 1) as n from security'
WEB = {"web export": {"size": 10000, "sort": ["@timestamp"]}, "web needle": {"size": 10, "query": {"query_string": {"query": "clientip:51.0.0.0/8 AND response:404"}}}}
WEB_SQL = {"web scan": "select sum(bytes + 1) as n from web", "web export": 'select * from web order by "@timestamp" limit 10000'}
# The words are asked of SQL by the same function.
SQL["word"] = "select count(*) from security where match(\"Message\", 'powershell')"
SQL["compound"] = "select count(*) from security where match(\"Message\", 'powershell.exe')"


def drop_caches():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as f:
        f.write("3")


class Build:
    def __init__(self, name, binary, work):
        self.name, self.binary, self.work = name, binary, os.path.join(work, name)

    def run(self, *args):
        env = dict(os.environ, FROSTLINE_REPO=os.path.join(self.work, "repo"), FROSTLINE_DATA=os.path.join(self.work, "data"), FROSTLINE_CONFIG="/dev/null")
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        ran = subprocess.run([self.binary, *args], env=env, capture_output=True)
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        if ran.returncode:
            raise SystemExit(f"{self.name}: {args}: {ran.stderr.decode()}")
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return ran.stdout, {"wall_ms": wall * 1000, "cpu_ms": cpu * 1000}

    def ingest(self, index, path):
        out, sample = self.run("ingest", "--index", index, path, "--json")
        report = json.loads(out)
        return {**sample, "documents": report["documents"], "bytes_out": report["bytes_out"]}

    def merge(self, index):
        return self.run("index", "merge", index)[1]

    def ask(self, language, question):
        """What it took, and the answer or its hash."""
        if language == "sql":
            out, sample = self.run("sql", "--json", {**SQL, **WEB_SQL}[question])
            answer = json.loads(out)
            return {**sample, "cost": answer["cost"]}, digest(answer["rows"])
        index, body = ("web", WEB[question]) if question in WEB else ("security", {**QUESTIONS, **EXPORT}[question][1])
        out, sample = self.run("search", "--json", "--no-result-cache", "--index", index, "--body", json.dumps(body))
        answer = json.loads(out)
        hits = [hit.get("_source") for hit in answer["hits"]["hits"]]
        seen = of_elasticsearch(question, answer) if question in QUESTIONS else digest(hits)
        return {**sample, "cost": answer["cost"]}, seen


def digest(answer):
    text = json.dumps(answer)
    return answer if len(text) < 10000 else hashlib.sha256(text.encode()).hexdigest()


def measure(o):
    builds = [Build("old", o.old, o.work), Build("new", o.new, o.work)]
    samples, answers = [], {}
    def note(**sample):
        samples.append({**sample, "load": os.getloadavg()[0]})
    for round_ in range(o.ingests):
        for build in builds[::1 if round_ % 2 else -1]:
            shutil.rmtree(build.work, ignore_errors=True)
            os.makedirs(build.work)
            note(build=build.name, round=round_, question="ingest", language="", run="", **build.ingest("security", o.events))
            note(build=build.name, round=round_, question="web ingest", language="", run="", **build.ingest("web", o.web))
            note(build=build.name, round=round_, question="web merge", language="", run="", **build.merge("web"))
    searches = [*QUESTIONS, *EXPORT, *WEB]
    asked = [("search", q) for q in searches] + [("sql", q) for q in [*SQL, *WEB_SQL]]
    if o.only:
        asked = [(language, question) for language, question in asked if question in o.only.split(",")]
    for round_ in range(o.rounds):
        for language, question in asked:
            for build in builds[::1 if round_ % 2 else -1]:
                runs = ["repeat"]
                if round_ < o.firsts:
                    drop_caches()
                    runs = ["first", "repeat"]
                for run in runs:
                    sample, answer = build.ask(language, question)
                    seen = answers.setdefault((language, question), answer)
                    if seen != answer:
                        answers.setdefault((language, question, build.name), answer)
                    note(build=build.name, round=round_, question=question, language=language, run=run, **sample)
        print(f"round {round_ + 1} of {o.rounds}, load {os.getloadavg()}", flush=True)
        with open(o.out, "w") as f:
            versions = {b.name: b.run("--version")[0].decode().strip() for b in builds}
            differ = [list(key) for key in answers if len(key) == 3]
            json.dump({"builds": versions, "commits": {"old": o.old_commit, "new": o.new_commit}, "differing_answers": differ, "samples": samples}, f)


def interval(ratios):
    dice = random.Random(1)
    medians = sorted(statistics.median(dice.choices(ratios, k=len(ratios))) for _ in range(2000))
    return statistics.median(ratios), medians[50], medians[1949]


def table(path):
    with open(path) as f:
        samples = json.load(f)["samples"]
    rows = {}
    for s in samples:
        rows.setdefault((s["question"], s["language"], s["run"]), {}).setdefault(s["round"], {})[s["build"]] = s
    print("| question | language | run | old, ms | new, ms | ratio of times (95 %) | ratio of CPU (95 %) | |\n|---|---|---|---|---|---|---|---|")
    for (question, language, run), rounds in rows.items():
        pairs = [r for r in rounds.values() if len(r) == 2]
        old, new = ([r[b] for r in pairs] for b in ("old", "new"))
        shown = [interval([a[unit] / b[unit] for a, b in zip(old, new)]) for unit in ("wall_ms", "cpu_ms")]
        cells = [f"{m:.2f} ({low:.2f} to {high:.2f})" for m, low, high in shown]
        note = "**slower**" if shown[0][2] < 0.95 else ""
        medians = [f"{statistics.median(s['wall_ms'] for s in side):.0f}" for side in (old, new)]
        print(f"| {question} | {language} | {run} | {medians[0]} | {medians[1]} | {cells[0]} | {cells[1]} | {note} |")


def main():
    p = argparse.ArgumentParser()
    for name in ("old", "new", "old-commit", "new-commit", "events", "web", "work", "out", "table", "only"):
        p.add_argument(f"--{name}")
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--firsts", type=int, default=5)
    p.add_argument("--ingests", type=int, default=5)
    o = p.parse_args()
    if o.table:
        return table(o.table)
    measure(o)


main()
