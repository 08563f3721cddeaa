//! The command line.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use frostline_bench::{demo, petabyte, tiers};
use frostline_doctor::cli::Doctor;
use frostline_lab::cli::Lab;
use frostline_query::language::date::parse_duration_us;

/// Search logs that are stored only in object storage.
#[derive(Debug, Parser)]
#[command(name = "frostline", version, about, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten, next_help_heading = "Options of every command")]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Commands of `volume` that need no key.
const KEYLESS: [&str; 6] = ["key", "list", "prune", "umount", "status", "plan"];

/// The command line; `lab`, `doctor` and `volume` list only the options that apply to them.
pub(crate) fn command() -> clap::Command {
    let hide = |command: clap::Command, names: &[&'static str]| {
        names.iter().fold(command, |command, name| {
            let hidden = Arg::new(*name).long(*name).global(true).hide(true).action(ArgAction::Set);
            // Of the type that `Global` takes.
            command.arg(match *name {
                "data" | "key-file" => hidden.value_parser(clap::value_parser!(PathBuf)),
                "volumes" => hidden.value_parser(clap::value_parser!(PathBuf)).value_delimiter(','),
                _ => hidden,
            })
        })
    };
    Arguments::command()
        .mut_subcommand("lab", |lab| hide(lab, &["repo", "volumes", "memory", "query-memory"]))
        .mut_subcommand("volume", |volume| {
            let volume = hide(volume, &["volumes", "memory", "query-memory"]);
            KEYLESS.iter().fold(volume, |volume, name| {
                volume.mut_subcommand(name, |command| hide(command, &["key-file"]))
            })
        })
        .mut_subcommand("doctor", |doctor| {
            let repo = Arg::new("repo").long("repo").value_name("URL");
            let repo = repo
                .help("Check this repository instead of the host: logs, splits, segments, packs, orphans");
            hide(doctor, &["data", "volumes", "memory", "query-memory"]).arg(repo)
        })
        .mut_subcommand("explain", |explain| {
            RUNNING.iter().fold(explain, |explain, name| explain.mut_arg(name, |option| option.hide(true)))
        })
        .mut_subcommand("serve", |serve| serve.mut_args(with_variable))
}

/// The same option, whose help names its variable.
fn with_variable(option: Arg) -> Arg {
    let once = option.get_long().is_none_or(|long| long == "print-config");
    let help = option.get_help().map(ToString::to_string).filter(|_| !once);
    match help {
        Some(help) => {
            let variable = crate::settings::variable(&option);
            option.help(format!("{help} [env: {variable}]"))
        }
        None => option,
    }
}

/// Options of every command. Each can also be set in the configuration file.
#[derive(Debug, Default, Args)]
pub(crate) struct Global {
    /// TOML file with these options [env: FROSTLINE_CONFIG] [default: frostline/config.toml in the user's configuration
    /// folder]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Repository of the indices: s3://bucket/prefix, gs://, az://, a directory, or sim+URL [env: FROSTLINE_REPO]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) repo: Option<String>,
    /// Directory of caches, mounts and refused lines [env: FROSTLINE_DATA] [default: frostline in the user's cache folder]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Directories, one per device, over which the region cache is striped [env: FROSTLINE_VOLUMES] [default:
    /// below --data]
    #[arg(long, global = true, value_name = "DIR", value_delimiter = ',')]
    pub(crate) volumes: Vec<PathBuf>,
    /// Memory that one command may use for rows, states and buffers, such as 2GiB [env: FROSTLINE_MEMORY]
    /// [default: 2GiB]
    #[arg(long, global = true, value_name = "BYTES")]
    pub(crate) memory: Option<String>,
    /// Memory that one query may hold; one that needs more is refused [env: FROSTLINE_QUERY_MEMORY] [default: half of
    /// --memory]
    #[arg(id = "query-memory", long = "query-memory", global = true, value_name = "BYTES")]
    pub(crate) query_memory: Option<String>,
    /// Print one JSON document on standard output and nothing else [env: FROSTLINE_JSON]
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Ingest log files into an index
    Ingest(Ingest),
    /// Send log files to a server, as they grow
    Ship(Ship),
    /// Search an index with a query string or an Elasticsearch body
    Search(Search),
    /// Query indices with SQL
    Sql(Sql),
    /// List, show, check, merge or delete indices
    #[command(subcommand)]
    Index(Index),
    /// Cache an index on this machine's disks
    Mount(Mount),
    /// Stop caching an index
    Unmount(Name),
    /// Show or clear the disk cache
    #[command(subcommand)]
    Cache(Cache),
    /// Show the plan of a search and what it may cost, without running it
    Explain(Search),
    /// Open or close a point in time, which stays searchable whatever is ingested, merged or vacuumed
    #[command(subcommand)]
    Pit(Pit),
    /// Make, list, show, delete, restore or mount snapshots, which keep a version of indices
    #[command(subcommand)]
    Snapshot(Snapshot),
    /// Show, rebuild, check or remove needle segments, which tell which splits may hold a term
    #[command(subcommand)]
    Needle(Needle),
    /// Delete objects that no version of an index needs
    Vacuum(Vacuum),
    /// Back up directories as snapshots in the repository, and restore or mount them
    Volume(VolumeGiven),
    /// Generate web server logs, search them cold and warm, and compare with the published study
    Demo(demo::Options),
    /// Run measurements
    #[command(subcommand)]
    Bench(Bench),
    /// Choose volumes, file systems and mount options by measurement and price
    #[command(subcommand)]
    Lab(Lab),
    /// Find what slows this host down or endangers its data, and how to fix it; or check a repository
    Doctor(Examined),
    /// Serve Elasticsearch's HTTP API on this machine
    Serve(Serve),
    /// Print shell completions
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page of a command
    Man {
        /// The command, such as search; without one, frostline itself
        command: Option<String>,
        /// Write the pages of all commands into this directory instead
        #[arg(long, value_name = "DIR", conflicts_with = "command")]
        out: Option<PathBuf>,
    },
}

