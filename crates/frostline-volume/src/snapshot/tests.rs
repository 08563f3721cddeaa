use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::time::{Duration, SystemTime};

use frostline_base::ErrorKind;
use frostline_commits::testing::Faulty;
use frostline_store::{OpenOptions, Repository};
use proptest::prelude::*;
use rustix::fs::XattrFlags;

use super::*;
use crate::testing::{Bench, HOUR_US, Name, noise, options, restore, snapshot, tree};
use crate::{Prune, SnapshotName};

/// A directory with something of every kind.
fn of_every_kind(root: &Path) {
    fs::create_dir_all(root.join("base/empty")).unwrap();
    fs::write(root.join("base/small"), b"small").unwrap();
    fs::write(root.join("base/none"), b"").unwrap();
    fs::write(root.join("base/large"), noise(1, 1_300_000)).unwrap();
    fs::write(root.join("base/text"), b"the same words again and again, ".repeat(40_000)).unwrap();
    let sparse = File::create(root.join("sparse")).unwrap();
    sparse.set_len(5_000_000).unwrap();
    sparse.write_all_at(&noise(2, 8_192), 1_048_576).unwrap();
    sparse.write_all_at(&noise(3, 8_192), 4_194_304).unwrap();
    File::create(root.join("hole")).unwrap().set_len(2_000_000).unwrap();
    fs::hard_link(root.join("base/small"), root.join("linked")).unwrap();
    symlink("/nowhere/at all", root.join("out")).unwrap();
    symlink("base/small", root.join("in")).unwrap();
    fs::set_permissions(root.join("base/small"), fs::Permissions::from_mode(0o4640)).unwrap();
    rustix::fs::setxattr(root.join("base/text"), "user.note", b"a value\0", XattrFlags::empty()).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789);
    File::open(root.join("base/text")).unwrap().set_modified(time).unwrap();
    fs::set_permissions(root.join("base"), fs::Permissions::from_mode(0o2750)).unwrap();
    File::open(root.join("base/empty")).unwrap().set_modified(time).unwrap();
}

#[tokio::test]
async fn a_repository_that_disappears_in_the_middle_is_not_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("source")).unwrap();
    of_every_kind(&at("source"));
    let opened = OpenOptions::default();
    let repository = Repository::open(at("repository").to_str().unwrap(), &opened);
    let random = || rand::random::<u128>();
    let volumes = Volumes::new(&repository.unwrap(), Arc::new(frostline_base::SystemClock), Arc::new(random));
    let disappear = |_| drop(fs::rename(at("repository"), at("away")));
    let taken = volumes.snapshot(&at("source"), &"data".parse().unwrap(), &options(), disappear).await;
    let error = taken.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(at("repository").to_str().unwrap()), "{error}");
    assert!(at("away").exists() && !at("repository").exists());
}

#[tokio::test]
async fn a_directory_comes_back_as_it_was() {
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    of_every_kind(&source);
    let taken = snapshot(&bench.volumes(), &source).await;
    assert_eq!(taken.snapshot.consistency, Consistency::Unchanged);
    restore(&bench.volumes(), &taken.snapshot, &target).await;
    assert_eq!(tree(&target), tree(&source));
    let verified = bench.volumes().verify(&[taken.snapshot], |_, _| {}).await.unwrap();
    assert_eq!(verified.faults, []);
    assert!(verified.chunks >= 7, "{verified:?}");
}

