//! Prices of requests: dated, built-in lists.

use std::collections::BTreeMap;

use frostline_base::{Cost, Error, Result};
use serde::{Deserialize, Serialize};

/// One provider's prices in US dollars: requests per 1,000, bytes per 10^9.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Its name in `prices.toml`.
    #[serde(default)]
    pub name: String,
    /// The store that is priced.
    pub title: String,
    /// The source of the prices.
    pub source: String,
    /// When they were last checked against the source, and how.
    pub checked: String,
    /// Reads.
    #[serde(default)]
    pub get: f64,
    /// Metadata requests.
    #[serde(default)]
    pub head: f64,
    /// Writes.
    #[serde(default)]
    pub put: f64,
    /// Pages of listings.
    #[serde(default)]
    pub list: f64,
    /// Deletions, per 1,000.
    #[serde(default)]
    pub delete: f64,
    /// 10^9 bytes received.
    #[serde(default)]
    pub read_gb: f64,
    /// 10^9 bytes sent.
    #[serde(default)]
    pub write_gb: f64,
    /// 10^9 bytes stored for a month.
    #[serde(default)]
    pub storage_month: f64,
}

impl Prices {
    /// The built-in list of this name.
    pub fn named(name: &str) -> Result<Prices> {
        let mut all = Self::all()?;
        let names: Vec<String> = all.keys().cloned().collect();
        all.remove(name).ok_or_else(|| {
            Error::invalid(format!("there is no price list {name:?}: use one of {}", names.join(", ")))
        })
    }

    /// Every built-in list, by name.
    pub fn all() -> Result<BTreeMap<String, Prices>> {
        let mut all: BTreeMap<String, Prices> = toml::from_str(include_str!("../prices.toml"))
            .map_err(|e| Error::internal("the built-in price list cannot be read").with_source(e))?;
        all.iter_mut().for_each(|(name, prices)| prices.name.clone_from(name));
        Ok(all)
    }

    /// Prices of stores that bill nothing.
    pub fn free() -> Prices {
        Prices {
            name: "free".into(),
            title: "directory or memory".into(),
            source: "nothing is billed".into(),
            checked: String::new(),
            get: 0.0,
            head: 0.0,
            put: 0.0,
            list: 0.0,
            delete: 0.0,
            read_gb: 0.0,
            write_gb: 0.0,
            storage_month: 0.0,
        }
    }

    /// The price of the requests and bytes of `cost`, in US dollars. Retries and hedges are included.
    pub fn usd(&self, cost: &Cost) -> f64 {
        let requests = [
            (cost.gets, self.get),
            (cost.heads, self.head),
            (cost.puts, self.put),
            (cost.lists, self.list),
            (cost.deletes, self.delete),
        ];
        let bytes = [(cost.bytes_read, self.read_gb), (cost.bytes_written, self.write_gb)];
        let requests: f64 = requests.iter().map(|(count, price)| *count as f64 / 1e3 * price).sum();
        let bytes: f64 = bytes.iter().map(|(count, price)| *count as f64 / 1e9 * price).sum();
        requests + bytes
    }

    /// The price of storing `bytes` for a month, in US dollars.
    pub fn usd_month(&self, bytes: u64) -> f64 {
        bytes as f64 / 1e9 * self.storage_month
    }
}

#[cfg(test)]
mod tests;
