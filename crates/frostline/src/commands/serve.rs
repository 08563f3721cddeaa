//! `frostline serve`.

use anyhow::{Context, Result};
use frostline_server::{Server, Settings, Tls};
use frostline_show::{note, say, say_json};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::Outcome;
use crate::args;
use crate::config::Config;
use crate::stopping::Stops;

pub(crate) async fn run(config: &Config, given: args::Serve) -> Result<Outcome> {
    raise_file_limit();
    let mut settings = Settings { listen: given.listen, auth: given.auth, ..Settings::default() };
    settings.tls = given.tls_cert.zip(given.tls_key).map(|(certificate, key)| Tls { certificate, key });
    if given.no_upkeep {
        settings.upkeep = None;
    }
    let uses_tls = settings.tls.is_some();
    if settings.auth && !uses_tls && !settings.listen.ip().is_loopback() {
        note!("connections are not encrypted: give --tls-cert, or put a proxy with TLS before the server");
    }
    let mut stops = Stops::new()?;
    let node = config.node_made()?;
    let url = node.repository().url().to_owned();
    let indices = node.catalog().list().await.with_context(|| format!("cannot read the repository {url}"))?;
    if indices.is_empty() {
        note!("there is no index in {url} yet");
    }
    let server = Server::bind(node, super::ingest::random(), settings).await?;
    let address = server.address();
    let scheme = if uses_tls { "https" } else { "http" };
    if config.json {
        say_json(&json!({ "listening": address, "first_key": server.first_key() }))?;
    } else {
        say!("listening on {scheme}://{address}")?;
        if let Some(key) = server.first_key() {
            say!("the first key, which is not shown again: ApiKey {key}")?;
        }
    }
    server.run(async move { stops.next().await }).await;
    Ok(Outcome::Done)
}

/// Allows as many open files as the system lets this process have: each connection is one.
fn raise_file_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}
