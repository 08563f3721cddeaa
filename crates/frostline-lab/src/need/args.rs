//! `lab need`: its arguments, and reading files.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use frostline_base::{Error, Result};

use super::{Derived, capture, chosen, cloudwatch, derive, fio_log, iostat};
use crate::host::io;

/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Derive the need of a volume in use, for `lab decide --need`.
#[derive(Args, Clone, Debug)]
pub struct NeedArgs {
    /// What the files are
    #[arg(long, value_enum)]
    pub from: From,
    /// Output of `iostat -dxt`, folders of `frostline doctor capture`, JSON of `aws cloudwatch`, or logs of fio
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Device or volume whose need is derived [default: the only one that has requests]
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// Requests follow each other; without it they count as random, unless a log has their places
    #[arg(long)]
    pub sequential: bool,
}

/// What counted the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum From {
    /// `iostat -dxt SECONDS`, as text or JSON
    Iostat,
    /// Captures by `frostline doctor`
    Capture,
    /// `aws cloudwatch get-metric-data` or `get-metric-statistics`: VolumeReadOps, VolumeWriteOps, VolumeReadBytes and VolumeWriteBytes, as sums
    CloudwatchExport,
    /// Logs of fio: one of every request, or `_bw` and `_iops` with `log_avg_msec`
    FioLog,
}

/// Derives the need of the files.
///
/// # Errors
/// NotFound for a file that there is not; Invalid, with file and place, for one that cannot be used.
pub fn run(args: &NeedArgs) -> Result<Derived> {
    // A file that is given twice would count twice: logs of concurrent jobs are added up.
    let resolved: Vec<_> = args.files.iter().map(|path| path.canonicalize()).collect();
    let is_again =
        |at: &usize| resolved[..*at].iter().flatten().any(|path| Some(path) == resolved[*at].as_ref().ok());
    if let Some(at) = (0..resolved.len()).find(is_again) {
        return Err(Error::invalid(format!("{} is given twice", args.files[at].display())));
    }
    let texts =
        || args.files.iter().map(|path| Ok((path.as_path(), read(path)?))).collect::<Result<Vec<_>>>();
    let traces = match args.from {
        From::Iostat => {
            let [path] = args.files.as_slice() else {
                return Err(Error::invalid("--from iostat takes one file; join parts in their order"));
            };
            iostat::read(&path.display().to_string(), &read(path)?)?
        }
        From::Capture => capture::read(&args.files)?,
        From::CloudwatchExport => cloudwatch::read(&texts()?)?,
        From::FioLog => vec![fio_log::read(&texts()?)?],
    };
    derive(&chosen(traces, args.device.as_deref())?, args.sequential)
}

/// A file's text, of at most [`FILE_BYTES_MAX`].
fn read(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|e| io(e, "cannot read", path))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(Error::exhausted(format!(
            "{} has more than {} MiB: give a part of it",
            path.display(),
            FILE_BYTES_MAX >> 20
        )));
    }
    String::from_utf8(bytes).map_err(|e| {
        Error::invalid(format!("{}: byte {} is not UTF-8", path.display(), e.utf8_error().valid_up_to() + 1))
    })
}
