//! `frostline serve`.

use anyhow::{Context, Result, bail};
use frostline_server::{Server, Settings, Tls};
use frostline_show::{say, say_json};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::Outcome;
use crate::args;
use crate::config::Config;
use crate::stopping::{Hangups, Stops};

pub(crate) async fn run(config: &Config, given: args::Serve) -> Result<Outcome> {
    raise_file_limit();
    let mut settings = Settings { listen: given.listen, auth: given.auth, ..Settings::default() };
    settings.version = env!("CARGO_PKG_VERSION");
    settings.tls = tls(&given)?;
    (settings.key_rate, settings.key_concurrency) = (given.key_rate, given.key_concurrency);
    (settings.slow_query, settings.slow_query_body) = (given.slow_query, given.slow_query_body);
    if given.no_upkeep {
        settings.upkeep = None;
    }
    let uses_tls = settings.tls.is_some();
    if settings.auth && !uses_tls && !settings.listen.ip().is_loopback() {
        tracing::warn!(
            "connections are not encrypted: give --tls-cert, or put a proxy with TLS before the server"
        );
    }
    let mut stops = Stops::new()?;
    let node = config.node_made()?;
    let url = node.repository().url().to_owned();
    let indices = node.catalog().list().await.with_context(|| format!("cannot read the repository {url}"))?;
    if indices.is_empty() {
        tracing::info!("there is no index in {url} yet");
    }
    let server = Server::bind(node, super::ingest::random(), settings).await?;
    let (reload, mut hangups) = (server.reload(), Hangups::new()?);
    let reloading = tokio::spawn(async move {
        while hangups.next().await {
            reload.now().await;
        }
    });
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
    reloading.abort();
    Ok(Outcome::Done)
}

/// The files of TLS, which belong together.
fn tls(given: &args::Serve) -> Result<Option<Tls>> {
    let client_ca = given.tls_client_ca.clone();
    match (given.tls_cert.clone(), given.tls_key.clone()) {
        (Some(certificate), Some(key)) => Ok(Some(Tls { certificate, key, client_ca })),
        (None, None) if client_ca.is_some() => {
            bail!("--tls-client-ca checks clients of TLS: give --tls-cert and --tls-key, too")
        }
        (None, None) => Ok(None),
        (Some(_), None) => bail!("--tls-cert needs --tls-key, the key of the certificate"),
        (None, Some(_)) => bail!("--tls-key needs --tls-cert, the certificate of the key"),
    }
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
