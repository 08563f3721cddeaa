//! Inputs: files, directories, standard input, and named streams.
//!
//! A directory is walked recursively in the sorted order of its paths. Hidden names, symbolic links to
//! directories, and anything that is not a regular file are skipped with a note. A file is opened once, when its turn
//! comes,
//! and everything about it is read from that handle, so it stays the same file if it is renamed. A
//! file of a directory that is binary or cannot be opened is skipped with a note.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use frostline_base::{Error, Result, chain};

use crate::content::Content;
use crate::pipeline::Cancel;

const OWN: &str = "frostline itself writes there";
const HIDDEN: &str = "hidden";

/// One stream of lines.
#[derive(Debug)]
pub struct Input {
    name: String,
    bytes: Option<u64>,
    from_directory: bool,
    kind: Kind,
}

/// An input whose turn has come.
pub(crate) enum Opened {
    File(Content),
    /// A stream, which cannot be identified in a later run.
    Stream(Box<dyn Read + Send>),
    /// Documents with an identity given by their producer.
    Documents(String, Box<dyn Read + Send>),
}

/// Inputs in the order they are read, and what was skipped.
#[derive(Debug, Default)]
pub struct Inputs {
    /// In reading order.
    pub inputs: Vec<Input>,
    /// What a directory contains but is not read, with the reason.
    pub skipped: Vec<Skipped>,
    /// Directories that are not read; absolute.
    own: Vec<PathBuf>,
}

/// Directories that a run writes to itself: the repository and the caches. Inside other directories and among the
/// matches of patterns they are skipped, with a note.
#[derive(Clone, Debug, Default)]
pub struct Own(Vec<PathBuf>);

impl Own {
    /// These directories. Some may be made later.
    pub fn new(directories: Vec<PathBuf>) -> Own {
        Own(directories)
    }

    /// Those that `argument` is not inside of: what is in such a one is named.
    fn beside(&self, argument: &Path) -> Vec<PathBuf> {
        let fixed: PathBuf = argument.components().take_while(|part| !is_pattern(part.as_ref())).collect();
        let fixed = if argument.exists() { argument.to_owned() } else { Path::new(".").join(fixed) };
        let fixed = fixed.canonicalize().unwrap_or_default();
        let own = self.0.iter().filter_map(|own| own.canonicalize().ok());
        own.filter(|own| fixed == *own || !fixed.starts_with(own)).collect()
    }
}

/// Something that is skipped, and why.
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
    Documents(String, Box<dyn Read + Send>),
}

impl Inputs {
    /// The inputs that the user named: files, directories, patterns of them, or `-` for standard input.
    pub fn from_arguments(arguments: &[PathBuf]) -> Result<Inputs> {
        Inputs::without(&Own::default(), arguments)
    }

    /// The same without what the run writes itself. `NotFound` where arguments name nothing.
    pub fn without(own: &Own, arguments: &[PathBuf]) -> Result<Inputs> {
        let mut inputs = Inputs::default();
        for argument in arguments {
            if argument.as_os_str() == "-" {
                inputs.inputs.push(Input::stream("standard input", io::stdin()));
                continue;
            }
            let paths = matches_of(argument);
            if paths.is_empty() {
                return Err(Error::not_found(format!("no file matches the pattern {}", argument.display())));
            }
            inputs.own = own.beside(argument);
            for path in paths {
                if inputs.skips(&path) {
                    continue;
                }
                let metadata = fs::metadata(&path).map_err(|error| cannot("read", &path, error))?;
                if metadata.is_dir() {
                    inputs.walk(&path)?;
                } else {
                    inputs.inputs.push(Input::file(&path)?);
                }
            }
        }
        if inputs.inputs.is_empty() && inputs.skipped.is_empty() && !arguments.is_empty() {
            let named: Vec<_> = arguments.iter().map(|argument| argument.display().to_string()).collect();
            return Err(Error::not_found(format!("there is no file in {}", named.join(", "))));
        }
        Ok(inputs)
    }

