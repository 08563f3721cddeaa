//! Options from the command line, the environment and a TOML file, in that order of weight.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::args::Global;

/// The options that every command sees, complete.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    repo: Option<String>,
    pub(crate) data: PathBuf,
    pub(crate) volumes: Vec<PathBuf>,
    pub(crate) memory_bytes_max: u64,
    pub(crate) json: bool,
}

/// The configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    repo: Option<String>,
    data: Option<PathBuf>,
    volumes: Option<Vec<PathBuf>>,
    memory: Option<String>,
    json: Option<bool>,
}

impl Config {
    pub(crate) fn load(given: Global) -> Result<Config> {
        let file = match &given.config {
            Some(path) => File::read(path)?,
            None => {
                match user_folder("XDG_CONFIG_HOME", ".config").map(|folder| folder.join("config.toml")) {
                    Some(path) if path.exists() => File::read(&path)?,
                    _ => File::default(),
                }
            }
        };
        let memory = given.memory.or(file.memory).unwrap_or_else(|| "2GiB".to_owned());
        let data = given.data.or(file.data).or_else(|| user_folder("XDG_CACHE_HOME", ".cache"));
        let Some(data) = data else { bail!("there is no home folder to keep caches in: pass --data DIR") };
        Ok(Config {
            repo: given.repo.or(file.repo),
            data,
            volumes: if given.volumes.is_empty() { file.volumes.unwrap_or_default() } else { given.volumes },
            memory_bytes_max: parse_bytes(&memory).context("--memory")?,
            json: given.json || file.json.unwrap_or(false),
        })
    }

    /// The repository; without one nothing can be searched.
    pub(crate) fn repo(&self) -> Result<&str> {
        self.repo.as_deref().context(
            "no repository is named: pass --repo URL (s3://bucket/prefix, a directory, …), set FROSTLINE_REPO, or put \
             repo = \"…\" into the configuration file",
        )
    }

    /// The same options for another repository and data directory.
    pub(crate) fn at(&self, repo: &str, data: &Path) -> Config {
        Config { repo: Some(repo.to_owned()), data: data.to_owned(), volumes: Vec::new(), ..self.clone() }
    }
}

impl File {
    fn read(path: &Path) -> Result<File> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is not a configuration file", path.display()))
    }
}

fn user_folder(variable: &str, below_home: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let folder = named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(below_home)))?;
    Some(folder.join("frostline"))
}

/// Reads a number of bytes: `1048576`, `64MiB`, `10GB`, `1.5g`.
pub(crate) fn parse_bytes(text: &str) -> Result<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        _ => bail!("{text:?} is not a size: write bytes or a unit such as KiB, MB, GiB"),
    };
    let number: f64 =
        number.parse().ok().with_context(|| format!("{text:?} is not a size: it starts with a number"))?;
    Ok((number * factor as f64) as u64)
}

/// `1 split`, `2 splits`.
pub(crate) fn show_count(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Bytes for people: three digits and a unit of 1,000.
pub(crate) fn show_bytes(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1_000.0;
        unit += 1;
    }
    let decimals = if unit == 0 || value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.decimals$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_units() {
        for (text, bytes) in [("12", 12), ("1KiB", 1024), ("1.5 GB", 1_500_000_000), ("2g", 2 << 30)] {
            assert_eq!(parse_bytes(text).ok(), Some(bytes), "{text}");
        }
        for text in ["", "x", "1 parsec", "1..2"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_shown_with_three_digits() {
        for (bytes, text) in
            [(0, "0 B"), (999, "999 B"), (1_000, "1.00 kB"), (12_345, "12.3 kB"), (999_900, "1.00 MB")]
        {
            assert_eq!(show_bytes(bytes), text);
        }
    }
}
