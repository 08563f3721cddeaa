//! The settings of a server.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use frostline_ingest::UpkeepOptions;

use crate::jwt::JwtSettings;
use crate::tls::Tls;
use crate::traces::Traces;

/// Where a server listens, and how much of the machine its clients may use.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address, which is on loopback unless clients are asked who they are.
    pub listen: SocketAddr,
    /// What clients are told to connect to, as `HOST:PORT`; else what each of them has connected to.
    pub publish: Option<String>,
    /// Whether clients need a key or a password; otherwise everybody may do everything.
    pub auth: bool,
    /// Whose tokens let users in; none for nobody's.
    pub jwt: Option<JwtSettings>,
    /// What the program calls its version.
    pub version: &'static str,
    /// Searches that take longer are logged with their cost; none logs none.
    pub slow_query: Option<Duration>,
    /// Whether such a line has the query itself, and not only its shape.
    pub slow_query_body: bool,
    /// Where traces are sent; none makes none.
    pub traces: Option<Traces>,
    /// Requests of one key or user in a second; none for as many as come. Only where clients are asked who they are.
    pub key_rate: Option<NonZeroU32>,
    /// Requests of one key or user at once.
    pub key_concurrency: Option<NonZeroU32>,
    /// The certificate of TLS; none for connections without it.
    pub tls: Option<Tls>,
    /// A folder of files that ingest pipelines look things up in; none has none.
    pub ingest_files: Option<PathBuf>,
    /// How often its files and those of the certificate are looked at.
    pub files_check_every: Duration,
    /// How often mounts are looked at, and what is missing of those that are to be here as a whole is fetched.
    pub mounts_check_every: Duration,
    /// The address of OpenTelemetry's gRPC; none does not listen. With a certificate, it speaks TLS.
    pub otlp_grpc: Option<SocketAddr>,
    /// The index of OpenTelemetry's logs whose request names no other.
    pub otlp_index: String,
    /// The address of syslog over TCP and UDP.
    pub syslog: Option<SocketAddr>,
    /// The address of syslog over TLS, which needs a certificate.
    pub syslog_tls: Option<SocketAddr>,
    /// Certificates in PEM: clients of syslog over TLS need one that is signed by them.
    pub syslog_client_ca: Option<PathBuf>,
    /// The index of syslog messages.
    pub syslog_index: String,
    /// Connections of syslog at once; further ones wait to be accepted.
    pub syslog_connections_max: usize,
    /// What is kept of a syslog message.
    pub syslog_message_bytes_max: usize,
    /// Syslog messages that wait to be stored; beyond that connections are not read from, and datagrams are dropped.
    pub syslog_held_bytes_max: usize,
    /// How long a connection of syslog may be idle.
    pub syslog_idle_max: Duration,
    /// Connections at once; further ones wait to be accepted.
    pub connections_max: usize,
    /// Requests at once; further ones are answered with 429.
    pub requests_max: usize,
    /// Searches that run at once.
    pub searches_max: usize,
    /// Searches that wait for their turn; further ones are answered with 429.
    pub searches_waiting_max: usize,
    /// The longest body of a request, also once it is unpacked; longer ones are answered with 413. One that is neither a
    /// document nor lines has a 16th of it, and so it counts for 16 times its bytes.
    pub body_bytes_max: usize,
    /// Bodies that are held at once; beyond that the answer is 429.
    pub bodies_bytes_max: usize,
    /// Answers that clients have not read yet; beyond that the answer is 429.
    pub answers_bytes_max: usize,
    /// Documents that are being stored at once; beyond that the answer is 429.
    pub live_bytes_max: u64,
    /// What is done to the indices meanwhile; none does nothing.
    pub upkeep: Option<UpkeepOptions>,
    /// How long a connection may be idle, or take to send the head of a request.
    pub head_time_max: Duration,
    /// How long a body may send nothing before the answer is 408.
    pub body_pause_max: Duration,
    /// How long a client may read nothing of its answer.
    pub answer_pause_max: Duration,
    /// How long a request may take.
    pub request_time_max: Duration,
    /// How long requests may go on once the server is told to stop.
    pub drain_time_max: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9200)),
            publish: None,
            auth: false,
            jwt: None,
            version: env!("CARGO_PKG_VERSION"),
            slow_query: None,
            slow_query_body: false,
            traces: None,
            key_rate: None,
            key_concurrency: None,
            tls: None,
            ingest_files: None,
            files_check_every: Duration::from_secs(10),
            mounts_check_every: Duration::from_secs(60),
            otlp_grpc: None,
            otlp_index: "logs-otlp".to_owned(),
            syslog: None,
            syslog_tls: None,
            syslog_client_ca: None,
            syslog_index: "logs-syslog".to_owned(),
            syslog_connections_max: 1_024,
            syslog_message_bytes_max: 64 << 10,
            syslog_held_bytes_max: 16 << 20,
            syslog_idle_max: Duration::from_secs(3_600),
            connections_max: 4_096,
            requests_max: 256,
            searches_max: 32,
            searches_waiting_max: 128,
            body_bytes_max: 100 << 20,
            bodies_bytes_max: 256 << 20,
            answers_bytes_max: 512 << 20,
            live_bytes_max: 256 << 20,
            upkeep: Some(UpkeepOptions::default()),
            head_time_max: Duration::from_secs(120),
            body_pause_max: Duration::from_secs(30),
            answer_pause_max: Duration::from_secs(60),
            request_time_max: Duration::from_secs(300),
            drain_time_max: Duration::from_secs(30),
        }
    }
}
