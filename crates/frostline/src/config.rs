//! Options from the command line, the environment and a TOML file, in order of precedence.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use frostline_base::SystemClock;
use frostline_ingest::Own;
use frostline_node::{Node, Settings};
use frostline_server::Traces;
use frostline_show::{note, parse_bytes};
use frostline_store::Retry;
use parking_lot::Mutex;
use serde::Deserialize;

use crate::args::Global;
use crate::settings::is_true;

/// The options of every command, resolved.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    repo: Option<String>,
    /// Whether the repository is named on the command line.
    pub(crate) is_repo_typed: bool,
    /// The server that searches ask which name no repository.
    server: Option<String>,
    pub(crate) data: PathBuf,
    volumes: Vec<PathBuf>,
    pub(crate) memory_bytes_max: u64,
    query_bytes_max: Option<u64>,
    pub(crate) json: bool,
    /// When the process started; elapsed times count from here.
    pub(crate) started: Instant,
    /// Whether it serves others, who read its log rather than a terminal.
    pub(crate) serves: bool,
    /// Where it sends traces.
    pub(crate) traces: Option<Traces>,
    /// What was set, by its name in the configuration file.
    pub(crate) set: BTreeMap<&'static str, toml::Value>,
    /// The configuration file, and what it says of `serve`.
    serve: Option<(PathBuf, toml::Table)>,
}

/// The configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    repo: Option<String>,
    server: Option<String>,
    data: Option<PathBuf>,
    volumes: Option<Vec<PathBuf>>,
    memory: Option<String>,
    query_memory: Option<String>,
    json: Option<bool>,
    serve: Option<toml::Table>,
}

impl Config {
    pub(crate) fn load(given: Global, started: Instant) -> Result<Config> {
        Config::of(given, started, &variable)
    }

    /// The same in an environment.
    pub(crate) fn of(
        given: Global,
        started: Instant,
        variable: &dyn Fn(&str) -> Result<Option<String>>,
    ) -> Result<Config> {
        let is_repo_typed = given.repo.is_some();
        let given = given.or_environment(variable)?;
        let path = match &given.config {
            Some(path) => Some(path.clone()),
            None => {
                let folder = user_folder("XDG_CONFIG_HOME", ".config");
                folder.map(|folder| folder.join("config.toml")).filter(|path| path.exists())
            }
        };
        let mut file = path.as_deref().map(File::read).transpose()?.unwrap_or_default();
        let serve = path.zip(file.serve.take());
        let set = set(&given, &file);
        let memory = given.memory.or(file.memory).unwrap_or_else(|| "2GiB".to_owned());
        let query_memory = given.query_memory.or(file.query_memory);
        let data = given.data.or(file.data).or_else(|| user_folder("XDG_CACHE_HOME", ".cache"));
        let Some(data) = data else { bail!("there is no home folder to keep caches in: pass --data DIR") };
        Ok(Config {
            repo: given.repo.or(file.repo),
            is_repo_typed,
            server: variable("FROSTLINE_SERVER")?.or(file.server),
            data,
            volumes: if given.volumes.is_empty() { file.volumes.unwrap_or_default() } else { given.volumes },
            memory_bytes_max: parse_bytes(&memory).context("--memory")?,
            query_bytes_max: query_memory
                .as_deref()
                .map(parse_bytes)
                .transpose()
                .context("--query-memory")?,
            json: given.json || file.json.unwrap_or(false),
            started,
            serves: false,
            traces: None,
            set,
            serve,
        })
    }

    /// The configuration file, and what it says of `serve`.
    pub(crate) fn serve(&self) -> Option<(&Path, &toml::Table)> {
        self.serve.as_ref().map(|(path, table)| (path.as_path(), table))
    }

    /// The server that a search asks: the one that it names, else the one that is configured, unless a repository is typed.
    pub(crate) fn server<'a>(&'a self, named: Option<&'a str>) -> Option<&'a str> {
        named.or(self.server.as_deref().filter(|_| !self.is_repo_typed))
    }

    /// The node of the repository that was named; without one nothing can be searched.
    pub(crate) fn node(&self) -> Result<Node> {
        self.open(false, false)
    }

    /// The same, but creates a missing directory.
    pub(crate) fn node_made(&self) -> Result<Node> {
        self.open(true, false)
    }

    /// The same, which keeps answers that took much to find in the repository, too, if it `shares` them.
    pub(crate) fn node_sharing(&self, shares: bool) -> Result<Node> {
        self.open(true, shares)
    }

    /// The directories that frostline writes to itself.
    pub(crate) fn own(&self) -> Own {
        let repository = self.repo.as_deref().and_then(frostline_store::local_directory);
        Own::new(repository.into_iter().chain([self.data.clone()]).chain(self.volumes.clone()).collect())
    }

