use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::*;
use crate::testing;

/// A server on a port of its own.
struct Running {
    address: String,
    stop: oneshot::Sender<()>,
    ended: tokio::task::JoinHandle<()>,
    state: Arc<State>,
    reload: Reload,
    syslog: Option<SocketAddr>,
    syslog_tls: Option<SocketAddr>,
    grpc: Option<SocketAddr>,
    folder: tempfile::TempDir,
}

async fn start(settings: Settings) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let (node, _) = testing::node(folder.path());
    let listen = "127.0.0.1:0".parse().unwrap();
    let server =
        Server::bind(node, testing::random("server"), Settings { listen, ..settings }).await.unwrap();
    let (address, state, reload) = (server.address().to_owned(), Arc::clone(&server.state), server.reload());
    let (syslog, syslog_tls) = (server.syslog_address(), server.syslog_tls_address());
    let grpc = server.otlp_grpc_address();
    let (stop, stopped) = oneshot::channel();
    let ended = tokio::spawn(server.run(async { drop(stopped.await) }));
    Running { address, stop, ended, state, reload, syslog, syslog_tls, grpc, folder }
}

impl Running {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).await.unwrap()
    }
}

/// All that a server sends until it closes the connection.
async fn rest(mut connection: TcpStream) -> String {
    let mut text = Vec::new();
    let _ = connection.read_to_end(&mut text).await;
    String::from_utf8(text).unwrap()
}

const LAST: &[u8] = b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn only_loopback_is_listened_on() {
    let folder = tempfile::tempdir().unwrap();
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:9200"] {
        let (node, _) = testing::node(folder.path());
        let settings = Settings { listen: listen.parse().unwrap(), ..Settings::default() };
        let error = Server::bind(node, testing::random("server"), settings).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), frostline_base::ErrorKind::Invalid);
        assert!(error.what().contains("add --auth"), "{error}");
    }
}

#[tokio::test]
async fn settings_that_contradict_each_other_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = Some("0.0.0.0:0".parse().unwrap());
    let here = Some("127.0.0.1:0".parse().unwrap());
    let usual = || Settings { listen: "127.0.0.1:0".parse().unwrap(), ..Settings::default() };
    for (settings, says) in [
        (Settings { otlp_grpc: elsewhere, ..usual() }, "add --auth"),
        (Settings { syslog: elsewhere, ..usual() }, "add --auth"),
        (Settings { syslog_tls: elsewhere, ..usual() }, "add --auth"),
        (Settings { syslog_tls: here, ..usual() }, "give --tls-cert"),
        (Settings { syslog_client_ca: Some("ca.pem".into()), ..usual() }, "--syslog-tls: give that, too"),
        (Settings { syslog_index: "Not An Index".to_owned(), ..usual() }, "Not An Index"),
    ] {
        let (node, _) = testing::node(folder.path());
        let error = Server::bind(node, testing::random("server"), settings).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), frostline_base::ErrorKind::Invalid);
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[tokio::test]
async fn syslog_that_was_read_is_stored_when_the_server_stops() {
    let server =
        start(Settings { syslog: Some("127.0.0.1:0".parse().unwrap()), ..Settings::default() }).await;
    let mut connection = TcpStream::connect(server.syslog.unwrap()).await.unwrap();
    for n in 0..1_000 {
        connection.write_all(format!("<13>1 - - - - - - message {n}\n").as_bytes()).await.unwrap();
    }
    connection.write_all(b"<13>1 - - - - - - last").await.unwrap();
    connection.shutdown().await.unwrap();
    // The server closes it once it has read all.
    assert_eq!(rest(connection).await, "");
    server.stop.send(()).unwrap();
    server.ended.await.unwrap();
    let request = http::Request::get("/logs-syslog/_count").body(http_body_util::Empty::new()).unwrap();
    let answered = Service::new(server.state).respond(request).await.into_body();
    let answered = http_body_util::BodyExt::collect(answered).await.unwrap().to_bytes();
    assert!(answered.starts_with(b"{\"count\":1001,"), "{answered:?}");
}

#[tokio::test]
async fn a_client_of_grpc_that_says_no_word_is_not_waited_for() {
    let grpc = Some("127.0.0.1:0".parse().unwrap());
    let head_time_max = Duration::from_millis(50);
    let server = start(Settings { otlp_grpc: grpc, head_time_max, ..Settings::default() }).await;
    let mut connection = TcpStream::connect(server.grpc.unwrap()).await.unwrap();
    let mut told = Vec::new();
    let _ = connection.read_to_end(&mut told).await;
    assert!(!told.starts_with(b"HTTP/1"), "{told:?}");
}

