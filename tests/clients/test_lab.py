"""`lab` on directories that a person names: what is measured, what is refused, and that nothing is left."""

import json
import os
import shutil
import signal
import subprocess

import pytest

from frostline import DONE, PARTIAL, STOPPED

pytestmark = pytest.mark.skipif(shutil.which("fio") is None, reason="fio is missing: apt-get install fio")

# As little as the command takes.
SHORT = ("--as", "log", "--data-mib", "64", "--watch", "12", "--step", "1")


@pytest.fixture
def volumes(tmp_path):
    """Two directories with a file that is somebody's."""
    paths = [tmp_path / "mnt" / name for name in "ab"]
    for path in paths:
        path.mkdir(parents=True)
        (path / "precious").write_text("kept")
    return paths


def is_untouched(path):
    return [entry.name for entry in path.iterdir()] == ["precious"]


def started(frostline, *arguments):
    return subprocess.Popen(
        frostline.command("lab", *arguments), env=frostline.clean_environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )


def until_it_writes(process, path):
    """Waits for the lab's own folder in the directory."""
    while is_untouched(path):
        assert process.poll() is None, process.communicate()
        os.sched_yield()


def test_a_directory_is_measured_while_another_disappears(frostline, volumes, tmp_path):
    a, b = volumes
    page = tmp_path / "page.html"
    process = started(frostline, "measure", a, b, *SHORT, "--price", "gp3:10GiB", "--html", page)
    until_it_writes(process, a)
    shutil.rmtree(b)
    stdout, stderr = process.communicate()
    assert process.returncode == PARTIAL, stderr
    measured, gone = json.loads(stdout)["paths"]
    assert str(b) in gone["failed"] and str(b) in stderr
    assert measured["failed"] is None and measured["watched"]["sustained"]["iops"] > 0
    # The limit and eight loads below it, or more where the knee needed them.
    assert len(measured["points"]) >= 9 and len(measured["rounds"]) >= 10
    assert all(0 < point["p50_ms"] <= point["p99_ms"] for point in measured["points"])
    assert measured["cost"]["usd_per_month"] == pytest.approx(0.8)
    assert str(a) in page.read_text()
    assert is_untouched(a) and not b.exists()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_after_a_signal(frostline, volumes, end):
    a, _ = volumes
    process = started(frostline, "measure", a, *SHORT)
    until_it_writes(process, a)
    process.send_signal(end)
    _, stderr = process.communicate()
    if end == signal.SIGKILL:
        assert not is_untouched(a)
        assert frostline.ok("lab", "clean")["undone"]
    else:
        assert process.returncode == STOPPED and "stopped" in stderr, stderr
    assert is_untouched(a)


def test_what_cannot_be_measured_is_named(frostline, volumes):
    a, _ = volumes
    refused = [
        ([a, "/nonexistent"], "/nonexistent"),
        ([a, a], "are the same directory"),
        ([a / "precious"], "is not a directory"),
        ([a, "--data-mib", "100000000"], "is full"),
        ([a, "--price", "gp4"], "no volume class `gp4`"),
        ([a, "--html", a / "none" / "page.html"], "cannot write"),
    ]
    if os.path.ismount("/dev/shm"):
        refused.append((["/dev/shm"], "in memory"))
    for arguments, says in refused:
        frostline.fails("lab", "measure", *arguments, "--as", "postgres", says=[says])
    assert is_untouched(a)


STUDY = """
name = "mine"
title = "Two directories"
[[factors]]
name = "at"
means = "directory"
levels = ["A", "B"]
[setups.mine]
place = "path"
path = "{at}"
[workloads.read]
tool = "fio"
data_mib = 4
layout = "--name=layout --filename={directory}/data --size={data_mib}m --rw=write --end_fsync=1"
arguments = "--name=read --filename={directory}/data --size={data_mib}m --rw=randread --bs=64k"
[[cells]]
name = "all"
levels = { at = ["A", "B"] }
setup = "mine"
workload = "read"
[quick]
cells = ["all"]
seconds = 1
blocks = [2, 2]
"""


def test_a_study_measures_directories_in_turn(frostline, volumes, tmp_path):
    a, b = volumes
    study = tmp_path / "mine.toml"
    study.write_text(STUDY.replace('"A"', f'"{a}"').replace('"B"', f'"{b}"'))
    run = frostline.ok("lab", "run", study, "--quick")
    assert [len(cell["measured"]["mib_per_s"]["values"]) for cell in run["cells"]] == [2, 2]
    assert is_untouched(a) and is_untouched(b)
    outcome = frostline.run("lab", "plan", study, "--quick")
    assert outcome.status == DONE and [cell["why"] for cell in outcome.json["cells"]] == [f"in {a}", f"in {b}"]


