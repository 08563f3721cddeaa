//! Connections: accepted, served, and drained.

use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use frostline_base::{Error, Result};
use frostline_catalog::name_of;
use frostline_ingest::{Random, Upkeep};
use frostline_node::Node;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::api::security::{first_key, has_credentials};
use crate::doors::syslog::Queue;
use crate::doors::{grpc, syslog};
use crate::lookups::Lookups;
use crate::patience::Patience;
use crate::rehearsal::rehearse;
use crate::service::{Peer, Service};
use crate::settings::Settings;
use crate::state::State;
use crate::tls::{Reloading, Tls};

/// How long the server waits where it cannot accept a connection: others have to end first.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often the server tries to get the cache while another process has it.
const CACHE_TRY_EVERY: Duration = Duration::from_secs(1);
/// The longest head of a request.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Calls that a connection of HTTP/2 makes at once.
const STREAMS_MAX: u32 = 100;
/// What a connection of HTTP/2 may send before it is read.
const WINDOW_BYTES: u32 = 65_535;

type Served = std::result::Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// A server that listens.
pub struct Server {
    http: Door,
    grpc: Option<Door>,
    syslog: Option<(Door, UdpSocket)>,
    syslog_tls: Option<Door>,
    upkeep: Option<Upkeep>,
    state: Arc<State>,
    first_key: Option<String>,
}

/// Makes a server look at once at the files of its certificates, and at those that ingest pipelines look things up in.
#[derive(Clone, Debug)]
pub struct Reload {
    tls: Vec<Arc<Reloading>>,
    lookups: Arc<Lookups>,
}

impl Reload {
    /// Uses the files as they are now for the connections and documents that come, if they have changed and can be used.
    pub async fn now(&self) {
        let Reload { tls, lookups } = self.clone();
        let reload = move || {
            tls.iter().for_each(|tls| tls.reload());
            lookups.reload();
        };
        // Files are read. Where that panics, what was read stays.
        let _ = tokio::task::spawn_blocking(reload).await;
    }

    fn has_files(&self) -> bool {
        !self.tls.is_empty() || self.lookups.has_folder()
    }
}

/// Where clients connect.
struct Door {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Arc<Reloading>>,
}

impl Door {
    async fn open(listen: SocketAddr, tls: Option<Reloading>) -> Result<Door> {
        let listener = TcpListener::bind(listen).await.map_err(|e| cannot_listen(listen, e))?;
        let address = listener.local_addr().map_err(|e| cannot_listen(listen, e))?;
        Ok(Door { listener, address, tls: tls.map(Arc::new) })
    }
}

fn cannot_listen(listen: SocketAddr, error: std::io::Error) -> Error {
    let what_to_do = match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            ": another program, perhaps another `frostline serve`, has this port: stop it, or choose another port"
        }
        std::io::ErrorKind::PermissionDenied => ": ports below 1024 need a privilege: choose a higher one",
        std::io::ErrorKind::AddrNotAvailable => ": this host does not have that address",
        _ => "",
    };
    Error::unavailable(format!("cannot listen on {listen}{what_to_do}")).with_source(error)
}

/// Refuses settings that contradict each other.
fn check(settings: &Settings) -> Result<()> {
    let doors = [settings.otlp_grpc, settings.syslog, settings.syslog_tls];
    for listen in [Some(settings.listen)].into_iter().chain(doors).flatten() {
        if !settings.auth && !listen.ip().is_loopback() {
            return Err(Error::invalid(format!(
                "cannot listen on {listen}: without --auth everybody may do everything, so the server listens on \
                 loopback only; add --auth, or listen on 127.0.0.1 or [::1]"
            )));
        }
    }
    if !settings.auth && (settings.key_rate.is_some() || settings.key_concurrency.is_some()) {
        return Err(Error::invalid(
            "--key-rate and --key-concurrency limit keys and users, which --auth asks for: add --auth",
        ));
    }
    if !settings.auth && settings.jwt.is_some() {
        return Err(Error::invalid("--jwt-issuer authenticates users, whom --auth asks for: add --auth"));
    }
    if settings.syslog_tls.is_some() && settings.tls.is_none() {
        return Err(Error::invalid("syslog over TLS needs a certificate: give --tls-cert"));
    }
    if settings.syslog_client_ca.is_some() && settings.syslog_tls.is_none() {
        return Err(Error::invalid("--syslog-client-ca checks clients of --syslog-tls: give that, too"));
    }
    if let Some(publish) = &settings.publish
        && publish.parse().ok().and_then(|parsed: http::uri::Authority| parsed.port_u16()).is_none()
    {
        return Err(Error::invalid(format!(
            "--publish {publish:?} is no HOST:PORT, such as logs.example.com:9200"
        )));
    }
    for index in [&settings.otlp_index, &settings.syslog_index] {
        name_of(index, 0)?;
    }
    Ok(())
}

