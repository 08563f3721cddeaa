//! The history of a git clone as JSON lines, a document for each commit and file, streamed from a running
//! `git log`.
//!
//! Fields: `@timestamp` and `date` (the author's date, in UTC and as written), `commit`, `author`,
//! `email`, `subject`, `path`, `added`, `deleted`, and `binary` for files whose lines git does not count. A commit that
//! changes no file is one document without `path`.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use frostline_base::{Error, Result};

use jiff::Timestamp;
use serde_json::{Map, Number, Value};

/// Marks the lines that start a commit. No path that git prints begins with it, because git quotes
/// control characters.
const COMMIT: u8 = 0x1e;
const FORMAT: &str = "--format=%x1e%H%x1f%aI%x1f%an%x1f%ae%x1f%s";

/// Reads the history of a clone as JSON lines.
#[derive(Debug)]
pub struct GitLog {
    process: Child,
    lines: BufReader<ChildStdout>,
    line: Vec<u8>,
    commit: Option<Commit>,
    ready: Vec<u8>,
    taken: usize,
}

#[derive(Debug)]
struct Commit {
    /// Commit, date, author, e-mail address, subject.
    parts: [String; 5],
    has_files: bool,
}

impl GitLog {
    /// The commit that is checked out.
    pub fn head(clone: &Path) -> Result<String> {
        let output = git(clone, &["rev-parse", "--verify", "HEAD"]).stdin(Stdio::null()).output();
        let output = output.map_err(|error| Error::not_found("cannot run git").with_source(error))?;
        let head = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !output.status.success() || head.is_empty() {
            return Err(Error::invalid(format!("{} is not a git clone with a commit", clone.display())));
        }
        Ok(head)
    }

    /// Starts `git log` in the clone.
    pub fn open(clone: &Path) -> Result<GitLog> {
        let options =
            ["log", "--numstat", "--no-renames", "--no-textconv", "--no-ext-diff", "--no-color", FORMAT];
        let mut command = git(clone, &options);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process =
            command.spawn().map_err(|error| Error::not_found("cannot run git").with_source(error))?;
        let output = process.stdout.take().ok_or_else(|| Error::internal("git has no output"))?;
        let lines = BufReader::with_capacity(64 << 10, output);
        Ok(GitLog { process, lines, line: Vec::new(), commit: None, ready: Vec::new(), taken: 0 })
    }

    /// Reads one line of git's output; `false` at the end.
    fn advance(&mut self) -> io::Result<bool> {
        self.line.clear();
        if self.lines.read_until(b'\n', &mut self.line)? == 0 {
            self.finish_commit();
            return self.ended().map(|()| false);
        }
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let line = String::from_utf8_lossy(line).into_owned();
        match line.as_bytes() {
            [] => {}
            [COMMIT, ..] => {
                self.finish_commit();
                self.commit = Commit::of(&line[1..]);
            }
            _ => self.file(&line),
        }
        Ok(true)
    }

    fn file(&mut self, line: &str) {
        let Some(commit) = &mut self.commit else { return };
        commit.has_files = true;
        let mut parts = line.splitn(3, '\t');
        if let (Some(added), Some(deleted), Some(path)) = (parts.next(), parts.next(), parts.next()) {
            commit.write(Some((added, deleted, path)), &mut self.ready);
        }
    }

    fn finish_commit(&mut self) {
        if let Some(commit) = self.commit.take().filter(|commit| !commit.has_files) {
            commit.write(None, &mut self.ready);
        }
    }

    fn ended(&mut self) -> io::Result<()> {
        let status = self.process.wait()?;
        if status.success() { Ok(()) } else { Err(io::Error::other(format!("git log failed: {status}"))) }
    }
}

impl Commit {
    fn of(line: &str) -> Option<Commit> {
        let mut parts = line.splitn(5, '\u{1f}').map(str::to_owned);
        let mut part = || parts.next();
        Some(Commit { parts: [part()?, part()?, part()?, part()?, part()?], has_files: false })
    }

    fn write(&self, file: Option<(&str, &str, &str)>, out: &mut Vec<u8>) {
        let [commit, date, author, email, subject] = &self.parts;
        let mut object = Map::new();
        if let Ok(time) = date.parse::<Timestamp>() {
            object.insert("@timestamp".into(), format!("{time:.3}").into());
        }
        for (key, value) in
            [("date", date), ("commit", commit), ("author", author), ("email", email), ("subject", subject)]
        {
            object.insert(key.into(), value.as_str().into());
        }
        if let Some((added, deleted, path)) = file {
            object.insert("path".into(), unquoted(path).into());
            for (key, count) in [("added", added), ("deleted", deleted)] {
                if let Ok(count) = count.parse::<Number>() {
                    object.insert(key.into(), Value::Number(count));
                }
            }
            if added == "-" {
                object.insert("binary".into(), true.into());
            }
        }
        out.extend_from_slice(Value::Object(object).to_string().as_bytes());
        out.push(b'\n');
    }
}

impl Read for GitLog {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.ready.len() {
            self.ready.clear();
            self.taken = 0;
            if !self.advance()? && self.ready.is_empty() {
                return Ok(0);
            }
        }
        let count = buffer.len().min(self.ready.len() - self.taken);
        buffer[..count].copy_from_slice(&self.ready[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

impl Drop for GitLog {
    fn drop(&mut self) {
        // Kill the process in case it has not ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn git(clone: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(clone).args(["--no-pager", "-c", "core.quotePath=false"]).args(arguments);
    command
}

/// Paths with quotes, backslashes or control characters come in quotes, escaped as in C.
fn unquoted(path: &str) -> String {
    let Some(inner) = path.strip_prefix('"').and_then(|path| path.strip_suffix('"')) else {
        return path.to_owned();
    };
    let mut plain = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((before, escaped)) = rest.split_once('\\') {
        plain.push_str(before);
        let octal = escaped.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        let mut characters = escaped.chars();
        match (octal, characters.next()) {
            (Some(byte), _) => plain.push(char::from(byte)),
            (None, Some('t')) => plain.push('\t'),
            (None, Some('n')) => plain.push('\n'),
            (None, Some(c)) => plain.push(c),
            (None, None) => {}
        }
        rest = if octal.is_some() { &escaped[3..] } else { characters.as_str() };
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests;
