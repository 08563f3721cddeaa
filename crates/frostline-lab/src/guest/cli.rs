//! `lab image` and `lab guest`: what a user types about guests.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use frostline_base::{Error, Result};
use serde_json::{Value, json};

use super::cells::{self, Plan, Results, median};
use super::{Accel, Image, Recipe};
use crate::host::ledger::Ledger;

/// Build, list and remove the images that guests boot.
#[derive(Debug, Args)]
pub struct ImageArgs {
    #[command(subcommand)]
    command: ImageCommand,
}

#[derive(Debug, Subcommand)]
enum ImageCommand {
    /// Build an image from Debian packages, unless it is there already
    Build {
        /// The recipe: `bookworm` (Linux 6.1, OpenZFS 2.1), `bookworm-backports` (both newer) or `bookworm-plain` (no OpenZFS)
        #[arg(default_value = "bookworm")]
        recipe: String,
    },
    /// List the images that were built
    List,
    /// Remove an image, by the name of its recipe or by its key
    Remove {
        /// The recipe or the key
        image: String,
    },
}

/// Measure the storage stacks that need a guest: OpenZFS, md and LVM beside ext4.
#[derive(Debug, Args)]
pub struct CellsArgs {
    /// The recipe of the image
    #[arg(long, default_value = "bookworm")]
    image: String,
    /// Folder for results and what every tool printed
    #[arg(long)]
    out: PathBuf,
    /// How often every cell is measured, in interleaved blocks
    #[arg(long, default_value_t = 3)]
    blocks: u32,
    /// Seconds that each sample measures
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// MB/s of the one large disk (10^6 bytes); each of the four has a quarter
    #[arg(long, default_value_t = cells::ONE_BPS / 1_000_000)]
    mb_per_s: u64,
    /// Seed of the orders and of fio's offsets
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only cells whose name begins with this; may be repeated
    #[arg(long)]
    only: Vec<String>,
}

/// Where images are kept below the data folder.
pub fn images_folder(data: &Path) -> PathBuf {
    data.join("lab/images")
}

fn live_folder(data: &Path) -> PathBuf {
    data.join("lab/live")
}

/// Runs `lab image …`. With `json`, one document on `out`; progress goes to `progress`.
pub fn image(
    args: &ImageArgs,
    data: &Path,
    json: bool,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(&str),
) -> Result<()> {
    let folder = images_folder(data);
    let images = match &args.command {
        ImageCommand::Build { recipe } => {
            let mut ledger = Ledger::open(&live_folder(data))?;
            let built = Image::build(&mut ledger, &folder, &Recipe::named(recipe)?, progress);
            ledger.close()?;
            vec![built?]
        }
        ImageCommand::List => Image::list(&folder),
        ImageCommand::Remove { image } => {
            let of_name = |known: &Image| known.manifest().recipe.name == *image || key(known) == image;
            let (found, _): (Vec<_>, Vec<_>) = Image::list(&folder).into_iter().partition(of_name);
            if found.is_empty() {
                return Err(Error::not_found(format!(
                    "no image `{image}` was built; see `frostline lab image list`"
                )));
            }
            for image in &found {
                image.clone().remove()?;
            }
            found
        }
    };
    let shown = if json {
        let all: Vec<Value> =
            images.iter().map(|i| json!({"key": key(i), "manifest": i.manifest()})).collect();
        format!("{}\n", json!({"images": all}))
    } else {
        images.iter().map(line).collect()
    };
    out.write_all(shown.as_bytes()).map_err(|e| Error::unavailable("cannot print").with_source(e))
}

fn key(image: &Image) -> &str {
    image.folder().file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn line(image: &Image) -> String {
    let manifest = image.manifest();
    format!(
        "{} {}: Linux {}, OpenZFS {}, {} packages, {} MiB, built in {:.0} s (of it {:.0} s for the kernel's part)\n",
        key(image),
        manifest.recipe.name,
        manifest.kernel,
        manifest.zfs.as_deref().unwrap_or("none"),
        manifest.packages.len(),
        manifest.bytes >> 20,
        manifest.kernel_seconds + manifest.root_seconds,
        manifest.kernel_seconds
    )
}

/// Runs the cells that need a guest, building the image first if need be.
pub fn cells(
    args: &CellsArgs,
    data: &Path,
    json: bool,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(&str),
) -> Result<()> {
    let mut ledger = Ledger::open(&live_folder(data))?;
    let result = Image::build(&mut ledger, &images_folder(data), &Recipe::named(&args.image)?, progress)
        .and_then(|image| {
            let accel = Accel::probe(&ledger, &image)?;
            progress(&format!("{}: {}", accel.name(), accel.why));
            let plan = Plan {
                blocks: args.blocks,
                seconds: args.seconds,
                one_bps: args.mb_per_s * 1_000_000,
                seed: args.seed,
                only: args.only.clone(),
            };
            cells::run(&mut ledger, &image, accel, &plan, &args.out, progress)
        });
    ledger.close()?;
    let results = result?;
    let shown = if json {
        let text = serde_json::to_string(&results);
        text.map_err(|e| Error::internal("cannot encode the results").with_source(e))? + "\n"
    } else {
        markdown(&results)
    };
    out.write_all(shown.as_bytes()).map_err(|e| Error::unavailable("cannot print").with_source(e))
}

/// Two tables: medians of the valid samples, and paired ratios with their range.
pub fn markdown(results: &Results) -> String {
    let mut names: Vec<&str> = results.samples.iter().map(|sample| sample.cell.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let mut text =
        "| cell | MB/s | read | write | read p99 ms | limit used | disk bytes per byte | ARC hits | \
                    CPU wait % | samples (void) |\n|---|---|---|---|---|---|---|---|---|---|\n"
            .to_owned();
    for name in names {
        let all = results.samples.iter().filter(|sample| sample.cell == name);
        let (valid, void): (Vec<_>, Vec<_>) = all.partition(|sample| sample.is_valid());
        let of = |metric: &str, digits: usize| {
            let values: Vec<f64> = valid.iter().filter_map(|s| s.values.get(metric).copied()).collect();
            median(&values).map_or("-".to_owned(), |value| format!("{value:.digits$}"))
        };
        let columns = [("mb_per_s", 1), ("read_mb_per_s", 1), ("write_mb_per_s", 1), ("read_p99_ms", 0)]
            .into_iter()
            .chain([("limit_use", 2), ("device_part", 2), ("arc_hit_rate", 3), ("cpu_wait_percent", 0)]);
        let columns: Vec<String> = columns.map(|(metric, digits)| of(metric, digits)).collect();
        text += &format!("| {name} | {} | {} ({}) |\n", columns.join(" | "), valid.len(), void.len());
    }
    text += "\n| ratio of MB/s | median | range | pairs |\n|---|---|---|---|\n";
    for ratio in &results.ratios {
        let low = ratio.values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = ratio.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        text += &format!(
            "| {} / {} | {:.2} | {low:.2} to {high:.2} | {} |\n",
            ratio.numerator,
            ratio.denominator,
            median(&ratio.values).unwrap_or(f64::NAN),
            ratio.values.len()
        );
    }
    text
}
