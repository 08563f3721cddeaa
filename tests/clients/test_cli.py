"""The command line: exit statuses, JSON, errors that help, bad input, kills and damaged files.

FROSTLINE_TEST_KILLS is how often ingest and vacuum are killed, 10 without it.
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from datetime import datetime, timezone

import pytest

from frostline import DONE, FAILED, MISUSED, PARTIAL, STOPPED, Frostline

KILLS = int(os.environ.get("FROSTLINE_TEST_KILLS", "10"))
# Long enough for several splits.
ROWS = [{"n": n, "@timestamp": f"2024-05-{1 + n // 200:02}T{n % 24:02}:00:00Z", "word": f"w{n % 7}", "text": f"line {n} of the log " + "x" * 600} for n in range(2_000)]


@pytest.fixture(scope="module")
def logs(binary, tmp_path_factory):
    """An index of 2,000 documents in several splits."""
    folder = tmp_path_factory.mktemp("cli")
    frostline = Frostline(binary, folder / "repo", folder / "data")
    frostline.ingest("logs", ROWS, "--split-bytes", "70KB")
    return frostline


# Commands that print one JSON document, with keys that it has.
PRINTED = [
    (["index", "list"], ["indices"]),
    (["index", "show", "logs"], ["summary", "mapping"]),
    (["index", "verify", "logs"], ["splits", "faults"]),
    (["mount", "logs", "--cache", "1MiB"], ["tier", "cache_bytes"]),
    (["cache", "stats"], ["mounts", "cache"]),
    (["search", "--index", "logs", "word:w1"], ["hits", "cost", "_shards", "took"]),
    (["explain", "--index", "logs", "word:w1"], ["splits_live"]),
    (["sql", 'SELECT "word", count(*) FROM logs GROUP BY "word"'], ["columns", "rows", "cost"]),
    (["vacuum", "logs", "--dry-run"], ["deleted"]),
    (["index", "retain", "logs", "90d"], ["index", "retention_ms"]),
    (["unmount", "logs"], ["unmounted"]),
    (["cache", "clear"], ["cleared"]),
    (["index", "merge", "logs"], ["splits_before", "splits_after"]),
    (["vacuum", "logs", "--retain-hours", "0"], ["deleted"]),
    (["index", "delete", "logs", "--yes"], ["deleted"]),
]


def test_every_command_prints_one_json_document(logs, tmp_path):
    copy = copy_of(logs, tmp_path / "repo")
    for command, keys in PRINTED:
        answer = copy.ok(*command)
        assert all(key in answer for key in keys), f"{command}: {answer}"


def at_a_terminal(frostline, *arguments, columns=80, shell=()):
    """What a person at a terminal sees, without --json."""
    with frostline.start_at_a_terminal(*arguments, columns=columns, shell=shell) as (process, terminal):
        shown = read_until(terminal, None)
        return process.wait(120), shown.decode()


def read_until(terminal, text):
    """What is shown until it has this pattern, or until the end."""
    shown = b""
    while text is None or not re.search(text, shown):
        try:
            more = terminal.read(65536)
        except OSError:  # EIO: the other end is closed
            break
        if not more:
            break
        shown += more
    return shown


def written(folder, rows):
    """A file of these documents."""
    file = folder / "rows.ndjson"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@contextmanager
def following(frostline, rows):
    """An ingest at a terminal that follows a file, and has taken some of it."""
    with frostline.start_at_a_terminal("ingest", "--index", "more", "--follow", "--seal-after", "1", rows) as (process, terminal):
        read_until(terminal, rb"[1-9]\d* documents")
        yield process, terminal


def test_a_terminal_sees_what_a_pipe_does(logs, tmp_path):
    rows = written(tmp_path, ROWS)
    copy = copy_of(logs, tmp_path / "repo")
    for command, first in [
        (["doctor", "explain", "N02"], "N02 "),
        (["index", "list"], "index "),
        (["search", "--index", "logs", "n:77"], '{"n":'),
        (["mount", "logs", "--cache", "1MiB"], "logs"),
    ]:
        status, shown = at_a_terminal(copy, *command)
        assert status == DONE, f"{command}: {shown}"
        assert shown.lstrip().startswith(first), f"{command}: {shown}"
    status, shown = at_a_terminal(copy, "ingest", "--index", "more", str(rows))
    assert status == DONE and " read, " in shown and "2000 documents into more" in shown, shown
    assert "\x1b[1A" not in shown, "the line of progress is wider than the terminal"
    status, shown = at_a_terminal(copy, "search", "--index", "no-such", "n:77")
    assert status == FAILED and shown.startswith("frostline: "), shown


def test_a_narrow_terminal_sees_one_line_of_progress(logs, tmp_path):
    rows = written(tmp_path, ROWS)
    for columns in [40, 60]:
        copy = copy_of(logs, tmp_path / f"repo{columns}")
        status, shown = at_a_terminal(copy, "ingest", "--index", "more", str(rows), columns=columns)
        assert status == DONE and "B read" in shown and "docu" in shown, shown
        for line in shown.replace("\x1b[2K", "").replace("\n", "\r").split("\r"):
            assert len(line) <= columns or "B read" not in line, f"{columns}: {line!r}"


def test_a_command_in_the_background_draws_nothing(logs, tmp_path):
    rows = written(tmp_path, ROWS)
    copy = copy_of(logs, tmp_path / "repo")
    shell = ["bash", "-c", 'set -m; "$@" & wait $!', "bash"]
    status, shown = at_a_terminal(copy, "ingest", "--index", "more", str(rows), shell=shell)
    assert status == DONE and "2000 documents into more" in shown, shown
    assert " read, " not in shown and "\x1b[2K" not in shown, shown


def test_a_message_takes_the_place_of_the_bar(logs, tmp_path):
    copy = copy_of(logs, tmp_path / "repo")
    with following(copy, written(tmp_path, ROWS[:400])) as (process, terminal):
        terminal.write(b"\x03")
        shown = read_until(terminal, None).decode()
        assert process.wait(120) == DONE, shown
    assert "\x1b[2Kstopping: " in shown, shown


def test_a_terminal_that_closes_ends_a_command_in_order(logs, tmp_path):
    copy = copy_of(logs, tmp_path / "repo")
    with following(copy, written(tmp_path, ROWS[:400])) as (process, terminal):
        terminal.close()
        # SIGHUP does not kill it. What it prints at the end has no reader.
        assert process.wait(120) == FAILED
    assert copy.ok("index", "show", "more")["summary"]["documents"] > 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")
def test_a_cache_on_a_full_disk_is_said_to_need_space(frostline, tmp_path):
    draw = random.Random(7)
    frostline.ingest("logs", [{"@timestamp": 1_700_000_000_000 + n, "text": draw.randbytes(900).hex()} for n in range(12_000)])
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", disk], check=True)
    try:
        small = Frostline(frostline.binary, frostline.repo, disk)
        command = [word for word in small.command("mount", "logs", "--hydrate", "now") if word != "--json"]
        done = subprocess.run(command, env=small.clean_environment(), capture_output=True, text=True)
        assert done.returncode == DONE, done.stderr
        assert "free space on the disk of the cache" in done.stdout, done.stdout
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_retention_is_set_shown_and_ended(frostline):
    frostline.ingest("logs", [{"n": 1}])
    retain = lambda *keep: frostline.ok("index", "retain", "logs", *keep)["retention_ms"]
    assert [retain(), retain("90d"), retain(), retain("forever"), retain()] == [None, 7_776_000_000, 7_776_000_000, None, None]
    for wrong in ["soon", "0d", "-1d", "90"]:
        frostline.fails("index", "retain", "logs", "--", wrong)
    assert retain() is None
    frostline.ingest("old", [{"@timestamp": "2015-05-17T10:05:03Z", "n": 1}])
    said = frostline.run("index", "retain", "old", "90d").stderr
    assert "for good: 1 document in 1 split" in said, said


def test_a_retention_is_set_of_all_or_of_none(frostline):
    for name in ["ra-1", "ra-2", "ra-3"]:
        frostline.ingest(name, [{"n": 1}])
    frostline.ok("snapshot", "create", "all")
    frostline.ok("index", "delete", "ra-2", "--yes")
    frostline.ok("snapshot", "mount", "all", "--index", "ra-2")
    frostline.fails("index", "retain", "ra-*", "91d", says=["ra-2 is mounted", "'ra-*,-ra-2'", "Nothing is changed"])
    kept = lambda expression, *keep: [one["retention_ms"] for one in frostline.ok("index", "retain", expression, *keep)["indices"]]
    assert kept("ra-*") == [None, None, None]
    assert kept("ra-*,-ra-2", "91d") == [7_862_400_000, 7_862_400_000]


def test_a_search_says_what_it_cost(logs):
    cost = logs.ok("search", "--index", "logs", "word:w1")["cost"]
    assert set(cost) == {"took_ms", "gets", "bytes", "bytes_used", "usd", "opening", "simulated", "splits"}
    assert set(cost["splits"]) == {"live", "pruned_time", "pruned_query", "pruned_needle", "answered_digest", "opened", "opened_empty"}
    assert cost["simulated"] is False


def test_options_of_search(logs):
    hits = logs.ok("search", "--index", "logs", "word:w1 OR word:w2", "--size", "3", "--from", "2", "--sort", "n:desc", "--source", "n,wo*")["hits"]
    wanted = [row for row in reversed(ROWS) if row["word"] in ("w1", "w2")][2:5]
    assert [hit["_source"] for hit in hits["hits"]] == [{"n": row["n"], "word": row["word"]} for row in wanted]
    newest = logs.ok("search", "--index", "logs", "--size", "1")["hits"]["hits"][0]["_source"]
    assert newest["@timestamp"] == max(row["@timestamp"] for row in ROWS)


# What is run, its exit status, and words that the error has.
ERRORS = [
    (["search", "--index", "nothing", "x"], FAILED, ["no index", "nothing"]),
    (["index", "show", "nothing"], FAILED, ["no index", "nothing"]),
    (["index", "show", "Not A Name"], FAILED, ["name"]),
    (["search", "--index", "logs", "word:(w1"], FAILED, ["( is not closed", "character 6", "^"]),
    (["search", "--index", "logs", "--body", '{"query": {"trem": {"word": "w1"}}}'], FAILED, ["[trem] is not a query", "query.trem"]),
    (["search", "--index", "logs", "--body", '{"query": {"match": {"word": {"query": "a", "boots": 1}}}}'], FAILED, ["unknown key [boots]", "query.match.word"]),
    (["search", "--index", "logs", "--body", '{"query": {"match_all": {}}'], FAILED, ["line 1", "column"]),
    (["search", "--index", "logs", "--body", '{"query": {"fuzzy": {}}}'], FAILED, ["[fuzzy] is not supported", "query.fuzzy"]),
    (["search", "--index", "logs", "--body", '{"aggs": {"a": {"medain": {"field": "n"}}}}'], FAILED, ["medain"]),
    (["search", "--index", "logs", "--body", '{"from": 9000, "size": 2000}'], FAILED, ["10000", "search_after"]),
    (["search", "--index", "logs", "--body", '{"query": {"range": {"@timestamp": {"gte": "yesterday"}}}}'], FAILED, ["yesterday", "query.range.@timestamp"]),
    (["search", "--index", "logs", "--body", '{"query": {"regexp": {"word": "a(b"}}}'], FAILED, ["regexp", "query.regexp.word"]),
    (["search", "--index", "logs", "--body", "@/no/such/file"], FAILED, ["/no/such/file"]),
    (["sql", 'SELECT "wrod" FROM logs'], FAILED, ["wrod"]),
    (["sql", "SELEC 1"], FAILED, ["SELEC", "line: 1, column: 1"]),
    (["sql", "SELECT 1 FROM nothing"], FAILED, ["no index", "nothing"]),
    (["sql", "DROP TABLE logs"], FAILED, ["SQL only reads"]),
    (["ingest", "--index", "logs", "/no/such/file"], FAILED, ["/no/such/file"]),
    (["ingest", "--index", "logs", "--format", "xml", "-"], FAILED, ["xml", "ndjson"]),
    (["mount", "logs", "--cache", "lots"], FAILED, ["lots"]),
    (["search"], MISUSED, ["--index"]),
    (["serach", "--index", "logs"], MISUSED, ["search"]),
    (["search", "--index", "logs", "x", "--body", "{}"], MISUSED, ["--body"]),
    (["vacuum"], MISUSED, ["NAME"]),
    (["serve", "--listen", "localhost:9290"], MISUSED, ["write an address and a port: 127.0.0.1:9200"]),
    (["serve", "--listen", "9200"], MISUSED, ["write an address and a port: 127.0.0.1:9200"]),
    (["pit", "open", "logs", "--keep-alive", "40d"], FAILED, ["at most 30d"]),
]


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: " ".join(case[0])[:70])
def test_an_error_says_what_and_where(case, logs):
    command, status, words = case
    logs.fails(*command, status=status, says=words)


def test_without_a_repository_the_error_says_how_to_name_one(logs):
    nowhere = Frostline(logs.binary, logs.repo, logs.data)
    nowhere.command = lambda *arguments: [str(nowhere.binary), "--json", *arguments]
    nowhere.fails("index", "list", says=["--repo", "FROSTLINE_REPO"])


def test_options_come_from_the_environment_and_a_file(logs, tmp_path):
    (tmp_path / "config.toml").write_text(f'repo = "{logs.repo}"\ndata = "{logs.data}"\njson = true\n')
    by_file = Frostline(logs.binary, "", "", {"FROSTLINE_CONFIG": str(tmp_path / "config.toml")})
    by_environment = Frostline(logs.binary, "", "", {"FROSTLINE_REPO": str(logs.repo), "FROSTLINE_DATA": str(logs.data), "FROSTLINE_JSON": "true"})
    for run in (by_file, by_environment):
        run.command = lambda *arguments, run=run: [str(run.binary), *arguments]
        run.data = tmp_path
        assert [index["index"] for index in run.ok("index", "list")["indices"]] == ["logs"]


def test_a_mapping_with_an_unknown_type_is_refused(frostline, tmp_path):
    (tmp_path / "mapping.json").write_text('{"properties": {"where": {"type": "geo_pint"}}}')
    frostline.fails("ingest", "--index", "x", "--mapping", tmp_path / "mapping.json", "-", stdin='{"a": 1}\n', says=["geo_pint", "where"])


def test_a_strict_mapping_refuses_by_name_and_the_rest_lands(frostline, tmp_path):
    mapping = {"dynamic": "strict", "properties": {"n": {"type": "long"}, "word": {"type": "keyword"}}}
    (tmp_path / "mapping.json").write_text(json.dumps(mapping))
    report = frostline.ingest("x", [{"n": 1}, {"n": "many"}, {"n": 2, "wrod": "a"}, {"n": "3", "word": "b"}], "--mapping", tmp_path / "mapping.json", "--rejects", tmp_path / "r")
    assert report["documents"] == 2
    assert sum(report["rejected"].values()) == 2
    reasons = " ".join(reject["reason"] for reject in rejects(tmp_path / "r"))
    assert '"n"' in reasons.replace("`", '"') or "n" in reasons
    assert "wrod" in reasons


def rejects(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def nested(depth):
    return '{"a":' * depth + "1" + "}" * depth


# A line that is refused, and words of the reason. Good lines stand around each.
REFUSED = {
    "no JSON": (b'{"n": 1,', ["JSON"]),
    "not an object": (b"[1, 2]", ["object"]),
    "text behind": (b'{"a": 1} {"b": 2}', []),
    "invalid UTF-8": (b'{"a": "\xff\xfe"}', ["UTF-8"]),
    "a NUL byte": (b'{"a": "x\x00y"}', ["NUL"]),
    "a key twice": (b'{"a": 1, "b": 2, "a": 3}', ["twice", "a"]),
    "10,000 fields": (json.dumps({f"f{n}": n for n in range(10_000)}).encode(), ["5,000", "field"]),
    "depth 1,000": (nested(1_000).encode(), ["64", "deep"]),
    "a number that is none": (b'{"a": 1.2.3}', []),
    "17 MiB": (b'{"a": "' + b"x" * (17 << 20) + b'"}', ["16"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_line_is_refused_with_the_reason_and_the_rest_lands(name, frostline, tmp_path):
    line, words = REFUSED[name]
    check_rejected(frostline, tmp_path, line, words)


def check_rejected(frostline, folder, line, words):
    (folder / "in.ndjson").write_bytes(b'{"n": 1}\n' + line + b'\n{"n": 2}\n')
    report = frostline.ok("ingest", "--index", "x", "--format", "ndjson", "--rejects", folder / "rejects", folder / "in.ndjson")
    assert (report["documents"], sum(report["rejected"].values())) == (2, 1)
    (reject,) = rejects(folder / "rejects")
    assert (reject["line"], reject["offset"]) == (2, 9)
    assert all(word.lower() in reject["reason"].lower().replace("5000", "5,000") for word in words), reject["reason"]
    assert "raw" in reject or "raw_base64" in reject
    assert sorted(frostline.sql('SELECT "n" FROM x')) == [[1], [2]]


def test_a_line_of_100_mb_is_never_held(frostline, tmp_path):
    line = b'{"a": "' + b"x" * 100_000_000 + b'"}'
    check_rejected(frostline, tmp_path, line, ["16"])
    (reject,) = rejects(tmp_path / "rejects")
    assert reject["cut"] is True and len(reject["raw"]) < 10_000


def test_dates_out_of_range_are_no_dates(frostline):
    """They are kept as text, and such a document has no time."""
    bad = ["2024-02-30T00:00:00Z", "2024-13-01", "99999-01-01T00:00:00Z", "not a date", "2024-01-01T25:00:00Z", ""]
    documents = [{"@timestamp": text, "n": n} for n, text in enumerate(bad)] + [{"@timestamp": "2024-02-29T00:00:00Z", "n": 99}]
    assert frostline.ingest("x", documents)["documents"] == len(documents)
    assert frostline.sql('SELECT "n" FROM x WHERE "@timestamp" IS NOT NULL') == [[99]]
    order = frostline.search("x", {"sort": [{"@timestamp": "asc"}], "size": 10})["hits"]["hits"]
    assert order[0]["_source"]["n"] == 99 and len(order) == len(documents)


def test_every_document_is_taken_and_conflicts_are_listed(frostline):
    documents = [{"a": 1}, {"a": "x"}, {"a": {"b": 2}}, {"a": [True, None, 2.5]}, {"A": "y"}, {"": 1}, {"x y\u0001": 1}, {}]
    assert frostline.ingest("x", documents)["documents"] == len(documents)
    shown = frostline.ok("index", "show", "x")
    assert [conflict.get("field", conflict.get("path")) for conflict in shown["conflicts"]] == ["a"]
    for query, hits in [("a:1", 1), ("a:x", 1), ("a.b:2", 1), ("a:true", 1), ("a:2.5", 1), ("A:y", 1), ("*", 8)]:
        assert frostline.ok("search", "--index", "x", query)["hits"]["total"]["value"] == hits, query


def test_the_same_file_is_taken_in_once(frostline, tmp_path):
    path = tmp_path / "in.ndjson"
    path.write_text("\n".join(map(json.dumps, ROWS[:500])) + "\n")
    ingest = ["ingest", "--index", "x", "--format", "ndjson", path]
    assert frostline.ok(*ingest)["documents"] == 500
    again = frostline.ok(*ingest)
    assert again["documents"] == 0 and len(again["already_ingested"]) == 1
    assert "already" in frostline.run(*ingest).stderr or again["already_ingested"]
    assert frostline.ok(*ingest, "--again")["documents"] == 500
    assert frostline.sql("SELECT count(*) FROM x") == [[1_000]]


def test_growing_and_rotated_files_are_followed(frostline, tmp_path):
    """The log grows, is renamed and begun anew; SIGTERM commits what was read, and the next run goes on from there."""
    log, rotated = tmp_path / "app.log", tmp_path / "app.log.1"
    log.write_text(lines(0, 100))
    follow = ["ingest", "--index", "x", "--follow", "--seal-after", "1", f"{tmp_path}/app.log*"]
    with frostline.start(*follow) as process:
        wait_for_rows(frostline, 100)
        log.rename(rotated)
        log.write_text(lines(100, 150))
        wait_for_rows(frostline, 150)
        process.terminate()
        assert process.wait(60) == DONE
    rotated.open("a").write(lines(150, 170))
    log.open("a").write(lines(170, 200))
    report = frostline.ok("ingest", "--index", "x", log, rotated)
    assert (report["documents"], len(report["resumed"])) == (50, 2)
    assert frostline.sql('SELECT count(*), count(DISTINCT "n") FROM x') == [[200, 200]]


def lines(start, end):
    return "".join(f'{{"n": {n}}}\n' for n in range(start, end))


def wait_for_rows(frostline, rows):
    deadline = time.monotonic() + 60
    while frostline.run("sql", "SELECT count(*) FROM x").stdout.find(f"[{rows}]") < 0:
        assert time.monotonic() < deadline, f"{rows} documents never came"


def test_a_field_that_no_document_has_is_the_reason_for_no_split(frostline):
    frostline.ingest("x", [{"response": 404}])
    command = [word for word in frostline.command("search", "--index", "x", "respnse:404") if word != "--json"]
    done = subprocess.run(command, env=frostline.clean_environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == DONE and "did you mean response?" in done.stderr, done
    assert "0 of 1 split searched, 1 ruled out by the query" in done.stderr, done.stderr


def test_a_pipe_that_is_stopped_is_committed(frostline):
    command = frostline.command("ingest", "--index", "x", "-")
    with subprocess.Popen(
        command, env=frostline.clean_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdin.write(lines(0, 500).encode())
        process.stdin.flush()
        # A second pipe-full is only taken when the first was read.
        process.stdin.write(b" " * (64 << 10))
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == STOPPED
        assert json.load(process.stdout)["documents"] == 500
    assert frostline.sql('SELECT count(DISTINCT "n") FROM x') == [[500]]


def test_a_file_of_which_every_line_is_refused_is_not_done(frostline, tmp_path):
    path = tmp_path / "in.ndjson"
    path.write_text(lines(0, 20))
    frostline.fails("ingest", "--index", "x", "--format", "combined", path, says=["nothing was ingested"])
    assert frostline.ok("ingest", "--index", "x", path)["documents"] == 20


@pytest.mark.parametrize("pack", ["gzip", "zstd", "xz", "bzip2"])
def test_packed_files_are_unpacked_by_content(pack, frostline, tmp_path):
    if not shutil.which(pack):
        pytest.skip(f"{pack} is not installed")
    path = tmp_path / "in.log"
    path.write_text("\n".join(map(json.dumps, ROWS[:300])) + "\n")
    os.system(f"{pack} -c {path} > {tmp_path / 'packed'}")
    assert frostline.ok("ingest", "--index", "x", tmp_path / "packed")["documents"] == 300
    # Under another name it is the same file.
    shutil.move(tmp_path / "packed", tmp_path / "moved")
    assert frostline.ok("ingest", "--index", "x", tmp_path / "moved")["documents"] == 0
    assert frostline.sql("SELECT count(*) FROM x") == [[300]]


def test_a_directory_that_is_missing_or_read_only(binary, tmp_path):
    missing = Frostline(binary, tmp_path / "missing", tmp_path / "data")
    missing.fails("index", "list", says=["missing"])
    missing.fails("search", "--index", "x", "a", says=["missing"])
    assert not (tmp_path / "missing").exists()


def test_a_repository_that_cannot_be_written(binary, tmp_path):
    """/proc is read-only for everybody, also for root."""
    Frostline(binary, "/proc/frostline", tmp_path).fails("ingest", "--index", "x", "-", stdin='{"a": 1}\n', says=["/proc/frostline"])
    (tmp_path / "file").write_text("")
    Frostline(binary, tmp_path / "file", tmp_path).fails("ingest", "--index", "x", "-", stdin='{"a": 1}\n', says=["directory"])


def test_delete_wants_a_yes(frostline):
    frostline.ingest("x", [{"a": 1}])
    frostline.fails("index", "delete", "x", says=["--yes"])
    frostline.ok("index", "delete", "x", "--yes")
    frostline.fails("index", "show", "x", says=["no index"])
    frostline.ingest("x", [{"a": 2}])
    assert frostline.sql('SELECT "a" FROM x') == [[2]]


def test_a_query_beyond_its_memory_or_buckets_fails_and_says_what_it_needed(frostline):
    frostline.ingest("x", [{"n": n, "id": f"{n * 7919:032x}"} for n in range(70_000)])
    body = {"size": 0, "aggs": {"a": {"terms": {"field": "id", "size": 70_000}}}}
    frostline.fails("search", "--index", "x", "--body", json.dumps(body), says=["buckets", "65536"])
    body["aggs"]["a"]["terms"]["size"] = 10
    frostline.fails("--memory", "1MiB", "search", "--index", "x", "--body", json.dumps(body), says=["--query-memory", "524288"])
    frostline.fails("--memory", "100KiB", "sql", 'SELECT "id", count(*) FROM x GROUP BY "id"', says=["memory"])
    assert len(frostline.search("x", body)["aggregations"]["a"]["buckets"]) == 10


NUMBERED = 40_000


@pytest.fixture(scope="module")
def numbered(tmp_path_factory):
    """Documents with a unique number each."""
    path = tmp_path_factory.mktemp("numbered") / "numbered.ndjson"
    line = '{{"n": {0}, "@timestamp": "2024-01-01T00:{1:02}:{2:02}Z", "text": "document {0} says {3}"}}\n'
    path.write_text("".join(line.format(n, n // 60 % 60, n % 60, "x" * 100) for n in range(NUMBERED)))
    return path


INGEST = ["ingest", "--index", "x", "--format", "ndjson", "--split-bytes", "200KB"]


def test_kills_of_ingest_lose_and_double_nothing(binary, tmp_path, numbered):
    """Killed at random moments and started again, until all is in; then in a new repository."""
    draw, kills, round_ = random.Random(7), 0, 0
    frostline = Frostline(binary, tmp_path / "0", tmp_path / "data")
    longest = timed(lambda: Frostline(binary, tmp_path / "whole", tmp_path / "data").ok(*INGEST, numbered))
    while kills < KILLS:
        if frostline.killed_after(draw.uniform(0, longest * 0.7), *INGEST, numbered):
            kills += 1
            check_numbers(frostline, whole=False)
        else:
            check_numbers(frostline, whole=True)
            round_ += 1
            frostline = Frostline(binary, tmp_path / str(round_), tmp_path / "data")
    frostline.ok(*INGEST, numbered)
    check_numbers(frostline, whole=True)
    assert frostline.ok("index", "verify", "x")["faults"] == []


def timed(run):
    started = time.monotonic()
    run()
    return time.monotonic() - started


def check_numbers(frostline, whole):
    """What is committed is a start of the input, each document once."""
    outcome = frostline.run("sql", 'SELECT count(*), count(DISTINCT "n"), max("n") FROM x')
    if outcome.status == FAILED and not whole:
        # Killed before the index was made, or before it had any document and so any field.
        assert "no index" in outcome.stderr or "missing" in outcome.stderr or "there is no column" in outcome.stderr, outcome
        return
    assert outcome.status == DONE, outcome
    (rows, different, last) = outcome.json["rows"][0]
    assert rows == different == (last + 1 if rows else 0)
    assert rows == NUMBERED or not whole


def test_merging_comes_to_an_end_and_says_so(logs, tmp_path):
    copy = copy_of(logs, tmp_path / "repo")
    before = copy.ok("index", "show", "logs")["summary"]["splits"]
    # Memory for no two splits at once: a merge of any takes 32 MiB.
    assert copy.ok("index", "merge", "logs", "--memory", "32MiB")["merges"] == 0
    assert copy.ok("index", "merge", "logs", "--budget", "1KB")["merges"] == 0
    planned = copy.ok("index", "merge", "logs", "--dry-run")
    words = [word for word in copy.command("index", "merge", "logs", "--dry-run") if word != "--json"]
    assert "would rewrite" in subprocess.check_output(words, text=True, env=copy.clean_environment())
    assert copy.ok("index", "show", "logs")["summary"]["splits"] == before
    first = copy.ok("index", "merge", "logs")
    assert first["merges"] == len(planned["merges"]), (first, planned)
    assert sum(merge["splits"] - 1 for merge in planned["merges"]) == first["splits_before"] - first["splits_after"]
    after = copy.ok("index", "show", "logs")["summary"]["splits"]
    assert first["merges"] >= 1 and before - after == first["splits_before"] - first["splits_after"] > 0, first
    again = copy.ok("index", "merge", "logs")
    assert (again["merges"], again["splits_before"], again["splits_after"], again["cost"]["puts"]) == (0, 0, 0, 0)
    words = [word for word in copy.command("index", "merge", "logs") if word != "--json"]
    assert subprocess.check_output(words, text=True, env=copy.clean_environment()).startswith("nothing to merge")


def test_an_ingest_that_merges_says_so(frostline, numbered):
    ingested = frostline.ok(*INGEST, "--merge", numbered)
    assert ingested["merges"] >= 1 and ingested["merge_bytes"] > 0, ingested
    assert frostline.ok("index", "show", "x")["summary"]["splits"] == ingested["splits_live"] < ingested["splits"]
    check_numbers(frostline, whole=True)
    frostline.fails("index", "merge", "x", "--window", "soon", says=["--window"])


def test_kills_of_vacuum_lose_nothing(binary, tmp_path, numbered):
    """An index with splits that were merged away and uploads that nobody committed."""
    draw = random.Random(8)
    made = Frostline(binary, tmp_path / "made", tmp_path / "data")
    made.ok(*INGEST, numbered)
    for _ in range(2):
        made.killed_after(0.2, *INGEST, "--again", numbered)
    made.ok("index", "merge", "x")
    expected = made.sql('SELECT count(*), sum("n") FROM x')
    vacuum = ["vacuum", "x", "--retain-hours", "0", "--orphan-hours", "0"]
    copies = (copy_of(made, tmp_path / f"copy{number}") for number in range(10**6))
    longest = timed(lambda: next(copies).ok(*vacuum))
    copy, kills = next(copies), 0
    while kills < KILLS:
        killed = copy.killed_after(draw.uniform(0, longest), *vacuum)
        assert copy.sql('SELECT count(*), sum("n") FROM x') == expected
        kills += killed
        if not killed:
            shutil.rmtree(copy.repo)
            copy = next(copies)
    assert copy.ok(*vacuum) is not None
    assert copy.sql('SELECT count(*), sum("n") FROM x') == expected
    assert copy.ok("index", "verify", "x")["faults"] == []
    assert len(splits_of(copy, "x")) == copy.ok("index", "show", "x")["summary"]["splits"]


def copy_of(frostline, folder):
    shutil.copytree(frostline.repo, folder)
    return Frostline(frostline.binary, folder, frostline.data)


def splits_of(frostline, index):
    return sorted(path for path in (frostline.repo / index).rglob("*.parquet") if "_delta_log" not in path.parts)


def flip(content, at):
    """One bit other than it was."""
    at = int(at)
    return content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]


# By the content of a split and where its hot footer starts.
DAMAGES = {
    "cut in half": lambda content, footer: content[: len(content) // 2],
    "empty": lambda content, footer: b"",
    "one byte short": lambda content, footer: content[:-1],
    "zeroes": lambda content, footer: content[:100] + bytes(len(content) - 100),
    "a bit of the first page": lambda content, footer: flip(content, 40),
    "a bit of the rows": lambda content, footer: flip(content, footer * 0.2),
    "a bit of the index": lambda content, footer: flip(content, footer * 0.9),
    "a bit of the hot footer": lambda content, footer: flip(content, footer + 100),
    "a bit of the Parquet footer": lambda content, footer: flip(content, len(content) - 60),
    "a bit of the page index": lambda content, footer: flip(content, len(content) - int.from_bytes(content[-8:-4], "little") - 30),
    "a bit of the first magic": lambda content, footer: flip(content, 1),
}
QUESTIONS = [{}, {"query": {"term": {"word": "w3"}}}, {"query": {"match": {"text": "log"}}, "sort": ["n"]}]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_split_is_named_and_the_others_answer(damage, logs, tmp_path):
    copy = copy_of(logs, tmp_path / "repo")
    victim = splits_of(copy, "logs")[2]
    content = victim.read_bytes()
    victim.write_bytes(DAMAGES[damage](content, content.index(b"FROSTHF1")))
    name = f"{victim.parent.name}/{victim.name}"
    for body in QUESTIONS:
        check_partial(copy, logs, body, name, split_rows(logs, victim.stem))
    outcome = copy.run("index", "verify", "logs")
    assert outcome.status != DONE and name in outcome.stdout + outcome.stderr, outcome


def test_verify_reads_every_byte_of_the_index(frostline):
    """Damage is seen wherever it is, also in the rows that have a field, which no search of all documents reads."""
    dice = random.Random(1)
    frostline.ingest("x", [{f"f{field}": dice.random() for field in range(30) if dice.random() < 0.5} for _ in range(2000)])
    split, = splits_of(frostline, "x")
    content = split.read_bytes()
    footer = content.index(b"FROSTHF1")
    for at in range(footer - 9000, footer, 360):
        split.write_bytes(flip(content, at))
        outcome = frostline.run("index", "verify", "x")
        assert outcome.status != DONE and split.name in outcome.stdout + outcome.stderr, (at - footer, outcome)
    split.write_bytes(content)
    assert frostline.ok("index", "verify", "x")["faults"] == []


def split_rows(frostline, split):
    """The rows of one split, by the `_id`s of all documents."""
    ids = frostline.sql('SELECT "_id", "n" FROM logs')
    return {n for name, n in ids if name.startswith(split)}


def check_partial(damaged, whole, body, name, lost):
    """The right answer; or that of the other splits, with the damaged one named and status 3."""
    body = {**body, "size": 2000}
    expected = {hit["_source"]["n"] for hit in whole.search("logs", body)["hits"]["hits"]}
    outcome = damaged.run("search", "--index", "logs", "--body", json.dumps(body))
    found = {hit["_source"]["n"] for hit in outcome.json["hits"]["hits"]}
    if outcome.status == DONE:
        assert found == expected
        return
    assert outcome.status == PARTIAL, outcome
    assert damaged.run("search", "--index", "logs", "--body", json.dumps(body), "--strict").status == FAILED
    shards = outcome.json["_shards"]
    assert shards["failed"] == 1 and name in shards["failures"][0]["object"]
    assert shards["failures"][0]["reason"]["type"] == "corrupt_split_exception"
    assert found == expected - lost


def test_a_missing_split_is_named_and_the_others_answer(logs, tmp_path):
    copy = copy_of(logs, tmp_path / "repo")
    victim = splits_of(copy, "logs")[1]
    victim.unlink()
    outcome = copy.run("search", "--index", "logs", "text:log")
    assert outcome.status == PARTIAL
    assert victim.name in outcome.json["_shards"]["failures"][0]["object"]
    assert outcome.json["hits"]["total"]["value"] == len(ROWS) - len(split_rows(logs, victim.stem))


def test_a_damaged_log_entry_is_named(logs, tmp_path):
    copy = copy_of(logs, tmp_path / "repo")
    entry = sorted((copy.repo / "logs" / "_delta_log").glob("*.json"))[-1]
    entry.write_bytes(entry.read_bytes()[: entry.stat().st_size // 2])
    copy.fails("search", "--index", "logs", "x", says=[entry.name])


def test_a_damaged_cache_costs_a_fetch_only(logs, tmp_path):
    near = Frostline(logs.binary, logs.repo, tmp_path / "data")
    near.ok("mount", "logs", "--cache", "10MiB")
    body = {"query": {"match": {"text": "log"}}, "size": 2000, "sort": ["n"]}
    expected = near.search("logs", body)["hits"]
    assert near.search("logs", body)["cost"]["gets"] == 0
    for path in (tmp_path / "data").rglob("*"):
        if path.is_file() and path.stat().st_size > 10_000:
            content = bytearray(path.read_bytes())
            for at in range(100, len(content), 5_000):
                content[at] ^= 0xFF
            path.write_bytes(content)
    assert near.search("logs", body)["hits"] == expected


def test_further_times_of_a_document_are_no_damage(frostline):
    frostline.ingest("x", ['{"@timestamp":["2024-05-01","2024-06-01"]}', '{"@timestamp":["2024-05-02","9999-12-31T23:59:59Z"]}'])
    verified = frostline.ok("index", "verify", "x")
    assert verified["faults"] == []


def test_dates_at_the_end_of_the_calendar_have_buckets(frostline):
    frostline.ingest("x", ['{"until":"9999-12-31T23:59:59Z"}', '{"until":"9999-12-31"}'])
    for unit, key in [("day", 1231), ("week", 1227), ("month", 1201), ("quarter", 1001), ("year", 101)]:
        body = {"size": 0, "aggs": {"h": {"date_histogram": {"field": "until", "calendar_interval": unit}}}}
        bucket, = frostline.search("x", body)["aggregations"]["h"]["buckets"]
        start = datetime(9999, key // 100, key % 100, tzinfo=timezone.utc).timestamp() * 1_000
        assert (bucket["key"], bucket["doc_count"]) == (start, 2)


def test_an_id_is_neither_sorted_by_nor_aggregated(frostline):
    frostline.ingest("x", [{"n": n} for n in range(3)])
    for body in [
        {"sort": ["_id"]}, {"sort": [{"_id": "desc"}]}, {"query": {"range": {"_id": {"gte": "a"}}}}, {"query": {"query_string": {"query": "_id:a*"}}},
        {"query": {"query_string": {"query": "_id:[a TO z]"}}}, {"query": {"query_string": {"query": "_id:/a.*/"}}},
        {"aggs": {"ids": {"terms": {"field": "_id"}}}}, {"aggs": {"none": {"missing": {"field": "_id"}}}},
        {"aggs": {"top": {"top_hits": {"sort": ["_id"]}}}},
    ]:
        frostline.fails("search", "--index", "x", "--body", "-", stdin=json.dumps(body), status=FAILED, says=["_id"])
    found = frostline.search("x", {})["hits"]["hits"]
    assert [hit["_id"] for hit in frostline.search("x", {"query": {"query_string": {"query": f'_id:{found[0]["_id"]}'}}})["hits"]["hits"]] == [found[0]["_id"]]


def test_json_over_several_lines_is_refused_with_what_to_do(frostline, tmp_path):
    documents = [{"n": 1, "inner": {"a": [1, 2]}}, {"n": 2}]
    each = "\n".join(json.dumps(document, indent=2) for document in documents) + "\n"
    folder = tmp_path / "in"
    folder.mkdir()
    for name, text in {"objects.json": each, "array.json": json.dumps(documents, indent=4), "bom.json": "\ufeff\n" + each}.items():
        (folder / name).write_text(text)
        for options, stdin in [((folder / name,), None), (("--format", "ndjson", folder / name), None), (("-",), text)]:
            outcome = frostline.run("ingest", "--index", "pretty", *options, stdin=stdin)
            assert (outcome.status, outcome.json["documents"], outcome.json["skipped"]) == (FAILED, 0, []), outcome
            assert "jq -c" in outcome.json["failed"][0]["reason"] and "nothing was ingested" in outcome.stderr
    assert frostline.ok("index", "list")["indices"] == []
    (folder / "good.json").write_text("".join(json.dumps(document) + "\n" for document in documents))
    report = frostline.ok("ingest", "--index", "pretty", folder)
    assert report["documents"] == 2 and len(report["skipped"]) == 3 and "jq -c" in report["skipped"][0]["reason"]
    # Arrays with an object a line, and what is text for whoever says so, are read.
    frostline.ok("ingest", "--index", "lines", "-", stdin='[\n{"n":1},\n{"n":2}\n]\n')
    frostline.ok("ingest", "--index", "text", "--format", "plain", "-", stdin=each)
    assert frostline.search("lines", {})["hits"]["total"]["value"] == 2
    assert frostline.search("text", {})["hits"]["total"]["value"] > 0


def test_explain_lists_what_acts_and_refuses_the_rest(frostline):
    frostline.ingest("logs", [{"n": 1}])
    listed = subprocess.run([frostline.binary, "explain", "--help"], capture_output=True, text=True).stdout
    assert "--since" in listed and "--sort" in listed
    for option in ["--server", "--all", "--strict", "--no-result-cache", "--format", "--api-key-file", "--ca"]:
        assert option not in listed, option
        assert option in subprocess.run([frostline.binary, "search", "--help"], capture_output=True, text=True).stdout
    for option in ["--all", "--strict", "--no-result-cache", "--ca=x", "--server=http://127.0.0.1:1"]:
        frostline.fails("explain", "--index", "logs", "n:1", option, says=["leave out " + option.split("=")[0]])


def test_a_text_compared_with_numbers_says_what_to_write(frostline):
    frostline.ingest("logs", [{"response": 404, "@timestamp": "2024-05-01T00:00:00Z"}])
    for condition, says in [
        ("response = 'abc'", ["'abc' is not a number", "as varchar", "in: select"]),
        ("response in (1, 'abc')", ["'abc' is not a number"]),
        ("\"@timestamp\" > 'yesterday'", ["'yesterday' is not a time"]),
    ]:
        said = frostline.fails("sql", f"select * from logs where {condition}", says=says)
        assert "Arrow" not in said and "Cast error" not in said
    assert frostline.sql("select response from logs where cast(response as varchar) = '404'") == [[404]]


def test_spaces_around_the_colon_of_a_field_mean_nothing(frostline):
    frostline.ingest("logs", [{"response": 404, "m": "x"}, {"response": 200, "m": "response 404"}])
    for query in ["response:404", "response : 404", "response :404", "(response : 404)", "m:x AND response : (404 OR 405)"]:
        hits = frostline.ok("search", "--index", "logs", query)["hits"]["hits"]
        assert [hit["_source"]["m"] for hit in hits] == ["x"], query
    frostline.fails("search", "--index", "logs", "response : ", says=["a value is missing"])
