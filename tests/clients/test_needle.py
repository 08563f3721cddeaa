"""Needle segments from outside: written by ingest, merged, shown, checked, made again, removed; and nothing depends on them."""

import pytest

from frostline import DONE, PARTIAL
from test_cli import copy_of, flip, splits_of

ROWS = [{"@timestamp": f"2024-05-{1 + n // 100:02}T00:00:00Z", "n": n, "user": f"user-{n % 50}", "text": f"line {n} " + "x" * 600} for n in range(2_000)]
QUERIES = ["user:user-7", "n:1999", "text:line", '"line 17"', "user:nobody"]


@pytest.fixture(scope="module")
def logs(binary, tmp_path_factory):
    """2,000 documents in several splits."""
    from frostline import Frostline

    folder = tmp_path_factory.mktemp("needle")
    frostline = Frostline(binary, folder / "repo", folder / "data")
    report = frostline.ingest("logs", ROWS, "--split-bytes", "70KB")
    assert report["needle_bytes"] > 0
    # Of the runs that were merged nothing is left.
    frostline.ok("vacuum", "logs", "--retain-hours", "0", "--orphan-hours", "0")
    return frostline


def segments_of(frostline):
    return sorted((frostline.repo / "logs" / "_files").rglob("*.needle"))


def answers(frostline):
    return [frostline.ok("search", "--index", "logs", query, "--size", "2000", "--sort", "n")["hits"]["total"] for query in QUERIES]


def test_segments_cover_every_split(logs):
    status = logs.ok("needle", "status", "logs")
    assert status["enabled"] and status["covered"] == status["splits"] == len(splits_of(logs, "logs")) > 5
    assert status["bytes"] == sum(path.stat().st_size for path in segments_of(logs))
    assert all(segment["state"] == "readable" and segment["live"] == segment["splits"] for segment in status["segments"])
    verified = logs.ok("needle", "verify", "logs")
    assert (verified["faults"], verified["uncovered"], verified["splits"]) == ([], 0, status["splits"])


def test_without_segments_the_answers_are_the_same(logs, tmp_path):
    copy, expected = copy_of(logs, tmp_path / "repo"), answers(logs)
    for segment in segments_of(copy):
        segment.unlink()
    assert answers(copy) == expected
    status = copy.ok("needle", "status", "logs")
    assert status["covered"] == 0 and {segment["state"] for segment in status["segments"]} == {"damaged"}
    assert copy.run("needle", "verify", "logs").status == PARTIAL
    rebuilt = copy.ok("needle", "rebuild", "logs")
    assert rebuilt["splits"] == status["splits"] and rebuilt["failed"] == []
    assert rebuilt["removed"] == len(status["segments"])
    assert copy.ok("needle", "verify", "logs")["uncovered"] == 0
    assert answers(copy) == expected


def test_a_damaged_page_is_named_and_made_again(logs, tmp_path):
    copy, expected = copy_of(logs, tmp_path / "repo"), answers(logs)
    victim, = segments_of(copy)
    victim.write_bytes(flip(victim.read_bytes(), 40))
    outcome = copy.run("needle", "verify", "logs")
    assert outcome.status == PARTIAL
    fault, = outcome.json["faults"]
    assert fault["object"].endswith(victim.name) and "page" in fault["what"]
    assert answers(copy) == expected
    assert copy.ok("needle", "rebuild", "logs")["removed"] == 1
    assert copy.run("needle", "verify", "logs").status == DONE
    assert answers(copy) == expected


def test_a_split_that_cannot_be_read_has_no_segment(logs, tmp_path):
    copy = copy_of(logs, tmp_path / "repo")
    victim = splits_of(copy, "logs")[1]
    victim.unlink()
    outcome = copy.run("needle", "rebuild", "logs", "--all")
    assert outcome.status == PARTIAL
    failed, = outcome.json["failed"]
    assert failed["object"].endswith(victim.name)
    status = copy.ok("needle", "status", "logs")
    assert status["covered"] == status["splits"] - 1


def test_an_index_can_do_without(logs, tmp_path):
    copy, expected = copy_of(logs, tmp_path / "repo"), answers(logs)
    assert copy.ok("needle", "drop", "logs")["removed"] == len(segments_of(logs))
    assert answers(copy) == expected
    copy.ingest("logs", [{"n": 5_000}])
    status = copy.ok("needle", "status", "logs")
    assert (status["enabled"], status["covered"], status["segments"]) == (False, 0, [])
    copy.ok("vacuum", "logs", "--retain-hours", "0", "--orphan-hours", "0")
    assert segments_of(copy) == []
    copy.ok("needle", "rebuild", "logs")
    status = copy.ok("needle", "status", "logs")
    assert status["enabled"] and status["covered"] == status["splits"]


def test_a_run_can_do_without(frostline):
    frostline.ingest("logs", [{"n": 1}], "--no-needle")
    frostline.ingest("logs", [{"n": 2}])
    status = frostline.ok("needle", "status", "logs")
    assert (status["enabled"], status["splits"], status["covered"]) == (True, 2, 1)
    assert frostline.ok("needle", "rebuild", "logs")["splits"] == 1


def test_merging_and_vacuum_keep_what_is_needed(logs, tmp_path):
    copy, expected = copy_of(logs, tmp_path / "repo"), answers(logs)
    merged = copy.ok("index", "merge", "logs")
    assert merged["splits_before"] > merged["splits_after"] >= 1
    named = {segment["object"].rsplit("/", 1)[1] for segment in copy.ok("needle", "status", "logs")["segments"]}
    copy.ok("vacuum", "logs", "--retain-hours", "0", "--orphan-hours", "0")
    assert {path.name for path in segments_of(copy)} == named
    verified = copy.ok("needle", "verify", "logs")
    assert (verified["faults"], verified["uncovered"]) == ([], 0)
    assert answers(copy) == expected


def test_an_index_that_is_not_there(logs):
    for command in ("status", "rebuild", "verify", "drop"):
        logs.fails("needle", command, "nothing", says=["no index", "nothing"])