#[tokio::test]
async fn only_what_changed_is_read_and_stored() {
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    let source = folder.path().join("source");
    of_every_kind(&source);
    // Files that changed just before a snapshot are read again by the next, so that one comes in between.
    bench.clock.advance_us(HOUR_US);
    let first = snapshot(&bench.volumes(), &source).await.snapshot;
    assert!(first.totals.read_bytes > 2_500_000, "{:?}", first.totals);
    let second = snapshot(&bench.volumes(), &source).await.snapshot;
    assert_eq!((second.totals.read_bytes, second.base), (0, Some(first.id)));
    assert!(second.totals.stored_bytes < 4_000, "{:?}", second.totals);
    // A page of one file.
    let large = File::options().write(true).open(source.join("base/large")).unwrap();
    large.write_all_at(&noise(9, 8_192), 65_536).unwrap();
    let third = snapshot(&bench.volumes(), &source).await.snapshot;
    assert_eq!(third.totals.read_bytes, 1_300_000);
    assert_eq!((third.totals.chunks_full, third.totals.chunks_delta), (0, 1));
    assert!(third.totals.stored_bytes < 8_192 + 4_000, "{:?}", third.totals);
    let target = folder.path().join("target");
    restore(&bench.volumes(), &third, &target).await;
    assert_eq!(tree(&target), tree(&source));
    // However a file looks, --rehash reads it.
    let all = SnapshotOptions { rehash: true, ..options() };
    let fourth =
        bench.volumes().snapshot(&source, &"data".parse().unwrap(), &all, |_| {}).await.unwrap().snapshot;
    assert_eq!(fourth.totals.read_bytes, first.totals.read_bytes);
    assert_eq!((fourth.totals.chunks_full, fourth.totals.chunks_delta), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// Chunks of which a pack has little but what its directory says of them.
    #[test]
    fn packs_end_before_their_directories_are_too_long(
        files in 0..120u64,
        holes in 0..120u64,
        pack_bytes in 2_000..60_000usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
            let (source, target) = (folder.path().join("source"), folder.path().join("target"));
            fs::create_dir(&source).unwrap();
            for file in 0..files {
                fs::write(source.join(format!("f{file}")), file.to_le_bytes()).unwrap();
            }
            let sparse = File::create(source.join("sparse")).unwrap();
            sparse.set_len(holes << 19).unwrap();
            for chunk in 0..holes {
                sparse.write_all_at(&chunk.to_le_bytes(), chunk << 19).unwrap();
            }
            let options = SnapshotOptions { pack_bytes, ..options() };
            let taken = bench.volumes().snapshot(&source, &"data".parse().unwrap(), &options, |_| {}).await;
            let taken = taken.unwrap().snapshot;
            let stored = bench.volumes().tree(&taken).await.unwrap();
            // A chunk of these and what is said of it, and the ends of a pack.
            let longest = stored.packs.iter().map(|pack| pack.bytes as usize).max().unwrap_or_default();
            assert!(longest < pack_bytes + 2_000, "{longest}");
            restore(&bench.volumes(), &taken, &target).await;
            assert_eq!(tree(&target), tree(&source));
        });
    }
}

#[tokio::test]
async fn what_a_lost_pack_held_is_stored_again() {
    for damage in ["gone", "short", "long"] {
        let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
        let (source, target) = (folder.path().join("source"), folder.path().join("target"));
        fs::create_dir(&source).unwrap();
        let (kept, lost, twin) = (source.join("a-kept"), source.join("lost"), source.join("twin"));
        for (path, seed) in [(&kept, 1), (&lost, 2), (&twin, 2)] {
            fs::write(path, noise(seed, 300_000)).unwrap();
        }
        bench.clock.advance_us(HOUR_US);
        let first = snapshot(&bench.volumes(), &source).await.snapshot;
        // A page on top of what will be lost.
        File::options().write(true).open(&twin).unwrap().write_all_at(&noise(9, 8_192), 65_536).unwrap();
        let second = snapshot(&bench.volumes(), &source).await;
        assert_eq!((second.lost.len(), second.snapshot.totals.chunks_delta), (0, 1));
        let key = format!("_volumes/data/{}/000001.pack", first.id);
        let pack = bench.store.read(&key).await;
        match damage {
            "gone" => bench.store.remove(&key).await,
            "short" => bench.store.write(&key, pack.slice(..pack.len() - 1)).await,
            _ => bench.store.write(&key, [&pack[..], b"x"].concat()).await,
        }
        bench.clock.advance_us(HOUR_US);
        let third = snapshot(&bench.volumes(), &source).await;
        assert_eq!(third.lost, std::slice::from_ref(&key), "{damage}");
        let totals = &third.snapshot.totals;
        assert_eq!((totals.read_bytes, totals.chunks_full, totals.chunks_delta), (600_000, 2, 0), "{damage}");
        restore(&bench.volumes(), &third.snapshot, &target).await;
        assert_eq!(tree(&target), tree(&source), "{damage}");
        assert_eq!(
            bench.volumes().verify(&[third.snapshot], |_, _| {}).await.unwrap().faults,
            [],
            "{damage}"
        );
        // The next one builds on what was stored again.
        let before = bench.store.requests().lists;
        let fourth = snapshot(&bench.volumes(), &source).await;
        assert_eq!((fourth.lost.len(), fourth.snapshot.totals.read_bytes), (0, 0), "{damage}");
        assert_eq!(bench.store.requests().lists - before, 2, "of the first snapshot and of the third");
    }
}

#[tokio::test]
async fn the_start_of_each_relation_is_stored_before_the_rest_of_any() {
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    for (seed, (path, bytes)) in [
        ("base/5/16384", 1_400_000),
        ("base/5/16385", 1_400_000),
        ("global/pg_control", 8_192),
        ("pg_wal/1", 600_000),
    ]
    .into_iter()
    .enumerate()
    {
        fs::create_dir_all(source.join(path).parent().unwrap()).unwrap();
        fs::write(source.join(path), noise(seed as u64, bytes)).unwrap();
    }
    let taken = snapshot(&bench.volumes(), &source).await.snapshot;
    let stored = bench.volumes().tree(&taken).await.unwrap();
    let mut placed = Vec::new();
    for entry in &stored.entries {
        let Node::File { chunks, .. } = &entry.node else { continue };
        placed.extend(chunks.clone().map(|chunk| {
            (stored.chunks[chunk].pieces[0], format!("{} {}", entry.show(), chunk - chunks.start))
        }));
    }
    placed.sort_unstable();
    let order: Vec<&str> = placed.iter().map(|(_, name)| name.as_str()).collect();
    let starts = ["global/pg_control 0", "base/5/16384 0", "base/5/16385 0", "pg_wal/1 0", "pg_wal/1 1"];
    let rest = ["base/5/16384 1", "base/5/16384 2", "base/5/16385 1", "base/5/16385 2"];
    assert_eq!(order, [&starts[..], &rest[..]].concat());
    restore(&bench.volumes(), &taken, &target).await;
    assert_eq!(tree(&target), tree(&source));
}