#[tokio::test]
async fn a_server_that_stops_waits_for_nobody_who_has_not_asked() {
    let here = Some("127.0.0.1:0".parse().unwrap());
    let server = start(Settings { otlp_grpc: here, syslog: here, ..Settings::default() }).await;
    let mut idle = Vec::new();
    for address in [server.grpc, server.syslog] {
        idle.push(TcpStream::connect(address.unwrap()).await.unwrap());
    }
    // The server has accepted the one before this.
    let mut half = TcpStream::connect(server.grpc.unwrap()).await.unwrap();
    half.write_all(b"PRI * HTTP/2.0").await.unwrap();
    let begun = std::time::Instant::now();
    server.stop.send(()).unwrap();
    server.ended.await.unwrap();
    assert!(begun.elapsed() < Settings::default().drain_time_max);
}

#[tokio::test]
async fn elsewhere_is_listened_on_with_a_key_that_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let bind = async || {
        let (node, _) = testing::node(folder.path());
        let settings = Settings { listen: "0.0.0.0:0".parse().unwrap(), auth: true, ..Settings::default() };
        Server::bind(node, testing::random("server"), settings).await.unwrap()
    };
    assert!(bind().await.first_key().is_some_and(|key| key.len() > 60));
    assert_eq!(bind().await.first_key(), None);
}

