//! The protocol between the owner of a guest and the agent inside.
//!
//! A request is a line `RUN <id> <seconds> <bytes>` and a script of that many bytes. The agent first sends
//! `READY <version>`, and answers each request with a line `DONE <id> <status> <bytes> <bytes>`, followed by
//! the standard output and the standard error. Lengths come first, so output may contain anything.

use frostline_base::{Error, Result};

/// Version of the agent that this owner talks to.
pub const VERSION: u32 = 1;

/// The longest line of the agent; a longer one is not from it.
const LINE_BYTES_MAX: usize = 128;
/// The most that one script may print, for the owner keeps it in memory.
const OUTPUT_BYTES_MAX: usize = 256 << 20;

/// What the agent says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The guest is up, with an agent of this version.
    Ready(u32),
    /// A script has ended.
    Done(Answer),
}

/// The end of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// That of the request.
    pub id: u64,
    /// Exit status; 124 or 137 if it ran out of time.
    pub status: i32,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// What it complained.
    pub stderr: Vec<u8>,
}

/// The bytes that ask the agent to run `script` for at most `seconds`.
pub fn request(id: u64, seconds: u64, script: &[u8]) -> Vec<u8> {
    let mut bytes = format!("RUN {id} {seconds} {}\n", script.len()).into_bytes();
    bytes.extend_from_slice(script);
    bytes
}

/// Puts messages together from bytes as they arrive.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
}

impl Decoder {
    /// Adds what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message, if there is one.
    ///
    /// # Errors
    ///
    /// `Corrupt` if the bytes are not the agent's; nothing can be read after that.
    pub fn message(&mut self) -> Result<Option<Message>> {
        let Some(end) = self.bytes.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n') else {
            return if self.bytes.len() < LINE_BYTES_MAX { Ok(None) } else { Err(self.foreign()) };
        };
        let line = std::str::from_utf8(&self.bytes[..end]).map_err(|_| self.foreign())?;
        let words: Vec<&str> = line.split(' ').collect();
        let (message, used) = match words.as_slice() {
            ["READY", version] => (Message::Ready(version.parse().map_err(|_| self.foreign())?), end + 1),
            ["DONE", id, status, out, err] => {
                let numbers = id.parse::<u64>().ok().zip(status.parse::<i32>().ok());
                let lengths = out.parse::<usize>().ok().zip(err.parse::<usize>().ok());
                let (Some((id, status)), Some((out, err))) = (numbers, lengths) else {
                    return Err(self.foreign());
                };
                if out > OUTPUT_BYTES_MAX || err > OUTPUT_BYTES_MAX {
                    return Err(Error::exhausted(format!(
                        "a script in the guest printed {} bytes",
                        out.max(err)
                    )));
                }
                let rest = &self.bytes[end + 1..];
                if rest.len() < out + err {
                    return Ok(None);
                }
                let (stdout, stderr) = (rest[..out].to_vec(), rest[out..out + err].to_vec());
                (Message::Done(Answer { id, status, stdout, stderr }), end + 1 + out + err)
            }
            _ => return Err(self.foreign()),
        };
        self.bytes.drain(..used);
        Ok(Some(message))
    }

    fn foreign(&self) -> Error {
        let shown = &self.bytes[..self.bytes.len().min(40)];
        Error::corrupt(format!("the guest's agent sent `{}`", shown.escape_ascii()))
    }
}

#[cfg(test)]
mod tests;
