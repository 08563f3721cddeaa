//! The little of PostgreSQL's `global/pg_control` that tells how large its files are, and where its log is read from.
//!
//! It only decides what is fetched first: what cannot be read is taken for usual.

/// What the control file of a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    pub(crate) sizes: Sizes,
    log: Option<LogStart>,
}

/// How a relation is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) block_bytes: u64,
    /// A relation is in files of so many blocks.
    pub(crate) file_blocks: u64,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes { block_bytes: 8 << 10, file_blocks: 1 << 17 }
    }
}

/// Where a server that starts begins to read its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LogStart {
    /// The number of the file, and how many files have the same first half of their number.
    file: u64,
    files_per_half: u64,
    /// Whether nothing was logged after.
    is_end: bool,
}

impl Control {
    /// Reads the file; `None` if it is none that is known.
    pub(crate) fn read(bytes: &[u8]) -> Option<Control> {
        // The server itself tells by this number whether it reads a file of its kind of machine. The sizes follow it.
        const NUMBER: f64 = 1_234_567.0;
        /// Where it is in no version.
        const TOO_FAR: usize = 512;
        let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let (words, _) = bytes[..bytes.len().min(TOO_FAR)].as_chunks::<8>();
        let at = words.iter().position(|word| f64::from_le_bytes(*word) == NUMBER)? * 8 + 8;
        let [block_bytes, file_blocks, _, log_bytes] =
            [number(at)?, number(at + 4)?, number(at + 8)?, number(at + 12)?].map(u64::from);
        let is_possible = block_bytes.is_power_of_two() && (1 << 10..=32 << 10).contains(&block_bytes);
        if !is_possible || file_blocks == 0 {
            return None;
        }
        let log = log_start(bytes, log_bytes);
        Some(Control { sizes: Sizes { block_bytes, file_blocks }, log })
    }

    /// Whether a server that starts reads this file of its log. One that ended well reads that of its last checkpoint, and
    /// goes on in the next one.
    pub(crate) fn needs_log(&self, name: &[u8]) -> bool {
        let Some(start) = &self.log else { return true };
        let number = |digits: Option<&[u8]>| {
            let digits = std::str::from_utf8(digits?).ok()?;
            u32::from_str_radix(digits, 16).ok().map(u64::from)
        };
        let is_file = name.len() == 24 && name.iter().all(u8::is_ascii_hexdigit);
        let halves = number(name.get(8..16)).zip(number(name.get(16..24)));
        let Some((first, second)) = halves.filter(|_| is_file) else { return true };
        let file = first * start.files_per_half + second;
        file >= start.file && (!start.is_end || file <= start.file + 1)
    }
}

fn log_start(bytes: &[u8], log_bytes: u64) -> Option<LogStart> {
    /// Those before had another field in front.
    const VERSION_FIRST: u32 = 1_100;
    const VERSION_AT: usize = 8;
    const STATE_AT: usize = 16;
    const REDO_AT: usize = 40;
    const SHUT_DOWN: u32 = 1;
    let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let redo = u64::from_le_bytes(bytes.get(REDO_AT..REDO_AT + 8)?.try_into().ok()?);
    let is_possible = log_bytes.is_power_of_two() && (1 << 20..=1 << 30).contains(&log_bytes);
    if !is_possible || number(VERSION_AT)? < VERSION_FIRST {
        return None;
    }
    let is_end = number(STATE_AT)? == SHUT_DOWN;
    Some(LogStart { file: redo / log_bytes, files_per_half: (1 << 32) / log_bytes, is_end })
}

#[cfg(test)]
pub(crate) mod tests;