impl Server {
    /// Listens for requests over a node's repository. `Invalid` where an address is not on loopback and clients are not
    /// asked who they are: whoever reaches the server may read and delete everything.
    ///
    /// Names of what is written come from `random`.
    pub async fn bind(node: Node, random: Random, settings: Settings) -> Result<Server> {
        check(&settings)?;
        let tls = |protocol, client_ca: Option<&PathBuf>| {
            let files = settings.tls.clone();
            let files = files.map(|files| Tls {
                client_ca: client_ca.cloned().or_else(|| files.client_ca.clone()),
                ..files
            });
            files.map(|files| Reloading::new(files, protocol)).transpose()
        };
        let http = Door::open(settings.listen, tls(Some(b"http/1.1"), None)?).await?;
        let mut grpc = None;
        if let Some(listen) = settings.otlp_grpc {
            grpc = Some(Door::open(listen, tls(Some(b"h2"), None)?).await?);
        }
        let mut syslog = None;
        if let Some(listen) = settings.syslog {
            let door = Door::open(listen, None).await?;
            let socket = UdpSocket::bind(door.address).await.map_err(|e| cannot_listen(door.address, e))?;
            syslog = Some((door, socket));
        }
        let mut syslog_tls = None;
        if let Some(listen) = settings.syslog_tls {
            syslog_tls = Some(Door::open(listen, tls(None, settings.syslog_client_ca.as_ref())?).await?);
        }
        let upkeep = settings.upkeep.clone().map(|options| {
            let (repository, catalog, clock) = (node.repository(), node.catalog(), Arc::clone(node.clock()));
            Upkeep::new(repository, catalog, clock, Arc::clone(&random), options)
        });
        if let Err(error) = rehearse(&node, Arc::clone(&random)).await {
            tracing::warn!(?error, "the first searches will be slow");
        }
        let mut state = State::new(node, random, settings, http.address.to_string())?;
        let upkeep = upkeep.map(|upkeep| upkeep.counting_merges(&state.merges));
        state.upkeep = upkeep.as_ref().map(|upkeep| Arc::clone(upkeep.counts()));
        if let Some(jwt) = &state.auth.jwt {
            jwt.load(state.node.clock().now_us()).await?;
        }
        let first_key = match state.auth.is_required {
            true => first_key(&state)
                .await
                .map_err(|e| Error::unavailable(e.reason).context("cannot make a key"))?,
            false => {
                let records = state.node.catalog().records().await;
                if records.is_ok_and(|records| has_credentials(&records)) {
                    tracing::warn!(
                        "the repository has keys or users, and nobody is asked for them: start with --auth"
                    );
                }
                None
            }
        };
        Ok(Server { http, grpc, syslog, syslog_tls, upkeep, state: Arc::new(state), first_key })
    }

    /// The address that it listens on.
    pub fn address(&self) -> &str {
        &self.state.address
    }

    /// The address of OpenTelemetry's gRPC.
    pub fn otlp_grpc_address(&self) -> Option<SocketAddr> {
        self.grpc.as_ref().map(|door| door.address)
    }

    /// The address of syslog over TCP and UDP.
    pub fn syslog_address(&self) -> Option<SocketAddr> {
        self.syslog.as_ref().map(|(door, _)| door.address)
    }

    /// The address of syslog over TLS.
    pub fn syslog_tls_address(&self) -> Option<SocketAddr> {
        self.syslog_tls.as_ref().map(|door| door.address)
    }

