//! Processes that are killed while they mount, serve writes, fill, and take snapshots: nothing acknowledged is lost.
//! `FROSTLINE_TEST_KILLS` is how many are killed, 12 without it.

use std::collections::BTreeMap;
use std::io::BufRead as _;
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use super::*;

const REPOSITORY: &str = "FROSTLINE_TEST_REPOSITORY";
const TARGET: &str = "FROSTLINE_TEST_TARGET";
const DOES: &str = "FROSTLINE_TEST_DOES";

/// Not a test by itself: the process that the next one kills.
#[tokio::test(flavor = "multi_thread")]
async fn works_until_it_is_killed() {
    let of = |name| std::env::var_os(name).map(PathBuf::from);
    let (Some(repository), Some(target)) = (of(REPOSITORY), of(TARGET)) else { return };
    let volumes = on_disk(&repository);
    match std::env::var(DOES).unwrap().as_str() {
        "snapshot" => {
            let taken =
                volumes.snapshot(&target, &"other".parse().unwrap(), &options(), |_| {}).await.unwrap();
            println!("\ndone {}", taken.snapshot.number);
        }
        "restore" => {
            let newest = volumes.find(&"data".parse().unwrap()).await.unwrap();
            crate::testing::restore(&volumes, &newest, &target).await;
            println!("\ndone");
        }
        does => {
            let options = MountOptions { hydrate: does.contains("fill"), ..MountOptions::default() };
            let options = if does.contains("ask") { asked(options) } else { options };
            let mut served = mount(&volumes, &target, &options).await;
            println!("\ndone");
            let _ = (&mut served.1).await;
        }
    }
}

/// A process that does something, and what it says when it is done.
pub(super) struct Doing(Child, Receiver<String>);

impl Doing {
    pub(super) fn start(does: &str, repository: &Path, target: &Path) -> Doing {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "mount::tests::kills::works_until_it_is_killed", "--nocapture"])
            .env(REPOSITORY, repository)
            .env(TARGET, target)
            .env(DOES, does)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (tell, told) = channel();
        let lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            lines.map_while(std::io::Result::ok).filter(|line| line.starts_with("done")).for_each(|line| {
                let _ = tell.send(line);
            });
        });
        Doing(child, told)
    }

    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(super) fn wait(&self) -> String {
        self.1.recv().expect("it ended before it was done")
    }

    /// Kills it at this state, or when it is done; what it said then.
    fn kill_when(mut self, is_reached: impl Fn() -> bool) -> Option<String> {
        let mut said = None;
        while said.is_none() && !is_reached() {
            said = self.1.recv_timeout(Duration::from_millis(1)).ok();
        }
        self.kill();
        said.or_else(|| self.1.try_recv().ok())
    }

    /// The same of one that serves, which it does until it is killed.
    fn kill_serving_when(mut self, is_reached: impl Fn() -> bool) {
        self.wait();
        while !is_reached() {
            std::thread::yield_now();
        }
        self.kill();
    }

    pub(super) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Names below a directory, and how many blocks their files have.
fn size(folder: &Path) -> (usize, u64) {
    let mut size = (0, 0);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(meta) = fs::symlink_metadata(entry.path()) else { continue };
        let below = if meta.is_dir() { self::size(&entry.path()) } else { (0, meta.blocks()) };
        size = (size.0 + 1 + below.0, size.1 + below.1);
    }
    size
}

/// What files of a mount have to have: bytes, and where a write was not answered.
type Model = BTreeMap<String, (Vec<u8>, Vec<Range<usize>>)>;

/// Writes to a file until that fails, and says so after each write.
fn write(path: &Path, seed: u64, acknowledged: &Sender<()>) -> (Vec<(usize, Vec<u8>)>, Range<usize>) {
    let file = fs::File::options().write(true).open(path).unwrap();
    let mut done = Vec::new();
    for n in 0..u64::MAX {
        let (at, data) = ((n * 5_000 % 300_000) as usize, noise(seed << 32 | n, 9_000));
        if file.write_all_at(&data, at as u64).is_err() {
            return (done, at..at + data.len());
        }
        done.push((at, data));
        let _ = acknowledged.send(());
    }
    unreachable!("it writes until that fails")
}

