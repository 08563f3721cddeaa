//! What files need that programs use themselves, and ask before they do: what they do after that is not seen.
//!
//! So what they may use is in place, and on the disk that it is: then nothing is put over what they wrote, whenever the
//! machine stops.

use super::*;

/// A thread that uses files itself, and for which nothing has to be brought.
pub(super) struct Working<'a> {
    workers: &'a Mutex<HashSet<i32>>,
    thread: i32,
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.workers.lock().remove(&self.thread);
    }
}

impl Lazy {
    pub(super) fn working(&self) -> Working<'_> {
        let thread = nix::unistd::gettid().as_raw();
        self.workers.lock().insert(thread);
        Working { workers: &self.workers, thread }
    }

    /// Whether a thread uses files for others.
    pub(in crate::mount) fn is_working(&self, thread: i32) -> bool {
        self.workers.lock().contains(&thread)
    }

    /// Whether any thread does.
    pub(in crate::mount) fn is_at_work(&self) -> bool {
        !self.workers.lock().is_empty()
    }

    /// Whether all of a range is in place and on the disk.
    pub(in crate::mount) fn is_settled(&self, file: &LazyFile, range: &ByteRange) -> bool {
        file.is_whole() || file.touched(range).all(|(chunk, _, pages)| pages & !self.pages.synced(chunk) == 0)
    }

    /// Brings all of a range in place and on the disk, for somebody who waits.
    pub(in crate::mount) async fn settle(
        self: &Arc<Lazy>,
        file: &Arc<LazyFile>,
        range: ByteRange,
    ) -> io::Result<()> {
        if self.has(file, &range) {
            self.note(file, &range);
            self.count_hit();
        } else {
            self.need(file, range.clone()).await?;
        }
        if self.is_settled(file, &range) {
            return Ok(());
        }
        let (lazy, file) = (Arc::clone(self), Arc::clone(file));
        let synced = move || {
            let _held = lazy.lease.hold()?;
            let _working = lazy.working();
            // Who waits here may find that the one before it has synced for it, too.
            let _turn = file.settling.lock();
            if lazy.is_settled(&file, &range) {
                return Ok(());
            }
            let words = lazy.pages.unsynced(file.chunks.clone());
            match lazy.open_file(&file).and_then(|open| open.sync_data()) {
                // It became whole meanwhile.
                Err(e) if e.kind() == io::ErrorKind::NotFound && file.is_whole() => return Ok(()),
                done => done?,
            }
            lazy.pages.sync(&words)
        };
        tokio::task::spawn_blocking(synced).await.map_err(io::Error::other)?
    }

    /// A user is about to change a file: its times and rights are no longer those of the snapshot, and nothing that is
    /// filled now puts them back. Returns the range whose data must be in place before the file is extended.
    pub(in crate::mount) fn give_over(&self, file: &LazyFile) -> io::Result<ByteRange> {
        let _held = self.lease.hold()?;
        let _writing = file.lock.lock();
        if file.is_whole() {
            return Ok(0..0);
        }
        self.touch(file)?;
        Ok(file.end(std::fs::symlink_metadata(self.second(file))?.len(), u64::MAX))
    }

    /// Gives up files without a name, of which nobody may have one open.
    pub(in crate::mount) fn give_up_nameless(&self) -> Result<()> {
        let mut nameless = self.in_order.iter().filter(|file| self.is_nameless(file));
        let failed = |e: io::Error| scan::failed("give up", &self.absent, &e);
        nameless.try_for_each(|file| self.give_up(file).map_err(failed))
    }

    /// Gives files the blocks of all of their data that is absent: programs take one with fewer for one with holes, and do
    /// not read these.
    pub(in crate::mount) fn reserve(&self) -> Result<()> {
        for file in self.in_order.iter().filter(|file| !file.is_whole()) {
            let entry = &self.tree.entries[file.entry];
            let Node::File { extents, .. } = &entry.node else { continue };
            let allocated = || {
                let open = self.open_file(file)?;
                let stat = rustix::fs::fstat(&open)?;
                let wanted: u64 = extents.iter().map(|extent| extent.end - extent.start).sum();
                if stat.st_blocks as u64 * 512 >= wanted {
                    return Ok(());
                }
                let kept = Kept::of(&open)?;
                for run in self.absent_runs(file, stat.st_size as u64) {
                    for part in data_in(extents, run) {
                        let bytes = part.end - part.start;
                        rustix::fs::fallocate(&open, FallocateFlags::KEEP_SIZE, part.start, bytes)?;
                    }
                }
                kept.put_back(&open)
            };
            allocated().map_err(|e: io::Error| {
                let failed = scan::failed("allocate", &PathBuf::from(entry.show()), &e);
                match failed.kind() {
                    ErrorKind::Exhausted => Error::new(
                        ErrorKind::Exhausted,
                        format!("{failed}: free some space, or use --mode fuse"),
                    ),
                    _ => failed,
                }
            })?;
        }
        Ok(())
    }

    /// The ranges of a file of `bytes` bytes that are absent.
    fn absent_runs(&self, file: &LazyFile, bytes: u64) -> Vec<ByteRange> {
        let mut absent: Vec<ByteRange> = Vec::new();
        for (chunk, number, pages) in file.touched(&(0..bytes)) {
            for run in runs(pages & !self.pages.get(chunk)) {
                let start = number * CHUNK;
                let run = start + run.start * PAGE..bytes.min(start + run.end * PAGE);
                match absent.last_mut() {
                    Some(last) if last.end == run.start => last.end = run.end,
                    _ => absent.push(run),
                }
            }
        }
        absent
    }

    /// The files that are not whole.
    pub(in crate::mount) fn absent(&self) -> impl Iterator<Item = (&u64, &Arc<LazyFile>, PathBuf)> {
        let absent = self.files.iter().filter(|(_, file)| !file.is_whole());
        absent.map(|(inode, file)| (inode, file, self.second(file)))
    }
}