def test_a_device_is_not_overwritten_unless_named(frostline, tmp_path):
    study = tmp_path / "device.toml"
    text = STUDY.replace('place = "path"', 'place = "device"').replace('path = "{at}"', 'device = "{at}"')
    study.write_text(text.replace('"A"', '"/dev/null"').replace('"B"', '"/dev/none"'))
    stops = frostline.run("lab", "plan", study, "--quick").json["stops"]
    assert stops is None or "/dev/null is not a block device" in stops
    frostline.fails("lab", "run", study, "--quick", "--destroy", "/dev/none", says=["/dev/null" if os.geteuid() == 0 else "root"])


def until_samples(process, run, count):
    """Waits for so many samples in the folder of a run."""
    samples = run / "samples.ndjson"
    while not samples.exists() or samples.read_text().count("\n") < count:
        assert process.poll() is None, process.communicate()
        os.sched_yield()


def test_a_run_is_resumed_when_its_directory_is_there_again(frostline, volumes, tmp_path):
    a, b = volumes
    study, run = tmp_path / "mine.toml", tmp_path / "run"
    study.write_text(STUDY.replace('"A"', f'"{a}"').replace('"B"', f'"{b}"').replace("[2, 2]", "[4, 4]"))
    process = started(frostline, "run", study, "--quick", "--out", run)
    until_samples(process, run, 3)
    b.rename(b.with_name("gone"))
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate()
    assert process.returncode == STOPPED and f"`frostline lab run --resume {run}` continues" in stderr, stderr
    # It could not reach its folder there, and says so.
    assert f"cannot undo the folder {b}/.frostline-lab-" in stderr and "`frostline lab clean`" in stderr, stderr
    taken = (run / "samples.ndjson").read_text()
    frostline.fails("lab", "run", "--resume", run, says=[str(b)])
    assert is_untouched(a)
    b.with_name("gone").rename(b)
    resumed = frostline.ok("lab", "run", "--resume", run)
    assert (run / "samples.ndjson").read_text().startswith(taken) and resumed["complete"]
    measured = [len(cell["measured"]["mib_per_s"]["values"]) for cell in resumed["cells"]]
    assert sum(measured) + sum(cell["voided"] for cell in resumed["cells"]) == 8, resumed["cells"]
    assert measured[0] == 4 and is_untouched(a)
    left = [entry.name for entry in b.iterdir() if entry.name != "precious"]
    assert len(left) == 1 and left[0].startswith(".frostline-lab-")
    assert frostline.ok("lab", "clean") == {"undone": [f"folder {b / left[0]}"], "stuck": []}
    assert is_untouched(b)


EMULATED = """
name = "emulated"
title = "Two sets of emulated volumes"
[[factors]]
name = "volumes"
means = "volumes"
levels = ["1x500GiB", "1x600GiB"]
[setups.emulated]
place = "volumes"
class = "gp3"
volumes = "{volumes}"
device_mib = 64
make = ["mkfs.ext4 -q -F {device}"]
file_system = "ext4"
[workloads.read]
tool = "fio"
data_mib = 4
layout = "--name=layout --filename={directory}/data --size={data_mib}m --rw=write --end_fsync=1"
arguments = "--name=read --filename={directory}/data --size={data_mib}m --rw=randread --bs=64k --direct=1"
[[cells]]
name = "all"
levels = { volumes = ["1x500GiB", "1x600GiB"] }
setup = "emulated"
workload = "read"
[quick]
cells = ["all"]
seconds = 1
blocks = [3, 3]
"""


@pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="emulated volumes need root and FUSE")
def test_volumes_whose_server_dies_are_made_again_and_the_others_go_on(frostline, tmp_path):
    study, run = tmp_path / "emulated.toml", tmp_path / "run"
    study.write_text(EMULATED)
    process = started(frostline, "run", study, "--quick", "--out", run)
    # Both are made in the first block.
    until_samples(process, run, 2)
    servers = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = open(f"/proc/{pid}/cmdline", "rb").read().decode().split("\0")
        except OSError:
            continue
        if "serve-volume" in command and str(frostline.data) in " ".join(command):
            servers[next(part for part in " ".join(command).split("/") if part.startswith("rig"))] = int(pid)
    assert sorted(servers) == ["rig0", "rig1"]
    os.kill(servers["rig1"], signal.SIGKILL)
    stdout, stderr = process.communicate()
    assert process.returncode == DONE, stderr
    ended = json.loads(stdout)
    # At most the sample that was being taken is void.
    voided = [cell["voided"] for cell in ended["cells"]]
    assert sum(voided) <= 1 and "new emulated volumes: the process that served the others ended" in stderr, (ended, stderr)
    assert [len(cell["measured"]["mib_per_s"]["values"]) for cell in ended["cells"]] == [3 - void for void in voided]
    notes = [note for cell in ended["cells"] for note in cell["notes"]]
    assert len(notes) == sum(voided), notes
    assert all("the process that served the emulated volumes ended" in note for note in notes), notes
    assert frostline.ok("lab", "clean")["undone"] == []
    assert not [line for line in open("/proc/self/mounts") if str(tmp_path) in line]
