//! Where the bytes of an index go: `frostline index show --bytes`.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use frostline_base::Meter;
use frostline_catalog::{Index, SplitEntry};
use frostline_node::Node;
use frostline_show::{Table, printable, say, show_bytes, show_count};
use frostline_split::{ByteCounts, FieldBytes, PartBytes, SplitBytes};
use serde::Serialize;
use serde_json::{Value, json};

use super::whole::Whole;

/// The bytes of the splits and further files of an index.
#[derive(Default)]
pub(super) struct IndexBytes {
    parts: PartBytes,
    fields: BTreeMap<String, FieldBytes>,
    /// The splits of each version of the format.
    versions: BTreeMap<u32, Objects>,
    /// The further files of each kind.
    files: BTreeMap<String, Objects>,
    bytes_read: u64,
}

/// Some objects.
#[derive(Clone, Copy, Default, Serialize)]
struct Objects {
    count: u64,
    bytes: u64,
}

impl Objects {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }
}

impl IndexBytes {
    /// Reads footers, dictionaries and digests of all splits.
    pub(super) async fn count(node: &Node, index: &Index) -> Result<IndexBytes> {
        let (mut all, meter) = (IndexBytes::default(), Meter::default());
        for split in index.splits() {
            let (version, SplitBytes { parts, fields }) = count_split(node, split, &meter)
                .await
                .with_context(|| format!("cannot count the bytes of {}", split.object.key))?;
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

    fn all(&self) -> u64 {
        self.parts.all() + self.files.values().map(|files| files.bytes).sum::<u64>()
    }

    fn parts(&self) -> [(&'static str, u64); 10] {
        let parts = &self.parts;
        [
            ("source", parts.source),
            ("columns", parts.columns),
            ("text_dictionary", parts.text_dictionary),
            ("exact_dictionary", parts.exact_dictionary),
            ("pairs", parts.pairs),
            ("postings", parts.postings),
            ("digest", parts.digest),
            ("origins", parts.origins),
            ("footers", parts.footer),
            ("parquet_footers", parts.parquet_footer),
        ]
    }

    /// The fields, the largest first.
    fn fields(&self) -> Vec<(&str, &FieldBytes)> {
        let mut fields: Vec<_> = self.fields.iter().map(|(path, bytes)| (path.as_str(), bytes)).collect();
        fields.sort_by_key(|(_, bytes)| std::cmp::Reverse(bytes.all()));
        fields
    }

    pub(super) fn json(&self) -> Value {
        let parts: serde_json::Map<String, Value> =
            self.parts().into_iter().map(|(name, bytes)| (name.to_owned(), bytes.into())).collect();
        let fields = self.fields().into_iter().map(|(path, bytes)| {
            json!({
                "path": path, "bytes": bytes.all(), "columns": bytes.columns,
                "text_dictionary": bytes.text_dictionary, "exact_dictionary": bytes.exact_dictionary,
                "pairs": bytes.pairs, "postings": bytes.postings, "digest": bytes.digest,
            })
        });
        let versions = self.versions.iter().map(
            |(version, splits)| json!({ "version": version, "splits": splits.count, "bytes": splits.bytes }),
        );
        let files = self
            .files
            .iter()
            .map(|(kind, files)| json!({ "kind": kind, "files": files.count, "bytes": files.bytes }));
        json!({
            "bytes": self.all(), "parts": parts, "fields": fields.collect::<Vec<_>>(),
            "versions": versions.collect::<Vec<_>>(), "files": files.collect::<Vec<_>>(),
            "bytes_read": self.bytes_read,
        })
    }

    pub(super) fn say(&self) -> Result<()> {
        let all = self.all().max(1);
        let mut table = Table::new(&["part", "size>", "share>"]);
        let mut row = |name: String, bytes: u64| {
            let share = format!("{:.1} %", 100.0 * bytes as f64 / all as f64);
            table.row(vec![name, show_bytes(bytes), share]);
        };
        self.parts().into_iter().for_each(|(name, bytes)| row(name.replace('_', " "), bytes));
        for (kind, files) in &self.files {
            row(format!("{kind} ({})", show_count(files.count, "file")), files.bytes);
        }
        row("all".to_owned(), self.all());
        say!("{table}")?;
        for (version, splits) in &self.versions {
            say!("{} of version {version}, {}", show_count(splits.count, "split"), show_bytes(splits.bytes))?;
        }
        let heads = [
            "field",
            "size>",
            "columns>",
            "text dictionary>",
            "exact dictionary>",
            "pairs>",
            "postings>",
            "digest>",
        ];
        let mut table = Table::new(&heads);
        for (path, bytes) in self.fields() {
            let parts = [
                bytes.all(),
                bytes.columns,
                bytes.text_dictionary,
                bytes.exact_dictionary,
                bytes.pairs,
                bytes.postings,
                bytes.digest,
            ];
            table.row(std::iter::once(printable(path)).chain(parts.map(show_bytes)).collect());
        }
        say!("{table}")?;
        Ok(())
    }
}

async fn count_split(
    node: &Node,
    entry: &SplitEntry,
    meter: &Meter,
) -> frostline_base::Result<(u32, SplitBytes)> {
    let whole = Whole { node, entry, meter };
    let split = whole.open().await?;
    whole.know_all(&split).await?;
    let mut counts = ByteCounts::new(&split)?;
    for (block, bytes) in whole.blocks(split.text().table()).await? {
        counts.text_block(&block, &bytes)?;
    }
    for (block, bytes) in whole.blocks(split.exact().table()).await? {
        counts.exact_block(&block, &bytes)?;
    }
    for (block, bytes) in whole.blocks(split.pairs().table()).await? {
        counts.pairs_block(&block, &bytes)?;
    }
    for (block, bytes) in whole.blocks(&split.digest_table()).await? {
        counts.digest_block(&block, &bytes)?;
    }
    for (_, bytes) in whole.blocks(&split.origins_table()).await? {
        counts.origins_block(&bytes);
    }
    Ok((split.version(), counts.finish(entry.object.bytes, &entry.footer)?))
}
