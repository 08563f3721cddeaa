"""Snapshots on the command line, beside a server of the same repository."""

import json

from frostline import DONE, FAILED, Frostline
from server import Server, documents


class Plain:
    """The commands without --json: what they print for people."""

    def __init__(self, frostline):
        self.frostline = frostline

    def __call__(self, *arguments):
        own = Frostline(self.frostline.binary, self.frostline.repo, self.frostline.data)
        own.command = lambda *words: [word for word in self.frostline.command(*words) if word != "--json"]
        outcome = own.run(*arguments)
        assert outcome.status == DONE, outcome
        return outcome.stdout


def count(frostline, index):
    return frostline.search(index, {"size": 0})["hits"]["total"]["value"]


def test_a_snapshot_is_made_listed_restored_mounted_and_deleted(frostline):
    say = Plain(frostline)
    frostline.ingest("web-1", documents(), "--split-bytes", "100KB")
    assert "frostline snapshot create NAME" in say("snapshot", "list")
    frostline.ingest("web-2", [{"n": n} for n in range(10)])
    frostline.ingest("app", [{"n": 1}])
    made = frostline.ok("snapshot", "create", "first", "--index", "web-*")
    assert made["snapshot"] == "first" and [one["index"] for one in made["indices"]] == ["web-1", "web-2"]
    assert [one["documents"] for one in made["indices"]] == [5_000, 10] and made["indices"][0]["splits"] > 1
    assert frostline.ok("snapshot", "show", "first") == made
    everything = frostline.ok("snapshot", "create", "everything")
    assert [one["index"] for one in everything["indices"]] == ["app", "web-1", "web-2"]
    listed = frostline.ok("snapshot", "list")["snapshots"]
    assert listed == [made, everything]
    table = say("snapshot", "list")
    assert [line.split()[0] for line in table.splitlines() if line.startswith(("first", "everything"))] == ["first", "everything"]
    assert "web-2" in say("snapshot", "show", "first")

    # What was in the way of them is gone, and so are the files that only the snapshots name.
    frostline.ok("index", "merge", "web-1")
    frostline.ok("index", "delete", "web-2", "--yes")
    frostline.ok("vacuum", "web-1", "--retain-hours", "0")
    tried = frostline.ok("snapshot", "restore", "first", "--rename", "web-*=old-*", "--dry-run")
    assert tried["dry_run"] and [(one["of"], one["index"]) for one in tried["indices"]] == [("web-1", "old-1"), ("web-2", "old-2")]
    assert "old-1" not in [one["index"] for one in frostline.ok("index", "list")["indices"]]
    done = frostline.ok("snapshot", "restore", "first", "--rename", "web-*=old-*")
    assert done == {**tried, "dry_run": False}
    assert (count(frostline, "old-1"), count(frostline, "old-2")) == (5_000, 10)
    mounted = frostline.ok("snapshot", "mount", "first", "--index", "web-1", "--rename", "web-1=there")
    assert [one["index"] for one in mounted["indices"]] == ["there"] and count(frostline, "there") == 5_000
    # Nothing is written to what is mounted; what is restored is an index as any other.
    frostline.fails("ingest", "--index", "there", "--format", "ndjson", "-", stdin='{"n":1}\n')
    frostline.ingest("old-2", [{"n": 11}])
    assert count(frostline, "old-2") == 11
    # A name that is free needs no other.
    assert "web-2 is restored: 10 documents" in say("snapshot", "restore", "first", "--index", "web-2")

    assert frostline.ok("snapshot", "delete", "first", "--yes") == {"snapshot": "first", "deleted": True}
    assert [one["snapshot"] for one in frostline.ok("snapshot", "list")["snapshots"]] == ["everything"]
    frostline.ok("vacuum", "web-1", "--retain-hours", "0", "--orphan-hours", "0")
    assert (count(frostline, "there"), count(frostline, "old-1")) == (5_000, 5_000)


