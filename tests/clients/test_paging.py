"""Pages of one answer fit together, whatever is ingested, merged and vacuumed between them."""

import json

import pytest

DOCUMENTS, PAGE = 60, 7


@pytest.fixture
def growing(frostline):
    """Two indices of several small splits, and what happens to them between two pages."""
    for name in ("logs-a", "logs-b"):
        for part in range(3):
            add(frostline, name, range(part * DOCUMENTS // 3, (part + 1) * DOCUMENTS // 3))
    return frostline


def add(frostline, name, numbers):
    frostline.ingest(name, [document(name, number) for number in numbers])


def document(name, number):
    return {"id": f"{name} {number}", "@timestamp": f"2024-05-01T10:{number % 60:02}:00Z", "host": f"h{number % 5}"}


def disturb(frostline, number):
    """Ingests, merges, and vacuums all that vacuum may take."""
    for name in ("logs-a", "logs-b"):
        add(frostline, name, [1000 + number])
        frostline.ok("index", "merge", name)
        frostline.ok("vacuum", name, "--retain-hours", "0", "--orphan-hours", "0")


def pages(frostline, body, *arguments, between=disturb):
    """The ids of all pages of a search, with something between each two."""
    found = []
    while True:
        answer = frostline.ok("search", *arguments, "--body", "-", stdin=json.dumps(body))
        assert answer["_shards"]["failed"] == 0, answer["_shards"]
        hits = answer["hits"]["hits"]
        if not hits:
            return found
        found += [hit["_source"]["id"] for hit in hits]
        assert answer["hits"]["total"]["value"] == 2 * DOCUMENTS
        assert answer.get("pit_id") == body.get("pit", {}).get("id")
        body["search_after"] = hits[-1]["sort"]
        between(frostline, len(found))


EVERYTHING = sorted(f"{name} {number}" for name in ("logs-a", "logs-b") for number in range(DOCUMENTS))
SORTS = [["_doc"], [{"host.keyword": "asc"}, "_doc"], [{"@timestamp": "desc"}, {"_doc": "desc"}]]


@pytest.mark.parametrize("sort", SORTS, ids=["doc", "host", "time"])
def test_a_point_in_time_gives_every_document_of_its_moment_once(growing, sort):
    pit = growing.ok("pit", "open", "logs-*", "--keep-alive", "1h")
    assert [pinned["index"] for pinned in pit["indices"]] == ["logs-a", "logs-b"]
    disturb(growing, 0)
    found = pages(growing, {"size": PAGE, "sort": sort, "pit": {"id": pit["id"], "keep_alive": "2h"}})
    assert sorted(found) == EVERYTHING
    assert growing.ok("pit", "close", pit["id"]) == {"succeeded": True, "num_freed": 2}
    assert growing.ok("pit", "close", pit["id"])["num_freed"] == 0
    growing.fails("search", "--body", json.dumps({"pit": {"id": pit["id"]}}), says=["point in time", "closed"])
    kept = list(growing.repo.glob("*/_pins/*"))
    assert kept == [], "no pin is left"
    before = splits(growing)
    disturb(growing, 1)
    assert len(splits(growing)) < len(before), "what the point in time kept is vacuumed"


def splits(frostline):
    return list(frostline.repo.glob("*/??/*.parquet"))


def test_a_position_opens_its_version_as_long_as_its_files_are_there(growing):
    def merge(frostline, number):
        for name in ("logs-a", "logs-b"):
            add(frostline, name, [1000 + number])
            frostline.ok("index", "merge", name)
            frostline.ok("vacuum", name)

    found = pages(growing, {"size": PAGE, "sort": ["_doc"]}, "--index", "logs-*", between=merge)
    assert sorted(found) == EVERYTHING
    first = growing.search("logs-*", {"size": PAGE, "sort": ["_doc"]})
    disturb(growing, 0)
    disturb(growing, 1)
    body = json.dumps({"size": PAGE, "sort": ["_doc"], "search_after": first["hits"]["hits"][-1]["sort"]})
    missing = growing.run("search", "--index", "logs-*", "--body", body)
    assert missing.status == 3, missing
    assert {failure["reason"]["type"] for failure in missing.json["_shards"]["failures"]} == {"missing_split_exception"}
    growing.fails("search", "--index", "logs-a", "--body", body, says=["logs-b", "--index"])


def test_a_point_in_time_that_has_lapsed_says_so(growing):
    pit = growing.ok("pit", "open", "logs-a", "--keep-alive", "1ms")["id"]
    body = json.dumps({"pit": {"id": pit}})
    growing.fails("search", "--body", body, says=["point in time", "expired", "open another", "logs-a"])
    growing.fails("search", "--body", json.dumps({"pit": {"id": pit, "keep_alive": "1h"}}), says=["expired"])
    lasting = growing.ok("pit", "open", "logs-a")["id"]
    growing.ok("index", "delete", "logs-a", "--yes")
    growing.fails("search", "--body", json.dumps({"pit": {"id": lasting}}), says=["deleted"])
    growing.fails("search", "--body", json.dumps({"pit": {"id": lasting[:-4]}}), says=["pit.id", "unchanged"])
    growing.fails("search", "--body", "{}", says=["--index"])
    growing.fails("pit", "open", "logs-b", "--keep-alive", "60d", says=["at most 30d"])
    growing.fails("pit", "open", "logs-b", "--keep-alive", "soon", says=["--keep-alive"])


def test_an_export_gives_one_version_while_the_index_is_rewritten(frostline, tmp_path):
    """Its reader stops after the first page: the rest is written when all that vacuum may take is gone."""
    import subprocess

    count, filler = 25_000, "x" * 100
    for part in range(4):
        lines = (json.dumps({"id": number, "filler": filler}) for number in range(part, count, 4))
        frostline.ok("ingest", "--index", "big", "--format", "ndjson", "-", stdin="\n".join(lines) + "\n")
    command = [word for word in frostline.command("search", "--index", "big", "--all") if word != "--json"]
    export = subprocess.Popen(command, env=frostline.clean_environment(), stdout=subprocess.PIPE, text=True)
    # The rest of the first page is more than a pipe holds.
    first = export.stdout.readline()
    assert len(list(frostline.repo.glob("big/_pins/*"))) == 1
    frostline.ingest("big", [{"id": -1}])
    frostline.ok("index", "merge", "big")
    vacuum = ["vacuum", "big", "--retain-hours", "0", "--orphan-hours", "0"]
    assert split_reasons(frostline.ok(*vacuum)) == set()
    found = [json.loads(line)["id"] for line in [first, *export.stdout]]
    assert export.wait() == 0
    assert sorted(found) == list(range(count))
    assert list(frostline.repo.glob("big/_pins/*")) == []
    assert split_reasons(frostline.ok(*vacuum)) == {"removed"}


def split_reasons(vacuumed):
    """Why splits were deleted. Needle segments that the pinned version does not name may go before."""
    return {deleted["reason"] for deleted in vacuumed["deleted"] if deleted["key"].endswith(".parquet")}
