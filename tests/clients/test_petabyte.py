"""`frostline bench petabyte`: searches over many splits, of which a few are really there."""

import pytest

from frostline import Frostline

SPLITS = 100
SMALL = ("--splits", SPLITS, "--documents", 500, "--runs", 1)


@pytest.fixture(scope="module")
def measured(binary, tmp_path_factory):
    """A small run, which checks every answer itself, and its page."""
    folder = tmp_path_factory.mktemp("petabyte")
    frostline = Frostline(binary, folder / "unused", folder / "data")
    report = frostline.ok("bench", "petabyte", *SMALL, "--keep", folder, "--html", folder / "page.html")
    return report, (folder / "page.html").read_text()


def figures(report, what, first):
    cells = [c for c in report["cells"] if c["what"] == what and c["pass"] == ("first" if first else "repeat")]
    return {cell["design"]: cell["median"] for cell in cells}


def of(report, what, design):
    return tuple(figures(report, what, first)[design] for first in (True, False))


def test_segments_tell_where_a_term_is_before_any_split_is_opened(measured):
    for what, splits in [("needle in no split", 0), ("needle in 1 split", 1), ("needle in 5 splits", 5), ("needle in 40 splits", 40)]:
        first, again = of(measured[0], what, "needle segments")
        assert first["splits"] == again["splits"] == splits and first["pages"] == 1, what
        assert again["gets"] == again["bytes_fetched"] == 0, what
        assert first["gets"] >= 1 + 2 * splits, what
    first, _ = of(measured[0], "two terms in one document", "needle segments")
    assert first["splits"] == 5, "either term alone is in more"
    # Requests that are late because the machine is busy are sent twice, so only repeats are exact here.
    repeats = [check for check in measured[0]["checks"] if check["what"].endswith("repeat: GETs")]
    assert len(repeats) == 3 and all(check["holds"] for check in repeats)


def test_without_segments_every_split_is_opened(measured):
    first, again = of(measured[0], "needle in no split", "every split opened")
    # Splits that are read: of some, what was unpacked and stays in memory tells.
    assert first["splits"] == SPLITS > again["splits"] and first["pages"] == 0
    assert first["gets"] >= 2 * SPLITS and first["rounds"] >= 2
    assert again["gets"] == again["bytes_fetched"] == 0


def test_time_rules_splits_out(measured):
    anywhere, _ = of(measured[0], "needle in 5 splits", "every split opened")
    late, _ = of(measured[0], "needle in 5 splits, last quarter of the time", "every split opened")
    assert 5 <= late["splits"] < anywhere["splits"] / 4


def test_catalog_and_published_design_are_measured_beside(measured):
    report, page = measured
    steps = {(step["what"], step["design"]): step["median"] for step in report["steps"]}
    for design in ["needle segments", "every split opened"]:
        assert steps["commit one more split", design]["puts"] == 1
        assert steps["open catalog and segments", design]["gets"] < 30
    assert steps["of which segments", "needle segments"]["gets"] >= report["segments"]["segments"] == 1
    regions = steps["fetch the first region of each split", "whole regions"]
    assert regions["bytes_used"] == report["data_bytes"] <= regions["bytes_fetched"] and regions["gets"] >= SPLITS
    for judged in report["judged"]:
        assert 1 / 3 < judged["published_ms"] / judged["modelled_ms"] < 3
    for cell in report["cells"]:
        assert cell["what"] in page


@pytest.mark.parametrize(
    "options, says",
    [
        (("--splits", 99), "99"),
        (("--documents", 10), "10"),
        (("--runs", 0), "measures nothing"),
        (("--splits", 100, "--runs", 11), "a tenth"),
        (("--profile", "wishful"), "wishful"),
    ],
)
def test_what_cannot_be_measured_is_refused(binary, tmp_path, options, says):
    frostline = Frostline(binary, tmp_path / "unused", tmp_path / "data")
    frostline.fails("bench", "petabyte", "--keep", tmp_path, *options, says=[says])
