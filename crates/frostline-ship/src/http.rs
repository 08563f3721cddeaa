//! Requests to a server over HTTP.

use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use frostline_base::{Error, Result};
use reqwest::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
};
use tokio::runtime::Handle;
use url::Url;

const CONNECT: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(120);
/// Answers are short; what is longer is none of this protocol.
const REPLY_BYTES_MAX: usize = 64 << 20;

/// Where a server is, and how it is spoken to.
#[derive(Clone, Debug)]
pub struct Access {
    /// `http://` or `https://`, perhaps with a path.
    pub url: String,
    /// Who asks.
    pub credentials: Option<Credentials>,
    /// Certificates in PEM that may sign the server's, beside those of the system.
    pub ca: Option<PathBuf>,
}

/// Who asks. No log shows it.
#[derive(Clone)]
pub enum Credentials {
    /// An API key as the server printed it.
    ApiKey(String),
    /// A user and the password.
    Basic(String, String),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(…)")
    }
}

/// What is posted.
#[derive(Clone, Debug)]
pub struct Request {
    /// Appended to the server's URL.
    pub path: String,
    /// The media type of the body.
    pub content_type: &'static str,
    /// A header more.
    pub header: Option<(&'static str, String)>,
    /// The body, before it is compressed.
    pub body: Vec<u8>,
}

/// What a server answered.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// How long to wait before the next request.
    pub retry_after: Option<Duration>,
    /// The body.
    pub body: Vec<u8>,
}

/// Posts requests. It blocks: not for a thread of the runtime.
pub trait Post: Send + Sync {
    /// The answer, or why there is none.
    fn post(&self, request: &Request) -> std::result::Result<Reply, String>;
}

/// A server.
pub struct Http {
    client: reqwest::Client,
    url: Url,
    runtime: Handle,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("url", &self.url.as_str()).finish_non_exhaustive()
    }
}

impl Http {
    /// The server that `access` names. `Invalid` where that cannot be one.
    pub fn new(access: &Access) -> Result<Http> {
        let url = parse(&access.url)?;
        let mut headers = HeaderMap::new();
        if let Some(credentials) = &access.credentials {
            let text = match credentials {
                Credentials::ApiKey(key) => format!("ApiKey {key}"),
                Credentials::Basic(user, password) => {
                    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
                }
            };
            let value = HeaderValue::from_str(&text);
            let mut value =
                value.map_err(|_| Error::invalid("the API key has characters that no key can have"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let mut client = reqwest::Client::builder()
            .user_agent(concat!("frostline/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .timeout(ANSWER);
        if let Some(path) = &access.ca {
            let cannot =
                |why: &str| Error::invalid(format!("cannot use the certificates of {}{why}", path.display()));
            let pem = std::fs::read(path).map_err(|error| cannot("").with_source(error))?;
            let certificates = reqwest::Certificate::from_pem_bundle(&pem);
            let certificates = certificates.map_err(|error| cannot("").with_source(error))?;
            if certificates.is_empty() {
                return Err(cannot(": there are none in it"));
            }
            for certificate in certificates {
                client = client.add_root_certificate(certificate);
            }
        }
        let client =
            client.build().map_err(|error| Error::invalid("cannot speak HTTP").with_source(error))?;
        Ok(Http { client, url, runtime: Handle::current() })
    }

    /// The answer, or why there is none.
    pub async fn send(&self, request: &Request) -> std::result::Result<Reply, String> {
        let mut url = self.url.clone();
        let path = format!("{}{}", url.path().trim_end_matches('/'), request.path);
        match path.split_once('?') {
            Some((path, query)) => {
                url.set_path(path);
                url.set_query(Some(query));
            }
            None => url.set_path(&path),
        }
        let body = packed(&request.body).map_err(|error| error.to_string())?;
        let mut post = self.client.post(url).header(CONTENT_TYPE, request.content_type);
        if let Some((name, value)) = &request.header {
            let value = HeaderValue::from_str(value).map_err(|error| error.to_string())?;
            post = post.header(HeaderName::from_static(name), value);
        }
        let sent = post.header(CONTENT_ENCODING, "gzip").body(Bytes::from(body)).send().await;
        let mut answer = sent.map_err(|error| chain(&error.without_url()))?;
        let seconds =
            answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let mut reply = Reply {
            status: answer.status().as_u16(),
            retry_after: seconds.map(Duration::from_secs),
            body: Vec::new(),
        };
        while let Some(bytes) = answer.chunk().await.map_err(|error| chain(&error.without_url()))? {
            if reply.body.len() + bytes.len() > REPLY_BYTES_MAX {
                return Err("the answer has more than 64 MiB".to_owned());
            }
            reply.body.extend_from_slice(&bytes);
        }
        Ok(reply)
    }
}

impl Post for Http {
    fn post(&self, request: &Request) -> std::result::Result<Reply, String> {
        self.runtime.block_on(self.send(request))
    }
}

/// The URL of a server.
pub(crate) fn parse(text: &str) -> Result<Url> {
    let wrong = |why: &str| Error::invalid(format!("{why}: write http://HOST:PORT or https://HOST:PORT"));
    // An error never repeats the text: it may hold a password.
    let url = Url::parse(text).map_err(|error| wrong("the server is no URL").with_source(error))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("the server is no URL of HTTP"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::invalid("the URL of the server has a user or a password: give them as options"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("the URL of the server has a query or a fragment"));
    }
    Ok(url)
}

fn packed(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::with_capacity(body.len() / 4), Compression::fast());
    packer.write_all(body)?;
    packer.finish()
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(": ");
        line.push_str(&error.to_string());
        cause = error.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_without_secrets_name_servers() {
        assert_eq!(parse("https://logs.example:9200/es").unwrap().path(), "/es");
        for (wrong, why) in [
            ("logs:9200", "is no URL of HTTP"),
            ("", "is no URL"),
            ("ftp://a", "is no URL of HTTP"),
            ("http://u:secret@a", "has a user or a password"),
            ("http://a/?x=1", "has a query"),
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(error.what().contains(why) && !error.what().contains("secret"), "{wrong}: {error}");
        }
    }

    #[test]
    fn no_log_shows_credentials() {
        let all = [Credentials::ApiKey("secret".into()), Credentials::Basic("u".into(), "secret".into())];
        assert!(!format!("{all:?}").contains("secret"));
    }
}
