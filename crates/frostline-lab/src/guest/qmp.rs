//! The part of QEMU's control protocol (QMP) that the lab needs: to change the limits of a disk while the guest runs,
//! and to
//! stop and continue the guest.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use frostline_base::{Error, Result};
use serde_json::{Value, json};

/// How long QEMU may take to answer; it does so between two requests of the guest.
const ANSWER: Duration = Duration::from_secs(30);

/// A connection that has said hello.
#[derive(Debug)]
pub struct Control {
    reader: BufReader<UnixStream>,
}

impl Control {
    /// Greets QEMU at the other end of `stream`.
    pub fn new(stream: UnixStream) -> Result<Control> {
        stream.set_read_timeout(Some(ANSWER)).map_err(lost)?;
        let mut control = Control { reader: BufReader::new(stream) };
        let greeting = control.message()?;
        if greeting.get("QMP").is_none() {
            return Err(Error::corrupt(format!("QEMU greets with {greeting}")));
        }
        control.execute("qmp_capabilities", json!({}))?;
        Ok(control)
    }

    /// Runs one command and returns what it returns.
    ///
    /// # Errors
    ///
    /// `Invalid` with QEMU's words if it refuses; `Unavailable` if it is gone.
    pub fn execute(&mut self, command: &str, arguments: Value) -> Result<Value> {
        let line = format!("{}\n", json!({"execute": command, "arguments": arguments}));
        self.reader.get_mut().write_all(line.as_bytes()).map_err(lost)?;
        loop {
            let message = self.message()?;
            if let Some(error) = message.get("error") {
                let said = error["desc"].as_str().unwrap_or_default();
                return Err(Error::invalid(format!("QEMU refuses {command}: {said}")));
            }
            // Events come in between.
            if let Some(value) = message.get("return") {
                return Ok(value.clone());
            }
        }
    }

    fn message(&mut self) -> Result<Value> {
        let mut line = String::new();
        if self.reader.read_line(&mut line).map_err(lost)? == 0 {
            return Err(Error::unavailable("QEMU closed its control socket"));
        }
        serde_json::from_str(&line).map_err(|e| Error::corrupt("QEMU sent no JSON").with_source(e))
    }
}

fn lost(error: std::io::Error) -> Error {
    Error::unavailable("QEMU does not answer on its control socket").with_source(error)
}

#[cfg(test)]
mod tests;
