//! Opens a store from a URL and the environment.

use std::collections::BTreeMap;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use frostline_base::{Error, ErrorKind, Result};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use url::Url;

use crate::directory::Directory;
use crate::hedged::HedgeOptions;
use crate::plan::PlanOptions;
use crate::prices::Prices;
use crate::profile;
use crate::repository::Backend;
use crate::retrying::RetryOptions;
use crate::simulated::{Simulation, SimulationOptions};

/// How to open a repository. The default suits every store.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenOptions {
    /// Whether a missing directory is created. A bucket never is.
    pub create: bool,
    /// The environment variables that hold credentials; none means those of the process.
    pub environment: Option<BTreeMap<String, String>>,
    /// See [`PlanOptions`].
    pub plan: PlanOptions,
    /// Maximum number of concurrent reads, over all clones of the repository.
    pub requests_in_flight_max: usize,
    /// See [`RetryOptions`].
    pub retry: RetryOptions,
    /// See [`HedgeOptions`].
    pub hedge: HedgeOptions,
    /// A request that takes longer, including its body, fails.
    pub request_ms_max: u64,
    /// A connection attempt that takes longer fails.
    pub connect_ms_max: u64,
    /// The price list, by its name in `prices.toml`; none means the one that fits the URL.
    pub prices: Option<String>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            create: true,
            environment: None,
            plan: PlanOptions::default(),
            requests_in_flight_max: 256,
            retry: RetryOptions::default(),
            hedge: HedgeOptions::default(),
            request_ms_max: 30_000,
            connect_ms_max: 5_000,
            prices: None,
        }
    }
}

impl OpenOptions {
    pub(crate) fn environment(&self) -> BTreeMap<String, String> {
        match &self.environment {
            Some(given) => given.clone(),
            // Variables that are not Unicode are not ours.
            None => std::env::vars_os()
                .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
        }
    }

    fn client(&self) -> ClientOptions {
        ClientOptions::new()
            .with_timeout(Duration::from_millis(self.request_ms_max))
            .with_connect_timeout(Duration::from_millis(self.connect_ms_max))
            // Stores close idle connections after a few seconds; using one that is being closed costs a retry.
            .with_pool_idle_timeout(Duration::from_secs(20))
    }
}

/// The undecorated store at `url`.
pub(crate) fn backend(url: &str, options: &OpenOptions) -> Result<Backend> {
    let Some(simulated) = url.strip_prefix("sim+") else { return real(url, &BTreeMap::new(), options) };
    let (inner, query) = simulated.split_once('?').unwrap_or((simulated, ""));
    let mut simulation = SimulationOptions::default();
    let mut rest = BTreeMap::new();
    // The profile comes first: it would undo single constants given before it.
    let mut pairs: Vec<(String, String)> =
        url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    pairs.sort_by_key(|(key, _)| key != "profile");
    for (key, value) in pairs {
        if !simulation.set(&key, &value)? {
            rest.insert(key, value);
        }
    }
    let mut backend = real(inner, &rest, options)?;
    if !backend.remote && options.prices.is_none() && !rest.contains_key("prices") {
        // The simulation is of S3, whatever store is below it.
        backend.prices = Prices::named("s3-standard-us-east-1")?;
    }
    backend.simulation = Some(Simulation::new(simulation));
    Ok(backend)
}

/// Where a repository is, if it is a directory of this machine.
pub fn local_directory(url: &str) -> Option<PathBuf> {
    let url = url.strip_prefix("sim+").map_or(url, |url| url.split_once('?').map_or(url, |(url, _)| url));
    match url.split_once("://") {
        None if !url.starts_with("memory:") => Some(url.into()),
        Some(("file", _)) => file_url(url).ok().map(PathBuf::from),
        _ => None,
    }
}

