//! Reading snapshots: trees, and the chunks of files.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use futures::future::try_join_all;

use frostline_base::{ByteRange, Error, ErrorKind, Meter, ObjectRef, ReadRanges as _, Result, Share};
use frostline_store::Repository;

use crate::log::Snapshot;
use crate::pack::Directory;
use crate::piece;
use crate::seal::VolumeKey;
use crate::tree::{
    Chunk, Entry, Head, LIMITS, Node, Order, Pack, PieceRef, TAIL_BYTES, Tree, chunk_numbers, chunk_range,
    decode_packs, read_chunks, read_entries, tree_key,
};

/// The packs that a snapshot needs. One GET, and no key.
pub(crate) async fn packs(repository: &Repository, snapshot: &Snapshot) -> Result<Vec<Pack>> {
    let (_, bytes) = head(repository, snapshot).await?;
    decode_packs(&bytes).map_err(|e| e.with("object", tree_key(snapshot.id)))
}

/// The head of a snapshot's tree, and where it begins. One GET.
async fn head(repository: &Repository, snapshot: &Snapshot) -> Result<(u64, Vec<u8>)> {
    let object = tree_object(snapshot);
    let end = object.bytes.saturating_sub(TAIL_BYTES);
    if snapshot.head_bytes > end || !LIMITS.has_head(snapshot.head_bytes) {
        return Err(
            Error::corrupt("the record of a snapshot is impossible").with("snapshot", snapshot.name())
        );
    }
    let range = end - snapshot.head_bytes..end;
    let start = range.start;
    let bytes = read(repository, &object, &[range], Share::Footer).await?.concat();
    snapshot.head.check(&bytes, "the head of a tree").map_err(|e| e.with("object", &object.key))?;
    Ok((start, bytes))
}

/// The whole tree of a snapshot.
pub(crate) async fn tree(
    repository: &Repository,
    snapshot: &Snapshot,
    key: Option<&VolumeKey>,
) -> Result<Tree> {
    let (start, bytes) = head(repository, snapshot).await?;
    let object = tree_object(snapshot);
    let seal = key.map(|key| key.of(&object.key)).transpose()?;
    let seal = seal.as_ref();
    let head = Head::decode(&bytes, seal.map(|seal| (seal, start)));
    let head = head.map_err(|e| e.with("object", &object.key))?;
    let ranges: Vec<_> = head.entries.iter().chain(&head.chunks).map(|block| block.range.clone()).collect();
    let blocks = read(repository, &object, &ranges, Share::Footer).await?;
    let (entries, chunks) = blocks.split_at(head.entries.len());
    let tree = || {
        let mut tree = Tree { packs: head.packs, key: key.cloned(), ..Tree::default() };
        for (block, bytes) in head.entries.iter().zip(entries) {
            tree.entries.extend(read_entries(block, bytes, seal)?);
        }
        for (block, bytes) in head.chunks.iter().zip(chunks) {
            tree.chunks.extend(read_chunks(block, &tree.packs, bytes, seal)?);
        }
        check(&tree)?;
        Ok(tree)
    };
    tree().map_err(|e: Error| e.with("object", &object.key))
}

/// Ranges of an object, which an error names.
pub(crate) async fn read(
    repository: &Repository,
    object: &ObjectRef,
    ranges: &[ByteRange],
    share: Share,
) -> Result<Vec<Bytes>> {
    // The repository's own meter counts.
    let read = repository.read_ranges(object, ranges, share, &Meter::default()).await;
    read.map_err(|e| if e.fact("object").is_some() { e } else { e.with("object", &object.key) })
}

/// The directory of a pack. One GET.
pub(crate) async fn directory(
    repository: &Repository,
    pack: &Pack,
    key: Option<&VolumeKey>,
) -> Result<Directory> {
    let (object, range) = (pack.object(), pack.directory());
    let stored = read(repository, &object, std::slice::from_ref(&range), Share::Index).await?.concat();
    let opened = key.map(|key| key.of(&object.key)?.open(range.start, &stored)).transpose()?;
    Directory::decode(opened.as_deref().unwrap_or(&stored))
}