impl Command {
    /// Whether it serves others, who must not depend on the terminal that it was started from.
    pub(crate) fn outlives_its_terminal(&self) -> bool {
        matches!(self, Command::Volume(VolumeGiven { command: Volume::Mount(_), .. }))
    }

    /// The output format that was asked for by name.
    pub(crate) fn format(&self) -> Option<Format> {
        match self {
            Command::Search(given) | Command::Explain(given) => given.format,
            Command::Sql(given) => given.format,
            _ => None,
        }
    }
}

/// What the doctor looks at.
#[derive(Debug, Args)]
pub(crate) struct Examined {
    #[command(flatten)]
    pub(crate) host: Doctor,
    /// With --repo: read everything, not only what opens each object
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Name {
    /// Name of the index
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct Ingest {
    /// Name of the index; created if it does not exist
    #[arg(long, value_name = "NAME")]
    pub(crate) index: String,
    /// Format of the lines: auto, ndjson, json-lines-from-nginx, bulk, combined, syslog, logfmt, csv, docker, cri, journald,
    /// plain
    #[arg(long, default_value = "auto")]
    pub(crate) format: String,
    /// The field that holds the time of a document
    #[arg(long, value_name = "FIELD")]
    pub(crate) time_field: Option<String>,
    /// Elasticsearch mapping for a new index, as a JSON file
    #[arg(long, value_name = "FILE")]
    pub(crate) mapping: Option<PathBuf>,
    /// File for refused lines, with the reason [default: a file below --data, which the run names]
    #[arg(long, value_name = "FILE")]
    pub(crate) rejects: Option<PathBuf>,
    /// Bytes of lines in one split
    #[arg(long, default_value = "256MiB", value_name = "BYTES")]
    pub(crate) split_bytes: String,
    /// Worker threads [default: one per core]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    pub(crate) threads: usize,
    /// Ingest files again that are already ingested
    #[arg(long, conflicts_with = "follow")]
    pub(crate) again: bool,
    /// Merge small splits as they are written, and the rest when everything is read
    #[arg(long)]
    pub(crate) merge: bool,
    /// Write no needle segments: searches open every new split, until needle rebuild
    #[arg(long)]
    pub(crate) no_needle: bool,
    /// Documents in splits that are merged from now on: stored in _source, which other tools read, or rendered from
    /// their columns where that takes less [default: as the index has it, at first rendered]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "stored|rendered")]
    pub(crate) source: Option<Source>,
    /// Keep reading until Ctrl-C, as files grow, rotate and appear
    #[arg(long)]
    pub(crate) follow: bool,
    /// Seconds after which data of a followed file or a pipe is committed, even if the split is not full
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    pub(crate) seal_after: u64,
    /// Join lines that continue an event, such as stack traces: auto (if lines begin with a time), off, or a
    /// regular expression that matches the first line of an event
    #[arg(long, default_value = "auto", value_name = "auto|off|PATTERN")]
    pub(crate) multiline: String,
    /// Files, directories, quoted patterns such as '/var/log/*.log', or - for standard input; .gz, .zst, .xz and
    /// .bz2 are decompressed
    #[arg(required = true, value_name = "FILE|DIR|-")]
    pub(crate) inputs: Vec<PathBuf>,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("until").required(true).args(["follow", "once"]))]
pub(crate) struct Ship {
    /// URL of the server: http://HOST:9200 for Elasticsearch's _bulk, or one that ends with /v1/logs for OpenTelemetry
    #[arg(long, value_name = "URL")]
    pub(crate) to: String,
    /// Name of the index or data stream; needed for _bulk
    #[arg(long, value_name = "NAME")]
    pub(crate) index: Option<String>,
    /// Keep reading until Ctrl-C, as files grow, rotate and appear
    #[arg(long)]
    pub(crate) follow: bool,
    /// Stop after sending everything that is there now
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) access: Access,
    /// Format of the lines: auto, ndjson, json-lines-from-nginx, bulk, combined, syslog, logfmt, csv, docker, cri, journald,
    /// plain
    #[arg(long, default_value = "auto")]
    pub(crate) format: String,
    /// The field that holds the time of a document
    #[arg(long, value_name = "FIELD")]
    pub(crate) time_field: Option<String>,
    /// Join lines that continue an event, such as stack traces: auto (if lines begin with a time), off, or a
    /// regular expression that matches the first line of an event
    #[arg(long, default_value = "auto", value_name = "auto|off|PATTERN")]
    pub(crate) multiline: String,
    /// File that records how far inputs were sent [default: a file below --data for each URL and index]
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
    /// File for refused lines, with the reason [default: a file below --data, which the run names]
    #[arg(long, value_name = "FILE")]
    pub(crate) rejects: Option<PathBuf>,
    /// Concurrent requests
    #[arg(long, default_value_t = 4, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) connections: u8,
    /// How long to retry while the server accepts nothing, such as 10m [default: with --once 5m, else for ever]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) retry_for: Option<Duration>,
    /// Files, directories, quoted patterns such as '/var/log/*.log', or - for standard input; .gz, .zst, .xz and
    /// .bz2 are decompressed
    #[arg(required = true, value_name = "FILE|DIR|-")]
    pub(crate) inputs: Vec<PathBuf>,
}

