"""Packs of hot footers from outside: written by ingest, read by whatever opens many splits, checked, and nothing depends on them."""

import json

import pytest

from frostline import DONE, PARTIAL
from test_cli import copy_of, flip, splits_of

ROWS = [{"@timestamp": f"2024-05-{1 + n // 150:02}T00:00:00Z", "n": n, "host": f"host-{n % 7}", "text": f"line {n} " + "x" * 1_500} for n in range(4_500)]
BY_HOST = {"size": 0, "query": {"bool": {"must": [{"match": {"text": "line"}}, {"range": {"n": {"gte": 3}}}]}}, "aggs": {"hosts": {"terms": {"field": "host"}}}}


@pytest.fixture(scope="module")
def logs(binary, tmp_path_factory):
    """4,500 documents in more than 32 splits."""
    from frostline import Frostline

    folder = tmp_path_factory.mktemp("packs")
    frostline = Frostline(binary, folder / "repo", folder / "data")
    frostline.ingest("logs", ROWS, "--split-bytes", "66KB")
    assert len(splits_of(frostline, "logs")) >= 32
    return frostline


def packs_of(frostline):
    return sorted((frostline.repo / "logs" / "_files").rglob("*.pack"))


def ask(frostline):
    answer = frostline.ok("search", "--index", "logs", "--no-result-cache", "--body", "-", stdin=json.dumps(BY_HOST))
    return answer["hits"]["total"], answer["aggregations"], answer["cost"]["gets"]


def test_many_splits_are_opened_with_two_requests(logs, tmp_path):
    assert len(packs_of(logs)) == 1
    copy = copy_of(logs, tmp_path / "repo")
    packs_of(copy)[0].unlink()
    total, aggregations, gets = ask(logs)
    assert (total, aggregations) == ask(copy)[:2]
    splits = len(splits_of(logs, "logs"))
    # A directory and the footers, where each split was a request; without the pack, one is tried in vain.
    assert ask(copy)[2] - gets == splits - 1


def test_a_damaged_pack_is_named_and_changes_no_answer(logs, tmp_path):
    copy, expected = copy_of(logs, tmp_path / "repo"), ask(logs)[:2]
    victim, = packs_of(copy)
    victim.write_bytes(flip(victim.read_bytes(), victim.stat().st_size - 20))
    outcome = copy.run("index", "verify", "logs")
    assert outcome.status == PARTIAL
    fault, = outcome.json["faults"]
    assert fault["object"].endswith(victim.name) and "checksum" in fault["what"] and "split" not in fault
    assert ask(copy)[:2] == expected


def test_merging_replaces_packs_and_vacuum_deletes_them(logs, tmp_path):
    copy, expected = copy_of(logs, tmp_path / "repo"), ask(logs)[:2]
    copy.ok("index", "merge", "logs")
    copy.ok("vacuum", "logs", "--retain-hours", "0", "--orphan-hours", "0")
    assert packs_of(copy) == []
    assert copy.run("index", "verify", "logs").status == DONE
    assert ask(copy)[:2] == expected


def test_without_needle_segments_nothing_is_packed(frostline):
    frostline.ingest("logs", ROWS, "--split-bytes", "66KB", "--no-needle")
    assert len(splits_of(frostline, "logs")) >= 32 and packs_of(frostline) == []
