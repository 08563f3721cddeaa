//! `frostline volume` alone, without the search engine, so that an optimised build takes minutes:
//!
//! ```text
//! volume --repo URL volume snapshot DIR --name NAME
//! volume --repo URL volume restore NAME DIR
//! volume --repo URL volume mount NAME DIR [--rate BYTES_PER_S] [--mode fanotify]
//! ```
//!
//! Each takes `--key-file FILE` at its end. `mount` says `mounted` once DIR is usable, and ends when it is unmounted.

use std::path::Path;
use std::sync::Arc;

use frostline_base::{Error, Result, SystemClock};
use frostline_store::{OpenOptions, Repository};
use frostline_volume::{Mount, MountMode, MountOptions, RestoreOptions, SnapshotOptions, VolumeKey, Volumes};

#[tokio::main]
async fn main() -> Result<()> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let (given, key) = match given.as_slice() {
        [given @ .., "--key-file", file] => {
            let text = std::fs::read_to_string(file);
            let text = text.map_err(|e| Error::invalid(format!("cannot read {file}: {e}")))?;
            (given, Some(VolumeKey::parse(&text)?))
        }
        given => (given, None),
    };
    let open = |url: &str| open(url).map(|volumes| volumes.with_key(key.clone()));
    match given {
        ["--repo", repository, "volume", "snapshot", directory, "--name", name] => {
            let options = SnapshotOptions::default();
            let volumes = open(repository)?;
            let taken = volumes.snapshot(Path::new(directory), &name.parse()?, &options, |_| {}).await?;
            println!("{} {:?}", taken.snapshot.name(), taken.snapshot.totals);
        }
        ["--repo", repository, "volume", "restore", name, directory] => {
            let volumes = open(repository)?;
            let snapshot = volumes.find(&name.parse()?).await?;
            let options = RestoreOptions::default();
            let restored = volumes.restore(&snapshot, Path::new(directory), &options, |_| {}).await?;
            println!("{restored:?}");
        }
        ["volume", "guard", directory] => frostline_volume::guard(Path::new(directory)).await?,
        ["--repo", repository, "volume", "mount", name, directory, rest @ ..] => {
            let (rate, mode) = match rest {
                [rate @ .., "--mode", "fanotify"] => (rate, MountMode::Fanotify),
                rate => (rate, MountMode::Fuse),
            };
            let rate = match rate {
                ["--rate", rate] => Some(rate.parse()),
                _ => None,
            };
            let rate = rate.transpose().map_err(|_| Error::invalid("BYTES_PER_S is not a number"))?;
            let guardian = ["volume", "guard"].map(std::ffi::OsString::from).to_vec();
            let options = MountOptions { mode, guardian, rate, ..MountOptions::default() };
            if let Mount::Mounted(mounted) =
                open(repository)?.mount(&name.parse()?, Path::new(directory), &options).await?
            {
                println!("mounted");
                println!("{:?}", mounted.serve(|_| {}).await?);
            }
        }
        _ => return Err(Error::invalid("the first lines of this example say how to call it")),
    }
    Ok(())
}

fn open(url: &str) -> Result<Volumes> {
    let repository = Repository::open(url, &OpenOptions { create: true, ..OpenOptions::default() })?;
    Ok(Volumes::new(&repository, Arc::new(SystemClock), Arc::new(rand::random::<u128>)))
}
