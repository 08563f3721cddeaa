//! Power cuts while a snapshot is mounted, written to, filled and finished, and while snapshots are taken and pruned: the
//! lab's crash engine records what a disk is sent and shows what it may hold afterwards. `FROSTLINE_TEST_CUTS` is how many
//! cuts each trial has, 8 without it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Write as _;

use frostline_lab::crash::{FileSystem, Findings, Proof, Trial, Work, prove_work};
use frostline_lab::emulate::{self, Daemon};
use frostline_lab::host::ledger::Ledger;
use tokio::runtime::Runtime;

use super::*;
use crate::Prune;

/// What a disk writes as a whole.
const SECTOR: usize = 512;

/// Contents by name.
type Model = BTreeMap<String, Vec<u8>>;

/// Not a test by itself: the process that serves the recorded disk.
#[test]
#[ignore = "the process that other tests start"]
fn serves_a_disk() {
    let config = PathBuf::from(std::env::args_os().next_back().unwrap_or_default());
    if config.ends_with("config.json") {
        emulate::serve(&config).unwrap();
    }
}

fn proved(test: &str, trials: &[(FileSystem, u64)], work: &mut dyn FnMut() -> Box<dyn Work>) -> Vec<Proof> {
    if let Err(error) = emulate::check_host() {
        eprintln!("skipped: {test}: {error}");
        return Vec::new();
    }
    let arguments = ["--ignored", "--exact", "--nocapture", "mount::tests::cuts::serves_a_disk"];
    let daemon = Daemon {
        program: std::env::current_exe().unwrap(),
        arguments: arguments.map(OsString::from).to_vec(),
    };
    let cuts = std::env::var("FROSTLINE_TEST_CUTS").map_or(8, |cuts| cuts.parse().unwrap());
    let folder = in_memory();
    let mut ledger = Ledger::open(&folder.path().join("live")).unwrap();
    let prove = |(file_system, seed): &(FileSystem, u64)| {
        let trial = Trial {
            file_system: *file_system,
            options: String::new(),
            cuts,
            steps: 0,
            seed: *seed,
            sector: SECTOR as u32,
        };
        let mut work = work();
        let proof =
            prove_work(&mut ledger, folder.path(), &daemon, &trial, work.as_mut(), &mut |_| true).unwrap();
        println!(
            "{test}, {file_system}: {} cuts of {} writes and {} flushes, {} lost, {} wrong",
            proof.cuts, proof.writes, proof.flushes, proof.lost_acknowledged, proof.wrong_content
        );
        assert!(proof.refused.is_none() && proof.is_clean(), "{proof:#?}");
        proof
    };
    let proofs: Vec<Proof> = trials.iter().map(prove).collect();
    ledger.close().unwrap();
    proofs
}

/// Where nothing is synced, so that a cut takes no longer than it must.
fn in_memory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// What is done to a file below the mount, and synced.
#[derive(Clone, Debug)]
enum Step {
    Write {
        name: String,
        at: usize,
        bytes: usize,
        seed: u64,
    },
    Truncate {
        name: String,
        bytes: usize,
    },
    /// A new file takes the place of another name.
    Replace {
        name: String,
        bytes: usize,
        seed: u64,
    },
}

const BESIDE: &str = "a/new";

impl Step {
    fn nth(n: u64) -> Step {
        let name = |of: u64| format!("a/b/f{}", of % 6);
        match n % 7 {
            0 => Step::Write { name: name(n / 7), at: 8_192 * (n as usize % 80), bytes: 8_192, seed: n },
            1 => Step::Write { name: name(n / 3), at: 5_000 * n as usize % 690_000, bytes: 9_000, seed: n },
            2 => Step::Write { name: name(n), at: 690_000, bytes: 30_000, seed: n },
            3 => Step::Truncate { name: name(n / 5), bytes: 500_000 + 1_000 * n as usize },
            4 => Step::Write { name: "sparse".to_owned(), at: 123_000 * n as usize, bytes: 20_000, seed: n },
            5 => Step::Write { name: "z-link".to_owned(), at: 1_000 * n as usize, bytes: 4_096, seed: n },
            _ => Step::Replace { name: "new".to_owned(), bytes: 50_000, seed: n },
        }
    }

