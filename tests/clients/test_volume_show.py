"""What a snapshot has, and the restore of a part of it, by the command."""

import os

from frostline import MISUSED
from test_volume_damage import as_text


def test_files_are_listed_as_ls_does(frostline, tmp_path):
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub/file").write_bytes(b"12345")
    (source / "link").symlink_to("sub/file")
    os.link(source / "sub/file", source / "z")
    os.chmod(source / "sub/file", 0o4750)
    os.utime(source / "sub/file", ns=(0, 1_700_000_000_123_456_789))
    frostline.ok("volume", "snapshot", source, "--name", "data")

    lines = as_text(frostline, "volume", "show", "data", "--files").splitlines()
    ids = f" {os.getuid():5} {os.getgid():5} "
    assert f"-rwsr-x---{ids}           5 2023-11-14T22:13:20Z sub/file" in lines
    assert f"hrwsr-x---{ids}           0 2023-11-14T22:13:20Z z link to sub/file" in lines
    assert any(line.startswith(f"lrwxrwxrwx{ids}") and line.endswith("Z link -> sub/file") for line in lines)
    entries = {entry["path"]: entry for entry in frostline.ok("volume", "show", "data", "--files")["entries"]}
    assert entries["sub/file"] == {
        "path": "sub/file", "kind": "file", "bytes": 5, "mode": "4750", "uid": os.getuid(), "gid": os.getgid(),
        "modified": "2023-11-14T22:13:20.123456789Z",
    }
    assert entries["z"]["target"] == "sub/file"


def test_a_part_of_a_snapshot_is_restored(frostline, tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "etc").mkdir(parents=True)
    for name in ("etc/a.conf", "etc/b.conf", "etc/c.log", "d"):
        (source / name).write_text(name)
    frostline.ok("volume", "snapshot", source, "--name", "data")
    options = ["--include", "/etc/", "--exclude", "*.log", "--exclude", "b*"]
    restored = frostline.ok("volume", "restore", "data", target, *options)
    assert restored["include"] == ["/etc/"] and restored["exclude"] == ["*.log", "b*"]
    assert restored["entries"] == 3 and restored["files"] == 1
    assert sorted(str(path.relative_to(target)) for path in target.rglob("*")) == ["etc", "etc/a.conf"]
    none = tmp_path / "none"
    frostline.fails("volume", "restore", "data", none, "--include", "etc/*.cfg", says=["etc/*.cfg", "matches nothing in data@1"])
    assert not none.exists()
    told = as_text(frostline, "volume", "restore", "data", none, "--include", "d")
    assert "2 of the 6 entries of data@1 are in" in told


def test_a_prune_tells_what_stays_and_why(frostline, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for _ in range(3):
        frostline.ok("volume", "snapshot", source, "--name", "data")
    keep = ["--keep-last", "1", "--keep-monthly", "1"]
    told = as_text(frostline, "volume", "prune", *keep, "--dry-run").splitlines()
    rows = [line.split(maxsplit=3) for line in told if line.startswith("data@")]
    assert [(row[0], row[2]) for row in rows] == [("data@1", "remove"), ("data@3", "remove"), ("data@5", "keep")]
    assert rows[-1][3].strip() == "last snapshot, monthly snapshot"
    assert len(frostline.ok("volume", "list")["snapshots"]) == 3
    pruned = frostline.ok("volume", "prune", *keep, "--name", "data")
    assert [of["reasons"] for of in pruned["decisions"]] == [[], [], ["last snapshot", "monthly snapshot"]]
    assert [of["name"] for of in frostline.ok("volume", "list")["snapshots"]] == ["data@5"]
    frostline.fails("volume", "prune", "--name", "data", status=MISUSED, says=["--keep-last"])
    frostline.fails("volume", "prune", "--keep-weekly", "0", says=["keeps at least one"])
