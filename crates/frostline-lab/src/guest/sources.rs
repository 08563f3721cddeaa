//! The sources of Debian packages: the host's own apt sources, so that an image is built from the mirror
//! and the keys that its administrator chose. No mirror is named here.

use std::fs;
use std::path::{Path, PathBuf};

use frostline_base::{Error, Result};

use super::io;

/// One place of packages: a line of `sources.list`, or a paragraph of a `.sources` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its address.
    pub uri: String,
    /// Its suites, such as `bookworm` and `bookworm-updates`.
    pub suites: Vec<String>,
    /// A file of keys, if one is named.
    pub signed_by: Option<PathBuf>,
}

/// The sources of binary packages that apt on the host below `root` (usually `/`) uses.
pub fn of_host(root: &Path) -> Result<Vec<Source>> {
    let apt = root.join("etc/apt");
    let mut files = vec![apt.join("sources.list")];
    if let Ok(entries) = fs::read_dir(apt.join("sources.list.d")) {
        files.extend(entries.flatten().map(|entry| entry.path()));
    }
    files.sort();
    let mut sources = Vec::new();
    for file in files {
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(io(e, "cannot read the package sources", &file)),
        };
        match file.extension().and_then(|e| e.to_str()) {
            Some("list") => sources.extend(text.lines().filter_map(one_line)),
            Some("sources") => sources.extend(text.split("\n\n").flat_map(paragraph)),
            _ => {}
        }
    }
    Ok(sources)
}

/// The lines of a `sources.list` for `suite` (and its backports), made of the host's sources.
///
/// # Errors
///
/// `NotFound` if no source of the host has the suite.
pub fn list_for(sources: &[Source], suite: &str, backports: bool) -> Result<String> {
    let (updates, security) = (format!("{suite}-updates"), format!("{suite}-security"));
    let mut lines = String::new();
    let mut main = None;
    for source in sources {
        for named in &source.suites {
            if [suite, &updates, &security].contains(&named.as_str()) {
                lines += &line(source, named);
            }
            if named == suite {
                main.get_or_insert(source);
            }
        }
    }
    let Some(main) = main else {
        return Err(Error::not_found(format!(
            "no apt source of this host has Debian {suite}; add one to /etc/apt/sources.list.d"
        )));
    };
    if backports {
        lines += &line(main, &format!("{suite}-backports"));
    }
    Ok(lines)
}

/// `contrib` holds zfs-dkms.
fn line(source: &Source, suite: &str) -> String {
    let options =
        source.signed_by.as_ref().map_or(String::new(), |keys| format!("[signed-by={}] ", keys.display()));
    format!("deb {options}{} {suite} main contrib\n", source.uri)
}

/// `deb [option=value] URI suite component…`
fn one_line(line: &str) -> Option<Source> {
    let rest = line.trim().strip_prefix("deb ")?.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => ("", rest),
    };
    let signed_by = options.split_whitespace().find_map(|option| option.strip_prefix("signed-by="));
    let mut words = rest.split_whitespace();
    let uri = words.next()?.to_owned();
    Some(Source { uri, suites: vec![words.next()?.to_owned()], signed_by: signed_by.map(PathBuf::from) })
}

/// A paragraph in the format of deb822; a field continues in lines that begin with a space.
fn paragraph(text: &str) -> Vec<Source> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = fields.last_mut() {
                *value += line;
            }
        } else if let Some((name, value)) = line.split_once(':') {
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    let field = |name: &str| fields.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value);
    let binary = field("types").split_whitespace().any(|kind| kind == "deb");
    let enabled = !field("enabled").eq_ignore_ascii_case("no");
    let suites: Vec<String> = field("suites").split_whitespace().map(str::to_owned).collect();
    // Keys may also be written out in the file; only a path can be passed on.
    let signed_by = Some(field("signed-by")).filter(|keys| keys.starts_with('/')).map(PathBuf::from);
    field("uris")
        .split_whitespace()
        .filter(|_| binary && enabled && !suites.is_empty())
        .map(|uri| Source { uri: uri.to_owned(), suites: suites.clone(), signed_by: signed_by.clone() })
        .collect()
}

#[cfg(test)]
mod tests;
