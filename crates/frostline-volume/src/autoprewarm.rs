//! `autoprewarm.blocks`: the blocks that PostgreSQL had in its buffers when its extension pg_prewarm wrote them down.
//!
//! They only decide what is fetched first. So what cannot be read of the file is left out, and nothing of it fails a mount.

use std::collections::{BTreeMap, HashMap};

use crate::control::Sizes;
use crate::order::inside;
use crate::piece::CHUNK_BYTES;
use crate::scan::joined;
use crate::tree::{Finder, Node, Tree};

/// The name of the file, in the directory of the server's data.
pub(crate) const FILE: &str = "autoprewarm.blocks";
/// Of a longer file only the beginning is read: some two million blocks, or 18 GB of buffers.
pub(crate) const BYTES_MAX: u64 = 64 << 20;
/// The directories of the tablespaces that every server has.
const DEFAULT: u32 = 1663;
const GLOBAL: u32 = 1664;
/// Files that are remembered while blocks are looked up.
const FILES_MAX: usize = 1 << 20;

/// The chunks of a tree that have such blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hot {
    /// And how many of them: each is at least 1.
    pub(crate) chunks: BTreeMap<usize, u32>,
    /// Blocks of files that are in the tree.
    pub(crate) blocks: u64,
    /// Blocks of files that are not, and lines that name none.
    pub(crate) unknown: u64,
}

/// A block, as the file names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Block {
    database: u32,
    tablespace: u32,
    relation: u32,
    fork: u32,
    number: u32,
}

/// The blocks of such a file, a line that names none being none; or nothing if it is no such file.
pub(crate) fn blocks(text: &[u8]) -> Option<impl Iterator<Item = Option<Block>>> {
    let mut lines = text.split_inclusive(|byte| *byte == b'\n');
    let count = lines.next()?.strip_prefix(b"<<")?.strip_suffix(b">>\n")?;
    Some(lines.take(number(count)? as usize).map(block))
}

fn block(line: &[u8]) -> Option<Block> {
    // Where the file is cut, a number may be, too.
    let mut fields = line.strip_suffix(b"\n")?.split(|byte| *byte == b',').map(number);
    let mut next = || fields.next()?;
    let block =
        Block { database: next()?, tablespace: next()?, relation: next()?, fork: next()?, number: next()? };
    fields.next().is_none().then_some(block)
}

fn number(digits: &[u8]) -> Option<u32> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

impl Hot {
    /// Those of a tree whose server's data is in the directory `cluster`; `None` if the text is no such file.
    pub(crate) fn of(text: &[u8], tree: &Tree, cluster: &[u8], sizes: Sizes) -> Option<Hot> {
        let mut hot = Hot::default();
        let mut finder = Finder::new(tree);
        let tablespaces = tablespaces(tree, cluster);
        let mut files: HashMap<Block, Option<usize>> = HashMap::new();
        for block in blocks(text)? {
            let found = block.and_then(|block| {
                let (number, within) = (
                    u64::from(block.number) / sizes.file_blocks,
                    u64::from(block.number) % sizes.file_blocks,
                );
                let key = Block { number: number as u32, ..block };
                if files.len() >= FILES_MAX {
                    files.clear();
                }
                let find = || paths(&key, cluster, &tablespaces).iter().find_map(|path| finder.file(path));
                let file = (*files.entry(key).or_insert_with(find))?;
                finder.chunk(file, within * sizes.block_bytes / CHUNK_BYTES as u64)
            });
            match found {
                Some(chunk) => {
                    hot.blocks += 1;
                    *hot.chunks.entry(chunk).or_default() += 1;
                }
                None => hot.unknown += 1,
            }
        }
        Some(hot)
    }
}

/// Where files of a relation may be, of which `key` has the number of the file in place of a block's.
fn paths(key: &Block, cluster: &[u8], tablespaces: &HashMap<u32, Vec<Vec<u8>>>) -> Vec<Vec<u8>> {
    let fork = match key.fork {
        0 => "",
        1 => "_fsm",
        2 => "_vm",
        3 => "_init",
        _ => return Vec::new(),
    };
    let file = match key.number {
        0 => format!("{}{fork}", key.relation),
        number => format!("{}{fork}.{number}", key.relation),
    };
    let in_database = format!("{}/{file}", key.database);
    match key.tablespace {
        GLOBAL => vec![joined(cluster, format!("global/{file}").as_bytes())],
        DEFAULT => vec![joined(cluster, format!("base/{in_database}").as_bytes())],
        other => {
            let folders = tablespaces.get(&other).map_or(&[][..], Vec::as_slice);
            folders.iter().map(|folder| joined(folder, in_database.as_bytes())).collect()
        }
    }
}

/// The directories with the databases of each tablespace, such as `pg_tblspc/16384/PG_17_202406281`. A backup has them in
/// another place than the server.
fn tablespaces(tree: &Tree, cluster: &[u8]) -> HashMap<u32, Vec<Vec<u8>>> {
    let mut found: HashMap<u32, Vec<Vec<u8>>> = HashMap::new();
    for entry in tree.entries.iter().filter(|entry| entry.node == Node::Directory) {
        let mut names = inside(&entry.path, cluster).unwrap_or_default().split(|byte| *byte == b'/');
        let is_there = matches!(names.next(), Some(b"pg_tblspc" | b"frostline_tablespaces"));
        let tablespace = names.next().and_then(number);
        let is_of_version =
            names.next().is_some_and(|name| name.starts_with(b"PG_")) && names.next().is_none();
        if let Some(tablespace) = tablespace.filter(|_| is_there && is_of_version) {
            found.entry(tablespace).or_default().push(entry.path.clone());
        }
    }
    found
}

#[cfg(test)]
mod tests;