    /// A single input.
    pub fn of(input: Input) -> Inputs {
        Inputs { inputs: vec![input], ..Inputs::default() }
    }

    /// The bytes to be read, as far as known before reading.
    pub fn bytes(&self) -> u64 {
        self.inputs.iter().filter_map(|input| input.bytes).sum()
    }

    /// The decompressed bytes of all inputs, estimated before reading. Names only decide how the work is
    /// divided; compression is detected by content.
    pub(crate) fn bytes_unpacked(&self) -> Option<u64> {
        let packed = [".gz", ".zst", ".xz", ".bz2"];
        let is_packed = |input: &Input| packed.iter().any(|ending| input.name.ends_with(ending));
        self.inputs.iter().map(|input| input.bytes.filter(|_| !is_packed(input))).sum()
    }

    /// Whether a path is in a directory of the run's own, which is noted once.
    fn skips(&mut self, path: &Path) -> bool {
        if self.own.is_empty() {
            return false;
        }
        let path = path.canonicalize().unwrap_or_default();
        let Some(own) = self.own.iter().find(|own| path.starts_with(own)) else { return false };
        let skipped = Skipped { name: own.display().to_string(), reason: OWN.into() };
        if !self.skipped.contains(&skipped) {
            self.skipped.push(skipped);
        }
        true
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
            return Err(HIDDEN.into());
        }
        let link = fs::symlink_metadata(path).map_err(|error| error.to_string())?;
        let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
        if metadata.is_dir() {
            if link.is_symlink() {
                return Err("a symbolic link to a directory".into());
            }
            if self.skips(path) {
                return Ok(());
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
    /// A regular file, identified by its content. Anything else that can be opened (a pipe) is a stream.
    pub fn file(path: &Path) -> Result<Input> {
        let metadata = fs::metadata(path).map_err(|error| cannot("read", path, error))?;
        if metadata.is_dir() {
            return Err(Error::invalid(format!("{} is a directory", path.display())));
        }
        let is_regular = metadata.is_file();
        let kind = if is_regular {
            Kind::File(path.to_owned())
        } else {
            Kind::Stream(Box::new(File::open(path).map_err(|error| cannot("open", path, error))?))
        };
        let bytes = is_regular.then_some(metadata.len());
        Ok(Input { name: path.display().to_string(), bytes, from_directory: false, kind })
    }

    /// A stream without identity: a later run cannot tell what was already read of it.
    pub fn stream(name: &str, reader: impl Read + Send + 'static) -> Input {
        let kind = Kind::Stream(Box::new(reader));
        Input { name: name.into(), bytes: None, from_directory: false, kind }
    }

    /// JSON lines that are the same whenever `identity` is the same; about `bytes` of them, if that
    /// is known.
    pub fn documents(
        name: &str,
        identity: &str,
        bytes: Option<u64>,
        reader: impl Read + Send + 'static,
    ) -> Input {
        let kind = Kind::Documents(identity.into(), Box::new(reader));
        Input { name: name.into(), bytes, from_directory: false, kind }
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of its position in the catalog, if it was given one: not for files and streams.
    pub fn identity(&self) -> Option<&str> {
        match &self.kind {
            Kind::Documents(identity, _) => Some(identity),
            _ => None,
        }
    }

    /// Its length as stored, where known.
    pub fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// Whether it was found in a directory and not named by the user.
    pub fn from_directory(&self) -> bool {
        self.from_directory
    }

    /// Opens it. Bytes as stored are counted into `bytes_read`. A stream that has no data for a moment
    /// answers [`io::ErrorKind::WouldBlock`], and after `cancel` it ends.
    pub(crate) fn open(self, bytes_read: &Arc<AtomicU64>, cancel: &Cancel) -> io::Result<Opened> {
        let bytes_read_too = Arc::clone(bytes_read);
        match self.kind {
            Kind::File(path) => Content::open(&path, bytes_read).map(Opened::File),
            Kind::Stream(stream) => {
                let inner = Pumped::new(stream, cancel.clone());
                Ok(Opened::Stream(Box::new(Counted { inner, bytes_read: bytes_read_too })))
            }
            Kind::Documents(identity, documents) => {
                let documents = Counted { inner: documents, bytes_read: bytes_read_too };
                Ok(Opened::Documents(identity, Box::new(documents)))
            }
        }
    }
}

/// The regular files that currently match the user's files, directories and patterns, and what is there but cannot be
/// read. A directory that cannot be listed now may be the next time.
pub(crate) fn files_of(own: &Own, arguments: &[PathBuf]) -> (Vec<PathBuf>, Vec<Skipped>) {
    let mut inputs = Inputs::default();
    for argument in arguments {
        inputs.own = own.beside(argument);
        for path in matches_of(argument) {
            let found = match fs::metadata(&path) {
                _ if inputs.skips(&path) => Ok(()),
                Ok(metadata) if metadata.is_dir() => inputs.walk(&path),
                Ok(metadata) if metadata.is_file() => {
                    Input::file(&path).map(|input| inputs.inputs.push(input))
                }
                _ => Ok(()),
            };
            if let Err(error) = found {
                inputs.skipped.push(Skipped { name: path.display().to_string(), reason: chain(&error) });
            }
        }
    }
    let paths = inputs.inputs.into_iter().filter_map(|input| match input.kind {
        Kind::File(path) => Some(path),
        _ => None,
    });
    inputs.skipped.retain(|skipped| skipped.reason != HIDDEN);
    (paths.collect(), inputs.skipped)
}

/// The paths that a pattern matches, or the argument itself if it is a path.
pub(crate) fn matches_of(argument: &Path) -> Vec<PathBuf> {
    let pattern = argument.to_str().filter(|_| is_pattern(argument) && !argument.exists());
    let Some(pattern) = pattern else { return vec![argument.to_owned()] };
    glob::glob(pattern).map_or_else(|_| vec![argument.to_owned()], |found| found.flatten().collect())
}

fn is_pattern(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.contains(['*', '?', '[']))
}

fn cannot(verb: &str, path: &Path, error: io::Error) -> Error {
    let what = format!("cannot {verb} {}", path.display());
    match error.kind() {
        io::ErrorKind::NotFound => Error::not_found(what).with_source(error),
        io::ErrorKind::PermissionDenied => Error::denied(what).with_source(error),
        _ => Error::invalid(what).with_source(error),
    }
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

/// Reads a stream in its own thread, so that a waiting reader can be cancelled. The thread
/// ends with the stream, after a cancel, or with the process if the stream never delivers anything again.
struct Pumped {
    pieces: mpsc::Receiver<io::Result<Vec<u8>>>,
    cancel: Cancel,
    stop: Arc<AtomicBool>,
    piece: io::Cursor<Vec<u8>>,
}

const PIECE_BYTES: usize = 256 << 10;
const PATIENCE: Duration = Duration::from_millis(100);

impl Pumped {
    fn new(mut stream: Box<dyn Read + Send>, cancel: Cancel) -> Self {
        let (sender, pieces) = mpsc::sync_channel(4);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
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
        Pumped { pieces, cancel, stop, piece: io::Cursor::default() }
    }
}

impl Read for Pumped {
    /// After a cancel everything that was already read is delivered, then the end.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.piece.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let is_cancelled = self.cancel.is_cancelled();
            self.stop.store(is_cancelled, Ordering::Relaxed);
            match self.pieces.recv_timeout(PATIENCE) {
                Ok(Ok(piece)) if piece.is_empty() => return Ok(0),
                Ok(piece) => self.piece = io::Cursor::new(piece?),
                Err(mpsc::RecvTimeoutError::Timeout) if is_cancelled => return Ok(0),
                Err(mpsc::RecvTimeoutError::Timeout) => return Err(io::ErrorKind::WouldBlock.into()),
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
            Kind::Documents(identity, _) => f.debug_tuple("Documents").field(identity).finish(),
        }
    }
}

#[cfg(test)]
mod tests;
