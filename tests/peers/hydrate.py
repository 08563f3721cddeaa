"""How fast a mounted snapshot fills, what that costs its readers, and what is left of it when all data is in place.

python3 hydrate.py --out FILE.json --work DIR --frostline BINARY [--bytes 1GiB] [--rounds 3] [--scale 20] [--parts fill,demand,hot,running,after]
python3 hydrate.py --table FILE.json

BINARY is frostline or target/PROFILE/examples/volume of frostline-volume. Its repository is a directory with the timing of a
cloud store (sim+, profile measured). Run it as root on a machine with fio and Debian's PostgreSQL. The parts take turns in
each round, with cold caches:

fill     volume mount until all data is in place and synced, beside volume restore and a sync; then both where the store's
         link is the limit, 100 MB/s
demand   reads of 8 KiB of absent data, each in a chunk of its own: nothing else fetched; filling at 28.4 MiB/s; unlimited
hot      pgbench -S over a tenth of the rows on a mount that fills at 28.4 MiB/s: nothing is known of what is hot; the
         snapshot has autoprewarm.blocks; an earlier mount has left a trace. Beside it a plain copy
running  PostgreSQL and fio on a mount with --mode fanotify, started at once and never restarted, beside those on a plain copy:
         before all data is in place, and after
after    fio and pgbench on a plain copy, on a second one (which shows what the machine alone does to a ratio), on the mount
         when all data is in place, and after umount
"""
import argparse
import json
import math
import os
import random
import shutil
import signal
import statistics
import subprocess
import time
from pathlib import Path

from machine import cold, pressure
from restore import PORT, RATE, Server, postgres, run

CHUNK = 512 << 10


class Mounted:
    """A mount that is served until it is ended."""

    def __init__(self, of, name, directory, rate=None, store="", mode=None):
        self.directory, self.state = directory, directory.parent / f".{directory.name}.frostline-mount"
        self.since = time.monotonic()
        options = (["--rate", str(rate)] if rate else []) + (["--mode", mode] if mode else [])
        self.process = of.start("mount", name, directory, *options, store=store)
        line = self.process.stdout.readline()
        assert "mounted" in line, line
        self.mount_s = time.monotonic() - self.since

    def status(self):
        return json.loads((self.state / "status.json").read_text())

    def wait(self):
        """Seconds from the command until all data was in place."""
        while not self.status()["is_whole"]:
            time.sleep(0.02)
        return time.monotonic() - self.since

    def end(self):
        subprocess.run(["umount", str(self.directory)], check=True)
        assert self.process.wait() == 0

    def remove(self):
        self.end()
        for folder in (self.directory, self.state):
            if folder.exists():
                folder.chmod(0o700)
                shutil.rmtree(folder)


class Volume:
    def __init__(self, given):
        self.work, self.frostline = Path(given.work).resolve(), given.frostline
        self.environment = {**os.environ, "FROSTLINE_DATA": str(self.work / "node")}

    def command(self, url, *arguments):
        return [self.frostline, "--repo", url, "volume", *map(str, arguments)]

    def start(self, *arguments, store=""):
        url = f"sim+file://{self.work}/repo?profile=measured{store}"
        return subprocess.Popen(self.command(url, *arguments), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=self.environment)

    def run(self, *arguments, store=""):
        process = self.start(*arguments, store=store)
        process.communicate()
        assert process.returncode == 0, arguments

    def snapshot(self, directory, name):
        subprocess.run(self.command(str(self.work / "repo"), "snapshot", directory, "--name", name), check=True, stdout=subprocess.DEVNULL, env=self.environment)


