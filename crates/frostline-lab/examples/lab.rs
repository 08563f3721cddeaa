//! The lab without the engine: `cargo run -p frostline-lab --example lab -- run warm-tier --simulate --json`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use frostline_lab::cli::{self, Context, Lab};

#[derive(Parser)]
#[command(name = "lab")]
struct Arguments {
    /// Where runs, images and ledgers are
    #[arg(long, env = "FROSTLINE_DATA", default_value = "frostline-lab-data", global = true)]
    data: PathBuf,
    /// Answer with one JSON document
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Lab,
}

fn main() -> ExitCode {
    // The lab starts itself as `lab serve-volume …`, as the binary `frostline` takes it.
    let words = std::env::args_os().enumerate().filter(|(at, word)| *at != 1 || word != "lab");
    let arguments = Arguments::parse_from(words.map(|(_, word)| word));
    let context = Context { data: arguments.data, json: arguments.json };
    match cli::run(arguments.command, &context) {
        Ok(outcome) => {
            print!("{}", outcome.stdout);
            ExitCode::from(if outcome.partial { 3 } else { 0 })
        }
        Err(error) => {
            eprintln!("lab: {error:?}");
            ExitCode::FAILURE
        }
    }
}
