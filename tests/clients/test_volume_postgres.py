"""Snapshots of a running PostgreSQL: what is restored starts, and is of one moment."""

import os
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest

BIN = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), Path("/usr/bin"))
pytestmark = pytest.mark.skipif(not (BIN / "postgres").exists(), reason="PostgreSQL is missing: apt-get install postgresql")
SUMS = "SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(bbalance) FROM pgbench_branches), (SELECT sum(tbalance) FROM pgbench_tellers), (SELECT sum(delta) FROM pgbench_history)"


class Cluster:
    """A server on a directory of its own, which is reached through a socket only."""

    def __init__(self, data, sockets, port):
        self.data, self.sockets, self.port = data, sockets, port
        self.conninfo = f"host={sockets} port={port} user=postgres dbname=postgres"

    def run(self, program, *arguments, check=True):
        # The server does not run as root.
        ran = subprocess.run([BIN / program, *arguments], user="postgres", capture_output=True, text=True, cwd="/", env={"PATH": os.environ["PATH"]})
        assert ran.returncode == 0 or not check, ran.stdout + ran.stderr
        return ran.stdout.strip()

    def make(self, *options):
        self.run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-N", *options)
        return self

    def start(self):
        log = self.sockets / f"{self.port}.log"
        settings = f"-k {self.sockets} -p {self.port} -c listen_addresses= -c fsync=off"
        # What a server writes to its output would keep the pipe of the test open.
        self.run("pg_ctl", "-D", self.data, "-l", log, "-o", settings, "-w", "start")
        return self

    def stop(self):
        self.run("pg_ctl", "-D", self.data, "-m", "immediate", "stop", check=False)

    def sql(self, text):
        return self.run("psql", "-X", "-A", "-t", "-d", self.conninfo, "-c", text)


@pytest.fixture
def clusters(tmp_path):
    """Makes clusters, and ends them."""
    made, postgres = [], pwd.getpwnam("postgres")
    for folder in [tmp_path, *tmp_path.parents[:2]]:
        folder.chmod(folder.stat().st_mode | 0o055)
    sockets = tmp_path / "s"
    sockets.mkdir()
    os.chown(sockets, postgres.pw_uid, postgres.pw_gid)

    def make(name):
        (tmp_path / name).mkdir()
        os.chown(tmp_path / name, postgres.pw_uid, postgres.pw_gid)
        made.append(Cluster(tmp_path / name / "data", sockets, 5600 + len(made)))
        return made[-1]

    yield make
    for cluster in made:
        cluster.stop()


def restored(frostline, clusters, snapshot, name):
    cluster = clusters(name)
    frostline.ok("volume", "restore", snapshot, cluster.data)
    return cluster.start()


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
    space = tmp_path / "source" / "space"
    space.mkdir()
    shutil.chown(space, "postgres")
    source.sql(f"CREATE TABLESPACE elsewhere LOCATION '{space}'")
    take(source.data, source.conninfo, [f"elsewhere in {space}"])
    source.sql("DROP TABLESPACE elsewhere")
    source.sql("ALTER SYSTEM SET max_replication_slots = 0")
    source.stop()
    source.start()
    take(source.data, source.conninfo, ["max_replication_slots"])
    assert frostline.ok("volume", "list")["snapshots"] == []
