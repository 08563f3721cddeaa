use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use frostline_ingest::MergePolicy;
use parking_lot::Mutex;
use serde_json::json;

use super::actors::{Log, Reader};
use super::follow::{LOGS, Step};
use super::{Actor, Follow, Job, Ledger, Logs, Requests, Serve, World};
use crate::dice::{Dice, setting};

/// `FROSTLINE_SIMULATION_SEEDS=2000 cargo test -p frostline-proof simulation -- --nocapture` runs more.
#[test]
fn what_was_acknowledged_is_there_once_whatever_fails() {
    let first = setting("FROSTLINE_SIMULATION_SEED", 1);
    let seeds = setting("FROSTLINE_SIMULATION_SEEDS", 50);
    let mut sums = Sums::default();
    for seed in first..first + seeds {
        let run = run(seed, Races::All);
        assert!(run.faults.is_empty(), "seed {seed}: {:#?}\n{}", run.faults, run.story);
        sums.requests += run.sums.requests;
        sums.lines += run.sums.lines;
        sums.pagings += run.sums.pagings;
    }
    let Sums { requests, lines, pagings } = sums;
    println!(
        "{seeds} seeds from {first}: {requests} requests, {lines} lines there at the end, {pagings} versions paged through"
    );
}

#[test]
fn a_seed_without_races_is_replayed() {
    let first = setting("FROSTLINE_SIMULATION_SEED", 1);
    for seed in first..first + 3 {
        let [one, other] = [(); 2].map(|()| run(seed, Races::None).story);
        let differs = one.lines().zip(other.lines()).find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
    }
}

/// What the seed does not decide: the requests that an actor had begun when it was killed, and which thread of an
/// ingest comes first where one writes a split and another commits the one before.
#[derive(Clone, Copy, PartialEq)]
enum Races {
    All,
    /// Nobody is killed, nothing is followed, and an ingest writes one split.
    None,
}

#[derive(Default)]
struct Sums {
    requests: usize,
    lines: usize,
    pagings: u64,
}

struct Run {
    faults: Vec<String>,
    story: String,
    sums: Sums,
}

fn run(seed: u64, races: Races) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let run = runtime.block_on(simulate(seed, races));
    // Threads of ingests that were killed end by themselves.
    runtime.shutdown_background();
    run
}

async fn simulate(seed: u64, races: Races) -> Run {
    let mut dice = Dice::new(seed);
    let folder = tempfile::tempdir().unwrap();
    let share = *dice.one(&[0.0, 0.02, 0.05, 0.1]);
    let world = Arc::new(World::new(seed, share, if races == Races::All { 8 } else { u32::MAX }));
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let (names, reader) = (Arc::new(AtomicU64::new(seed << 32)), Arc::new(Mutex::new(Reader::default())));
    let actor = |number| Actor {
        world: Arc::clone(&world),
        ledger: Arc::clone(&ledger),
        names: Arc::clone(&names),
        number,
    };
    let mut logs: Vec<Arc<Log>> = Vec::new();
    let followed = Arc::new(Logs::new(folder.path().join("followed")));
    let (mut faults, mut story, mut line) = (Vec::new(), String::new(), 0);
    let (mut number, mut requests, mut sent) = (0, 0, Requests::default());
    for round in 0..6 + dice.below(8) {
        let mut jobs = Vec::new();
        for _ in 0..1 + dice.below(4) {
            jobs.push(match dice.below(20) {
                17.. => Job::Serve(serve(&mut dice, &mut sent, races)),
                14.. if jobs.iter().all(|job| !matches!(job, Job::Follow(..))) => {
                    Job::Follow(follow(&mut dice, &followed), merging(&mut dice))
                }
                0..=3 => {
                    let log = next_log(&mut dice, &mut logs, folder.path(), &mut line);
                    // A merge beside it comes to the store when it does.
                    Job::Ingest(log, merging(&mut dice).filter(|_| races == Races::All))
                }
                4 | 5 => Job::Merge(policy(&mut dice), *dice.one(&[u64::MAX, u64::MAX, 20_000])),
                6 => Job::Vacuum,
                7 if dice.chance(0.5) => Job::Delete,
                7 => Job::List,
                8 | 9 => Job::Search,
                _ => Job::Page(Arc::clone(&reader)),
            });
        }
        jobs.dedup_by_key(|job| std::mem::discriminant(job));
        jobs.retain(|job| races == Races::All || !matches!(job, Job::Follow(..)));
        let alone = matches!(jobs.as_slice(), [Job::Delete]);
        let mut tasks = Vec::new();
        for job in jobs {
            number += 1;
            let dies_after = dice.chance(0.1).then(|| dice.below(20) as u64).filter(|_| races == Races::All);
            writeln!(story, "round {round}: actor {number} {job:?}, dies after {dies_after:?}").unwrap();
            let actor = actor(number);
            world.turns.begin(number, dies_after);
            tasks.push(tokio::spawn(async move {
                let faults = actor.work(&job).await;
                actor.world.turns.end(actor.number);
                faults
            }));
        }
        let clock = Arc::clone(&world.clock);
        world.turns.run(&mut dice, || clock.advance_us(500_000)).await;
        for task in tasks {
            faults.extend(task.await.unwrap());
        }
        let checker = actor(0);
        // The `_id`s of earlier rounds, which merging keeps.
        let known = ledger.lock().ids();
        let ids: Vec<String> = known.iter().map(|(_, id)| id.clone()).collect();
        match checker.with_ids(&ids).await {
            Ok(Some(mut found)) => {
                found.sort();
                if found != known {
                    faults.push(format!("the lines {known:?} were asked for, and {found:?} came"));
                }
            }
            Ok(None) => {}
            Err(error) => faults.push(format!("without mishaps: {error:?}")),
        }
        match checker.everything().await {
            Ok(found) => {
                let mut ledger = ledger.lock();
                if alone && found.is_none() {
                    ledger.deleted_alone();
                }
                let (moment, found) = (ledger.moment(), found.unwrap_or_default());
                let lines: Vec<i64> = found.iter().map(|(line, _)| *line).collect();
                faults.extend(ledger.faults(&moment, &lines));
                faults.extend(ledger.faults_of_ids(&found));
            }
            Err(error) => faults.push(format!("without mishaps: {error:?}")),
        }
        let trace = world.turns.trace();
        requests += trace.len();
        writeln!(story, "  {trace:?}").unwrap();
        if !faults.is_empty() {
            break;
        }
        let hours = *dice.one(&[0, 1, 7, 30, 200]);
        world.clock.advance_us(hours * 3_600_000_000);
    }
    let sums = Sums { requests, lines: ledger.lock().sure(), pagings: reader.lock().ended };
    // Files are named by a folder that is another each time.
    let story = story.replace(&folder.path().display().to_string(), "");
    Run { faults, story, sums }
}