#[tokio::test]
async fn requests_one_after_the_other_are_answered_in_order() {
    let server = start(Settings::default()).await;
    let mut connection = server.connect().await;
    // Pipelined, the first one unknown.
    connection.write_all(b"GET /_nonsense HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    connection.write_all(LAST).await.unwrap();
    let answers = rest(connection).await;
    let (first, second) = (answers.find("HTTP/1.1 400").unwrap(), answers.find("HTTP/1.1 200").unwrap());
    assert!(first < second, "{answers}");
}

#[tokio::test]
async fn what_is_no_http_ends_its_connection_alone() {
    let server = start(Settings::default()).await;
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(HEAD_BYTES_MAX));
    for bytes in [b"nonsense\r\n\r\n".to_vec(), vec![0; 100], long.into_bytes()] {
        let mut connection = server.connect().await;
        connection.write_all(&bytes).await.unwrap();
        connection.shutdown().await.unwrap();
        let answer = rest(connection).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    let mut connection = server.connect().await;
    connection.write_all(LAST).await.unwrap();
    assert!(rest(connection).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn half_a_request_is_not_waited_for() {
    let short = Duration::from_millis(50);
    let server = start(Settings { head_time_max: short, body_pause_max: short, ..Settings::default() }).await;
    let mut head = server.connect().await;
    head.write_all(b"GET /health HT").await.unwrap();
    assert_eq!(rest(head).await, "");
    let mut body = server.connect().await;
    let request = b"POST /_search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{";
    body.write_all(request).await.unwrap();
    let answer = rest(body).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

#[tokio::test]
async fn idle_connections_keep_nobody_from_being_served() {
    let server = start(Settings::default()).await;
    let mut idle = Vec::new();
    for _ in 0..300 {
        idle.push(server.connect().await);
    }
    let mut connection = server.connect().await;
    connection.write_all(LAST).await.unwrap();
    assert!(rest(connection).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_search_is_given_up_when_its_client_goes_away() {
    let server = start(Settings { searches_max: 1, searches_waiting_max: 1, ..Settings::default() }).await;
    let turns = server.state.searches.turns(1);
    let mut client = server.connect().await;
    client.write_all(b"GET /_search HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    server.state.searches.waiting(1).await;
    drop(client);
    server.state.searches.waiting(0).await;
    drop(turns);
    let mut connection = server.connect().await;
    connection.write_all(LAST).await.unwrap();
    assert!(rest(connection).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_server_that_stops_answers_what_it_has_begun() {
    let server = start(Settings::default()).await;
    let mut begun = server.connect().await;
    let head = b"POST /_search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n";
    begun.write_all(head).await.unwrap();
    // The server waits for the body by now.
    let mut asked = [0; 25];
    begun.read_exact(&mut asked).await.unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    let idle = server.connect().await;
    server.stop.send(()).unwrap();
    assert_eq!(rest(idle).await, "");
    begun.write_all(b"{}").await.unwrap();
    let answer = rest(begun).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    server.ended.await.unwrap();
    assert!(TcpStream::connect(&server.address).await.is_err());
}

/// The files of a server's certificate, and of one that signs clients.
struct Pki {
    folder: tempfile::TempDir,
}

impl Pki {
    fn new() -> Pki {
        Pki { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn tls(&self) -> crate::Tls {
        crate::Tls { certificate: self.path("cert.pem"), key: self.path("key.pem"), client_ca: None }
    }

    /// Makes the server's certificate anew. What a client has to trust.
    fn renew(&self) -> rustls::pki_types::CertificateDer<'static> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(self.path("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(self.path("key.pem"), made.signing_key.serialize_pem()).unwrap();
        made.cert.der().clone()
    }
}

use tokio_rustls::rustls;

type Identity = (rustls::pki_types::CertificateDer<'static>, rustls::pki_types::PrivateKeyDer<'static>);
type Secured = tokio_rustls::client::TlsStream<TcpStream>;

/// A connection to a server with a certificate that this client trusts; an error where it is another one.
async fn secured(
    server: &Running,
    trusted: &rustls::pki_types::CertificateDer<'static>,
    identity: Option<Identity>,
) -> std::io::Result<Secured> {
    secured_to(server.connect().await, trusted, identity).await
}

async fn secured_to(
    connection: TcpStream,
    trusted: &rustls::pki_types::CertificateDer<'static>,
    identity: Option<Identity>,
) -> std::io::Result<Secured> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let config = match identity {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => config.with_client_auth_cert(vec![certificate], key).unwrap(),
    };
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    connector.connect("localhost".try_into().unwrap(), connection).await
}

/// What `/health` is answered with, on a connection that stays open.
async fn health(connection: &mut Secured) -> std::io::Result<String> {
    connection.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        if connection.read_buf(&mut answer).await? == 0 {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[tokio::test]
async fn a_renewed_certificate_is_loaded_and_open_connections_stay() {
    let pki = Pki::new();
    let first = pki.renew();
    let settings = Settings {
        tls: Some(pki.tls()),
        files_check_every: Duration::from_secs(3_600),
        ..Settings::default()
    };
    let server = start(settings).await;
    let mut open = secured(&server, &first, None).await.unwrap();
    assert!(health(&mut open).await.unwrap().starts_with("HTTP/1.1 200"));
    // A key that is not that of the certificate, as where only one of the files was written yet.
    let (other, whole) = (Pki::new(), std::fs::read(pki.path("key.pem")).unwrap());
    let second = other.renew();
    std::fs::copy(other.path("key.pem"), pki.path("key.pem")).unwrap();
    server.reload.now().await;
    assert!(secured(&server, &first, None).await.is_ok());
    std::fs::write(pki.path("key.pem"), whole).unwrap();
    std::fs::remove_file(pki.path("cert.pem")).unwrap();
    server.reload.now().await;
    assert!(secured(&server, &first, None).await.is_ok());
    for name in ["cert.pem", "key.pem"] {
        std::fs::copy(other.path(name), pki.path(name)).unwrap();
    }
    server.reload.now().await;
    assert!(secured(&server, &first, None).await.is_err());
    let mut renewed = secured(&server, &second, None).await.unwrap();
    for connection in [&mut open, &mut renewed] {
        assert!(health(connection).await.unwrap().starts_with("HTTP/1.1 200"));
    }
}

#[tokio::test]
async fn every_listener_uses_a_renewed_certificate() {
    let pki = Pki::new();
    let first = pki.renew();
    let here = Some("127.0.0.1:0".parse().unwrap());
    let files_check_every = Duration::from_secs(3_600);
    let settings = Settings { tls: Some(pki.tls()), files_check_every, ..Settings::default() };
    let server = start(Settings { otlp_grpc: here, syslog_tls: here, ..settings }).await;
    let is_trusted = async |address: SocketAddr, trusted| {
        let connection = TcpStream::connect(address).await.unwrap();
        secured_to(connection, trusted, None).await.is_ok()
    };
    let addresses = [server.grpc.unwrap(), server.syslog_tls.unwrap()];
    for address in addresses {
        assert!(is_trusted(address, &first).await);
    }
    let second = pki.renew();
    server.reload.now().await;
    for address in addresses {
        assert!(!is_trusted(address, &first).await);
        assert!(is_trusted(address, &second).await);
    }
}

#[tokio::test]
async fn a_renewed_certificate_is_noticed() {
    let pki = Pki::new();
    pki.renew();
    let settings =
        Settings { tls: Some(pki.tls()), files_check_every: Duration::from_millis(5), ..Settings::default() };
    let server = start(settings).await;
    let second = pki.renew();
    // Until it is.
    while secured(&server, &second, None).await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn clients_need_a_certificate_where_one_signs_them() {
    let (pki, other) = (Pki::new(), Pki::new());
    let trusted = pki.renew();
    let authority = |pki: &Pki| {
        let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        std::fs::write(pki.path("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        rcgen::Issuer::new(params, key)
    };
    let (ours, theirs) = (authority(&pki), authority(&other));
    let identity = |issuer: &rcgen::Issuer<'_, rcgen::KeyPair>| {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(["client".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, issuer).unwrap().der().clone();
        (certificate, rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    };
    let tls = crate::Tls { client_ca: Some(pki.path("ca.pem")), ..pki.tls() };
    let server = start(Settings { tls: Some(tls), ..Settings::default() }).await;
    let ask = async |identity: Option<Identity>| {
        // With TLS 1.3 a client learns with the first answer that it is refused.
        let mut connection = secured(&server, &trusted, identity).await.ok()?;
        health(&mut connection).await.ok().filter(|answer| answer.starts_with("HTTP/1.1 200"))
    };
    assert!(ask(Some(identity(&ours))).await.is_some());
    assert!(ask(None).await.is_none());
    assert!(ask(Some(identity(&theirs))).await.is_none());
}

#[tokio::test]
async fn limits_of_keys_need_keys() {
    let folder = tempfile::tempdir().unwrap();
    let (node, _) = testing::node(folder.path());
    let settings = Settings { key_rate: std::num::NonZeroU32::new(1), ..Settings::default() };
    let error = Server::bind(node, testing::random("server"), settings).await.map(drop).unwrap_err();
    assert!(error.what().contains("add --auth"), "{error}");
}

#[tokio::test]
async fn an_index_that_another_process_mounts_is_brought_here_and_kept() {
    use frostline_node::{CacheSize, Hydrate};

    let settings = Settings { mounts_check_every: Duration::from_millis(5), ..Settings::default() };
    let server = start(settings).await;
    let node = &server.state.node;
    let name: frostline_base::IndexName = "web".parse().unwrap();
    let add = async |word: &str| {
        let lines: String =
            (0..900).map(|n| format!("{{\"n\":{n},\"word\":\"{word}{}\"}}\n", n % 9)).collect();
        let path = server.folder.path().join(word);
        std::fs::write(&path, lines).unwrap();
        let inputs = frostline_ingest::Inputs::from_arguments(&[path]).unwrap();
        let (repository, catalog, clock) = (node.repository(), node.catalog(), Arc::clone(node.clock()));
        let ingest = frostline_ingest::Ingest::new(repository, catalog, clock, testing::random(word));
        ingest.run(inputs, &name, frostline_ingest::IngestOptions::default()).await.unwrap();
    };
    let is_here = async || {
        let index = node.index(&name).await.unwrap();
        node.opened_cache().is_some_and(|cache| {
            index.splits().iter().all(|split| cache.absent_bytes(&split.object, 0..split.object.bytes) == 0)
        })
    };
    add("first").await;
    assert!(node.opened_cache().is_none(), "nothing is mounted");
    // As another process does, which has the cache meanwhile.
    let (other, _) = testing::node(server.folder.path());
    other.mount(&name, CacheSize::Whole).await.unwrap();
    let meter = frostline_base::Meter::default();
    let done = other.hydrate(&name, Hydrate::Rate(1 << 30), &meter, |_| {}).await;
    assert!(
        done.is_ok_and(|done| done.is_whole) || node.opened_cache().is_some(),
        "the server may be faster"
    );
    other.close().await;
    drop(other);
    while !is_here().await {
        tokio::task::yield_now().await;
    }
    // What is added later comes, too.
    add("second").await;
    while !is_here().await {
        tokio::task::yield_now().await;
    }
    // And what is unmounted is read from the repository again.
    let (other, _) = testing::node(server.folder.path());
    assert!(other.unmount(&name).await.unwrap());
    while node.opened_cache().is_some() {
        tokio::task::yield_now().await;
    }
    server.stop.send(()).unwrap();
    server.ended.await.unwrap();
}
