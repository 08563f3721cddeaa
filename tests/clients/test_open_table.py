"""Other tools open an index as what it is: a Delta table of Parquet files."""

import json
from collections import Counter
from pathlib import Path

import duckdb
import polars
import pyarrow.compute
import pyarrow.parquet
import pytest
from deltalake import DeltaTable

from oracle import canonical

FIELD = "response__long"
LENGTHS_FIRST = Path(__file__).resolve().parents[2] / "crates/frostline-split/tests/data/version-3-text-lengths.parquet"


@pytest.fixture(scope="module")
def table(weblogs):
    return DeltaTable(str(weblogs.frostline.repo / "weblogs"))


@pytest.fixture(scope="module")
def expected(weblogs):
    """What every reader must find: documents, times in microseconds and values of one field."""
    rows = weblogs.oracle.rows("SELECT source, us FROM docs")
    documents = [json.loads(source) for source, _ in rows]
    return Facts(
        Counter(canonical(document) for document in documents),
        Counter(us for _, us in rows),
        Counter(document.get("response") for document in documents),
    )


class Facts:
    """The rows of an index, as counts of each value."""

    def __init__(self, documents, times, responses):
        self.documents, self.times, self.responses = documents, times, responses

    def check(self, sources, times, responses):
        found = [source if isinstance(source, (bytes, str)) else bytes(source) for source in sources]
        assert Counter(canonical(json.loads(source)) for source in found) == self.documents
        assert Counter(microseconds(time) for time in times) == self.times
        assert Counter(responses) == self.responses


def microseconds(time):
    past = time.replace(tzinfo=None) - time.min.replace(year=1970)
    return (past.days * 86_400 + past.seconds) * 1_000_000 + past.microseconds


def test_deltalake_reads_rows_and_schema(table, expected):
    rows = table.to_pyarrow_table(columns=["_source", "_timestamp", FIELD])
    expected.check(rows["_source"].to_pylist(), rows["_timestamp"].to_pylist(), rows[FIELD].to_pylist())
    kinds = {field.name: str(field.type.type) for field in table.schema().fields if hasattr(field.type, "type")}
    assert (kinds["_timestamp"], kinds["_source"], kinds[FIELD]) == ("timestamp", "binary", "long")


def test_deltalake_skips_files_by_time(table):
    day = pyarrow.compute.field("_timestamp")
    instant = pyarrow.scalar(1_431_993_600_000_000, pyarrow.timestamp("us", "UTC"))
    dataset = table.to_pyarrow_dataset()
    early, all_files = list(dataset.get_fragments(filter=day < instant)), list(dataset.get_fragments())
    assert 0 < len(early) < len(all_files)
    assert dataset.count_rows(filter=day < instant) + dataset.count_rows(filter=day >= instant) == 10_000


def test_deltalake_lists_the_live_files_and_history(table, weblogs):
    shown = weblogs.frostline.ok("index", "show", "weblogs")["summary"]
    assert len(table.file_uris()) == shown["splits"] > 1
    assert table.version() == shown["version"]
    assert table.history()


def test_duckdb_reads_the_files(table, expected):
    query = f'SELECT _source, _timestamp AT TIME ZONE \'UTC\', "{FIELD}" FROM read_parquet(?, union_by_name = true)'
    rows = duckdb.execute(query, [table.file_uris()]).fetchall()
    expected.check(*zip(*rows))


def test_a_parquet_reader_does_not_see_the_index(table):
    """The index lies between the row group and the Parquet footer."""
    for file in table.file_uris():
        groups, rows = duckdb.execute("SELECT num_row_groups, num_rows FROM parquet_file_metadata(?)", [file]).fetchone()
        assert groups == 1
        assert duckdb.execute("SELECT count(*) FROM read_parquet(?)", [file]).fetchone() == (rows,)


def test_texts_behind_their_lengths_are_read():
    columns = ["id__text", "id__text_list", "_source"]
    readers = {
        "pyarrow": pyarrow.parquet.read_table(LENGTHS_FIRST, columns=columns).to_pylist(),
        "duckdb": duckdb.connect().sql(f"SELECT {', '.join(columns)} FROM '{LENGTHS_FIRST}'").pl().to_dicts(),
        "polars": polars.read_parquet(LENGTHS_FIRST, columns=columns).to_dicts(),
    }
    for name, rows in readers.items():
        assert len(rows) == 800
        for row in rows:
            value = row["id__text_list"] or row["id__text"]
            assert value == json.loads(row["_source"])["id"], name


