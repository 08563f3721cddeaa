//! Where the bytes of an index go, part by part and field by field.

use std::collections::BTreeMap;

use bytes::Bytes;
use frostline_base::{Meter, Result};
use frostline_catalog::{Index, SplitEntry};
use frostline_split::{ByteCounts, FieldBytes, PartBytes, SplitBytes};

use crate::{Node, Whole};

/// The bytes of the splits and further files of an index.
#[derive(Debug, Default)]
pub struct Stored {
    /// The parts of its splits.
    pub parts: PartBytes,
    /// Its fields, by path.
    pub fields: BTreeMap<String, FieldBytes>,
    /// The splits of each version of the format.
    pub versions: BTreeMap<u32, Objects>,
    /// The further files of each kind.
    pub files: BTreeMap<String, Objects>,
    /// What was read to count them.
    pub bytes_read: u64,
}

/// Some objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct Objects {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Objects {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }
}

impl Stored {
    /// Reads footers, dictionaries and digests of all splits.
    pub async fn count(node: &Node, index: &Index) -> Result<Stored> {
        let (mut all, meter) = (Stored::default(), Meter::default());
        for split in index.splits() {
            let counted = count_split(node, split, &meter).await;
            let (version, SplitBytes { parts, fields }) =
                counted.map_err(|e| e.with("split", &split.object.key))?;
            all.versions.entry(version).or_default().add(split.object.bytes);
            all.parts.add(&parts);
            for (path, bytes) in fields {
                all.fields.entry(path).or_default().add(&bytes);
            }
        }
        for file in index.files() {
            all.files.entry(file.kind.clone()).or_default().add(file.object.bytes);
        }
        all.bytes_read = meter.cost().bytes_read;
        Ok(all)
    }

    /// The bytes of all splits and files.
    pub fn bytes(&self) -> u64 {
        self.parts.all() + self.files.values().map(|files| files.bytes).sum::<u64>()
    }
}

async fn count_split(node: &Node, entry: &SplitEntry, meter: &Meter) -> Result<(u32, SplitBytes)> {
    let whole = Whole { node, entry, meter };
    let split = whole.open().await?;
    whole.know_all(&split).await?;
    let mut counts = ByteCounts::new(&split)?;
    let (text, exact, pairs) = (split.text().table(), split.exact().table(), split.pairs().table());
    whole.each_block(text, |block, bytes| counts.text_block(block, bytes)).await?;
    whole.each_block(exact, |block, bytes| counts.exact_block(block, bytes)).await?;
    whole.each_block(pairs, |block, bytes| counts.pairs_block(block, bytes)).await?;
    whole.each_block(&split.digest_table(), |block, bytes| counts.digest_block(block, bytes)).await?;
    let origins = split.origins_table();
    let count = |_: &_, bytes: &Bytes| {
        counts.origins_block(bytes);
        Ok(())
    };
    whole.each_block(&origins, count).await?;
    Ok((split.version(), counts.finish(entry.object.bytes, &entry.footer)?))
}