/// The line of this number.
pub(crate) fn line(number: i64) -> String {
    let time = 1_717_000_000_000 + number * 60_000;
    format!("{}\n", json!({"n": number, "@timestamp": time, "msg": "a line"}))
}

/// How an ingest merges, if it does.
fn merging(dice: &mut Dice) -> Option<MergePolicy> {
    dice.chance(0.4).then(|| policy(dice))
}

/// Lines are a minute apart: windows of some lines, of all, and none that matter.
fn policy(dice: &mut Dice) -> MergePolicy {
    MergePolicy {
        rows_max: *dice.one(&[40, 1_000]),
        splits_max: *dice.one(&[2, 4, 100]),
        growth: *dice.one(&[2, 2, 3]),
        window_us: *dice.one(&[1_200_000_000, 86_400_000_000]),
        ..MergePolicy::default()
    }
}

/// A process and what its clients send: without races one at a time.
fn serve(dice: &mut Dice, sent: &mut Requests, races: Races) -> Serve {
    let mut request = || match sent.open_request().filter(|_| dice.chance(0.4)) {
        Some(again) => again,
        None => sent.new_request(1 + dice.below(5) as i64, dice.chance(0.6)),
    };
    let clients = if races == Races::All { 3 } else { 1 };
    let clients = (0..clients).map(|_| [(); 2].map(|()| request()).into()).collect();
    Serve { clients, group_bytes: *dice.one(&[1, 500, 1 << 20]) }
}

/// A run that follows `logs`, and what happens meanwhile.
fn follow(dice: &mut Dice, logs: &Arc<Logs>) -> Follow {
    let steps = (0..1 + dice.below(6)).map(|_| {
        let log = dice.below(LOGS);
        match dice.below(8) {
            0..=3 => Step::Write { log, lines: 1 + dice.below(12) as i64, half: dice.chance(0.3) },
            4 | 5 => Step::Rename(log),
            6 => Step::CopyTruncate(log),
            _ => Step::Rest,
        }
    });
    Follow { steps: steps.collect(), logs: Arc::clone(logs) }
}

/// A file that is not ingested yet, or a new one.
fn next_log(dice: &mut Dice, logs: &mut Vec<Arc<Log>>, folder: &Path, line: &mut i64) -> Arc<Log> {
    let open = logs.iter().find(|log| !*log.is_done.lock());
    if let (Some(log), true) = (open, dice.chance(0.8)) {
        return Arc::clone(log);
    }
    let lines: Vec<i64> = (0..1 + dice.below(30) as i64).map(|at| *line + at).collect();
    *line += lines.len() as i64;
    let text: String = lines.iter().map(|number| self::line(*number)).collect();
    let file = folder.join(format!("{}.log", logs.len()));
    std::fs::write(&file, text).unwrap();
    logs.push(Arc::new(Log { file, lines, is_done: Mutex::new(false) }));
    Arc::clone(&logs[logs.len() - 1])
}
