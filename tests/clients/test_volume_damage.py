"""What a lost pack of a volume costs, by the command."""

import os
import subprocess

from frostline import DONE, PARTIAL


def test_a_lost_pack_costs_the_files_that_need_it_and_is_made_good_by_the_next_snapshot(frostline, tmp_path):
    source, target, later = tmp_path / "source", tmp_path / "target", tmp_path / "later"
    source.mkdir()
    for number in range(3):
        (source / f"f{number}").write_bytes(os.urandom(20_000_000))
    os.link(source / "f2", source / "link")
    frostline.ok("volume", "snapshot", source, "--name", "data")
    packs = sorted(frostline.repo.glob("_volumes/data/*/*.pack"))
    assert len(packs) == 2
    held = packs[1].read_bytes()
    packs[1].unlink()
    lost = str(packs[1].relative_to(frostline.repo))

    verified = frostline.run("volume", "verify")
    restored = frostline.run("volume", "restore", "data", target)
    assert verified.status == restored.status == PARTIAL
    damaged = {fault["file"] for fault in restored.json["faults"]}
    assert damaged == {fault["file"] for fault in verified.json["faults"] if "file" in fault} | {"link"}
    assert {fault["object"] for fault in restored.json["faults"]} == {lost}
    there = {path.name for path in target.iterdir()}
    assert there == {"f0", "f1", "f2", "link", ".frostline-restore"} - damaged
    assert (target / "f0").read_bytes() == (source / "f0").read_bytes()
    told = as_text(frostline, "volume", "restore", "data", target, status=PARTIAL)
    assert lost in told and told.count(lost) == 1 and "\n  f2 at " in told and "range=" not in told

    # Nothing changed, and yet it is stored again.
    taken = frostline.ok("volume", "snapshot", source, "--name", "data")
    assert taken["lost"] == [lost] and taken["totals"]["stored_bytes"] > len(held) / 2
    assert frostline.ok("volume", "snapshot", source, "--name", "data")["lost"] == []
    assert frostline.ok("volume", "restore", "data", later)["faults"] == []
    for name in ("f0", "f1", "f2", "link"):
        assert (later / name).read_bytes() == (source / name).read_bytes()
    # The first restore goes on when the pack is back.
    packs[1].write_bytes(held)
    first = frostline.ok("volume", "list")["snapshots"][0]["name"]
    assert frostline.ok("volume", "restore", first, target)["found_bytes"] == 20_000_000
    assert {path.name for path in target.iterdir()} == {"f0", "f1", "f2", "link"}


def test_a_volume_that_is_not_there_is_told(frostline, tmp_path):
    (tmp_path / "source").mkdir()
    frostline.ok("volume", "snapshot", tmp_path / "source", "--name", "data")
    for arguments in (["list", "other"], ["prune", "--keep-last", "1", "--name", "other"]):
        frostline.fails("volume", *arguments, says=["there is no snapshot of volume other; volumes: data"])
    for arguments in (["list"], ["show", "data"], ["diff", "data@1", "data"]):
        assert "requests" in as_text(frostline, "volume", *arguments)


def test_the_key_is_offered_where_it_has_an_effect(frostline):
    for command in ("key", "list", "prune", "umount", "status", "plan"):
        assert "--key-file" not in as_text(frostline, "volume", command, "--help"), command
    for command in ("snapshot", "show", "diff", "verify", "restore", "mount"):
        assert "--key-file" in as_text(frostline, "volume", command, "--help"), command


def as_text(frostline, *arguments, status=DONE):
    """What a command says to people."""
    command = [word for word in frostline.command(*arguments) if word != "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=frostline.clean_environment(), timeout=600)
    assert done.returncode == status, done
    return done.stdout + done.stderr
