//! Reading everything that snapshots refer to, and saying what is damaged.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use serde::Serialize;

use frostline_base::{Error, ErrorKind, Result};

use crate::digest::Digest;
use crate::log::Snapshot;
use crate::pack::Directory;
use crate::reader::{Fetched, Target, batches, directory, fetch_sound, is_damage, packs_of, targets};
use crate::seal::{self, VolumeKey};
use crate::snapshot::blocking;
use crate::tree::{Chunk, Pack, Tree};
use crate::volumes::Volumes;

const BATCH_BYTES: u64 = 8 << 20;
const BATCHES: usize = 6;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Snapshots that were read.
    pub snapshots: u64,
    /// Chunks that are as they were written; one that several snapshots have counts once.
    pub chunks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What is damaged.
    pub faults: Vec<VolumeFault>,
    /// Snapshots that were not read, because their key was not given.
    pub unread: Vec<UnreadSnapshot>,
}

/// A snapshot of which nothing is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreadSnapshot {
    /// The snapshot.
    pub snapshot: String,
    /// Which key it needs.
    pub what: String,
}

/// Something that is damaged or missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VolumeFault {
    /// The snapshot.
    pub snapshot: String,
    /// The file, if it is one of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Where in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// Whether the object is gone. The next snapshot stores its data again.
    pub gone: bool,
    /// What is wrong.
    pub what: String,
}

/// A chunk where it is stored: its last piece was written for one chunk alone.
type Place = (Digest, Option<Pack>, u32);

/// Whether a chunk is as it was written.
type Checked = std::result::Result<(), Vec<Error>>;

impl Volumes {
    /// Reads every chunk of these snapshots but those whose key was not given; `Denied` if that is all of them, `NotFound`
    /// if there are none. `progress` gets the bytes that were read, of how many.
    pub async fn verify(
        &self,
        snapshots: &[Snapshot],
        progress: impl Fn(u64, u64) + Send + Sync,
    ) -> Result<Verified> {
        if snapshots.is_empty() {
            return Err(Error::not_found(format!(
                "there is no snapshot to verify in {}: is this the repository, and is its disk mounted?",
                self.repository.url()
            )));
        }
        let mut done = Verified::default();
        let (mut sound, mut packs) = (HashSet::new(), HashSet::new());
        let (mut done_bytes, mut total) = (0, 0);
        for snapshot in snapshots {
            let name = snapshot.name().to_string();
            if let Err(error) = seal::check(self.key.as_ref(), snapshot) {
                done.unread.push(UnreadSnapshot { snapshot: name, what: error.what().to_owned() });
                if done.unread.len() == snapshots.len() {
                    return Err(error);
                }
                continue;
            }
            done.snapshots += 1;
            let tree = match self.tree(snapshot).await {
                Ok(tree) => tree,
                Err(error) => {
                    done.faults.push(fault(&name, None, error)?);
                    continue;
                }
            };
            for pack in tree.packs.iter().filter(|pack| packs.insert(**pack)) {
                if let Err(error) = self.check_directory(pack, tree.key.as_ref()).await {
                    done.faults.push(fault(&name, None, error.with("object", pack.object().key))?);
                }
            }
            let mut wanted = targets(&tree);
            wanted.retain(|target| !sound.contains(&place(&tree, target)));
            total += wanted.iter().map(|target| u64::from(tree.chunks[target.chunk].bytes)).sum::<u64>();
            let all = batches(&tree, wanted, BATCH_BYTES);
            let tree = Arc::new(tree);
            let checks = all.into_iter().map(|batch| self.check(&tree, batch));
            let mut checks = futures::stream::iter(checks).buffer_unordered(BATCHES);
            while let Some(checked) = checks.try_next().await? {
                for (target, outcome) in checked {
                    let bytes = u64::from(tree.chunks[target.chunk].bytes);
                    done_bytes += bytes;
                    match outcome {
                        Ok(()) if sound.insert(place(&tree, &target)) => {
                            done.chunks += 1;
                            done.bytes += bytes;
                        }
                        Ok(()) => {}
                        Err(errors) => {
                            for error in errors {
                                done.faults.push(fault(&name, Some((&tree, target)), error)?);
                            }
                        }
                    }
                }
                progress(done_bytes, total);
            }
        }
        Ok(done)
    }

