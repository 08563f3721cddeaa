//! `lab place` by itself: `cargo run -p frostline-lab --example place -- --vms 20x2`, `--json` for the document.

use clap::Parser;
use frostline_lab::place;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    place: place::PlaceArgs,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

fn main() {
    let arguments = Arguments::parse();
    if let Err(error) = place::run(&arguments.place, arguments.json) {
        let mut cause: Option<&dyn std::error::Error> = Some(&error);
        while let Some(error) = cause {
            eprintln!("{error}");
            cause = error.source();
        }
        std::process::exit(1);
    }
}
