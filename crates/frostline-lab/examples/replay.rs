//! Replays logs of requests on volumes of the model, in virtual time, each request when it was made:
//! `cargo run -p frostline-lab --example replay -- st1:2TiB,gp3:2TiB merge.log search.log`. Prints a table in Markdown.

use std::error::Error;

use frostline_lab::stats::quantile;
use frostline_model::catalogue::Catalogue;
use frostline_model::{Balance, Io, Volume, VolumeSpec};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let volumes = arguments.next().ok_or("replay VOLUME[,VOLUME…] LOG…")?;
    let catalogue = Catalogue::latest();
    println!("| log | volume, bucket | recorded, s | done after, s | median, ms | p99, ms | most, ms |");
    println!("|---|---|--:|--:|--:|--:|--:|");
    for path in arguments {
        let log = std::fs::read_to_string(&path)?;
        let requests = log.lines().map(request).collect::<Result<Vec<_>, _>>()?;
        let name = path.rsplit('/').next().unwrap_or(&path);
        let recorded = requests.iter().map(|(at, _)| *at).fold(0.0, f64::max);
        for volume in volumes.split(',') {
            let spec = VolumeSpec::parse(&catalogue, volume)?;
            let bursts = spec.limits(&catalogue)?.bucket > 0.0;
            for balance in [Balance::Full, Balance::Empty].into_iter().take(if bursts { 2 } else { 1 }) {
                let mut served = Volume::new(&catalogue, &spec, balance, 1.0)?;
                let done: Vec<f64> = requests.iter().map(|(at, io)| served.admit(*at, *io)).collect();
                let waits: Vec<f64> =
                    done.iter().zip(&requests).map(|(done, (at, _))| (done - at) * 1e3).collect();
                let [median, p99, most] = [0.5, 0.99, 1.0].map(|part| quantile(&waits, part).unwrap_or(0.0));
                let bucket = if bursts { balance.to_string() } else { "none".to_owned() };
                let last = done.iter().copied().fold(0.0, f64::max);
                println!(
                    "| {name} | {volume}, {bucket} | {recorded:.1} | {last:.1} | {median:.1} | {p99:.0} | {most:.0} |"
                );
            }
        }
    }
    Ok(())
}

/// When it was made, in seconds, and what it is.
fn request(line: &str) -> Result<(f64, Io), Box<dyn Error>> {
    let fields = line.split(',').map(|field| field.trim().parse()).collect::<Result<Vec<u64>, _>>()?;
    let [ms, _, write, bytes, offset, ..] = fields[..] else {
        return Err(format!("not a request: {line}").into());
    };
    Ok((ms as f64 / 1e3, Io { write: write == 1, offset, bytes }))
}
