//! Talking to a PostgreSQL through `psql`, its client.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Deserialize;

use frostline_base::{Error, Result};

/// `psql`, one statement and one line of answer at a time.
#[derive(Debug)]
pub(super) struct Session {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Session {
    pub(super) fn open(conninfo: &str) -> Result<Session> {
        let mut psql = Command::new("psql");
        psql.args(["-X", "-q", "-A", "-t", "-w", "-v", "ON_ERROR_STOP=1", "-d", conninfo]);
        psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = psql.spawn().map_err(|e| {
            Error::refused(format!("cannot run psql, PostgreSQL's client, which --postgres needs: {e}"))
        })?;
        let no_pipe = || Error::internal("a process has no pipe");
        let (to, from) = (child.stdin.take(), child.stdout.take().ok_or_else(no_pipe)?);
        Ok(Session { child, to, from: BufReader::new(from) })
    }

    /// Sends a statement without an answer.
    pub(super) fn tell(&mut self, sql: &str) -> Result<()> {
        let sent = match &mut self.to {
            Some(to) => writeln!(to, "{sql}").and_then(|()| to.flush()),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        };
        sent.map_err(|_| self.failure())
    }

    /// The one line that a statement answers, which is JSON.
    pub(super) fn ask<T: for<'a> Deserialize<'a>>(&mut self, sql: &str) -> Result<T> {
        self.tell(sql)?;
        parse(&self.line()?)
    }

    /// All lines that a statement answers, each of which is JSON.
    pub(super) fn rows<T: for<'a> Deserialize<'a>>(&mut self, sql: &str) -> Result<Vec<T>> {
        /// No JSON.
        const END: &str = ".";
        self.tell(sql)?;
        self.tell(&format!("\\echo {END}"))?;
        let mut rows = Vec::new();
        loop {
            match self.line()? {
                line if line.trim() == END => return Ok(rows),
                line => rows.push(parse(&line)?),
            }
        }
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.from.read_line(&mut line) {
            Ok(bytes) if bytes > 0 => Ok(line),
            _ => Err(self.failure()),
        }
    }

    /// Why it ended.
    fn failure(&mut self) -> Error {
        self.to = None;
        let mut text = String::new();
        if let Some(errors) = &mut self.child.stderr {
            // Without its message there is still the failure.
            let _ = errors.take(4_096).read_to_string(&mut text);
        }
        // The server's answer to a statement begins differently.
        Error::invalid(match text.trim().strip_prefix("psql: error: ") {
            Some(text) => format!("cannot connect to PostgreSQL: {text}"),
            None => format!("PostgreSQL refused the backup: {}", text.trim()),
        })
    }
}

fn parse<T: for<'a> Deserialize<'a>>(line: &str) -> Result<T> {
    serde_json::from_str(line).map_err(|e| {
        Error::internal("psql answers in an unknown form").with("line", line.trim()).with_source(e)
    })
}

impl Drop for Session {
    fn drop(&mut self) {
        // The server ends the backup, and drops the slot, when the session does.
        self.to = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A position in the log, such as `16/B374D848`.
pub(super) fn position(text: &str) -> Option<u64> {
    let (high, low) = text.split_once('/')?;
    let number = |text| u32::from_str_radix(text, 16).ok().map(u64::from);
    Some(number(high)? << 32 | number(low)?)
}
