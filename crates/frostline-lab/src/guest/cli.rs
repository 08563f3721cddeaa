//! `lab image`: commands for guest images.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use frostline_base::{Error, Result};
use serde_json::{Value, json};

use super::{Image, Recipe};
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
        ImageCommand::List => {
            let images = Image::list(&folder);
            if images.is_empty() {
                progress("no image was built: `frostline lab image build` builds one");
            }
            images
        }
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