/// Who asks a server, and whom it trusts. A secret is in a file or in the environment.
#[derive(Debug, Args)]
pub(crate) struct Access {
    /// File with an API key of the server [env: FROSTLINE_API_KEY, the key itself]
    #[arg(long, value_name = "FILE", conflicts_with = "user")]
    pub(crate) api_key_file: Option<PathBuf>,
    /// User of the server [env: FROSTLINE_USER]
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// File with the user's password [env: FROSTLINE_PASSWORD, the password itself]
    #[arg(long, value_name = "FILE", requires = "user")]
    pub(crate) password_file: Option<PathBuf>,
    /// CA certificates in PEM to trust for the server, beside those of the system [env: FROSTLINE_CA]
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}

/// Options of a search that say how it runs and what is written, of which `explain` does neither.
const RUNNING: [&str; 9] =
    ["server", "api_key_file", "user", "password_file", "ca", "format", "all", "no_result_cache", "strict"];

impl Search {
    /// An option of [`RUNNING`] that is given.
    pub(crate) fn running(&self) -> Option<String> {
        let Access { api_key_file, user, password_file, ca } = &self.access;
        let given = [
            self.server.is_some(),
            api_key_file.is_some(),
            user.is_some(),
            password_file.is_some(),
            ca.is_some(),
            self.format.is_some_and(|format| format != Format::Json),
            self.all,
            self.no_result_cache,
            self.strict,
        ];
        let (name, _) = RUNNING.iter().zip(given).find(|(_, is_given)| *is_given)?;
        Some(format!("--{}", name.replace('_', "-")))
    }
}

