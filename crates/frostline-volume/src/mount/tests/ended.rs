//! Work in flight when a mount ends must not change files that the next process may have.

use std::sync::Weak;

use tokio::sync::oneshot;

use super::*;
use crate::piece::CHUNK_BYTES;

const INDEX: &str = "index";

/// A mounted PostgreSQL index, and the outcome of its mount.
struct Rig {
    bench: Bench,
    folder: tempfile::TempDir,
    lazy: Weak<Lazy>,
    served: Served,
}

/// A read that the repository does not answer yet, and the work that waits for it.
struct HeldBack {
    release: oneshot::Sender<()>,
    work: JoinHandle<()>,
}

impl Rig {
    async fn new() -> Rig {
        let (bench, source, folder) =
            (Bench::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut index = noise(3, 12 * CHUNK_BYTES);
        index[24..28].copy_from_slice(&0x0005_3162_u32.to_le_bytes());
        fs::write(source.path().join(INDEX), &index).unwrap();
        snapshot(&bench.volumes(), source.path()).await;
        let target = folder.path().join("data");
        let mount = bench.volumes().mount(&"data".parse().unwrap(), &target, &lazily()).await.unwrap();
        let Mount::Mounted(mounted) = mount else { panic!("it is whole") };
        let lazy = Arc::downgrade(&mounted.held.lazy);
        let served = Served(target, tokio::spawn(mounted.serve(|_| {})));
        Rig { bench, folder, lazy, served }
    }

    fn target(&self) -> PathBuf {
        self.folder.path().join("data").join(INDEX)
    }

    fn beneath(&self) -> PathBuf {
        self.folder.path().join(".data.frostline-mount/root").join(INDEX)
    }

    /// Does what needs this chunk, which the repository holds back.
    async fn hold_back(&self, chunk: usize, work: impl FnOnce(PathBuf) + Send + 'static) -> HeldBack {
        let key = {
            let tree = &self.lazy.upgrade().unwrap().tree;
            tree.packs[tree.chunks[chunk].pieces[0].pack as usize].object().key
        };
        let ((reach, reached), (release, released)) = (oneshot::channel(), oneshot::channel());
        self.bench.store.before_get(&key, async {
            reach.send(()).unwrap();
            let _ = released.await;
        });
        let target = self.target();
        let work = tokio::task::spawn_blocking(move || work(target));
        reached.await.unwrap();
        HeldBack { release, work }
    }

    /// After the end of the mount, writes as a user of the next one, and releases what was held back.
    async fn check(mut self, release: oneshot::Sender<()>, what: &str) {
        assert_eq!((&mut self.served.1).await.unwrap().unwrap(), Unmounted::Incomplete);
        let (place, _) = Place::open(&self.served.0).unwrap().expect("it is free");
        let file = fs::File::options().write(true).open(self.beneath()).unwrap();
        for chunk in 0..12 {
            file.write_all_at(&[b'U'; 8_192], chunk * CHUNK_BYTES as u64).unwrap();
        }
        let written = fs::read(self.beneath()).unwrap();
        let _ = release.send(());
        while self.lazy.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(fs::read(self.beneath()).unwrap() == written, "{what}");
        drop(place);
    }
}

fn open(path: PathBuf) -> fs::File {
    fs::File::options().read(true).write(true).open(path).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn leaves_of_an_index_that_come_after_the_end_of_a_mount_are_not_put_in_place() {
    if !can_mount() {
        return;
    }
    let rig = Rig::new().await;
    let read = |chunk: usize| {
        move |at| open(at).read_exact_at(&mut [0; 8_192], (chunk * CHUNK_BYTES) as u64).unwrap()
    };
    calls({
        let (at, read) = (rig.target(), read(0));
        move || read(at)
    })
    .await;
    let held = rig.hold_back(6, read(5)).await;
    // The reader waits for none of them.
    held.work.await.unwrap();
    assert_eq!(unmount_snapshot(&rig.served.0).await.unwrap(), Unmounted::Incomplete);
    rig.check(held.release, "leaves").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_wait_when_a_mount_is_forced_to_end_change_nothing_after_it() {
    if !can_mount() {
        return;
    }
    type Work = fn(PathBuf);
    let works: [(&str, Work); 4] = [
        ("a read", |at| drop(open(at).read_exact_at(&mut [0; 8_192], 0))),
        ("a write", |at| drop(open(at).write_all_at(b"x", 10))),
        ("a new length", |at| {
            let file = open(at);
            file.set_len(5_000).unwrap();
            let _ = file.set_len(100_000);
        }),
        ("a hole", |at| {
            let mode = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
            let _ = rustix::fs::fallocate(open(at), mode, 0, 100_000);
        }),
    ];
    for (what, work) in works {
        let rig = Rig::new().await;
        let held = rig.hold_back(0, work).await;
        unmount(&rig.served.0, UnmountFlags::FORCE | UnmountFlags::DETACH).unwrap();
        rig.check(held.release, what).await;
        held.work.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_is_written_with_nothing_open_of_the_place() {
    if !can_mount() {
        return;
    }
    let mut rig = Rig::new().await;
    let at = rig.target();
    calls(move || open(at).read_exact_at(&mut [0; 10], 0).unwrap()).await;
    let ((reach, reached), (release, released)) = (oneshot::channel(), oneshot::channel());
    rig.bench.store.before_put(crate::traces::TRACES, async {
        reach.send(()).unwrap();
        let _ = released.await;
    });
    assert_eq!(unmount_snapshot(&rig.served.0).await.unwrap(), Unmounted::Incomplete);
    reached.await.unwrap();
    assert_eq!(rig.lazy.strong_count(), 0);
    release.send(()).unwrap();
    assert_eq!((&mut rig.served.1).await.unwrap().unwrap(), Unmounted::Incomplete);
}
