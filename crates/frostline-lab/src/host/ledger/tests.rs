use super::*;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[test]
fn undoes_in_reverse_and_leaves_nothing() {
    let folder = folder();
    let made = folder.path().join("made");
    let mut ledger = Ledger::open(&folder.path().join("live")).expect("open");
    ledger.note(Thing::Directory(made.clone())).expect("note");
    fs::create_dir(&made).expect("make");
    let setting = made.join("setting");
    fs::write(&setting, "old").expect("write");
    ledger.note(Thing::setting(setting.clone(), "old".into())).expect("note");
    fs::write(&setting, "new").expect("write");
    ledger.undo_from(&Thing::setting(setting.clone(), "old".into())).expect("undo");
    assert_eq!(fs::read_to_string(&setting).expect("read"), "old");
    ledger.close().expect("close");
    assert!(!made.exists());
    assert_eq!(fs::read_dir(folder.path().join("live")).expect("list").count(), 0);
}

#[test]
fn children_are_found_by_their_token_and_killed() {
    let folder = folder();
    let ledger = Ledger::open(folder.path()).expect("open");
    let mut child = ledger.command("sleep").arg("1000").spawn().expect("spawn");
    ledger.close().expect("close");
    // Killed by us, and perhaps reaped by us, too.
    assert!(child.try_wait().map_or(true, |status| status.is_some()));
}

#[test]
fn clean_undoes_what_a_dead_owner_left_and_nothing_of_a_live_one() {
    let folder = folder();
    let live = folder.path().join("live");
    let (dead_made, live_made) = (folder.path().join("dead"), folder.path().join("alive"));
    let mut alive = Ledger::open(&live).expect("open");
    alive.note(Thing::Directory(live_made.clone())).expect("note");
    fs::create_dir(&live_made).expect("make");
    fs::create_dir(&dead_made).expect("make");
    let owner = serde_json::json!({ "pid": std::process::id(), "started": 1, "token": "gone" });
    let thing = serde_json::to_string(&Thing::Directory(dead_made.clone())).expect("encode");
    // The last line is cut short, as by a kill.
    fs::write(live.join("gone.ndjson"), format!("{owner}\n{thing}\n{{\"loo")).expect("write");
    let (undone, stuck) = clean(&live).expect("clean");
    assert_eq!((undone.len(), stuck.len()), (1, 0));
    assert!(!dead_made.exists() && live_made.exists());
    assert!(!live.join("gone.ndjson").exists());
}

#[test]
fn a_missing_folder_is_clean() {
    assert_eq!(clean(Path::new("/nonexistent/frostline")).expect("clean"), (Vec::new(), Vec::new()));
}

#[test]
fn a_directory_stays_if_what_is_mounted_cannot_be_read() {
    let folder = folder();
    let precious = folder.path().join("precious");
    fs::write(&precious, "kept").expect("write");
    let unreadable = || Err(Error::denied("cannot read the mounts"));
    let error = remove_unmounted(folder.path(), unreadable).expect_err("refused");
    assert_eq!(error.kind(), frostline_base::ErrorKind::Denied);
    assert!(precious.exists());
    assert!(remove_unmounted(folder.path(), || Ok(Vec::new())).expect("removed"));
}

#[test]
fn of_another_boot_only_directories_are_left() {
    let folder = folder();
    let live = folder.path().join("live");
    fs::create_dir(&live).expect("make");
    let (made, setting) = (folder.path().join("made"), folder.path().join("setting"));
    fs::create_dir(&made).expect("make");
    fs::write(&setting, "of this boot").expect("write");
    let things = [Thing::Directory(made.clone()), Thing::setting(setting.clone(), "of another".into())]
        .map(|thing| serde_json::to_string(&thing).expect("encode"));
    let pid = std::process::id();
    let write = |boot: Option<String>| {
        // The same process, by number and time, of another boot.
        let owner =
            serde_json::json!({ "pid": pid, "started": start_time(pid), "token": "old", "boot": boot });
        fs::write(live.join("old.ndjson"), format!("{owner}\n{}\n{}\n", things[0], things[1]))
            .expect("write");
    };
    write(boot());
    assert_eq!(clean(&live).expect("clean"), (Vec::new(), Vec::new()), "its owner is alive");
    write(Some("00000000-0000-0000-0000-000000000000".to_owned()));
    let (undone, stuck) = clean(&live).expect("clean");
    assert_eq!((undone.len(), stuck.len()), (1, 0), "{undone:?}");
    assert!(!made.exists());
    assert_eq!(fs::read_to_string(&setting).expect("read"), "of this boot");
}

#[test]
fn a_setting_belongs_to_the_file_behind_the_device() {
    // As of a loop device in sysfs.
    let folder = folder();
    let device = folder.path().join("loop7");
    let (queue, backing) = (device.join("queue"), device.join("loop"));
    fs::create_dir_all(&queue).expect("make");
    fs::create_dir_all(&backing).expect("make");
    let write_cache = queue.join("write_cache");
    fs::write(backing.join("backing_file"), "/lab/a.img\n").expect("write");
    fs::write(&write_cache, "write through").expect("write");
    let noted = Thing::setting(write_cache.clone(), "write back".into());
    fs::write(backing.join("backing_file"), "/home/somebody/b.img\n").expect("write");
    assert!(!undo(&noted).expect("undo"), "the number is another device's now");
    assert_eq!(fs::read_to_string(&write_cache).expect("read"), "write through");
    fs::write(backing.join("backing_file"), "/lab/a.img\n").expect("write");
    assert!(undo(&noted).expect("undo"));
    assert_eq!(fs::read_to_string(&write_cache).expect("read"), "write back");
    // An entry of an earlier version has no file.
    let old: Thing = serde_json::from_str(r#"{"setting":{"file":"/x","was":"1"}}"#).expect("decode");
    assert_eq!(old, Thing::Setting { file: "/x".into(), was: "1".into(), behind: None });
}