#[derive(Debug, Args)]
pub(crate) struct Search {
    /// Name of the index; not needed with a --body that names a point in time
    #[arg(long, value_name = "NAME", required_unless_present = "body")]
    pub(crate) index: Option<String>,
    /// Lucene-style query string, such as 'status:404 AND clientip:10.0.0.0/8'
    pub(crate) query: Option<String>,
    /// Ask this server instead of reading the repository, such as http://127.0.0.1:9200 [env: FROSTLINE_SERVER, unless --repo is
    /// given]
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    #[command(flatten)]
    pub(crate) access: Access,
    /// The rest of a query that is not in quotes, to be told so.
    #[arg(hide = true)]
    pub(crate) rest: Vec<String>,
    /// Elasticsearch search body: JSON, @FILE, or - for standard input
    #[arg(long, conflicts_with_all = ["query", "size", "sort", "from", "source", "since", "until", "all"], value_name = "JSON")]
    pub(crate) body: Option<String>,
    /// Hits to show
    #[arg(long)]
    pub(crate) size: Option<usize>,
    /// Hits to skip
    #[arg(long)]
    pub(crate) from: Option<usize>,
    /// Order of hits, such as bytes:desc; may be repeated [default: newest first]
    #[arg(long, value_name = "FIELD[:asc|desc]", value_parser = Sort::parse)]
    pub(crate) sort: Vec<Sort>,
    /// Fields to show, separated by commas [default: all]
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub(crate) source: Vec<String>,
    /// Only documents from this time on: 2024-05-01, 2024-05-01T10:00:00Z, or an age such as 15m, 1h, 2d, 1w
    #[arg(long, value_name = "TIME", value_parser = Time::parse)]
    pub(crate) since: Option<Time>,
    /// Only documents before this time, written as for --since
    #[arg(long, value_name = "TIME", value_parser = Time::parse)]
    pub(crate) until: Option<Time>,
    /// Output format of documents [default: ndjson]
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// Write every match, oldest first, instead of one page
    #[arg(long, conflicts_with_all = ["size", "from", "sort"])]
    pub(crate) all: bool,
    /// Do not use the cache of partial aggregation answers
    #[arg(long)]
    pub(crate) no_result_cache: bool,
    /// Fail if part of the data cannot be read, instead of answering without it
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Sql {
    /// The query; every index is a table with the index's name
    pub(crate) query: String,
    /// Output format of rows [default: table]
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Address to listen on; without --auth it must be on loopback
    #[arg(long, default_value = "127.0.0.1:9200", value_name = "ADDR:PORT", value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// Address that clients are told to connect to, for those that look for nodes [default: the one that each of them uses]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) publish: Option<String>,
    /// Ask clients for an API key or a password; the first start makes a key and prints it
    #[arg(long)]
    pub(crate) auth: bool,
    /// Issuer of the JSON web tokens that --auth accepts: their iss, and where OpenID Connect discovery finds its keys
    #[arg(long, value_name = "URL")]
    pub(crate) jwt_issuer: Option<String>,
    /// Audience that tokens have to name in aud
    #[arg(long, value_name = "NAME", requires = "jwt_issuer")]
    pub(crate) jwt_audience: Vec<String>,
    /// Keys of the issuer, a JSON web key set [default: where discovery says]
    #[arg(long, value_name = "FILE|URL", requires = "jwt_issuer")]
    pub(crate) jwt_jwks: Option<String>,
    /// Claim that names the user
    #[arg(long, default_value = "sub", value_name = "CLAIM")]
    pub(crate) jwt_user_claim: String,
    /// What users with a claim may do: "groups=admins: superuser" or "groups=sre: read write on logs-* web"
    #[arg(long, value_name = "CLAIM=VALUE: ROLE", requires = "jwt_issuer")]
    pub(crate) jwt_role: Vec<String>,
    /// Certificate chain in PEM; connections then use TLS
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Key of the certificate in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// CA certificates in PEM for client certificates; connections without one are refused
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// Requests that one key or user may make in a second [default: no limit]
    #[arg(long, value_name = "COUNT")]
    pub(crate) key_rate: Option<NonZeroU32>,
    /// Requests that one key or user may have at once [default: no limit]
    #[arg(long, value_name = "COUNT")]
    pub(crate) key_concurrency: Option<NonZeroU32>,
    /// Log searches that take longer, such as 1s or 500ms, with their shape and cost [default: none are]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) slow_query: Option<Duration>,
    /// Also log the whole query of such a search, with its values
    #[arg(long)]
    pub(crate) slow_query_body: bool,
    /// Receiver of traces, of OTLP over HTTP, such as http://localhost:4318 [default: the one of
    /// OTEL_EXPORTER_OTLP_ENDPOINT, or none]
    #[arg(long, value_name = "URL")]
    pub(crate) traces: Option<String>,
    /// Form of the log on standard error: text or json
    #[arg(long, value_enum, default_value = "text", value_name = "text|json", hide_possible_values = true)]
    pub(crate) log_format: LogFormat,
    /// Address for logs of OpenTelemetry over gRPC; over HTTP they come to --listen
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    pub(crate) otlp_grpc: Option<SocketAddr>,
    /// Index of OpenTelemetry's logs
    #[arg(long, default_value = "logs-otlp", value_name = "NAME")]
    pub(crate) otlp_index: String,
    /// Address for syslog over TCP and UDP
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    pub(crate) syslog: Option<SocketAddr>,
    /// Address for syslog over TLS
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    pub(crate) syslog_tls: Option<SocketAddr>,
    /// CA certificates in PEM for client certificates of --syslog-tls [default: those of --tls-client-ca]
    #[arg(long, value_name = "FILE")]
    pub(crate) syslog_client_ca: Option<PathBuf>,
    /// Index of syslog messages
    #[arg(long, default_value = "logs-syslog", value_name = "NAME")]
    pub(crate) syslog_index: String,
    /// Folder of files for ingest pipelines: databases of addresses (.mmdb) for geoip, and patterns (.yml) for user_agent;
    /// they are loaded again when they change
    #[arg(long, value_name = "DIR")]
    pub(crate) ingest_files: Option<PathBuf>,
    /// Also store partial answers that took much reading in the repository, where other servers find them
    #[arg(long)]
    pub(crate) share_answers: bool,
    /// Leave merging, retention and vacuum of the indices to others
    #[arg(long)]
    pub(crate) no_upkeep: bool,
    /// Print every setting with its meaning, its default and its environment variable as a file for --config, and serve
    /// nothing
    #[arg(long)]
    pub(crate) print_config: bool,
}

/// The form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people
    Text,
    /// A JSON object per line
    Json,
}

