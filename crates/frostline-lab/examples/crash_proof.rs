//! `crash_proof --fs ext4 --options nobarrier --cuts 100`: see `frostline_lab::crash`.

use std::path::PathBuf;

use clap::Parser;
use frostline_base::{Error, Result};
use frostline_lab::crash::{self, CrashArgs};
use frostline_lab::emulate::{self, Daemon};
use frostline_lab::host::ledger::Ledger;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    crash: CrashArgs,
    /// Prints one JSON document.
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == "serve-volume") {
        return emulate::serve(&PathBuf::from(arguments.next().unwrap_or_default()));
    }
    let arguments = Arguments::parse();
    let program = std::env::current_exe().map_err(|e| Error::unavailable("no path").with_source(e))?;
    let daemon = Daemon { program, arguments: vec!["serve-volume".into()] };
    let mut ledger = Ledger::open(&std::env::temp_dir().join("frostline-lab/live"))?;
    crash::run(&arguments.crash, &mut ledger, &daemon, arguments.json)?;
    ledger.close()
}
