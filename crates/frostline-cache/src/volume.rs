//! Where bytes are stored: files over the volumes of a pool, and the offsets of each page and its checksum.
//!
//! The files are one striped address space, as in RAID 0: slot after slot, and every
//! [`STRIPE_BYTES`] on the next volume. A reader of adjacent pages gets the bandwidth of all volumes.
//! In each file a page of checksums precedes the pages that it covers, so none of them is in memory.
//! Nothing here trusts what it reads: the caller verifies every page.

use std::fmt::Debug;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, IoSliceMut};
use std::path::Path;

/// Contiguous bytes on one volume (a page, if pages are larger).
pub(crate) const STRIPE_BYTES: u64 = 64 << 10;
/// Bytes of a page's checksum.
pub(crate) const SUM_BYTES: u64 = 8;

/// Positioned I/O in one file of a volume. A trait, so that tests can inject failures.
pub(crate) trait Volume: Send + Sync + Debug {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()>;
    /// The same if the kernel has the bytes in memory, so that nothing waits for a disk; else false.
    fn read_from_memory(&self, _bytes: &mut [u8], _at: u64) -> bool {
        false
    }
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    fn sync(&self) -> io::Result<()>;
}

/// The sizes that determine where a page is. The number of slots is not among them: a cache can grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) region_bytes: u32,
    pub(crate) page_bytes: u32,
    pub(crate) volumes: u32,
}

/// The location of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) volume: u32,
    pub(crate) at: u64,
}

impl Geometry {
    pub(crate) fn place(&self, slot: u32, page: u32) -> Place {
        let address =
            u64::from(slot) * u64::from(self.region_bytes) + u64::from(page) * u64::from(self.page_bytes);
        let volumes = u64::from(self.volumes.max(1));
        let (stripe, within) = (address / self.stripe_bytes(), address % self.stripe_bytes());
        let at = stripe / volumes * self.stripe_bytes() + within;
        // A page of checksums precedes this group of pages, and one precedes each earlier group.
        let sums = (at / self.group_bytes() + 1) * u64::from(self.page_bytes);
        Place { volume: (stripe % volumes) as u32, at: at + sums }
    }

    /// The offset of the checksum of the page at `place`. Contiguous pages have contiguous checksums.
    pub(crate) fn sum_at(&self, place: Place) -> u64 {
        let page_bytes = u64::from(self.page_bytes);
        let group = place.at - place.at % (self.group_bytes() + page_bytes);
        group + ((place.at - group) / page_bytes).saturating_sub(1) * SUM_BYTES
    }

    /// The length of each volume's file.
    pub(crate) fn file_bytes(&self, slots: u32) -> u64 {
        let stripes = (u64::from(slots) * u64::from(self.region_bytes)).div_ceil(self.stripe_bytes());
        let bytes = stripes.div_ceil(u64::from(self.volumes.max(1))) * self.stripe_bytes();
        bytes + bytes.div_ceil(self.group_bytes()) * u64::from(self.page_bytes)
    }

    pub(crate) fn pages(&self) -> u32 {
        self.region_bytes / self.page_bytes
    }

    /// Whether every page of the slot is on a failed volume.
    pub(crate) fn is_lost(&self, slot: u32, failed: &[bool]) -> bool {
        let step = (self.stripe_bytes() / u64::from(self.page_bytes)).max(1) as usize;
        let mut volumes = (0..self.pages()).step_by(step).map(|page| self.place(slot, page).volume);
        volumes.all(|volume| failed.get(volume as usize).copied().unwrap_or(true))
    }

    /// Bytes of the pages whose checksums fill a page.
    fn group_bytes(&self) -> u64 {
        u64::from(self.page_bytes) / SUM_BYTES * u64::from(self.page_bytes)
    }

    fn stripe_bytes(&self) -> u64 {
        STRIPE_BYTES.max(u64::from(self.page_bytes))
    }
}

/// A preallocated file.
#[derive(Debug)]
pub(crate) struct FileVolume(File);

impl FileVolume {
    /// Opens or creates the file and sets its length, preallocated if the file system supports it,
    /// else sparse.
    pub(crate) fn open(path: &Path, file_bytes: u64) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        file.set_len(file_bytes)?;
        preallocate(&file, file_bytes);
        Ok(FileVolume(file))
    }
}

#[cfg(target_os = "linux")]
fn preallocate(file: &File, file_bytes: u64) {
    use rustix::fs::{FallocateFlags, fallocate};
    if file_bytes == 0 {
        return;
    }
    if let Err(error) = fallocate(file, FallocateFlags::empty(), 0, file_bytes) {
        tracing::debug!(%error, "cache file is sparse: its space cannot be reserved");
    }
}

#[cfg(not(target_os = "linux"))]
fn preallocate(_file: &File, _file_bytes: u64) {}

impl Volume for FileVolume {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.0, bytes, at)
    }

    #[cfg(target_os = "linux")]
    fn read_from_memory(&self, bytes: &mut [u8], at: u64) -> bool {
        let (wanted, now) = (bytes.len(), rustix::io::ReadWriteFlags::NOWAIT);
        // Not every file system knows the flag.
        rustix::io::preadv2(&self.0, &mut [IoSliceMut::new(bytes)], at, now) == Ok(wanted)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(&self.0, bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// Creates the volume's directory and takes its lock. `Ok(None)` if another process has it.
pub(crate) fn lock(volume: &Path) -> io::Result<Option<File>> {
    std::fs::create_dir_all(volume)?;
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(volume.join("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests;
