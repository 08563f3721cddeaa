"""Where a document cannot be read, everything else is answered, and what is missing is named."""

import json
import subprocess

import pytest
from pyarrow import parquet

from frostline import PARTIAL

PART = 6_000


@pytest.fixture
def damaged(frostline):
    """Three splits; a page of `_source` of the first one is damaged."""
    for part in range(3):
        rows = range(part * PART, (part + 1) * PART)
        frostline.ingest("logs", [{"@timestamp": 1_700_000_000_000 + n * 1000, "n": n, "t": f"word {n * 7919}"} for n in rows])
        if part == 0:
            (split,) = (frostline.repo / "logs").glob("*/*.parquet")
    columns = parquet.ParquetFile(split).metadata.row_group(0)
    documents = next(c for c in map(columns.column, range(columns.num_columns)) if c.path_in_schema == "_source")
    content = bytearray(split.read_bytes())
    content[documents.data_page_offset + documents.total_compressed_size // 2] ^= 4
    split.write_bytes(content)
    return frostline, split


def test_an_export_goes_on_after_a_page_that_cannot_be_read(damaged):
    frostline, split = damaged
    command = [word for word in frostline.command("search", "--index", "logs", "--all") if word != "--json"]
    export = subprocess.run(command, capture_output=True, text=True, env=frostline.clean_environment())
    assert export.returncode == PARTIAL, export.stderr
    found = [json.loads(line)["n"] for line in export.stdout.splitlines()]
    assert found == sorted(set(found))
    assert set(range(PART, 3 * PART)) <= set(found)
    assert len(found) < 3 * PART
    assert split.name in export.stderr
    assert f"{len(found)} documents in" in export.stderr.replace(",", "")


def test_top_hits_leave_out_a_document_that_cannot_be_read(damaged):
    frostline, split = damaged
    aggs = {"all": {"top_hits": {"size": 1, "sort": [{"n": "asc"}]}}, "most": {"max": {"field": "n"}}}
    outcome = frostline.run("search", "--index", "logs", "--body", json.dumps({"size": 0, "aggs": aggs}))
    assert outcome.status == PARTIAL, outcome
    answer = outcome.json
    assert answer["aggregations"]["all"]["hits"]["hits"] == []
    assert answer["aggregations"]["most"]["value"] == 3 * PART - 1
    (failure,) = answer["_shards"]["failures"]
    assert failure["object"].endswith(split.name)
