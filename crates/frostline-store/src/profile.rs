//! The profile files of the AWS command line (`~/.aws/credentials`, `~/.aws/config`).
//!
//! Used only if the environment has no keys and no role, which is the order of AWS's own tools.

use std::collections::BTreeMap;
use std::path::PathBuf;

use frostline_base::{Error, Result};

type Sections = BTreeMap<String, BTreeMap<String, String>>;

/// The settings of the profile that `environment` chooses, under the names that `object_store` gives them.
pub(crate) fn read(environment: &BTreeMap<String, String>) -> Result<Vec<(String, String)>> {
    let (config, credentials) = (
        file(environment, "AWS_CONFIG_FILE", "config"),
        file(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials"),
    );
    let wanted = environment
        .get("AWS_PROFILE")
        .or(environment.get("AWS_DEFAULT_PROFILE"))
        .filter(|name| !name.is_empty());
    let name = wanted.map_or("default", String::as_str);
    let in_config = if name == "default" { "default".to_owned() } else { format!("profile {name}") };
    let mut settings = config.get(&in_config).cloned().unwrap_or_default();
    settings.extend(credentials.get(name).cloned().unwrap_or_default());
    if wanted.is_some() && settings.is_empty() {
        return Err(Error::invalid(format!(
            "there is no AWS profile {name:?}: check AWS_PROFILE and ~/.aws/config"
        )));
    }
    let found_elsewhere = [
        "AWS_ACCESS_KEY_ID",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ];
    if found_elsewhere.iter().any(|key| environment.contains_key(*key)) {
        settings.retain(|key, _| {
            !matches!(key.as_str(), "aws_access_key_id" | "aws_secret_access_key" | "aws_session_token")
        });
    }
    Ok(settings.into_iter().filter_map(renamed).collect())
}

fn renamed((key, value): (String, String)) -> Option<(String, String)> {
    let name = match key.as_str() {
        "aws_access_key_id" | "aws_secret_access_key" | "aws_session_token" => key.as_str(),
        "region" => "aws_region",
        "endpoint_url" => "aws_endpoint_url",
        _ => return None,
    };
    Some((name.to_owned(), value))
}

fn file(environment: &BTreeMap<String, String>, variable: &str, name: &str) -> Sections {
    let home = || environment.get("HOME").map(|home| PathBuf::from(home).join(".aws").join(name));
    let path = environment.get(variable).map(PathBuf::from).or_else(home);
    // A missing or unreadable file has no settings.
    path.and_then(|path| std::fs::read_to_string(path).ok()).map(|text| parse(&text)).unwrap_or_default()
}

fn parse(text: &str) -> Sections {
    let mut sections = Sections::new();
    let mut current = String::new();
    for line in text.lines() {
        // An indented line belongs to a nested setting, which is never one of ours.
        let nested = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) || nested {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.split_once(']')).map(|(name, _)| name) {
            current = name.split_whitespace().collect::<Vec<_>>().join(" ");
        } else if let Some((key, value)) = line.split_once('=') {
            sections
                .entry(current.clone())
                .or_default()
                .insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    sections
}

#[cfg(test)]
mod tests;