/// A process serves; it is killed while this writes to a file of which data is absent.
fn kill_at_writes(
    does: &str,
    at: (&Path, &Path),
    file: (&str, u64),
    writes: usize,
    model: &mut Model,
) -> usize {
    let ((repository, target), (name, seed)) = (at, file);
    let mut child = Doing::start(does, repository, target);
    child.wait();
    let (tell, told) = channel();
    let path = target.join(name);
    let writer = std::thread::spawn(move || write(&path, seed, &tell));
    assert_eq!(told.iter().take(writes).count(), writes);
    child.kill();
    let (done, unsure) = writer.join().unwrap();
    let error = fs::read(target.join("sparse")).unwrap_err();
    // Nobody uses it any more, or its guardian has not seen that yet.
    let expected = if does == "mount" { vec![Errno::NOTCONN] } else { vec![Errno::IO, Errno::NOENT] };
    assert!(expected.iter().any(|errno| Some(errno.raw_os_error()) == error.raw_os_error()), "{error}");
    let (bytes, ranges) = model.get_mut(name).unwrap();
    for (at, data) in &done {
        bytes[*at..][..data.len()].copy_from_slice(data);
        // What an earlier process left open is closed by what was written since.
        *ranges = ranges.iter().flat_map(|range| outside(range, &(*at..at + data.len()))).collect();
    }
    ranges.push(unsure);
    done.len()
}

fn outside(range: &Range<usize>, covered: &Range<usize>) -> Vec<Range<usize>> {
    let parts = [range.start..range.end.min(covered.start), range.start.max(covered.end)..range.end];
    parts.into_iter().filter(|part| part.start < part.end).collect()
}

fn check(target: &Path, model: &mut Model) {
    for (name, (bytes, unsure)) in model {
        let found = fs::read(target.join(name)).unwrap();
        assert_eq!(found.len(), bytes.len(), "{name}");
        for (at, (found, expected)) in found.iter().zip(bytes.iter()).enumerate() {
            assert!(
                found == expected || unsure.iter().any(|range| range.contains(&at)),
                "byte {at} of {name}"
            );
        }
        *bytes = found;
        unsure.clear();
    }
}

