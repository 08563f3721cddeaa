"""Checkpoints of our own: whatever they replace, other tools and Frostline read the same table."""

import json

import polars
import pyarrow.compute
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

INTERVAL = 32
ADDED = ["path", "size_bytes", "num_records", "null_count._timestamp", "min._timestamp", "max._timestamp"]


class Table:
    """An index that grows by a document a commit."""

    def __init__(self, frostline):
        self.frostline, self.documents = frostline, 0
        self.path = frostline.repo / "logs"

    def grow(self):
        """Commits until the next checkpoint, then deletes everything that it stands for."""
        checkpoints = len(self.checkpoints())
        while len(self.checkpoints()) == checkpoints:
            assert self.documents < 4 * INTERVAL, "no checkpoint was written"
            self.documents += 1
            time = f"2026-01-01T00:{self.documents // 60:02}:{self.documents % 60:02}Z"
            self.frostline.ingest("logs", [{"@timestamp": time, "n": self.documents}])
        for commit in (self.path / "_delta_log").glob("*.json"):
            if int(commit.stem) <= int(self.checkpoints()[-1].name[:20]):
                commit.unlink()
        for checkpoint in self.checkpoints()[:-1]:
            checkpoint.write_bytes(b"not to be read")

    def checkpoints(self):
        return sorted((self.path / "_delta_log").glob("*.checkpoint.parquet"))

    def open(self):
        return DeltaTable(str(self.path))

    def added(self):
        """What the log says of each file."""
        actions = polars.DataFrame(self.open().get_add_actions(flatten=True))
        return {row["path"]: row for row in actions.select(ADDED).rows(named=True)}


@pytest.fixture
def table(frostline):
    return Table(frostline)


def test_a_checkpoint_alone_is_the_table(table):
    for _ in range(2):
        table.grow()
        wanted = list(range(1, table.documents + 1))
        theirs = table.open()
        assert theirs.version() == table.frostline.ok("index", "show", "logs")["summary"]["version"]
        assert sorted(theirs.to_pyarrow_table(columns=["n__long"])["n__long"].to_pylist()) == wanted
        assert sorted(polars.scan_delta(str(table.path)).select("n__long").collect()["n__long"].to_list()) == wanted
        assert table.frostline.sql('SELECT count(*), sum(n) FROM logs') == [[len(wanted), sum(wanted)]]
        hint = json.loads((table.path / "_delta_log" / "_last_checkpoint").read_text())
        assert hint["numOfAddFiles"] == len(theirs.file_uris()) <= hint["size"]
        assert hint["sizeInBytes"] == table.checkpoints()[-1].stat().st_size
        # Files are skipped by the statistics in the checkpoint.
        first = pyarrow.compute.field("_timestamp") <= pyarrow.scalar(1_767_225_601_000_000, pyarrow.timestamp("us", "UTC"))
        assert len(list(theirs.to_pyarrow_dataset().get_fragments(filter=first))) == 1
        assert all(row["num_records"] == 1 and row["min._timestamp"] == row["max._timestamp"] for row in table.added().values())


def test_files_of_another_tool_survive_two_checkpoints(table):
    table.frostline.ingest("logs", [{"@timestamp": "2026-01-01T00:00:00Z", "n": 0}], "--no-needle")
    rows = table.open().to_pyarrow_table()
    write_deltalake(str(table.path), rows, mode="append")
    before = table.added()
    theirs = next(path for path in before if path.startswith("part-"))
    assert before[theirs]["num_records"] == 1 and before[theirs]["min._timestamp"] is not None
    for _ in range(2):
        table.grow()
        assert table.added()[theirs] == before[theirs]
        assert table.open().to_pyarrow_table().num_rows == table.documents + 2


def test_a_tool_that_would_lose_the_segments_does_not_write(table):
    table.frostline.ingest("logs", [{"@timestamp": "2026-01-01T00:00:00Z", "n": 0}])
    rows = table.open().to_pyarrow_table()
    with pytest.raises(DeltaError, match="DomainMetadata"):
        write_deltalake(str(table.path), rows, mode="append")
    assert table.frostline.sql("SELECT count(*) FROM logs") == [[1]]


def test_a_checkpoint_of_another_tool_is_continued(table):
    table.grow()
    table.frostline.ingest("logs", [{"@timestamp": "2026-02-01T00:00:00Z", "n": 0}])
    before = table.added()
    table.open().create_checkpoint()
    table.grow()
    after = table.added()
    assert {path: after[path] for path in before} == before
    assert table.frostline.sql("SELECT count(*) FROM logs") == [[table.open().to_pyarrow_table().num_rows]]
