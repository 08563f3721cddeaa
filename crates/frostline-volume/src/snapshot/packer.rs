//! Filling packs with the pieces of new chunks, and uploading them.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use tokio::task::JoinSet;

use frostline_base::{Error, Result};

use super::chunks::{Base, Ready, What};
use crate::digest::Digest;
use crate::log::Totals;
use crate::pack::PackWriter;
use crate::tree::{Chunk, Pack, PieceRef, SnapshotId, pack_key};
use crate::volumes::Volumes;

/// Packs on their way at the same time.
const UPLOADS_MAX: usize = 3;

/// What was stored.
#[derive(Debug, Default)]
pub(super) struct Packed {
    /// The chunks of each file that was read, by its number and by where they begin in it.
    pub(super) chunks: HashMap<usize, BTreeMap<u64, Chunk>>,
    /// Files that were not there any more when they were to be read.
    pub(super) vanished: HashSet<usize>,
}

pub(super) struct Packer<'a> {
    volumes: &'a Volumes,
    id: SnapshotId,
    /// Those of the base, then our own; the last is being filled.
    packs: Vec<Pack>,
    base_packs: usize,
    writer: PackWriter,
    pack_bytes: usize,
    written: HashMap<Digest, Chunk>,
    uploads: JoinSet<Result<()>>,
    totals: Totals,
}

impl<'a> Packer<'a> {
    pub(super) fn new(
        volumes: &'a Volumes,
        id: SnapshotId,
        base: &[Pack],
        pack_bytes: usize,
    ) -> Result<Packer<'a>> {
        Ok(Packer {
            volumes,
            id,
            packs: base.to_vec(),
            base_packs: base.len(),
            writer: writer(volumes, id, 0)?,
            pack_bytes,
            written: HashMap::new(),
            uploads: JoinSet::new(),
            totals: Totals::default(),
        })
    }

    pub(super) fn totals(&self) -> Totals {
        self.totals
    }

    pub(super) fn into_packs(self) -> Vec<Pack> {
        self.packs
    }

    pub(super) async fn push(&mut self, ready: Ready, base: &Base, packed: &mut Packed) -> Result<()> {
        let chunk = match ready.what {
            What::Vanished => {
                packed.vanished.insert(ready.file);
                return Ok(());
            }
            What::Known(digest) => {
                let lost = || Error::internal("a chunk of the base is not there");
                base.chunk(&digest).cloned().ok_or_else(lost)?
            }
            What::New(new) => match self.written.get(&new.digest) {
                Some(chunk) => chunk.clone(),
                None => {
                    let (offset, bytes) =
                        self.writer.push(new.piece, new.chunk_bytes, new.pages, &new.sums)?;
                    let piece = PieceRef { pack: self.packs.len() as u32, offset, bytes };
                    match new.onto.is_empty() {
                        true => self.totals.chunks_full += 1,
                        false => self.totals.chunks_delta += 1,
                    }
                    let mut pieces = new.onto;
                    pieces.push(piece);
                    let chunk = Chunk { digest: new.digest, bytes: new.chunk_bytes, pieces };
                    self.written.insert(chunk.digest, chunk.clone());
                    if self.writer.bytes() >= self.pack_bytes {
                        self.end_pack().await?;
                    }
                    chunk
                }
            },
        };
        packed.chunks.entry(ready.file).or_default().insert(ready.at, chunk);
        Ok(())
    }

    /// Everything is in the repository when this returns.
    pub(super) async fn finish(&mut self) -> Result<()> {
        if !self.writer.is_empty() {
            self.end_pack().await?;
        }
        while !self.uploads.is_empty() {
            self.uploaded().await?;
        }
        Ok(())
    }

    async fn end_pack(&mut self) -> Result<()> {
        let number = (self.packs.len() - self.base_packs) as u32;
        let next = writer(self.volumes, self.id, number + 1)?;
        let (bytes, directory_bytes) = std::mem::replace(&mut self.writer, next).finish()?;
        self.totals.stored_bytes += bytes.len() as u64;
        self.packs.push(Pack { writer: self.id, number, bytes: bytes.len() as u64, directory_bytes });
        while self.uploads.len() >= UPLOADS_MAX {
            self.uploaded().await?;
        }
        let (repository, key) = (self.volumes.repository.clone(), pack_key(self.id, number));
        self.uploads.spawn(async move { repository.put(&key, Bytes::from(bytes)).await });
        Ok(())
    }

    async fn uploaded(&mut self) -> Result<()> {
        match self.uploads.join_next().await {
            Some(Ok(done)) => done,
            Some(Err(error)) => Err(Error::internal("an upload ended before its time").with_source(error)),
            None => Ok(()),
        }
    }
}

/// An empty pack of that number.
fn writer(volumes: &Volumes, id: SnapshotId, number: u32) -> Result<PackWriter> {
    let seal = volumes.key.as_ref().map(|key| key.of(&pack_key(id, number))).transpose()?;
    Ok(PackWriter::new(seal))
}
