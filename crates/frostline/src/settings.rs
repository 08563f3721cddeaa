//! The settings of `serve`, from the command line, the environment and the `[serve]` table of the configuration file, in
//! order of precedence.
//!
//! Whatever is an option of `serve` is a setting, of the same name with underscores, and a variable `FROSTLINE_…`. What is
//! not on the command line is read as if it were, so that it is checked in the same way.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};
use frostline_show::suggestion;
use toml::{Table, Value};

use crate::args;
use crate::config::Config;

/// An option that the command line lacks, and where its value is from.
struct Found {
    long: String,
    values: Vec<String>,
    source: String,
}

/// The options of `serve`, completed from the environment and `file`.
pub(crate) fn complete(
    matches: &ArgMatches,
    typed: &[OsString],
    variable: impl Fn(&str) -> Result<Option<String>>,
    file: Option<(&Path, &Table)>,
) -> Result<ArgMatches> {
    let given = matches.subcommand_matches("serve").context("serve is the command")?;
    let options = options();
    if let Some((path, table)) = file {
        let keys = || options.iter().map(key);
        if let Some(unknown) = table.keys().find(|name| !keys().any(|key| key == **name)) {
            let known: Vec<String> = keys().collect();
            let suggestion = suggestion(unknown, known.iter().map(String::as_str));
            bail!("{}: [serve] has no setting {unknown}{suggestion}", path.display());
        }
    }
    let mut found = Vec::new();
    for option in &options {
        if given.value_source(option.get_id().as_str()) != Some(ValueSource::CommandLine) {
            found.extend(find(option, &variable, file)?);
        }
    }
    let mut all = typed.to_vec();
    for Found { long, values, .. } in &found {
        all.extend(values.iter().map(|value| match value.as_str() {
            // Of a switch.
            "" => OsString::from(format!("--{long}")),
            value => OsString::from(format!("--{long}={value}")),
        }));
    }
    args::command().try_get_matches_from(all).map_err(|error| {
        let text = error.to_string();
        let text = text.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default().trim();
        let about = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(about)) => about.as_str(),
            _ => "",
        };
        let option = about.trim_start_matches("--").split(' ').next().unwrap_or_default();
        match found.iter().find(|found| found.long == option) {
            Some(found) => anyhow::anyhow!("{}: {text}", found.source),
            None => anyhow::anyhow!("{text}"),
        }
    })
}

/// The options of `serve` alone that are settings.
fn options() -> Vec<Arg> {
    let command = args::command();
    let serve = command.find_subcommand("serve");
    let own = serve.into_iter().flat_map(|serve| serve.get_arguments());
    own.filter(|option| option.get_long().is_some_and(|long| !ONCE.contains(&long))).cloned().collect()
}

/// What is said to one run.
const ONCE: [&str; 3] = ["help", "print-config", "version"];

fn key(option: &Arg) -> String {
    option.get_long().unwrap_or_default().replace('-', "_")
}

/// The variable of an option.
pub(crate) fn variable(option: &Arg) -> String {
    format!("FROSTLINE_{}", key(option).to_uppercase())
}

fn is_switch(option: &Arg) -> bool {
    matches!(option.get_action(), ArgAction::SetTrue)
}

/// What the environment, or else the file, says of an option.
fn find(
    option: &Arg,
    variable_of: impl Fn(&str) -> Result<Option<String>>,
    file: Option<(&Path, &Table)>,
) -> Result<Option<Found>> {
    let long = option.get_long().unwrap_or_default().to_owned();
    let is_list = matches!(option.get_action(), ArgAction::Append);
    let name = variable(option);
    if let Some(text) = variable_of(&name)? {
        let values = match (is_switch(option), is_list) {
            (true, _) => on(is_true(&text)),
            (false, true) => text.split(',').map(str::to_owned).collect(),
            (false, false) => vec![text],
        };
        return Ok(Some(Found { long, values, source: name }));
    }
    let Some((path, table)) = file else { return Ok(None) };
    let Some(value) = table.get(&key(option)) else { return Ok(None) };
    let source = format!("{}: {} in [serve]", path.display(), key(option));
    let values = match (value, is_switch(option)) {
        (Value::Boolean(is_on), true) => on(*is_on),
        (_, true) => bail!("{source} is true or false, not {value}"),
        (Value::Array(items), false) if is_list => {
            items.iter().map(|item| scalar(item, &source)).collect::<Result<_>>()?
        }
        (value, false) => vec![scalar(value, &source)?],
    };
    Ok(Some(Found { long, values, source }))
}

