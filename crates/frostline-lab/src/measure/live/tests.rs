//! With fio on a file of this host's disk; without fio the tests say so.

use std::fs;

use frostline_base::ErrorKind;

use super::*;
use crate::host::tools;

/// Runs `check` with a directory of its own as the only path, and says what it left in it.
fn with_fio(test: &str, check: impl FnOnce(&mut Live<'_>)) -> Vec<PathBuf> {
    if let Err(error) = tools::check(["fio"]) {
        eprintln!("{test}: skipped: {error}");
        return Vec::new();
    }
    let data = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = data.path().join("volume");
    fs::create_dir(&path).unwrap();
    let mut ledger = Ledger::open(&data.path().join("live")).unwrap();
    let mut live = Live {
        ledger: &mut ledger,
        stop: &Stop::new(),
        directories: vec![Directory::open(&path, 0).unwrap()],
        folders: vec![None],
        raw: data.path().to_path_buf(),
        load: Load::Postgres,
        extent: Extent { data_mib: 64, watch_seconds: 60.0, step_seconds: 1.0 },
        seed: 1,
    };
    check(&mut live);
    ledger.close().unwrap();
    fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_path_is_watched_and_offered_load_and_left_as_it_was() {
    let left = with_fio("a_path_is_watched_and_offered_load_and_left_as_it_was", |live| {
        live.prepare(0).unwrap();
        let file = live.folders[0].clone().unwrap().join(DATA);
        assert_eq!(fs::metadata(&file).unwrap().len(), 64 << 20);
        let rounds = live.saturate(0, 60.0, &mut |rounds| rounds.len() >= 2).unwrap();
        assert!((2..10).contains(&rounds.len()), "{rounds:?}");
        // Requests of 8 KiB, but for those that are counted in one and not yet in the other.
        let is_whole = |round: &Round| (round.requests / 128.0 / round.mib - 1.0).abs() < 0.1;
        assert!(rounds.iter().all(is_whole), "{rounds:?}");
        let point = live.offer(0, Some(100.0), 1.0).unwrap();
        assert!((50.0..=150.0).contains(&point.iops), "{point:?}");
        assert!(point.p50_ms > 0.0 && point.p50_ms <= point.p99_ms, "{point:?}");
    });
    assert_eq!(left, Vec::<PathBuf>::new());
}

#[test]
fn a_path_that_is_gone_is_named_and_not_made_again() {
    let left = with_fio("a_path_that_is_gone_is_named_and_not_made_again", |live| {
        live.prepare(0).unwrap();
        let folder = live.folders[0].clone().unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let error = live.offer(0, None, 1.0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.what().contains("disappeared"), "{error}");
        assert!(live.saturate(0, 60.0, &mut |_| true).is_err());
        assert!(!folder.exists());
        // The file alone: fio must not make another one.
        fs::create_dir(&folder).unwrap();
        assert!(live.offer(0, None, 1.0).is_err());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    });
    assert_eq!(left, Vec::<PathBuf>::new());
}

#[test]
fn a_path_that_leads_elsewhere_when_its_turn_comes_is_not_measured() {
    let left = with_fio("a_path_that_leads_elsewhere_when_its_turn_comes_is_not_measured", |live| {
        let volume = live.directories[0].resolved().to_path_buf();
        let [link, other] = ["link", "other"].map(|name| volume.with_file_name(name));
        fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&volume, &link).unwrap();
        live.directories[0] = Directory::open(&link, 64).unwrap();
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
        let error = live.prepare(0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.what().contains("disappeared"), "{error}");
        assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
    });
    assert_eq!(left, Vec::<PathBuf>::new());
}

#[test]
fn rounds_are_from_one_moment_to_the_next() {
    let moment = |seconds, requests| SoFar { seconds, requests, bytes: requests << 20 };
    let found = round(moment(0.9, 90), moment(1.9, 200)).unwrap();
    assert!((found.seconds - 1.0).abs() < 1e-9);
    assert_eq!((found.requests, found.mib), (110.0, 110.0));
    assert_eq!(round(moment(1.9, 200), moment(2.0, 203)), None, "what is left of the runtime");
}
