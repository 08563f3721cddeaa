use std::sync::Mutex;

use frostline_base::FixedClock;
use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use super::*;
use crate::host::ledger::{Ledger, Thing};
use crate::host::process::run_short;
use crate::record::{Machine, Mode};
use crate::study::plan::plan;
use crate::study::tests::{rich, small};

/// Takes samples from a made-up machine: `b` is `factor` times faster than `a`, with scatter.
struct Synthetic<'a> {
    factor: f64,
    scatter: f64,
    clock: &'a FixedClock,
    stop: Option<(&'a Stop, usize)>,
    taken: Mutex<Vec<(String, u32)>>,
    fails: Option<&'static str>,
}

impl Executor for Synthetic<'_> {
    fn sample(&mut self, cell: &PlannedCell, block: u32, stem: &Path) -> Result<Taken> {
        self.clock.advance_us(1_000_000);
        let mut taken = self.taken.lock().unwrap();
        taken.push((cell.id.clone(), block));
        if let Some((stop, after)) = self.stop
            && taken.len() == after
        {
            stop.ask();
        }
        if self.fails.is_some_and(|id| cell.id == id) {
            return Err(Error::unavailable("the tool failed"));
        }
        // Every sample has noise of its own, whichever run takes it.
        let name = stem.file_name().unwrap().as_encoded_bytes();
        let seed = name.iter().fold(7_u64, |seed, b| seed.wrapping_mul(1_099_511_628_211) ^ u64::from(*b));
        let noise = 1.0 + self.scatter * (SmallRng::seed_from_u64(seed).random::<f64>() - 0.5);
        let base = if cell.levels["kind"] == "b" { 100.0 * self.factor } else { 100.0 };
        Ok(Taken { values: BTreeMap::from([("rate_per_s".to_owned(), base * noise)]), gates: vec![] })
    }
}

/// A run before its first sample.
pub(super) fn header() -> Run {
    Run {
        format: 1,
        study: "small".into(),
        title: String::new(),
        command: String::new(),
        asked: None,
        started: String::new(),
        seed: 1,
        mode: Mode::Quick,
        time_scale: 1.0,
        machine: Machine::default(),
        tools: BTreeMap::new(),
        file_systems: BTreeMap::new(),
        devices: BTreeMap::new(),
        cells: vec![],
        comparisons: vec![],
        korean: BTreeMap::new(),
        notes: vec![],
        complete: false,
    }
}

struct Ran {
    run: Result<Run>,
    taken: Vec<(String, u32)>,
}

struct Wish {
    factor: f64,
    scatter: f64,
    stop_after: Option<usize>,
    fails: Option<&'static str>,
}

const STEADY: Wish = Wish { factor: 2.0, scatter: 0.001, stop_after: None, fails: None };

fn go(wish: &Wish, journal: &mut Journal) -> Ran {
    let study = small();
    let plan = plan(&study, Mode::Quick, 1, &[], &rich()).unwrap();
    let (clock, stop, modelled) = (FixedClock::at(0), Stop::new(), BTreeMap::new());
    let mut executor = Synthetic {
        factor: wish.factor,
        scatter: wish.scatter,
        clock: &clock,
        stop: wish.stop_after.map(|after| (&stop, after)),
        taken: Mutex::default(),
        fails: wish.fails,
    };
    let running = Running { study: &study, plan: &plan, clock: &clock, stop: &stop, modelled: &modelled };
    let run = running.run(header(), journal, &mut executor, &mut Unwatched);
    let taken = executor.taken.into_inner().unwrap();
    Ran { run, taken }
}

fn fresh() -> (tempfile::TempDir, Journal) {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::create(folder.path(), crate::study::tests::SMALL).unwrap();
    (folder, journal)
}

#[test]
fn cells_whose_ratios_are_tight_stop_before_the_last_block() {
    let (_folder, mut journal) = fresh();
    let ran = go(&STEADY, &mut journal);
    let run = ran.run.unwrap();
    assert!(run.complete);
    // Six pairs are the fewest with an interval of 95 %: blocks 0 to 5.
    assert_eq!(ran.taken.iter().map(|(_, block)| *block).max(), Some(5));
    assert_eq!(ran.taken.len(), 5 * 6);
    let of = |name: &str| run.comparisons.iter().find(|c| c.name == name).unwrap();
    let ratio = of("b over a, size=1");
    assert!((ratio.ratio - 2.0).abs() < 0.01 && ratio.pairs == 6, "{ratio:?}");
    let control = of("null control");
    assert!(control.null_control && control.low <= 1.0 && control.high >= 1.0, "{control:?}");
}