fn tree_object(snapshot: &Snapshot) -> ObjectRef {
    ObjectRef { key: tree_key(snapshot.id), bytes: snapshot.tree_bytes }
}

/// `Corrupt` where the parts of a tree do not fit together.
pub(crate) fn check(tree: &Tree) -> Result<()> {
    let mut order = Order::default();
    for entry in &tree.entries {
        order.push(entry)?;
        let Node::File { bytes, extents, chunks } = &entry.node else { continue };
        let of_file = tree.chunks.get(chunks.clone()).unwrap_or_default();
        let lengths = chunk_numbers(extents).map(|number| {
            let range = chunk_range(number, *bytes);
            range.end - range.start
        });
        if of_file.len() != chunks.len() || !of_file.iter().map(|chunk| u64::from(chunk.bytes)).eq(lengths) {
            return Err(
                Error::corrupt("the chunks of a file do not have its length").with("file", entry.show())
            );
        }
    }
    if tree.entries.is_empty() { Err(Error::corrupt("a tree is empty")) } else { Ok(()) }
}

/// A chunk of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Among the entries.
    pub(crate) file: usize,
    /// Where in the file.
    pub(crate) offset: u64,
    /// Among the chunks.
    pub(crate) chunk: usize,
}

/// Every chunk of every file.
pub(crate) fn targets<'a>(tree: &'a Tree) -> Vec<Target> {
    let of_file = |(file, entry): (usize, &'a Entry)| {
        let (extents, chunks, bytes) = match &entry.node {
            Node::File { bytes, extents, chunks } => (extents.as_slice(), chunks.clone(), *bytes),
            _ => (&[][..], 0..0, 0),
        };
        let numbers = chunk_numbers(extents);
        numbers.zip(chunks).map(move |(number, chunk)| Target {
            file,
            offset: chunk_range(number, bytes).start,
            chunk,
        })
    };
    tree.entries.iter().enumerate().flat_map(of_file).collect()
}

/// The same in batches of about so many stored bytes, and of four times as many of files, in the order of the packs.
/// Equal chunks are in one batch.
pub(crate) fn batches(tree: &Tree, mut targets: Vec<Target>, stored_bytes: u64) -> Vec<Vec<Target>> {
    sort(tree, &mut targets);
    cut(tree, runs(tree, &targets), stored_bytes)
}

/// Sorts chunks in the order of the packs.
pub(crate) fn sort(tree: &Tree, targets: &mut [Target]) {
    targets.sort_by(|a, b| tree.chunks[a.chunk].pieces.cmp(&tree.chunks[b.chunk].pieces));
}

/// The runs of equal chunks among those that are sorted.
pub(crate) fn runs<'a>(tree: &'a Tree, sorted: &'a [Target]) -> impl Iterator<Item = &'a [Target]> {
    sorted.chunk_by(|a, b| tree.chunks[a.chunk].pieces == tree.chunks[b.chunk].pieces)
}

/// Runs of equal chunks in batches, in their order: see [`batches`].
pub(crate) fn cut<'a>(
    tree: &Tree,
    runs: impl Iterator<Item = &'a [Target]>,
    stored_bytes: u64,
) -> Vec<Vec<Target>> {
    let mut batches: Vec<Vec<Target>> = Vec::new();
    let mut bytes = stored_bytes;
    for run in runs {
        let pieces = run.first().map_or(&[][..], |target| &tree.chunks[target.chunk].pieces);
        let stored: u64 = pieces.iter().map(|piece| u64::from(piece.bytes)).sum();
        let of_files: u64 = run.iter().map(|target| u64::from(tree.chunks[target.chunk].bytes)).sum();
        let of_run = stored.max(of_files / 4);
        if bytes + of_run > stored_bytes {
            batches.push(Vec::new());
            bytes = 0;
        }
        bytes += of_run;
        if let Some(batch) = batches.last_mut() {
            batch.extend(run);
        }
    }
    batches
}