    /// The key that may do everything, as clients send it, where the repository had no key and no user before. It is told
    /// nowhere else.
    pub fn first_key(&self) -> Option<&str> {
        self.first_key.as_deref()
    }

    /// What makes it load its files again.
    pub fn reload(&self) -> Reload {
        let doors = [Some(&self.http), self.grpc.as_ref(), self.syslog_tls.as_ref()];
        let tls = doors.into_iter().flatten().filter_map(|door| door.tls.clone()).collect();
        Reload { tls, lookups: Arc::clone(&self.state.lookups) }
    }

    /// Serves until `stop` resolves; then answers what it has begun, and stores what it has received, for as long as the
    /// settings allow.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let reload = self.reload();
        let Server { http, grpc, syslog, syslog_tls, upkeep, state, .. } = self;
        let (stop_upkeep, stopped) = oneshot::channel::<()>();
        let upkeep = upkeep.map(|upkeep| {
            // The sender says nothing: it is dropped.
            tokio::spawn(async move { upkeep.run(async { drop(stopped.await) }).await })
        });
        let reloading = reload.has_files().then(|| {
            let every = state.settings.files_check_every;
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(every).await;
                    reload.now().await;
                }
            })
        });
        let hydrating = tokio::spawn({
            let state = Arc::clone(&state);
            async move {
                let every = state.settings.mounts_check_every;
                loop {
                    let changed = async {
                        while !state.node.is_outdated().await {
                            tokio::time::sleep(every).await;
                        }
                    };
                    // What takes long is begun again when there is something else to do.
                    tokio::select! {
                        () = state.node.hydrate_all() => {}
                        () = changed => continue,
                    }
                    // Another process, or a request that began before the mounts changed, ends soon.
                    let is_elsewhere = state.node.is_cache_elsewhere();
                    tokio::time::sleep(if is_elsewhere { every.min(CACHE_TRY_EVERY) } else { every }).await;
                }
            }
        });
        let (graceful, service) = (Arc::new(GracefulShutdown::new()), Service::new(Arc::clone(&state)));
        let (stopping, stopped) = watch::channel(());
        let connections_max = state.settings.connections_max;
        let mut doors = JoinSet::new();
        doors.spawn({
            let (begun, graceful) = (Arc::clone(&state), Arc::clone(&graceful));
            accept(http, connections_max, Arc::clone(&state), stopped.clone(), move |peer| {
                let (state, service, watcher) = (Arc::clone(&begun), service.clone(), graceful.watcher());
                move |stream| serve(stream, peer.ip(), state, service, watcher)
            })
        });
        if let Some(grpc) = grpc {
            let (begun, graceful, to_connections) =
                (Arc::clone(&state), Arc::clone(&graceful), stopped.clone());
            doors.spawn(accept(grpc, connections_max, Arc::clone(&state), stopped.clone(), move |peer| {
                let (state, watcher, stopped) =
                    (Arc::clone(&begun), graceful.watcher(), to_connections.clone());
                move |stream| serve_grpc(stream, peer.ip(), state, watcher, stopped)
            }));
        }
        let (queue, storer) = syslog::queue(&state);
        let storer = tokio::spawn(storer.run());
        let mut syslog_doors = Vec::new();
        if let Some((door, socket)) = syslog {
            syslog_doors.push(door);
            doors.spawn(syslog::receive_datagrams(socket, queue.clone(), stopped.clone()));
        }
        for door in syslog_doors.into_iter().chain(syslog_tls) {
            doors.spawn(accept_syslog(door, Arc::clone(&state), queue.clone(), stopped.clone()));
        }
        drop((queue, stopped));
        stop.await;
        drop((stop_upkeep, stopping));
        if let Some(reloading) = reloading {
            reloading.abort();
        }
        hydrating.abort();
        state.draining.store(true, Ordering::Relaxed);
        let drained = async {
            while doors.join_next().await.is_some() {}
            // The doors held it, too.
            if let Some(graceful) = Arc::into_inner(graceful) {
                graceful.shutdown().await;
            }
            // It ends after the last connection of syslog.
            let _ = storer.await;
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
        if let Some(traces) = &state.settings.traces {
            traces.close().await;
        }
    }
}