#[tokio::test]
async fn a_file_that_changed_shortly_before_the_base_is_read_again() {
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    fs::write(folder.path().join("file"), b"now").unwrap();
    snapshot(&bench.volumes(), folder.path()).await;
    let second = snapshot(&bench.volumes(), folder.path()).await.snapshot;
    assert_eq!(second.totals.read_bytes, 3, "its times may not have moved");
    bench.clock.advance_us(HOUR_US);
    snapshot(&bench.volumes(), folder.path()).await;
    let last = snapshot(&bench.volumes(), folder.path()).await.snapshot;
    assert_eq!(last.totals.read_bytes, 0);
}

#[tokio::test]
async fn a_chunk_is_made_of_few_pieces_however_often_it_changed() {
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    let path = folder.path().join("file");
    fs::write(&path, noise(1, 1 << 20)).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    let mut last = snapshot(&bench.volumes(), folder.path()).await.snapshot;
    let mut fulls = 0;
    for round in 0..40 {
        file.write_all_at(&noise(100 + round, 8_192), round * 7 % 64 * 8_192).unwrap();
        last = snapshot(&bench.volumes(), folder.path()).await.snapshot;
        fulls += last.totals.chunks_full;
    }
    let tree = bench.volumes().tree(&last).await.unwrap();
    assert!(tree.chunks.iter().all(|chunk| chunk.pieces.len() <= 9));
    assert!(tree.chunks[0].pieces.len() > 1, "{:?}", tree.chunks[0]);
    assert!((1..=4).contains(&fulls), "stored whole {fulls} times");
    let restored = tempfile::tempdir().unwrap();
    restore(&bench.volumes(), &last, restored.path()).await;
    assert_eq!(fs::read(restored.path().join("file")).unwrap(), fs::read(&path).unwrap());
}

/// The directory changes at the first report of progress, which is when reading begins.
async fn snapshot_while(
    bench: &Bench,
    root: &Path,
    options: &SnapshotOptions,
    change: impl Fn() + Send + Sync,
) -> Result<Taken> {
    let once = std::sync::Once::new();
    bench.volumes().snapshot(root, &"data".parse().unwrap(), options, |_| once.call_once(&change)).await
}

#[tokio::test]
async fn a_directory_that_changes_while_it_is_read_is_refused() {
    type Mishap = fn(&Path);
    let mishaps: [(&str, Mishap); 6] = [
        ("file", |root| fs::write(root.join("file"), noise(2, 600_000)).unwrap()),
        ("new", |root| fs::write(root.join("new"), b"x").unwrap()),
        ("gone", |root| fs::remove_file(root.join("gone")).unwrap()),
        ("file", |root| File::options().write(true).open(root.join("file")).unwrap().set_len(10).unwrap()),
        ("folder", |root| {
            fs::set_permissions(root.join("folder"), fs::Permissions::from_mode(0o700)).unwrap()
        }),
        ("file", |root| {
            // The same length, and the old time put back: the time of change cannot be.
            let path = root.join("file");
            let modified = fs::metadata(&path).unwrap().modified().unwrap();
            let file = File::options().write(true).open(&path).unwrap();
            file.write_all_at(b"other", 100).unwrap();
            file.set_modified(modified).unwrap();
        }),
    ];
    for (name, mishap) in mishaps {
        let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
        let root = folder.path();
        fs::write(root.join("file"), noise(1, 600_000)).unwrap();
        fs::write(root.join("gone"), noise(3, 1_000)).unwrap();
        fs::create_dir(root.join("folder")).unwrap();
        fs::set_permissions(root.join("folder"), fs::Permissions::from_mode(0o755)).unwrap();
        let error = snapshot_while(&bench, root, &options(), || mishap(root)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
        assert!(error.what().contains(name), "{error:?}");
        assert_eq!(bench.volumes().list().await.unwrap(), []);
        let keys = bench.store.keys().await;
        assert!(
            keys.iter().all(|key| key.starts_with("_volumes/log/")),
            "it leaves nothing behind: {keys:?}"
        );
    }
}

#[tokio::test]
async fn what_is_written_through_a_mapping_all_the_time_is_refused() {
    const WRITER: &str = "import mmap, sys\nwith open(sys.argv[1], 'r+b') as file, mmap.mmap(file.fileno(), 0) as pages:\n    \
        pages[0] = 1\n    print(flush=True)\n    while True: pages[0] = (pages[0] + 1) % 256";
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    let root = folder.path();
    fs::write(root.join("file"), noise(1, 600_000)).unwrap();
    const TMPFS: u64 = 0x0102_1994;
    if rustix::fs::statfs(root).unwrap().f_type as u64 == TMPFS {
        return eprintln!("skipped: tmpfs moves no times");
    }
    let mut python = std::process::Command::new("python3");
    python.args(["-c", WRITER]).arg(root.join("file")).stdout(std::process::Stdio::piped());
    let mut writer = match python.spawn() {
        Ok(writer) => writer,
        Err(error) => return eprintln!("skipped: python3: {error}"),
    };
    let mut began = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(writer.stdout.take().unwrap()), &mut began)
        .unwrap();
    let byte = || {
        let mut byte = [0];
        File::open(root.join("file")).unwrap().read_exact_at(&mut byte, 0).unwrap();
        byte
    };
    let written = || {
        let before = byte();
        while byte() == before {
            std::thread::yield_now();
        }
    };
    let taken = snapshot_while(&bench, root, &options(), written).await;
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert_eq!(taken.map(|taken| taken.snapshot.consistency).unwrap_err().kind(), ErrorKind::Conflict);
    snapshot(&bench.volumes(), root).await;
}