/// The pieces of these chunks, from all packs at once.
pub(crate) async fn fetch<'a>(
    repository: &Repository,
    packs: &[Pack],
    chunks: impl Iterator<Item = &'a Chunk>,
) -> Result<HashMap<PieceRef, Bytes>> {
    let by_pack = by_pack(chunks);
    let reads = by_pack.values().map(|pieces| read_pieces(repository, packs, pieces));
    let read = try_join_all(reads).await?.into_iter().flatten();
    Ok(by_pack.into_values().flatten().zip(read).collect())
}

/// Pieces, and for missing ones the error.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    pieces: HashMap<PieceRef, Bytes>,
    lost: HashMap<PieceRef, Error>,
}

impl Fetched {
    /// The bytes of a chunk, checked against its digest.
    pub(crate) fn assemble(&self, tree: &Tree, chunk: &Chunk) -> Result<Vec<u8>> {
        match chunk.pieces.iter().find_map(|piece| self.lost.get(piece)) {
            Some(error) => Err(error.clone()),
            None => assemble(tree.key.as_ref(), &tree.packs, chunk, &self.pieces),
        }
    }

    /// The first error of each pack of which a piece of a chunk could not be read.
    pub(crate) fn lost(&self, chunk: &Chunk) -> Vec<Error> {
        let mut seen = BTreeSet::new();
        let lost = chunk.pieces.iter().filter_map(|piece| Some((piece.pack, self.lost.get(piece)?)));
        lost.filter(|(pack, _)| seen.insert(*pack)).map(|(_, error)| error.clone()).collect()
    }

    /// The packs at fault for a chunk that is not what it was, and whether that is certain. Pieces are compared with
    /// the directories of their packs. If all are as these say, a pack without one is at fault.
    pub(crate) fn blamed(
        &self,
        tree: &Tree,
        chunk: &Chunk,
        directories: &HashMap<u32, Option<Directory>>,
    ) -> (Vec<u32>, bool) {
        let (mut damaged, mut unknown) = (BTreeSet::new(), BTreeSet::new());
        for (at, piece) in chunk.pieces.iter().enumerate() {
            match directories.get(&piece.pack).and_then(Option::as_ref) {
                Some(directory) => {
                    let alone = self.alone(tree, piece, at == 0);
                    if !alone.is_ok_and(|made| directory.has(piece.offset.into(), &made)) {
                        damaged.insert(piece.pack);
                    }
                }
                None => drop(unknown.insert(piece.pack)),
            }
        }
        let is_certain = !damaged.is_empty() || unknown.len() == 1;
        let blamed = [damaged, unknown, packs_of(chunk)].into_iter().find(|packs| !packs.is_empty());
        (blamed.unwrap_or_default().into_iter().collect(), is_certain)
    }

    /// What a piece makes of a chunk of zeros.
    fn alone(&self, tree: &Tree, piece: &PieceRef, is_first: bool) -> Result<Vec<u8>> {
        let mut made = Vec::new();
        apply(&mut made, tree.key.as_ref(), &tree.packs, piece, &self.pieces, is_first)?;
        Ok(made)
    }
}

/// The packs that a chunk is in.
pub(crate) fn packs_of(chunk: &Chunk) -> BTreeSet<u32> {
    chunk.pieces.iter().map(|piece| piece.pack).collect()
}

