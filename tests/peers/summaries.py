"""What WAL summaries save: snapshots of a running PostgreSQL 17 after 1 % of the pages of its largest table changed.

python3 summaries.py --out FILE.json --work DIR --frostline BINARY --postgres DIR [--scale 70] [--rounds 3]

DIR of --postgres has initdb and postgres of version 17 or later; psql and pgbench of any version are in the PATH. Run it as root;
the user postgres has to be able to enter DIR and the folder of --work. Each round takes a snapshot of each volume, changes
pages, then takes one with summaries and one without, in turn first, with cold caches. Two kinds of change: pages drawn at
random, and neighbours. What both read is the log of the backup, at least one file of 16 MiB.
"""
import argparse
import json
import os
import pwd
import resource
import shutil
import statistics
import subprocess
import time
from pathlib import Path

from machine import cold, pressure

PORT = "5598"
ROWS = 100_000


class Server:
    def __init__(self, given):
        self.postgres, self.work, self.frostline = Path(given.postgres).resolve(), Path(given.work).resolve(), given.frostline
        self.data = self.work / "data"
        self.conninfo = f"host=/tmp port={PORT} user=postgres dbname=postgres"

    def run(self, program, *arguments):
        ran = subprocess.run([program, *map(str, arguments)], user="postgres", cwd="/", capture_output=True, text=True)
        if ran.returncode:
            raise SystemExit(f"{program}: {ran.stdout}{ran.stderr}")
        return ran.stdout.strip()

    def make(self, scale):
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        os.chown(self.work, *pwd.getpwnam("postgres")[2:4])
        self.run(self.postgres / "initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-N", "-k")
        settings = f"-k /tmp -p {PORT} -c listen_addresses= -c summarize_wal=on -c autovacuum=off -c max_wal_size=8GB -c shared_buffers=256MB"
        self.run(self.postgres / "pg_ctl", "-D", self.data, "-l", self.work / "log", "-o", settings, "-w", "start")
        self.run("pgbench", "-i", "-q", "-F", "90", "-s", scale, "-h", "/tmp", "-p", PORT, "-U", "postgres", "postgres")

    def sql(self, text):
        return self.run("psql", "-X", "-A", "-t", "-d", self.conninfo, "-c", text)

    def stop(self):
        self.run(self.postgres / "pg_ctl", "-D", self.data, "-m", "immediate", "stop")

    def snapshot(self, volume, with_summaries):
        marks = self.data / "frostline_snapshots.json"
        if not with_summaries and marks.exists():
            # Who has no mark of it reads as without summaries.
            newest = [row["id"] for row in self.list() if row["volume"] == volume]
            marks.write_text(json.dumps([mark for mark in json.loads(marks.read_text()) if mark["snapshot"] not in newest]))
        cold()
        before, since = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        taken = self.command("snapshot", self.data, "--name", volume, "--postgres", self.conninfo)
        took, after = time.monotonic() - since, resource.getrusage(resource.RUSAGE_CHILDREN)
        totals, summaries = taken["totals"], taken.get("wal_summaries", {"used": False})
        row = {"seconds": round(took, 2), "processor_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2),
               "read_bytes": totals["read_bytes"], "stored_bytes": totals["stored_bytes"], "data_bytes": totals["data_bytes"], **summaries}
        return row

    def command(self, *arguments):
        environment = {**os.environ, "FROSTLINE_DATA": str(self.work / "node")}
        ran = subprocess.run([self.frostline, "--json", "--repo", str(self.work / "repo"), "volume", *map(str, arguments)], capture_output=True, text=True, env=environment)
        if ran.returncode:
            raise SystemExit(ran.stdout + ran.stderr)
        return json.loads(ran.stdout)

    def list(self):
        return self.command("list")["snapshots"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name in ("out", "work", "frostline", "postgres"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--scale", type=int, default=70)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    server = Server(given)
    server.make(given.scale)
    record = {"date": time.strftime("%Y-%m-%d"), "scale": given.scale, "kernel": os.uname().release, "rounds": []}
    try:
        record["postgresql"] = server.sql("SHOW server_version")
        for volume in ("with", "without"):
            server.snapshot(volume, True)
        pages = int(server.sql("SELECT pg_relation_size('pgbench_accounts') / 8192"))
        record.update(pages=pages, bytes=server.list()[-1]["totals"]["bytes"])
        for kind in ("random", "neighbours"):
            for round_ in range(given.rounds):
                # What the round before left behind is tidied now, or reading the table would change those pages, too.
                server.sql("VACUUM pgbench_accounts")
                for volume in ("with", "without"):
                    server.snapshot(volume, volume == "with")
                # One row of each page: it has room, so that the new version is in the same page.
                chosen = f"hashint8extended((ctid::text::point)[0]::int, {round_}) & 1048575 < 10486" if kind == "random" else f"(ctid::text::point)[0]::int / ({pages} / 100) = {10 * round_ + 3}"
                changed = server.run("psql", "-X", "-d", server.conninfo, "-c", f"WITH page AS (SELECT min(aid) AS aid FROM pgbench_accounts WHERE {chosen} GROUP BY (ctid::text::point)[0]) UPDATE pgbench_accounts a SET abalance = abalance + 1 FROM page WHERE a.aid = page.aid")
                row = {"kind": kind, "pages": int(changed.split()[-1])}
                order = ["with", "without"] if round_ % 2 == 0 else ["without", "with"]
                for volume in order:
                    row[volume] = server.snapshot(volume, volume == "with")
                    assert row[volume]["used"] == (volume == "with"), row
                row["psi"] = pressure()
                record["rounds"].append(row)
                print(json.dumps(row), flush=True)
                with open(given.out, "w") as file:
                    json.dump(record, file, indent=1)
                    file.write("\n")
    finally:
        server.stop()
    median = statistics.median
    for kind in ("random", "neighbours"):
        for key in ("read_bytes", "seconds", "processor_s"):
            ratios = [row["with"][key] / row["without"][key] for row in record["rounds"] if row["kind"] == kind]
            print(f"{kind}, {key}, with over without: {median(ratios):.3f} ({min(ratios):.3f}-{max(ratios):.3f})")
    print("\n| changed pages | | read | stored | time | processor |\n|---|---|---|---|---|---|")
    for kind in ("random", "neighbours"):
        for volume in ("with", "without"):
            of = [row[volume] for row in record["rounds"] if row["kind"] == kind]
            figure = lambda key: median(row[key] for row in of)
            print(f"| {kind} | {volume} | {figure('read_bytes') / 1e6:.0f} MB | {figure('stored_bytes') / 1e6:.1f} MB | {figure('seconds'):.1f} s | {figure('processor_s'):.1f} s |")


main()