    fn open(&self, create: bool, share_answers: bool) -> Result<Node> {
        let repo = self.repo.as_deref().context(
            "no repository is named: pass --repo URL (s3://bucket/prefix, a directory, …), set FROSTLINE_REPO, or put \
             repo = \"…\" into the configuration file",
        )?;
        let settings = Settings {
            create,
            volumes: self.volumes.clone(),
            memory_bytes_max: self.memory_bytes_max,
            query_bytes_max: self.query_bytes_max,
            share_answers,
            results_split_bytes_min: if self.serves { LIVE_SPLIT_BYTES } else { 0 },
            outage_ms: self.serves.then_some(OUTAGE_MS),
            ..Settings::new(repo, &self.data)
        };
        let node = Node::open(&settings, Arc::new(SystemClock))?;
        node.repository().on_retry(Box::new(tell_of_retries(self.serves)));
        Ok(node)
    }
}

/// After so long without any answer of the bucket a server waits no more. A command has nothing else to do.
const OUTAGE_MS: u64 = 10_000;

/// Splits of live data are smaller than this for about a minute, until they are merged: answers about them are not worth
/// a file each.
const LIVE_SPLIT_BYTES: u64 = 1 << 20;

/// Reports on the terminal, or in the log, at most once a second, why a request is retried. The first and second failures
/// are not reported.
fn tell_of_retries(serves: bool) -> impl Fn(&Retry) {
    let told: Mutex<Option<Instant>> = Mutex::new(None);
    move |retry| {
        let mut told = told.lock();
        if retry.attempt > 3 && told.is_none_or(|told| told.elapsed() >= Duration::from_secs(1)) {
            *told = Some(Instant::now());
            match serves {
                true => tracing::warn!(why = %retry.why, attempt = retry.attempt, "retrying"),
                false => note!("frostline: {}; retrying (attempt {})", retry.why, retry.attempt),
            }
        }
    }
}

impl Global {
    /// Fills in what is not on the command line from the environment. `clap` would show such values as typed in its
    /// usage lines.
    fn or_environment(self, text: &dyn Fn(&str) -> Result<Option<String>>) -> Result<Global> {
        let path = |name: &str| Ok::<_, anyhow::Error>(text(name)?.map(PathBuf::from));
        let volumes = match self.volumes.is_empty() {
            true => {
                text("FROSTLINE_VOLUMES")?.iter().flat_map(|all| all.split(',')).map(PathBuf::from).collect()
            }
            false => self.volumes,
        };
        Ok(Global {
            config: self.config.or(path("FROSTLINE_CONFIG")?),
            repo: self.repo.or(text("FROSTLINE_REPO")?),
            data: self.data.or(path("FROSTLINE_DATA")?),
            volumes,
            memory: self.memory.or(text("FROSTLINE_MEMORY")?),
            query_memory: self.query_memory.or(text("FROSTLINE_QUERY_MEMORY")?),
            json: self.json || text("FROSTLINE_JSON")?.is_some_and(|text| is_true(&text)),
        })
    }
}

impl File {
    fn read(path: &Path) -> Result<File> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is not a configuration file", path.display()))
    }
}

/// A variable of the environment that is not empty.
pub(crate) fn variable(name: &str) -> Result<Option<String>> {
    match std::env::var(name) {
        Ok(value) if !value.is_empty() => Ok(Some(value)),
        Ok(_) | Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(error).with_context(|| name.to_owned()),
    }
}

/// What was set, by its name in the configuration file.
fn set(given: &Global, file: &File) -> BTreeMap<&'static str, toml::Value> {
    let path = |path: &PathBuf| toml::Value::from(path.display().to_string());
    let text = |text: &String| toml::Value::from(text.clone());
    let volumes = Some(&given.volumes).filter(|volumes| !volumes.is_empty()).or(file.volumes.as_ref());
    let is_json = given.json || file.json.unwrap_or(false);
    let all = [
        ("repo", given.repo.as_ref().or(file.repo.as_ref()).map(text)),
        ("data", given.data.as_ref().or(file.data.as_ref()).map(path)),
        ("volumes", volumes.map(|volumes| volumes.iter().map(path).collect::<Vec<_>>().into())),
        ("memory", given.memory.as_ref().or(file.memory.as_ref()).map(text)),
        ("query_memory", given.query_memory.as_ref().or(file.query_memory.as_ref()).map(text)),
        ("json", is_json.then(|| is_json.into())),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

fn user_folder(variable: &str, below_home: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let folder = named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(below_home)))?;
    Some(folder.join("frostline"))
}
