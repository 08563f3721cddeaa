"""`frostline search` through a server prints what it prints of the repository."""

import json
import subprocess

import pytest

from frostline import DONE, PARTIAL
from server import Server, documents


@pytest.fixture
def served(frostline):
    frostline.ingest("logs-web", documents())
    server = Server(frostline)
    yield frostline, server
    assert server.stop() == 0


def plain(outcome):
    """Without what differs from one run to the next."""
    assert outcome.status == DONE, outcome
    answer = outcome.json
    for name in ("took", "cost"):
        answer.pop(name)
    return answer


QUESTIONS = [
    ["status:404"],
    ["status:404", "--size", "3", "--from", "2", "--sort", "n:desc", "--source", "n,host.name"],
    ["message:user3", "--since", "2024-05-01T00:30:00Z", "--until", "2024-05-01T00:31:00Z"],
    ["--body", '{"size":0,"aggs":{"hosts":{"terms":{"field":"host.name"}},"max":{"max":{"field":"n"}}}}'],
    ["--strict", "--no-result-cache", "nothing:here"],
]


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_a_server_answers_as_the_repository_does(served, question):
    frostline, server = served
    direct = frostline.run("search", "--index", "logs-*", *question)
    through = frostline.run("search", "--server", server.url, "--index", "logs-*", *question)
    assert plain(through) == plain(direct)


@pytest.mark.parametrize("question", [
    ["x", "--index", "none*"],
    ["--all", "--index", "none*"],
    ["--all", "--index", "none*,non*"],
    ["status:404", "--index", "none*,logs-web", "--source", "n,hots.name,host"],
    ["status:404", "--index", "logs-web", "--all", "--source", "n,stats"],
], ids=str)
def test_a_server_is_as_loud_as_the_repository(served, question):
    """Exit statuses and notes are the same."""
    frostline, server = served

    def told(*through):
        command = [word for word in frostline.command("search", *through, *question) if word != "--json"]
        done = subprocess.run(command, env=frostline.clean_environment(), capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, [line for line in done.stderr.splitlines() if "no document has" in line], done.stderr

    direct, through = told(), told("--server", server.url)
    assert through[:3] == direct[:3]
    if direct[0] == DONE:
        assert len(direct[2]) == 1, direct
    else:
        assert "non" in direct[3] and "non" in through[3], (direct, through)


def test_a_server_is_configured_by_the_environment_and_needs_no_repository(served, tmp_path):
    frostline, server = served
    command = [word for word in frostline.command("search", "--index", "logs-web", "status:500")]
    at = command.index("--repo")
    del command[at : at + 2]
    environment = {**frostline.clean_environment(), "FROSTLINE_SERVER": server.url}
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60)
    assert done.returncode == DONE, done.stderr
    assert json.loads(done.stdout)["hits"]["total"]["value"] == len([n for n in range(5_000) if n % 3 == 2])
    # A repository that is typed is read itself.
    environment["FROSTLINE_SERVER"] = "http://127.0.0.1:1"
    frostline.environment["FROSTLINE_SERVER"] = "http://127.0.0.1:1"
    assert frostline.run("search", "--index", "logs-web", "status:500").status == DONE


def test_everything_is_written_in_the_order_of_time(served):
    frostline, server = served
    command = [word for word in frostline.command("search", "--server", server.url, "--index", "logs-web", "status:404", "--all") if word != "--json"]
    done = subprocess.run(command, env=frostline.clean_environment(), capture_output=True, timeout=60)
    assert done.returncode == DONE, done.stderr
    numbers = [json.loads(line)["n"] for line in done.stdout.splitlines()]
    assert numbers == [n for n in range(5_000) if n % 3 == 1]


