//! What a power cut leaves: records the writes and flushes of a device, cuts them where power may fail, and
//! checks the resulting state of the device.
//!
//! [`log`] is the engine and needs no kernel: it keeps the record, makes the cuts and builds the bytes that
//! a device may hold after each. It can also test our own code.
//!
//! [`prove`] applies it to a file system of the running kernel: an emulated volume records what the file
//! system sends it while a workload syncs files ([`workload`]); for every cut the kernel mounts the state,
//! which replays the journal, the files are compared with what `fsync` had acknowledged before the cut, and
//! the file system's own check looks for damage.
//!
//! This does not show what a particular device loses. It shows what a device may lose that follows the
//! rules of a volatile cache. On a device without one, no flush is needed and no option loses anything.

mod file_system;
pub mod log;
mod workload;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use clap::Args;
use frostline_base::{Error, Result};
use frostline_show::item_progress;
use serde::{Deserialize, Serialize};

use self::log::{Cut, Image, Replay, WriteLog};
use self::workload::Standard;
use crate::emulate::{self, Daemon, Emulated, Options, Setup, WriteCache};
use crate::host::io;
use crate::host::ledger::{Ledger, Thing};

pub use file_system::FileSystem;
pub use workload::Findings;

/// What is done while the device is recorded, and what must be there after a cut.
pub trait Work {
    /// Does it in the file system at `at`, and calls `mark` after everything that is then promised.
    fn run(&mut self, at: &Path, mark: &mut dyn FnMut(&str) -> std::io::Result<()>) -> std::io::Result<()>;

    /// Compares what is at `at` with what these marks promised.
    fn judge(&self, at: &Path, marks: &[&str]) -> Findings;
}

/// Examples of each kind that a [`Proof`] keeps.
const EXAMPLES: usize = 3;
/// Bytes that are deleted before the workload begins, so that free blocks are not zeroes: all of an ext4, and of
/// the larger ones enough for the blocks that the workload gets.
const STALE_BYTES: usize = 44 << 20;
/// The marks around the workload.
const BEGIN: &str = "begin";
const END: &str = "end";

/// What is proved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The file system.
    pub file_system: FileSystem,
    /// Its mount options; empty for the kernel's defaults.
    pub options: String,
    /// Power cuts.
    pub cuts: usize,
    /// Steps of the workload.
    pub steps: usize,
    /// Decides where the cuts are and what survives them.
    pub seed: u64,
    /// Bytes that the device writes as a whole or not at all.
    pub sector: u32,
}

/// What was found in the states after the cuts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// What was proved.
    pub trial: Trial,
    /// What mount(8) said if it refused the options; nothing else was done then.
    pub refused: Option<String>,
    /// The options that the kernel says were in force.
    pub mounted: String,
    /// What `queue/write_cache` of the device said.
    pub write_cache: WriteCache,
    /// Writes and discards that the workload sent to the device.
    pub writes: usize,
    /// Flushes among them.
    pub flushes: usize,
    /// States examined.
    pub cuts: usize,
    /// Whether it was ended after these, before the others of the trial or other trials.
    #[serde(default)]
    pub interrupted: bool,
    /// States in which something that `fsync` had acknowledged was missing, short or old, or that could not
    /// be mounted after something was acknowledged.
    pub lost_acknowledged: usize,
    /// States in which something acknowledged had other bytes.
    pub wrong_content: usize,
    /// States in which a file showed bytes of a deleted one.
    pub stale_exposed: usize,
    /// States that the file system's own check called damaged after the journal was replayed.
    pub fsck_damaged: usize,
    /// States that the kernel refused to mount.
    pub unmountable: usize,
    /// A few of them, by what was wrong.
    pub examples: Vec<Example>,
}

/// One state that was not as promised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Example {
    /// Where the power failed and what survived.
    pub cut: Cut,
    /// What was wrong.
    pub what: String,
}

