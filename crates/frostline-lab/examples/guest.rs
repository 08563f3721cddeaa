//! The guest commands of the lab without the rest of the binary, for work on them:
//! `cargo run -p frostline-lab --example guest -- --data DIR image build`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use frostline_lab::guest::cli::{self, CellsArgs, ImageArgs};

/// Guests of the lab
#[derive(Parser)]
struct Arguments {
    /// Where images and ledgers are kept
    #[arg(long)]
    data: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Image(ImageArgs),
    Cells(CellsArgs),
}

fn main() -> ExitCode {
    let Arguments { data, json, command } = Arguments::parse();
    let begun = std::time::Instant::now();
    let mut progress = |line: &str| eprintln!("{:6.1} s  {line}", begun.elapsed().as_secs_f64());
    let mut out = std::io::stdout();
    let result = match &command {
        Command::Image(args) => cli::image(args, &data, json, &mut out, &mut progress),
        Command::Cells(args) => cli::cells(args, &data, json, &mut out, &mut progress),
    };
    let Err(error) = result else { return ExitCode::SUCCESS };
    eprintln!("guest: {error}");
    let mut source = std::error::Error::source(&error);
    while let Some(error) = source {
        eprintln!("  {error}");
        source = error.source();
    }
    ExitCode::FAILURE
}
