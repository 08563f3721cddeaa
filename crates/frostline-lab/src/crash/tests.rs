use std::process::Command;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::emulate::tests as volumes;

fn trial(options: &str) -> Trial {
    Trial {
        file_system: FileSystem::Ext4,
        options: options.into(),
        cuts: 24,
        steps: 12,
        seed: 5,
        sector: 512,
    }
}

fn proof(test: &str, trial: &Trial) -> Option<Proof> {
    if !volumes::can_emulate(test) {
        return None;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut ledger = Ledger::open(&folder.path().join("live")).expect("open");
    let mut seen = Vec::new();
    let proof = prove(&mut ledger, folder.path(), &volumes::daemon(), trial, &mut |cuts| seen.push(cuts));
    let proof = proof.expect("a proof");
    assert_eq!(seen, (1..=proof.cuts).collect::<Vec<_>>());
    assert_eq!(volumes::left_on_host(folder.path()), Vec::<String>::new());
    ledger.close().expect("close");
    assert_eq!(fs::read_dir(folder.path()).expect("list").count(), 1);
    Some(proof)
}

#[test]
fn with_defaults_nothing_acknowledged_is_lost() {
    let Some(proof) = proof("with_defaults_nothing_acknowledged_is_lost", &trial("")) else { return };
    assert!(proof.is_clean(), "{proof:?}");
    assert_eq!(proof.cuts, 24);
    assert!(proof.flushes >= 24, "every sync flushes: {proof:?}");
}

#[test]
fn without_barriers_what_was_acknowledged_is_lost() {
    let Some(proof) = proof("without_barriers_what_was_acknowledged_is_lost", &trial("nobarrier")) else {
        return;
    };
    assert_eq!(proof.flushes, 0);
    assert!(proof.mounted.contains("nobarrier"), "{}", proof.mounted);
    assert!(proof.lost_acknowledged >= 12, "{proof:?}");
    assert!(!proof.examples.is_empty());
}

/// XFS has changes in its log until it is unmounted everywhere, and its check calls that damage.
#[test]
fn a_state_is_examined_when_no_other_namespace_has_it_mounted() {
    let test = "a_state_is_examined_when_no_other_namespace_has_it_mounted";
    let trial = Trial { file_system: FileSystem::Xfs, ..trial("") };
    let done = AtomicBool::new(false);
    let proof = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = Command::new("unshare").args(["--mount", "sleep", "0.1"]).status();
            }
        });
        let proof = proof(test, &trial);
        done.store(true, Ordering::Relaxed);
        proof
    });
    assert!(proof.is_none_or(|proof| proof.is_clean() && proof.cuts == 24));
}

/// Without delayed allocation a file's size and blocks are committed with the next file's fsync; only ordered
/// mode writes its bytes before.
#[test]
fn data_writeback_shows_deleted_bytes_and_ordered_does_not() {
    let test = "data_writeback_shows_deleted_bytes_and_ordered_does_not";
    let Some(ordered) = proof(test, &trial("nodelalloc")) else { return };
    assert!(ordered.is_clean(), "{ordered:?}");
    let Some(writeback) = proof(test, &trial("nodelalloc,data=writeback")) else { return };
    assert!(writeback.stale_exposed > 0, "{writeback:?}");
    assert_eq!(writeback.lost_acknowledged, 0, "{writeback:?}");
}

#[test]
fn options_that_the_kernel_refuses_are_an_answer() {
    let refused = trial("noatime,no_such_option");
    let Some(proof) = proof("options_that_the_kernel_refuses_are_an_answer", &refused) else { return };
    let said = proof.refused.unwrap_or_default();
    assert!(said.contains("no_such_option"), "{said}");
}

/// Arguments of the command that prove the defaults of ext4 with as many cuts.
fn arguments(folder: &Path, cuts: usize) -> CrashArgs {
    CrashArgs {
        fs: Some(FileSystem::Ext4),
        options: String::new(),
        cuts,
        steps: 12,
        seed: 5,
        sector: 512,
        folder: Some(folder.to_path_buf()),
    }
}

