"""Mounts by the command."""
import os
from pathlib import Path

import pytest


@pytest.mark.skipif(os.geteuid() != 0 or not Path("/dev/fuse").exists(), reason="a mount needs root and /dev/fuse")
def test_a_mount_ends_that_is_taken_off_before_it_is_there(frostline, tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for n in range(20_000):
        (source / f"file-{n}").write_bytes(b"x")
    frostline.ok("volume", "snapshot", source, "--name", "data")
    with frostline.start("volume", "mount", "data", target) as mount:
        # All names are made before anything is mounted.
        while not (tmp_path / ".target.frostline-mount" / "mount.json").exists():
            assert mount.poll() is None
        assert not os.path.ismount(target)
        with frostline.start("volume", "umount", target) as umount:
            assert umount.wait(120) == 0
        assert mount.wait(120) == 0
    assert not os.path.ismount(target)


@pytest.mark.skipif(os.geteuid() != 0 or not Path("/dev/fuse").exists(), reason="a mount needs root and /dev/fuse")
def test_a_mount_outlives_its_terminal(frostline, tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (source / "file").write_bytes(os.urandom(3 << 20))
    frostline.ok("volume", "snapshot", source, "--name", "data")
    with frostline.start_at_a_terminal("volume", "mount", "data", target, "--no-hydrate") as (mount, terminal):
        while not os.path.ismount(target):
            assert mount.poll() is None
        # SIGHUP is sent before this returns, and what is not ignored is in effect before the next read is answered.
        terminal.close()
        assert (target / "file").read_bytes() == (source / "file").read_bytes()
        assert os.path.ismount(target) and mount.poll() is None
        frostline.run("volume", "umount", target)
        assert mount.wait(120) == 0