#[tokio::test]
async fn a_changing_directory_is_taken_where_that_is_asked_for() {
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    let root = folder.path();
    fs::write(root.join("a"), noise(1, 600_000)).unwrap();
    fs::write(root.join("gone"), noise(2, 600_000)).unwrap();
    fs::hard_link(root.join("gone"), root.join("gone-too")).unwrap();
    let changing = SnapshotOptions { crash_consistent: true, ..options() };
    let remove = || {
        fs::remove_file(root.join("gone")).unwrap();
        fs::remove_file(root.join("gone-too")).unwrap();
    };
    let taken = snapshot_while(&bench, root, &changing, remove).await.unwrap();
    assert_eq!(taken.snapshot.consistency, Consistency::Changing);
    assert_eq!(taken.changed, [".", "gone", "gone-too"]);
    let restored = tempfile::tempdir().unwrap();
    restore(&bench.volumes(), &taken.snapshot, restored.path()).await;
    let names: BTreeSet<_> = tree(restored.path()).into_keys().collect();
    assert_eq!(names, BTreeSet::from([b"".to_vec(), b"a".to_vec()]));
}

/// Puts a whole file in the place of another.
fn replace(root: &Path, name: &str, contents: &[u8]) {
    let other = root.join(format!(".{name}.tmp"));
    fs::write(&other, contents).unwrap();
    fs::rename(&other, root.join(name)).unwrap();
}