fn on(is_on: bool) -> Vec<String> {
    if is_on { vec![String::new()] } else { Vec::new() }
}

fn scalar(value: &Value, source: &str) -> Result<String> {
    match value {
        Value::String(text) if text.is_empty() => bail!("{source} is empty: omit it"),
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        other => bail!("{source} is a text or a number, not {other}"),
    }
}

/// What a variable says that is a switch.
pub(crate) fn is_true(text: &str) -> bool {
    !matches!(text.to_lowercase().as_str(), "" | "n" | "no" | "f" | "false" | "off" | "0")
}

/// The configuration file that says what `config` and `matches` do, with what each setting means.
pub(crate) fn print(config: &Config, matches: &ArgMatches) -> Result<String> {
    let mut page = "# Settings of frostline serve, for --config FILE. Those that are commented out have their default.\n\
                    # An option overrides its environment variable, and that overrides this file.\n"
        .to_owned();
    let command = args::command();
    for option in command.get_arguments().filter(|option| option.get_long() != Some("config")) {
        let set = config.set.get(key(option).as_str()).cloned();
        setting(&mut page, option, set)?;
    }
    page.push_str("\n[serve]\n");
    let given = matches.subcommand_matches("serve").context("serve is the command")?;
    for option in options() {
        let id = option.get_id().as_str();
        let is_set = given.value_source(id).is_some_and(|source| source != ValueSource::DefaultValue);
        let raw = given.get_raw(id).filter(|_| is_set).into_iter().flatten();
        let mut texts: Vec<String> = raw.map(|text| text.to_string_lossy().into_owned()).collect();
        let set = match (is_set, is_switch(&option), matches!(option.get_action(), ArgAction::Append)) {
            (false, ..) => None,
            (_, true, _) => Some(Value::Boolean(true)),
            (_, _, true) => Some(Value::Array(texts.into_iter().map(Value::String).collect())),
            (..) => texts.pop().map(|text| number_or_text(&text)),
        };
        setting(&mut page, &option, set)?;
    }
    Ok(page)
}

fn number_or_text(text: &str) -> Value {
    match text.parse::<i64>() {
        Ok(number) if number.to_string() == text => Value::Integer(number),
        _ => Value::String(text.to_owned()),
    }
}

/// The lines of one setting.
fn setting(page: &mut String, option: &Arg, set: Option<Value>) -> Result<()> {
    let help = option.get_help().map(ToString::to_string).unwrap_or_default().replace('\n', " ");
    let noted = |what: &str| {
        let (_, rest) = help.split_once(&format!("[{what}: "))?;
        rest.split_once(']').map(|(text, _)| text.to_owned())
    };
    let meaning = help.split(" [env: ").next().unwrap_or_default();
    let meaning = meaning.split(" [default: ").next().unwrap_or_default();
    let default = option.get_default_values().first().map(|value| value.to_string_lossy().into_owned());
    let variable = noted("env").unwrap_or_else(|| variable(option));
    let shown = match (default.as_deref(), noted("default")) {
        _ if is_switch(option) => "false".to_owned(),
        (Some(default), _) => default.to_owned(),
        (None, Some(default)) => default,
        (None, None) => "none".to_owned(),
    };
    let long = option.get_long().unwrap_or_default();
    writeln!(page, "\n# {meaning}.\n# --{long}, {variable}; default: {shown}")?;
    let example = || match (default, is_switch(option)) {
        (_, true) => Value::Boolean(false),
        (Some(default), _) => number_or_text(&default),
        (None, _) => {
            let name = option.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
            let name = Value::String(name.unwrap_or_default());
            match option.get_action() {
                ArgAction::Append => Value::Array(vec![name]),
                _ => name,
            }
        }
    };
    match set {
        Some(value) => writeln!(page, "{} = {value}", key(option))?,
        None => writeln!(page, "# {} = {}", key(option), example())?,
    }
    Ok(())
}

#[cfg(test)]
mod tests;
