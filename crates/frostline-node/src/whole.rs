//! Reads a whole split, for callers that look at every part.

use std::ops::Range;

use bytes::Bytes;
use frostline_base::{Error, Meter, ReadRanges, Result, Share};
use frostline_catalog::SplitEntry;
use frostline_split::{Block, KeyRange, Split, Table, Wanted};

use crate::Node;

/// Blocks that are read and held together: at most 8 MiB of a dictionary.
const BLOCKS_AT_ONCE: usize = 512;

/// A split that is being read.
pub struct Whole<'a> {
    /// Where it is read.
    pub node: &'a Node,
    /// The split.
    pub entry: &'a SplitEntry,
    /// What counts the requests.
    pub meter: &'a Meter,
}

impl Whole<'_> {
    /// Reads parts of the file.
    pub async fn read(&self, ranges: &[Range<u64>], share: Share) -> Result<Vec<Bytes>> {
        self.node.repository().read_ranges(&self.entry.object, ranges, share, self.meter).await
    }

    /// Opens the split by its hot footer.
    pub async fn open(&self) -> Result<Split> {
        let length = self.node.repository().head(&self.entry.object.key).await?;
        if length != self.entry.object.bytes {
            let said = self.entry.object.bytes;
            let error = Error::corrupt(format!("the object has {length} bytes and the catalog says {said}"));
            return Err(error.with("object", &self.entry.object.key));
        }
        self.footer().await
    }

    /// The same, of an object whose length is known to be right.
    pub async fn footer(&self) -> Result<Split> {
        let footer = self.read(std::slice::from_ref(&self.entry.footer), Share::Footer).await?;
        let split = Split::open(footer.first().map(|b| b.as_ref()).unwrap_or_default())?;
        if split.id().is_some_and(|id| id != self.entry.id) {
            let what = "the object is another split than the catalog says";
            return Err(Error::corrupt(what).with("object", &self.entry.object.key));
        }
        Ok(split)
    }

    /// Reads what the hot footer leaves to other parts of the file.
    pub async fn know_all(&self, split: &Split) -> Result<()> {
        let mut unread = split.unread_fields(Wanted::All);
        unread.extend(split.unread_pages(&split.column_names().collect::<Vec<_>>()));
        for (block, bytes) in self.with_bytes(unread, Share::Footer).await? {
            split.keep(&block, &bytes)?;
        }
        Ok(())
    }

    /// The blocks of a table, in order.
    pub async fn blocks(&self, table: &Table) -> Result<Vec<(Block, Bytes)>> {
        self.with_bytes(self.all_blocks(table).await?, Share::Index).await
    }

    /// The same, of which few are held at a time.
    pub(crate) async fn each_block(
        &self,
        table: &Table,
        mut each: impl FnMut(&Block, &Bytes) -> Result<()>,
    ) -> Result<()> {
        for blocks in self.all_blocks(table).await?.chunks(BLOCKS_AT_ONCE) {
            let blocks = self.with_bytes(blocks.to_vec(), Share::Index).await?;
            blocks.iter().try_for_each(|(block, bytes)| each(block, bytes))?;
        }
        Ok(())
    }

    async fn all_blocks(&self, table: &Table) -> Result<Vec<Block>> {
        let all = KeyRange::all();
        let index = self.with_bytes(table.index_blocks([&all]), Share::Index).await?;
        match index.is_empty() {
            true => table.blocks(&all),
            false => {
                table.with_index(index.iter().map(|(block, bytes)| (block, bytes.as_ref())))?.blocks(&all)
            }
        }
    }

    async fn with_bytes(&self, blocks: Vec<Block>, share: Share) -> Result<Vec<(Block, Bytes)>> {
        let ranges: Vec<_> = blocks.iter().map(|block| block.range.clone()).collect();
        Ok(blocks.into_iter().zip(self.read(&ranges, share).await?).collect())
    }
}
