"""Snapshots beside restic: the first, one after 1 % of the 8 KiB pages changed, a restore, and the first file of a mount.

python3 restic.py --out FILE.json --work DIR --frostline BINARY [--rounds 5] [--encrypt] [NAME=DIRECTORY ...]
python3 restic.py --table FILE.json

Both store into directories on the file system of DIR. They take turns, each beginning every other round, and caches are
dropped before each step, so run it as root. A step ends when the file system is synced. Without directories, one is made:
seven files like tables, of which half cannot be packed, and 1,500 small ones. Every restore is compared with its source.
BINARY is frostline or target/PROFILE/examples/volume, which takes the same arguments.
"""
import argparse
import filecmp
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import time

from machine import cold, pressure

PAGE = 8192
STEPS = ["first", "second", "restore", "mount"]


def make(folder):
    """Writes table-like files and small ones, the same ones each time but for what does not pack."""
    rng = random.Random(7)
    words = [b"%x" % rng.getrandbits(40) for _ in range(20000)]
    pool = [page(random.Random(seed), words) for seed in range(6000)]
    os.makedirs(folder + "/base/5")
    for number in range(7):
        with open(f"{folder}/base/5/{16384 + number}", "wb") as file:
            for _ in range(16384):
                one = bytearray(rng.choice(pool))
                one[0:16], one[4096:5596] = os.urandom(16), os.urandom(1500)
                file.write(one)
    for number in range(1500):
        os.makedirs(f"{folder}/small/{number % 50}", exist_ok=True)
        with open(f"{folder}/small/{number % 50}/{number}", "wb") as file:
            file.write(b" ".join(rng.choices(words, k=rng.randrange(20, 2000))))


def page(rng, words):
    out = bytearray()
    while len(out) < PAGE:
        row = (rng.getrandbits(40), *rng.choices(words, k=3), rng.getrandbits(30), rng.getrandbits(6))
        out += b"%d|%s %s %s|%010d.%02d\n" % row
    return bytes(out[:PAGE])


