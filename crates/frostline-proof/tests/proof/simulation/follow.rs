//! Files that are followed: how they are written and rotated, and what the follower says of them.

use std::fmt;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use frostline_base::{Clock, Error, Result};
use frostline_ingest::{Cancel, IngestOptions, MergePolicy, Pause};
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::runtime::Handle;

use super::actors::index;
use super::{Actor, Ledger};

/// So many logs are written at the same time.
pub(crate) const LOGS: usize = 2;
/// Numbers of lines from here on are in files that are followed.
const FIRST_LINE: i64 = 1_000_000;
const SECOND_US: i64 = 1_000_000;
/// A file that rests for so long is closed, with a line that has no end.
const REST_US: i64 = 70 * SECOND_US;
/// A line whose end comes later than this may have been taken for two.
const HALF_US: i64 = 20 * SECOND_US;

/// A run that follows files, and what happens to them.
#[derive(Debug)]
pub(crate) struct Follow {
    pub(crate) logs: Arc<Logs>,
    /// Each comes when everything before it is committed.
    pub(crate) steps: Vec<Step>,
}

/// What happens to the log of a number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Lines come, or all but the end of the last.
    Write { log: usize, lines: i64, half: bool },
    /// It gets another name, and a new one is begun.
    Rename(usize),
    /// A half of it is copied; the rest, and the truncation, come with the next step.
    CopyTruncate(usize),
    /// Nothing comes for a while.
    Rest,
}

/// The folder of the files.
pub(crate) struct Logs {
    folder: PathBuf,
    files: Mutex<Files>,
}

#[derive(Default)]
struct Files {
    /// Numbers of lines that are in files, wholly or in part.
    written: Vec<i64>,
    /// Those that a follower must take in.
    whole: Vec<i64>,
    /// A line that was counted in the first place.
    lines: i64,
    rotations: usize,
    halves: [Option<Half>; LOGS],
    copying: Option<(PathBuf, PathBuf)>,
    /// Whether a line without an end has waited for too long.
    was_torn: bool,
}

/// The end of a line that is not written yet.
struct Half {
    line: i64,
    rest: String,
    since_us: i64,
}

impl fmt::Debug for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the logs")
    }
}

impl Logs {
    pub(crate) fn new(folder: PathBuf) -> Logs {
        fs::create_dir(&folder).expect("a folder");
        Logs { folder, files: Mutex::default() }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock()
    }

    fn path(&self, log: usize) -> PathBuf {
        self.folder.join(format!("{log}.log"))
    }

    fn step(&self, step: Step, now_us: i64, ledger: &Mutex<Ledger>) {
        let mut files = self.files();
        files.finish_copy(now_us);
        match step {
            Step::Write { log, lines, half } => {
                let mut text = files.end_line(log, now_us);
                for _ in 0..lines {
                    let line = FIRST_LINE + files.lines;
                    files.lines += 1;
                    files.written.push(line);
                    files.whole.push(line);
                    text.push_str(&super::tests::line(line));
                }
                ledger.lock().begin(&files.written);
                if half && let Some(line) = files.whole.pop_if(|_| lines > 0) {
                    let start = text.trim_end().rfind('\n').map_or(0, |at| at + 1);
                    let rest = text.split_off(start + (text.len() - start) / 2);
                    files.halves[log] = Some(Half { line, rest, since_us: now_us });
                }
                append(&self.path(log), &text, now_us);
            }
            Step::Rename(log) => {
                if let Some((path, rotated)) = self.rotated(&mut files, log, now_us) {
                    fs::rename(path, rotated).expect("a file");
                }
            }
            Step::CopyTruncate(log) => {
                if let Some((path, copy)) = self.rotated(&mut files, log, now_us) {
                    let bytes = fs::metadata(&path).expect("a file").len();
                    copy_on(&path, &copy, bytes / 2, now_us);
                    files.copying = Some((path, copy));
                }
            }
            Step::Rest => {}
        }
    }

    /// Where a log is and where it goes, once its last line has an end.
    fn rotated(&self, files: &mut Files, log: usize, now_us: i64) -> Option<(PathBuf, PathBuf)> {
        let path = self.path(log);
        if !path.exists() {
            return None;
        }
        append(&path, &files.end_line(log, now_us), now_us);
        files.rotations += 1;
        Some((path, self.folder.join(format!("{log}.log.{}", files.rotations))))
    }
}

impl Files {
    /// The end of the line that was begun last.
    fn end_line(&mut self, log: usize, now_us: i64) -> String {
        let Some(half) = self.halves[log].take() else { return String::new() };
        if half.is_torn(now_us) {
            self.was_torn = true;
        } else {
            self.whole.push(half.line);
        }
        half.rest
    }