#[tokio::test]
async fn what_is_replaced_while_it_is_read_is_the_one_or_the_other() {
    let (bench, folder, restored) =
        (Bench::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = folder.path();
    let sizes =
        [("longer", 600_000), ("shorter", 600_000), ("small", 100), ("a", 100), ("d", 100), ("m", 50)];
    for (name, bytes) in sizes {
        fs::write(root.join(name), noise(1, bytes)).unwrap();
    }
    fs::write(root.join("none"), b"").unwrap();
    fs::write(root.join("becomes-a-link"), b"file").unwrap();
    symlink("before", root.join("symlink")).unwrap();
    for (first, second) in [("a", "b"), ("b", "c"), ("d", "e")] {
        fs::hard_link(root.join(first), root.join(second)).unwrap();
    }
    let change = || {
        replace(root, "longer", &noise(2, 1_700_000));
        replace(root, "shorter", &noise(3, 550_000));
        replace(root, "small", b"");
        replace(root, "none", b"something");
        // The first of three names is another file now, and the first of two is gone.
        replace(root, "a", b"other");
        fs::remove_file(root.join("d")).unwrap();
        fs::rename(root.join("m"), root.join("moved")).unwrap();
        fs::create_dir(root.join("new")).unwrap();
        fs::write(root.join("new/file"), b"new").unwrap();
        fs::hard_link(root.join("new/file"), root.join("new/linked")).unwrap();
        symlink("after", root.join("new/symlink")).unwrap();
        for (target, name) in [("after", "symlink"), ("after", "becomes-a-link")] {
            symlink(target, root.join("tmp")).unwrap();
            fs::rename(root.join("tmp"), root.join(name)).unwrap();
        }
    };
    let changing = SnapshotOptions { crash_consistent: true, ..options() };
    let taken = snapshot_while(&bench, root, &changing, change).await.unwrap();
    assert_eq!(taken.snapshot.consistency, Consistency::Changing);
    restore(&bench.volumes(), &taken.snapshot, restored.path()).await;
    // The directory itself was looked at before.
    let (mut now, mut then) = (tree(root), tree(restored.path()));
    assert!(now.remove(&b""[..]).is_some() && then.remove(&b""[..]).is_some());
    assert_eq!(then, now);
    assert_eq!(bench.volumes().verify(&[taken.snapshot], |_, _| {}).await.unwrap().faults, []);
    // The next one is on top of that.
    bench.clock.advance_us(HOUR_US);
    let (next, restored) = (snapshot(&bench.volumes(), root).await, tempfile::tempdir().unwrap());
    restore(&bench.volumes(), &next.snapshot, restored.path()).await;
    assert_eq!(tree(restored.path()), tree(root));
}

#[tokio::test]
async fn a_file_that_becomes_a_directory_while_it_is_read_is_refused() {
    type Mishap = fn(&Path);
    let mishaps: [Mishap; 2] = [
        |root| {
            fs::remove_file(root.join("file")).unwrap();
            fs::create_dir(root.join("file")).unwrap();
        },
        |root| {
            fs::remove_dir(root.join("folder")).unwrap();
            symlink("/", root.join("folder")).unwrap();
        },
    ];
    for mishap in mishaps {
        let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
        fs::write(folder.path().join("file"), b"file").unwrap();
        fs::create_dir(folder.path().join("folder")).unwrap();
        let changing = SnapshotOptions { crash_consistent: true, ..options() };
        let change = || mishap(folder.path());
        let error = snapshot_while(&bench, folder.path(), &changing, change).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
        assert!(error.what().contains("was made a directory, or was one"), "{error:?}");
    }
}

/// A file's contents in this version: they tell which, and whether all of them are there.
fn contents_of(file: usize, version: u64) -> Vec<u8> {
    let bytes = 20 + version as usize * 7_919 % 3_000 + if file.is_multiple_of(40) { 600_000 } else { 0 };
    let mut contents = version.to_le_bytes().to_vec();
    contents.extend(noise(version ^ (file as u64) << 32, bytes));
    contents
}

/// Files are replaced all the time, by renaming others and by hard links, and so are symbolic links and the order in
/// which this happens is any. Each name is there at every moment, and so in every snapshot, as a whole version.
#[test]
fn no_name_is_lost_that_is_there_all_the_time() {
    const FILES: usize = 600;
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    let (root, is_over) = (folder.path(), AtomicBool::new(false));
    let name = |file: usize| format!("f{file:03}");
    for file in 0..FILES {
        fs::write(root.join(name(file)), contents_of(file, 0)).unwrap();
        symlink("0", root.join(format!("s{file:03}"))).unwrap();
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use rand::{Rng as _, SeedableRng as _};
            let mut random = rand::rngs::SmallRng::seed_from_u64(1);
            for version in 1.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                // Some are there for long before they take the place of others.
                let files: Vec<usize> =
                    (0..random.random_range(1..40)).map(|_| random.random_range(0..FILES)).collect();
                for file in &files {
                    fs::write(root.join(format!(".f{file:03}.tmp")), contents_of(*file, version)).unwrap();
                }
                for file in &files {
                    let (other, own) = (root.join(format!(".f{file:03}.tmp")), root.join(name(*file)));
                    let (symlink_other, symlink_own) = (root.join(".s"), root.join(format!("s{file:03}")));
                    if random.random() {
                        // It has two names for a moment.
                        drop(fs::hard_link(&other, root.join(".linked")));
                        drop(fs::remove_file(&other));
                        drop(fs::rename(root.join(".linked"), own));
                    } else {
                        drop(fs::rename(other, own));
                    }
                    symlink(version.to_string(), &symlink_other).unwrap();
                    fs::rename(symlink_other, symlink_own).unwrap();
                }
            }
        });
        let taken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..6 {
                let restored = tempfile::tempdir().unwrap();
                run(async {
                    let changing = SnapshotOptions { crash_consistent: true, ..options() };
                    let volume = "data".parse().unwrap();
                    let taken = bench.volumes().snapshot(root, &volume, &changing, |_| {}).await.unwrap();
                    assert_eq!(taken.snapshot.consistency, Consistency::Changing);
                    restore(&bench.volumes(), &taken.snapshot, restored.path()).await;
                });
                for file in 0..FILES {
                    let contents = fs::read(restored.path().join(name(file))).unwrap();
                    let version = u64::from_le_bytes(*contents.first_chunk().unwrap());
                    assert!(contents == contents_of(file, version), "{} is not whole", name(file));
                    let target = fs::read_link(restored.path().join(format!("s{file:03}"))).unwrap();
                    target.to_str().unwrap().parse::<u64>().unwrap();
                }
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        if let Err(panic) = taken {
            std::panic::resume_unwind(panic);
        }
    });
}

