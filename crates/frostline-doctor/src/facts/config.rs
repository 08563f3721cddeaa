//! Configuration files of services: PostgreSQL, Elasticsearch and OpenSearch, the JVM.

use std::collections::BTreeMap;

/// `postgresql.conf`, line by line: names in lower case, values without quotes and comments. The last one of a name
/// wins; `include`, `include_if_exists` and `include_dir` stand for other files.
pub(crate) fn postgres(text: &str) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        let end = line.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.')).unwrap_or(line.len());
        let (name, rest) = line.split_at(end);
        if name.is_empty() {
            continue;
        }
        let rest = rest.trim_start().trim_start_matches('=').trim_start();
        let value = match rest.strip_prefix('\'') {
            Some(quoted) => quoted.split('\'').next().unwrap_or(""),
            None => rest.split(['#', ' ', '\t']).next().unwrap_or(""),
        };
        settings.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    settings
}

/// What the arguments of a PostgreSQL server set: `-c name=value`, `--name=value`, `-F` and `-B`.
pub(crate) fn postgres_arguments(arguments: &[String]) -> Vec<(String, String)> {
    let pair = |text: &str| {
        let (name, value) = text.split_once('=')?;
        Some((name.trim().replace('-', "_").to_ascii_lowercase(), value.trim().to_owned()))
    };
    let one = |(at, argument): (usize, &String)| {
        let next = arguments.get(at + 1);
        match argument.as_str() {
            "-F" => Some(("fsync".to_owned(), "off".to_owned())),
            "-B" => Some(("shared_buffers".to_owned(), next?.clone())),
            "-c" => pair(next?),
            long => pair(long.strip_prefix("--").or(long.strip_prefix("-c"))?),
        }
    };
    arguments.iter().enumerate().filter_map(one).collect()
}

/// The folder that a PostgreSQL server is told by `-D`.
pub(crate) fn postgres_folder(arguments: &[String]) -> Option<String> {
    arguments.iter().enumerate().find_map(|(at, argument)| match argument.strip_prefix("-D")? {
        "" => arguments.get(at + 1).cloned(),
        folder => Some(folder.to_owned()),
    })
}

/// A PostgreSQL amount of memory in bytes; `unit` is that of a bare number (8,192 for buffers).
pub(crate) fn postgres_bytes(value: &str, unit: f64) -> Option<f64> {
    let end = value.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(value.len());
    let number: f64 = value[..end].parse().ok()?;
    let scale = match value[end..].trim() {
        "" => unit,
        "B" => 1.0,
        "kB" => 1024.0,
        "MB" => 1024.0 * 1024.0,
        "GB" => 1024.0 * 1024.0 * 1024.0,
        "TB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some(number * scale)
}

/// The part of YAML that node settings use: `a.b: value` and nested mappings, as dotted names. Lists,
/// anchors and multi-line text are left out.
pub(crate) fn yaml(text: &str) -> BTreeMap<String, String> {
    const DEPTH_MAX: usize = 32;
    let mut settings = BTreeMap::new();
    let mut path: Vec<(usize, String)> = Vec::new();
    for line in text.lines() {
        let trimmed = line.trim_start();
        if let Some(item) = trimmed.strip_prefix("- ") {
            // Items may stand below the first letter of their name.
            path.retain(|(depth, _)| *depth <= line.len() - trimmed.len());
            let full: Vec<&str> = path.iter().map(|(_, name)| name.as_str()).collect();
            let item = item.split(" #").next().unwrap_or("").trim();
            let list: &mut String = settings.entry(full.join(".")).or_default();
            *list = match list.strip_suffix(']') {
                Some(items) => format!("{items}, {item}]"),
                None => format!("[{item}]"),
            };
            continue;
        }
        let Some((name, value)) = trimmed.split_once(':').filter(|_| !trimmed.starts_with(['#', '-', '{']))
        else {
            continue;
        };
        let indent = line.len() - trimmed.len();
        path.retain(|(depth, _)| *depth < indent);
        let name = name.trim().trim_matches(['"', '\'']);
        let value = value.split(" #").next().unwrap_or("").trim().trim_matches(['"', '\'']);
        if value.is_empty() && path.len() < DEPTH_MAX {
            path.push((indent, name.to_owned()));
        } else {
            let mut full: Vec<&str> = path.iter().map(|(_, name)| name.as_str()).collect();
            full.push(name);
            settings.insert(full.join("."), value.to_owned());
        }
    }
    settings
}

/// The items of a list on one line, or its only value.
pub(crate) fn items(text: &str) -> Vec<&str> {
    let items = text.trim_start_matches('[').trim_end_matches(']').split(',');
    items.map(|item| item.trim().trim_matches(['"', '\''])).filter(|item| !item.is_empty()).collect()
}

/// What the options of a JVM say about its heap, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Heap {
    /// `-Xms`
    pub(crate) initial: Option<f64>,
    /// `-Xmx`
    pub(crate) most: Option<f64>,
}

/// The heap of JVM options, one a word, as in `jvm.options` (`#` comments, `8-13:` version prefixes) or on
/// a command line. The last one wins, as in the JVM. The error names a size that is none.
pub(crate) fn heap<'a>(options: impl Iterator<Item = &'a str>) -> Result<Heap, String> {
    let mut heap = Heap::default();
    let size = |value: &str| jvm_bytes(value).ok_or_else(|| format!("{value} is not a size of a heap"));
    for option in options {
        let (_, option) = of_versions(option.trim());
        if let Some(value) = option.strip_prefix("-Xms") {
            heap.initial = Some(size(value)?);
        } else if let Some(value) = option.strip_prefix("-Xmx") {
            heap.most = Some(size(value)?);
        }
    }
    Ok(heap)
}

/// An option of a JVM after the prefix, such as `11-:`, that limits it to versions of Java.
pub(crate) fn of_versions(option: &str) -> (&str, &str) {
    let end = option.find(|c: char| !c.is_ascii_digit() && c != '-' && c != ':').unwrap_or(0);
    let end = option[..end].find(':').map_or(0, |at| at + 1);
    option.split_at(end)
}

fn jvm_bytes(value: &str) -> Option<f64> {
    let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let number: f64 = value[..end].parse().ok()?;
    let power = match value[end..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return None,
    };
    Some(number * 1024f64.powi(power))
}

/// What Frostline's configuration says of folders.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Frostline {
    /// Where the write-ahead log lives, with everything else that is not on a volume.
    pub(crate) data: Option<String>,
    /// Where regions are cached.
    pub(crate) volumes: Vec<String>,
}

/// Frostline's `config.toml`; nothing where it is no TOML.
pub(crate) fn frostline(text: &str) -> Option<Frostline> {
    let table = text.parse::<toml::Table>().ok()?;
    let data = table.get("data").and_then(toml::Value::as_str).map(str::to_owned);
    let volumes = table.get("volumes").and_then(toml::Value::as_array).into_iter().flatten();
    Some(Frostline {
        data,
        volumes: volumes.filter_map(|volume| volume.as_str().map(str::to_owned)).collect(),
    })
}