/// How merged splits keep documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Source {
    Stored,
    Rendered,
}

/// The output format of documents and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns
    Table,
    /// Comma-separated values under a line of names
    Csv,
    /// One JSON document, as with --json
    Json,
    /// One JSON document per line
    #[value(name = "ndjson")]
    Lines,
}

/// A sort key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sort {
    pub(crate) field: String,
    pub(crate) order: &'static str,
}

impl Sort {
    fn parse(text: &str) -> Result<Sort, String> {
        let (field, order) = match text.rsplit_once(':') {
            Some((field, "asc")) => (field, "asc"),
            Some((field, "desc")) => (field, "desc"),
            Some((_, order)) => return Err(format!("the order is asc or desc, not {order}")),
            None => (text, "asc"),
        };
        Ok(Sort { field: field.to_owned(), order })
    }
}

/// How long something takes.
fn duration(text: &str) -> Result<Duration, String> {
    let micros = parse_duration_us(text).map_err(|error| error.to_string())?;
    match micros {
        0 => Err("it is no time at all".to_owned()),
        micros => Ok(Duration::from_micros(micros)),
    }
}

/// Where to listen.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write an address and a port: 127.0.0.1:9200".to_owned())
}

/// A point in time as the query language writes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Time(pub(crate) String);