    fn apply(&self, model: &mut Model) {
        match self {
            Step::Write { name, at, bytes, seed } => {
                // Two names of one file.
                let names: &[&str] =
                    if name == "a/b/f0" || name == "z-link" { &["a/b/f0", "z-link"] } else { &[name] };
                for name in names {
                    let file = model.get_mut(*name).unwrap();
                    file.resize(file.len().max(at + bytes), 0);
                    file[*at..at + bytes].copy_from_slice(&noise(*seed, *bytes));
                }
            }
            Step::Truncate { name, bytes } => {
                let names: &[&str] = if name == "a/b/f0" { &["a/b/f0", "z-link"] } else { &[name] };
                for name in names {
                    model.get_mut(*name).unwrap().resize(*bytes, 0);
                }
            }
            Step::Replace { name, bytes, seed } => {
                model.insert(name.clone(), noise(*seed, *bytes));
            }
        }
    }

    fn run(&self, root: &Path) -> std::io::Result<()> {
        let open = |name: &str| fs::File::options().write(true).open(root.join(name));
        match self {
            Step::Write { name, at, bytes, seed } => {
                let file = open(name)?;
                file.write_all_at(&noise(*seed, *bytes), *at as u64)?;
                file.sync_data()
            }
            Step::Truncate { name, bytes } => {
                let file = open(name)?;
                file.set_len(*bytes as u64)?;
                file.sync_all()
            }
            Step::Replace { name, bytes, seed } => {
                let mut file = fs::File::create(root.join(BESIDE))?;
                file.write_all(&noise(*seed, *bytes))?;
                file.sync_all()?;
                fs::rename(root.join(BESIDE), root.join(name))?;
                fs::File::open(root)?.sync_all()?;
                fs::File::open(root.join("a"))?.sync_all()
            }
        }
    }
}

/// Mounts on the recorded disk; the repository is elsewhere.
struct Mounting {
    options: MountOptions,
    runtime: Runtime,
    volumes: Volumes,
    snapshot: Snapshot,
    source: Model,
    _kept: (tempfile::TempDir, tempfile::TempDir),
}

const STEPS: u64 = 28;

impl Mounting {
    fn new(options: MountOptions) -> Mounting {
        let (runtime, source, folder) = (runtime(), source(), tempfile::tempdir().unwrap());
        let volumes = on_disk(&folder.path().join("repository"));
        let snapshot = runtime.block_on(snapshot(&volumes, source.path())).snapshot;
        let model = files(source.path(), source.path()).unwrap();
        Mounting { options, runtime, volumes, snapshot, source: model, _kept: (source, folder) }
    }

    /// As the next mount after a restart of the machine finds it, with all of its data.
    async fn mend(&self, target: &Path) -> Result<Model> {
        let io = |e: std::io::Error| Error::unavailable("cannot read").with_source(e);
        let visible = match fs::read_dir(target) {
            Ok(names) => names.flatten().any(|name| name.file_name() != place::NOTE),
            Err(_) => false,
        };
        let seen = if visible { Some(files(target, target).map_err(io)?) } else { None };
        let (place, mut record) = match Place::open(target)? {
            Some(found) => found,
            None => match seen {
                Some(seen) => return Ok(seen),
                None => Place::claim(target, self.volumes.repository.url(), &self.snapshot)?,
            },
        };
        if place.finish(&mut record)? {
            return files(target, target).map_err(io);
        }
        assert!(seen.is_none(), "what is not whole is not readable");
        let tree = Arc::new(self.volumes.tree(&self.snapshot).await?);
        place.make(&tree, &mut record)?;
        // The machine did not restart, but its disk is as if it had.
        let root = place.root();
        let boot = "of the next kernel";
        let lazy = open_lazy(&self.volumes.repository, &place, Arc::clone(&tree), boot, self.options.mode)?;
        let lazy = Arc::new(lazy);
        let all: Vec<usize> = (0..tree.chunks.len()).collect();
        assert!(lazy.prefetch(&all).await?);
        assert_eq!(lazy.checkpoint()?, 0);
        files(&root, &root).map_err(io)
    }
}

/// The regular files below a directory.
fn files(root: &Path, folder: &Path) -> std::io::Result<Model> {
    let mut all = Model::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        match entry.file_type()? {
            kind if kind.is_dir() => all.extend(files(root, &path)?),
            kind if kind.is_file() => {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                all.insert(name, fs::read(&path)?);
            }
            _ => {}
        }
    }
    Ok(all)
}

/// The sectors of a file, of which one is cut where the file ends in the snapshot: what is behind that end is no page of
/// the snapshot, and a write that was not acknowledged can be there in one part and not in the other.
fn sectors(bytes: usize, end: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at;
        let next = (start / SECTOR + 1) * SECTOR;
        at = if start < end && end < next { end } else { next }.min(bytes);
        (start < bytes).then_some(start..at)
    })
}