/// Every snapshot that was acknowledged is there, and every one that is there is whole; `newest` is one of the directory
/// as it is now. How many there are.
async fn check_snapshots(volumes: &Volumes, acknowledged: &[u64], newest: Option<u64>, copy: &Path) -> usize {
    let all: Vec<_> = volumes.list().await.unwrap();
    let others: Vec<_> = all.iter().filter(|snapshot| snapshot.volume.to_string() == "other").collect();
    assert!(acknowledged.iter().all(|number| others.iter().any(|snapshot| snapshot.number == *number)));
    let verified = volumes.verify(&all, |_, _| {}).await.unwrap();
    assert!(verified.faults.is_empty(), "{:?}", verified.faults);
    if let Some(newest) = others.iter().find(|snapshot| Some(snapshot.number) == newest) {
        let restored = tempfile::tempdir().unwrap();
        crate::testing::restore(volumes, newest, restored.path()).await;
        assert_eq!(tree(restored.path()), tree(copy));
    }
    others.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_loses_no_write_and_no_snapshot_and_reads_fail_until_the_next_mount() {
    if can_mount() {
        kill_again_and_again(["mount", "fill"], MountOptions::default()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_does_one_that_the_kernel_asks() {
    if can_ask() {
        kill_again_and_again(["ask", "ask and fill"], asked(MountOptions::default())).await;
    }
}

async fn kill_again_and_again([serves, fills]: [&'static str; 2], options: MountOptions) {
    let kills: u32 = std::env::var("FROSTLINE_TEST_KILLS").map_or(12, |kills| kills.parse().unwrap());
    let mut random = SmallRng::seed_from_u64(7);
    let (source, copy, folder) = (source(), self::source(), tempfile::tempdir().unwrap());
    let (repository, target) = (folder.path().join("repository"), folder.path().join("data"));
    let volumes = on_disk(&repository);
    snapshot(&volumes, source.path()).await;
    let files = || (0..6).map(|n| format!("a/b/f{n}"));
    let (mut writes, mut acknowledged, mut snapshots) = (0, Vec::new(), 0);
    for round in 0..kills.div_ceil(5) {
        let seed = u64::from(round);
        let mut model: Model = files()
            .map(|name| (name.clone(), (fs::read(source.path().join(&name)).unwrap(), Vec::new())))
            .collect();
        let (names, reads) = (random.random_range(0..14), random.random_range(1..40_usize));
        let (blocks, objects) = (random.random_range(0..10_000_u64), random.random_range(0..24_usize));
        // A file that is written before anything is read of it, and one while all is being filled.
        let [first, second] =
            [random.random_range(0..3_u64), random.random_range(3..6)].map(|n| format!("a/b/f{n}"));
        let state = folder.path().join(".data.frostline-mount");
        let (at, root, absent) = (target.clone(), state.join("root"), state.join("absent"));
        let (repo, copied) = (repository.clone(), copy.path().to_owned());
        let (made, count, taken) = calls(move || {
            Doing::start(serves, &repo, &at).kill_when(|| size(&root).0 >= names);
            let mut count = kill_at_writes(serves, (&repo, &at), (&first, 2 * seed), reads, &mut model);
            count += kill_at_writes(serves, (&repo, &at), (&second, 2 * seed + 1), reads, &mut model);
            let before = size(&root).1;
            let is_full = || fs::read_dir(&absent).map_or(true, |mut absent| absent.next().is_none());
            let fill = Doing::start(fills, &repo, &at);
            fill.kill_serving_when(|| size(&root).1 >= before + blocks || is_full());
            fs::write(copied.join(format!("a/b/f{}", seed % 6)), noise(1_000 + seed, 700_000)).unwrap();
            let before = size(&repo).0;
            let taken =
                Doing::start("snapshot", &repo, &copied).kill_when(|| size(&repo).0 >= before + objects);
            (model, count, taken)
        })
        .await;
        (model, writes) = (made, writes + count);
        let newest = taken.and_then(|line| line.strip_prefix("done ")?.parse::<u64>().ok());
        acknowledged.extend(newest);
        snapshots = check_snapshots(&volumes, &acknowledged, newest, copy.path()).await;
        // It may have been whole when it was killed.
        // It is an ordinary directory once its record is gone.
        let served = match state.join(place::RECORD).exists() {
            true => Some(volumes.mount(&"data".parse().unwrap(), &target, &options).await.unwrap()),
            false => None,
        };
        if let Some(Mount::Mounted(mounted)) = served {
            let mut served = Served(target.clone(), tokio::spawn(mounted.serve(|_| {})));
            let at = target.clone();
            model = calls(move || {
                check(&at, &mut model);
                tree(&at);
                model
            })
            .await;
            assert_eq!(served.unmount().await, Unmounted::Whole);
        }
        check(&target, &mut model);
        fs::remove_dir_all(&target).unwrap();
    }
    println!(
        "{} killed, {writes} writes and {} snapshots acknowledged, {snapshots} found",
        kills.div_ceil(5) * 5,
        acknowledged.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_restore_goes_on_and_is_called_unfinished_until_it_is_whole() {
    let kills: u64 = std::env::var("FROSTLINE_TEST_KILLS").map_or(6, |kills| kills.parse().unwrap());
    let (source, folder) = (source(), tempfile::tempdir().unwrap());
    let (repository, target) = (folder.path().join("repository"), folder.path().join("data"));
    let volumes = on_disk(&repository);
    let newest = snapshot(&volumes, source.path()).await.snapshot;
    let whole = size(source.path());
    for seed in 0..kills {
        let (at, repo) = (target.clone(), repository.clone());
        let mut random = SmallRng::seed_from_u64(seed);
        let (names, blocks) = (random.random_range(0..whole.0), random.random_range(0..=whole.1));
        let kill = move |names, blocks| {
            let is_reached = || {
                let (made, filled) = size(&at);
                made >= names && filled >= blocks
            };
            Doing::start("restore", &repo, &at).kill_when(is_reached)
        };
        // While names are made, and while they get their data.
        let done = calls(move || kill(names, 0).or_else(|| kill(whole.0, blocks))).await;
        let is_unfinished = target.join(scan::UNFINISHED).exists();
        assert!(done.is_none() || !is_unfinished);
        if is_unfinished {
            let taken = volumes.snapshot(&target, &"other".parse().unwrap(), &options(), |_| {}).await;
            assert_eq!(taken.unwrap_err().kind(), ErrorKind::Invalid);
            crate::testing::restore(&volumes, &newest, &target).await;
        } else if size(&target).0 == 0 {
            // It had not begun.
            crate::testing::restore(&volumes, &newest, &target).await;
        }
        let mut found = tree(&target);
        if done.is_none() && !is_unfinished {
            // It was whole; the time of the directory itself may be that of its end.
            let root = tree(source.path()).remove(b"".as_slice()).unwrap();
            let ours = found.insert(Vec::new(), root.clone()).unwrap();
            assert_eq!(crate::testing::without_time(&ours), crate::testing::without_time(&root));
        }
        assert!(found == tree(source.path()), "seed {seed}");
        fs::remove_dir_all(&target).unwrap();
    }
}