def fill(volume, rounds):
    rows = []
    for round_ in range(rounds):
        row = {}
        ways = [(way, key, store) for key, store in (("", ""), ("slow_link_", "&nic_gbit_s=0.8")) for way in ("mount", "restore")]
        for way, key, store in ways if round_ % 2 == 0 else reversed(ways):
            cold()
            target = volume.work / way
            if way == "mount":
                mounted = Mounted(volume, "noise", target, store=store)
                row[f"{key}mount_s"], row[f"{key}mounted_s"] = mounted.wait(), mounted.mount_s
                mounted.remove()
            else:
                since = time.monotonic()
                volume.run("restore", "noise", target, store=store)
                os.sync()
                row[f"{key}restore_s"] = time.monotonic() - since
                shutil.rmtree(target)
        row["psi"] = pressure()
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def demand(volume, bytes_, rounds, reads):
    rows, rates = [], {"alone": 1, "filling at 28.4 MiB/s": RATE, "filling": None}
    for round_ in range(rounds):
        ways = list(rates)
        ways = ways[round_ % 3:] + ways[: round_ % 3]
        for way in ways:
            cold()
            mounted = Mounted(volume, "noise", volume.work / "demand", rates[way])
            # The last chunks are filled last.
            chunks = random.Random(round_).sample(range(bytes_ // CHUNK), min(reads, bytes_ // CHUNK))
            chunks.sort(reverse=True)
            milliseconds, file = [], os.open(mounted.directory / "file", os.O_RDONLY)
            for chunk in chunks:
                before = time.monotonic()
                assert len(os.pread(file, 8192, chunk * CHUNK + 65536)) == 8192
                took = (time.monotonic() - before) * 1000
                if took < 5:
                    # Filling was here first.
                    continue
                milliseconds.append(round(took, 1))
                if way == "filling" and mounted.status()["is_whole"]:
                    break
            os.close(file)
            mounted.remove()
            rows.append({"way": way, "round": round_, "ms": milliseconds, "psi": pressure()})
            print(way, len(milliseconds), statistics.median(milliseconds), max(milliseconds), flush=True)
    return rows


def fio(file, direct):
    command = ["fio", "--name=r", f"--filename={file}", "--rw=randread", "--bs=8k", "--readonly", "--runtime=3", "--time_based", "--output-format=json"]
    command += ["--ioengine=libaio", "--iodepth=16", "--direct=1"] if direct else ["--ioengine=psync", "--invalidate=0"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)["jobs"][0]["read"]["iops"]


def pgbench(data, seconds):
    server = Server(data, time.monotonic())
    server.scan()
    reads, options = postgres("pgbench", "-h", "/tmp", "-p", 5599, "-U", "postgres", "-n", "-S", "-c", 2, "-T", seconds, "postgres")
    ran = subprocess.run(reads, capture_output=True, text=True, **options)
    selects = float(next(line for line in ran.stdout.splitlines() if line.startswith("tps")).split()[2])
    tps = statistics.mean(server.tps(seconds))
    server.stop()
    return selects, tps


def after(volume, rounds, seconds, bytes_):
    plain, again, whole, ended = (volume.work / name for name in ("plain", "again", "whole", "ended"))
    for copy in (plain, again):
        copy.mkdir()
        copy.chmod(0o755)
        shutil.copy(volume.work / "noise" / "file", copy / "file")
        subprocess.run(["cp", "-a", volume.work / "pg" / "data", copy / "data"], check=True)
    for target in (whole, ended):
        mounted = Mounted(volume, "both", target)
        mounted.wait()
        if target == ended:
            mounted.end()
    rows, places = [], {"plain": plain, "mounted": whole, "plain again": again, "unmounted": ended}
    for round_ in range(rounds):
        names = list(places)
        names = names[round_ % 4:] + names[: round_ % 4]
        for what in ("fio cached", "fio direct", "pgbench"):
            row = {"what": what}
            for name in names:
                if what == "pgbench":
                    row[name] = pgbench(places[name] / "data", seconds)
                else:
                    # What the reads of the round before threw out of the page cache is there again.
                    subprocess.run(["cat", str(places[name] / "file")], check=True, stdout=subprocess.DEVNULL)
                    row[name] = fio(places[name] / "file", what == "fio direct")
            row["psi"] = pressure()
            rows.append(row)
            print(json.dumps(row), flush=True)
    subprocess.run(["umount", str(whole)], check=True)
    return rows


def serve(data, port, *more):
    """A server that is never restarted."""
    settings = ["listen_addresses=", "unix_socket_directories=/tmp", f"port={port}", "shared_buffers=256MB", "max_wal_size=4GB", "recovery_init_sync_method=syncfs", *more]
    command, options = postgres("postgres", "-D", data, *[word for one in settings for word in ("-c", one)])
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    ready, options = postgres("pg_isready", "-q", "-h", "/tmp", "-p", port, "-U", "postgres")
    while subprocess.run(ready, **options).returncode:
        assert process.poll() is None, f"PostgreSQL does not start on {data}"
    return process


class Hot:
    """A tenth of pgbench's accounts, and who reads them."""

    def __init__(self, volume, scale):
        self.volume, self.script, self.data = volume, volume.work / "hot.sql", volume.work / "hot" / "data"
        self.data.parent.mkdir()
        shutil.chown(self.data.parent, "postgres", "postgres")
        rows = scale * 100_000
        self.script.write_text(f"\\set aid random({rows // 2}, {rows // 2 + rows // 10})\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n")
        self.script.chmod(0o644)
        run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-N")
        # What is in the log that a server does not need would be filled, too.
        small = ("max_wal_size=64MB", "min_wal_size=32MB")
        server = serve(self.data, PORT, *small)
        run("pgbench", "-i", "-q", "-s", scale, "-h", "/tmp", "-p", PORT, "-U", "postgres", "postgres")
        stop(server)
        for name in ("unknown", "traced"):
            volume.snapshot(self.data.parent, name)
        mounted = Mounted(volume, "traced", volume.work / "recorded", RATE)
        self.read(mounted.directory / "data", 30)
        mounted.remove()
        server = serve(self.data, PORT, "shared_preload_libraries=pg_prewarm")
        self.pgbench(20)
        stop(server)
        self.blocks = sum(1 for _ in open(self.data / "autoprewarm.blocks")) - 1
        volume.snapshot(self.data.parent, "listed")

    def pgbench(self, seconds):
        """Transactions of each second."""
        command, options = postgres("pgbench", "-h", "/tmp", "-p", PORT, "-U", "postgres", "-n", "-c", 4, "-P", 1, "-T", seconds, "-f", self.script, "postgres")
        ran = subprocess.run(command, capture_output=True, text=True, **options)
        assert ran.returncode == 0, ran.stderr
        return [float(line.split()[3]) for line in ran.stderr.splitlines() if line.startswith("progress:")]

    def read(self, data, seconds):
        server = serve(data, PORT)
        accepting = time.monotonic()
        tps = self.pgbench(seconds)
        stop(server)
        return accepting, tps

    def on_plain(self, seconds):
        cold()
        since = time.monotonic()
        accepting, tps = self.read(self.data, seconds)
        return {"way": "plain", "accepting_s": accepting - since, "tps": tps}

    def on_mount(self, way, seconds):
        """Whatever a round before recorded is forgotten."""
        traces, kept = self.volume.work / "repo" / "_volumes" / "traces", self.volume.work / "traces"
        if not kept.exists():
            shutil.copytree(traces, kept)
        shutil.rmtree(traces, ignore_errors=True)
        if way == "traced":
            shutil.copytree(kept, traces)
        cold()
        mounted = Mounted(self.volume, way, self.volume.work / "mounted", RATE)
        accepting, tps = self.read(mounted.directory / "data", seconds)
        status = mounted.status()
        mounted.remove()
        return {"way": way, "accepting_s": accepting - mounted.since, "tps": tps, **{key: status[key] for key in ("demand_hits", "demand_misses", "bytes", "done_bytes", "order")}}


def hot(volume, scale, rounds, seconds):
    of, rows = Hot(volume, scale), []
    ways = {"plain": of.on_plain, **{way: lambda seconds, way=way: of.on_mount(way, seconds) for way in ("unknown", "listed", "traced")}}
    for round_ in range(rounds):
        names = list(ways)
        for name in names[round_ % 4:] + names[: round_ % 4]:
            row = {"round": round_, **ways[name](seconds), "psi": pressure()}
            rows.append(row)
            print(json.dumps({key: row[key] for key in row if key != "order"}), flush=True)
    return {"blocks": of.blocks, "rows": rows}


def stop(server):
    server.terminate()
    assert server.wait() == 0


def reached(row, plain, share):
    """Seconds from the command until pgbench runs at this share of plain speed for three seconds; endless if it does not."""
    wanted = share * plain
    for second in range(len(row["tps"]) - 2):
        if min(row["tps"][second: second + 3]) >= wanted:
            return row["accepting_s"] + second
    return float("inf")


class Reader:
    """fio that reads 8 KiB at random places of an open file. It is stopped, but for its turns."""

    def __init__(self, file, direct):
        command = ["fio", "--name=r", f"--filename={file}", "--rw=randread", "--bs=8k", "--readonly", "--thread", "--time_based", "--runtime=86400"]
        command += ["--ioengine=psync", "--invalidate=0", f"--direct={direct}"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while not self.has_open(file):
            time.sleep(0.01)
        self.process.send_signal(signal.SIGSTOP)

    def has_open(self, file):
        for link in Path(f"/proc/{self.process.pid}/fd").iterdir():
            try:
                if os.readlink(link) == str(file):
                    return True
            except FileNotFoundError:
                pass  # It was closed meanwhile.
        return False

    def reads(self):
        with open(f"/proc/{self.process.pid}/io") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("syscr"))

    def rate(self, seconds):
        """Reads a second in one turn."""
        self.process.send_signal(signal.SIGCONT)
        before, since = self.reads(), time.monotonic()
        time.sleep(seconds)
        after, took = self.reads(), time.monotonic() - since
        self.process.send_signal(signal.SIGSTOP)
        return (after - before) / took

    def end(self):
        assert self.process.poll() is None, "it was never restarted"
        self.process.kill()
        self.process.wait()


def running(volume, mounts, rounds, seconds):
    """All servers and readers run all the time; the one that is measured takes turns, so that none has more of the machine.
    What a process has by chance, such as the places of its memory, stays with it, so each of several mounts has servers of its own."""
    rows = []
    for number in range(mounts):
        rows += [{"mount": number, **row} for row in running_once(volume, number, rounds, seconds)]
    return rows


def running_once(volume, number, rounds, seconds):
    target = volume.work / "running"
    places = {"plain": volume.work / "plain", "plain again": volume.work / "again", "running": target}
    for name in ("plain", "plain again"):
        places[name].mkdir()
        places[name].chmod(0o755)
        shutil.copy(volume.work / "noise" / "file", places[name] / "file")
        subprocess.run(["cp", "-a", volume.work / "pg" / "data", places[name] / "data"], check=True)
    cold()
    mounted = Mounted(volume, "both", target, rate=32 << 20, mode="fanotify")
    readers = {what: {name: Reader(place / "file", direct) for name, place in places.items()} for what, direct in (("fio cached", 0), ("fio direct", 1))}
    ports = {name: 5596 + index for index, name in enumerate(places)}
    # Who starts first takes turns, too.
    order = list(places)
    order = order[number % 3:] + order[: number % 3]
    servers = {name: serve(places[name] / "data", ports[name]) for name in order}

    def tps(name, select):
        command, options = postgres("pgbench", "-h", "/tmp", "-p", ports[name], "-U", "postgres", "-n", *(["-S"] if select else []), "-c", 2, "-T", 1, "postgres")
        ran = subprocess.run(command, capture_output=True, text=True, **options)
        assert ran.returncode == 0, ran.stderr
        return float(next(line for line in ran.stdout.splitlines() if line.startswith("tps")).split()[2])

    rows = []
    turns = random.Random(number)

    def measure(when):
        for what in ("SELECT", "all", *readers):
            if what in readers and when == "after":
                # What others threw out of the page cache is there again.
                for place in places.values():
                    subprocess.run(["cat", str(place / "file")], check=True, stdout=subprocess.DEVNULL)
            of = {name: [] for name in places}
            # The machine changes from second to second, so turns are short and their order is drawn.
            for _ in range(seconds):
                for name in turns.sample(order, len(order)):
                    of[name].append(readers[what][name].rate(1) if what in readers else tps(name, what == "SELECT"))
            rows.append({"when": when, "what": what, **{name: statistics.mean(rates) for name, rates in of.items()}, "psi": pressure()})
            print(json.dumps(rows[-1]), flush=True)

    measure("while it fills")
    assert mounted.process.wait() == 0
    rows.append({"when": "whole", "s": time.monotonic() - mounted.since})
    assert not os.path.ismount(target)
    for _ in range(rounds):
        measure("after")
    for reader in (reader for of in readers.values() for reader in of.values()):
        reader.end()
    for server in servers.values():
        assert server.poll() is None, "it was never restarted"
        server.terminate()
        server.wait()
    for place in places.values():
        shutil.rmtree(place)
    shutil.rmtree(mounted.state, ignore_errors=True)
    return rows


def spread(values):
    return f"{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})"


def interval(logs):
    """The 95 % interval of what a ratio is over such mounts, from the logarithm of each mount's: Student's t."""
    t = {2: 12.71, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365}.get(len(logs))
    if t is None:
        return ""
    mean, half = statistics.mean(logs), t * statistics.stdev(logs) / math.sqrt(len(logs))
    return f"; mean {math.exp(mean):.3f} ({math.exp(mean - half):.3f}-{math.exp(mean + half):.3f})"


def table(record):
    if rows := record.get("fill"):
        rate = lambda key: statistics.median(record["bytes"] / row[key] / 1e6 for row in rows)
        for what, key in (("fill", ""), ("fill over a link of 100 MB/s", "slow_link_")):
            mount, restore = f"{key}mount_s", f"{key}restore_s"
            if mount in rows[0]:
                print(f"{what}: mount {rate(mount):.0f} MB/s, restore {rate(restore):.0f} MB/s, ratio {spread([row[restore] / row[mount] for row in rows])}")
                if (mounted := f"{key}mounted_s") in rows[0]:
                    print(f"  from when it is mounted on: {spread([record['bytes'] / (row[mount] - row[mounted]) / 1e6 for row in rows])} MB/s")
    for way in dict.fromkeys(row["way"] for row in record.get("demand", [])):
        all_ = sorted(ms for row in record["demand"] if row["way"] == way for ms in row["ms"])
        at = lambda share: all_[min(len(all_) - 1, int(share * len(all_)))]
        print(f"demand, {way}: {len(all_)} reads that waited, median {at(0.5):.0f} ms, 90 % {at(0.9):.0f}, 99 % {at(0.99):.0f}, most {all_[-1]:.0f}")
    if found := record.get("hot"):
        rows = found["rows"]
        plain = {row["round"]: statistics.median(row["tps"][-10:]) for row in rows if row["way"] == "plain"}
        for way in dict.fromkeys(row["way"] for row in rows):
            of = [row for row in rows if row["way"] == way]
            half, near = ([reached(row, plain[row["round"]], share) for row in of] for share in (0.5, 0.9))
            first = [statistics.mean(row["tps"][:4]) / plain[row["round"]] for row in of]
            misses = [row["demand_misses"] for row in of] if way != "plain" else [0]
            print(f"hot, {way}: half of plain speed after {spread(half)} s, nine tenths after {spread(near)} s, accepting after {spread([row['accepting_s'] for row in of])} s, first four seconds over plain {spread(first)}, misses {statistics.median(misses)} ({min(misses)}-{max(misses)})")
    for when in ("while it fills", "after"):
        for what in ("SELECT", "all", "fio cached", "fio direct"):
            if rows := [row for row in record.get("running", []) if row["when"] == when and row["what"] == what]:
                for name in [name for name in ("running", "plain again") if name in rows[0]]:
                    print(f"running, {what}, {when}: plain {statistics.median(row['plain'] for row in rows):.0f}/s, {name} over plain {spread([row[name] / row['plain'] for row in rows])}")
                    by_mount = [statistics.mean(math.log(row[name] / row["plain"]) for row in rows if row.get("mount") == mount) for mount in dict.fromkeys(row.get("mount") for row in rows)]
                    print(f"  by mount: {', '.join(f'{math.exp(ratio):.3f}' for ratio in by_mount)}{interval(by_mount)}")
    for what in dict.fromkeys(row["what"] for row in record.get("after", [])):
        rows = [row for row in record["after"] if row["what"] == what]
        for index, label in enumerate(("SELECT", "all")) if what == "pgbench" else [(None, "")]:
            of = lambda row, name: row[name] if index is None else row[name][index]
            for name in [name for name in ("mounted", "unmounted", "plain again") if name in rows[0]]:
                print(f"after, {what} {label}: plain {statistics.median(of(row, 'plain') for row in rows):.0f}/s, {name} over plain {spread([of(row, name) / of(row, 'plain') for row in rows])}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name in ("out", "work", "frostline", "table"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--bytes", type=int, default=1 << 30)
    for name, default in (("rounds", 3), ("after-rounds", 6), ("reads", 300), ("scale", 20), ("seconds", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--parts", default="fill,demand,hot,running,after")
    given = parser.parse_args()
    if given.table:
        return table(json.loads(Path(given.table).read_text()))
    volume = Volume(given)
    shutil.rmtree(volume.work, ignore_errors=True)
    volume.work.mkdir(parents=True)
    volume.work.chmod(0o755)
    (volume.work / "noise").mkdir()
    with open(volume.work / "noise" / "file", "wb") as file:
        for _ in range(given.bytes >> 20):
            file.write(os.urandom(1 << 20))
    volume.snapshot(volume.work / "noise", "noise")
    names = given.parts.split(",")
    if {"running", "after"} & set(names):
        (volume.work / "pg").mkdir()
        shutil.chown(volume.work / "pg", "postgres", "postgres")
        run("initdb", "-D", volume.work / "pg" / "data", "-U", "postgres", "-A", "trust", "-N")
        server = Server(volume.work / "pg" / "data", time.monotonic())
        run("pgbench", "-i", "-q", "-s", given.scale, "-h", "/tmp", "-p", 5599, "-U", "postgres", "postgres")
        server.stop()
        both = volume.work / "both"
        both.mkdir()
        both.chmod(0o755)
        os.link(volume.work / "noise" / "file", both / "file")
        subprocess.run(["cp", "-al", volume.work / "pg" / "data", both / "data"], check=True)
        volume.snapshot(both, "both")
        shutil.rmtree(both)
    record = {"date": time.strftime("%Y-%m-%d"), "kernel": os.uname().release, "bytes": given.bytes, "scale": given.scale}
    parts = {
        "fill": lambda: fill(volume, given.rounds),
        "demand": lambda: demand(volume, given.bytes, given.rounds, given.reads),
        "hot": lambda: hot(volume, given.scale, given.rounds, given.seconds),
        "running": lambda: running(volume, given.rounds, given.after_rounds, given.seconds),
        "after": lambda: after(volume, given.after_rounds, given.seconds, given.bytes),
    }
    for name in names:
        record[name] = parts[name]()
        Path(given.out).write_text(json.dumps(record, indent=1) + "\n")
    table(record)


main()
