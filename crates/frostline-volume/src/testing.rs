//! What the tests share: a repository that fails on request, and directories to compare.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use frostline_base::{ByteRange, FixedClock, SystemClock};
use frostline_commits::testing::Faulty;
use frostline_store::{OpenOptions, Repository, RetryOptions};

use crate::scan::{self, Scope};
use crate::{RestoreOptions, Snapshot, SnapshotOptions, Taken, Volumes};

/// An hour, in microseconds: what was written before it is trusted.
pub(crate) const HOUR_US: i64 = 3_600_000_000;

/// A repository in memory, and the clock of who writes to it.
pub(crate) struct Bench {
    pub(crate) store: Faulty,
    pub(crate) clock: Arc<FixedClock>,
    drawn: Arc<AtomicU64>,
}

impl Bench {
    pub(crate) fn on(store: Faulty) -> Bench {
        use frostline_base::Clock as _;
        let clock = Arc::new(FixedClock::at(SystemClock.now_us()));
        Bench { store, clock, drawn: Arc::default() }
    }

    pub(crate) fn new() -> Bench {
        Bench::on(Faulty::sound())
    }

    /// As a new process opens it. A request is made once.
    pub(crate) fn volumes(&self) -> Volumes {
        let options = OpenOptions {
            retry: RetryOptions { attempts_max: 1, ..RetryOptions::default() },
            ..OpenOptions::default()
        };
        let repository = Repository::with_store("memory:", Arc::new(self.store.clone()), &options);
        let drawn = Arc::clone(&self.drawn);
        let random = move || {
            let number = drawn.fetch_add(1, Ordering::SeqCst) + 1;
            u128::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)
        };
        Volumes::new(&repository, Arc::clone(&self.clock) as _, Arc::new(random))
    }
}

/// Volumes in a directory. A request is made once.
pub(crate) fn in_directory(repository: &Path) -> Volumes {
    let options = OpenOptions {
        create: true,
        retry: RetryOptions { attempts_max: 1, ..RetryOptions::default() },
        ..OpenOptions::default()
    };
    let repository = Repository::open(&repository.display().to_string(), &options).unwrap();
    Volumes::new(&repository, Arc::new(SystemClock), Arc::new(rand::random::<u128>))
}

/// Small packs, so that there are several.
pub(crate) fn options() -> SnapshotOptions {
    SnapshotOptions {
        host: "test".to_owned(),
        pack_bytes: 256 << 10,
        threads: 2,
        ..SnapshotOptions::default()
    }
}

pub(crate) async fn snapshot(volumes: &Volumes, directory: &Path) -> Taken {
    volumes.snapshot(directory, &"data".parse().unwrap(), &options(), |_| {}).await.unwrap()
}

pub(crate) async fn restore(volumes: &Volumes, snapshot: &Snapshot, directory: &Path) {
    let restored = volumes.restore(snapshot, directory, &RestoreOptions::default(), |_| {}).await.unwrap();
    assert_eq!((restored.owners_not_set, restored.attributes_not_set), (0, 0));
}

/// Everything that a restore must bring back of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    kind_and_mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
    link: Option<Vec<u8>>,
    contents: Option<(Vec<u8>, Vec<ByteRange>)>,
    /// The first name of the same inode.
    same_as: Vec<u8>,
}

/// A directory as it is, to be compared with another one.
pub(crate) fn tree(root: &Path) -> BTreeMap<Vec<u8>, Name> {
    let found = scan::scan(root, &Scope::default()).unwrap();
    let mut inodes: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut names = BTreeMap::new();
    for found in found.entries {
        let (path, meta) = (found.entry.path, found.entry.meta);
        let full = scan::below(root, &path);
        let stat = std::fs::symlink_metadata(&full).unwrap();
        let contents = stat.is_file().then(|| {
            let file = std::fs::File::open(&full).unwrap();
            let mut bytes = vec![0; stat.len() as usize];
            file.read_exact_at(&mut bytes, 0).unwrap();
            (bytes, scan::extents(&file, stat.len()).unwrap())
        });
        let link =
            stat.is_symlink().then(|| std::fs::read_link(&full).unwrap().as_os_str().as_bytes().to_vec());
        let same_as = inodes.entry(stat.ino()).or_insert_with(|| path.clone()).clone();
        let name = Name {
            kind_and_mode: stat.mode(),
            owner: (stat.uid(), stat.gid()),
            modified: (stat.mtime(), stat.mtime_nsec()),
            attributes: meta.attributes,
            link,
            contents,
            same_as,
        };
        names.insert(path, name);
    }
    names
}

/// All but which other names it has.
pub(crate) fn without_other_names(name: &Name) -> Name {
    Name { same_as: Vec::new(), ..name.clone() }
}

/// All but when it was written.
pub(crate) fn without_time(name: &Name) -> String {
    let Name { kind_and_mode, owner, attributes, link, contents, same_as, .. } = name;
    let contents = contents.as_ref().map(|(bytes, _)| (bytes.len(), crate::Digest::of(bytes)));
    format!("{kind_and_mode:o} {owner:?} {attributes:?} {link:?} {contents:?} {same_as:?}")
}

/// Bytes that do not pack, by seed.
pub(crate) fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    use rand::{RngCore as _, SeedableRng as _};
    let mut noise = vec![0; bytes];
    rand::rngs::SmallRng::seed_from_u64(seed).fill_bytes(&mut noise);
    noise
}
