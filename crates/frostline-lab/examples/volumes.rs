//! Runs a command on emulated volumes and prints their accounts:
//!
//! ```text
//! volumes --volume st1:2TiB --count 4 --start empty -- sh -c 'fio --filename=$(echo $VOLUMES | tr " " :) …'
//! ```
//!
//! The devices are in `$VOLUMES`, with spaces between them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use frostline_base::{Error, Result};
use frostline_lab::emulate::{self, Daemon, Emulated, Lazy, Machine, Model, Options, Setup, Stripe};
use frostline_lab::host::ledger::Ledger;
use frostline_model::catalogue::Catalogue;
use frostline_model::{Balance, VolumeSpec};

#[derive(Parser)]
struct Arguments {
    /// Such as st1:2TiB; without it, as fast as the host.
    #[arg(long)]
    volume: Option<String>,
    /// Volumes of one daemon.
    #[arg(long, default_value_t = 1)]
    count: usize,
    /// Makes one device a stripe of so many volumes.
    #[arg(long)]
    stripe: Option<usize>,
    /// KiB that stay on one volume of the stripe.
    #[arg(long, default_value_t = 1024)]
    chunk_kib: u64,
    /// Size of each device.
    #[arg(long, default_value_t = 64)]
    gib: u64,
    /// Bucket at first: full, empty or credits.
    #[arg(long, default_value = "full")]
    start: Balance,
    /// Divides the bucket.
    #[arg(long, default_value_t = 1.0)]
    time_scale: f64,
    /// Machine whose cap holds, such as r7g.xlarge.
    #[arg(long)]
    machine: Option<String>,
    /// MiB/s at which first touches of 512 KiB blocks load.
    #[arg(long)]
    lazy_mib_per_s: Option<f64>,
    /// Milliseconds from such a touch to the first byte.
    #[arg(long, default_value_t = 10.0)]
    first_touch_ms: f64,
    /// Milliseconds of a FLUSH.
    #[arg(long, default_value_t = 0.0)]
    flush_ms: f64,
    /// Where the backing files grow.
    #[arg(long, default_value = "/var/tmp/frostline-volumes")]
    folder: PathBuf,
    /// What to run.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == "serve-volume") {
        return emulate::serve(&PathBuf::from(arguments.next().unwrap_or_default()));
    }
    run(&Arguments::parse())
}

fn run(arguments: &Arguments) -> Result<()> {
    let catalogue = Catalogue::latest();
    let mut volume = Options::new(arguments.gib << 30);
    volume.stripe = arguments.stripe.map(|count| Stripe { count, chunk_bytes: arguments.chunk_kib << 10 });
    volume.flush_ms = arguments.flush_ms;
    volume.lazy = arguments.lazy_mib_per_s.map(|mib_per_s| Lazy {
        block_bytes: 512 << 10,
        first_touch_ms: arguments.first_touch_ms,
        mib_per_s,
    });
    if let Some(text) = &arguments.volume {
        let model = Model::new(&catalogue, &VolumeSpec::parse(&catalogue, text)?)?;
        volume.model = Some(Model { start: arguments.start, time_scale: arguments.time_scale, ..model });
    }
    let machine = arguments.machine.clone().map(|name| Machine {
        catalogue: catalogue.name.clone(),
        name,
        time_scale: arguments.time_scale,
    });
    let program = std::env::current_exe().map_err(|e| Error::unavailable("no path").with_source(e))?;
    let daemon = Daemon { program, arguments: vec!["serve-volume".into()] };
    let setup = Setup { volumes: vec![volume; arguments.count], machine, daemon };

    let mut ledger = Ledger::open(&arguments.folder.join("live"))?;
    let emulated = Emulated::attach_all(&mut ledger, &arguments.folder, &setup)?;
    let devices: Vec<_> = emulated.devices().iter().map(|device| device.display().to_string()).collect();
    let status = ledger
        .command(&arguments.command[0])
        .args(&arguments.command[1..])
        .env("VOLUMES", devices.join(" "))
        .status()
        .map_err(|e| Error::unavailable("cannot run the command").with_source(e))?;
    for account in emulated.accounts()? {
        println!("{account:?}");
    }
    emulated.detach(&mut ledger)?;
    ledger.close()?;
    if status.success() { Ok(()) } else { Err(Error::unavailable(format!("the command: {status}"))) }
}
