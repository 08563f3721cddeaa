//! What is ingested: files, directories, standard input, and streams that are told apart by a name.
//!
//! A directory is walked recursively in the sorted order of its paths. Hidden names, symbolic links to
//! directories, and what is no regular file are skipped with a note; a file of a directory that turns out
//! binary or unreadable is skipped with a note when its turn comes, a file named by the user is an error.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use frostline_base::{Error, Result};
use xxhash_rust::xxh3::Xxh3;

use crate::decompress::Compression;
use crate::pipeline::Cancel;

const IDENTITY_BYTES: u64 = 64 << 10;

/// One stream of lines.
#[derive(Debug)]
pub struct Input {
    name: String,
    identity: Option<String>,
    bytes: Option<u64>,
    is_packed: bool,
    from_directory: bool,
    kind: Kind,
}

/// Inputs in the order they are read, and what was left out.
#[derive(Debug, Default)]
pub struct Inputs {
    /// In reading order.
    pub inputs: Vec<Input>,
    /// What a directory holds but is not read, with the reason.
    pub skipped: Vec<Skipped>,
}

/// Something that is not read, and why.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Skipped {
    /// The path or the input's name.
    pub name: String,
    /// Why, as words that follow "skipped:".
    pub reason: String,
}

enum Kind {
    File(PathBuf),
    Stream(Box<dyn Read + Send>),
    Documents(Box<dyn Read + Send>),
}

impl Inputs {
    /// The inputs that the user named: files, directories, or `-` for standard input.
    pub fn from_arguments(arguments: &[PathBuf]) -> Result<Inputs> {
        let mut inputs = Inputs::default();
        for argument in arguments {
            if argument.as_os_str() == "-" {
                inputs.inputs.push(Input::stream("standard input", io::stdin()));
                continue;
            }
            let metadata = fs::metadata(argument).map_err(|error| cannot("read", argument, error))?;
            if metadata.is_dir() {
                inputs.walk(argument)?;
            } else {
                inputs.inputs.push(Input::file(argument)?);
            }
        }
        Ok(inputs)
    }

    /// A single input.
    pub fn of(input: Input) -> Inputs {
        Inputs { inputs: vec![input], skipped: Vec::new() }
    }

    /// The bytes to be read, as far as known before reading.
    pub fn bytes(&self) -> u64 {
        self.inputs.iter().filter_map(|input| input.bytes).sum()
    }

    /// The bytes of all inputs unpacked, where that is known before reading.
    pub(crate) fn bytes_unpacked(&self) -> Option<u64> {
        self.inputs.iter().map(|input| input.bytes.filter(|_| !input.is_packed)).sum()
    }

    fn walk(&mut self, directory: &Path) -> Result<()> {
        let entries = fs::read_dir(directory).map_err(|error| cannot("list", directory, error))?;
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        for path in paths {
            if let Err(reason) = self.visit(&path) {
                self.skipped.push(Skipped { name: path.display().to_string(), reason });
            }
        }
        Ok(())
    }

    fn visit(&mut self, path: &Path) -> std::result::Result<(), String> {
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if is_hidden {
            return Err("hidden".into());
        }
        let link = fs::symlink_metadata(path).map_err(|error| error.to_string())?;
        let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
        if metadata.is_dir() {
            if link.is_symlink() {
                return Err("a symbolic link to a directory".into());
            }
            return self.walk(path).map_err(|error| chain(&error));
        }
        if !metadata.is_file() {
            return Err("not a regular file".into());
        }
        let mut input = Input::file(path).map_err(|error| chain(&error))?;
        input.from_directory = true;
        self.inputs.push(input);
        Ok(())
    }
}

impl Input {
    /// A regular file. Its identity is made of its size, first and last 64 KiB: the same file under
    /// another name is the same input. Anything else that can be opened (a pipe) has no identity.
    pub fn file(path: &Path) -> Result<Input> {
        let mut file = File::open(path).map_err(|error| cannot("open", path, error))?;
        let metadata = file.metadata().map_err(|error| cannot("read", path, error))?;
        if metadata.is_dir() {
            return Err(Error::invalid(format!("{} is a directory", path.display())));
        }
        let is_regular = metadata.is_file();
        let (identity, is_packed) = if is_regular {
            let known =
                identity_of(&mut file, metadata.len()).map_err(|error| cannot("read", path, error))?;
            (Some(known.0), known.1)
        } else {
            (None, false)
        };
        let bytes = is_regular.then_some(metadata.len());
        let name = path.display().to_string();
        // A pipe can be opened only once.
        let kind = if is_regular { Kind::File(path.to_owned()) } else { Kind::Stream(Box::new(file)) };
        Ok(Input { name, identity, bytes, is_packed, from_directory: false, kind })
    }

    /// A stream without identity: what was read of it before cannot be known again.
    pub fn stream(name: &str, reader: impl Read + Send + 'static) -> Input {
        let kind = Kind::Stream(Box::new(reader));
        Input {
            name: name.into(),
            identity: None,
            bytes: None,
            is_packed: false,
            from_directory: false,
            kind,
        }
    }