/// Compares with what was acknowledged before the next step, of which any sectors may be there. `source` is the snapshot.
fn compare(
    found: &Model,
    source: &Model,
    (before, after): (&Model, &Model),
    beside: Option<&Step>,
) -> Findings {
    let mut findings = Findings::default();
    let names: BTreeSet<&String> = found.keys().chain(before.keys()).collect();
    for name in names {
        let Some(bytes) = found.get(name) else {
            findings.lost.push(format!("{name} is not there"));
            continue;
        };
        let beside = match beside {
            Some(Step::Replace { bytes, seed, .. }) if name == BESIDE => Some(noise(*seed, *bytes)),
            _ => None,
        };
        let either: Vec<&[u8]> = [before.get(name), after.get(name), beside.as_ref()]
            .into_iter()
            .flatten()
            .map(Vec::as_slice)
            .collect();
        let is_new = !before.contains_key(name);
        let (shortest, longest) =
            either.iter().fold((usize::MAX, 0), |(min, max), e| (min.min(e.len()), max.max(e.len())));
        let shortest = if is_new { 0 } else { shortest };
        if bytes.len() < shortest {
            findings.lost.push(format!("{name} has {} bytes of {shortest}", bytes.len()));
        } else if bytes.len() > longest {
            findings.wrong.push(format!("{name} has {} bytes, more than {longest}", bytes.len()));
        }
        let may_be_zero = either.len() > 1 || is_new;
        for range in sectors(bytes.len(), source.get(name).map_or(0, Vec::len)) {
            let sector = &bytes[range.clone()];
            let is = |of: &&[u8]| {
                (0..sector.len()).all(|n| of.get(range.start + n).copied().unwrap_or(0) == sector[n])
            };
            let is_zero = sector.iter().all(|byte| *byte == 0);
            let is_unchanged =
                either.windows(2).all(|pair| pair[0].get(range.clone()) == pair[1].get(range.clone()));
            if !(either.iter().any(is) || is_zero && may_be_zero && !is_unchanged) {
                findings.wrong.push(format!("{name} differs at {}", range.start));
                break;
            }
        }
    }
    findings
}

impl Work for Mounting {
    fn run(&mut self, at: &Path, mark: &mut dyn FnMut(&str) -> std::io::Result<()>) -> std::io::Result<()> {
        let target = at.join("data");
        self.runtime.block_on(async {
            let lazily = MountOptions { hydrate: false, ..self.options.clone() };
            let mut served = mount(&self.volumes, &target, &lazily).await;
            mark("mounted")?;
            for n in 0..STEPS {
                if n == STEPS / 2 {
                    assert_eq!(served.unmount().await, Unmounted::Incomplete);
                    mark("unmounted")?;
                    served = mount(&self.volumes, &target, &self.options).await;
                }
                let at = target.clone();
                calls(move || Step::nth(n).run(&at)).await?;
                mark("step")?;
            }
            let at = target.clone();
            calls(move || tree(&at)).await;
            assert_eq!(served.unmount().await, Unmounted::Whole);
            mark("whole")
        })
    }

    fn judge(&self, at: &Path, marks: &[&str]) -> Findings {
        let steps = marks.iter().filter(|mark| **mark == "step").count() as u64;
        let mut before = self.source.clone();
        (0..steps).for_each(|n| Step::nth(n).apply(&mut before));
        let next = (marks.contains(&"mounted") && steps < STEPS).then(|| Step::nth(steps));
        let mut after = before.clone();
        if let Some(next) = &next {
            next.apply(&mut after);
        }
        match self.runtime.block_on(self.mend(&at.join("data"))) {
            Ok(found) => compare(&found, &self.source, (&before, &after), next.as_ref()),
            Err(error) => Findings { lost: vec![format!("{error:?}")], ..Findings::default() },
        }
    }
}

/// Takes snapshots into a repository on the recorded disk, and prunes it.
struct Taking {
    runtime: Runtime,
    source: tempfile::TempDir,
}

const SNAPSHOTS: u64 = 6;

/// What is in the directory at the `n`-th snapshot.
fn version(n: u64) -> Model {
    let mut file = noise(1, 900_000);
    (0..=n).for_each(|n| file[n as usize * 100_000..][..8_192].copy_from_slice(&noise(50 + n, 8_192)));
    Model::from([("file".to_owned(), file), ("own".to_owned(), noise(100 + n, 200_000))])
}