    async fn check_directory(&self, pack: &Pack, key: Option<&VolumeKey>) -> Result<()> {
        directory(&self.repository, pack, key).await.map(drop)
    }

    /// The result for each chunk of a batch: an error for each object that is at fault.
    async fn check(&self, tree: &Arc<Tree>, batch: Vec<Target>) -> Result<Vec<(Target, Checked)>> {
        let chunks = batch.iter().map(|target| &tree.chunks[target.chunk]);
        let fetched = fetch_sound(&self.repository, &tree.packs, chunks).await?;
        let of = Arc::clone(tree);
        let (fetched, checked) = blocking(move || {
            let check = |target: &Target| fetched.assemble(&of, &of.chunks[target.chunk]).map(drop);
            let checked: Vec<_> = batch.into_iter().map(|target| (target, check(&target))).collect();
            Ok((fetched, checked))
        })
        .await?;
        let mut directories = HashMap::new();
        let mut all = Vec::with_capacity(checked.len());
        for (target, outcome) in checked {
            let outcome = match outcome {
                Err(error) => Err(self
                    .blame(tree, &tree.chunks[target.chunk], &fetched, &mut directories, error)
                    .await?),
                Ok(()) => Ok(()),
            };
            all.push((target, outcome));
        }
        Ok(all)
    }

    /// The error of a chunk that is not what it was, for each pack that is at fault, or may be.
    async fn blame(
        &self,
        tree: &Tree,
        chunk: &Chunk,
        fetched: &Fetched,
        directories: &mut HashMap<u32, Option<Directory>>,
        error: Error,
    ) -> Result<Vec<Error>> {
        let (packs, lost) = (packs_of(chunk), fetched.lost(chunk));
        if packs.len() == 1 {
            return Ok(vec![error]);
        }
        if !lost.is_empty() {
            return Ok(lost);
        }
        for number in &packs {
            if let Some(pack) = tree.packs.get(*number as usize).filter(|_| !directories.contains_key(number))
            {
                let read = match directory(&self.repository, pack, tree.key.as_ref()).await {
                    Err(error) if !is_damage(&error) => return Err(error),
                    read => read.ok(),
                };
                directories.insert(*number, read);
            }
        }
        let (blamed, is_certain) = fetched.blamed(tree, chunk, directories);
        let pack = |pack: u32| Some(tree.packs.get(pack as usize)?.object().key);
        let keys: Vec<String> = blamed.into_iter().filter_map(pack).collect();
        let what = match is_certain {
            true => error.what().to_owned(),
            false => format!("{}, and one of these is damaged: {}", error.what(), keys.join(", ")),
        };
        Ok(keys.into_iter().map(|key| Error::corrupt(what.clone()).with("object", key)).collect())
    }
}

fn place(tree: &Tree, target: &Target) -> Place {
    let chunk = &tree.chunks[target.chunk];
    let last = chunk.pieces.last();
    let pack = last.and_then(|piece| tree.packs.get(piece.pack as usize));
    (chunk.digest, pack.copied(), last.map_or(0, |piece| piece.offset))
}

/// A fault of what is stored; any other error ends the check.
pub(crate) fn fault(snapshot: &str, at: Option<(&Tree, Target)>, error: Error) -> Result<VolumeFault> {
    if !is_damage(&error) {
        return Err(error);
    }
    let mut what = error.what().to_owned();
    let mut object = error.fact("object").map(str::to_owned);
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        let of_ours = cause.downcast_ref::<Error>();
        what =
            format!("{what}: {}", of_ours.map_or_else(|| cause.to_string(), |error| error.what().to_owned()));
        object = object.or_else(|| of_ours?.fact("object").map(str::to_owned));
        source = cause.source();
    }
    Ok(VolumeFault {
        snapshot: snapshot.to_owned(),
        file: at.map(|(tree, target)| tree.entries[target.file].show()),
        offset: at.map(|(_, target)| target.offset),
        object,
        gone: error.kind() == ErrorKind::NotFound,
        what,
    })
}

#[cfg(test)]
mod tests;
