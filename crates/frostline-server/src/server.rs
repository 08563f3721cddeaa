//! Connections: accepted, served, and drained.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use frostline_base::{Error, Result};
use frostline_ingest::{Random, Upkeep};
use frostline_node::Node;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot, watch};

use crate::api::security::first_key;
use crate::patience::Patience;
use crate::service::{Peer, Service};
use crate::settings::Settings;
use crate::state::State;
use crate::tls::Reloading;

/// How long the server waits where it cannot accept a connection: others have to end first.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The longest head of a request.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    upkeep: Option<Upkeep>,
    state: Arc<State>,
    first_key: Option<String>,
    tls: Option<Arc<Reloading>>,
}

/// Makes a server look at the files of its certificate at once.
#[derive(Clone, Debug)]
pub struct Reload(Option<Arc<Reloading>>);

impl Reload {
    /// Uses the files as they are now for the connections that come, if they have changed and can be used.
    pub async fn now(&self) {
        let Some(tls) = self.0.clone() else { return };
        // Files are read. Where that panics, the certificate stays.
        let _ = tokio::task::spawn_blocking(move || tls.reload()).await;
    }
}

impl Server {
    /// Listens for requests over a node's repository. `Invalid` where the address is not on loopback and clients are not
    /// asked who they are: whoever reaches the server may read and delete everything.
    ///
    /// Names of what is written come from `random`.
    pub async fn bind(node: Node, random: Random, settings: Settings) -> Result<Server> {
        let listen = settings.listen;
        if !settings.auth && !listen.ip().is_loopback() {
            return Err(Error::invalid(format!(
                "cannot listen on {listen}: without --auth everybody may do everything, so that the server is reached \
                 from this machine alone; say --auth, or listen on 127.0.0.1 or [::1]"
            )));
        }
        if !settings.auth && (settings.key_rate.is_some() || settings.key_concurrency.is_some()) {
            return Err(Error::invalid(
                "--key-rate and --key-concurrency limit keys and users, which --auth asks for: say --auth",
            ));
        }
        let failed =
            |e: std::io::Error| Error::unavailable(format!("cannot listen on {listen}")).with_source(e);
        let tls = settings.tls.as_ref().map(Reloading::new).transpose()?.map(Arc::new);
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?.to_string();
        let upkeep = settings.upkeep.clone().map(|options| {
            let (repository, catalog, clock) = (node.repository(), node.catalog(), Arc::clone(node.clock()));
            Upkeep::new(repository, catalog, clock, Arc::clone(&random), options)
        });
        let mut state = State::new(node, random, settings, address)?;
        state.upkeep = upkeep.as_ref().map(|upkeep| Arc::clone(upkeep.counts()));
        let first_key = match state.auth.is_required {
            true => first_key(&state)
                .await
                .map_err(|e| Error::unavailable(e.reason).context("cannot make a key"))?,
            false => None,
        };
        Ok(Server { listener, upkeep, state: Arc::new(state), first_key, tls })
    }

    /// The address that it listens on.
    pub fn address(&self) -> &str {
        &self.state.address
    }

    /// The key that may do everything, as clients send it, where the repository had no key and no user before. It is told
    /// nowhere else.
    pub fn first_key(&self) -> Option<&str> {
        self.first_key.as_deref()
    }

    /// What makes it load its certificate again.
    pub fn reload(&self) -> Reload {
        Reload(self.tls.clone())
    }

    /// Serves until `stop` resolves; then answers what it has begun, for as long as the settings allow.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Server { listener, upkeep, state, tls, .. } = self;
        let (stop_upkeep, stopped) = oneshot::channel::<()>();
        let upkeep = upkeep.map(|upkeep| {
            // The sender says nothing: it is dropped.
            tokio::spawn(async move { upkeep.run(async { drop(stopped.await) }).await })
        });
        let reload = tls.is_some().then(|| {
            let (reload, every) = (Reload(tls.clone()), state.settings.tls_check_every);
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(every).await;
                    reload.now().await;
                }
            })
        });
        let service = Service::new(Arc::clone(&state));
        let (graceful, places) =
            (GracefulShutdown::new(), Arc::new(Semaphore::new(state.settings.connections_max)));
        let (stopping, stopped) = watch::channel(());
        let mut stop = pin!(stop);
        loop {
            let accepted = async {
                let place = Arc::clone(&places).acquire_owned().await;
                (listener.accept().await, place)
            };
            let (accepted, place) = tokio::select! {
                () = &mut stop => break,
                accepted = accepted => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            // Answers are written whole.
            let _ = stream.set_nodelay(true);
            let tls = tls.as_ref().map(|tls| tls.acceptor());
            let (service, peer, watcher) = (service.clone(), peer.ip(), graceful.watcher());
            let mut stopped = stopped.clone();
            let state = Arc::clone(&state);
            tokio::spawn(async move {
                let _connected = state.metrics.connect();
                let settings = &state.settings;
                let served = match tls {
                    None => serve(stream, peer, service, watcher, settings).await,
                    Some(tls) => tokio::select! {
                        shaken = tokio::time::timeout(settings.head_time_max, tls.accept(stream)) => match shaken {
                            Ok(Ok(stream)) => serve(stream, peer, service, watcher, settings).await,
                            Ok(Err(error)) => Err(error.into()),
                            Err(late) => Err(late.into()),
                        },
                        // Nobody waits for who has not asked yet.
                        _ = stopped.changed() => Ok(()),
                    },
                };
                if let Err(error) = served {
                    tracing::debug!(%error, %peer, "a connection ended early");
                }
                drop(place);
            });
        }
        drop((listener, stop_upkeep, stopping));
        if let Some(reload) = reload {
            reload.abort();
        }
        state.draining.store(true, Ordering::Relaxed);
        let drained = async {
            graceful.shutdown().await;
            state.live.close().await;
            if let Some(upkeep) = upkeep {
                // Where it failed, there is nothing to wait for.
                let _ = upkeep.await;
            }
        };
        if tokio::time::timeout(state.settings.drain_time_max, drained).await.is_err() {
            tracing::warn!("requests were not done in time, and are given up");
        }
        state.node.close().await;
    }
}

/// Answers the requests of one connection.
async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: IpAddr,
    service: Service,
    watcher: Watcher,
    settings: &Settings,
) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let stream = TokioIo::new(Patience::new(stream, settings.answer_pause_max));
    let respond = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        let service = service.clone();
        async move { Ok::<_, Infallible>(service.respond(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.head_time_max)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(stream, respond);
    Ok(watcher.watch(connection).await?)
}

#[cfg(test)]
mod tests;