#[test]
fn what_was_proved_before_ctrl_c_is_printed() {
    if !volumes::can_emulate("what_was_proved_before_ctrl_c_is_printed") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = |json: bool, after: usize| {
        let mut ledger = Ledger::open(&folder.path().join("live")).expect("open");
        let (mut printed, mut seen) = (Vec::new(), 0);
        let mut go_on = || {
            seen += 1;
            seen != after
        };
        let arguments = arguments(folder.path(), 4);
        let all = super::run(&arguments, &mut ledger, &volumes::daemon(), json, &mut printed, &mut go_on);
        ledger.close().expect("close");
        (all.expect("it is proved"), String::from_utf8(printed).expect("text"))
    };
    let (all, printed) = run(true, 2);
    let proofs: Vec<Proof> = serde_json::from_str(&printed).expect("one document");
    assert!(!all && proofs.len() == 1 && proofs[0].interrupted, "{printed}");
    assert_eq!((proofs[0].cuts, proofs[0].trial.cuts), (2, 4));
    let (all, printed) = run(false, 2);
    assert!(!all && printed.lines().nth(1).is_some_and(|line| line.ends_with("  interrupted")), "{printed}");
    let (all, printed) = run(false, 100);
    assert!(all && !printed.contains("interrupted"), "{printed}");
}

#[test]
fn what_was_proved_before_an_error_is_printed() {
    if !volumes::can_emulate("what_was_proved_before_an_error_is_printed") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (real, link) = (folder.path().join("real"), folder.path().join("link"));
    fs::create_dir(&real).expect("a folder");
    std::os::unix::fs::symlink(&real, &link).expect("a link");
    let mut ledger = Ledger::open(&folder.path().join("live")).expect("open");
    let mut printed = Vec::new();
    // After the first proof no folder can be made for the next.
    let mut go_on = || {
        fs::remove_file(&link).and_then(|()| fs::write(&link, "")).expect("a file");
        true
    };
    let arguments = CrashArgs { fs: None, ..arguments(&link, 1) };
    let all = super::run(&arguments, &mut ledger, &volumes::daemon(), true, &mut printed, &mut go_on);
    ledger.close().expect("close");
    assert!(all.is_err());
    let proofs: Vec<Proof> = serde_json::from_slice(&printed).expect("one document");
    assert_eq!(proofs.iter().map(|proof| proof.cuts).collect::<Vec<_>>(), [1]);
}

#[test]
fn an_error_at_a_cut_leaves_what_the_cuts_before_it_proved() {
    if !volumes::can_emulate("an_error_at_a_cut_leaves_what_the_cuts_before_it_proved") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let images = folder.path().join("images");
    let mut ledger = Ledger::open(&folder.path().join("live")).expect("open");
    let mut printed = Vec::new();
    // The image of the second state is there already.
    let mut go_on = || {
        let place = fs::read_dir(&images).expect("list").next().expect("a folder").expect("its entry");
        fs::write(place.path().join("state-1.img"), "").expect("a file");
        true
    };
    let arguments = arguments(&images, 4);
    let all = super::run(&arguments, &mut ledger, &volumes::daemon(), true, &mut printed, &mut go_on);
    ledger.close().expect("close");
    assert!(all.is_err());
    let proofs: Vec<Proof> = serde_json::from_slice(&printed).expect("one document");
    assert!(proofs.len() == 1 && proofs[0].cuts == 1 && proofs[0].interrupted, "{proofs:?}");
}

#[test]
fn a_proof_that_is_stopped_leaves_nothing() {
    if !volumes::can_emulate("a_proof_that_is_stopped_leaves_nothing") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut ledger = Ledger::open(&folder.path().join("live")).expect("open");
    let mut go_on = |cuts| cuts < 3;
    let stopped = prove_while(&mut ledger, folder.path(), &volumes::daemon(), &trial(""), &mut go_on);
    let stopped = stopped.expect("a proof");
    assert!(stopped.interrupted && stopped.cuts == 3, "{stopped:?}");
    assert_eq!(volumes::left_on_host(folder.path()), Vec::<String>::new());
    assert_eq!(fs::read_dir(folder.path()).expect("list").count(), 1);
}