    /// JSON lines that come out the same whenever `identity` is the same; about `bytes` of them where that
    /// is known.
    pub fn documents(
        name: &str,
        identity: &str,
        bytes: Option<u64>,
        reader: impl Read + Send + 'static,
    ) -> Input {
        Input {
            name: name.into(),
            identity: Some(identity.into()),
            bytes,
            is_packed: false,
            from_directory: false,
            kind: Kind::Documents(Box::new(reader)),
        }
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What stays the same when the same input comes again, where there is such a thing.
    pub fn identity(&self) -> Option<&str> {
        self.identity.as_deref()
    }

    /// Its length as stored, where known.
    pub fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// Whether it was found in a directory and not named by the user.
    pub fn from_directory(&self) -> bool {
        self.from_directory
    }

    /// Whether its lines are JSON documents whatever they look like.
    pub fn is_json(&self) -> bool {
        matches!(self.kind, Kind::Documents(_))
    }

    /// Opens it for reading from its start, unpacked. Bytes as stored are counted into `bytes_read`. A stream
    /// that has nothing to say is not waited for after `cancel`: reading it then fails.
    pub fn open(self, bytes_read: Arc<AtomicU64>, cancel: &Cancel) -> Result<Box<dyn Read + Send>> {
        let name = self.name;
        let broken = |error: io::Error| Error::invalid(format!("cannot read {name}")).with_source(error);
        match self.kind {
            Kind::File(path) => {
                let file = File::open(&path).map_err(|error| cannot("open", &path, error))?;
                Ok(crate::decompress::decompress(Counted { inner: file, bytes_read }).map_err(broken)?.0)
            }
            Kind::Stream(stream) => {
                let inner = Pumped::new(stream, cancel.clone());
                Ok(crate::decompress::decompress(Counted { inner, bytes_read }).map_err(broken)?.0)
            }
            Kind::Documents(documents) => Ok(Box::new(Counted { inner: documents, bytes_read })),
        }
    }
}

/// A file's identity, and whether it is packed.
fn identity_of(file: &mut File, bytes: u64) -> io::Result<(String, bool)> {
    let mut hash = Xxh3::new();
    hash.update(&bytes.to_le_bytes());
    let mut piece = Vec::new();
    file.by_ref().take(IDENTITY_BYTES).read_to_end(&mut piece)?;
    hash.update(&piece);
    let is_packed = Compression::of(&piece) != Compression::None;
    if bytes > IDENTITY_BYTES {
        piece.clear();
        file.seek(SeekFrom::Start(bytes.saturating_sub(IDENTITY_BYTES).max(IDENTITY_BYTES)))?;
        file.by_ref().take(IDENTITY_BYTES).read_to_end(&mut piece)?;
        hash.update(&piece);
    }
    Ok((format!("file-{:032x}", hash.digest128()), is_packed))
}

fn cannot(verb: &str, path: &Path, error: io::Error) -> Error {
    let what = format!("cannot {verb} {}", path.display());
    match error.kind() {
        io::ErrorKind::NotFound => Error::not_found(what).with_source(error),
        io::ErrorKind::PermissionDenied => Error::denied(what).with_source(error),
        _ => Error::invalid(what).with_source(error),
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(": ");
        line.push_str(&error.to_string());
        cause = error.source();
    }
    line
}

/// Counts what is read through it.
struct Counted<R> {
    inner: R,
    bytes_read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.bytes_read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Reads a stream in a thread of its own, so that whoever waits for it can be called away. The thread
/// ends with the stream, or with the process where the stream never says anything again.
struct Pumped {
    pieces: mpsc::Receiver<io::Result<Vec<u8>>>,
    cancel: Cancel,
    piece: io::Cursor<Vec<u8>>,
}

const PIECE_BYTES: usize = 256 << 10;
const PATIENCE: Duration = Duration::from_millis(100);

impl Pumped {
    fn new(mut stream: Box<dyn Read + Send>, cancel: Cancel) -> Self {
        let (sender, pieces) = mpsc::sync_channel(4);
        std::thread::spawn(move || {
            loop {
                let mut piece = vec![0; PIECE_BYTES];
                let read = stream.read(&mut piece);
                if read.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::Interrupted) {
                    continue;
                }
                let is_last = !matches!(read, Ok(1..));
                let sent = sender.send(read.map(|count| {
                    piece.truncate(count);
                    piece
                }));
                if is_last || sent.is_err() {
                    return;
                }
            }
        });
        Pumped { pieces, cancel, piece: io::Cursor::default() }
    }
}

impl Read for Pumped {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.piece.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            if self.cancel.is_cancelled() {
                return Err(io::Error::other("reading was cancelled"));
            }
            match self.pieces.recv_timeout(PATIENCE) {
                Ok(Ok(piece)) if piece.is_empty() => return Ok(0),
                Ok(piece) => self.piece = io::Cursor::new(piece?),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(0),
            }
        }
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::File(path) => f.debug_tuple("File").field(path).finish(),
            Kind::Stream(_) => f.write_str("Stream"),
            Kind::Documents(_) => f.write_str("Documents"),
        }
    }
}

#[cfg(test)]
mod tests;
