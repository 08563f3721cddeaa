"""Study S3: a PostgreSQL that is restored, on a volume that loads lazily, on one that was loaded first, and by volume mount.

python3 restore.py --out FILE.json --work DIR --frostline BINARY --volumes LAB [--scale 140] [--seconds 150] [--mounts 5]
python3 restore.py --table FILE.json

LAB is target/PROFILE/examples/volumes of frostline-lab, which emulates the volume: 28.4 MiB/s that all first touches of
512 KiB share, and 35 ms for each. BINARY is frostline or target/PROFILE/examples/volume of frostline-volume; its repository
is a directory with the timing of a cloud store (sim+, profile measured), and the mount fills at 28.4 MiB/s, too, unless it
says otherwise. Run it as root on a machine with Debian's PostgreSQL; caches are dropped before each restore.
"""
import argparse
import json
import os
import pwd
import random
import shutil
import socket
import statistics
import struct
import subprocess
import time
from pathlib import Path

from machine import cold, pressure

BIN = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), Path("/usr/bin"))
PORT = 5599
RATE = int(28.4 * 2**20)
ROWS = 100_000


def postgres(program, *arguments, **more):
    return [str(BIN / program), *map(str, arguments)], {"user": "postgres", "cwd": "/", **more}


def run(program, *arguments):
    command, options = postgres(program, *arguments)
    ran = subprocess.run(command, capture_output=True, text=True, **options)
    if ran.returncode:
        raise SystemExit(f"{command}: {ran.stdout}{ran.stderr}")
    return ran.stdout


class Connection:
    """As little of the protocol as a query needs, so that nothing else is measured."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(f"/tmp/.s.PGSQL.{PORT}")
        body = struct.pack("!I", 196608) + b"user\0postgres\0database\0postgres\0\0"
        self.socket.sendall(struct.pack("!I", len(body) + 4) + body)
        self.answer()

    def read(self, count):
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise ConnectionError("the server ended the connection")
            data += more
        return data

    def answer(self):
        rows = []
        while True:
            kind, length = self.read(1), struct.unpack("!I", self.read(4))[0]
            body = self.read(length - 4)
            if kind == b"E":
                raise ConnectionError(body)
            if kind == b"D":
                rows.append(body)
            if kind == b"Z":
                return rows

    def query(self, text):
        """Seconds, and how many rows."""
        start = time.monotonic()
        body = text.encode() + b"\0"
        self.socket.sendall(b"Q" + struct.pack("!I", len(body) + 4) + body)
        rows = self.answer()
        return time.monotonic() - start, len(rows)


class Server:
    """PostgreSQL on a directory, and how long it took from a moment to accept a connection."""

    def __init__(self, data, since):
        settings = ["listen_addresses=", "unix_socket_directories=/tmp", f"port={PORT}", "shared_buffers=256MB",
                    "max_wal_size=4GB", "recovery_init_sync_method=syncfs", "log_min_messages=fatal"]
        command, options = postgres("postgres", "-D", data, *[word for one in settings for word in ("-c", one)])
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
        while True:
            try:
                self.connection = Connection()
                break
            except (OSError, ConnectionError):
                if self.process.poll() is not None:
                    raise SystemExit(f"PostgreSQL does not start on {data}")
                time.sleep(0.005)
        self.connection.query("SELECT 1")
        self.accepting_s = time.monotonic() - since

    def point(self, aid):
        took, rows = self.connection.query(f"SELECT abalance FROM pgbench_accounts WHERE aid = {aid}")
        assert rows == 1
        return took

    def scan(self):
        return self.connection.query("SELECT count(*), sum(abalance) FROM pgbench_accounts")[0]

    def tps(self, seconds):
        """Transactions of each second, of pgbench's own mix."""
        command, options = postgres("pgbench", "-h", "/tmp", "-p", PORT, "-U", "postgres", "-n", "-c", 4, "-P", 1, "-T", seconds, "postgres")
        ran = subprocess.run(command, capture_output=True, text=True, **options)
        if ran.returncode:
            raise SystemExit(ran.stderr[-2000:])
        return [float(line.split()[3]) for line in ran.stderr.splitlines() if line.startswith("progress:")]

    def stop(self):
        self.connection.socket.close()
        self.process.terminate()
        self.process.wait()


