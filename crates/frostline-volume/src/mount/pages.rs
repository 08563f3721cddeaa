//! Which pages of a tree's chunks are in place: a word for each chunk, a bit for each page.
//!
//! There are two files. One follows at once: what it says holds as long as the kernel lives, since the data is in its
//! memory at least, also when the process is killed. The other one says only what is on the disk; it is believed after a
//! restart of the machine, which is told by the identity that the kernel draws when it starts.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use frostline_base::{Error, Result};
use parking_lot::Mutex;

use crate::scan;

const SYNCED: &str = "pages.synced";
const NEAR: &str = "pages.";
const WORD: usize = 8;

/// The pages of a tree.
#[derive(Debug)]
pub(super) struct Pages {
    words: Vec<AtomicU64>,
    near: File,
    /// What is known of the disk, for who cannot wait for a sync. Whoever syncs holds the file.
    on_disk: Vec<AtomicU64>,
    synced: Mutex<File>,
}

impl Pages {
    /// No page of so many chunks is in place.
    pub(super) fn make(folder: &Path, chunks: usize) -> Result<()> {
        for name in names(folder)? {
            let path = folder.join(name);
            std::fs::remove_file(&path).map_err(|e| scan::failed("remove", &path, &e))?;
        }
        let path = folder.join(SYNCED);
        let made = std::fs::write(&path, vec![0; chunks * WORD]).and_then(|()| File::open(&path)?.sync_all());
        made.map_err(|e| scan::failed("write", &path, &e))
    }

    /// What was in place when the last process ended. `boot` is the identity of the running kernel.
    pub(super) fn open(folder: &Path, chunks: usize, boot: &str) -> Result<Pages> {
        let path = folder.join(SYNCED);
        let synced = read(&path, chunks)?;
        let near_path = folder.join(format!("{NEAR}{boot}"));
        let near = match near_path.exists() {
            true => read(&near_path, chunks)?,
            false => {
                let new = folder.join(format!("{NEAR}new"));
                let made = std::fs::write(&new, encode(&synced));
                let made = made.and_then(|()| std::fs::rename(&new, &near_path));
                made.map_err(|e| scan::failed("write", &near_path, &e))?;
                synced.clone()
            }
        };
        for name in names(folder)?.iter().filter(|name| **name != SYNCED && folder.join(name) != near_path) {
            // Of a kernel that is gone.
            let _ = std::fs::remove_file(folder.join(name));
        }
        let open = |path: &Path| {
            let opened = File::options().write(true).open(path);
            opened.map_err(|e| scan::failed("open", path, &e))
        };
        Ok(Pages {
            words: near.iter().zip(&synced).map(|(near, synced)| AtomicU64::new(near | synced)).collect(),
            near: open(&near_path)?,
            on_disk: synced.iter().map(|word| AtomicU64::new(*word)).collect(),
            synced: Mutex::new(open(&path)?),
        })
    }

    pub(super) fn get(&self, chunk: usize) -> u64 {
        self.words.get(chunk).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// The pages of which the disk knows that they are in place.
    pub(super) fn synced(&self, chunk: usize) -> u64 {
        self.on_disk.get(chunk).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// These pages are in place. Whoever sets pages of a chunk holds the lock of its file. The bits that are new.
    pub(super) fn set(&self, chunk: usize, pages: u64) -> std::io::Result<u64> {
        let Some(word) = self.words.get(chunk) else { return Ok(0) };
        let before = word.load(Ordering::Acquire);
        if before | pages != before {
            self.near.write_all_at(&(before | pages).to_le_bytes(), (chunk * WORD) as u64)?;
            word.store(before | pages, Ordering::Release);
        }
        Ok(pages & !before)
    }

    /// The words of these chunks that say more than the disk knows.
    pub(super) fn unsynced(&self, chunks: std::ops::Range<usize>) -> Vec<(usize, u64)> {
        let words = chunks.map(|chunk| (chunk, self.get(chunk)));
        words.filter(|(chunk, word)| word & !self.synced(*chunk) != 0).collect()
    }

    /// The pages that these words say are on the disk, and so is that they are.
    pub(super) fn sync(&self, words: &[(usize, u64)]) -> std::io::Result<()> {
        let file = self.synced.lock();
        let mut new = Vec::new();
        for (chunk, word) in words {
            let Some(known) = self.on_disk.get(*chunk) else { continue };
            let old = known.load(Ordering::Acquire);
            if word & !old != 0 {
                file.write_all_at(&(old | word).to_le_bytes(), (chunk * WORD) as u64)?;
                new.push((known, old | word));
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        file.sync_data()?;
        for (known, word) in new {
            known.store(word, Ordering::Release);
        }
        Ok(())
    }
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let failed = |e| scan::failed("list", folder, &e);
    let listed = std::fs::read_dir(folder).map_err(failed)?;
    let names = listed.map(|entry| Ok(entry.map_err(failed)?.file_name().to_string_lossy().into_owned()));
    names.filter(|name| name.as_ref().map_or(true, |name: &String| name.starts_with(NEAR))).collect()
}

fn read(path: &Path, chunks: usize) -> Result<Vec<u64>> {
    let bytes = std::fs::read(path).map_err(|e| scan::failed("read", path, &e))?;
    let (words, rest) = bytes.as_chunks::<WORD>();
    if words.len() != chunks || !rest.is_empty() {
        return Err(Error::corrupt(format!("{} does not have the length of its tree", path.display())));
    }
    Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

fn encode(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_process_keeps_all_and_a_stopped_machine_what_was_synced() {
        let folder = tempfile::tempdir().unwrap();
        Pages::make(folder.path(), 3).unwrap();
        let pages = Pages::open(folder.path(), 3, "a").unwrap();
        assert_eq!(pages.set(0, 0b11).unwrap(), 0b11);
        assert_eq!(pages.set(0, 0b110).unwrap(), 0b100);
        assert_eq!(pages.unsynced(0..3), [(0, 0b111)]);
        assert_eq!(pages.synced(0), 0);
        pages.sync(&[(0, 0b011)]).unwrap();
        assert_eq!(pages.synced(0), 0b011);
        pages.set(2, 1).unwrap();
        let words = |pages: &Pages| [pages.get(0), pages.get(1), pages.get(2)];
        drop(pages);
        assert_eq!(words(&Pages::open(folder.path(), 3, "a").unwrap()), [0b111, 0, 1]);
        assert_eq!(words(&Pages::open(folder.path(), 3, "b").unwrap()), [0b011, 0, 0]);
        // What the kernel before it knew is not believed any more, even if its name comes again.
        assert_eq!(words(&Pages::open(folder.path(), 3, "a").unwrap()), [0b011, 0, 0]);
    }

    #[test]
    fn a_file_of_another_length_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        Pages::make(folder.path(), 3).unwrap();
        assert_eq!(
            Pages::open(folder.path(), 4, "a").unwrap_err().kind(),
            frostline_base::ErrorKind::Corrupt
        );
    }
}