impl Time {
    /// `2d` is two days ago; anything else must be a date, or date math such as `now/d`.
    fn parse(text: &str) -> Result<Time, String> {
        let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = &text[number.len()..];
        if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) {
            return match unit {
                "s" | "m" | "h" | "d" | "w" | "M" | "y" => Ok(Time(format!("now-{text}"))),
                "" if number.len() == 4 => Ok(Time(text.to_owned())),
                _ => {
                    Err(format!("{text} has no unit of time: write s, m, h, d, w, M or y, such as 15m or 2d"))
                }
            };
        }
        let is_date = text.starts_with("now")
            || text
                .split_once('-')
                .is_some_and(|(year, _)| year.len() == 4 && year.bytes().all(|b| b.is_ascii_digit()));
        if is_date {
            // As logs write it.
            Ok(Time(text.replacen(' ', "T", 1)))
        } else {
            Err("write a date such as 2024-05-01, or how long ago, such as 1h or 2d".to_owned())
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Index {
    /// List the indices of a repository
    List,
    /// Show the splits, fields and conflicts of an index
    Show {
        /// Name of the index
        name: String,
        /// Show where the bytes go, by part and by field, which reads the dictionaries of all splits
        #[arg(long)]
        bytes: bool,
    },
    /// Delete an index
    Delete {
        /// Name of the index
        name: String,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Show or set how long documents are kept
    Retain {
        /// Name of the index, the data stream or the alias, or an expression such as `logs-*`
        name: String,
        /// How long, by the time of each document, such as 90d or 8760h; `forever` keeps everything [default: only
        /// show what is set]
        #[arg(value_name = "DURATION")]
        keep: Option<String>,
    },
    /// Read and check every byte of an index
    Verify(Name),
    /// Merge small splits
    Merge(Merge),
}

#[derive(Debug, Args)]
pub(crate) struct Merge {
    /// Name of the index
    pub(crate) name: String,
    /// Only show what would be merged
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Bytes of a merged split, at most; --memory limits it, too
    #[arg(long, default_value = "512MiB", value_name = "BYTES")]
    pub(crate) target: String,
    /// Merge only splits of the same window of time, such as 1h or 7d; longer ones where there is little data
    #[arg(long, default_value = "1d", value_name = "DURATION")]
    pub(crate) window: String,
    /// Rewrite at most this many bytes of splits, starting with the merges that remove most splits [default: no limit]
    #[arg(long, value_name = "BYTES")]
    pub(crate) budget: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Needle {
    /// Show the segments of an index, and how many splits they cover
    Status(Name),
    /// Write segments for splits that have none or a damaged one
    Rebuild {
        /// Name of the index
        name: String,
        /// Replace the segments of all splits
        #[arg(long)]
        all: bool,
    },
    /// Read every page of every segment, and compare it with the documents
    Verify(Name),
    /// Remove all segments, and write none until they are rebuilt
    Drop(Name),
}

#[derive(Debug, Args)]
pub(crate) struct Mount {
    /// Name of the index
    pub(crate) name: String,
    /// Size of the cache, such as 10GB, or a percentage of the index [default: 5%, or all of it with --hydrate]
    #[arg(long, value_name = "SIZE")]
    pub(crate) cache: Option<String>,
    /// Fetch the whole index into the cache: `now`, or at a rate in bytes a second such as 50MiB; `lazy` fetches only
    /// what is read
    #[arg(long, default_value = "lazy", value_name = "HOW")]
    pub(crate) hydrate: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Cache {
    /// Show what is cached, and for which indices
    Stats,
    /// Delete everything that is cached
    Clear,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Pit {
    /// Keep the newest version of an index searchable, and print the id that a search body names as pit
    Open {
        /// Name of the index
        name: String,
        /// For how long, such as 5m or 2d; a search may extend it
        #[arg(long, default_value = "5m", value_name = "DURATION")]
        keep_alive: String,
    },
    /// Close a point in time; vacuum may then delete what only it needs
    Close {
        /// The id
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Snapshot {
    /// Keep the newest version of indices until the snapshot is deleted; nothing is copied
    Create {
        /// Name of the snapshot
        name: String,
        /// Indices, aliases and data streams, or expressions such as `web,logs-*`
        #[arg(long, default_value = "*", value_name = "NAMES")]
        index: String,
    },
    /// List the snapshots of a repository
    List,
    /// Show the indices of a snapshot
    Show {
        /// Name of the snapshot
        name: String,
    },
    /// Delete a snapshot
    Delete {
        /// Name of the snapshot
        name: String,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
    /// Make new indices with the documents of a snapshot
    Restore {
        #[command(flatten)]
        from: FromSnapshot,
        /// Restore no aliases
        #[arg(long)]
        no_aliases: bool,
        /// Only show what would be restored
        #[arg(long)]
        dry_run: bool,
    },
    /// Search indices of a snapshot in place, as indices that nothing writes to
    Mount {
        #[command(flatten)]
        from: FromSnapshot,
        /// Only show what would be mounted
        #[arg(long)]
        dry_run: bool,
    },
}

/// What is brought back of a snapshot.
#[derive(Debug, Args)]
pub(crate) struct FromSnapshot {
    /// Name of the snapshot
    pub(crate) name: String,
    /// Indices of the snapshot, or expressions such as `web,logs-*,-logs-old`
    #[arg(long, default_value = "*", value_name = "NAMES")]
    pub(crate) index: String,
    /// Other names for indices, such as web=web-old or logs-*=old-*; may be repeated
    #[arg(long, value_name = "FROM=TO")]
    pub(crate) rename: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Vacuum {
    /// Name of the index
    pub(crate) name: String,
    /// Keep splits that were removed less than this many hours ago
    #[arg(long, default_value_t = 24.0, value_name = "HOURS")]
    pub(crate) retain_hours: f64,
    /// Keep uncommitted uploads for this many hours: a writer may be about to commit them
    #[arg(long, default_value_t = 24.0, value_name = "HOURS")]
    pub(crate) orphan_hours: f64,
    /// Only list what would be deleted
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VolumeGiven {
    /// File with the key of an encrypted volume; `snapshot` encrypts with it
    #[arg(
        id = "key-file",
        long = "key-file",
        global = true,
        value_name = "FILE",
        env = "FROSTLINE_KEY_FILE",
        hide_env_values = true
    )]
    pub(crate) key_file: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Volume,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Volume {
    /// Make a key for encryption, in a new file; without it the snapshots are lost
    Key {
        /// File to create
        file: PathBuf,
    },
    /// Store a directory as the newest snapshot of a volume; only changes are uploaded
    Snapshot(VolumeSnapshot),
    /// List snapshots
    List {
        /// Volume to list [default: all]
        name: Option<String>,
    },
    /// Show the origin and cost of a snapshot
    Show {
        /// VOLUME, for its newest snapshot, or VOLUME@NUMBER
        snapshot: String,
        /// List its entries, too
        #[arg(long)]
        files: bool,
    },
    /// List what differs between two snapshots
    Diff {
        /// VOLUME@NUMBER
        older: String,
        /// VOLUME, for its newest snapshot, or VOLUME@NUMBER
        newer: String,
    },
    /// Read everything that snapshots need, and list what is damaged by file and offset
    Verify {
        /// VOLUME or VOLUME@NUMBER [default: all]
        snapshots: Vec<String>,
    },
    /// Remove snapshots, and delete what no snapshot needs; safe beside snapshots that are being written
    Prune(VolumePrune),
    /// Restore a snapshot into a new directory; run it again to resume a restore that was stopped
    Restore(VolumeRestore),
    /// Mount a snapshot on a new directory: usable and writable at once, filled in the background (as root)
    Mount(VolumeMount),
    /// What `mount --mode fanotify` starts
    #[command(hide = true)]
    Guard {
        /// The directory
        directory: PathBuf,
    },
    /// End a mount; once all data is in place, an ordinary directory is left
    Umount {
        /// Directory on which a snapshot is mounted
        directory: PathBuf,
    },
    /// Show how much of a mounted snapshot is in place
    Status {
        /// Directory on which a snapshot is mounted
        directory: PathBuf,
    },
    /// Compare the ways to restore a volume of Amazon EBS by time and price
    Plan(VolumePlan),
}

#[derive(Debug, Args)]
pub(crate) struct VolumeMount {
    /// VOLUME, for its newest snapshot, or VOLUME@NUMBER
    pub(crate) snapshot: String,
    /// A directory that is new or empty, or on which this snapshot was mounted before
    pub(crate) directory: PathBuf,
    /// Fetch at most this many bytes of files a second in the background, such as 50MiB
    #[arg(long, value_name = "BYTES", conflicts_with = "no_hydrate")]
    pub(crate) rate: Option<String>,
    /// Fetch only what is read
    #[arg(long)]
    pub(crate) no_hydrate: bool,
    /// How absent data is served; fanotify (Linux 6.14) ends by itself, but does not promise all that fuse does
    #[arg(long, value_enum, default_value_t = MountMode::Auto)]
    pub(crate) mode: MountMode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MountMode {
    /// The mode that promises most: fuse
    Auto,
    /// Reads and writes of incomplete files go through Frostline, by FUSE
    Fuse,
    /// The kernel asks Frostline before a program uses an incomplete file
    Fanotify,
}

#[derive(Debug, Args)]
pub(crate) struct VolumePlan {
    /// Size of the source volume, such as 500GiB
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: String,
    /// Availability zones to spread the volumes over
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    pub(crate) az: u32,
    /// Volumes, spread evenly over the zones
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    pub(crate) copies: u32,
    /// Region of the prices: us-east-1 or ap-northeast-2
    #[arg(long, default_value = "us-east-1")]
    pub(crate) region: String,
    /// Write rate of your volume in bytes a second, such as 1GiB, which limits `volume mount` and `restore` [default: 125MiB]
    #[arg(long, value_name = "BYTES")]
    pub(crate) write_rate: Option<String>,
    /// Write a page with a timeline to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct VolumeSnapshot {
    /// Directory to store
    pub(crate) directory: PathBuf,
    /// Name of the volume; created if it does not exist
    #[arg(long, value_name = "VOLUME")]
    pub(crate) name: String,
    /// Read every file, even if it looks unchanged
    #[arg(long)]
    pub(crate) rehash: bool,
    /// Accept a directory that changes while it is read; its files may be of different moments
    #[arg(long, conflicts_with = "freeze")]
    pub(crate) crash_consistent: bool,
    /// Freeze the directory's file system while it is read (as root); programs that write to it wait
    #[arg(long)]
    pub(crate) freeze: bool,
    /// Store a consistent backup of the running PostgreSQL that has this data directory; psql connects to it with this
    /// string
    #[arg(long, value_name = "CONNINFO", conflicts_with_all = ["freeze", "crash_consistent"])]
    pub(crate) postgres: Option<String>,
    /// Leave out names or paths such as '*.pid' or 'pg_replslot/*'; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// Do not enter other file systems that are mounted below
    #[arg(long)]
    pub(crate) one_file_system: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VolumeRestore {
    /// VOLUME, for its newest snapshot, or VOLUME@NUMBER
    pub(crate) snapshot: String,
    /// The directory
    pub(crate) directory: PathBuf,
    /// Restore only names or paths such as '*.conf' or '/base/5', with all that is below them; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<String>,
    /// Leave out names or paths such as '*.log' or '/pg_wal'; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// Restore the tablespace of PostgreSQL that was in OLD (or has this number) into the directory NEW [default: inside
    /// of the directory]
    #[arg(long = "tablespace", value_name = "OLD=NEW")]
    pub(crate) tablespaces: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct VolumePrune {
    /// Snapshots to remove, as VOLUME@NUMBER
    pub(crate) snapshots: Vec<String>,
    #[command(flatten)]
    pub(crate) keep: VolumeKeep,
    /// Apply --keep-last and its kin to this volume only
    #[arg(long, value_name = "VOLUME", requires = "VolumeKeep")]
    pub(crate) name: Option<String>,
    /// Keep the objects of removed snapshots for this many hours, so that running restores can finish
    #[arg(long, default_value_t = 24.0, value_name = "HOURS")]
    pub(crate) retain_hours: f64,
    /// Abandon unfinished snapshots that wrote nothing for this many hours
    #[arg(long, default_value_t = 24.0, value_name = "HOURS")]
    pub(crate) abandoned_hours: f64,
    /// Only say what would be removed and deleted
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Which snapshots of each volume stay. All others are removed.
#[derive(Debug, Args)]
pub(crate) struct VolumeKeep {
    /// Keep this many newest snapshots of each volume, and remove those that no --keep option keeps
    #[arg(long, value_name = "COUNT")]
    pub(crate) keep_last: Option<usize>,
    /// Keep the newest snapshot of each of this many days (UTC) that have one
    #[arg(long, value_name = "COUNT")]
    pub(crate) keep_daily: Option<usize>,
    /// The same of weeks, which begin on Monday
    #[arg(long, value_name = "COUNT")]
    pub(crate) keep_weekly: Option<usize>,
    /// The same of months
    #[arg(long, value_name = "COUNT")]
    pub(crate) keep_monthly: Option<usize>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Reproduce the published frozen-tier study: hot, cold and frozen
    Tiers(tiers::Options),
    /// Search hundreds of thousands of splits: a few real ones under many names
    Petabyte(petabyte::Options),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date_or_so_long_ago() {
        for (text, meant) in [
            ("1h", Some("now-1h")),
            ("15m", Some("now-15m")),
            ("2024-05-01", Some("2024-05-01")),
            ("2024-05-01 10:00", Some("2024-05-01T10:00")),
            ("2024", Some("2024")),
            ("now/d", Some("now/d")),
            ("5", None),
            ("5 parsecs", None),
            ("3fortnights", None),
            ("yesterday", None),
            ("", None),
        ] {
            let time = Time::parse(text);
            assert_eq!(time.as_ref().ok().map(|time| time.0.as_str()), meant, "{text}: {time:?}");
        }
    }

    #[test]
    fn an_order_is_up_or_down() {
        assert_eq!(
            Sort::parse("bytes:desc").map(|sort| (sort.field, sort.order)),
            Ok(("bytes".to_owned(), "desc"))
        );
        assert_eq!(Sort::parse("a:b:asc").map(|sort| sort.field), Ok("a:b".to_owned()));
        assert!(Sort::parse("bytes:down").is_err());
    }

    #[test]
    fn the_command_line_is_whole() {
        command().debug_assert();
    }
}