    fn finish_copy(&mut self, now_us: i64) {
        if let Some((path, copy)) = self.copying.take() {
            copy_on(&path, &copy, u64::MAX, now_us);
            let log = File::options().write(true).open(path).expect("a file");
            log.set_len(0).and_then(|()| log.set_modified(time(now_us))).expect("a file");
        }
    }

    fn is_torn(&self, now_us: i64) -> bool {
        self.was_torn || self.halves.iter().flatten().any(|half| half.is_torn(now_us))
    }
}

impl Half {
    fn is_torn(&self, now_us: i64) -> bool {
        now_us - self.since_us > HALF_US
    }
}

/// Files are written at the time of the simulation.
fn time(now_us: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(now_us as u64)
}

fn append(path: &Path, text: &str, now_us: i64) {
    let mut file = File::options().create(true).append(true).open(path).expect("a file");
    file.write_all(text.as_bytes()).and_then(|()| file.set_modified(time(now_us))).expect("a file");
}

/// Copies up to `bytes` bytes behind those that are copied already.
fn copy_on(path: &Path, copy: &Path, bytes: u64, now_us: i64) {
    let text = fs::read_to_string(path).expect("a file");
    let copied = fs::metadata(copy).map_or(0, |metadata| metadata.len()) as usize;
    let end = text.len().min(copied.saturating_add(bytes as usize));
    append(copy, &text[copied..end], now_us);
}

/// Takes the steps while there is nothing to read, each when everything before it is committed, and stops the run after
/// the last.
struct Script {
    actor: Actor,
    logs: Arc<Logs>,
    steps: std::vec::IntoIter<Step>,
    began: u64,
    runtime: Handle,
    cancel: Cancel,
    committed: Arc<Committed>,
}

/// Batches that are read and not committed.
#[derive(Default)]
struct Committed {
    left: Mutex<u64>,
    changed: Condvar,
}

impl Committed {
    fn tell(&self, left: u64) {
        *self.left.lock() = left;
        self.changed.notify_all();
    }

    /// Waits for everything to be committed; not for ever, as the run may have failed.
    fn wait(&self, at_most: Duration) -> bool {
        let mut left = self.left.lock();
        self.changed.wait_while_for(&mut left, |left| *left > 0, at_most);
        *left == 0
    }
}

impl Pause for Script {
    fn pause(&mut self, at_most: Duration) {
        if !self.committed.wait(at_most) {
            return;
        }
        let turn = self.actor.world.turns.wait(self.actor.number, "wait", String::new());
        let clock = &self.actor.world.clock;
        match self.runtime.block_on(turn) {
            Some(turn) if !turn.is_dead => {
                let whole = self.logs.files().whole.clone();
                self.actor.ledger().acknowledge(&whole, self.began);
                let Some(step) = self.steps.next() else { return self.cancel.cancel() };
                self.logs.step(step, clock.now_us(), &self.actor.ledger);
                // The next scan sees it.
                clock.advance_us(if matches!(step, Step::Rest) { REST_US } else { SECOND_US });
                drop(turn);
            }
            _ => self.cancel.cancel(),
        }
    }
}

impl Actor {
    pub(super) async fn follow(&self, follow: &Follow, merge: &Option<MergePolicy>) -> Result<()> {
        let logs = &follow.logs;
        let began = self.ledger().begin(&logs.files().written);
        let (cancel, committed) = (Cancel::default(), Arc::new(Committed::default()));
        let script = Script {
            actor: self.clone(),
            logs: Arc::clone(logs),
            steps: follow.steps.clone().into_iter(),
            began,
            runtime: Handle::current(),
            cancel: cancel.clone(),
            committed: Arc::clone(&committed),
        };
        let writer = self.writer().with_cancel(&cancel).with_pause(script);
        let writer = writer.with_progress(move |progress| committed.tell(progress.uncommitted));
        // Whatever was read is committed before there is a pause.
        let options = IngestOptions { seal_after: Duration::ZERO, ..self.options(merge) };
        let report = writer.follow(vec![logs.folder.clone()], &index(), options).await;
        let (mut files, now_us) = (logs.files(), self.world.clock.now_us());
        files.finish_copy(now_us);
        let report = report?;
        if (report.rejected_total() > 0 || !report.failed.is_empty()) && !files.is_torn(now_us) {
            return Err(Error::internal(format!("good lines were refused: {report:?}")));
        }
        self.ledger().acknowledge(&files.whole, began);
        Ok(())
    }
}
