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


def test_every_split_is_opened_to_learn_that_it_has_no_such_term(measured):
    first = figures(measured[0], "needle in no split", True)["every split opened"]
    again = figures(measured[0], "needle in no split", False)["every split opened"]
    assert first["splits"] == again["splits"] == SPLITS
    assert first["gets"] >= 2 * SPLITS and first["rounds"] >= 2
    assert again["gets"] == again["bytes_fetched"] == 0


def test_time_rules_splits_out(measured):
    anywhere = figures(measured[0], "needle in 5 splits", True)["every split opened"]
    late = figures(measured[0], "needle in 5 splits, last quarter of the time", True)["every split opened"]
    assert 5 <= late["splits"] < anywhere["splits"] / 4


def test_catalog_and_published_design_are_measured_beside(measured):
    report, page = measured
    steps = {(step["what"], step["design"]): step["median"] for step in report["steps"]}
    assert steps["commit one more split", "every split opened"]["puts"] == 1
    assert steps["open the catalog", "every split opened"]["gets"] < 20
    regions = steps["fetch the first region of each split", "whole regions"]
    assert regions["bytes_fetched"] == report["data_bytes"] and regions["gets"] >= SPLITS
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