class Lazy:
    """The emulated volume, with the file system's image below it, as made from a snapshot."""

    def __init__(self, given, first):
        folder = os.path.abspath("emulated")
        gib = (os.path.getsize("image") >> 30) + 1
        command = [given.volumes, "--gib", str(gib), "--lazy-mib-per-s", "28.4", "--first-touch-ms", "35", "--folder", folder,
                   "--", "sh", "-c", "echo $VOLUMES && read end"]
        self.daemon = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.device = self.daemon.stdout.readline().strip()
        backing = next(path for path in Path(folder).rglob("vol0.img"))
        subprocess.run(["dd", "if=image", f"of={backing}", "bs=1M", "conv=notrunc,sparse", "status=none"], check=True)
        subprocess.run(["blockdev", "--flushbufs", self.device], check=True)
        cold()
        self.since = time.monotonic()
        self.loaded_s = 0
        if first:
            # All that has data, as the vendor advises.
            subprocess.run(["fio", "--name=load", f"--filename={self.device}", "--rw=read", "--bs=1M", "--iodepth=32", "--ioengine=libaio",
                            "--direct=1", f"--size={os.path.getsize('image') >> 20}M"], check=True, stdout=subprocess.DEVNULL)
            self.loaded_s = time.monotonic() - self.since
        os.makedirs("mnt", exist_ok=True)
        subprocess.run(["mount", "-o", "noatime", self.device, "mnt"], check=True)
        self.mounted_s = time.monotonic() - self.since
        self.data = os.path.abspath("mnt/data")

    def end(self):
        subprocess.run(["umount", "mnt"], check=True)
        self.daemon.stdin.write("\n")
        self.daemon.stdin.flush()
        self.account = self.daemon.communicate()[0]