#[test]
fn cells_that_scatter_run_to_the_last_block() {
    let (_folder, mut journal) = fresh();
    let ran = go(&Wish { scatter: 0.8, ..STEADY }, &mut journal);
    assert_eq!(ran.taken.len(), 5 * 12);
    assert!(ran.run.unwrap().complete);
}

#[test]
fn an_interrupted_run_goes_on_as_it_would_have() {
    let (_whole_folder, mut whole) = fresh();
    let expected = go(&STEADY, &mut whole);
    let (folder, mut journal) = fresh();
    let first = go(&Wish { stop_after: Some(13), ..STEADY }, &mut journal);
    assert!(first.run.is_err());
    assert_eq!(first.taken.len(), 13);
    drop(journal);
    let (mut journal, text, was) = Journal::resume(folder.path()).unwrap();
    assert_eq!(text, crate::study::tests::SMALL);
    assert!(!was.complete);
    let second = go(&STEADY, &mut journal);
    assert_eq!([first.taken, second.taken].concat(), expected.taken);
    let (run, expected) = (second.run.unwrap(), expected.run.unwrap());
    for (one, other) in run.comparisons.iter().zip(&expected.comparisons) {
        // Numbers that were read from JSON may differ in their last bit.
        assert!((one.ratio - other.ratio).abs() < 1e-12 && one.pairs == other.pairs, "{one:?} {other:?}");
    }
    assert!(crate::report::read_run(folder.path()).unwrap().complete);
}

#[test]
fn samples_that_a_tool_failed_are_voided_loudly_and_in_no_figure() {
    let (_folder, mut journal) = fresh();
    let run = go(&Wish { fails: Some("kind=b,size=1"), ..STEADY }, &mut journal).run.unwrap();
    let cell = run.cells.iter().find(|cell| cell.id == "kind=b,size=1").unwrap();
    assert!(cell.measured.is_empty() && cell.voided == 12, "{cell:?}");
    assert_eq!(cell.notes, ["voided by tool: the tool failed"]);
    let note = run.notes.iter().find(|note| note.starts_with("VOIDED: 12 samples in 1 cell;"));
    assert!(note.is_some_and(|note| !note.contains("--cpu-pressure-max")), "{:?}", run.notes);
    let mut busy = cell.clone();
    busy.notes = vec!["voided by cpu_pressure: 60 % of 10 s waiting for a CPU, at most 25".to_owned()];
    assert!(super::summary::voided_note(&[busy]).unwrap().contains("--cpu-pressure-max"));
    assert!(!run.comparisons.iter().any(|c| c.name == "b over a, size=1"));
    assert!(run.comparisons.iter().any(|c| c.name == "b over a, size=2"));
}

#[test]
fn raw_names_are_unique_and_safe() {
    let plan = plan(&small(), Mode::Quick, 1, &[], &rich()).unwrap();
    let names: BTreeSet<String> =
        plan.cells.iter().enumerate().map(|(at, cell)| raw_name(cell, 3, at as u32)).collect();
    assert_eq!(names.len(), plan.cells.len());
    assert!(
        names.iter().all(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'))
    );
}

#[test]
fn times_are_rfc_3339() {
    assert_eq!(rfc3339(0).unwrap(), "1970-01-01T00:00:00Z");
    assert_eq!(
        default_folder(Path::new("/d"), "x", "2026-01-02T03:04:05Z"),
        Path::new("/d/lab/runs/x-20260102T030405")
    );
}

#[test]
fn a_full_disk_under_the_run_voids_no_sample() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("a_full_disk_under_the_run_voids_no_sample: skipped: needs root");
    }
    let data = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(&data.path().join("live")).unwrap();
    let at = data.path().canonicalize().unwrap().join("small");
    std::fs::create_dir(&at).unwrap();
    ledger.note(Thing::Mount(at.clone())).unwrap();
    let mut mount = ledger.command("mount");
    run_short(mount.args(["-t", "tmpfs", "-o", "size=256k", "none"]).arg(&at)).unwrap();
    let mut journal = Journal::create(&at.join("run"), crate::study::tests::SMALL).unwrap();
    let error = go(&Wish { fails: Some("kind=b,size=1"), ..STEADY }, &mut journal).run.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
    assert!(error.what().contains("is full: free space there, then continue with --resume"), "{error}");
    assert!(journal.samples().iter().all(|sample| sample.gates.is_empty()), "no sample is void");
    drop(journal);
    ledger.close().unwrap();
}