#[tokio::test]
async fn what_no_snapshot_can_hold_is_refused_by_name() {
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("the-socket")).unwrap();
    let name: VolumeName = "data".parse().unwrap();
    let error = bench.volumes().snapshot(folder.path(), &name, &options(), |_| {}).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.what().contains("the-socket is a socket"), "{error}");
    let without = SnapshotOptions { exclude: vec![glob::Pattern::new("*-socket").unwrap()], ..options() };
    let taken = bench.volumes().snapshot(folder.path(), &name, &without, |_| {}).await.unwrap();
    assert_eq!(taken.snapshot.totals.entries, 1);
}

/// What happens to a directory between two snapshots.
#[derive(Clone, Debug)]
enum Edit {
    Write { file: u8, at: u32, bytes: u32, seed: u64 },
    Cut { file: u8, bytes: u32 },
    Remove { file: u8 },
    Rename { from: u8, to: u8 },
    Link { from: u8, to: u8 },
    Symlink { file: u8, to: u8 },
    Mode { file: u8, mode: u32 },
    Attribute { file: u8, value: u8 },
    Time { file: u8, nanos: u32 },
    Snapshot,
}

fn edit() -> impl Strategy<Value = Edit> {
    let file = 0..8u8;
    prop_oneof![
        6 => (file.clone(), 0..1_700_000u32, 1..300_000u32, 0..6u64)
            .prop_map(|(file, at, bytes, seed)| Edit::Write { file, at, bytes, seed }),
        2 => (file.clone(), 0..1_700_000u32).prop_map(|(file, bytes)| Edit::Cut { file, bytes }),
        1 => file.clone().prop_map(|file| Edit::Remove { file }),
        1 => (file.clone(), file.clone()).prop_map(|(from, to)| Edit::Rename { from, to }),
        1 => (file.clone(), file.clone()).prop_map(|(from, to)| Edit::Link { from, to }),
        1 => (file.clone(), file.clone()).prop_map(|(file, to)| Edit::Symlink { file, to }),
        1 => (file.clone(), 0o200..0o1000u32).prop_map(|(file, mode)| Edit::Mode { file, mode }),
        1 => (file.clone(), any::<u8>()).prop_map(|(file, value)| Edit::Attribute { file, value }),
        1 => (file, 0..1_000_000_000u32).prop_map(|(file, nanos)| Edit::Time { file, nanos }),
        3 => Just(Edit::Snapshot),
    ]
}

/// Files are in three directories.
fn path_of(root: &Path, file: u8) -> PathBuf {
    let folder = root.join(["", "a", "a/b", "c"][usize::from(file % 4)]);
    fs::create_dir_all(&folder).unwrap();
    folder.join(format!("f{file}"))
}

/// An edit that cannot be made is left out.
fn apply(root: &Path, edit: &Edit) {
    match *edit {
        Edit::Write { file, at, bytes, seed } => {
            let path = path_of(root, file);
            if let Ok(file) = File::options().write(true).create(true).truncate(false).open(path) {
                file.write_all_at(&noise(seed, bytes as usize), at.into()).unwrap();
            }
        }
        Edit::Cut { file, bytes } => {
            if let Ok(file) = File::options().write(true).open(path_of(root, file)) {
                file.set_len(bytes.into()).unwrap();
            }
        }
        Edit::Remove { file } => drop(fs::remove_file(path_of(root, file))),
        Edit::Rename { from, to } => drop(fs::rename(path_of(root, from), path_of(root, to))),
        Edit::Link { from, to } => drop(fs::hard_link(path_of(root, from), path_of(root, to))),
        Edit::Symlink { file, to } => drop(symlink(format!("../f{to}"), path_of(root, file))),
        Edit::Mode { file, mode } => {
            let path = path_of(root, file);
            if path.is_file() {
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            }
        }
        Edit::Attribute { file, value } => {
            let _ = rustix::fs::lsetxattr(path_of(root, file), "user.v", &[value], XattrFlags::empty());
        }
        Edit::Time { file, nanos } => {
            if let Ok(file) = File::open(path_of(root, file)) {
                file.set_modified(SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, nanos)).unwrap();
            }
        }
        Edit::Snapshot => {}
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(work)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Every snapshot of a chain is the directory of its moment: contents, holes, links, owners, modes, times, attributes.
    #[test]
    fn each_snapshot_of_a_chain_is_the_directory_of_its_moment(edits in prop::collection::vec(edit(), 1..60)) {
        run(async {
            let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
            let mut moments: Vec<(Snapshot, std::collections::BTreeMap<Vec<u8>, Name>)> = Vec::new();
            for edit in edits.iter().chain([&Edit::Snapshot]) {
                apply(folder.path(), edit);
                if matches!(edit, Edit::Snapshot) {
                    bench.clock.advance_us(if moments.len().is_multiple_of(2) { 0 } else { HOUR_US });
                    let taken = snapshot(&bench.volumes(), folder.path()).await;
                    moments.push((taken.snapshot, tree(folder.path())));
                }
            }
            // What a prune leaves is whole, too.
            let keep = Prune { keep_last: Some(3), retain_ms: 0, ..Prune::default() };
            bench.volumes().prune(&keep).await.unwrap();
            for (snapshot, then) in moments.iter().rev().take(3) {
                let restored = tempfile::tempdir().unwrap();
                restore(&bench.volumes(), snapshot, restored.path()).await;
                assert_eq!(&tree(restored.path()), then);
            }
        });
    }
}