/// The trials of the study of mount options, with `cuts` each.
pub fn table(cuts: usize, seed: u64) -> Vec<Trial> {
    let all_four = "noatime,nodiratime,nobarrier,data=writeback";
    [
        (FileSystem::Ext4, ""),
        (FileSystem::Ext4, "noatime,nodiratime"),
        (FileSystem::Ext4, "data=writeback"),
        (FileSystem::Ext4, "nobarrier"),
        (FileSystem::Ext4, all_four),
        (FileSystem::Ext4, "journal_async_commit,data=writeback"),
        (FileSystem::Ext4, "nodelalloc"),
        (FileSystem::Ext4, "nodelalloc,data=writeback"),
        (FileSystem::Ext4, "data=journal"),
        (FileSystem::Xfs, ""),
        (FileSystem::Xfs, "nobarrier"),
        (FileSystem::Btrfs, ""),
        (FileSystem::Btrfs, "nobarrier"),
    ]
    .map(|(file_system, options)| Trial {
        file_system,
        options: options.to_owned(),
        cuts,
        steps: 80,
        seed,
        sector: 512,
    })
    .to_vec()
}

/// Records `trial`, cuts it and examines every state. `daemon` serves the recording volume; images are created
/// below `folder`, preferably in memory; `progress` is called with the number of cuts examined.
///
/// The same trial makes the same cuts of the same log, but the kernel does not write the same log twice.
///
/// # Errors
/// As [`Emulated::attach_all`]; NotFound for a missing tool. Options that the kernel refuses are no error.
pub fn prove(
    ledger: &mut Ledger,
    folder: &Path,
    daemon: &Daemon,
    trial: &Trial,
    progress: &mut dyn FnMut(usize),
) -> Result<Proof> {
    let mut go_on = |cuts| {
        progress(cuts);
        true
    };
    prove_while(ledger, folder, daemon, trial, &mut go_on)
}

/// The same until `go_on`, which is called with the number of cuts examined, says no. The proof is of these cuts then.
pub fn prove_while(
    ledger: &mut Ledger,
    folder: &Path,
    daemon: &Daemon,
    trial: &Trial,
    go_on: &mut dyn FnMut(usize) -> bool,
) -> Result<Proof> {
    prove_work(ledger, folder, daemon, trial, &mut Standard { steps: trial.steps }, go_on)
}

/// The same of any work.
pub fn prove_work(
    ledger: &mut Ledger,
    folder: &Path,
    daemon: &Daemon,
    trial: &Trial,
    work: &mut dyn Work,
    go_on: &mut dyn FnMut(usize) -> bool,
) -> Result<Proof> {
    let (proof, ended) = prove_as_far_as_possible(ledger, folder, daemon, trial, work, go_on);
    ended.map(|()| proof)
}

/// What was proved, also if an error ended it.
fn prove_as_far_as_possible(
    ledger: &mut Ledger,
    folder: &Path,
    daemon: &Daemon,
    trial: &Trial,
    work: &mut dyn Work,
    go_on: &mut dyn FnMut(usize) -> bool,
) -> (Proof, Result<()>) {
    let mut proof = Proof::of(trial);
    let ended = emulate::check_host().and_then(|()| Place::make(ledger, folder)).and_then(|place| {
        let proved = place.prove(ledger, daemon, work, &mut proof, go_on);
        let undone = ledger.undo_from(&Thing::Directory(place.folder));
        proved.and(undone)
    });
    proof.interrupted |= ended.is_err();
    (proof, ended)
}

/// The folder of one proof.
struct Place {
    folder: PathBuf,
    mount: PathBuf,
}

/// What the recording gave.
enum Recording {
    Refused(String),
    Done { log: WriteLog, mounted: String },
}

