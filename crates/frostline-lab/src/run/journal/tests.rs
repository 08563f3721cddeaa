use super::*;
use crate::crash::{self, FileSystem, Findings, Trial, Work};
use crate::emulate::tests as volumes;
use crate::host::ledger::{Ledger, Thing};

fn sample(block: u32) -> Sample {
    Sample {
        cell: "fs=ext4".into(),
        block,
        position: 0,
        at_s: 0.0,
        seconds: 1.0,
        values: [("iops".to_owned(), 1.0)].into(),
        gates: vec![],
        raw: "x".into(),
    }
}

#[test]
fn a_line_that_was_cut_short_is_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::create(folder.path(), "").unwrap();
    journal.append(sample(0)).unwrap();
    journal.append(sample(1)).unwrap();
    drop(journal);
    let path = folder.path().join(SAMPLES);
    let whole = fs::read(&path).unwrap();
    for cut in whole.len() / 2 + 1..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let mut again = Journal::open(folder.path()).unwrap();
        assert_eq!(again.samples(), [sample(0)], "cut at {cut}");
        again.append(sample(2)).unwrap();
        drop(again);
        assert_eq!(Journal::open(folder.path()).unwrap().samples(), [sample(0), sample(2)]);
    }
}

#[test]
fn a_folder_with_a_run_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    drop(Journal::create(folder.path(), "").unwrap());
    assert_eq!(Journal::create(folder.path(), "").unwrap_err().kind(), frostline_base::ErrorKind::Conflict);
}

#[test]
fn a_run_that_is_running_is_not_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::create(folder.path(), "").unwrap();
    journal.write_run(&run_of(1)).unwrap();
    // A sample that is just being written, of which a second writer would cut what is there.
    let path = folder.path().join(SAMPLES);
    fs::write(&path, "{\"cell\"").unwrap();
    let error = Journal::resume(folder.path()).unwrap_err();
    assert_eq!(error.kind(), frostline_base::ErrorKind::Conflict);
    assert!(error.what().contains("is running: wait for its end"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "{\"cell\"");
    fs::write(&path, "").unwrap();
    journal.append(sample(0)).unwrap();
    drop(journal);
    assert_eq!(Journal::resume(folder.path()).unwrap().0.samples(), [sample(0)]);
}

#[test]
fn a_run_that_ended_is_resumed_while_a_child_has_its_file_open() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::create(folder.path(), "").unwrap();
    journal.write_run(&run_of(1)).unwrap();
    // As a child has it between its fork and its program.
    let inherited = journal.file.try_clone().unwrap();
    drop(journal);
    assert!(Journal::resume(folder.path()).is_ok());
    drop(inherited);
}

#[test]
fn what_is_not_a_run_is_said_to_be_none() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(Journal::resume(folder.path()).unwrap_err().kind(), frostline_base::ErrorKind::NotFound);
    fs::write(folder.path().join(SAMPLES), "nonsense\n").unwrap();
    assert!(Journal::open(folder.path()).is_err());
}

#[test]
fn a_record_that_was_kept_without_its_raw_files_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    Journal::create(folder.path(), "").unwrap().write_run(&run_of(1)).unwrap();
    fs::remove_dir(folder.path().join(RAW)).unwrap();
    let (journal, ..) = Journal::resume(folder.path()).unwrap();
    fs::write(journal.raw("sample.json"), "").unwrap();
}

/// A run whose samples, summaries and things are promised as their methods return.
struct Recorded;

const STUDY_TEXT: &str = "name = \"recorded\"";
const SAMPLES_OF_RUN: u32 = 9;

fn run_of(seed: u64) -> Run {
    Run {
        format: crate::record::FORMAT,
        study: "recorded".into(),
        title: "Recorded".into(),
        command: String::new(),
        asked: None,
        started: "2026-01-01T00:00:00Z".into(),
        seed,
        mode: crate::record::Mode::Quick,
        time_scale: 1.0,
        machine: crate::host::facts::machine(),
        tools: [].into(),
        file_systems: [].into(),
        devices: [].into(),
        cells: vec![],
        comparisons: vec![],
        korean: [].into(),
        notes: vec![],
        complete: false,
    }
}

impl Work for Recorded {
    fn run(&mut self, at: &Path, mark: &mut dyn FnMut(&str) -> std::io::Result<()>) -> std::io::Result<()> {
        let other = std::io::Error::other;
        let mut ledger = Ledger::open(&at.join("lab/live")).map_err(other)?;
        mark("ledger")?;
        let mut journal = Journal::create(&at.join("lab/runs/first"), STUDY_TEXT).map_err(other)?;
        for block in 0..SAMPLES_OF_RUN {
            journal.write_run(&run_of(u64::from(block))).map_err(other)?;
            mark(&format!("run {block}"))?;
            journal.append(sample(block)).map_err(other)?;
            mark(&format!("sample {block}"))?;
            ledger.note(Thing::Directory(PathBuf::from(format!("/nonexistent/{block}")))).map_err(other)?;
            mark(&format!("thing {block}"))?;
        }
        // From here on the ledger is undone.
        mark("end of ledger")
    }

    fn judge(&self, at: &Path, marks: &[&str]) -> Findings {
        let mut findings = Findings::default();
        let count = |what: &str| marks.iter().filter(|mark| mark.starts_with(what)).count();
        let (runs, samples, things) = (count("run "), count("sample "), count("thing "));
        if count("ledger") > 0 && count("end of ledger") == 0 {
            let live = fs::read_dir(at.join("lab/live")).into_iter().flatten().flatten().next();
            let text =
                live.map(|file| fs::read_to_string(file.path()).unwrap_or_default()).unwrap_or_default();
            let found = text.matches("/nonexistent/").count();
            if !text.contains("\"token\"") || found < things {
                findings.lost.push(format!("the ledger has {found} of {things} things: {text:?}"));
            }
        }
        if runs == 0 {
            return findings;
        }
        match Journal::resume(&at.join("lab/runs/first")) {
            Err(error) => findings.lost.push(format!("no run to resume: {error}")),
            Ok((journal, study, run)) => {
                let expected: Vec<Sample> = (0..SAMPLES_OF_RUN).map(sample).collect();
                if run.seed + 1 < runs as u64 || journal.samples().len() < samples {
                    let found = journal.samples().len();
                    findings
                        .lost
                        .push(format!("{found} of {samples} samples, summary {} of {runs}", run.seed));
                }
                if study != STUDY_TEXT || !expected.starts_with(journal.samples()) {
                    findings.wrong.push("the study or the samples are others".to_owned());
                }
            }
        }
        findings
    }
}

#[test]
fn a_power_cut_takes_nothing_of_a_journal_or_a_ledger_that_was_promised() {
    let test = "a_power_cut_takes_nothing_of_a_journal_or_a_ledger_that_was_promised";
    if !volumes::can_emulate(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(&folder.path().join("live")).unwrap();
    // Without delayed allocation a rename may be durable before the bytes of the file.
    for (file_system, options) in [(FileSystem::Ext4, "noauto_da_alloc"), (FileSystem::Xfs, "")] {
        let trial = Trial { file_system, options: options.into(), cuts: 40, steps: 0, seed: 11, sector: 512 };
        let daemon = volumes::daemon();
        let proof =
            crash::prove_work(&mut ledger, folder.path(), &daemon, &trial, &mut Recorded, &mut |_| true);
        let proof = proof.unwrap();
        assert!(proof.refused.is_none() && proof.is_clean(), "{proof:?}");
        assert_eq!(proof.cuts, 40);
    }
    ledger.close().unwrap();
}