#[tokio::test]
async fn a_snapshot_stopped_at_any_put_leaves_the_others_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (source, extra) = (folder.path().join("source"), folder.path().join("source/extra"));
    of_every_kind(&source);
    let name: VolumeName = "data".parse().unwrap();
    for is_applied in [false, true] {
        for writes in 0.. {
            let bench = Bench::on(Faulty::sound());
            drop(fs::remove_file(&extra));
            let first = snapshot(&bench.volumes(), &source).await.snapshot;
            let before = tree(&source);
            fs::write(&extra, noise(77, 900_000)).unwrap();
            let after = tree(&source);
            bench.store.die_after(writes, is_applied);
            let second = bench.volumes().snapshot(&source, &name, &options(), |_| {}).await;
            let died = bench.store.is_dead();
            bench.store.revive();
            let there = bench.volumes().list().await.unwrap();
            assert!(there.contains(&first) && (second.is_err() || there.len() == 2), "{writes}: {there:?}");
            // The bucket is left to a prune, which must not touch what is there.
            bench.clock.advance_us(48 * HOUR_US);
            bench.volumes().prune(&Prune { retain_ms: 0, ..Prune::default() }).await.unwrap();
            for (snapshot, then) in there.iter().zip([&before, &after]) {
                let restored = tempfile::tempdir().unwrap();
                restore(&bench.volumes(), snapshot, restored.path()).await;
                assert_eq!(&tree(restored.path()), then, "{writes}");
            }
            let ours: BTreeSet<String> = there.iter().map(|snapshot| snapshot.id.to_string()).collect();
            let keys = bench.store.keys().await;
            let strays = keys
                .iter()
                .filter_map(|key| key.strip_prefix("_volumes/data/"))
                .filter(|key| !ours.contains(&key[..32]));
            assert_eq!(strays.collect::<Vec<_>>(), Vec::<&str>::new(), "{writes}");
            if !died {
                break;
            }
        }
    }
}

#[tokio::test]
async fn puts_without_an_answer_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    of_every_kind(folder.path());
    let then = tree(folder.path());
    for seed in 0..12 {
        let bench = Bench::on(Faulty::silent(100, seed));
        let volumes = bench.volumes();
        let taken = volumes.snapshot(folder.path(), &"data".parse().unwrap(), &options(), |_| {}).await;
        let there = bench.volumes().list().await.unwrap();
        assert_eq!(there.len(), usize::from(taken.is_ok()), "{taken:?}");
        for snapshot in there {
            let restored = tempfile::tempdir().unwrap();
            restore(&bench.volumes(), &snapshot, restored.path()).await;
            assert_eq!(tree(restored.path()), then);
        }
    }
}

#[tokio::test]
async fn two_snapshots_and_a_prune_at_once_lose_nothing() {
    for round in 0..8 {
        let bench = Bench::new();
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        for (folder, seed) in folders.iter().zip(0..) {
            of_every_kind(folder.path());
            fs::write(folder.path().join("own"), noise(50 + seed, 700_000)).unwrap();
        }
        let (a, b) = (bench.volumes(), bench.volumes());
        let first = snapshot(&a, folders[0].path()).await.snapshot;
        let second = snapshot(&a, folders[0].path()).await.snapshot;
        fs::write(folders[0].path().join("own"), noise(60 + round, 700_000)).unwrap();
        let (of_data, of_other) = ("data".parse().unwrap(), "other".parse().unwrap());
        let options = options();
        let prune = Prune {
            remove: vec![first.name(), second.name()],
            keep_last: Some(1),
            retain_ms: 0,
            ..Prune::default()
        };
        let (one, two, pruned) = tokio::join!(
            a.snapshot(folders[0].path(), &of_data, &options, |_| {}),
            b.snapshot(folders[1].path(), &of_other, &options, |_| {}),
            async {
                for _ in 0..round {
                    tokio::task::yield_now().await;
                }
                bench.volumes().prune(&prune).await
            },
        );
        pruned.unwrap();
        for (taken, folder) in [one, two].into_iter().zip(&folders) {
            let restored = tempfile::tempdir().unwrap();
            restore(&bench.volumes(), &taken.unwrap().snapshot, restored.path()).await;
            assert_eq!(tree(restored.path()), tree(folder.path()));
        }
        let left = bench.volumes().list().await.unwrap();
        let verified = bench.volumes().verify(&left, |_, _| {}).await.unwrap();
        assert_eq!(verified.faults, []);
    }
}

