"""The pages of the lab and the doctor in a browser: an answer on at most six screens that a phone can show."""

import json
import subprocess
from pathlib import Path

import pytest

import browser

pytestmark = pytest.mark.skipif(browser.CHROMIUM is None, reason="chromium is missing: apt-get install chromium fonts-noto-cjk")

DATA = Path(__file__).resolve().parents[2] / "docs" / "studies" / "data"
SCREENS_MAX = 6

# Everything of a host that gives findings of each severity, with names in Korean.
HOST = {
    "proc/sys/vm/swappiness": "60\n",
    "proc/sys/vm/zone_reclaim_mode": "1\n",
    "proc/sys/net/core/somaxconn": "128\n",
    "sys/devices/system/cpu/online": "0-27\n",
    "proc/mounts": "/dev/sda1 /서버/로그 ext4 rw,nobarrier,data=writeback 0 0\n",
}


def committed():
    """Each run beside the studies' pages, and each measurement of volumes."""
    runs = sorted(path.parent for path in DATA.rglob("run.json"))
    return runs + sorted(DATA.glob("measure/*.json"))


@pytest.fixture
def looked_at(tmp_path):
    """Asserts that a page can be read."""

    def check(page):
        for dark in (False, True):
            for seen in browser.look(page, tmp_path, dark):
                where = f"{page.name}, {seen['width']} px, {'dark' if dark else 'light'}, {'Korean' if seen['korean'] else 'English'}"
                assert seen["dark"] == dark, f"{where}: the browser shows the other scheme"
                assert seen["screens"] <= SCREENS_MAX, f"{where}: {seen['screens']:.1f} screens"
                assert seen["tooWide"] <= 0, f"{where}: {seen['tooWide']} px too wide"
                for fault in ("small", "faint", "cut", "overlapping"):
                    assert not seen[fault], f"{where}, {fault}: {seen[fault][:10]}"

    return check


@pytest.mark.parametrize("run", committed(), ids=lambda path: path.name)
def test_the_page_of_a_run_can_be_read(frostline, looked_at, tmp_path, run):
    page = tmp_path / "page.html"
    frostline.ok("lab", "report", run, "--html", page)
    looked_at(page)


@pytest.mark.parametrize("study", ["warm-tier", "vm"])
def test_the_page_of_a_simulation_can_be_read(frostline, looked_at, tmp_path, study):
    page, run = tmp_path / "page.html", tmp_path / "run"
    frostline.ok("lab", "run", study, "--simulate", "--out", run)
    frostline.ok("lab", "report", run, "--html", page)
    looked_at(page)


@pytest.mark.parametrize("need", [
    "randread bs=128k p99<=20ms 300MiB/s",
    "randrw bs=64k,128k mix=83.3 2.5MiB/s peak=26.26MiB/s,2.03h",
])
def test_the_page_of_what_to_buy_can_be_read(frostline, looked_at, tmp_path, need):
    page = tmp_path / "page.html"
    frostline.ok("lab", "decide", "--need", need, "--capacity", "8TiB", "--html", page)
    looked_at(page)


def test_the_doctors_page_can_be_read(frostline, looked_at, tmp_path):
    page, host = tmp_path / "page.html", tmp_path / "host"
    for name, text in HOST.items():
        (host / name).parent.mkdir(parents=True, exist_ok=True)
        (host / name).write_text(text)
    # Without a repository it looks at the host.
    command = [frostline.binary, "--json", "doctor", "--root", host, "--role", "/서버/로그=log", "--html", page]
    done = subprocess.run(command, capture_output=True, env=frostline.clean_environment(), timeout=600)
    report = json.loads(done.stdout)
    assert {"high", "medium", "low"} <= {finding["severity"].lower() for finding in report["findings"]}
    assert "/서버/로그" in page.read_text()
    looked_at(page)
