"""Encrypted volumes by the command."""


def test_a_volume_is_encrypted_with_the_key_of_a_file(frostline, tmp_path):
    source, key, other = tmp_path / "source", tmp_path / "key", tmp_path / "other"
    source.mkdir()
    (source / "a-secret-name").write_text("a secret word, " * 1000)
    made = frostline.ok("volume", "key", key)
    assert key.stat().st_mode & 0o777 == 0o600
    frostline.fails("volume", "key", key, says=[str(key), "already exists"])
    taken = frostline.ok("volume", "snapshot", source, "--name", "data", "--key-file", key)
    assert taken["key"] == made["key"] and taken["directory"] == taken["host"] == ""
    stored = b"".join(path.read_bytes() for path in frostline.repo.rglob("*") if path.is_file())
    assert b"secret" not in stored and key.read_bytes()[-65:-1] not in stored
    frostline.ok("volume", "restore", "data", tmp_path / "target", "--key-file", key)
    assert (tmp_path / "target" / "a-secret-name").read_text() == (source / "a-secret-name").read_text()
    assert frostline.ok("volume", "verify", "--key-file", key)["faults"] == []
    assert frostline.ok("volume", "show", "data")["key"] == made["key"]
    frostline.ok("volume", "prune")
    frostline.ok("volume", "key", other)
    for given, says in [((), "--key-file"), (("--key-file", other), "the one that was given")]:
        frostline.fails("volume", "restore", "data", tmp_path / "none", *given, says=[made["key"], says])
        frostline.fails("volume", "snapshot", source, "--name", "data", *given, says=[made["key"], says])
    frostline.fails("volume", "verify", "--key-file", source / "a-secret-name", says=["a-secret-name", "is not a key"])
    assert not (tmp_path / "none").exists()