class Mounted:
    """A mount of the snapshot."""

    def __init__(self, given, rate, seed):
        self.binary = given.frostline
        for left in ("mounted", ".mounted.frostline-mount"):
            shutil.rmtree(left, ignore_errors=True)
        url = f"sim+file://{os.path.abspath('repo')}?profile=measured&seed={seed}"
        rate = ["--rate", str(rate)] if rate else []
        cold()
        self.since = time.monotonic()
        self.daemon = subprocess.Popen([given.frostline, "--repo", url, "volume", "mount", "pg", "mounted", *rate],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not os.path.ismount("mounted"):
            if self.daemon.poll() is not None:
                raise SystemExit("the snapshot is not mounted")
            time.sleep(0.002)
        self.mounted_s = time.monotonic() - self.since
        self.data, self.loaded_s = os.path.abspath("mounted"), 0

    def status(self):
        with open(".mounted.frostline-mount/status.json") as file:
            return json.load(file)

    def end(self):
        subprocess.run(["umount", "mounted"], check=True)
        self.daemon.wait()


def prepare(given):
    """A cluster with pgbench's tables, its image, and its snapshot."""
    if not os.path.exists("pg/data"):
        os.makedirs("pg")
        os.chown("pg", *pwd.getpwnam("postgres")[2:4])
        data = os.path.abspath("pg/data")
        run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-N")
        server = Server(data, time.monotonic())
        run("pgbench", "-i", "-q", "-s", given.scale, "-h", "/tmp", "-p", PORT, "-U", "postgres", "postgres")
        server.stop()
    if not os.path.exists("repo"):
        subprocess.run([given.frostline, "--repo", "repo", "volume", "snapshot", "pg/data", "--name", "pg"], check=True)
    if not os.path.exists("image"):
        bytes_of = sum(file.stat().st_size for file in Path("pg").rglob("*") if file.is_file())
        subprocess.run(["mke2fs", "-q", "-t", "ext4", "-E", "lazy_itable_init=1", "-d", "pg", "image", f"{(bytes_of >> 20) * 21 // 20 + 200}M"], check=True)
    return sum(file.stat().st_size for file in Path("pg/data").rglob("*") if file.is_file())


def first_use(restored, given, seed):
    """From nothing to the first rows."""
    server = Server(restored.data, restored.since)
    point = server.point(random.Random(seed).randrange(1, given.scale * ROWS))
    row = {"loaded_s": restored.loaded_s, "mounted_s": restored.mounted_s, "accepting_s": server.accepting_s, "first_point_ms": point * 1e3}
    return server, {key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out")
    parser.add_argument("--work")
    parser.add_argument("--frostline")
    parser.add_argument("--volumes")
    parser.add_argument("--scale", type=int, default=140)
    parser.add_argument("--seconds", type=int, default=150)
    parser.add_argument("--mounts", type=int, default=5)
    parser.add_argument("--table")
    given = parser.parse_args()
    if given.table:
        with open(given.table) as file:
            return table(json.load(file))
    out = os.path.abspath(given.out)
    given.frostline, given.volumes = os.path.abspath(given.frostline), os.path.abspath(given.volumes)
    os.makedirs(given.work, exist_ok=True)
    os.chdir(given.work)
    os.environ["FROSTLINE_DATA"] = os.path.abspath("node")
    ways = {
        "lazy": lambda seed: Lazy(given, False),
        "loaded first": lambda seed: Lazy(given, True),
        "mount": lambda seed: Mounted(given, RATE, seed),
        "mount, no rate": lambda seed: Mounted(given, None, seed),
    }
    record = {"date": time.strftime("%Y-%m-%d"), "scale": given.scale, "bytes": prepare(given),
              "postgresql": run("postgres", "--version").strip(), "kernel": os.uname().release, "first": [], "scan": [], "load": []}

    def keep(kind, row):
        record[kind].append({**row, "psi": pressure()})
        print(kind, json.dumps({key: value for key, value in row.items() if key != "tps"}), flush=True)
        with open(out, "w") as file:
            json.dump(record, file, indent=1)
            file.write("\n")

    # In turn, so that what else the machine does meets all ways.
    for seed in range(given.mounts):
        for way in ("lazy", "mount"):
            restored = ways[way](seed)
            server, row = first_use(restored, given, seed)
            server.stop()
            restored.end()
            keep("first", {"way": way, "seed": seed, **row})
    for way, make in ways.items():
        restored = make(100)
        server, row = first_use(restored, given, 100)
        scan_s = server.scan()
        again_s = server.scan()
        server.stop()
        restored.end()
        keep("scan", {"way": way, **row, "scan_s": round(scan_s, 2), "again_s": round(again_s, 2)})
    for way, make in ways.items():
        restored = make(200)
        server, row = first_use(restored, given, 200)
        tps = server.tps(given.seconds)
        row["tps"] = tps
        server.stop()
        if way.startswith("mount"):
            row["is_whole"] = restored.status()["is_whole"]
        if way.startswith("mount") and row["is_whole"]:
            restored.end()
            server = Server(restored.data, time.monotonic())
            row["after_tps"] = server.tps(20)
            server.stop()
        else:
            restored.end()
        keep("load", {"way": way, **row})
    table(record)


def table(record):
    median = statistics.median
    print("| | accepting connections after | first point query |")
    print("|---|---|---|")
    for way in ("lazy", "mount"):
        of = [row for row in record["first"] if row["way"] == way]
        accepting, first = [row["accepting_s"] for row in of], [row["first_point_ms"] for row in of]
        print(f"| {way} | {median(accepting):.2f} s ({min(accepting):.2f}-{max(accepting):.2f}) | {median(first):.0f} ms ({min(first):.0f}-{max(first):.0f}) |")
    print("\n| | full scan | again |\n|---|---|---|")
    for row in record["scan"]:
        print(f"| {row['way']} | {row['scan_s']:.1f} s | {row['again_s']:.1f} s |")
    print("\n| | from the start to load | TPS, 1st 10 s | 10-30 s | 30-60 s | 60-90 s | last 30 s | after restart |\n|---|---|---|---|---|---|---|---|")
    for row in record["load"]:
        tps = row["tps"]
        mean = lambda part: f"{statistics.fmean(part):.0f}" if part else ""
        cells = [mean(tps[a:b]) for a, b in ((0, 10), (10, 30), (30, 60), (60, 90))]
        print(f"| {row['way']} | {row['accepting_s']:.1f} s | " + " | ".join(cells) + f" | {mean(tps[-30:])} | {mean(row.get('after_tps', []))} |")


if __name__ == "__main__":
    main()
