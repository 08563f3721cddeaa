use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::testing::{Bench, noise, snapshot};
use crate::{RestoreOptions, Restored, Snapshot};

/// A server's directory as a snapshot has it, with two tablespaces.
async fn taken(bench: &Bench, source: &Path) -> Snapshot {
    for folder in ["pg_tblspc", "frostline_tablespaces/1/PG_15_1/5", "frostline_tablespaces/2/PG_15_1/5"] {
        fs::create_dir_all(source.join(folder)).unwrap();
    }
    for number in 1..=2_u64 {
        let folder = format!("../frostline_tablespaces/{number}");
        symlink(&folder, source.join(format!("pg_tblspc/{number}"))).unwrap();
        let file = source.join("pg_tblspc").join(&folder).join("PG_15_1/5/16384");
        fs::write(file, noise(number, 600_000)).unwrap();
    }
    fs::write(source.join(TABLESPACE_MAP), "1 /ssd/a b\n2 /ssd/back\\\\slash\n3 /not/here\n").unwrap();
    snapshot(&bench.volumes(), source).await.snapshot
}

async fn restore(
    bench: &Bench,
    snapshot: &Snapshot,
    directory: &Path,
    mappings: &[(&str, &Path)],
) -> Result<Restored> {
    let mapping = |(old, new): &(&str, &Path)| TablespaceMapping { old: old.into(), new: new.to_path_buf() };
    let tablespaces = mappings.iter().map(mapping).collect();
    let options = RestoreOptions { tablespaces, ..RestoreOptions::default() };
    bench.volumes().restore(snapshot, directory, &options, |_| {}).await
}