/// Refuses a path that is a URL but for a slash or the case of its letters.
fn check_scheme(path: &str) -> Result<()> {
    let (scheme, rest) = path.split_at(path.find([':', '/']).unwrap_or(path.len()));
    let scheme = scheme.to_ascii_lowercase();
    let is_scheme = rest.starts_with(':') || rest.starts_with("//");
    if !is_scheme || !SCHEMES.contains(&scheme.as_str()) {
        return Ok(());
    }
    let rest = rest.trim_start_matches([':', '/']);
    let right = match scheme.as_str() {
        "memory" => "memory:".to_owned(),
        "file" => format!("file:///{rest}"),
        "http" | "https" => format!("s3://bucket?endpoint={scheme}://{rest}"),
        "s3n" => format!("s3://{rest}"),
        "wasb" | "wasbs" => format!("abfs://{rest}"),
        _ => format!("{scheme}://{rest}"),
    };
    Err(Error::invalid(format!(
        "{path:?} is not a URL: write {right:?}, or {:?} if it is a directory",
        format!("./{path}")
    )))
}

/// What URLs of repositories, and those that are taken for such, begin with.
const SCHEMES: [&str; 16] = [
    "s3", "s3a", "s3n", "gs", "gcs", "az", "azure", "adl", "abfs", "abfss", "wasb", "wasbs", "file",
    "memory", "http", "https",
];

fn real(url: &str, more: &BTreeMap<String, String>, options: &OpenOptions) -> Result<Backend> {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme);
    let mut settings = more.clone();
    let (store, remote, prices) = match scheme {
        _ if url == "memory:" || url == "memory://" || url == "memory:///" => {
            (Arc::new(InMemory::new()) as Arc<dyn ObjectStore>, false, "free".to_owned())
        }
        None => (directory(url, options)?, false, "free".to_owned()),
        Some("file") => (directory(&file_url(url)?, options)?, false, "free".to_owned()),
        Some("s3" | "s3a") => with_true(s3(&parse(url, &mut settings)?, &mut settings, options)?),
        Some("gs" | "gcs") => with_true(gcs(&parse(url, &mut settings)?, options)?),
        Some("az" | "azure" | "adl" | "abfs" | "abfss") => {
            with_true(azure(&parse(url, &mut settings)?, options)?)
        }
        Some(other) => {
            return Err(Error::invalid(format!(
                "{other:?} is not a kind of repository: use s3://, gs://, az://, abfs://, file://, a path or memory:"
            )));
        }
    };
    let prices = settings.remove("prices").or_else(|| options.prices.clone()).unwrap_or(prices);
    if let Some((key, _)) = settings.pop_first() {
        return Err(Error::invalid(format!("{key:?} is not an option of the URL {url}")));
    }
    Ok(Backend { store, remote, prices: Prices::named(&prices)?, simulation: None })
}

fn with_true((store, prices): (Arc<dyn ObjectStore>, String)) -> (Arc<dyn ObjectStore>, bool, String) {
    (store, true, prices)
}

/// The parts of a bucket URL.
struct Bucket {
    url: Url,
    name: String,
    prefix: Path,
}

fn parse(text: &str, settings: &mut BTreeMap<String, String>) -> Result<Bucket> {
    let mut url =
        Url::parse(text).map_err(|e| Error::invalid(format!("{text:?} is not a URL")).with_source(e))?;
    check_parts(text)?;
    let name = url.host_str().unwrap_or_default().to_owned();
    if name.is_empty() {
        return Err(Error::invalid(format!("{text:?} names no bucket")));
    }
    let with_account = url.scheme().starts_with("abfs");
    if url.password().is_some() || (!url.username().is_empty() && !with_account) {
        return Err(Error::invalid(format!(
            "the URL of {name} has a user: keys come from the environment or a profile"
        )));
    }
    if url.port().is_some() {
        return Err(Error::invalid(format!(
            "{text:?} has a port, and a bucket has none: the server's address is an endpoint, as in s3://bucket?endpoint=http://host:9000"
        )));
    }
    let prefix = Path::from_url_path(url.path())
        .map_err(|e| Error::invalid(format!("the prefix of {text:?} is not usable")).with_source(e))?;
    settings.extend(url.query_pairs().into_owned());
    url.set_query(None);
    Ok(Bucket { url, name, prefix })
}

