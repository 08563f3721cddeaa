//! The doctor alone, without the engine: `cargo run -p frostline-doctor --example doctor -- --help`.

use std::process::ExitCode;

use clap::Parser;
use frostline_doctor::cli::{self, Doctor};

#[derive(Debug, Parser)]
#[command(name = "doctor")]
struct Arguments {
    /// Print one JSON document.
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    doctor: Doctor,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match cli::run(&arguments.doctor, arguments.json, &mut std::io::stdout()) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("doctor: {error}");
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                eprintln!("  because: {cause}");
                source = cause.source();
            }
            ExitCode::FAILURE
        }
    }
}