#[tokio::test]
async fn tablespaces_are_inside_unless_the_caller_names_a_directory() {
    let (bench, source, folder) = (Bench::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let taken = taken(&bench, source.path()).await;
    let root = fs::canonicalize(folder.path()).unwrap();
    let (inside, outside, ssd) = (root.join("inside"), root.join("outside"), root.join("ssd"));
    let done = restore(&bench, &taken, &inside, &[]).await.unwrap();
    assert_eq!(crate::testing::tree(&inside), crate::testing::tree(source.path()));
    let shown: Vec<_> =
        done.tablespaces.iter().map(|of| (of.number.as_str(), of.location.as_str())).collect();
    assert_eq!(shown, [("1", "/ssd/a b"), ("2", "/ssd/back\\slash")]);
    assert_eq!(done.tablespaces[0].directory, inside.join("frostline_tablespaces/1"));

    let done = restore(&bench, &taken, &outside, &[("/ssd/a b", &ssd)]).await.unwrap();
    assert_eq!(done.tablespaces[0].directory, ssd);
    assert_eq!(fs::read_link(outside.join("pg_tblspc/1")).unwrap(), ssd);
    assert!(!outside.join("frostline_tablespaces/1").exists());
    assert_eq!(
        crate::testing::tree(&ssd),
        crate::testing::tree(&source.path().join("frostline_tablespaces/1")),
        "its contents, owners, modes and times; nothing else"
    );
    for number in 1..=2 {
        let file = outside.join(format!("pg_tblspc/{number}/PG_15_1/5/16384"));
        assert_eq!(fs::read(file).unwrap(), noise(number, 600_000));
    }
}

#[tokio::test]
async fn a_stopped_restore_goes_on_in_its_tablespaces() {
    let (bench, source, folder) = (Bench::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let taken = taken(&bench, source.path()).await;
    let (target, ssd) = (folder.path().join("target"), folder.path().join("ssd"));
    let mapping = TablespaceMapping { old: "2".into(), new: ssd.clone() };
    let options = RestoreOptions { tablespaces: vec![mapping], ..RestoreOptions::default() };
    options.cancel.store(true, std::sync::atomic::Ordering::Relaxed);
    bench.volumes().restore(&taken, &target, &options, |_| {}).await.unwrap_err();
    assert!(ssd.join(scan::UNFINISHED).exists());
    fs::write(ssd.join("PG_15_1/5/16384"), noise(2, 600_000)).unwrap();
    let done = restore(&bench, &taken, &target, &[("2", &ssd)]).await.unwrap();
    assert!(done.found_bytes >= 600_000, "{done:?}");
    assert_eq!(
        crate::testing::tree(&ssd),
        crate::testing::tree(&source.path().join("frostline_tablespaces/2"))
    );
}

#[tokio::test]
async fn a_damaged_file_of_a_tablespace_is_left_out_until_it_is_whole() {
    let (bench, source, folder) = (Bench::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let taken = taken(&bench, source.path()).await;
    let (target, ssd) = (folder.path().join("target"), folder.path().join("ssd"));
    let of = bench.volumes().tree(&taken).await.unwrap();
    let entry = find(&of, b"frostline_tablespaces/2/PG_15_1/5/16384").unwrap();
    let Node::File { chunks, .. } = &entry.node else { panic!("no file") };
    let pack = of.packs[of.chunks[chunks.start].pieces[0].pack as usize].object().key;
    let sound = bench.store.read(&pack).await;
    bench.store.write(&pack, sound.slice(..1_000)).await;
    let restored = restore(&bench, &taken, &target, &[("2", &ssd)]).await.unwrap();
    assert!(!restored.faults.is_empty());
    let mapping = TablespaceMapping { old: "2".into(), new: ssd.clone() };
    let options = RestoreOptions { tablespaces: vec![mapping], ..RestoreOptions::default() };
    options.cancel.store(true, std::sync::atomic::Ordering::Relaxed);
    bench.volumes().restore(&taken, &target, &options, |_| {}).await.unwrap_err();
    assert!(!ssd.join("PG_15_1/5/16384").exists());
    bench.store.write(&pack, sound).await;
    assert!(restore(&bench, &taken, &target, &[("2", &ssd)]).await.unwrap().faults.is_empty());
    assert_eq!(
        crate::testing::tree(&ssd),
        crate::testing::tree(&source.path().join("frostline_tablespaces/2"))
    );
}

#[tokio::test]
async fn a_mapping_that_cannot_be_meant_is_refused_before_anything_is_made() {
    let (bench, source, folder) = (Bench::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let taken = taken(&bench, source.path()).await;
    let at = |name: &str| folder.path().join(name);
    let (target, ssd) = (at("target"), at("ssd"));
    for (mappings, says) in [
        (vec![("/not/here", ssd.clone())], "1 (/ssd/a b), 2 (/ssd/back\\slash)"),
        (vec![("3", ssd.clone())], "no tablespace 3"),
        (vec![("1", target.join("ssd"))], "must be outside of"),
        (vec![("1", folder.path().to_owned())], "must be outside of"),
        (vec![("1", ssd.clone()), ("2", ssd.clone())], "a directory for each"),
        (vec![("1", ssd.clone()), ("/ssd/a b", at("other"))], "a directory for each"),
        (vec![("1", at("no/parent"))], "cannot find"),
    ] {
        let mappings: Vec<_> = mappings.iter().map(|(old, new)| (*old, new.as_path())).collect();
        fs::create_dir_all(&target).unwrap();
        let refused = restore(&bench, &taken, &target, &mappings).await.unwrap_err();
        assert!(refused.to_string().contains(says), "{mappings:?}: {refused}");
        assert_eq!(fs::read_dir(&target).unwrap().count() + fs::read_dir(folder.path()).unwrap().count(), 1);
    }
    // What is in use stays as it is.
    fs::create_dir(&ssd).unwrap();
    fs::write(ssd.join("mine"), b"x").unwrap();
    let refused = restore(&bench, &taken, &target, &[("1", &ssd)]).await.unwrap_err();
    assert!(refused.to_string().contains("not empty"), "{refused}");
    assert_eq!(fs::read_dir(&ssd).unwrap().count(), 1);
}

#[tokio::test]
async fn a_link_of_a_snapshot_that_leads_out_is_no_tablespace() {
    let (bench, source, folder) = (Bench::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let victim = folder.path().join("victim");
    fs::create_dir(&victim).unwrap();
    fs::create_dir_all(source.path().join("pg_tblspc")).unwrap();
    fs::create_dir_all(source.path().join("frostline_tablespaces")).unwrap();
    symlink(&victim, source.path().join("pg_tblspc/1")).unwrap();
    symlink("../../victim", source.path().join("pg_tblspc/2")).unwrap();
    fs::write(source.path().join(TABLESPACE_MAP), format!("1 {}\n2 {0}\n", victim.display())).unwrap();
    let taken = snapshot(&bench.volumes(), source.path()).await.snapshot;
    let target = folder.path().join("target");
    for old in ["1", "2"] {
        let refused =
            restore(&bench, &taken, &target, &[(old, &folder.path().join("new"))]).await.unwrap_err();
        assert!(refused.to_string().contains("it has no tablespaces"), "{refused}");
    }
    let done = restore(&bench, &taken, &target, &[]).await.unwrap();
    assert_eq!((done.tablespaces, fs::read_dir(&victim).unwrap().count()), (Vec::new(), 0));
}

#[tokio::test]
async fn a_damaged_map_of_tablespaces_only_matters_to_who_moves_one() {
    let (bench, source, folder) = (Bench::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let taken = taken(&bench, source.path()).await;
    for key in bench.store.keys().await.iter().filter(|key| key.ends_with(".pack")) {
        bench.store.remove(key).await;
    }
    let (inside, ssd) = (folder.path().join("inside"), folder.path().join("ssd"));
    let refused = restore(&bench, &taken, &inside, &[("/ssd/a b", &ssd)]).await.unwrap_err();
    assert!(refused.what().ends_with("restore without --tablespace"), "{refused}");
    assert!(!inside.exists());
    let done = restore(&bench, &taken, &inside, &[]).await.unwrap();
    assert!(done.faults.iter().any(|fault| fault.file.as_deref() == Some(TABLESPACE_MAP)), "{done:?}");
    assert!(inside.join("frostline_tablespaces/1").is_dir());
}

#[tokio::test]
async fn a_tablespace_that_the_patterns_leave_out_is_told() {
    let (bench, source, folder) = (Bench::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let taken = taken(&bench, source.path()).await;
    let mapping = TablespaceMapping { old: "/ssd/a b".into(), new: folder.path().join("ssd") };
    let exclude = vec![glob::Pattern::new("frostline_tablespaces").unwrap()];
    let selection = crate::Selection { exclude, ..Default::default() };
    let options = RestoreOptions { tablespaces: vec![mapping], selection, ..RestoreOptions::default() };
    let target = folder.path().join("target");
    let error = bench.volumes().restore(&taken, &target, &options, |_| {}).await.unwrap_err();
    assert!(error.what().starts_with("--include and --exclude leave out the tablespace /ssd/a b"), "{error}");
    assert!(!target.exists());
}
