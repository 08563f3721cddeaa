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
    ledger.note(Thing::Setting { file: setting.clone(), was: "old".into() }).expect("note");
    fs::write(&setting, "new").expect("write");
    ledger.undo_from(&Thing::Setting { file: setting.clone(), was: "old".into() }).expect("undo");
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
fn mount_points_are_unescaped() {
    assert_eq!(unescape("/a\\040b\\134c"), "/a b\\c");
}
