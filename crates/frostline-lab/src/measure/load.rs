//! What is asked of a volume: the requests of a kind of program, as arguments of fio.

use std::collections::BTreeMap;

use clap::ValueEnum;
use frostline_base::Result;
use serde::{Deserialize, Serialize};

use crate::workload;

/// Requests that are outstanding at most: enough for the limits of every class of cloud volume at its latency.
pub const OUTSTANDING: u32 = 64;
/// The name of the file that is read and written, in the folder that fio is run in.
pub const DATA: &str = "data";

/// Whose requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// Random pages of 8 KiB, 70 % reads
    Postgres,
    /// Random requests of 128 KiB, 75 % reads: searching while merging, as in the study warm-tier
    Elasticsearch,
    /// Random regions of 64 KiB, 90 % reads
    FrostlineCache,
    /// Appending 64 KiB at a time, with an fdatasync every 1 MiB
    Log,
}

impl Load {
    /// Bytes of a request.
    pub fn block_bytes(self) -> u64 {
        match self {
            Load::Postgres => 8 << 10,
            Load::Elasticsearch => 128 << 10,
            Load::FrostlineCache | Load::Log => 64 << 10,
        }
    }

    /// Percent of requests that read.
    pub fn read_percent(self) -> f64 {
        match self {
            Load::Postgres => 70.0,
            Load::Elasticsearch => 75.0,
            Load::FrostlineCache => 90.0,
            Load::Log => 0.0,
        }
    }

    /// Whether places are random.
    pub fn is_random(self) -> bool {
        self != Load::Log
    }

    /// In words.
    pub fn words(self) -> String {
        let kib = self.block_bytes() >> 10;
        match self {
            Load::Log => format!("appending {kib} KiB at a time, fdatasync every 1 MiB"),
            _ => format!("random requests of {kib} KiB, {} % reads", self.read_percent()),
        }
    }

    /// fio's words to lay out the file, all of which the workload then reads and writes.
    ///
    /// # Errors
    /// Internal: the templates are ours.
    pub fn layout(self, data_mib: u64) -> Result<Vec<String>> {
        let line = "--name=layout --thread --filename={file} --size={data_mib}m --rw=write --bs=1m --ioengine=libaio --iodepth=8 \
                    --direct=1 --fallocate=none --end_fsync=1 --refill_buffers";
        filled(line, data_mib, 0)
    }

    /// fio's words to keep [`OUTSTANDING`] requests outstanding for `seconds`, or to append `iops` times a second: an appender
    /// waits for its `fdatasync` anyway.
    ///
    /// # Errors
    /// Internal: the templates are ours.
    pub fn step(self, data_mib: u64, seed: u64, seconds: f64, iops: Option<f64>) -> Result<Vec<String>> {
        let mut words = self.job(data_mib, seed)?;
        words.push(format!("--runtime={}", seconds.ceil()));
        // fio takes 0 as no limit.
        words.extend(iops.map(|iops| format!("--rate_iops={}", iops.round().max(1.0))));
        Ok(words)
    }

    /// fio's words to keep [`OUTSTANDING`] requests outstanding for `seconds`, printing what was done every second.
    ///
    /// # Errors
    /// Internal: the templates are ours.
    pub fn watch(self, data_mib: u64, seed: u64, seconds: f64) -> Result<Vec<String>> {
        let mut words = self.job(data_mib, seed)?;
        words.extend([format!("--runtime={}", seconds.ceil()), "--status-interval=1".to_owned()]);
        Ok(words)
    }

    fn job(self, data_mib: u64, seed: u64) -> Result<Vec<String>> {
        // A file that is gone must not come back on the file system below its mount. A thread, since fio gives a process
        // of a job a session of its own, in which it would survive being ended.
        let line = "--name=measure --thread --filename={file} --size={data_mib}m --ioengine=libaio --direct=1 --iodepth={outstanding} \
                    --time_based --allow_file_create=0 --fallocate=none --refill_buffers --randseed={seed} --eta=never";
        let mut words = filled(line, data_mib, seed)?;
        words.push(format!("--bs={}k", self.block_bytes() >> 10));
        match self {
            Load::Log => words.extend(["--rw=write".to_owned(), "--fdatasync=16".to_owned()]),
            _ => words.extend(["--rw=randrw".to_owned(), format!("--rwmixread={}", self.read_percent())]),
        }
        Ok(words)
    }
}

fn filled(template: &str, data_mib: u64, seed: u64) -> Result<Vec<String>> {
    let values = [
        ("file", DATA.to_owned()),
        ("data_mib", data_mib.to_string()),
        ("outstanding", OUTSTANDING.to_string()),
        // fio takes a positive 32-bit number.
        ("seed", (seed % (1 << 31)).to_string()),
    ];
    let values: BTreeMap<String, String> = values.map(|(name, value)| (name.to_owned(), value)).into();
    workload::arguments("fio", template, &values)
}

#[cfg(test)]
mod tests;
