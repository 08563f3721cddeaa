use std::fs;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use frostline_commits::testing::ReadFault;

use crate::log::Snapshot;
use crate::mount::hydrate::hydrate;
use crate::mount::place::Place;
use crate::mount::tests::{SmallDisk, can_mount};
use crate::testing::{Bench, noise, snapshot};
use crate::traces::Traces;

/// A snapshot with two files, and where it is mounted.
struct Rig {
    bench: Bench,
    source: tempfile::TempDir,
    folder: tempfile::TempDir,
    snapshot: Snapshot,
    tree: Arc<Tree>,
    /// Restarts of the machine.
    boots: u32,
}

const FILE_BYTES: usize = 1_600_000;
/// Pages of it are not there, and the first block of the one after them.
const HOLE: Range<usize> = 600_000..701_000;

impl Rig {
    async fn new() -> Rig {
        Rig::with(&[]).await
    }

    /// With more files.
    async fn with(more: &[(&str, usize)]) -> Rig {
        let (source, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (name, bytes) in more {
            let path = source.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, noise(*bytes as u64, *bytes)).unwrap();
        }
        let file = File::create(source.path().join("file")).unwrap();
        let bytes = noise(1, FILE_BYTES);
        file.write_all_at(&bytes[..HOLE.start], 0).unwrap();
        file.write_all_at(&bytes[HOLE.end..], HOLE.end as u64).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
        fs::write(source.path().join("other"), noise(2, 300_000)).unwrap();
        fs::write(source.path().join("empty"), b"").unwrap();
        let bench = Bench::new();
        let snapshot = snapshot(&bench.volumes(), source.path()).await.snapshot;
        let tree = Arc::new(bench.volumes().tree(&snapshot).await.unwrap());
        Rig { bench, source, folder, snapshot, tree, boots: 0 }
    }

    /// As a process finds it that starts now.
    fn open(&self) -> (Place, Arc<Lazy>) {
        let directory = self.folder.path().join("data");
        let (place, mut record) = match Place::open(&directory).unwrap() {
            Some(found) => found,
            None => Place::claim(&directory, "memory:", &self.snapshot).unwrap(),
        };
        place.make(&self.tree, &mut record).unwrap();
        let boot = format!("boot{}", self.boots);
        let repository = &self.bench.volumes().repository;
        let lazy =
            crate::mount::open_lazy(repository, &place, Arc::clone(&self.tree), &boot, MountMode::Fuse)
                .unwrap();
        (place, Arc::new(lazy))
    }
}

/// The file of a name.
fn named(place: &Place, lazy: &Lazy, name: &str) -> (Arc<LazyFile>, File) {
    let open = File::options().read(true).write(true).open(place.root().join(name)).unwrap();
    let file = lazy.file(open.metadata().unwrap().ino()).cloned();
    (file.unwrap_or_else(|| Arc::new(whole())), open)
}

/// What is left of a file that is whole.
fn whole() -> LazyFile {
    LazyFile {
        entry: 0,
        bytes: 0,
        chunks: 0..0,
        numbers: Vec::new(),
        whole: AtomicBool::new(true),
        lock: Mutex::default(),
        settling: Mutex::default(),
        ahead: Mutex::default(),
        root: OnceLock::new(),
    }
}

async fn read(lazy: &Arc<Lazy>, file: &LazyFile, open: &File, range: ByteRange) -> io::Result<Vec<u8>> {
    lazy.need(file, range.clone()).await?;
    let end = range.end.min(open.metadata()?.len());
    let mut bytes = vec![0; end.saturating_sub(range.start) as usize];
    open.read_exact_at(&mut bytes, range.start)?;
    Ok(bytes)
}

async fn write(lazy: &Arc<Lazy>, file: &LazyFile, open: &File, at: u64, data: &[u8]) {
    lazy.need_for_write(file, open, &(at..at + data.len() as u64)).await.unwrap();
    lazy.write(file, open, at, data).unwrap().1.unwrap();
}

async fn truncate(lazy: &Arc<Lazy>, file: &LazyFile, open: &File, bytes: u64) {
    lazy.need_to_end(file, open, bytes).await.unwrap();
    lazy.cut(file, open, bytes).unwrap();
}

