//! The settings of a node.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a node works on, and how much of the machine it may use.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Where the indices live: the URL of a bucket or a prefix of one, or a directory.
    pub repo: String,
    /// Whether a repository that is a directory is made where it is missing.
    pub create: bool,
    /// Where caches and mounts live. Repositories share it: each has its own folder.
    pub data: PathBuf,
    /// Directories, one a device, over which the region cache is striped; none for one below `data`.
    pub volumes: Vec<PathBuf>,
    /// Memory of queries: sorted rows, aggregation states, columns that are being read.
    pub memory_bytes_max: u64,
    /// What one query may hold of it; none for half.
    pub query_bytes_max: Option<u64>,
    /// What partial answers may take on disk.
    pub results_bytes_max: u64,
    /// Partial answers of smaller splits are not kept. A process that ingests while it searches has many, and merges them
    /// within a minute.
    pub results_split_bytes_min: u64,
    /// Whether partial answers that took much to find are also kept in the repository, for other machines. Writing them
    /// needs permission to put objects.
    pub share_answers: bool,
    /// Where the repository has not answered for so long, requests to it fail at once; none for a process that waits as long
    /// as each of its requests may take.
    pub outage_ms: Option<u64>,
}

impl Settings {
    /// The repository at `repo`, with caches below `data` and everything else as recommended.
    pub fn new(repo: impl Into<String>, data: impl Into<PathBuf>) -> Settings {
        Settings {
            repo: repo.into(),
            create: false,
            data: data.into(),
            volumes: Vec::new(),
            memory_bytes_max: 2 << 30,
            query_bytes_max: None,
            results_bytes_max: 1 << 30,
            results_split_bytes_min: 0,
            share_answers: false,
            outage_ms: None,
        }
    }

    /// Names the repository's folder below `data`: the same whether or not its latency is simulated.
    pub fn repo_key(&self) -> String {
        let place = self.repo.strip_prefix("sim+").unwrap_or(&self.repo);
        let place = place.split('?').next().unwrap_or(place);
        let place = place.strip_prefix("file://").unwrap_or(place).trim_end_matches('/');
        let whole = if place.contains("://") || place.starts_with("memory:") {
            place.to_owned()
        } else {
            std::path::absolute(place).map_or_else(|_| place.to_owned(), |path| path.display().to_string())
        };
        format!("{:016x}", xxhash_rust::xxh3::xxh3_64(whole.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulated_repository_shares_the_folder_of_the_real_one() {
        let key = |repo: &str| Settings::new(repo, "data").repo_key();
        assert_eq!(key("sim+file:///logs?profile=measured&seed=1"), key("/logs/"));
        assert_eq!(key("s3://bucket/a"), key("sim+s3://bucket/a/"));
        assert_ne!(key("s3://bucket/a"), key("s3://bucket/b"));
    }
}