/// Refuses what reading a URL would drop or resolve without a word.
fn check_parts(text: &str) -> Result<()> {
    if text.contains('#') {
        return Err(Error::invalid(format!("{text:?} contains `#`: write it as %23")));
    }
    let path = text.split_once('?').map_or(text, |(path, _)| path);
    let is_dots = |part: &str| matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
    match path.split('/').find(|part| is_dots(part)) {
        Some(part) => Err(Error::invalid(format!("{text:?} has the part {part:?}: name the place itself"))),
        None => Ok(()),
    }
}

fn below<S: ObjectStore>(store: S, prefix: &Path) -> Arc<dyn ObjectStore> {
    if prefix.as_ref().is_empty() {
        Arc::new(store)
    } else {
        Arc::new(PrefixStore::new(store, prefix.clone()))
    }
}

fn unusable(url: &Url, error: object_store::Error) -> Error {
    Error::invalid(format!("cannot open {url} with these settings")).with_source(error)
}

/// The address of a server, which `object_store` does not validate.
fn checked_endpoint(endpoint: &str) -> Result<&str> {
    let named = endpoint.starts_with("http://") || endpoint.starts_with("https://");
    if !named {
        return Err(Error::invalid(format!(
            "the endpoint needs http:// or https:// in front of {endpoint:?}"
        )));
    }
    match Url::parse(endpoint) {
        Ok(_) => Ok(endpoint),
        Err(e) => Err(Error::invalid(format!("the endpoint {endpoint:?} is not a URL: {e}"))),
    }
}

/// Retries are ours, so that every request is counted.
fn no_retries() -> RetryConfig {
    RetryConfig { backoff: BackoffConfig::default(), max_retries: 0, retry_timeout: Duration::from_secs(0) }
}

fn s3(
    bucket: &Bucket,
    settings: &mut BTreeMap<String, String>,
    options: &OpenOptions,
) -> Result<(Arc<dyn ObjectStore>, String)> {
    let environment = options.environment();
    let profile = profile::read(&environment)?;
    let mut builder = AmazonS3Builder::new().with_conditional_put(S3ConditionalPut::ETagMatch);
    let mut region = None;
    let mut endpoint = None;
    // The S3-specific variable overrides the general one; `object_store` would let it override the URL, too.
    let for_s3 =
        environment.get("AWS_ENDPOINT_URL_S3").map(|value| ("aws_endpoint_url".to_owned(), value.clone()));
    let of_aws =
        environment.iter().filter(|(key, _)| key.starts_with("AWS_") && *key != "AWS_ENDPOINT_URL_S3");
    let from_environment = of_aws.map(|(key, value)| (key.to_ascii_lowercase(), value.clone())).chain(for_s3);
    let from_url =
        ["region", "endpoint"].into_iter().filter_map(|key| Some((key.to_owned(), settings.remove(key)?)));
    // Later ones override: profile, environment, URL.
    for (key, value) in profile.into_iter().chain(from_environment).chain(from_url) {
        let Ok(key) = key.parse::<AmazonS3ConfigKey>() else { continue };
        match key {
            // An empty endpoint means none, as in the vendor's tools.
            AmazonS3ConfigKey::Endpoint if value.is_empty() => continue,
            AmazonS3ConfigKey::Region | AmazonS3ConfigKey::DefaultRegion => region = Some(value.clone()),
            AmazonS3ConfigKey::Endpoint => endpoint = Some(checked_endpoint(&value)?.to_owned()),
            _ => {}
        }
        builder = builder.with_config(key, value);
    }
    let plain = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
    let allow_http = plain || environment.get("AWS_ALLOW_HTTP").is_some_and(|value| value == "true");
    let express = bucket.name.ends_with("--x-s3");
    let store = builder
        .with_bucket_name(&bucket.name)
        .with_client_options(options.client().with_allow_http(allow_http))
        .with_retry(no_retries())
        .with_s3_express(express)
        .build()
        .map_err(|e| unusable(&bucket.url, e))?;
    let prices = match region.as_deref() {
        _ if express => "s3-express-us-east-1",
        Some("ap-northeast-2") => "s3-standard-ap-northeast-2",
        _ => "s3-standard-us-east-1",
    };
    Ok((below(store, &bucket.prefix), prices.to_owned()))
}

