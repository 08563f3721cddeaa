"""The description of the server's API, and requests that schemathesis draws from it."""

import json
import os

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from server import Server, documents

# Requests of each operation; by hand thousands: FROSTLINE_TEST_DRAWN=1000.
DRAWN = int(os.environ.get("FROSTLINE_TEST_DRAWN", "3"))
# A request that takes longer hangs.
HANGS_S = 30
# What Elasticsearch does and the server does not: the answer says so.
NOT_YET = 501


@schemathesis.serializer("application/x-ndjson")
def lines_of_json(_context, value):
    """Some lines that are read, before what was drawn."""
    return b'{"index":{"_index":"web"}}\n{"a":1}\n' + str(value).encode("utf-8", "replace") + b"\n"


@pytest.fixture(scope="module")
def described(binary, tmp_path_factory):
    """A server of its own, since the requests may delete everything, and its description."""
    from frostline import Frostline

    folder = tmp_path_factory.mktemp("openapi")
    frostline = Frostline(binary, folder / "repo", folder / "data")
    server = Server(frostline)
    lines = "".join(json.dumps({"index": {"_id": str(d["n"])}}) + "\n" + json.dumps(d) + "\n" for d in list(documents())[:200])
    assert server.ask("POST", "/web/_bulk", lines.encode(), {"Content-Type": "application/x-ndjson"})[0] == 200
    yield server, schemathesis.openapi.from_url(f"{server.url}/_openapi.json")
    assert server.stop() == 0


def test_the_description_is_openapi_and_names_what_is_answered(described):
    server, schema = described
    schema.validate()
    operations = [operation.ok() for operation in schema.get_all_operations()]
    assert len(operations) > 150
    assert {"/{index}/_search", "/_bulk", "/_tasks/{task_id}/_cancel"} <= {operation.path for operation in operations}


def test_no_drawn_request_is_an_error_of_the_server(described):
    server, schema = described
    failed = []
    for result in schema.get_all_operations():
        operation = result.ok()

        @given(case=operation.as_strategy(), data=st.data())
        @settings(max_examples=DRAWN, deadline=None, database=None, derandomize=DRAWN < 100,
                  suppress_health_check=list(HealthCheck), phases=[Phase.generate])
        def ask(case, data):
            # Names that mean something reach what names that mean nothing do not.
            for name, known in (("index", "web"), ("id", "7")):
                if name in (case.path_parameters or {}) and data.draw(st.booleans()):
                    case.path_parameters[name] = known
            answer = case.call(base_url=server.url, timeout=HANGS_S)
            if answer.status_code >= 500 and answer.status_code != NOT_YET:
                failed.append((answer.status_code, case.as_curl_command(), answer.text[:500]))

        ask()
    assert not failed, "\n".join(map(str, failed[:10]))
    assert server.ask("GET", "/ready")[0] == 200