/// A connection, perhaps with TLS.
trait Connection: AsyncRead + AsyncWrite + Unpin + Send {}

impl<C: AsyncRead + AsyncWrite + Unpin + Send> Connection for C {}

/// Accepts connections until the server stops, and serves them, so many at once.
async fn accept<B, S>(
    door: Door,
    places: usize,
    state: Arc<State>,
    mut stopped: watch::Receiver<()>,
    begin: impl Fn(SocketAddr) -> B + Send + 'static,
) where
    B: FnOnce(Box<dyn Connection>) -> S + Send + 'static,
    S: Future<Output = Served> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(places));
    loop {
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (door.listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            // The sender says nothing: it is dropped.
            _ = stopped.changed() => return,
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
        let tls = door.tls.as_ref().map(|tls| tls.acceptor());
        let (state, serve, stopped) = (Arc::clone(&state), begin(peer), stopped.clone());
        tokio::spawn(async move {
            let _connected = state.metrics.connect();
            let served = match shake(stream, tls, state.settings.head_time_max, stopped).await {
                Ok(Some(stream)) => serve(stream).await,
                // Nobody waits for who has not asked yet.
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error) = served {
                tracing::debug!(%error, %peer, "a connection ended early");
            }
            drop(place);
        });
    }
}

/// Begins TLS, if there is any; none where the server stops before that.
async fn shake(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    time_max: Duration,
    mut stopped: watch::Receiver<()>,
) -> std::result::Result<Option<Box<dyn Connection>>, Box<dyn std::error::Error + Send + Sync>> {
    let Some(tls) = tls else { return Ok(Some(Box::new(stream))) };
    tokio::select! {
        shaken = tokio::time::timeout(time_max, tls.accept(stream)) => Ok(Some(Box::new(shaken??))),
        _ = stopped.changed() => Ok(None),
    }
}

/// Answers the requests of one connection.
async fn serve(
    stream: Box<dyn Connection>,
    peer: IpAddr,
    state: Arc<State>,
    service: Service,
    watcher: Watcher,
) -> Served {
    let stream = TokioIo::new(Patience::new(stream, state.settings.answer_pause_max));
    let respond = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        let service = service.clone();
        async move { Ok::<_, Infallible>(service.respond(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(state.settings.head_time_max)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(stream, respond);
    Ok(watcher.watch(connection).await?)
}

/// Answers the calls of one connection of OpenTelemetry.
async fn serve_grpc(
    stream: Box<dyn Connection>,
    peer: IpAddr,
    state: Arc<State>,
    watcher: Watcher,
    mut stopped: watch::Receiver<()>,
) -> Served {
    // Who is there answers to pings.
    let silence_max = state.settings.head_time_max;
    let stream = Patience::new(stream, state.settings.answer_pause_max).with_reads(silence_max);
    let asked = Arc::new(AtomicBool::new(false));
    let asking = Arc::clone(&asked);
    let respond = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        asking.store(true, Ordering::Relaxed);
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(grpc::respond(&state, request).await) }
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .keep_alive_interval(silence_max / 2)
        .keep_alive_timeout(silence_max / 2)
        .serve_connection(TokioIo::new(stream), respond);
    let mut connection = pin!(watcher.watch(connection));
    tokio::select! {
        served = &mut connection => return Ok(served?),
        _ = stopped.changed() => {}
    }
    match asked.load(Ordering::Relaxed) {
        true => Ok(connection.await?),
        // Nobody waits for who has not asked yet, perhaps not even begun to speak HTTP.
        false => Ok(()),
    }
}

/// Accepts connections of syslog until the server stops.
fn accept_syslog(
    door: Door,
    state: Arc<State>,
    queue: Queue,
    stopped: watch::Receiver<()>,
) -> impl Future<Output = ()> + Send + 'static {
    let (begun, to_connections) = (Arc::clone(&state), stopped.clone());
    accept(door, state.settings.syslog_connections_max, state, stopped, move |peer| {
        let (state, queue, stopped) = (Arc::clone(&begun), queue.clone(), to_connections.clone());
        move |stream| async move { Ok(syslog::receive(stream, peer, queue, stopped, &state.settings).await?) }
    })
}

#[cfg(test)]
mod tests;