fn gcs(bucket: &Bucket, options: &OpenOptions) -> Result<(Arc<dyn ObjectStore>, String)> {
    let environment = options.environment();
    let mut builder = GoogleCloudStorageBuilder::new();
    for (key, value) in
        environment.iter().filter(|(key, _)| key.starts_with("GOOGLE_") || *key == "SERVICE_ACCOUNT")
    {
        if let Ok(key) = key.to_ascii_lowercase().parse::<GoogleConfigKey>() {
            builder = builder.with_config(key, value);
        }
    }
    let mut client = options.client();
    if let Some(emulator) = environment.get("STORAGE_EMULATOR_HOST") {
        // Without OAuth, not only without a signature: writes would ask the metadata server for a token.
        let key = r#"{"client_email": "", "private_key": "", "private_key_id": "", "disable_oauth": true}"#;
        client = client.with_allow_http(true);
        builder = builder.with_base_url(checked_endpoint(emulator)?).with_service_account_key(key);
    }
    let store = builder
        .with_bucket_name(&bucket.name)
        .with_client_options(client)
        .with_retry(no_retries())
        .build()
        .map_err(|e| unusable(&bucket.url, e))?;
    Ok((below(store, &bucket.prefix), "gcs-standard-us".to_owned()))
}

fn azure(bucket: &Bucket, options: &OpenOptions) -> Result<(Arc<dyn ObjectStore>, String)> {
    let mut environment = options.environment();
    if let Some(connection) = environment.remove("AZURE_STORAGE_CONNECTION_STRING") {
        environment.extend(connection_string(&connection)?);
    }
    let mut builder = MicrosoftAzureBuilder::new();
    for (key, value) in environment.iter().filter(|(key, _)| key.starts_with("AZURE_")) {
        let Ok(key) = key.to_ascii_lowercase().parse::<AzureConfigKey>() else { continue };
        if key == AzureConfigKey::Endpoint {
            checked_endpoint(value)?;
        }
        builder = builder.with_config(key, value);
    }
    let with_account = bucket.url.scheme().starts_with("abfs") && !bucket.url.username().is_empty();
    builder = if with_account {
        builder.with_url(bucket.url.as_str())
    } else {
        builder.with_container_name(&bucket.name)
    };
    let plain = environment
        .get("AZURE_STORAGE_ENDPOINT")
        .or(environment.get("AZURE_ENDPOINT"))
        .is_some_and(|endpoint| endpoint.starts_with("http://"));
    let emulator = environment.get("AZURE_STORAGE_USE_EMULATOR").is_some_and(|value| value == "true");
    if !emulator && !with_account && builder.get_config_value(&AzureConfigKey::AccountName).is_none() {
        let url = &bucket.url;
        return Err(Error::invalid(format!(
            "no storage account for {url}: set AZURE_STORAGE_ACCOUNT_NAME or AZURE_STORAGE_CONNECTION_STRING"
        )));
    }
    let client = options.client().with_allow_http(plain || emulator);
    let store = builder
        .with_client_options(client)
        .with_retry(no_retries())
        .build()
        .map_err(|e| unusable(&bucket.url, e))?;
    Ok((below(store, &bucket.prefix), "azure-hot-lrs-us".to_owned()))
}

