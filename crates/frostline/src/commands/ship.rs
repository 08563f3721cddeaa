//! `frostline ship`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use frostline_base::SystemClock;
use frostline_ingest::{Cancel, Format, Inputs};
use frostline_ship::{Access, Api, Credentials, Http, Ship, ShipOptions, ShipProgress, ShipReport};
use frostline_show::{note, printable, say, say_json, show_bytes, show_count};
use indicatif::ProgressBar;

use super::ingest::{Rejects, progress_bar, random, stop_on_signals};
use crate::Outcome;
use crate::args;
use crate::config::{Config, variable};

/// Lines of a followed file wait so long for others.
const WAIT: Duration = Duration::from_secs(1);
const RETRY_ONCE: Duration = Duration::from_secs(300);

pub(crate) async fn run(config: &Config, given: args::Ship) -> Result<Outcome> {
    if given.follow && given.inputs.iter().any(|input| input.as_os_str() == "-") {
        bail!("standard input is always read until it ends: write --once");
    }
    let (api, url) = Api::of(&given.to);
    let access = access(url, &given.access).await?;
    let http = Http::new(&access)?;
    let place = place(&given.to, given.index.as_deref());
    let below = |folder: &str, ending: &str| config.data.join(folder).join(format!("{place}{ending}"));
    let options = ShipOptions {
        api,
        index: given.index.clone(),
        format: given.format.parse::<Format>()?,
        time_field: given.time_field.clone(),
        multiline: given.multiline.parse().context("--multiline")?,
        state: given.state.clone().unwrap_or_else(|| below("ship", ".json")),
        connections: usize::from(given.connections),
        wait: WAIT,
        retry_for: given.retry_for.or(given.once.then_some(RETRY_ONCE)),
    };
    let rejects = given.rejects.clone().unwrap_or_else(|| below("rejects", ".ndjson"));
    let inputs =
        if given.follow { Inputs::default() } else { Inputs::without(&config.own(), &given.inputs)? };
    let (cancel, bar) = (Cancel::default(), progress_bar(inputs.bytes()));
    let shown = bar.clone();
    let ship = Ship {
        post: Arc::new(http),
        clock: Arc::new(SystemClock),
        random: random(),
        rejects: Box::new(Rejects::new(rejects.clone())),
        cancel: cancel.clone(),
        tell: Arc::new(|text| note!("{}", printable(text))),
        progress: Arc::new(move |progress| show(&shown, progress)),
        own: config.own(),
        wait: None,
        pause: None,
    };
    let stopping = tokio::spawn(stop_on_signals(cancel, "sending"));
    let (watched, follow) = (given.inputs, given.follow);
    let report = tokio::task::spawn_blocking(move || match follow {
        true => ship.follow(watched, &options),
        false => ship.run(inputs, &options),
    });
    let report = report.await.context("the run ended by a bug")?;
    stopping.abort();
    bar.finish_and_clear();
    let report = report.with_context(|| format!("cannot ship to {}", given.to))?;
    if config.json {
        say_json(&report)?;
    } else {
        print(&report, &given.to, &rejects)?;
    }
    if report.documents + report.already_there == 0
        && (report.refused_total() > 0 || !report.failed.is_empty())
    {
        bail!("nothing was shipped to {}", given.to);
    }
    Ok(Outcome::of(report.cancelled && !follow, report.failed.is_empty()))
}

/// Who asks, from options, files and the environment.
pub(super) async fn access(url: &str, given: &args::Access) -> Result<Access> {
    let secret = |file: Option<PathBuf>, name: &'static str| async move {
        match file {
            None => variable(name),
            Some(path) => {
                let text = tokio::fs::read_to_string(&path).await;
                let text = text.with_context(|| format!("cannot read {}", path.display()))?;
                Ok(Some(text.trim().to_owned()))
            }
        }
    };
    let user = match &given.user {
        Some(user) => Some(user.clone()),
        None if given.api_key_file.is_some() => None,
        None => variable("FROSTLINE_USER")?,
    };
    let credentials = match user {
        Some(user) => {
            let password = secret(given.password_file.clone(), "FROSTLINE_PASSWORD").await?;
            let password = password.with_context(|| {
                format!("no password for {user}: pass --password-file FILE or set FROSTLINE_PASSWORD")
            })?;
            Some(Credentials::Basic(user, password))
        }
        None => {
            let key = secret(given.api_key_file.clone(), "FROSTLINE_API_KEY").await?;
            // As `serve --auth` prints it, for a header.
            key.map(|key| Credentials::ApiKey(key.trim_start_matches("ApiKey ").trim().to_owned()))
        }
    };
    let ca = given.ca.clone().or(variable("FROSTLINE_CA")?.map(PathBuf::from));
    Ok(Access { url: url.to_owned(), credentials, ca })
}

/// A name for files about this destination, different for each.
fn place(url: &str, index: Option<&str>) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let escaped = |text: &str| -> String {
        text.bytes()
            .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
            .collect()
    };
    format!("{},{}", escaped(url.trim_end_matches('/')), escaped(index.unwrap_or_default()))
}

fn show(bar: &ProgressBar, progress: &ShipProgress) {
    bar.set_position(progress.bytes_read);
    let mut message = format!("{} documents", progress.documents);
    if progress.refused > 0 {
        message.push_str(&format!(", {} refused", progress.refused));
    }
    bar.set_message(message);
}

fn print(report: &ShipReport, url: &str, rejects: &Path) -> Result<()> {
    say!(
        "{} shipped to {url}: {} read, {} sent in {}",
        show_count(report.documents, "document"),
        show_bytes(report.bytes_read),
        show_bytes(report.bytes_sent),
        show_count(report.requests, "request")
    )?;
    if report.already_there > 0 {
        say!("{} there already", show_count(report.already_there, "document"))?;
    }
    for input in &report.already_shipped {
        say!("already shipped: {}", printable(input))?;
    }
    for input in &report.resumed {
        say!("resumed: {}", printable(input))?;
    }
    for skipped in &report.skipped {
        note!("skipped {}: {}", printable(&skipped.name), printable(&skipped.reason));
    }
    for name in &report.unfinished {
        note!("the last line of {} has no end yet; it waits for the next run", printable(name));
    }
    for failed in &report.failed {
        note!("failed: {}: {}", printable(&failed.name), printable(&failed.reason));
    }
    if !report.refused.is_empty() {
        let reasons: Vec<String> =
            report.refused.iter().map(|(reason, count)| format!("{count} {}", printable(reason))).collect();
        let lines = show_count(report.refused.values().sum(), "line");
        note!("{lines} refused ({}): appended to {}", reasons.join(", "), rejects.display());
    }
    if report.refused_unnamed > 0 {
        note!("{} refused, and the server does not say which", show_count(report.refused_unnamed, "record"));
    }
    if report.cancelled {
        note!("stopped: run the same command again to resume");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_destination_has_files_of_its_own() {
        assert_eq!(place("http://a.b:9200/", Some("logs-x")), "http%3A%2F%2Fa.b%3A9200,logs-x");
        assert_ne!(place("http://a/b", None), place("http://a", Some("b")));
    }
}