def test_duckdb_queries_the_table_through_arrow(table, weblogs):
    rows = table.to_pyarrow_table(columns=[FIELD, "bytes__long"])
    database = duckdb.connect()
    database.register("found", rows)
    ours = database.execute(f'SELECT "{FIELD}", count(*), sum(bytes__long) FROM found GROUP BY 1 ORDER BY 1').fetchall()
    theirs = weblogs.frostline.sql('SELECT "response", count(*), sum("bytes") FROM weblogs GROUP BY 1 ORDER BY 1')
    assert [list(row) for row in ours] == theirs


def test_polars_scans_the_table(table, expected):
    rows = polars.scan_delta(table.table_uri).select("_source", "_timestamp", FIELD).collect()
    expected.check(rows["_source"].to_list(), rows["_timestamp"].to_list(), rows[FIELD].to_list())


def test_polars_reads_one_file(table):
    rows = polars.concat([polars.read_parquet(file, columns=["_timestamp"]) for file in table.file_uris()])
    assert rows.height == 10_000
    assert all(polars.read_parquet(file)["_timestamp"].is_sorted() for file in table.file_uris())


@pytest.mark.parametrize("source", ["rendered", "stored"])
def test_documents_of_merged_splits_are_columns_for_others(frostline, weblogs, table, expected, source):
    """Merging leaves a split whose documents Frostline makes from its columns, unless the index stores them."""
    lines = weblogs.path.read_text().splitlines()
    for half in (lines[::2], lines[1::2]):
        frostline.ingest("merged", half, *(["--source", "stored"] if source == "stored" else []))
    assert frostline.ok("index", "merge", "merged", "--window", "30d")["merges"] == 1
    merged = DeltaTable(str(frostline.repo / "merged"))
    query = f'SELECT "{FIELD}", count(*), sum(bytes__long), max(_timestamp AT TIME ZONE \'UTC\') FROM read_parquet(?, union_by_name = true) GROUP BY 1 ORDER BY 1'
    assert duckdb.execute(query, [merged.file_uris()]).fetchall() == duckdb.execute(query, [table.file_uris()]).fetchall()
    rows = merged.to_pyarrow_table(columns=["_source", "_timestamp", FIELD])
    if source == "stored":
        expected.check(rows["_source"].to_pylist(), rows["_timestamp"].to_pylist(), rows[FIELD].to_pylist())
    else:
        assert rows["_source"].null_count == rows.num_rows == 10_000
        columns = duckdb.execute("SELECT count(_shape), count(_raw) FROM read_parquet(?)", [merged.file_uris()]).fetchone()
        assert columns == (10_000, 0)
        own = ["_shape", "_residual", "_raw", FIELD]
        [polars_rows] = [polars.read_parquet(file, columns=own) for file in merged.file_uris()]
        assert Counter(polars_rows[FIELD].to_list()) == expected.responses
        [arrow_rows] = [pyarrow.parquet.read_table(file, columns=own) for file in merged.file_uris()]
        assert arrow_rows["_shape"].null_count == 0
    hits = frostline.search("merged", {"size": 10_000})["hits"]["hits"]
    assert Counter(canonical(hit["_source"]) for hit in hits) == expected.documents
    assert frostline.ok("index", "verify", "merged")["faults"] == []


def test_hard_types_are_read_by_all(mixed):
    """Lists, several readings of one field, columns beyond ASCII names."""
    table = DeltaTable(str(mixed.frostline.repo / "mixed"))
    rows = table.to_pyarrow_table()
    assert rows.num_rows == polars.scan_delta(table.table_uri).collect().height == mixed.oracle.count("true")
    query = "SELECT count(status__long), count(status__double), count(status__text), sum(len(tags__text_list)) FROM read_parquet(?, union_by_name = true)"
    found = duckdb.execute(query, [table.file_uris()]).fetchone()
    sql = "SELECT count(*) FILTER (kind = 'long'), count(*) FILTER (kind = 'double'), count(*) FILTER (kind = 'text') FROM vals WHERE field = 'status'"
    tags = "SELECT sum(c) FROM (SELECT count(*) AS c FROM vals WHERE field = 'tags' GROUP BY doc HAVING c > 1)"
    assert found == (*mixed.oracle.rows(sql)[0], *mixed.oracle.rows(tags)[0])


def read_by_all(table, columns, of_duckdb):
    """Rows by reader. DuckDB and pyarrow read the files, which need not all have every column."""
    files = duckdb.connect().execute(f"SELECT {of_duckdb} FROM read_parquet(?, union_by_name = true)", [table.file_uris()])
    return {
        "deltalake": table.to_pyarrow_table(columns=columns).to_pylist(),
        "polars": polars.scan_delta(table.table_uri).select(columns).collect().to_dicts(),
        "duckdb": [dict(zip(columns, row, strict=True)) for row in files.fetchall()],
        "pyarrow": [row for file in table.file_uris() for row in pyarrow.parquet.read_table(file).to_pylist()],
    }


