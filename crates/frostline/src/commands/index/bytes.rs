//! Where the bytes of an index go: `frostline index show --bytes`.

use anyhow::Result;
use frostline_node::Stored;
use frostline_show::{Table, printable, say, show_bytes, show_count};
use frostline_split::FieldBytes;
use serde_json::{Value, json};

/// The bytes of an index, as they are shown.
pub(super) struct IndexBytes(pub(super) Stored);

impl IndexBytes {
    fn parts(&self) -> [(&'static str, u64); 10] {
        let parts = &self.0.parts;
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
        let mut fields: Vec<_> = self.0.fields.iter().map(|(path, bytes)| (path.as_str(), bytes)).collect();
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
        let versions = self.0.versions.iter().map(
            |(version, splits)| json!({ "version": version, "splits": splits.count, "bytes": splits.bytes }),
        );
        let files = self
            .0
            .files
            .iter()
            .map(|(kind, files)| json!({ "kind": kind, "files": files.count, "bytes": files.bytes }));
        json!({
            "bytes": self.0.bytes(), "parts": parts, "fields": fields.collect::<Vec<_>>(),
            "versions": versions.collect::<Vec<_>>(), "files": files.collect::<Vec<_>>(),
            "bytes_read": self.0.bytes_read,
        })
    }

    pub(super) fn say(&self) -> Result<()> {
        let all = self.0.bytes().max(1);
        let mut table = Table::new(&["part", "size>", "share>"]);
        let mut row = |name: String, bytes: u64| {
            let share = format!("{:.1} %", 100.0 * bytes as f64 / all as f64);
            table.row(vec![name, show_bytes(bytes), share]);
        };
        self.parts().into_iter().for_each(|(name, bytes)| row(name.replace('_', " "), bytes));
        for (kind, files) in &self.0.files {
            row(format!("{kind} ({})", show_count(files.count, "file")), files.bytes);
        }
        row("all".to_owned(), self.0.bytes());
        say!("{table}")?;
        for (version, splits) in &self.0.versions {
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