def test_refusals_say_what_to_do(frostline):
    frostline.ingest("logs-web", documents())
    server = Server(frostline, "--auth")
    asked = ("search", "--server", server.url, "--index", "logs-web", "status:404")
    frostline.fails(*asked, says=["--api-key-file"])
    key = frostline.data.parent / "key"
    key.write_text(server.first_key)
    assert frostline.ok(*asked, "--api-key-file", key)["hits"]["total"]["value"] > 0
    frostline.fails("search", "--server", server.url, "--api-key-file", key, "--index", "none", "x", says=["no such index [none]"])
    frostline.fails("search", "--server", server.url, "--api-key-file", key, "--index", "logs-web", "n:(", says=["query_string"])
    frostline.fails("search", "--server", "http://127.0.0.1:1", "--index", "logs-web", "x", says=["cannot ask http://127.0.0.1:1"])
    frostline.fails("search", "--server", "127.0.0.1", "--index", "logs-web", "x", says=["http://HOST:PORT"])
    frostline.fails("explain", "--server", server.url, "--index", "logs-web", "x", says=["leave out --server"])
    assert server.stop() == 0


def test_the_time_of_documents_is_the_one_of_the_index(frostline):
    frostline.ingest("own", ({"ts": f"2024-05-01T00:{n:02}:00Z", "@timestamp": f"2020-01-01T00:{n:02}:00Z", "n": n} for n in range(60)), "--time-field", "ts")
    server = Server(frostline)
    for bounds in (["--since", "2024-05-01T00:30:00Z"], ["--until", "2024-05-01T00:30:00Z"]):
        direct = frostline.run("search", "--index", "own", *bounds)
        through = frostline.run("search", "--server", server.url, "--index", "own", *bounds)
        assert plain(direct)["hits"]["total"]["value"] == 30
        assert plain(frostline.run("search", "--index", "own", *bounds)) == plain(through)
    assert server.stop() == 0


def test_no_path_leads_to_other_indices_and_large_documents_come_in_smaller_pages(served):
    frostline, server = served
    for index in (".", "..", "../x", "a\\..", ".."):
        frostline.fails("search", "--server", server.url, "--index", index, "x")
    frostline.ingest("large", ({"n": n, "text": "x" * 90_000} for n in range(900)))
    command = [word for word in frostline.command("search", "--server", server.url, "--index", "large", "--all") if word != "--json"]
    done = subprocess.run(command, env=frostline.clean_environment(), capture_output=True, timeout=120)
    assert done.returncode == DONE, done.stderr
    assert sorted(json.loads(line)["n"] for line in done.stdout.splitlines()) == list(range(900))
    body = json.dumps({"pit": {"id": "x"}})
    frostline.fails("search", "--server", server.url, "--index", "large", "--body", body)


def test_documents_behind_a_page_that_cannot_be_read_are_written(frostline):
    for part in range(4):
        frostline.ingest("torn", ({"@timestamp": f"2024-05-0{part + 1}T00:00:00Z", "n": part * 1_200 + n} for n in range(1_200)))
    first = min(frostline.ok("index", "show", "torn")["splits"], key=lambda split: split["time_min"])
    (frostline.repo / first["object"]).rename(frostline.data.parent / "gone")
    server = Server(frostline)
    for through in ([], ["--server", server.url]):
        command = [word for word in frostline.command("search", *through, "--index", "torn", "--all") if word != "--json"]
        done = subprocess.run(command, env=frostline.clean_environment(), capture_output=True, timeout=120)
        assert done.returncode == PARTIAL, done.stderr
        written = sorted(json.loads(line)["n"] for line in done.stdout.splitlines())
        assert written == list(range(1_200, 4_800))
        # A page is full, too.
        page = frostline.run("search", *through, "--index", "torn", "--sort", "@timestamp:asc", "--size", "7")
        assert page.status == PARTIAL and len(page.json["hits"]["hits"]) == 7, page
    assert server.stop() == 0


def test_an_error_points_at_its_place_through_a_server_too(served):
    frostline, server = served
    told = [frostline.fails("search", *through, "--index", "logs-web", "status:404 AND (n:1") for through in [(), ("--server", server.url)]]
    pointing = [said.splitlines()[-2:] for said in told]
    assert pointing[0] == pointing[1] and pointing[0][1].strip() == "^"


def test_no_time_has_no_unit(served):
    _, server = served
    status, _, body = server.ask("POST", "/logs-web/_async_search?wait_for_completion_timeout=0&keep_on_completion=true", {})
    assert status == 200 and json.loads(body)["id"]