def test_identities_from_clients_are_columns(frostline, tmp_path):
    """One of two files has them, for some of its documents; merging keeps them."""
    bulk = tmp_path / "bulk.json"
    lines = [{"index": {"_id": "a/1"}}, {"n": 1}, {"create": {}}, {"n": 2}, {"create": {"_id": "é"}}, {"n": 3}]
    bulk.write_text("".join(json.dumps(line) + "\n" for line in lines))
    frostline.ok("ingest", "--index", "given", "--format", "bulk", bulk)
    frostline.ingest("given", [{"n": 4}])
    columns = ["_id", "_version", "n__long"]
    for merged in [False, True]:
        if merged:
            frostline.ok("index", "merge", "given")
        hits = frostline.search("given", {"query": {"ids": {"values": ["é", "a/1", "b"]}}, "sort": ["n"]})["hits"]["hits"]
        assert [(hit["_id"], hit["_source"]["n"]) for hit in hits] == [("a/1", 1), ("é", 3)]
        assert frostline.ok("index", "verify", "given")["faults"] == []
        table = DeltaTable(str(frostline.repo / "given"))
        readers = read_by_all(table, columns, "_id, _version, n__long")
        for name, rows in readers.items():
            found = sorted((row["n__long"], row.get("_id"), row.get("_version")) for row in rows)
            assert found == [(1, "a/1", 1), (2, None, None), (3, "é", 1), (4, None, None)], name


def test_nanoseconds_are_a_column_beside_the_time(frostline):
    """Two of three files have them; others read null."""
    seconds = ["2024-05-01T10:00:00.123456789Z", "2024-05-01T10:00:00.123456Z", "2024-05-01T10:00:01.000000001Z"]
    for times in [seconds[:2], ["2024-04-30T00:00:00.5Z"], seconds[2:]]:
        frostline.ingest("nanos", [{"@timestamp": time} for time in times])
    table = DeltaTable(str(frostline.repo / "nanos"))
    kinds = {field.name: str(field.type.type) for field in table.schema().fields if hasattr(field.type, "type")}
    assert kinds["_timestamp_ns"] == "short"
    expected = [("00.123456", 789), ("00.123456", 0), ("00.500000", None), ("01.000000", 1)]
    columns = ["_timestamp", "_timestamp_ns"]
    readers = read_by_all(table, columns, "_timestamp AT TIME ZONE 'UTC' AS _timestamp, _timestamp_ns")
    for name, rows in readers.items():
        found = [(f"{row['_timestamp']:%S.%f}", row.get("_timestamp_ns")) for row in rows]
        assert sorted(found, key=str) == sorted(expected, key=str), name


def test_nanoseconds_of_other_dates_are_columns_beside_theirs(frostline):
    """Some files have them, for single dates and lists; merging keeps them."""
    date = "2024-05-01T10:00:00.{:09}Z".format
    frostline.ingest("dates", [{"n": 1, "at": date(123_456_789), "ats": [date(1), date(2_000)]}, {"n": 2, "at": date(123_456_000)}])
    frostline.ingest("dates", [{"n": 3, "at": "2024-05-01T10:00:01.5Z", "ats": "2024-05-02"}])
    frostline.ingest("dates", [{"n": 4, "at": "2024-05-01T10:00:02Z"}])
    frostline.ingest("dates", [{"n": 5, "at": "2024-05-01T10:00:03Z"}])
    columns = ["n__long", "at__date_ns", "ats__date_list_ns"]
    for merged in [False, True]:
        if merged:
            frostline.ok("index", "merge", "dates")
            assert frostline.ok("index", "show", "dates")["summary"]["splits"] == 1
        for bound, expected in [({"gte": date(123_456_789)}, [1, 3, 4, 5]), ({"lt": date(123_456_789)}, [2]), ({"gt": date(123_456_789)}, [3, 4, 5])]:
            hits = frostline.search("dates", {"query": {"range": {"at": bound}}, "sort": ["n"]})["hits"]["hits"]
            assert [hit["_source"]["n"] for hit in hits] == expected, bound
        table = DeltaTable(str(frostline.repo / "dates"))
        kinds = {field.name: str(field.type.type) for field in table.schema().fields if hasattr(field.type, "type")}
        assert kinds["at__date_ns"] == "short"
        for name, rows in read_by_all(table, columns, ", ".join(columns)).items():
            found = {row["n__long"]: (row.get("at__date_ns"), row.get("ats__date_list_ns")) for row in rows}
            # A file of dates without nanoseconds has no column of them.
            whole = (0 if merged else None, None)
            assert found == {1: (789, [1, 0]), 2: (0, None), 3: whole, 4: whole, 5: whole}, name