impl Place {
    fn make(ledger: &mut Ledger, parent: &Path) -> Result<Place> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        fs::create_dir_all(parent).map_err(|e| io(e, "cannot make", parent))?;
        let parent = parent.canonicalize().map_err(|e| io(e, "cannot resolve", parent))?;
        let name = format!("crash-{}-{}", ledger.token(), MADE.fetch_add(1, Ordering::Relaxed));
        let folder = parent.join(name);
        ledger.note(Thing::Directory(folder.clone()))?;
        let mount = folder.join("mounted");
        fs::create_dir_all(&mount).map_err(|e| io(e, "cannot make", &mount))?;
        Ok(Place { folder, mount })
    }

    fn prove(
        &self,
        ledger: &mut Ledger,
        daemon: &Daemon,
        work: &mut dyn Work,
        proof: &mut Proof,
        go_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<()> {
        let trial = proof.trial.clone();
        let (log, mounted) = match self.record(ledger, daemon, &trial, work)? {
            Recording::Refused(said) => {
                proof.refused = Some(said);
                return Ok(());
            }
            Recording::Done { log, mounted } => (log, mounted),
        };
        let begin = log.behind(BEGIN).ok_or_else(|| Error::internal("the log has no beginning"))?;
        proof.mounted = mounted;
        (proof.writes, proof.flushes) = log.count(begin);
        let cuts = log.cuts(begin, trial.cuts, trial.seed, trial.sector);
        self.judge_all(ledger, &log, &cuts, work, proof, go_on)
    }

    /// Runs the workload on a recording volume.
    fn record(
        &self,
        ledger: &mut Ledger,
        daemon: &Daemon,
        trial: &Trial,
        work: &mut dyn Work,
    ) -> Result<Recording> {
        let volume = Options { record: true, ..Options::new(trial.file_system.bytes()) };
        let setup = Setup { volumes: vec![volume], machine: None, daemon: daemon.clone() };
        let emulated = Emulated::attach_all(ledger, &self.folder, &setup)?;
        let run = self.run_on(ledger, &emulated, trial, work);
        trial.file_system.forget(&emulated.device)?;
        let files = emulated.detach_keeping_files(ledger)?;
        let recording = match run? {
            Err(refused) => Recording::Refused(refused),
            Ok(mounted) => {
                let mut log = WriteLog::read(&files.log(0))?;
                log.events.truncate(log.behind(END).unwrap_or(log.events.len()));
                Recording::Done { log, mounted }
            }
        };
        files.remove(ledger)?;
        Ok(recording)
    }

    /// The options in force, or why mount(8) refused them.
    fn run_on(
        &self,
        ledger: &mut Ledger,
        on: &Emulated,
        trial: &Trial,
        work: &mut dyn Work,
    ) -> Result<Result<String, String>> {
        let mounted = Thing::Mount(self.mount.clone());
        trial.file_system.make(&on.device)?;
        ledger.note(mounted.clone())?;
        let fill = || workload::leave_stale_blocks(&self.mount, STALE_BYTES);
        trial
            .file_system
            .mount(&on.device, &self.mount)
            .map_err(|e| Error::unavailable(format!("cannot mount {}", trial.file_system)).with_source(e))?;
        fill().map_err(|e| io(e, "cannot fill", &self.mount))?;
        file_system::unmount(&self.mount)?;
        file_system::wait_until_free(&on.device)?;

        let options = match trial.file_system.mount_with(&on.device, &self.mount, &trial.options)? {
            Ok(options) => options,
            Err(refused) => {
                ledger.undo_from(&mounted)?;
                return Ok(Err(refused));
            }
        };
        on.mark(BEGIN)?;
        let mut mark = |text: &str| on.mark(text).map_err(std::io::Error::other);
        work.run(&self.mount, &mut mark).map_err(|e| io(e, "the workload failed on", &self.mount))?;
        on.mark(END)?;
        file_system::unmount(&self.mount)?;
        ledger.undo_from(&mounted)?;
        Ok(Ok(options))
    }

    fn judge_all(
        &self,
        ledger: &mut Ledger,
        log: &WriteLog,
        cuts: &[Cut],
        work: &dyn Work,
        proof: &mut Proof,
        go_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<()> {
        let mut replay = Replay::new(log);
        for (nth, cut) in cuts.iter().enumerate() {
            let marks: Vec<&str> = log.marks(cut).filter(|mark| *mark != BEGIN).collect();
            let kind = proof.trial.file_system;
            let state = self.judge_cut(ledger, nth, &replay.state(cut), (work, &marks), kind)?;
            proof.add(cut, state);
            if !go_on(nth + 1) {
                proof.interrupted = true;
                break;
            }
        }
        Ok(())
    }

    /// Each state has a file and a loop device of its own. Whoever else has the device of the state before
    /// open, or has its mount in another mount namespace, would keep what the kernel cached of it.
    fn judge_cut(
        &self,
        ledger: &mut Ledger,
        nth: usize,
        state: &Image,
        promised: (&dyn Work, &[&str]),
        kind: FileSystem,
    ) -> Result<State> {
        let image = self.folder.join(format!("state-{nth}.img"));
        let cannot = |e| io(e, "cannot write", &image);
        File::create_new(&image).and_then(|file| state.store(&file)).map_err(cannot)?;
        let attached = Thing::Loop(image.clone());
        let (device, _) = emulate::attach_loop(ledger, &image)?;
        ledger.note(Thing::Mount(self.mount.clone()))?;
        let state = self.judge(&device, &image, promised, kind);
        ledger.undo_from(&attached)?;
        fs::remove_file(&image).map_err(|e| io(e, "cannot remove", &image))?;
        state
    }

    fn judge(
        &self,
        device: &Path,
        image: &Path,
        (work, marks): (&dyn Work, &[&str]),
        kind: FileSystem,
    ) -> Result<State> {
        let mut state = State { anything_promised: !marks.is_empty(), ..State::default() };
        kind.forget_pages(device)?;
        match kind.mount(device, &self.mount) {
            Ok(()) => {
                state.findings = work.judge(&self.mount, marks);
                file_system::unmount(&self.mount)?;
                // Until then its log is not empty, and the check would call that damage.
                file_system::wait_until_free(device)?;
            }
            Err(refused) => state.unmountable = Some(format!("cannot be mounted: {refused}")),
        }
        state.damage = kind.damage(image)?;
        kind.forget(device)?;
        Ok(state)
    }
}

/// What one state was found to be.
#[derive(Default)]
struct State {
    anything_promised: bool,
    findings: Findings,
    unmountable: Option<String>,
    damage: Option<String>,
}

impl Proof {
    fn of(trial: &Trial) -> Proof {
        Proof {
            trial: trial.clone(),
            refused: None,
            mounted: String::new(),
            write_cache: WriteCache::WriteBack,
            writes: 0,
            flushes: 0,
            cuts: 0,
            interrupted: false,
            lost_acknowledged: 0,
            wrong_content: 0,
            stale_exposed: 0,
            fsck_damaged: 0,
            unmountable: 0,
            examples: Vec::new(),
        }
    }

    fn add(&mut self, cut: &Cut, state: State) {
        let State { anything_promised, findings: Findings { mut lost, wrong, stale }, unmountable, damage } =
            state;
        if anything_promised && let Some(what) = &unmountable {
            lost.push(what.clone());
        }
        self.cuts += 1;
        let kinds = [
            (&mut self.lost_acknowledged, lost),
            (&mut self.wrong_content, wrong),
            (&mut self.stale_exposed, stale),
            (&mut self.fsck_damaged, damage.into_iter().collect()),
            (&mut self.unmountable, unmountable.into_iter().collect()),
        ];
        for (count, found) in kinds {
            let Some(first) = found.first() else { continue };
            *count += 1;
            if *count <= EXAMPLES {
                let more =
                    if found.len() > 1 { format!(", and {} more", found.len() - 1) } else { String::new() };
                self.examples.push(Example { cut: *cut, what: format!("{first}{more}") });
            }
        }
    }

    /// Whether every state kept every promise and was undamaged.
    pub fn is_clean(&self) -> bool {
        self.lost_acknowledged
            + self.wrong_content
            + self.stale_exposed
            + self.fsck_damaged
            + self.unmountable
            == 0
    }

    /// The names of what [`Proof::line`] has.
    fn header() -> String {
        format!(
            "{:52} {:>6} {:>7} {:>5} {:>5} {:>5} {:>5} {:>7} {:>11}",
            "mounted with", "writes", "flushes", "cuts", "lost", "wrong", "stale", "damaged", "unmountable"
        )
    }

    fn line(&self) -> String {
        let options = if self.trial.options.is_empty() { "defaults" } else { &self.trial.options };
        let name = format!("{:5} {options}", self.trial.file_system.name());
        match &self.refused {
            Some(said) => format!("{name:52} refused: {said}"),
            None => format!(
                "{name:52} {:6} {:7} {:5} {:5} {:5} {:5} {:7} {:11}{}",
                self.writes,
                self.flushes,
                self.cuts,
                self.lost_acknowledged,
                self.wrong_content,
                self.stale_exposed,
                self.fsck_damaged,
                self.unmountable,
                if self.interrupted { "  interrupted" } else { "" }
            ),
        }
    }
}

/// `lab crash-proof`: what file systems and mount options lose when the power fails.
#[derive(Clone, Debug, Args)]
pub struct CrashArgs {
    /// One file system; without it, the table of the study of mount options.
    #[arg(long, value_enum)]
    pub fs: Option<FileSystem>,
    /// Its mount options; without them, the kernel's defaults.
    #[arg(long, requires = "fs", default_value = "")]
    pub options: String,
    /// Power cuts of each file system and its options.
    #[arg(long, default_value_t = 100)]
    pub cuts: usize,
    /// Steps of the workload that is recorded.
    #[arg(long, default_value_t = 80)]
    pub steps: usize,
    /// Decides where the cuts are and what survives them.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Bytes that the device writes as a whole or not at all.
    #[arg(long, default_value_t = 512)]
    pub sector: u32,
    /// Where images are made; in memory if the system has a folder there.
    #[arg(long)]
    pub folder: Option<PathBuf>,
}

impl CrashArgs {
    fn trials(&self) -> Vec<Trial> {
        let trials = match self.fs {
            None => table(self.cuts, self.seed),
            Some(file_system) => vec![Trial {
                file_system,
                options: self.options.clone(),
                cuts: self.cuts,
                steps: 0,
                seed: self.seed,
                sector: 0,
            }],
        };
        trials.into_iter().map(|trial| Trial { steps: self.steps, sector: self.sector, ..trial }).collect()
    }
}

/// The legend of the table.
const LEGEND: &str = "
Of the states after the cuts, how many
  lost         what fsync had acknowledged: it is missing, short or old, or the file system cannot be mounted
  wrong        have other bytes in what was acknowledged
  stale        show bytes of a deleted file
  damaged      have errors according to the file system's own check, after the journal was replayed
  unmountable  cannot be mounted at all";

/// Runs `lab crash-proof` with `daemon` serving the volumes, until `go_on`, which is asked after each cut, says no. Prints a
/// table to `out`, or with `json` one document, also of what was proved before an error. Whether it was all that was wanted.
pub fn run(
    arguments: &CrashArgs,
    ledger: &mut Ledger,
    daemon: &Daemon,
    json: bool,
    out: &mut dyn Write,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<bool> {
    let memory = Path::new("/dev/shm");
    let folder = match &arguments.folder {
        Some(folder) => folder.clone(),
        None if memory.is_dir() => memory.join("frostline-lab"),
        None => std::env::temp_dir().join("frostline-lab"),
    };
    let mut print =
        |text: &str| writeln!(out, "{text}").map_err(|e| Error::unavailable("cannot print").with_source(e));
    if !json {
        print(&Proof::header())?;
    }
    let (mut proofs, mut all) = (Vec::new(), Ok(true));
    for trial in arguments.trials() {
        let bar = item_progress(Some(trial.cuts as u64), "cuts");
        bar.set_message(trial.options.clone());
        let mut after_cut = |cuts| {
            bar.set_position(cuts as u64);
            go_on()
        };
        let mut work = Standard { steps: trial.steps };
        let (proof, ended) =
            prove_as_far_as_possible(ledger, &folder, daemon, &trial, &mut work, &mut after_cut);
        bar.finish_and_clear();
        all = ended.map(|()| !proof.interrupted);
        if all.is_ok() || proof.cuts > 0 {
            if !json {
                print(&proof.line())?;
            }
            proofs.push(proof);
        }
        if !matches!(all, Ok(true)) {
            break;
        }
    }
    if proofs.is_empty() {
        return all;
    }
    let end = match json {
        true => serde_json::to_string_pretty(&proofs)
            .map_err(|e| Error::internal("cannot encode the proofs").with_source(e))?,
        false => LEGEND.to_owned(),
    };
    print(&end)?;
    all
}

#[cfg(test)]
mod tests;