def test_a_server_and_the_command_line_have_the_same_snapshots(frostline):
    frostline.ingest("web", [{"n": n} for n in range(10)])
    server = Server(frostline)
    assert server.ask("POST", "/_aliases", {"actions": [{"add": {"index": "web", "alias": "all"}}]})[0] == 200
    status, _, _ = server.ask("PUT", "/_snapshot/frostline/theirs?wait_for_completion=true", {"metadata": {"by": "hand"}})
    assert status == 200
    frostline.ok("snapshot", "create", "ours", "--index", "all")
    theirs, ours = frostline.ok("snapshot", "list")["snapshots"]
    assert (theirs["snapshot"], theirs["metadata"], ours["snapshot"], ours["metadata"]) == ("theirs", {"by": "hand"}, "ours", None)
    assert theirs["indices"] == ours["indices"] and ours["indices"][0]["aliases"] == ["all"]
    shown = json.loads(server.ask("GET", "/_snapshot/frostline/_all")[2])["snapshots"]
    assert [(one["snapshot"], one["indices"]) for one in shown] == [("theirs", ["web"]), ("ours", ["web"])]
    frostline.ok("snapshot", "restore", "ours", "--rename", "web=two")
    frostline.ok("snapshot", "restore", "theirs", "--rename", "web=three", "--no-aliases")
    aliases = json.loads(server.ask("GET", "/_alias/all")[2])
    assert sorted(aliases) == ["two", "web"]
    assert json.loads(server.ask("GET", "/three/_count")[2])["count"] == 10
    assert server.ask("DELETE", "/_snapshot/frostline/ours")[0] == 200
    frostline.fails("snapshot", "show", "ours", says=["there is no snapshot ours"])
    assert server.stop() == DONE


def test_what_cannot_be_done_says_what_to_do(frostline):
    frostline.ingest("web", [{"n": 1}])
    frostline.ingest("app", [{"n": 1}])
    frostline.ok("snapshot", "create", "first")
    for arguments, says in [
        (["create", "first"], ["already a snapshot first", "choose another name"]),
        (["create", "A b"], ["no name of a snapshot"]),
        (["create", "second", "--index", "absent"], ["absent"]),
        (["create", "second", "--index", "absent-*"], ["no index matches absent-*"]),
        (["show", "frist"], ["did you mean `first`"]),
        (["delete", "first"], ["add --yes"]),
        (["delete", "absent", "--yes"], ["no snapshot absent"]),
        (["restore", "first"], ["there is app already", "--rename app=OTHER"]),
        (["mount", "first", "--index", "web"], ["there is web already", "--rename web=OTHER"]),
        (["restore", "first", "--index", "wbe"], ["no index wbe", "did you mean `web`"]),
        (["restore", "first", "--index", "x*"], ["names no index of the snapshot"]),
        (["restore", "first", "--rename", "web"], ["--rename web is not a pair"]),
        (["restore", "first", "--rename", "*=one"], ["would both be one"]),
        (["restore", "first", "--index", "web", "--rename", "web=NO WAY"], ["--rename makes NO WAY of web"]),
        (["restore", "first", "--index", "web", "--rename", "web=old", "--rename", "app=x"], ["app=x is of no index"]),
    ]:
        frostline.fails("snapshot", *arguments, status=FAILED, says=says)
    assert [one["snapshot"] for one in frostline.ok("snapshot", "list")["snapshots"]] == ["first"]
    assert sorted(one["index"] for one in frostline.ok("index", "list")["indices"]) == ["app", "web"]


def test_a_data_stream_is_restored_with_its_indices(frostline):
    server = Server(frostline)
    template = {"index_patterns": ["logs-*"], "data_stream": {}}
    assert server.ask("PUT", "/_index_template/logs", template)[0] == 200
    for at in ["2024-05-01T00:00:00Z", "2024-05-02T00:00:00Z"]:
        assert server.ask("POST", "/logs-app/_doc", {"@timestamp": at})[0] == 201
    assert server.ask("POST", "/logs-app/_rollover")[0] == 200
    made = frostline.ok("snapshot", "create", "first")
    assert made["data_streams"] == ["logs-app"] and len(made["indices"]) == 2
    frostline.fails("snapshot", "restore", "first", says=["there is logs-app already", "--rename logs-app=OTHER"])
    done = frostline.ok("snapshot", "restore", "first", "--rename", "logs-app=logs-old")
    assert {one["data_stream"] for one in done["indices"]} == {"logs-old"}
    streams = json.loads(server.ask("GET", "/_data_stream/logs-*")[2])["data_streams"]
    assert [(one["name"], len(one["indices"])) for one in streams] == [("logs-app", 2), ("logs-old", 2)]
    assert json.loads(server.ask("GET", "/logs-old/_count")[2])["count"] == 2
    # It is written to as any other.
    assert server.ask("POST", "/logs-old/_doc", {"@timestamp": "2024-05-03T00:00:00Z"})[0] == 201
    assert server.stop() == DONE