impl Work for Taking {
    fn run(&mut self, at: &Path, mark: &mut dyn FnMut(&str) -> std::io::Result<()>) -> std::io::Result<()> {
        let volumes = on_disk(&at.join("repository"));
        self.runtime.block_on(async {
            for n in 0..SNAPSHOTS {
                for (name, bytes) in version(n) {
                    fs::write(self.source.path().join(name), bytes)?;
                }
                snapshot(&volumes, self.source.path()).await;
                mark(&format!("taken {n}"))?;
                if n == 3 {
                    mark("prunes")?;
                    let prune = Prune { keep_last: Some(2), retain_ms: 0, ..Prune::default() };
                    assert_eq!(volumes.prune(&prune).await.map_err(std::io::Error::other)?.removed.len(), 2);
                    mark("pruned")?;
                }
            }
            Ok(())
        })
    }

    fn judge(&self, at: &Path, marks: &[&str]) -> Findings {
        let (mut findings, repository) = (Findings::default(), at.join("repository"));
        let taken = marks.iter().filter_map(|mark| mark.strip_prefix("taken ")?.parse::<u64>().ok());
        let mut expected: BTreeSet<u64> = taken.collect();
        if marks.contains(&"prunes") {
            expected.retain(|n| *n >= 2);
        }
        let volumes = on_disk(&repository);
        let check = async {
            let all = volumes.list().await?;
            for snapshot in &all {
                let folder = in_memory();
                crate::testing::restore(&volumes, snapshot, folder.path()).await;
                let found = files(folder.path(), folder.path()).unwrap();
                match (0..SNAPSHOTS).find(|n| version(*n) == found) {
                    Some(n) => drop(expected.remove(&n)),
                    None => findings.wrong.push(format!("{} is none of the versions", snapshot.name())),
                }
            }
            // What a snapshot that was cut short left is pruned, and the next one can be taken.
            volumes.prune(&Prune { retain_ms: 0, abandoned_ms: 0, ..Prune::default() }).await?;
            snapshot(&volumes, self.source.path()).await;
            let all = volumes.list().await?;
            let verified = volumes.verify(&all, |_, _| {}).await?;
            findings.wrong.extend(verified.faults.iter().map(|fault| format!("{fault:?}")));
            Ok::<_, Error>(())
        };
        if let Err(error) = self.runtime.block_on(check) {
            findings.lost.push(format!("{error:?}"));
        }
        findings.lost.extend(expected.iter().map(|n| format!("snapshot {n} is not there")));
        findings
    }
}

#[test]
fn a_power_cut_of_a_mount_loses_nothing_that_was_synced() {
    let test = "a_power_cut_of_a_mount_loses_nothing_that_was_synced";
    if can_mount() {
        let mut mounting = || -> Box<dyn Work> { Box::new(Mounting::new(MountOptions::default())) };
        proved(test, &[(FileSystem::Ext4, 1), (FileSystem::Xfs, 2)], &mut mounting);
    }
}

#[test]
fn a_power_cut_of_a_mount_that_the_kernel_asks_loses_nothing_that_was_synced() {
    let test = "a_power_cut_of_a_mount_that_the_kernel_asks_loses_nothing_that_was_synced";
    if can_ask() {
        let mut mounting = || -> Box<dyn Work> { Box::new(Mounting::new(asked(MountOptions::default()))) };
        proved(test, &[(FileSystem::Ext4, 1), (FileSystem::Xfs, 2)], &mut mounting);
    }
}

#[test]
fn a_power_cut_of_a_repository_loses_no_snapshot_that_was_taken() {
    let test = "a_power_cut_of_a_repository_loses_no_snapshot_that_was_taken";
    let mut taking = || -> Box<dyn Work> { Box::new(Taking { runtime: runtime(), source: in_memory() }) };
    proved(test, &[(FileSystem::Ext4, 3)], &mut taking);
}

#[test]
fn what_is_compared_is_told_apart() {
    let model = |bytes: &[u8]| Model::from([("file".to_owned(), bytes.to_vec())]);
    let (old, new) = (noise(1, 2_048), noise(2, 2_048));
    let mixed = [&old[..512], &new[512..]].concat();
    let clean = |found: &Model, after: &[u8]| {
        compare(found, &model(&old), (&model(&old), &model(after)), None) == Findings::default()
    };
    assert!(clean(&model(&old), &old) && clean(&model(&mixed), &new));
    assert!(!clean(&model(&mixed), &old), "not written");
    assert!(!clean(&model(&old[..1_024]), &new), "short");
    assert!(!clean(&Model::new(), &new), "gone");
    let mut zeros = old.clone();
    zeros[512..1_024].fill(0);
    assert!(!clean(&model(&zeros), &old), "zeros where nothing was written");
}