/// The variables that are equivalent to an Azure connection string.
fn connection_string(text: &str) -> Result<Vec<(String, String)>> {
    let mut variables = Vec::new();
    let (mut protocol, mut account, mut suffix) = ("https", "", None);
    for pair in text.split(';').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let variable = match key {
            "AccountName" => {
                account = value;
                "AZURE_STORAGE_ACCOUNT_NAME"
            }
            "AccountKey" => "AZURE_STORAGE_ACCOUNT_KEY",
            "BlobEndpoint" => "AZURE_STORAGE_ENDPOINT",
            "SharedAccessSignature" => "AZURE_STORAGE_SAS_KEY",
            "UseDevelopmentStorage" => "AZURE_STORAGE_USE_EMULATOR",
            "DefaultEndpointsProtocol" => {
                protocol = value;
                continue;
            }
            "EndpointSuffix" => {
                suffix = Some(value);
                continue;
            }
            // Other services of the account.
            _ if key.ends_with("Endpoint") => continue,
            _ => {
                let what =
                    format!("AZURE_STORAGE_CONNECTION_STRING has the part {key:?}, which is not known");
                return Err(Error::invalid(what));
            }
        };
        variables.push((variable.to_owned(), value.to_owned()));
    }
    let named = variables.iter().any(|(variable, _)| variable == "AZURE_STORAGE_ENDPOINT");
    if let Some(suffix) = suffix.filter(|_| !named) {
        let endpoint = format!("{protocol}://{account}.blob.{suffix}");
        variables.push(("AZURE_STORAGE_ENDPOINT".to_owned(), endpoint));
    }
    Ok(variables)
}

fn file_url(text: &str) -> Result<String> {
    let unusable = || Error::invalid(format!("{text:?} is not a file URL: write file:///directory"));
    let url = Url::parse(text).map_err(|e| unusable().with_source(e))?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err(Error::invalid(format!(
            "{text:?} contains `?` or `#`: write %3F or %23, or the plain path"
        )));
    }
    let path = url.to_file_path().map_err(|()| unusable())?;
    path.into_os_string().into_string().map_err(|_| unusable())
}

fn directory(path: &str, options: &OpenOptions) -> Result<Arc<dyn ObjectStore>> {
    if path.is_empty() {
        return Err(Error::invalid("an empty path is not a repository"));
    }
    check_scheme(path)?;
    let root = FilePath::new(path);
    if options.create {
        std::fs::create_dir_all(root).map_err(|e| directory_error(path, "make", e))?;
    }
    match std::fs::metadata(root) {
        Ok(found) if !found.is_dir() => {
            Err(Error::invalid(format!("{path:?} is a file: a repository is a directory")))
        }
        Ok(_) => Directory::new(root)
            .map(|store| Arc::new(store) as _)
            .map_err(|e| Error::invalid(format!("cannot open the directory {path:?}")).with_source(e)),
        Err(error) => Err(directory_error(path, "open", error)),
    }
}

fn directory_error(path: &str, verb: &str, error: std::io::Error) -> Error {
    use std::io::ErrorKind as K;
    let (kind, advice) = match error.kind() {
        K::NotFound => (ErrorKind::NotFound, "it does not exist: check the path"),
        K::PermissionDenied => (ErrorKind::Denied, "access denied: check its owner and mode"),
        K::ReadOnlyFilesystem => (ErrorKind::Denied, "the file system is mounted read-only"),
        K::StorageFull | K::QuotaExceeded => (ErrorKind::Exhausted, "no space left"),
        K::AlreadyExists | K::NotADirectory => (ErrorKind::Invalid, "a file is in the way"),
        _ => (ErrorKind::Unavailable, "the file system failed"),
    };
    Error::new(kind, format!("cannot {verb} the directory {path:?}: {advice}")).with_source(error)
}

#[cfg(test)]
mod tests;
