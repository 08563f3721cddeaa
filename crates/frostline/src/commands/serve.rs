//! `frostline serve`.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use frostline_server::{JwtSettings, Server, Settings, Tls};
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
    settings.jwt = given.jwt_issuer.clone().map(|issuer| JwtSettings {
        issuer,
        audiences: given.jwt_audience.clone(),
        jwks: given.jwt_jwks.clone(),
        user_claim: given.jwt_user_claim.clone(),
        roles: given.jwt_role.clone(),
    });
    (settings.key_rate, settings.key_concurrency) = (given.key_rate, given.key_concurrency);
    (settings.slow_query, settings.slow_query_body) = (given.slow_query, given.slow_query_body);
    settings = Settings {
        publish: given.publish,
        ingest_files: given.ingest_files,
        otlp_grpc: given.otlp_grpc,
        otlp_index: given.otlp_index,
        syslog: given.syslog,
        syslog_tls: given.syslog_tls,
        syslog_client_ca: given.syslog_client_ca,
        syslog_index: given.syslog_index,
        traces: config.traces.clone(),
        ..settings
    };
    if given.no_upkeep {
        settings.upkeep = None;
    }
    let uses_tls = settings.tls.is_some();
    let is_reached = |listen: SocketAddr| !listen.ip().is_loopback();
    let asking = [Some(settings.listen), settings.otlp_grpc];
    if settings.auth && !uses_tls && asking.into_iter().flatten().any(is_reached) {
        tracing::warn!(
            "connections are not encrypted: give --tls-cert, or put a proxy with TLS before the server"
        );
    }
    if settings.auth && settings.syslog.is_some_and(is_reached) {
        tracing::warn!(
            "syslog has no credentials: whoever reaches --syslog adds messages to {}",
            settings.syslog_index
        );
    }
    let checks = settings.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    let checks = checks || settings.syslog_client_ca.is_some();
    if settings.auth && !checks && settings.syslog_tls.is_some_and(is_reached) {
        tracing::warn!(
            "whoever reaches --syslog-tls adds messages to {}: give --syslog-client-ca",
            settings.syslog_index
        );
    }
    let mut stops = Stops::beyond_the_terminal()?;
    let node = config.node_sharing(given.share_answers)?;
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
    let doors = [
        ("otlp_grpc", "OpenTelemetry over gRPC", server.otlp_grpc_address()),
        ("syslog", "syslog over TCP and UDP", server.syslog_address()),
        ("syslog_tls", "syslog over TLS", server.syslog_tls_address()),
    ];
    let doors =
        doors.iter().filter_map(|(key, name, address)| Some((*key, *name, address.as_ref()?.to_string())));
    let scheme = if uses_tls { "https" } else { "http" };
    if config.json {
        let mut said = json!({ "listening": address, "first_key": server.first_key() });
        for (key, _, address) in doors {
            said[key] = json!(address);
        }
        say_json(&said)?;
    } else {
        say!("listening on {scheme}://{address}")?;
        for (_, name, address) in doors {
            say!("listening for {name} on {address}")?;
        }
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