#[tokio::test]
async fn a_snapshot_that_was_given_up_cannot_be_committed() {
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    fs::write(folder.path().join("file"), noise(1, 900_000)).unwrap();
    let volumes = bench.volumes();
    let name: VolumeName = "data".parse().unwrap();
    let id = SnapshotId::from_random(7);
    let state = volumes.begin(id, &name, &options()).await.unwrap();
    bench.clock.advance_us(48 * HOUR_US);
    let pruned = bench.volumes().prune(&Prune::default()).await.unwrap();
    assert_eq!(pruned.abandoned, 1);
    let options = options();
    let begun = state.running[&id].clone();
    let writing =
        Writing { volumes: &volumes, directory: folder.path().into(), options: &options, begun, base: None };
    let error = writing.run(state, |_| {}).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
    assert_eq!(volumes.list().await.unwrap(), []);
}

#[tokio::test]
async fn what_a_begun_snapshot_wrote_stays_until_it_is_given_up() {
    let bench = Bench::new();
    let id = SnapshotId::from_random(7);
    bench.volumes().begin(id, &"data".parse().unwrap(), &options()).await.unwrap();
    let key = crate::tree::pack_key(id, 0);
    bench.store.write(&key, b"a pack".to_vec()).await;
    let now = Prune { retain_ms: 0, ..Prune::default() };
    assert_eq!(bench.volumes().prune(&now).await.unwrap(), crate::Pruned::default());
    bench.clock.advance_us(48 * HOUR_US);
    let pruned = bench.volumes().prune(&now).await.unwrap();
    assert_eq!((pruned.abandoned, pruned.deleted), (1, vec![key]));
}

#[tokio::test]
async fn a_name_that_is_not_there_is_told_with_those_that_are() {
    let (bench, folder) = (Bench::new(), tempfile::tempdir().unwrap());
    let taken = snapshot(&bench.volumes(), folder.path()).await.snapshot;
    assert_eq!(taken.name().to_string(), "data@1");
    for (name, message) in [
        ("dat", "there is no snapshot of volume dat; volumes: data"),
        ("data@7", "there is no snapshot data@7; there is data@1"),
    ] {
        let name: SnapshotName = name.parse().unwrap();
        assert_eq!(bench.volumes().find(&name).await.unwrap_err().what(), message);
    }
    assert!("data@x".parse::<SnapshotName>().is_err());
    assert!("../x".parse::<VolumeName>().is_err());
}

#[tokio::test]
async fn the_root_of_an_index_is_stored_with_the_starts_of_relations() {
    let (bench, source) = (Bench::new(), tempfile::tempdir().unwrap());
    let at = |name: &str| source.path().join(name);
    fs::create_dir_all(at("global")).unwrap();
    fs::create_dir_all(at("base/5")).unwrap();
    fs::write(at("global/pg_control"), noise(1, 8_192)).unwrap();
    fs::write(at("base/5/16400"), noise(2, 3 << 20)).unwrap();
    let mut index = noise(3, 3 << 20);
    index[24..28].copy_from_slice(&0x0005_3162_u32.to_le_bytes());
    index[40..44].copy_from_slice(&290_u32.to_le_bytes());
    fs::write(at("base/5/16500"), &index).unwrap();
    let taken = snapshot(&bench.volumes(), source.path()).await.snapshot;
    let tree = bench.volumes().tree(&taken).await.unwrap();
    let place = |name: &str| {
        let entry = tree.entries.iter().find(|entry| entry.path == name.as_bytes()).unwrap();
        let Node::File { chunks, .. } = &entry.node else { panic!("{name} is a file") };
        tree.chunks[chunks.clone()].iter().map(|chunk| chunk.pieces[0]).collect::<Vec<_>>()
    };
    let (table, index) = (place("base/5/16400"), place("base/5/16500"));
    // Page 290 is in the fifth chunk.
    let order = [table[0], index[0], index[4], table[1], table[5], index[1], index[3], index[5]];
    assert!(order.is_sorted(), "{order:?}");
    let target = tempfile::tempdir().unwrap();
    restore(&bench.volumes(), &taken, target.path()).await;
    assert_eq!(crate::testing::tree(target.path()), crate::testing::tree(source.path()));
}

#[tokio::test]
async fn a_clock_that_is_set_back_while_a_snapshot_is_taken_hides_no_change() {
    let bench = Bench::new();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), noise(1, 10_000)).unwrap();
    // An hour fast, until it is corrected.
    bench.clock.advance_us(HOUR_US);
    let is_corrected = std::sync::atomic::AtomicBool::new(false);
    let correct = |_| {
        if !is_corrected.swap(true, Ordering::Relaxed) {
            bench.clock.advance_us(-HOUR_US);
        }
    };
    let volumes = bench.volumes();
    let taken = volumes.snapshot(folder.path(), &"data".parse().unwrap(), &options(), correct).await;
    taken.unwrap();
    // The file was made so shortly before that its times may not have moved since.
    assert_eq!(snapshot(&volumes, folder.path()).await.snapshot.totals.read_bytes, 10_000);
}
