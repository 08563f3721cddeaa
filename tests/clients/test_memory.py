"""A query keeps to its memory: the answer is exact, or the refusal says what to allow.

FROSTLINE_TEST_SPLIT_ROWS is the number of documents for each of 64 splits, 6,000 without it. With 100,000 the memory
is 256 MiB, and 450 MB are the most that the process may take.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from frostline import DONE, FAILED, Frostline
from server import Server

SPLITS = 64
ROWS = int(os.environ.get("FROSTLINE_TEST_SPLIT_ROWS", "6000"))
MEMORY, PEAK_MAX = ("64MiB", 240e6) if ROWS < 20_000 else ("256MiB", 450e6)
LINE = '{{"@timestamp":"2024-05-01T{0:02}:{1:02}:{2:02}.{3:03}Z","unique":"{4:016x}","term":"term {5:06}"}}\n'
DOCUMENTS = SPLITS * ROWS
TERMS = DOCUMENTS // 8


@pytest.fixture(scope="module")
def wide(binary, tmp_path_factory):
    """Splits in which every document has a value of its own."""
    folder = tmp_path_factory.mktemp("memory")
    path = folder / "wide.ndjson"
    with path.open("w") as out:
        for n in range(DOCUMENTS):
            second, third = n // 1000 % 60, n // 60_000
            out.write(LINE.format(third // 60 % 24, third % 60, second, n % 1000, unique(n), n * 7919 % TERMS))
    frostline = Frostline(binary, folder / "repo", folder / "data")
    split_bytes = max(path.stat().st_size // SPLITS, 65_536)
    frostline.ok("ingest", "--index", "wide", "--format", "ndjson", "--threads", "1", "--split-bytes", split_bytes, path)
    # Small ones hold a batch of the reader at least.
    assert frostline.ok("index", "show", "wide")["summary"]["splits"] >= SPLITS // 2
    return frostline


def unique(n):
    return n * 0x9E3779B97F4A7C15 % 2**64


# The peak that the kernel reports of a process begins with that of the process which started it: a small one does.
START = "import resource, subprocess, sys; code = subprocess.call(sys.argv[2:]); " \
    "open(sys.argv[1], 'w').write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)); sys.exit(code)"


def peak(frostline, path, *arguments):
    """Exit status, what was said, and the most memory that the process took; its output goes to `path`."""
    used = path.with_suffix(".kb")
    command = [sys.executable, "-c", START, used, *frostline.command(*arguments)]
    with path.open("wb") as out, path.with_suffix(".err").open("wb") as err:
        status = subprocess.call(command, env=frostline.clean_environment(), stdout=out, stderr=err)
    return status, path.with_suffix(".err").read_text(), int(used.read_text()) * 1024


def terms(field, **more):
    return ["search", "--index", "wide", "--no-result-cache", "--body", json.dumps({"size": 0, "aggs": {"a": {"terms": {"field": field, "size": 10}, **more}}})]


def first_terms(answer):
    buckets = answer["aggregations"]["a"]["buckets"]
    assert len(buckets) == 10 and {bucket["doc_count"] for bucket in buckets} == {DOCUMENTS // TERMS}


def all_unique(answer):
    assert len(answer["rows"]) == DOCUMENTS == len({row[0] for row in answer["rows"]})


def counted(answer):
    assert answer["rows"] == [[f"term {n:06}", DOCUMENTS // TERMS] for n in range(10)]


def in_order(answer):
    assert [row[0] for row in answer["rows"]] == sorted(f"{unique(n):016x}" for n in range(DOCUMENTS))


def best_hits(answer):
    found = [hit["_source"]["unique"] for hit in answer["hits"]["hits"]]
    assert found == sorted(f"{unique(n):016x}" for n in range(DOCUMENTS))[:10_000]


def about_all(answer):
    assert abs(answer["aggregations"]["a"]["value"] / DOCUMENTS - 1) < 0.05


QUESTIONS = {
    "terms": (terms("unique.keyword"), lambda answer: len(answer["aggregations"]["a"]["buckets"]) == 10),
    "fewer terms": (terms("term.keyword"), first_terms),
    "terms of terms": (terms("term.keyword", aggs={"b": {"terms": {"field": "unique.keyword"}}}), first_terms),
    "cardinality": (["search", "--index", "wide", "--body", '{"size": 0, "aggs": {"a": {"cardinality": {"field": "unique.keyword"}}}}'], about_all),
    "group by": (["sql", 'SELECT "term", count(*) FROM wide GROUP BY "term" ORDER BY "term" LIMIT 10'], counted),
    "distinct": (["sql", 'SELECT DISTINCT "unique" FROM wide'], all_unique),
    "order by": (["sql", 'SELECT "unique" FROM wide ORDER BY "unique"'], in_order),
    "sort": (["search", "--index", "wide", "--body", '{"size": 10000, "sort": [{"unique.keyword": "asc"}]}'], best_hits),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_query_keeps_to_its_memory(name, wide, tmp_path):
    question, check = QUESTIONS[name]
    status, said, bytes_max = peak(wide, tmp_path / "out", "--memory", MEMORY, *question)
    print(f"{name}: {bytes_max / 1e6:.0f} MB, exit status {status} {said}")
    assert bytes_max <= PEAK_MAX, f"{bytes_max / 1e6:.0f} MB"
    if status == FAILED:
        assert "--query-memory" in said, said
        # It is answered where it may hold more.
        status, said, _ = peak(wide, tmp_path / "out", "--memory", "4GiB", *question)
    assert status == DONE, said
    check(json.loads((tmp_path / "out").read_text()))


def test_an_export_keeps_to_its_memory(wide, tmp_path):
    if ROWS > 6_000:
        pytest.skip("each page of an export looks at every document")
    command = [word for word in ("--memory", MEMORY, "search", "--index", "wide", "--all", "--since", "2024-05-01", "--until", "2024-05-01T00:01:00Z")]
    frostline = Frostline(wide.binary, wide.repo, wide.data)
    frostline.command = lambda *arguments: [word for word in Frostline.command(frostline, *arguments) if word != "--json"]
    status, said, bytes_max = peak(frostline, tmp_path / "out", *command)
    assert (status, bytes_max <= PEAK_MAX) == (DONE, True), (said, bytes_max)
    found = [json.loads(line)["unique"] for line in (tmp_path / "out").open()]
    assert found == [f"{unique(n):016x}" for n in range(60_000)]


def test_a_merge_keeps_to_its_memory(wide, tmp_path):
    """The program itself takes about 80 MB, and the allocator keeps up to 100 MB of 20 merges for threads that are busy."""
    copy = Frostline(wide.binary, tmp_path / "repo", tmp_path / "data")
    shutil.copytree(wide.repo, copy.repo)
    status, said, used = peak(copy, tmp_path / "merged", "index", "merge", "wide", "--memory", MEMORY)
    merged = json.loads((tmp_path / "merged").read_text())
    assert status == DONE and merged["merges"] > 1, (said, merged)
    # Those that are alone are rewritten by themselves.
    assert merged["splits_after"] < merged["splits_before"] * 2 / 3, merged
    assert used < parse(MEMORY) + 180e6, f"{used} bytes"


def parse(memory):
    return int(memory.removesuffix("MiB")) << 20


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
@pytest.mark.parametrize("told", [None, "7"])
def test_a_server_limits_what_its_allocator_keeps(told, wide):
    own = Frostline(wide.binary, wide.repo, wide.data, {"MALLOC_ARENA_MAX": told} if told else {})
    server = Server(own)
    process = Path(f"/proc/{server.process.pid}")
    variables = dict(pair.split("=", 1) for pair in (process / "environ").read_text().split("\0") if "=" in pair)
    own = {"MALLOC_ARENA_MAX": str(max(2, len(os.sched_getaffinity(0)))), "MALLOC_MMAP_THRESHOLD_": "524288"}
    expected = {"MALLOC_ARENA_MAX": told} if told else own
    assert {name: value for name, value in variables.items() if name.startswith("MALLOC_")} == expected
    arguments = (process / "cmdline").read_text().split("\0")
    assert (arguments[0], "serve" in arguments) == (str(wide.binary), True)
    assert server.stop() == DONE
