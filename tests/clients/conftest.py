"""What all tests share: the built binary, and indices made once with DuckDB over the same documents."""

import os
import subprocess
from pathlib import Path

import pytest

import corpora
from frostline import Frostline

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def binary():
    """FROSTLINE_BIN, else the debug build."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    path = Path(os.environ.get("FROSTLINE_BIN") or target / "debug" / "frostline")
    if not path.is_file():
        pytest.exit(f"{path} is not there: run `cargo build -p frostline`, or set FROSTLINE_BIN", returncode=2)
    return path.resolve()


@pytest.fixture
def frostline(binary, tmp_path):
    """An empty repository of the test's own."""
    return Frostline(binary, tmp_path / "repo", tmp_path / "data")


@pytest.fixture(scope="session")
def session_frostline(binary, tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpora")
    return Frostline(binary, folder / "repo", folder / "data")


@pytest.fixture(scope="session")
def mixed(session_frostline, tmp_path_factory):
    """Generated documents with everything that makes types difficult."""
    path = tmp_path_factory.mktemp("mixed") / "mixed.ndjson"
    corpora.write_mixed(path)
    # Several splits, so that answers are put together from parts.
    session_frostline.ok("ingest", "--index", "mixed", "--format", "ndjson", "--split-bytes", "400KB", path)
    return corpora.Corpus(session_frostline, "mixed", path)


@pytest.fixture(scope="session")
def weblogs(session_frostline, tmp_path_factory):
    """A web server's log in the combined format."""
    log = tmp_path_factory.mktemp("weblogs") / "access.log"
    corpora.write_combined_log(log)
    return ingest_weblogs(session_frostline, "weblogs", log, log.with_suffix(".ndjson"))


@pytest.fixture(scope="session")
def real_weblogs(session_frostline, tmp_path_factory):
    """A real one; only corpora.found names it."""
    return ingest_weblogs(session_frostline, "real_weblogs", corpora.REAL["weblogs"], tmp_path_factory.mktemp("real") / "weblogs.ndjson")


def ingest_weblogs(frostline, index, log, path):
    corpora.write_combined_as_ndjson(log, path)
    frostline.ok("ingest", "--index", index, "--format", "combined", "--split-bytes", "500KB", log)
    return corpora.Corpus(frostline, index, path)


@pytest.fixture(scope="session")
def events(session_frostline, tmp_path_factory):
    """Security events with the traps of real ones."""
    path = tmp_path_factory.mktemp("events") / "events.ndjson"
    corpora.write_events(path)
    return ingest_events(session_frostline, "events", path)


@pytest.fixture(scope="session")
def real_events(session_frostline, tmp_path_factory):
    """Real ones: 20,000 that lie wide apart in the file, or all with FROSTLINE_TEST_ALL=1."""
    path = tmp_path_factory.mktemp("real") / "events.ndjson"
    corpora.unpack(corpora.REAL["events"], path, every=1 if os.environ.get("FROSTLINE_TEST_ALL") else 16)
    return ingest_events(session_frostline, "real_events", path)


def ingest_events(frostline, index, path):
    frostline.ok("ingest", "--index", index, "--format", "ndjson", "--split-bytes", "6MB", path)
    return corpora.Corpus(frostline, index, path)


@pytest.fixture(scope="session")
def corpus(request):
    """The corpus that a test's parameter names."""
    return lambda name: request.getfixturevalue(name)


@pytest.fixture(scope="session")
def s3(tmp_path_factory):
    """The environment of a running S3-compatible server."""
    folder = tmp_path_factory.mktemp("s3")
    script = ROOT / "tests" / "s3_server.sh"
    here = Path(os.sys.executable).parent
    environment = {**os.environ, "PATH": f"{here}:{os.environ['PATH']}", "S3_SERVER": os.environ.get("S3_SERVER", "moto")}
    lines = subprocess.run([script, "start", folder], env=environment, check=True, text=True, stdout=subprocess.PIPE).stdout
    yield dict(line.removeprefix("export ").split("=", 1) for line in lines.splitlines())
    subprocess.run([script, "stop", folder], check=True)
