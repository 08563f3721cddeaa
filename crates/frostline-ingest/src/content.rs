//! The decompressed content of an open file, read through its handle even if the file is renamed.

use std::fs::{File, Metadata};
use std::io::{self, Cursor, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::decompress::{Compression, decompress};
use crate::identity::{Known, Prefix, SourceKey};

/// Number of bytes by which a format is detected.
pub(crate) const SAMPLE_BYTES: usize = 64 << 10;

/// An open regular file.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    file: Arc<File>,
    compression: Compression,
    /// Up to where its bytes were read once, and the counter that they were added to.
    read: Arc<AtomicU64>,
    bytes_read: Arc<AtomicU64>,
}

/// What is known about a content before its lines are read.
#[derive(Debug)]
pub(crate) struct Recognised {
    /// Its first bytes.
    pub(crate) sample: Vec<u8>,
    /// The known file that it is, and how far that is ingested.
    pub(crate) known: Option<(SourceKey, Prefix)>,
    /// Whether nothing follows that position.
    pub(crate) is_done: bool,
    /// It could not be read far enough to compare it with each file that begins alike.
    pub(crate) torn: Option<io::Error>,
}

impl Content {
    /// Opens a file. Bytes as stored that are read the first time are counted into `bytes_read`.
    pub(crate) fn open(path: &Path, bytes_read: &Arc<AtomicU64>) -> io::Result<Content> {
        Content::of(File::open(path)?, bytes_read)
    }

    /// The content of an open file.
    pub(crate) fn of(file: File, bytes_read: &Arc<AtomicU64>) -> io::Result<Content> {
        let mut first = [0; 6];
        let mut stored =
            Stored { file: Arc::new(file), at: 0, read: Arc::default(), bytes_read: Arc::default() };
        let count = read_some(&mut stored, &mut first)?;
        let compression = Compression::of(&first[..count]);
        Ok(Content {
            file: stored.file,
            compression,
            read: Arc::default(),
            bytes_read: Arc::clone(bytes_read),
        })
    }

    /// The metadata of the open file.
    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    /// Whether it is stored uncompressed.
    pub(crate) fn is_plain(&self) -> bool {
        self.compression == Compression::None
    }

    /// Reads the content from `offset` on.
    pub(crate) fn reader(&self, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        let at = if self.is_plain() { offset } else { 0 };
        let stored = Stored {
            file: Arc::clone(&self.file),
            at,
            read: Arc::clone(&self.read),
            bytes_read: Arc::clone(&self.bytes_read),
        };
        if self.is_plain() {
            return Ok(Box::new(stored));
        }
        let mut content = decompress(stored)?.0;
        io::copy(&mut content.by_ref().take(offset), &mut io::sink())?;
        Ok(content)
    }

    /// Reads up to `buffer.len()` bytes at `offset` of a plain file.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    /// Counts bytes that will not be read as read.
    pub(crate) fn count_rest(&self) {
        if let Ok(metadata) = self.metadata() {
            let before = self.read.fetch_max(metadata.len(), Ordering::Relaxed);
            self.bytes_read.fetch_add(metadata.len().saturating_sub(before), Ordering::Relaxed);
        }
    }

    /// Finds the known file that this is: the longest one that it begins with. It is read once, up to that length.
    ///
    /// A known file that ended inside a line and has grown continues where that line begins, so that the whole line
    /// is a document.
    pub(crate) fn recognise(&self, known: &Known) -> io::Result<Recognised> {
        let mut content = self.reader(0)?;
        let mut sample = Vec::new();
        // A read error is found again when the lines are read.
        let mut torn = content.by_ref().take(SAMPLE_BYTES as u64).read_to_end(&mut sample).err();
        let mut content = Cursor::new(sample.clone()).chain(content);
        let mut prefix = Prefix::default();
        let mut found = None;
        for candidate in known.candidates(&sample) {
            match prefix.advance(&mut content, candidate.offset) {
                Ok(true) if candidate.is(&prefix) => {
                    found = Some((candidate.key, prefix.clone(), candidate.resume));
                }
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    torn = Some(error);
                    break;
                }
            }
        }
        let Some((key, ingested, resume)) = found else {
            return Ok(Recognised { sample, known: None, is_done: false, torn });
        };
        if let Some(resume) = resume {
            let mut ingested = Prefix::default();
            ingested.advance(&mut self.reader(0)?, resume)?;
            return Ok(Recognised { sample, known: Some((key, ingested)), is_done: false, torn: None });
        }
        let is_last = ingested.bytes() == prefix.bytes();
        let is_done = is_last && torn.is_none() && content.read(&mut [0]).is_ok_and(|count| count == 0);
        let ingested = if is_done { ingested } else { self.before_torn_line(ingested)? };
        Ok(Recognised { sample, known: Some((key, ingested)), is_done, torn: None })
    }

    /// The start of the line that contains the end of `ingested`, unless only its line end follows.
    fn before_torn_line(&self, ingested: Prefix) -> io::Result<Prefix> {
        if ingested.line_start() == ingested.bytes() {
            return Ok(ingested);
        }
        let mut next = [0; 2];
        let count = match self.reader(ingested.bytes()) {
            Ok(mut content) => read_some(&mut content, &mut next).unwrap_or(0),
            Err(_) => 0,
        };
        if matches!(&next[..count], [b'\n', ..] | b"\r\n" | []) {
            return Ok(ingested);
        }
        let mut prefix = Prefix::default();
        prefix.advance(&mut self.reader(0)?, ingested.line_start())?;
        Ok(prefix)
    }
}

/// Fills `buffer` as far as there is data.
fn read_some(reader: &mut (impl Read + ?Sized), buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if filled == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(filled)
}

/// Reads a file at its own position.
struct Stored {
    file: Arc<File>,
    at: u64,
    read: Arc<AtomicU64>,
    bytes_read: Arc<AtomicU64>,
}

impl Read for Stored {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        let before = self.read.fetch_max(self.at, Ordering::Relaxed);
        self.bytes_read.fetch_add(self.at.saturating_sub(before), Ordering::Relaxed);
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
