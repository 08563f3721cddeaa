//! As little of PostgreSQL's protocol as a query needs, so that nothing else is measured.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use frostline_base::{Error, Result};

/// No message is longer.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Version 3.0 of the protocol.
const VERSION: u32 = 3 << 16;

/// A connection as the user `postgres` to the database of that name.
#[derive(Debug)]
pub(super) struct Connection<S = UnixStream>(S);

impl Connection {
    /// None while nobody accepts connections.
    pub(super) fn open(socket: &Path) -> Option<Connection> {
        let mut connection = Connection(UnixStream::connect(socket).ok()?);
        connection.begin().ok()?;
        Some(connection)
    }
}

impl<S: Read + Write> Connection<S> {
    fn begin(&mut self) -> Result<()> {
        let body = b"user\0postgres\0database\0postgres\0\0";
        let length = (body.len() as u32 + 8).to_be_bytes();
        self.send(&[&length, &VERSION.to_be_bytes(), body.as_slice()].concat())?;
        self.answer().map(drop)
    }

    /// Seconds until all rows of a statement are here, and how many.
    pub(super) fn query(&mut self, sql: &str) -> Result<(f64, u64)> {
        let since = Instant::now();
        let length = (sql.len() as u32 + 5).to_be_bytes();
        self.send(&[b"Q".as_slice(), &length, sql.as_bytes(), b"\0"].concat())?;
        let rows = self.answer()?;
        Ok((since.elapsed().as_secs_f64(), rows))
    }

    /// Seconds of a query of one row by its key.
    pub(super) fn point(&mut self, key: u64) -> Result<f64> {
        self.one(&format!("SELECT abalance FROM pgbench_accounts WHERE aid = {key}"))
    }

    /// Seconds of a query of all rows.
    pub(super) fn scan(&mut self) -> Result<f64> {
        self.one("SELECT count(*), sum(abalance) FROM pgbench_accounts")
    }

    fn one(&mut self, sql: &str) -> Result<f64> {
        match self.query(sql)? {
            (seconds, 1) => Ok(seconds),
            (_, rows) => Err(Error::corrupt(format!("{rows} rows answer {sql}"))),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write_all(bytes).map_err(ended)
    }

    /// Rows until the server is ready for the next statement.
    fn answer(&mut self) -> Result<u64> {
        let mut rows = 0;
        loop {
            let mut head = [0; 5];
            self.0.read_exact(&mut head).map_err(ended)?;
            let [kind, length @ ..] = head;
            let length = (u32::from_be_bytes(length) as usize).checked_sub(4);
            let length = length.filter(|length| *length <= MESSAGE_BYTES_MAX);
            let mut body =
                vec![0; length.ok_or_else(|| Error::corrupt("PostgreSQL sends what is no message"))?];
            self.0.read_exact(&mut body).map_err(ended)?;
            match kind {
                b'E' => {
                    let fields = body.split(|byte| *byte == 0);
                    let said = fields.filter_map(|field| field.strip_prefix(b"M")).next().unwrap_or_default();
                    let said = String::from_utf8_lossy(said);
                    return Err(Error::unavailable(format!("PostgreSQL answers: {said}")));
                }
                b'D' => rows += 1,
                b'Z' => return Ok(rows),
                _ => {}
            }
        }
    }
}

fn ended(error: std::io::Error) -> Error {
    Error::unavailable("PostgreSQL ended the connection").with_source(error)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// What a server says, whatever it is asked.
    struct Said(Cursor<Vec<u8>>);

    impl Read for Said {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Write for Said {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn said(bytes: &[&[u8]]) -> Result<u64> {
        Connection(Said(Cursor::new(bytes.concat()))).query("SELECT 1").map(|(_, rows)| rows)
    }

    #[test]
    fn rows_are_counted_until_the_server_is_ready() {
        let (row, ready) = (b"D\0\0\0\x05x".as_slice(), b"Z\0\0\0\x05I".as_slice());
        assert_eq!(said(&[b"T\0\0\0\x04", row, row, b"C\0\0\0\x04", ready]).unwrap(), 2);
        assert_eq!(said(&[ready]).unwrap(), 0);
        let refused = said(&[b"E\0\0\0\x14SFATAL\0Mno room\0\0"]).unwrap_err();
        assert!(refused.to_string().contains("no room"), "{refused}");
        for cut in [b"".as_slice(), b"D\0\0\0", b"D\0\0\0\x09x", b"D\0\0\0\x03", b"D\xff\xff\xff\xff"] {
            said(&[cut]).unwrap_err();
        }
    }
}