/// Overwrites whatever these bits do not vouch for, as a crash may leave it.
fn garble(file: &LazyFile, open: &File, vouched: impl Fn(usize) -> u64) {
    let bytes = open.metadata().unwrap().len().min(file.bytes);
    for (chunk, number, pages) in file.touched(&(0..bytes)) {
        for run in runs(pages & !vouched(chunk)) {
            let start = number * CHUNK + run.start * PAGE;
            let end = (number * CHUNK + run.end * PAGE).min(bytes);
            open.write_all_at(&vec![0xEE; (end - start) as usize], start).unwrap();
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Read { at: u64, bytes: u64 },
    Write { at: u64, bytes: usize, seed: u64 },
    Truncate { bytes: u64 },
    PunchHole { at: u64, bytes: u64 },
    Sync,
    Prefetch { chunk: usize },
    Checkpoint,
    Kill,
    PowerCut,
}

fn step() -> impl Strategy<Value = Step> {
    let end = FILE_BYTES as u64 + 100_000;
    // Often at the bounds of pages, where the cases are.
    let at = prop_oneof![0..end, (0..end / PAGE).prop_map(|page| page * PAGE)];
    let bytes = prop_oneof![1..40_000_u64, (1..5_u64).prop_map(|pages| pages * PAGE), Just(CHUNK)];
    prop_oneof![
        4 => (at.clone(), bytes.clone()).prop_map(|(at, bytes)| Step::Read { at, bytes }),
        6 => (at.clone(), bytes.clone(), any::<u64>())
            .prop_map(|(at, bytes, seed)| Step::Write { at, bytes: bytes as usize, seed }),
        2 => at.clone().prop_map(|bytes| Step::Truncate { bytes }),
        1 => (at, bytes).prop_map(|(at, bytes)| Step::PunchHole { at, bytes }),
        2 => Just(Step::Sync),
        2 => (0..8_usize).prop_map(|chunk| Step::Prefetch { chunk }),
        1 => Just(Step::Checkpoint),
        2 => Just(Step::Kill),
        2 => Just(Step::PowerCut),
    ]
}

/// Every step against a plain array of bytes. A killed process loses nothing; a machine that stops loses at most what was
/// not synced, page by page.
async fn check(steps: Vec<Step>) {
    let mut rig = Rig::new().await;
    let mut model = fs::read(rig.source.path().join("file")).unwrap();
    let mut synced = model.clone();
    let (mut place, mut lazy) = rig.open();
    let (mut file, mut open) = named(&place, &lazy, "file");
    for step in steps {
        match step {
            Step::Read { at, bytes } => {
                let expected = model.get(at as usize..).unwrap_or_default();
                let expected = &expected[..expected.len().min(bytes as usize)];
                let found = read(&lazy, &file, &open, at..at + bytes).await.unwrap();
                assert!(found == expected, "read {bytes} at {at}");
            }
            Step::Write { at, bytes, seed } => {
                let data = noise(seed, bytes);
                write(&lazy, &file, &open, at, &data).await;
                let end = at as usize + bytes;
                model.resize(model.len().max(end), 0);
                model[at as usize..end].copy_from_slice(&data);
            }
            Step::Truncate { bytes } => {
                truncate(&lazy, &file, &open, bytes).await;
                model.resize(bytes as usize, 0);
                synced.resize(bytes as usize, 0);
            }
            Step::PunchHole { at, bytes } => {
                let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                lazy.need(&file, at..at + bytes).await.unwrap();
                lazy.allocate(&file, &open, mode, &(at..at + bytes)).unwrap();
                let end = model.len().min((at + bytes) as usize);
                model[end.min(at as usize)..end].fill(0);
            }
            Step::Sync => {
                lazy.sync(&file, &open, true).unwrap();
                synced = model.clone();
            }
            Step::Prefetch { chunk } => {
                assert!(lazy.prefetch(&lazy.absent_of(vec![chunk])).await.unwrap());
            }
            Step::Checkpoint => drop(lazy.checkpoint().unwrap()),
            Step::Kill => {
                garble(&file, &open, |chunk| lazy.pages.get(chunk));
                drop((place, lazy));
                (place, lazy) = rig.open();
                (file, open) = named(&place, &lazy, "file");
            }
            Step::PowerCut => {
                let unsynced: HashMap<usize, u64> =
                    lazy.pages.unsynced(0..rig.tree.chunks.len()).into_iter().collect();
                drop((place, lazy));
                rig.boots += 1;
                (place, lazy) = rig.open();
                (file, open) = named(&place, &lazy, "file");
                garble(&file, &open, |chunk| lazy.pages.get(chunk));
                assert!(unsynced.iter().all(|(chunk, word)| lazy.pages.get(*chunk) & word != *word));
                let found = read(&lazy, &file, &open, 0..model.len() as u64).await.unwrap();
                synced.resize(model.len(), 0);
                assert_eq!(found.len(), model.len());
                // What is behind the end that the file has in the snapshot is no page of it.
                let (inside, behind) = found.split_at(FILE_BYTES.min(found.len()));
                let pages = inside.chunks(PAGE_BYTES).enumerate();
                let pages = pages.map(|(page, bytes)| (page * PAGE_BYTES, bytes));
                for (at, found) in
                    pages.chain([(FILE_BYTES, behind)].into_iter().filter(|(_, b)| !b.is_empty()))
                {
                    let of = |bytes: &[u8]| bytes[at..][..found.len()] == *found;
                    assert!(of(&model) || of(&synced), "the page at {at} is of no moment");
                }
                (model, synced) = (found.clone(), found);
            }
        }
    }
    let all: Vec<usize> = (0..rig.tree.chunks.len()).collect();
    assert!(lazy.prefetch(&all).await.unwrap());
    assert_eq!(lazy.checkpoint().unwrap(), 0);
    assert_eq!(lazy.counts.absent_bytes.load(Ordering::Relaxed), 0);
    assert_eq!(fs::read_dir(place.absent()).unwrap().count(), 0);
    assert!(fs::read(place.root().join("file")).unwrap() == model, "the whole file");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn no_step_loses_what_was_acknowledged(steps in proptest::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(check(steps));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn filling_leaves_times_and_holes() {
    let rig = Rig::new().await;
    let (place, lazy) = rig.open();
    let all: Vec<usize> = (0..rig.tree.chunks.len()).collect();
    assert!(lazy.prefetch(&all).await.unwrap());
    assert_eq!(lazy.checkpoint().unwrap(), 0);
    assert_eq!(crate::testing::tree(&place.root()), crate::testing::tree(rig.source.path()));
}

/// As a kill between filling and putting the time and the rights back leaves it.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_was_killed_while_filling_leaves_times_and_rights_to_the_next_one() {
    const RIGHTS: [u8; 20] = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut rig = Rig::new().await;
    let source = rig.source.path().join("file");
    rustix::fs::setxattr(&source, CAPABILITY, &RIGHTS, XattrFlags::empty()).unwrap();
    rig.snapshot = snapshot(&rig.bench.volumes(), rig.source.path()).await.snapshot;
    rig.tree = Arc::new(rig.bench.volumes().tree(&rig.snapshot).await.unwrap());
    let look = |open: &File| {
        let mut rights = [0; 64];
        let rights = rustix::fs::fgetxattr(open, CAPABILITY, &mut rights[..]).map(|n| rights[..n].to_vec());
        (open.metadata().unwrap().mtime(), rights.ok())
    };
    let spoil = |place: &Place| {
        let open = File::options().write(true).open(place.root().join("file")).unwrap();
        open.write_all_at(b"x", 0).unwrap();
        assert_ne!(look(&open).0, 1_000_000_000);
        assert_eq!(look(&open).1, None, "a write takes the rights away");
    };
    let (place, lazy) = rig.open();
    spoil(&place);
    drop((place, lazy));
    let (place, lazy) = rig.open();
    let (file, open) = named(&place, &lazy, "file");
    assert_eq!(look(&open), (1_000_000_000, Some(RIGHTS.to_vec())));
    // What a user did is not undone, whatever it looks like.
    write(&lazy, &file, &open, 0, &[1; PAGE_BYTES]).await;
    let written = look(&open);
    assert_eq!(written.1, None);
    drop((place, lazy));
    let (place, lazy) = rig.open();
    assert_eq!(look(&named(&place, &lazy, "file").1), written);
    drop((place, lazy));
    // Nor after a restart of the machine.
    rig.boots += 1;
    let (place, lazy) = rig.open();
    assert_eq!(look(&named(&place, &lazy, "file").1), written);
}

#[tokio::test(flavor = "multi_thread")]
async fn holes_of_absent_data_are_told_as_they_will_be() {
    let rig = Rig::new().await;
    let (place, lazy) = rig.open();
    let (file, open) = named(&place, &lazy, "file");
    let source = File::open(rig.source.path().join("file")).unwrap();
    let extents = scan::extents(&source, FILE_BYTES as u64).unwrap();
    assert_eq!(extents.len(), 2);
    let seek = |at, data| lazy.seek(&file, &open, at, data).unwrap();
    for _ in 0..2 {
        assert_eq!([seek(0, true), seek(0, false)], [0, extents[0].end]);
        assert_eq!(
            [seek(extents[0].end, true), seek(extents[0].end, false)],
            [extents[1].start, extents[0].end]
        );
        assert_eq!(seek(extents[1].start, false), FILE_BYTES as u64);
        assert_eq!(lazy.seek(&file, &open, FILE_BYTES as u64, true).unwrap_err().raw_os_error(), Some(6));
        // And halfway.
        read(&lazy, &file, &open, 0..1).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_data_is_told_behind_the_end_of_a_file_that_was_cut() {
    let rig = Rig::new().await;
    let (place, lazy) = rig.open();
    let (file, open) = named(&place, &lazy, "file");
    // Within the page whose first block is a hole.
    let end = HOLE.end as u64 - 2_000;
    open.set_len(end).unwrap();
    let error = lazy.seek(&file, &open, end - 1_000, true).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::NXIO.raw_os_error()));
    assert_eq!(lazy.seek(&file, &open, end - 1_000, false).unwrap(), end - 1_000);
}

#[tokio::test]
async fn the_time_of_a_file_that_was_cut_stays_when_it_is_mounted_again() {
    let rig = Rig::new().await;
    let (place, lazy) = rig.open();
    let (file, open) = named(&place, &lazy, "file");
    truncate(&lazy, &file, &open, 300_001).await;
    let cut = std::time::UNIX_EPOCH + Duration::from_secs(1_200_000_000);
    open.set_modified(cut).unwrap();
    drop((place, lazy));
    let (_place, _lazy) = rig.open();
    let meta = open.metadata().unwrap();
    assert_eq!((meta.len(), meta.modified().unwrap()), (300_001, cut));
}

#[tokio::test]
async fn a_file_is_cut_without_fetching_and_what_was_cut_off_never_comes_back() {
    const END: u64 = 300_001;
    let expected = |longer: usize| [&noise(1, FILE_BYTES)[..END as usize], &vec![0; longer]].concat();
    for is_filled in [false, true] {
        let mut rig = Rig::new().await;
        let (mut place, mut lazy) = rig.open();
        let (mut file, mut open) = named(&place, &lazy, "file");
        truncate(&lazy, &file, &open, 500_000).await;
        truncate(&lazy, &file, &open, END).await;
        assert_eq!(lazy.counts.fetched_bytes.load(Ordering::Relaxed), 0);
        rig.boots += 1;
        drop((place, lazy));
        (place, lazy) = rig.open();
        (file, open) = named(&place, &lazy, "file");
        if is_filled {
            assert!(lazy.prefetch(&[0]).await.unwrap());
            assert!(fs::read(place.root().join("file")).unwrap() == expected(0));
        } else {
            let far = END + 100_000..END + 100_001;
            assert!(!lazy.has_for_write(&file, &open, &far), "it would be longer");
            assert!(lazy.has_for_write(&file, &open, &(8_192..16_384)), "as long as it is");
        }
        write(&lazy, &file, &open, END + 100_000, &[0]).await;
        // A machine that stops here may keep the new length.
        rig.boots += 1;
        drop((place, lazy));
        (place, lazy) = rig.open();
        (file, open) = named(&place, &lazy, "file");
        assert!(read(&lazy, &file, &open, 0..1 << 20).await.unwrap() == expected(100_001));
        truncate(&lazy, &file, &open, END + 7).await;
        assert!(lazy.prefetch(&[0, 1, 2, 3]).await.unwrap());
        assert!(fs::read(place.root().join("file")).unwrap() == expected(7));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_page_is_written_without_fetching() {
    let rig = Rig::new().await;
    let (place, lazy) = rig.open();
    let (file, open) = named(&place, &lazy, "file");
    let before = rig.bench.store.requests().gets;
    write(&lazy, &file, &open, PAGE, &[7; 2 * PAGE_BYTES]).await;
    let tail = FILE_BYTES as u64 / PAGE * PAGE;
    write(&lazy, &file, &open, tail, &vec![7; FILE_BYTES - tail as usize]).await;
    assert_eq!(rig.bench.store.requests().gets, before);
    write(&lazy, &file, &open, 5 * PAGE + 1, b"x").await;
    assert_eq!(rig.bench.store.requests().gets, before + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_one_chunk_share_a_fetch() {
    let rig = Rig::new().await;
    let (place, lazy) = rig.open();
    let (file, open) = named(&place, &lazy, "other");
    let before = rig.bench.store.requests().gets;
    let reads = (0..8).map(|n| read(&lazy, &file, &open, n * 1_000..n * 1_000 + 10));
    futures::future::try_join_all(reads).await.unwrap();
    assert_eq!(rig.bench.store.requests().gets, before + 1);
    assert_eq!(lazy.counts.absent_bytes.load(Ordering::Relaxed), {
        let all: u64 = rig.tree.chunks.iter().map(|chunk| u64::from(chunk.bytes)).sum();
        all - 300_000
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sequential_reader_is_fetched_ahead_of() {
    let rig = Rig::new().await;
    let (place, lazy) = rig.open();
    let (file, open) = named(&place, &lazy, "file");
    for chunk in 0..2 {
        assert!(!lazy.has(&file, &(chunk * CHUNK..chunk * CHUNK + 1)));
        read(&lazy, &file, &open, chunk * CHUNK..chunk * CHUNK + 1).await.unwrap();
    }
    assert!(lazy.has(&file, &(2 * CHUNK..3 * CHUNK)));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_an_inner_page_of_an_index_finds_its_leaves() {
    let source = tempfile::tempdir().unwrap();
    let mut index = noise(3, 12 * CHUNK_BYTES);
    index[24..28].copy_from_slice(&0x0005_3162_u32.to_le_bytes());
    let root = 11 * CHUNK / PAGE + 1;
    index[40..44].copy_from_slice(&(root as u32).to_le_bytes());
    fs::write(source.path().join("index"), &index).unwrap();
    fs::write(source.path().join("table"), noise(4, 12 * CHUNK_BYTES)).unwrap();
    let bench = Bench::new();
    let snapshot = snapshot(&bench.volumes(), source.path()).await.snapshot;
    let tree = Arc::new(bench.volumes().tree(&snapshot).await.unwrap());
    let rig = Rig { bench, source, folder: tempfile::tempdir().unwrap(), snapshot, tree, boots: 0 };
    let (place, lazy) = rig.open();
    let has = |file: &LazyFile, chunk: u64| lazy.has(file, &(chunk * CHUNK..(chunk + 1) * CHUNK));
    assert!(lazy.roots().is_empty(), "no first page is there");
    for (name, is_index) in [("table", false), ("index", true)] {
        let (file, open) = named(&place, &lazy, name);
        for chunk in [0, 5] {
            read(&lazy, &file, &open, chunk * CHUNK..chunk * CHUNK + 10).await.unwrap();
        }
        while is_index && !(6..10).all(|chunk| has(&file, chunk)) {
            tokio::task::yield_now().await;
        }
        let found: Vec<u64> = (0..12).filter(|chunk| has(&file, *chunk)).collect();
        assert_eq!(found, if is_index { vec![0, 5, 6, 7, 8, 9] } else { vec![0, 5] }, "{name}");
        assert_eq!(lazy.roots(), if is_index { vec![file.chunks.start + 11] } else { vec![] }, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_fails_the_read_and_is_counted_and_the_rest_is_served() {
    let rig = Rig::new().await;
    let (place, lazy) = rig.open();
    let (file, open) = named(&place, &lazy, "file");
    let of_other = rig.tree.chunks.iter().find(|chunk| chunk.bytes == 300_000).unwrap().pieces[0];
    let key = rig.tree.packs[of_other.pack as usize].object().key;
    let mut bytes = rig.bench.store.read(&key).await.to_vec();
    let sound = bytes.clone();
    bytes[of_other.offset as usize + 1_000] ^= 1;
    rig.bench.store.write(&key, bytes).await;
    let (other, other_open) = named(&place, &lazy, "other");
    let error = read(&lazy, &other, &other_open, 0..10).await.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    assert_eq!(lazy.counts.damaged.lock().len(), 1);
    let all: Vec<usize> = (0..rig.tree.chunks.len()).collect();
    assert!(!lazy.prefetch(&all).await.unwrap());
    let original = fs::read(rig.source.path().join("file")).unwrap();
    assert!(read(&lazy, &file, &open, 0..FILE_BYTES as u64).await.unwrap() == original);
    assert_eq!(lazy.checkpoint().unwrap(), 1);
    // What the repository has again is served again.
    rig.bench.store.write(&key, sound).await;
    assert_eq!(read(&lazy, &other, &other_open, 0..10).await.unwrap(), noise(2, 300_000)[..10]);
    assert_eq!((lazy.counts.damaged.lock().len(), lazy.checkpoint().unwrap()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_that_was_overwritten_is_none() {
    let rig = Rig::new().await;
    let (place, lazy) = rig.open();
    rig.bench.volumes().repository.delete(rig.tree.packs.iter().map(|pack| pack.object().key)).await.unwrap();
    let all: Vec<usize> = (0..rig.tree.chunks.len()).collect();
    assert!(!lazy.prefetch(&all).await.unwrap());
    assert_eq!(lazy.counts.damaged.lock().len(), all.len());
    let (other, open) = named(&place, &lazy, "other");
    write(&lazy, &other, &open, 0, &vec![7; PAGE_BYTES]).await;
    assert_eq!(lazy.counts.damaged.lock().len(), all.len(), "the rest of it is lost");
    write(&lazy, &other, &open, PAGE, &vec![7; 300_000 - PAGE_BYTES]).await;
    assert_eq!(lazy.counts.damaged.lock().len(), all.len() - 1);
    let (file, open) = named(&place, &lazy, "file");
    truncate(&lazy, &file, &open, 0).await;
    assert_eq!((lazy.counts.damaged.lock().len(), lazy.checkpoint().unwrap()), (0, 0));
}

/// A store's retries take long enough once.
#[tokio::test(flavor = "multi_thread")]
async fn a_repository_that_does_not_answer_is_asked_once_for_each_read() {
    let rig = Rig::new().await;
    let (place, lazy) = rig.open();
    let (file, open) = named(&place, &lazy, "file");
    rig.bench.store.mute_reads(true);
    let before = rig.bench.store.requests().gets;
    let error = read(&lazy, &file, &open, 0..10).await.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    assert_eq!(rig.bench.store.requests().gets - before, 1);
    let all: Vec<usize> = (0..rig.tree.chunks.len()).collect();
    assert_eq!(lazy.prefetch(&all).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(lazy.counts.trouble.lock().is_some() && lazy.counts.damaged.lock().is_empty());
    rig.bench.store.mute_reads(false);
    let original = fs::read(rig.source.path().join("file")).unwrap();
    assert!(read(&lazy, &file, &open, 0..FILE_BYTES as u64).await.unwrap() == original);
    assert!(lazy.prefetch(&all).await.unwrap());
    assert_eq!(*lazy.counts.trouble.lock(), None);
}

#[tokio::test]
async fn on_a_full_disk_nothing_is_fetched_behind_its_users_until_there_is_room() {
    if !can_mount() {
        return;
    }
    let disk = SmallDisk::new(16 << 20);
    let rig = Rig { folder: tempfile::tempdir_in(disk.0.path()).unwrap(), ..Rig::new().await };
    let (_place, lazy) = rig.open();
    let ballast = File::options().write(true).open(disk.fill()).unwrap();
    let all: Vec<usize> = (0..rig.tree.chunks.len()).collect();
    let gets = || rig.bench.store.requests().gets;
    assert_eq!(lazy.prefetch(&all).await.unwrap_err().kind(), ErrorKind::Exhausted);
    let after = gets();
    // No room, then room for the chunk that did not fit, but not for the others.
    let room = ballast.metadata().unwrap().len();
    for freed in [0, 600_000] {
        ballast.set_len(room - freed).unwrap();
        assert_eq!(lazy.prefetch(&all).await.unwrap_err().kind(), ErrorKind::Exhausted);
        assert!(lazy.counts.trouble.lock().as_ref().unwrap().contains("No space left"));
        assert_eq!(gets(), after, "{freed} bytes are free");
    }
    ballast.set_len(0).unwrap();
    assert!(lazy.prefetch(&all).await.unwrap());
    assert_eq!(
        (lazy.counts.absent_bytes.load(Ordering::Relaxed), lazy.counts.trouble.lock().take()),
        (0, None)
    );
    assert!(gets() > after);
}

#[tokio::test]
async fn space_that_users_freed_is_not_allocated_again() {
    if !can_mount() {
        return;
    }
    let disk = SmallDisk::new(16 << 20);
    let rig = Rig { folder: tempfile::tempdir_in(disk.0.path()).unwrap(), ..Rig::new().await };
    let (place, lazy) = rig.open();
    let (file, open) = named(&place, &lazy, "file");
    lazy.reserve().unwrap();
    let blocks = || open.metadata().unwrap().blocks() * 512;
    let reserved = blocks();
    let freed = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    lazy.need(&file, 0..CHUNK).await.unwrap();
    lazy.allocate(&file, &open, freed, &(0..CHUNK)).unwrap();
    assert_eq!(blocks(), reserved - CHUNK);
    let ballast = disk.fill();
    lazy.reserve().unwrap();
    assert_eq!(blocks(), reserved - CHUNK);
    // What is absent needs its space.
    let number = 2;
    rustix::fs::fallocate(&open, freed, number * CHUNK, PAGE).unwrap();
    disk.fill();
    let failed = lazy.reserve().unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Exhausted);
    assert!(failed.to_string().contains("--mode fuse"), "{failed}");
    fs::remove_file(ballast).unwrap();
    lazy.reserve().unwrap();
    assert_eq!(blocks(), reserved - CHUNK);
}

/// Fills behind nobody until no more than this is absent, for so long at most. Its callers pause the clock, which goes on
/// while all wait.
async fn filled(rig: &Rig, lazy: &Arc<Lazy>, absent_max: u64, seconds_max: u64) {
    let volumes = rig.bench.volumes();
    let traces = Traces::new(&volumes.repository, &volumes.random, &rig.snapshot.volume, None);
    let is_filled = || lazy.counts.absent_bytes.load(Ordering::Relaxed) <= absent_max;
    let watched = async {
        while !is_filled() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        () = hydrate(lazy, &traces, None) => {}
        () = watched => {}
        () = tokio::time::sleep(Duration::from_secs(seconds_max)) => {}
    }
    assert!(is_filled(), "{:?}", lazy.counts);
}

#[tokio::test(start_paused = true)]
async fn all_that_can_be_had_is_filled_though_one_pack_cannot() {
    const BATCH: u64 = 8 << 20;
    let faults = [ReadFault::Unanswered, ReadFault::Denied, ReadFault::Short, ReadFault::Stalled];
    for (fault, absent_max) in faults.into_iter().zip([BATCH, 2 << 20, BATCH, BATCH]) {
        let rig = Rig::with(&[("a", 9_000_000), ("b", 9_000_000)]).await;
        let (_place, lazy) = rig.open();
        let key = rig.tree.packs[0].object().key;
        rig.bench.store.fault_reads(&key, fault);
        filled(&rig, &lazy, absent_max, 600).await;
        assert!(lazy.counts.absent_bytes.load(Ordering::Relaxed) > 0, "{fault:?}");
        rig.bench.store.mend_reads();
        filled(&rig, &lazy, 0, 600).await;
        assert_eq!(lazy.checkpoint().unwrap(), 0);
        for name in ["file", "other", "a", "b"] {
            let now = fs::read(rig.folder.path().join(".data.frostline-mount/root").join(name)).unwrap();
            assert!(now == fs::read(rig.source.path().join(name)).unwrap(), "{name} after {fault:?}");
        }
    }
}

#[tokio::test]
async fn the_order_is_known_before_what_comes_first_is_fetched() {
    let names: Vec<String> = (0..20).map(|n| format!("base/5/{}", 16_384 + n)).collect();
    let files = names.iter().map(|name| (name.as_str(), 1_100_000));
    let all: Vec<(&str, usize)> = files.chain([("PG_VERSION", 3), ("global/pg_control", 8_192)]).collect();
    let rig = Rig::with(&all).await;
    let (_place, lazy) = rig.open();
    let volumes = rig.bench.volumes();
    let traces = Traces::new(&volumes.repository, &volumes.random, &"data".parse().unwrap(), None);
    let bytes: u64 = rig.tree.chunks.iter().map(|chunk| u64::from(chunk.bytes)).sum();
    let known = async {
        while lazy.counts.order.lock().iter().map(|part| part.bytes).sum::<u64>() < bytes {
            tokio::task::yield_now().await;
        }
    };
    // At 1 byte a second, the first batch would begin after weeks.
    tokio::select! {
        () = hydrate(&lazy, &traces, Some(1)) => panic!("all is filled"),
        known = tokio::time::timeout(Duration::from_secs(30), known) => known.unwrap(),
    }
    let stages: Vec<FillStage> = lazy.counts.order.lock().iter().map(|part| part.stage).collect();
    assert_eq!(stages, [FillStage::Start, FillStage::Rest]);
    assert!(lazy.counts.absent_bytes.load(Ordering::Relaxed) > bytes / 2);
}

#[tokio::test(start_paused = true)]
async fn a_trace_that_does_not_come_is_not_waited_for() {
    for fault in [ReadFault::Unanswered, ReadFault::Denied, ReadFault::Short, ReadFault::Stalled] {
        let rig = Rig::new().await;
        let key = format!("{}/data/{:020}-{}", crate::traces::TRACES, 0, "a".repeat(32));
        rig.bench.store.write(&key, vec![1; 100]).await;
        rig.bench.store.fault_reads(&key, fault);
        let (_place, lazy) = rig.open();
        filled(&rig, &lazy, 0, 60).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_needs_all_of_a_file_has_a_part_of_it_in_memory() {
    let rig = Rig::with(&[("large", 40 << 19)]).await;
    let (place, lazy) = rig.open();
    let (file, _) = named(&place, &lazy, "large");
    // The last chunk cannot be had: what is before it is brought and kept.
    let last = &rig.tree.chunks[file.chunks.end - 1].pieces[0];
    rig.bench.store.fault_reads(&rig.tree.packs[last.pack as usize].object().key, ReadFault::Unanswered);
    assert!(lazy.need(&file, 0..u64::MAX).await.is_err());
    assert!(lazy.has(&file, &(0..32 << 19)));
    rig.bench.store.mend_reads();
    lazy.need(&file, 0..u64::MAX).await.unwrap();
    assert!(lazy.has(&file, &(0..40 << 19)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_lost_its_last_name_is_not_fetched() {
    let rig = Rig::new().await;
    let (place, lazy) = rig.open();
    let (file, _open) = named(&place, &lazy, "other");
    assert!(!lazy.is_nameless(&file));
    fs::remove_file(place.root().join("other")).unwrap();
    assert!(lazy.is_nameless(&file));
    // This process gives it up, and so does the next one if this one cannot.
    let before = lazy.counts.absent_bytes.load(Ordering::Relaxed);
    drop((place, lazy));
    let (place, lazy) = rig.open();
    assert_eq!(lazy.counts.absent_bytes.load(Ordering::Relaxed), before - 300_000);
    let (file, _open) = named(&place, &lazy, "file");
    fs::remove_file(place.root().join("file")).unwrap();
    lazy.give_up(&file).unwrap();
    assert_eq!((lazy.counts.absent_bytes.load(Ordering::Relaxed), lazy.checkpoint().unwrap()), (0, 0));
}

#[test]
fn runs_of_bits() {
    let runs = |bits| runs(bits).collect::<Vec<_>>();
    assert_eq!(runs(0), []);
    assert_eq!(runs(0b1011_0001), [0..1, 4..6, 7..8]);
    assert_eq!(runs(u64::MAX), vec![0..64; 1]);
    assert_eq!(runs(1 << 63), vec![63..64; 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_survives_a_kill_and_once_synced_a_power_cut() {
    let write = |page: u64| Step::Write { at: page * PAGE, bytes: PAGE_BYTES, seed: page };
    let read = |page: u64| Step::Read { at: page * PAGE, bytes: PAGE };
    check(vec![write(1), Step::Kill, read(1)]).await;
    check(vec![write(1), Step::Sync, Step::PowerCut, read(1)]).await;
    check(vec![Step::Truncate { bytes: 10 }, Step::PowerCut, Step::Truncate { bytes: 10 * PAGE }, read(1)])
        .await;
}

/// Everything that the process after this one finds: contents, times and names.
fn kept(place: &Place) -> (impl PartialEq + use<>, Vec<(std::ffi::OsString, Vec<u8>)>) {
    let names = |folder: &std::path::Path| -> Vec<_> {
        let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|name| name.unwrap().path()).collect();
        names.sort();
        names
    };
    let files = names(&place.state()).into_iter().filter(|path| path.is_file());
    let mut files: Vec<_> =
        files.map(|path| (path.file_name().unwrap().to_owned(), fs::read(path).unwrap())).collect();
    files.extend(names(&place.absent()).into_iter().map(|path| (path.into_os_string(), Vec::new())));
    (crate::testing::tree(&place.root()), files)
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_uses_the_files_of_a_place_that_another_process_may_have() {
    let rig = Rig::new().await;
    let (place, lazy) = rig.open();
    let (file, open) = named(&place, &lazy, "file");
    // There is something to sync, and to let go.
    write(&lazy, &file, &open, 0, &[7; 2 * PAGE_BYTES]).await;
    let (other, other_open) = named(&place, &lazy, "other");
    lazy.need(&other, 0..u64::MAX).await.unwrap();
    let stored = lazy.stored(file.entry, 2 * CHUNK).await.unwrap();
    lazy.lease.end();
    let before = kept(&place);
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let done = [
        ("fill", lazy.fill(file.chunks.start + 1, &stored[CHUNK_BYTES..]).is_ok()),
        ("fetch", lazy.need(&file, 0..u64::MAX).await.is_ok()),
        ("prefetch", lazy.prefetch(&[file.chunks.start + 2]).await.is_ok()),
        ("write", lazy.write(&file, &open, CHUNK, &[8; PAGE_BYTES]).is_ok()),
        ("cut", lazy.cut(&file, &open, 10).is_ok()),
        ("allocate", lazy.allocate(&file, &open, mode, &(0..PAGE)).is_ok()),
        ("sync", lazy.sync(&file, &open, true).is_ok()),
        ("settle", lazy.settle(&other, 0..PAGE).await.is_ok()),
        ("touch", lazy.touch(&other).is_ok()),
        ("give over", lazy.give_over(&other).is_ok()),
        ("give up", lazy.give_up(&file).is_ok()),
        ("checkpoint", lazy.checkpoint().is_ok()),
    ];
    for (what, is_done) in done {
        assert!(!is_done, "{what}");
    }
    assert!(kept(&place) == before);
    drop(other_open);
}