def change(folder, seed):
    """Changes 1 % of the pages of all files that have 100 or more."""
    rng, changed = random.Random(seed), 0
    for path in sorted(files_below(folder)):
        pages = os.path.getsize(path) // PAGE
        if pages < 100 or os.path.islink(path):
            continue
        with open(path, "r+b") as file:
            for number in sorted(rng.sample(range(pages), pages // 100)):
                file.seek(number * PAGE + 100)
                file.write(os.urandom(3000))
                changed += 1
    return changed


def files_below(folder):
    for at, _, names in os.walk(folder):
        for name in names:
            yield os.path.join(at, name)


def bytes_below(folder):
    return sum(os.lstat(path).st_size for path in files_below(folder))


def is_same(a, b):
    """Whether two directories have the same names and contents."""
    names = [sorted(os.path.relpath(path, folder) for path in files_below(folder)) for folder in (a, b)]
    links = (name for name in names[0] if os.path.islink(f"{a}/{name}"))
    if names[0] != names[1] or any(os.readlink(f"{a}/{name}") != os.readlink(f"{b}/{name}") for name in links):
        return False
    files = [name for name in names[0] if not os.path.islink(f"{a}/{name}")]
    return not any(filecmp.cmpfiles(a, b, files, shallow=False)[1:])


def measure(command):
    """Elapsed and processor seconds of a command, until what it wrote is on the disk."""
    cold()
    psi, before, start = pressure(), resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    os.sync()
    elapsed = time.monotonic() - start
    if ran.returncode:
        raise SystemExit(f"{command}: {ran.stdout.decode()[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"s": round(elapsed, 3), "cpu_s": round(cpu, 3), "psi": psi}


def first_read(command, path, mounted):
    """Seconds from a mount command until 8 KiB in the middle of a file were read through it."""
    cold()
    psi, start = pressure(), time.monotonic()
    daemon = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                # Before the mount there may be a directory that nobody may look into, but root.
                with open(path, "rb") as file:
                    file.seek(os.fstat(file.fileno()).st_size // 2)
                    data = file.read(PAGE)
                if data:
                    return {"s": round(time.monotonic() - start, 3), "psi": psi}
            except OSError:
                pass
            if daemon.poll() is not None or time.monotonic() - start > 120:
                raise SystemExit(f"{command} does not mount")
            time.sleep(0.002)
    finally:
        subprocess.run(["umount", mounted], check=False)
        if daemon.poll() is None:
            daemon.terminate()
        daemon.wait()


class Frostline:
    def __init__(self, binary, encrypt):
        self.name, self.to, self.binary, self.encrypt = "frostline", "ours", binary, encrypt

    def command(self, *rest):
        key = ["--key-file", "key"] if self.encrypt else []
        return [self.binary, "--repo", self.to, "volume", *rest, *key]

    def init(self):
        os.makedirs(self.to)
        with open("key", "w") as file:
            file.write(f"frostline-volume-key-1:{os.urandom(32).hex()}\n")

    def snapshot(self):
        return measure(self.command("snapshot", "work", "--name", "d"))

    def restore(self):
        shutil.rmtree("out", ignore_errors=True)
        return measure(self.command("restore", "d", "out")), "out"

    def mount(self, file):
        for left in ("mnt", ".mnt.frostline-mount"):
            shutil.rmtree(left, ignore_errors=True)
        return first_read(self.command("mount", "d", "mnt"), f"mnt/{file}", "mnt")


class Restic:
    def __init__(self):
        self.name, self.to = "restic", "theirs"

    def command(self, *rest):
        return ["restic", "-q", "-r", self.to, *rest]

    def init(self):
        subprocess.run(self.command("init"), check=True, stdout=subprocess.DEVNULL)

    def snapshot(self):
        return measure(self.command("backup", "work"))

    def restore(self):
        shutil.rmtree("out", ignore_errors=True)
        return measure(self.command("restore", "latest", "--target", "out")), "out/work"

    def mount(self, file):
        os.makedirs("mnt-restic", exist_ok=True)
        return first_read(
            self.command("mount", "mnt-restic"), f"mnt-restic/snapshots/latest/work/{file}", "mnt-restic"
        )


def run(corpus, source, engines, rounds, rows):
    for number in range(rounds):
        for left in ("ours", "theirs", "work"):
            shutil.rmtree(left, ignore_errors=True)
        subprocess.run(["cp", "-a", "--reflink=auto", source, "work"], check=True)
        turn = engines if number % 2 == 0 else engines[::-1]
        for engine in engines:
            engine.init()
        add = lambda engine, step, **more: rows.append(
            {"corpus": corpus, "round": number, "engine": engine.name, "step": step, **more}
        )
        data = {"files": sum(1 for _ in files_below("work")), "bytes": bytes_below("work")}
        for step in ("first", "second"):
            if step == "second":
                data["pages"] = change("work", number)
            before = {engine: bytes_below(engine.to) for engine in engines}
            for engine in turn:
                took = engine.snapshot()
                add(engine, step, **data, stored=bytes_below(engine.to) - before[engine], **took)
        for engine in turn:
            took, out = engine.restore()
            if not is_same("work", out):
                raise SystemExit(f"{engine.name} restored something else")
            add(engine, "restore", **took)
        shutil.rmtree("out")
        largest = max(files_below("work"), key=os.path.getsize)
        for engine in turn:
            add(engine, "mount", **engine.mount(os.path.relpath(largest, "work")))


def table(rows):
    print("| corpus | step | frostline | restic | ratio (each round) | processor | stored bytes, frostline | restic | ratio |")
    print("|---|---|---|---|---|---|---|---|---|")
    for corpus in dict.fromkeys(row["corpus"] for row in rows):
        for step in STEPS:
            of = lambda engine, what: [
                r.get(what)
                for r in rows
                if (r["corpus"], r["step"], r["engine"]) == (corpus, step, engine)
            ]
            ours, theirs = of("frostline", "s"), of("restic", "s")
            ratios = sorted(a / b for a, b in zip(ours, theirs))
            cells = [corpus, step, f"{statistics.median(ours):.2f} s", f"{statistics.median(theirs):.2f} s"]
            cells.append(f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})")
            cpu = [of(engine, "cpu_s") for engine in ("frostline", "restic")]
            cells.append("" if None in cpu[0] else " : ".join(f"{statistics.median(c):.1f} s" for c in cpu))
            stored = [of(engine, "stored") for engine in ("frostline", "restic")]
            if None in stored[0]:
                cells += ["", "", ""]
            else:
                a, b = (statistics.median(s) for s in stored)
                cells += [f"{a / 1e6:.1f} MB", f"{b / 1e6:.1f} MB", f"{a / b:.3f}"]
            print("| " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out")
    parser.add_argument("--work")
    parser.add_argument("--frostline")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--encrypt", action="store_true")
    parser.add_argument("--table")
    parser.add_argument("corpora", nargs="*")
    given = parser.parse_args()
    if given.table:
        with open(given.table) as file:
            return table(json.load(file)["rows"])
    out, binary = os.path.abspath(given.out), os.path.abspath(given.frostline)
    corpora = [(name, os.path.abspath(path)) for name, path in (one.split("=", 1) for one in given.corpora)]
    os.makedirs(given.work, exist_ok=True)
    os.chdir(given.work)
    os.environ |= {"HOME": os.path.abspath("home"), "RESTIC_PASSWORD": "x", "FROSTLINE_DATA": os.path.abspath("data")}
    os.makedirs("home", exist_ok=True)
    if not corpora:
        corpora = [("pages", os.path.abspath("source"))]
        if not os.path.exists("source"):
            make("source")
    with open("/proc/cpuinfo") as file:
        models = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    record = {
        "date": time.strftime("%Y-%m-%d"),
        "restic": subprocess.run(["restic", "version"], capture_output=True, text=True).stdout.strip(),
        "machine": {"kernel": os.uname().release, "processors": len(models), "model": models[0]},
        "encrypt": given.encrypt,
        "rows": [],
    }
    for name, source in corpora:
        run(name, source, [Frostline(binary, given.encrypt), Restic()], given.rounds, record["rows"])
    with open(out, "w") as file:
        json.dump(record, file, indent=1)
        file.write("\n")
    table(record["rows"])


main()