/// The same, but damage costs only the damaged pieces: if a read of a pack fails, each of its pieces is read by itself.
pub(crate) async fn fetch_sound<'a>(
    repository: &Repository,
    packs: &[Pack],
    chunks: impl Iterator<Item = &'a Chunk>,
) -> Result<Fetched> {
    let of_pack = |pieces: Vec<PieceRef>| async move {
        let mut fetched = Fetched::default();
        let error = match read_pieces(repository, packs, &pieces).await {
            Ok(read) => {
                fetched.pieces.extend(pieces.into_iter().zip(read));
                return Ok(fetched);
            }
            Err(error) => error,
        };
        for piece in pieces {
            let read = match error.kind() {
                ErrorKind::NotFound => Err(error.clone()),
                _ if is_damage(&error) => read_pieces(repository, packs, &[piece]).await,
                _ => return Err(error),
            };
            match read {
                Ok(read) => fetched.pieces.extend(read.into_iter().map(|bytes| (piece, bytes))),
                Err(error) if is_damage(&error) => drop(fetched.lost.insert(piece, error)),
                Err(error) => return Err(error),
            }
        }
        Ok(fetched)
    };
    let all = try_join_all(by_pack(chunks).into_values().map(of_pack)).await?;
    Ok(all.into_iter().fold(Fetched::default(), |mut all, one| {
        all.pieces.extend(one.pieces);
        all.lost.extend(one.lost);
        all
    }))
}

/// Whether the stored data is at fault, and not the access to it.
pub(crate) fn is_damage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotFound | ErrorKind::Invalid)
}

fn by_pack<'a>(chunks: impl Iterator<Item = &'a Chunk>) -> BTreeMap<u32, Vec<PieceRef>> {
    let mut by_pack: BTreeMap<u32, Vec<PieceRef>> = BTreeMap::new();
    for piece in chunks.flat_map(|chunk| &chunk.pieces) {
        by_pack.entry(piece.pack).or_default().push(*piece);
    }
    for pieces in by_pack.values_mut() {
        pieces.sort_unstable();
        pieces.dedup();
    }
    by_pack
}

/// Pieces of one pack, in their order.
async fn read_pieces(repository: &Repository, packs: &[Pack], pieces: &[PieceRef]) -> Result<Vec<Bytes>> {
    let pack = pieces.first().and_then(|piece| packs.get(piece.pack as usize));
    let object = pack.ok_or_else(|| Error::internal("a piece is in no pack"))?.object();
    let ranges: Vec<_> = pieces.iter().map(PieceRef::range).collect();
    read(repository, &object, &ranges, Share::Column).await
}

/// Applies a piece to what those before it gave.
fn apply(
    chunk: &mut Vec<u8>,
    key: Option<&VolumeKey>,
    packs: &[Pack],
    piece: &PieceRef,
    pieces: &HashMap<PieceRef, Bytes>,
    is_first: bool,
) -> Result<()> {
    let stored = pieces.get(piece).ok_or_else(|| Error::internal("a piece was not read"))?;
    let pack = packs.get(piece.pack as usize).ok_or_else(|| Error::internal("a piece is in no pack"))?;
    let named = |e: Error| e.with("object", pack.object().key).with("at", piece.offset);
    let open = |key: &VolumeKey| key.of(&pack.object().key)?.open(piece.offset.into(), stored);
    let opened = key.map(open).transpose().map_err(named)?;
    piece::apply(chunk, opened.as_deref().unwrap_or(stored), is_first).map_err(named)
}

/// The bytes of a chunk, checked against its digest.
pub(crate) fn assemble(
    key: Option<&VolumeKey>,
    packs: &[Pack],
    chunk: &Chunk,
    pieces: &HashMap<PieceRef, Bytes>,
) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for (at, piece) in chunk.pieces.iter().enumerate() {
        apply(&mut bytes, key, packs, piece, pieces, at == 0)?;
    }
    // Which of its pieces is damaged cannot be told from the chunk: `verify` looks.
    chunk.digest.check(&bytes, "a chunk").map_err(|e| {
        let packs = packs_of(chunk).into_iter().filter_map(|pack| packs.get(pack as usize));
        e.with("object", packs.map(|pack| pack.object().key).collect::<Vec<_>>().join(" or "))
    })?;
    match bytes.len() == chunk.bytes as usize {
        true => Ok(bytes),
        false => Err(Error::corrupt("a chunk does not have its length").with("digest", chunk.digest)),
    }
}
